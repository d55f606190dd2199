"""Results made by hand: every number in them is known beforehand."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import pytest

from uproar.results.study import COLUMNS, Picture, Results

from ..roles import ROLES

DIRECTIONS = {"roar": False, "kar": True, "decoupled": False, "roar:no-retrain": False, "kar:no-retrain": True}
FRACTIONS = (0.5, 0.9)


def cells(
    levels: Mapping[str, Mapping[str, float]],
    seeds: int = 5,
    noise: float = 0.002,
    task: str = "digits",
    model: str = "cnn",
) -> list[dict]:
    """Rows of flat curves: `levels[metric][estimator]` is the mean accuracy at every own fraction.

    The noise of a cell sums to zero over five seeds and differs between estimators, so that means are
    exact and a residual variance exists. Plain training reaches 0.95 throughout.
    """
    rows = []
    for metric, by_name in levels.items():
        plain = 1.0 if DIRECTIONS[metric] else 0.0
        for place, (estimator, level) in enumerate(by_name.items()):
            for seed in range(seeds):
                wave = noise * ((seed + place) % 5 - 2)
                for fraction in (plain, *FRACTIONS):
                    value = 0.95 if fraction == plain else level + wave
                    rows.append(row(task, model, estimator, metric, fraction, seed, value))
    return rows


def row(task, model, estimator, metric, fraction, seed, accuracy, **changes) -> dict:
    return {
        "task": task,
        "model": model,
        "estimator": estimator,
        "metric": metric,
        "fraction": fraction,
        "seed": seed,
        "status": "done",
        "accuracy": accuracy,
        "images": 100,
        "ties": 0.0,
        "seconds": 1.0,
        "reason": "",
        **changes,
    }


def results_of(rows: list[dict], **changes) -> Results:
    """Results around a list of rows; costs follow from the estimators' names."""
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    pairs = table[["task", "model", "estimator"]].drop_duplicates()
    costs = pairs.assign(
        passes=[0.0 if e in ("random", "sobel") else 2.0 for e in pairs["estimator"]],
        milliseconds_per_image=[float(i + 1) for i in range(len(pairs))],
        constant_maps=0,
        explained_images=300,
    )
    settings = {
        "study": {"name": "made by hand", "weights": None, "recipe": {"epochs": 2}},
        "cells": table,
        "costs": costs,
        "roles": ROLES,
        "provenance": {"versions": {"uproar": "0.1.0"}, "python": "3.11.7"},
    }
    return Results(**{**settings, **changes})


def picture(estimators, fractions=FRACTIONS, metrics=("roar", "kar"), size=(4, 4), **names) -> Picture:
    """A grey ramp; the changed image of estimator i at fraction t is filled with one known value."""
    image = np.arange(size[0] * size[1], dtype=np.uint8).reshape(size) * (255 // (size[0] * size[1]))
    maps = {e: np.full(size, 1.0 if i % 2 else -1.0) for i, e in enumerate(estimators)}
    changed = {
        (p, e, t): np.full(size, 10 * i + int(10 * t), dtype=np.uint8)
        for p in metrics
        for i, e in enumerate(estimators)
        for t in fractions
    }
    task, model = names.get("task", "digits"), names.get("model", "cnn")
    return Picture(task, model, "test image 7: <b>7</b>", image, maps, changed)


@pytest.fixture
def make_cells() -> Callable[..., list[dict]]:
    return cells


@pytest.fixture
def make_results() -> Callable[..., Results]:
    return results_of


@pytest.fixture
def make_row() -> Callable[..., dict]:
    return row


@pytest.fixture
def make_picture() -> Callable[..., Picture]:
    return picture


@pytest.fixture
def plain_case() -> Results:
    """grad is better than random under both metrics, ig cannot be told apart, sobel is worse."""
    levels = {"random": 0.80, "grad": 0.60, "ig": 0.80, "sobel": 0.90}
    kept = {"random": 0.50, "grad": 0.70, "ig": 0.50, "sobel": 0.40}
    asked = {"random": 0.60, "grad": 0.20, "ig": 0.30, "sobel": 0.55}
    rows = cells({"roar": levels, "kar": kept, "roar:no-retrain": asked})
    return results_of(rows, pictures=(picture(list(levels)),))
