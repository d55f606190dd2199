"""Several random rankings per replicate: one baseline, the mean of them, wherever results are read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.report.test_score_report import scores_of
from tests.results.test_view import MODEL, TASK, cells, results
from uproar.metrics.evaluation import RESAMPLED, Evaluation, average_evaluations
from uproar.results.evidence import Control
from uproar.results.study import merge_baseline
from uproar.statistics.comparisons import against_random
from uproar.statistics.design import random_ranking

RANKINGS = [random_ranking(draw) for draw in range(3)]
LEVELS = {"random": 0.8, "grad": 0.6, "ig": 0.79, **dict.fromkeys(RANKINGS[1:], 0.8)}


@pytest.fixture
def made():
    return results(cells("roar", LEVELS), random_rankings=3)


def by_hand(table: pd.DataFrame) -> pd.DataFrame:
    """The tidy table whose baseline is the mean over the rankings, without the code under test."""
    points: dict[tuple, list[float]] = {}
    for row in table[table["status"] == "done"].itertuples():
        name = "random" if row.estimator.startswith("random") else row.estimator
        points.setdefault((name, row.seed, row.fraction), []).append(row.accuracy)
    rows = [(*place, math.fsum(values) / len(values)) for place, values in points.items()]
    return pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])


def test_verdicts_are_those_against_the_mean_of_the_rankings(made):
    again = against_random(by_hand(made.cells))
    for column in ("advantage", "low", "high", "se", "df", "p", "p_holm"):
        assert np.allclose(made.verdicts[column], again[column], rtol=1e-12), column
    alone = against_random(by_hand(made.cells[~made.cells["estimator"].isin(RANKINGS[1:])]))
    assert not np.allclose(made.verdicts["advantage"], alone["advantage"], rtol=1e-6)
    assert set(made.verdicts["random_rankings"]) == {3}


def test_further_rankings_are_estimators_nowhere_but_in_the_table(made):
    view = made.view(TASK, MODEL)
    assert set(made.cells["estimator"]) == set(LEVELS)
    for frame in (view.cells, view.done, view.curves("roar"), view.intervals["roar"]):
        assert set(frame["estimator"]) == {"random", "grad", "ig"}
    assert set(made.comparisons["better"]) | set(made.comparisons["worse"]) == {"random", "grad", "ig"}
    assert set(view.areas("roar").index) == {"random", "grad", "ig"}


def test_rankings_that_failed_leave_the_mean_of_the_others(made):
    broken = made.cells.copy()
    lost = (broken["estimator"] == "random") & (broken["seed"] == 1) | (
        (broken["estimator"] == RANKINGS[2]) & (broken["fraction"] == 0.9)
    )
    broken.loc[lost & (broken["fraction"] > 0), ["status", "accuracy"]] = ["failed", np.nan]
    again = results(broken, random_rankings=3)
    expected = against_random(by_hand(broken))
    assert np.allclose(again.verdicts["p"], expected["p"], rtol=1e-12)
    assert set(again.verdicts["random_rankings"]) == {2} and set(again.verdicts["n"]) == {5}


def test_a_row_where_no_ranking_is_finished_stays_as_it_is():
    rows = [
        ("random", 0, "failed", np.nan, "why"),
        ("random(draw=1)", 0, "missing", np.nan, ""),
        ("grad", 0, "done", 0.5, ""),
    ]
    table = pd.DataFrame(rows, columns=["estimator", "seed", "status", "accuracy", "reason"])
    merged = merge_baseline(table, RANKINGS[1:], ["accuracy"])
    assert merged[["estimator", "status", "reason"]].to_numpy().tolist() == [
        ["random", "failed", "why"],
        ["grad", "done", ""],
    ]


def test_a_study_of_before_has_one_ranking():
    before = results(cells("roar", {"random": 0.8, "grad": 0.6}))
    assert before.further_rankings == () and set(before.verdicts["random_rankings"]) == {1}


def test_metrics_of_several_random_maps_are_averaged_image_by_image():
    def one(value, resampled):
        arrays = {
            "value": np.array(value),
            "curve": np.array([[v, 1.0] for v in value]),
            RESAMPLED: np.array(resampled),
        }
        return Evaluation(arrays, {"value": float(np.nanmean(value)), "n": 2, "nan": 0, "note": "", "tied": 0.0})

    mean = average_evaluations([one([0.2, 0.4], [0.1, 0.5]), one([0.4, np.nan], [0.3, 0.7])])
    assert mean.arrays["value"].tolist() == pytest.approx([0.3, 0.4])
    assert mean.arrays["curve"][:, 0].tolist() == pytest.approx([0.3, 0.4])
    assert mean.arrays[RESAMPLED].tolist() == pytest.approx([0.2, 0.6])
    assert mean.value == pytest.approx((0.3 + 0.4) / 2)
    assert average_evaluations([]) is None


def frame(*rows):
    return pd.DataFrame(rows, columns=["side", "high"])


@pytest.mark.parametrize(
    ("rows", "room", "state"),
    [
        ([(1, 0.3), (-1, -0.1)], 0.5, "passed"),
        ([(0, 0.3), (-1, -0.1)], 0.5, "failed"),  # random is among the best
        ([(0, 0.04), (0, 0.02)], 0.5, "failed"),  # none can be better by a tenth of .5
        ([(0, 0.06), (0, 0.02)], 0.5, "undecided"),
        ([(0, np.nan), (0, 0.02)], 0.5, "undecided"),  # one without a test could be anything
        ([(0, 0.04)], np.nan, "undecided"),
    ],
)
def test_a_metric_that_finds_no_method_better_than_random_is_marked(rows, room, state):
    assert Control.of(frame(*rows), room).state == state


def test_a_control_says_how_many_are_better_and_worse():
    sentences = [Control.of(frame(*rows)).sentence for rows in ([(1, 0.3)] * 2 + [(-1, 0.0)], [(0, 0.3)], [])]
    assert sentences == [
        "2 of 3 methods are significantly above `random`, 1 significantly below",
        "none of 1 method is significantly above `random`",
        "no method was tested against `random`",
    ]


def test_the_control_of_a_metric_is_read_from_its_pairs_with_random():
    levels = {
        "deletion": {"random": 0.3, "grad": 0.3, "ig": 0.5, "sobel": 0.1},
        "insertion": {"random": 0.5, "ig": 0.7},
    }
    scores = scores_of(levels)
    assert {name: (c.state, c.better, c.worse) for name, c in scores.negative_controls.items()} == {
        "deletion": ("failed", 0, 1),
        "insertion": ("passed", 1, 0),
    }
    own = scores.table.assign(role=scores.table["role"].where(scores.table["method"] != "random", "method"))
    assert not replace(scores, table=own).negative_controls, "somebody's own maps of that name are no control"


def test_a_view_says_which_metrics_cannot_judge(made):
    assert made.view(TASK, MODEL).negative_controls["roar"].state == "passed" and set(made.verdicts["control"]) == {
        "passed"
    }
    worse = results(cells("roar", {"random": 0.6, "grad": 0.8, "ig": 0.79}))
    assert worse.view(TASK, MODEL).negative_controls["roar"].state == "failed"
    assert worse.negative_controls[["measure", "control", "worse"]].to_numpy().tolist() == [["roar", "failed", 2]]
    assert set(worse.comparisons["control"]) == {"failed"}
