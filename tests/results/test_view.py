"""Results as one view per task and model: which cells are compared, and how often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uproar.metrics.retraining import RETRAININGS
from uproar.results import study as views
from uproar.results.study import COLUMNS, TABLE_COLUMNS, Results

from ..roles import ROLES

TASK, MODEL = "digits", "cnn"
FRACTIONS = {"roar": (0.0, 0.5, 0.9), "kar": (0.1, 0.5, 1.0), "roar:mask": (0.5,)}


def cells(metric: str, levels: dict[str, float], fractions=(), seeds: int = 5) -> pd.DataFrame:
    draws = np.random.default_rng(0)
    plain = RETRAININGS[metric].plain
    rows = [
        {
            "task": TASK,
            "model": MODEL,
            "estimator": name,
            "metric": metric,
            "fraction": t,
            "seed": seed,
            "status": "done",
            "accuracy": 0.95 if t == plain else level + 0.002 * draws.normal(),
        }
        for name, level in levels.items()
        for t in fractions or FRACTIONS[metric]
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def results(*tables: pd.DataFrame, **study) -> Results:
    table = pd.concat(tables, ignore_index=True)
    return Results(study, table, pd.DataFrame(), roles=ROLES)


LEVELS = {"random": 0.8, "grad": 0.6, "ig": 0.7}


def test_the_shared_plain_training_alone_is_no_curve():
    skipped = cells("roar", {"cam": 0.5})
    skipped = skipped[skipped["fraction"] == 0.0]
    made = results(cells("roar", LEVELS), skipped)
    view = made.view(TASK, MODEL)
    assert set(view.curves("roar")["estimator"]) == set(LEVELS)
    assert view.verdicts["roar"].attrs["fractions"] == [0.0, 0.5, 0.9]
    assert view.areas("roar").shape == (3, 5)
    assert set(view.curves("roar", plain=False)["fraction"]) == {0.5, 0.9}


def test_where_everything_is_kept_kar_is_plain():
    made = results(cells("kar", LEVELS))
    assert set(made.own_cells["fraction"]) == {0.1, 0.5}
    assert set(made.view(TASK, MODEL).curves("kar", plain=False)["fraction"]) == {0.1, 0.5}


def test_cells_without_a_number_take_no_part():
    empty = cells("roar", {"cam": 0.5})
    empty.loc[empty["fraction"] > 0, "accuracy"] = np.nan
    made = results(cells("roar", LEVELS), empty)
    assert set(made.verdicts["estimator"]) == {"grad", "ig"}


@pytest.mark.parametrize("study", [{}, {"until_decided": True}])
def test_verdicts_are_computed_once(monkeypatch, study):
    counted = []
    for name in ("against_random", "sequential"):
        original = getattr(views, name)
        monkeypatch.setattr(views, name, lambda *a, f=original, **k: counted.append(1) or f(*a, **k))
    made = results(cells("roar", LEVELS), cells("kar", LEVELS), **study)
    assert made.verdicts is made.verdicts and len(made.spent) == (4 if study else 0)
    assert made.trust.empty and list(made.view(TASK, MODEL).verdicts) == ["roar", "kar"]
    assert len(counted) == 2  # once per metric


def test_other_results_have_verdicts_of_their_own():
    made = results(cells("roar", LEVELS))
    assert len(made.verdicts) == 2
    fewer = replace(made, cells=made.cells[made.cells["estimator"] != "ig"])
    assert list(fewer.verdicts["estimator"]) == ["grad"]


def test_curves_without_a_common_fraction_are_named_and_leave_the_others_their_verdicts():
    hidden = cells("roar:mask", {"random": 0.8}), cells("roar:mask", {"grad": 0.6}, (0.9,))
    made = results(cells("roar", LEVELS), *hidden)
    assert set(made.verdicts["metric"]) == {"roar"}
    assert "No fraction is common" in made.view(TASK, MODEL).remarks["roar:mask"]
    assert set(made.intervals["metric"]) == {"roar", "roar:mask"}


def test_replicates_spent_are_those_with_a_cell_of_their_own():
    made = results(cells("roar", {"random": 0.8, "grad": 0.6}, seeds=5), until_decided=True)
    more = made.cells[(made.cells["estimator"] == "grad") & (made.cells["fraction"] == 0.0)][:1].assign(seed=7)
    spent = replace(made, cells=pd.concat([made.cells, more], ignore_index=True)).spent
    assert list(spent["replicates"]) == [5] and not spent["open"].any()


def test_the_table_has_every_number_once_and_what_is_not_done_with_its_reason():
    frame = cells("roar", LEVELS).astype({"reason": object})
    frame.loc[0, ["status", "reason", "accuracy"]] = ["failed", "it diverged", np.nan]
    table = results(frame).table
    assert list(table) == list(TABLE_COLUMNS) and len(table) == len(frame)
    assert table.loc[0, ["method", "status", "reason"]].tolist() == [frame["estimator"][0], "failed", "it diverged"]
    by_hand = frame[frame["estimator"] == "ig"].groupby("fraction")["accuracy"].mean()
    again = table[table["method"] == "ig"].groupby("fraction")["value"].mean()
    np.testing.assert_allclose(again, by_hand)
    assert set(table["role"]) == {"method", "random"} and table["image"].isna().all()
