"""The checks that come with an evaluator: whom they ask, of which images, what they say, and what follows."""

from __future__ import annotations

import numpy as np
import pytest

import uproar
from tests.readings import reading_of
from tests.study.conftest import SMALL
from uproar.expression import parse
from uproar.metrics.evaluator import judged_rows
from uproar.metrics.registry import CHECK_IMAGES, CHECKS
from uproar.results.answer import LIMITS
from uproar.study.collect import evaluation
from uproar.study.grid import scores_of, settings_of

SANITY, STABILITY = CHECKS["sanity"], CHECKS["stability"]
TASK = "planted(size=8, classes=3, train=60, test=90)"
EDGES = """
import torch, uproar

@uproar.estimator(passes=0)
def edges(model, x, target):
    return x.sum(1).diff(dim=2, prepend=x.sum(1)[:, :, :1]).abs()

@uproar.estimator(passes=1)
def cannot(model, x, target):
    if x.amin() < 0:
        raise RuntimeError("no image is that dark")
    return x.sum(1) * model(x).amax(1)[:, None, None]
"""


def study_with(**changes):
    return uproar.study_of(
        {**SMALL, "task": TASK, "metrics": ["evaluator", *CHECKS], "estimators": ["grad", "sq(grad)"], **changes}
    )


def test_a_check_is_the_metric_of_some_test_images(tmp_path):
    """The same numbers by two ways: the check, and the metric of all test images, of which the same rows are taken."""
    study = study_with(seeds=1)
    uproar.run(study, store=tmp_path, jobs=1)
    whole = study_with(seeds=1, metrics=[SANITY, STABILITY])
    uproar.run(whole, store=tmp_path, jobs=1)
    reading, complete, rows = reading_of(study, tmp_path), reading_of(whole, tmp_path), None
    for check in scores_of(study, reading.setting):
        rows = judged_rows(reading.task.test, CHECK_IMAGES).numpy()
        (unit,) = [
            cell
            for cell in scores_of(whole, complete.setting)
            if (cell.estimator, cell.metric) == (check.estimator, check.metric)
        ]
        some, every = evaluation(reading, check).arrays["value"], evaluation(complete, unit).arrays["value"]
        assert len(some) == CHECK_IMAGES < len(every)
        np.testing.assert_allclose(some, every[rows], rtol=1e-5, atol=1e-6)
    assert rows is not None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [SANITY, STABILITY]),
        ({"metrics": ["roar"]}, []),
        ({"metrics": ["roar", "stability"]}, [STABILITY]),
        ({"metrics": ["sanity", "total_variation"]}, [SANITY]),
    ],
)
def test_checks_are_metrics_with_names_of_their_own(changes, expected):
    assert study_with(**changes).check_names == expected


def test_controls_and_given_maps_are_not_asked():
    study = study_with(estimators=["random", "sobel", "gaussian(brightness)", "oracle", "grad", "gaussian(grad)"])
    (setting,) = settings_of(study)
    assert {cell.estimator for cell in scores_of(study, setting)} == {"grad", "gaussian(grad)"}


def test_every_check_has_a_limit():
    assert {parse(check).name for check in CHECKS.values()} == set(LIMITS)


def test_a_method_that_never_asks_the_network_is_flagged_and_a_check_that_fails_is_a_problem(tmp_path):
    plugin = tmp_path / "edges.py"
    plugin.write_text(EDGES)
    study = study_with(estimators=["grad", "edges", "cannot"], plugins=[str(plugin)])
    results = uproar.run(study, store=f"memory://{tmp_path.name}", jobs=1)
    answer = results.answer
    assert [flag.kind for flag in answer.flags["edges"]] == ["fails sanity"]
    assert "grad" not in answer.flags
    failed = results.scores[results.scores["status"] == "failed"]
    assert set(failed["estimator"]) == {"cannot"} and failed["check"].all()
    assert results.problems["reason"].str.contains("no image is that dark").any()


def test_checks_are_no_metrics(tmp_path):
    """They are in no table of metrics, no judge of the answer and no evidence of claims; their values are in a file."""
    study = study_with()
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    (view,) = results.views
    assert view.scores.empty and view.metric_scores is None and results.image_scores.empty
    assert [metric.kind for metric in results.answer.metrics] == ["label evaluator"]
    assert set(view.check_scores.table["metric"]) == {SANITY, STABILITY}
    results.report(tmp_path / "report")
    assert (tmp_path / "report" / "checks.csv").is_file() and not (tmp_path / "report" / "scores.csv").exists()
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "checks.csv" in page and "Check (2 methods, medians over images)" in page
