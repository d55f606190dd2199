"""Metrics of a study over all replicates: from the store to tables, figures and the page."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest

import uproar
from uproar.report import write_report
from uproar.statistics.comparisons import FEWER
from uproar.statistics.intervals import crossed_mean
from uproar.study.spec import study_of

STUDY = {
    "name": "judged",
    "tasks": ["planted(size=8, train=64, test=40)"],
    "estimators": ["random", "grad", "oracle"],
    "baselines": [],
    "metrics": ["deletion(steps=4)", "soundness(fill=mean, level=0.2)", "sparseness"],
    "seeds": 3,
    "recipe": {"epochs": 2},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return uproar.run(STUDY, store=tmp_path_factory.mktemp("store"), jobs=1)


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    return write_report(results, tmp_path_factory.mktemp("report")).parent


def test_the_numbers_over_replicates_follow_from_the_values_of_single_images(results):
    """Re-derived with pandas from the rows per image."""
    (scores,) = results.metric_scores.values()
    rows = results.image_scores[results.image_scores["metric"] == "deletion(steps=4)"]
    values = {
        name: group.pivot(index="seed", columns="image", values="value").to_numpy()
        for name, group in rows.groupby("estimator", observed=True)
    }
    table = scores.table[scores.table["metric"] == "deletion(steps=4)"].set_index("method")
    for name, v in values.items():
        assert table.loc[name, "value"] == pytest.approx(v.mean())
    pairs = scores.comparisons[scores.comparisons["metric"] == "deletion(steps=4)"]
    plain = {frozenset((a, b)): crossed_mean(values[a] - values[b]) for a, b in itertools.combinations(values, 2)}
    assert len(pairs) == len(plain) == 3
    for row in pairs.itertuples():
        result = plain[frozenset((row.better, row.worse))]
        assert row.difference == pytest.approx(-abs(result.value))  # lower is better
        assert row.high - row.low == pytest.approx(result.high - result.low)
        assert row.df == pytest.approx(result.df)
    assert pairs["p"].isna().all() and set(pairs["verdict"]) == {FEWER}


def test_the_curve_is_the_mean_over_replicates_and_images(results):
    (scores,) = results.metric_scores.values()
    curves = scores.curves["deletion(steps=4)"]
    assert curves.fractions.tolist() == [0, 0.25, 0.5, 0.75, 1]
    for name, line in curves.lines.items():
        value = scores.table.set_index(["method", "metric"]).loc[(name, "deletion(steps=4)"), "value"]
        assert np.trapezoid(line.mean, curves.fractions) == pytest.approx(value, abs=1e-6)
        assert (line.half >= 0).all() and (line.n == 40).all()
    assert set(scores.curves) == {"deletion(steps=4)", "soundness(fill=mean, level=0.2)"}


def test_the_tables_lie_beside_the_page_and_read_back(results, folder):
    missing = dict.fromkeys(("value", "low", "high"), "")
    back = pd.read_csv(folder / "scores.csv", keep_default_na=False, na_values=missing)
    assert len(back) == 3 * 3 * 3
    pd.testing.assert_frame_equal(back, results.scores, check_dtype=False)
    same = (back["metric"] == "sparseness") & (back["estimator"] == "oracle")  # its marks are of one size: no spread
    assert (back["low"] <= back["high"]).equals(~same)
    images = pd.read_parquet(folder / "per_image.parquet")
    assert len(images) == 3 * 3 * 3 * 40
    means = images[images["metric"] == "sparseness"].groupby("seed")["value"].mean()
    assert len(means) == 3 and np.isfinite(means).all()
    assert len(pd.read_csv(folder / "metric_values.csv")) == 9
    assert len(pd.read_csv(folder / "comparisons.csv")) == 9


def test_a_study_of_metrics_alone_has_a_page_of_its_own(results, folder):
    page = (folder / "report.html").read_text()
    text = page[: page.index("<script")]
    (scores,) = results.metric_scores.values()
    for row in scores.table.itertuples():
        assert f"{row.value:.3f}" in text
    assert "40 images, 3 runs" in text and "deletion(steps=4) ↓" in text
    assert "Better than random?" not in text  # nothing was retrained
    targets = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= targets
    for file in re.findall(r'href="(figures/[^"]+)"', text):
        assert (folder / file).is_file()
    assert (folder / "figures" / "deletion-steps-4-curves.svg").is_file()


def test_what_was_not_made_is_missing_and_said(results, tmp_path):
    """The page of a study that was never run names its cells as missing, and has no numbers."""
    from uproar.study.collected import collect_run

    empty = collect_run(study_of(STUDY), tmp_path / "store")
    assert not empty.metric_scores and set(empty.scores["status"]) == {"missing"}
    page = write_report(empty, tmp_path / "report").read_text()
    assert page.count("missing") >= 3


def test_soundness_as_a_curve_passes_through_the_number_of_the_data_set(results):
    (scores,) = results.metric_scores.values()
    name = "soundness(fill=mean, level=0.2)"
    table = scores.table[scores.table["metric"] == name].set_index("method")["value"]
    curve = scores.traces[name]
    (place,) = np.flatnonzero(np.isclose(curve.fractions, 0.2))
    assert set(curve.lines) == set(table.index)
    for method, line in curve.lines.items():
        assert line.mean[place] == pytest.approx(table[method])


def test_results_say_how_good_the_base_networks_are(results):
    (result,) = results.quality.values()
    (scores,) = results.metric_scores.values()
    assert result.replicates == 3 and result.images == 40 and scores.quality == result
    assert 0 <= result.lowest <= result.accuracy <= 1
    assert (result.warning in results.notices) == result.weak
    assert results.scores["ranked"].all() and scores.table["ranked"].all()
