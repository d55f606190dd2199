"""Variation: blurriness explains a ranking that was made from it, and none that has nothing to do with it."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import uproar
from uproar.audits.variation import _fit, _residuals, adjusted, fits, mask_variation, state, together
from uproar.statistics.correlation import partial_spearman
from uproar.study.audit import audit_requests


def points(law, estimators=9, seeds=3):
    """Estimators whose accuracy is a law of the variation of their masks, with a little noise."""
    random = np.random.default_rng(5)
    rows = []
    for e, t, s in itertools.product(range(estimators), (0.3, 0.6), range(seeds)):
        masks = 0.1 + 0.05 * e + 0.1 * t
        rows.append(
            (
                "as they are",
                f"e{e}",
                "plain",
                f"e{e}",
                t,
                s,
                law(masks, e) + 0.002 * random.normal(),
                masks,
                0.5 - 0.01 * e,
            )
        )
    columns = ["set", "estimator", "kind", "chain", "fraction", "seed", "accuracy", "masks", "maps"]
    return pd.DataFrame(rows, columns=columns)


UNRELATED = (0.3, 0.9, 0.4, 0.7, 0.5, 0.6, 0.8, 0.2, 0.55)


def test_a_ranking_made_of_blurriness_is_called_so_and_another_is_not():
    blurry, other = points(lambda m, e: 0.3 + m), points(lambda m, e: UNRELATED[e])
    result = {}
    for name, table in (("blurry", blurry), ("other", other)):
        lines = fits(table)
        assert set(lines["fraction"]) == {0.3, 0.6, "all"}
        result[name] = lines[(lines["fraction"] == "all") & (lines["of"] == "masks")].iloc[0]
    assert state(result["blurry"], sign=-1) == "misleads"
    assert state(result["blurry"], sign=1) != "misleads"  # where a high accuracy is good, sharp maps win
    assert result["blurry"]["low"] > 0.95
    assert state(result["other"], sign=-1) in ("holds", "cannot tell")
    assert result["other"]["r2"] < 0.2
    left = adjusted(blurry, -1)
    assert left["left"].abs().max() < 0.005
    kept = adjusted(other, -1)
    assert stats.kendalltau(kept["rank"], kept["rank after"]).statistic > 0.8
    assert kept["estimator"][0] == "e7" and kept["rank after"][0] == 1  # the lowest accuracy is best


def test_the_statistics_equal_scipys_and_the_formulas():
    random = np.random.default_rng(0)
    x, y, z = random.normal(size=(3, 12))
    fit = stats.linregress(x, y)
    line = _fit(np.stack([x, x], 1), np.stack([y - 1, y + 1], 1))
    assert (line["slope"], line["r2"], line["p"]) == pytest.approx((fit.slope, fit.rvalue**2, fit.pvalue))
    low, high = stats.pearsonr(x, y).confidence_interval()
    assert line["high"] == pytest.approx(max(low**2, high**2)) and line["low"] <= line["r2"] <= line["high"]
    assert np.isnan(list(_fit(x[:, None], np.full((12, 1), 0.1)).values())).all()
    assert _residuals(x, y) == pytest.approx(y - fit.intercept - fit.slope * x)
    r = lambda a, b: stats.spearmanr(a, b).statistic  # noqa: E731
    expected = (r(x, y) - r(x, z) * r(y, z)) / np.sqrt((1 - r(x, z) ** 2) * (1 - r(y, z) ** 2))
    assert partial_spearman(x, y, z) == pytest.approx(expected)


def test_the_variation_of_a_mask_is_the_length_of_its_outline():
    board = np.indices((4, 4)).sum(0) % 2 == 0
    assert mask_variation(board[None]) == 24 / 16
    half = np.zeros((2, 4, 4), bool)
    half[:, :2] = True
    assert mask_variation(half) == 4 / 16
    assert mask_variation(np.ones((1, 4, 4), bool)) == 0


def test_paths_count_estimators_whose_variation_and_accuracy_move_together():
    rows = [
        ("a", "plain", 0.9, 0.5),
        ("a", "max", 0.8, 0.3),
        ("a", "gaussian", 0.7, 0.2),
        ("b", "plain", 0.5, 0.4),
        ("b", "max", 0.9, 0.3),
        ("c", "plain", 0.5, 0.4),
    ]
    assert together(pd.DataFrame(rows, columns=["estimator", "kind", "accuracy", "masks"])) == (1, 2)


def test_a_study_gets_its_numbers_from_its_own_masks(tmp_path):
    study = {
        "tasks": "planted(size=8, classes=2, train=40, test=20)",
        "protocols": ["roar"],
        "fractions": [0.5],
        "estimators": ["sobel", "grad", "block_random", "centre"],
        "seeds": 1,
        "recipe": {"epochs": 1},
        "audits": ["variation"],
    }
    (result,) = uproar.run(study, store=tmp_path, jobs=1).findings
    table = result.tables["points"].set_index(["set", "chain"])
    assert table.loc[("as they are", "random"), "masks"] == pytest.approx(7 / 8, abs=0.1)
    assert table.loc[("as they are", "gaussian(random)"), "masks"] < 0.6
    assert ("squared", "gaussian(sq(grad))") in table.index
    assert [plot.kind for plot in result.plots] == ["scatter", "lines", "lines"]
    assert "5 estimators under ROAR" in result.sentence


def test_too_few_estimators_are_refused():
    (one,) = audit_requests(uproar.Study(estimators=("grad", "gaussian(grad)"), audits=("variation",)))
    assert "2 unfiltered estimators with random are too few for a line; use at least 5" in one.refused
