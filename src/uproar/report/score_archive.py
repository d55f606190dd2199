"""Scores kept beside their page, so that the page, tables and figures can be made again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uproar.arrays import read_arrays
from uproar.errors import BadInput
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Curves, Line, Scores

FACTS, ARRAYS = "scores.json", "scores.npz"
"""Beside scores.csv, comparisons.csv and per_image.parquet, which hold the numbers."""


def archive_files(scores: Scores) -> dict[str, bytes]:
    """What the tables beside the page do not hold: mean curves, pictures, and how the numbers were made."""
    arrays: dict[str, np.ndarray] = {}
    names = {"curves": list(scores.curves), "maps": list(scores.maps), "methods": []}
    for place, curves in enumerate(scores.curves.values()):
        arrays[f"curve{place}"] = np.asarray(curves.fractions, dtype=float)
        for method, line in curves.lines.items():
            if method not in names["methods"]:
                names["methods"].append(method)
            number = names["methods"].index(method)
            arrays[f"curve{place}-{number}"] = np.stack([line.mean, line.half, line.n])
    if scores.images is not None:
        arrays["images"] = np.asarray(scores.images, dtype=np.float16)
    for place, maps in enumerate(scores.maps.values()):
        arrays[f"map{place}"] = _scaled(np.asarray(maps, dtype=float)).astype(np.float16)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    facts = {
        "names": names,
        "forwards": scores.forwards,
        "titles": scores.titles,
        "notices": scores.notices,
        "provenance": scores.provenance,
        "replicates": scores.replicates,
        "quality": None if scores.quality is None else asdict(scores.quality),
        "predictions": [asdict(one) for one in scores.predictions],
    }
    text = json.dumps(facts, indent=1, default=str)
    return {ARRAYS: content.getvalue(), FACTS: (text + "\n").encode()}


def read_archive(folder: Path) -> Scores:
    """The scores of a folder that `uproar score` wrote."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        table = pd.read_csv(folder / "scores.csv")
        pairs = pd.read_csv(folder / "comparisons.csv")
        per_image = pd.read_parquet(folder / "per_image.parquet")
        arrays = read_arrays(str(folder / ARRAYS))
        return _scores(table.astype({"note": object}).fillna({"note": ""}), per_image, pairs, facts, arrays)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"The scores in {folder} cannot be read ({error}): score the maps again with uproar score."
        ) from None


def _scores(
    table: pd.DataFrame,
    per_image: pd.DataFrame,
    pairs: pd.DataFrame,
    facts: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> Scores:
    names, quality = facts["names"], facts["quality"]
    curves = {}
    for place, metric in enumerate(names["curves"]):
        lines = {
            method: _line(arrays[f"curve{place}-{k}"])
            for k, method in enumerate(names["methods"])
            if f"curve{place}-{k}" in arrays
        }
        curves[metric] = Curves(arrays[f"curve{place}"], lines)
    return Scores(
        table,
        per_image,
        pairs,
        curves,
        forwards=int(facts["forwards"]),
        images=arrays.get("images"),
        maps={name: arrays[f"map{k}"] for k, name in enumerate(names["maps"])},
        titles=tuple(facts["titles"]),
        provenance=facts["provenance"],
        notices=tuple(facts["notices"]),
        replicates=int(facts["replicates"]),
        quality=None if quality is None else NetworkQuality(**quality),
        predictions=tuple(Prediction(**one) for one in facts["predictions"]),
    )


def _line(rows: np.ndarray) -> Line:
    mean, half, n = rows
    return Line(mean, half, n.astype(int))


def _scaled(maps: np.ndarray) -> np.ndarray:
    """Each map by its own largest size, as pictures show it."""
    finite = np.where(np.isfinite(maps), np.abs(maps), 0.0)
    largest = finite.reshape(len(maps), -1).max(1, initial=0.0)
    return np.asarray(maps / np.where(largest > 0, largest, 1.0)[:, None, None])
