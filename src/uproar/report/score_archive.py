"""Scores kept beside their page, so that the page, tables and figures can be written again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uproar.data.arrays import read_arrays
from uproar.errors import BadInput
from uproar.results.evaluator import EvaluatorBits
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Curves, Line, Scores

PARTS = ("own", "shifted")
"""The arrays of an evaluator."""
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
    facts = {
        "names": names,
        "forwards": scores.forwards,
        "titles": scores.titles,
        "notices": scores.notices,
        "provenance": scores.provenance,
        "replicates": scores.replicates,
        "quality": None if scores.quality is None else asdict(scores.quality),
        "predictions": [asdict(one) for one in scores.predictions],
        "costs": scores.costs.to_dict("records"),
        "left_out": dict(scores.left_out),
        "layers": dict(scores.layers),
        "evaluators": [_evaluator_facts(place, *one, arrays) for place, one in enumerate(scores.evaluations.items())],
    }
    text = json.dumps(facts, indent=1, default=str)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return {ARRAYS: content.getvalue(), FACTS: (text + "\n").encode()}


def read_archive(folder: Path) -> Scores:
    """The scores of a folder that `uproar score` wrote."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        table = pd.read_csv(folder / "scores.csv")
        if "role" not in table:
            raise KeyError("an earlier version wrote them")
        pairs = pd.read_csv(folder / "comparisons.csv")
        pairs["against"] = pairs["against"].astype(object).fillna("")  # an empty cell of a file
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
        costs=pd.DataFrame(facts.get("costs", [])),
        left_out=facts.get("left_out", {}),
        layers=facts.get("layers", {}),
        evaluations={one["target"]: _evaluator_bits(one, arrays) for one in facts.get("evaluators", [])},
    )


def _evaluator_facts(place: int, target: str, bits: EvaluatorBits, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """What an evaluator says, its numbers among the arrays."""
    cells: list[dict[str, Any]] = []
    for part, by_cell in ((name, getattr(bits, name)) for name in PARTS):
        for (estimator, keeps), values in by_cell.items():
            name = f"evaluator{place}-{len(cells)}"
            arrays[name] = np.asarray(values, dtype=np.float64)
            cells.append({"part": part, "estimator": estimator, "keeps": bool(keeps), "array": name})
    facts: dict[str, Any] = {"target": target, "kinds": dict(bits.kinds), "models": list(bits.models), "cells": cells}
    facts |= {"excess": dict(bits.excess), "entropy": bits.entropy if np.isfinite(bits.entropy) else None}
    return facts if bits.images is None else {**facts, "images": bits.images.tolist()}


def _evaluator_bits(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> EvaluatorBits:
    parts: dict[str, dict[tuple[str, bool], np.ndarray]] = {name: {} for name in PARTS}
    for cell in facts["cells"]:
        parts[cell["part"]][cell["estimator"], cell["keeps"]] = arrays[cell["array"]]
    images = np.asarray(facts["images"], dtype=np.int64) if "images" in facts else None
    entropy = np.nan if facts["entropy"] is None else float(facts["entropy"])
    facts = {"kinds": facts["kinds"], "models": tuple(facts["models"]), "excess": facts["excess"], **parts}
    return EvaluatorBits(images=images, entropy=entropy, **facts)


def _line(rows: np.ndarray) -> Line:
    mean, half, n = rows
    return Line(mean, half, n.astype(int))


def _scaled(maps: np.ndarray) -> np.ndarray:
    """Each map by its own largest size, as pictures show it."""
    finite = np.where(np.isfinite(maps), np.abs(maps), 0.0)
    largest = finite.reshape(len(maps), -1).max(1, initial=0.0)
    return np.asarray(maps / np.where(largest > 0, largest, 1.0)[:, None, None])
