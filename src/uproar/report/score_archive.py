"""Scores kept beside their page, so that the page, tables and figures can be written again."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from uproar.data.arrays import read_arrays
from uproar.errors import BadInput
from uproar.report.drawing import scaled_map
from uproar.results.evaluator import EvaluatorBits
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import Curves, Line, Scores
from uproar.results.study import Results

KINDS = {kind.__name__: kind for kind in (Scores, Curves, Line, EvaluatorBits, NetworkQuality, Prediction)}
"""What may be in the archive."""
FACTS, ARRAYS = "scores.json", "scores.npz"
"""Beside scores.csv, comparisons.csv and per_image.parquet, which hold the numbers."""


def archive_files(scores: Results | Scores) -> dict[str, bytes]:
    """What the tables beside the page do not hold: mean curves, pictures, and how the numbers were made.

    Runs need no archive: their store has everything.
    """
    if not isinstance(scores, Scores):
        return {}
    empty, arrays = pd.DataFrame(), dict[str, np.ndarray]()
    images = None if scores.images is None else np.asarray(scores.images, dtype=np.float16)
    maps = {
        name: np.array([scaled_map(np.asarray(each, float)) for each in values]).astype(np.float16)
        for name, values in scores.maps.items()
    }
    rest = replace(scores, table=empty, per_image=empty, comparisons=empty, images=images, maps=maps)
    facts = json.dumps(
        _packed(rest, arrays), default=lambda value: value.item() if hasattr(value, "item") else str(value)
    )
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return {ARRAYS: content.getvalue(), FACTS: (facts + "\n").encode()}


def read_archive(folder: Path) -> Scores:
    """The scores of a folder that `uproar score` wrote."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        table = pd.read_csv(folder / "scores.csv").astype({"note": object, "role": str}).fillna({"note": ""})
        pairs = pd.read_csv(folder / "comparisons.csv")
        pairs["against"] = pairs["against"].astype(object).fillna("")  # an empty cell of a file
        per_image = pd.read_parquet(folder / "per_image.parquet")
        scores: Scores = _unpacked(facts, read_arrays(str(folder / ARRAYS)))
        return replace(scores, table=table, per_image=per_image, comparisons=pairs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"The scores in {folder} cannot be read ({error}): score the maps again with uproar score."
        ) from None


def _packed(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON has it, its arrays put aside by number."""
    if isinstance(value, np.ndarray):
        arrays[str(len(arrays))] = value
        return {"array": str(len(arrays) - 1)}
    if isinstance(value, pd.DataFrame):
        return {"table": value.to_dict("list")}
    if is_dataclass(value):
        return {
            type(value).__name__: {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value)}
        }
    if isinstance(value, Mapping):
        return {"mapping": [[_packed(item, arrays) for item in pair] for pair in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(item, arrays) for item in value]
    return value


def _unpacked(packed: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What was packed; lists come back as tuples."""
    if isinstance(packed, list):
        return tuple(_unpacked(item, arrays) for item in packed)
    if not isinstance(packed, dict):
        return packed
    ((kind, content),) = packed.items()
    if kind == "array":
        return arrays[content]
    if kind == "table":
        return pd.DataFrame(content)
    if kind == "mapping":
        return dict(_unpacked(pair, arrays) for pair in content)
    return KINDS[kind](**{name: _unpacked(item, arrays) for name, item in content.items()})
