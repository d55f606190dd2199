"""Stability: an order that holds everywhere holds, one that turns round is called out, and chance is told from both."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import uproar
from uproar.audits.stability import Outcomes, _halves, compare_rankings, decided_pairs, marks, resampled_means, state
from uproar.statistics.correlation import kendall


def outcomes(shares, names=("random", "grad", "ig", "sobel"), seeds=5, images=400, wobble=0.0):
    """Images classified right with the given share per estimator and fraction."""
    random = np.random.default_rng(1)
    shares = np.asarray(shares, dtype=float)
    by_seed = shares[:, :, None, None] + wobble * random.normal(size=(1, 1, seeds, 1))
    hard = random.random((1, 1, 1, images))  # the same images are hard for all
    right = (hard < by_seed).astype(float)
    return Outcomes(tuple(names[: len(shares)]), tuple(np.linspace(0.3, 0.7, shares.shape[1])), right)


def judged(base, changes):
    draws = resampled_means(base.values)
    better = decided_pairs(base, -1)
    table, turned = compare_rankings(base, changes, draws, better, -1)
    return state(table, turned, better), table.set_index("what changes"), turned, better


def test_a_ranking_that_is_the_same_everywhere_holds():
    base = outcomes([[0.9, 0.8], [0.7, 0.6], [0.5, 0.4], [0.3, 0.2]], wobble=0.02)
    judgement, table, turned, better = judged(base, {"fill": base, "30 % alone": base.at(0.3)})
    assert judgement == "holds"
    assert table["tau"].tolist() == [1, 1, 1, 1]
    assert not turned
    assert better[0].tolist() == [0, -1, -1, -1]  # random leaves most right, which is worst under ROAR


def test_pairs_that_turn_round_with_the_setting_mislead():
    base = outcomes([[0.9], [0.7], [0.5], [0.3]])
    other = outcomes([[0.7], [0.9], [0.5], [0.3]])
    judgement, table, turned, _ = judged(base, {"fill linear": other})
    assert judgement == "misleads"
    assert turned == [("fill linear", "grad", "random")]
    assert table.loc["fill linear", "tau"] == pytest.approx(4 / 6)
    own = pd.DataFrame({"side": [1]}, index=["grad"])
    (mark,) = marks(own, turned, "roar")
    assert (mark.estimator, mark.text) == ("grad", "turns round")
    assert mark.why == "the other side of random with fill linear"


def test_equal_estimators_are_not_decided():
    random = np.random.default_rng(2)
    right = (random.random((4, 1, 5, 60)) < 0.5).astype(float)
    base = Outcomes(("random", "grad", "ig", "sobel"), (0.5,), right)
    judgement, table, turned, better = judged(base, {})
    assert judgement == "cannot tell"
    assert not better.any()
    assert table.loc["another half of the images", "tau"] < 0.5


def test_resampled_means_have_the_spread_of_seeds_and_images():
    random = np.random.default_rng(3)
    values = random.normal(size=(1, 4, 500)) + 2 * random.normal(size=(1, 4, 1))
    draws = resampled_means(values, draws=4000)
    by_seed = values.mean(2)[0]
    expected = np.sqrt(by_seed.var() / 4 + values.mean(1)[0].var(ddof=1) / 500)
    assert draws.std() == pytest.approx(expected, rel=0.06)
    assert draws.mean() == pytest.approx(values.mean(), abs=4 * expected / 4000**0.5)


def test_seeds_that_disagree_decide_nothing_however_many_the_images():
    right = np.zeros((3, 1, 5, 4000))
    for row, shares in enumerate(((0.5,) * 5, (0.2, 0.9, 0.9, 0.3, 0.7), (0.7,) * 5)):
        for seed, share in enumerate(shares):
            right[row, 0, seed, : int(share * 4000)] = 1
    base = Outcomes(("random", "grad", "ig"), (0.5,), right)
    better = decided_pairs(base, 1)
    assert better[2, 0] == 1  # the same 20 points in all seeds
    assert better[1, 0] == 0  # the seeds alone make the difference


def test_kendall_equals_scipys_without_ties_and_halves_that_agree_give_one_ranking():
    a, b = np.random.default_rng(4).normal(size=(2, 9))
    assert kendall(a, b) == pytest.approx(stats.kendalltau(a, b).statistic)
    easy = np.broadcast_to(np.array([0.1, 0.5, 0.9])[:, None], (3, 20))
    assert (_halves(easy, draws=5) == 1).all()


def test_a_study_is_judged_by_its_own_answers(tmp_path):
    study = {
        "tasks": "planted(size=8, classes=2, train=40, test=20)",
        "estimators": ["sobel", "centre"],
        "metrics": ["roar"],
        "fractions": [0.3, 0.7],
        "seeds": 2,
        "recipe": {"epochs": 1},
        "audits": ["stability(fill=zero)"],
    }
    run = uproar.run(study, store=tmp_path, jobs=1)
    (result,) = run.findings
    table = result.tables["agreement of rankings"]
    assert table["what changes"].tolist() == [
        "another seed",
        "another half of the images",
        "30 % alone",
        "70 % alone",
        "fill zero",
    ]


def test_a_cue_that_shows_with_one_fill_only_turns_round_and_honest_rankings_do_not(made_up_tasks, tmp_path):
    """Black holes in a black border tell nothing, noisy ones give the class away."""
    study = {
        "tasks": "framed(border=0.0)",
        "metrics": ["roar"],
        "fractions": [0.3],
        "seeds": 5,
        "fill": "zero",
        "recipe": {"epochs": 8},
        "audits": ["stability(fill=uniform)"],
    }
    result = {}
    for other in ("label_cue", "sobel"):
        names = {"estimators": ["centre", other]}
        (result[other],) = uproar.run({**study, **names}, store=tmp_path, jobs=1).findings
    assert result["label_cue"].state == "misleads", result["label_cue"].sentence
    assert [(m.estimator, m.text) for m in result["label_cue"].marks] == [("label_cue", "turns round")]
    assert result["sobel"].state != "misleads", result["sobel"].sentence
    assert result["sobel"].marks == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seeds": 1}, "run at least 2 seeds"),
        ({"estimators": ["sobel"]}, "use at least 3"),
        ({"limit": 12}, "use at least 20"),
    ],
)
def test_too_little_to_rank_is_refused_with_the_way_out(change, reason, tmp_path):
    study = {
        "tasks": "planted(size=8, classes=2, train=30, test=20)",
        "estimators": ["sobel", "centre"],
        "metrics": ["roar"],
        "fractions": [0.5],
        "seeds": 2,
        "recipe": {"epochs": 1},
        "audits": ["stability(fill=same)"],
    }
    (result,) = uproar.run({**study, **change}, store=tmp_path, jobs=1).findings
    assert result.state == "skipped"
    assert reason in result.sentence
