"""Agreement of metrics: planted judges that agree, that contradict each other, and too little to say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import uproar
from tests.audits.handmade import Handmade, handed
from uproar.audits.agreement import JUDGES, advantage, contradictions, pairwise, reliability, sides_of, values_per_image
from uproar.errors import NotApplicable
from uproar.metrics import registry

CHAINS = ("random", "a", "b", "c", "d")
QUALITY = dict(zip(CHAINS, (0.0, 1.0, 2.0, 3.0, 4.0), strict=True))


def _made_up(slopes: dict[str, float], n: int = 60, chains=CHAINS, seeds=(0, 1), seed: int = 1) -> Handmade:
    """Metrics that like quality by so much, on images some of which are easy for all."""
    draws = np.random.default_rng(seed)
    easy = draws.normal(size=n)
    responses = {}
    for metric, slope in slopes.items():
        sign = 1 if metric.startswith(("insertion", "road_lerf", "pointing")) else -1
        for chain in chains:
            for replicate in seeds:
                value = slope * QUALITY[chain] + 2 * easy + 0.5 * draws.normal(size=n)
                responses[metric, chain, replicate] = {"value": sign * value, "before": easy}
    return Handmade(responses)


def _accuracies(slope: float) -> Handmade:
    draws = np.random.default_rng(2)
    return Handmade(
        accuracies={
            ("roar", chain): {0.0: [0.9] * 5}
            | {t: list(0.8 - slope * QUALITY[chain] + 0.002 * draws.normal(size=5)) for t in (0.3, 0.7)}
            for chain in CHAINS
        }
    )


def test_judges_who_agree_hold():
    part = _made_up({"insertion": 1.0, "deletion": 0.8, "road": 0.6})
    finding = reliability(handed(**{"study": _accuracies(0.1), JUDGES: part}))
    assert finding.state == "holds"
    assert "Kendall's W = 1.00" in finding.sentence
    assert "4 metrics (3 without retraining)" in finding.sentence
    assert finding.marks == ()
    assert all(plot.title and plot.reading for plot in finding.plots)


def test_a_metric_that_likes_what_others_dislike_is_named_and_marks_the_verdicts():
    part = _made_up({"insertion": 1.0, "deletion": 0.8, "road": -0.8}, seeds=(0, 1, 2))
    finding = reliability(handed(**{"study": _accuracies(0.1), JUDGES: part}))
    assert finding.state == "misleads"
    assert "2 of 3 pairs of metrics order the estimators of an image in opposite ways" in finding.sentence
    assert "4 of 4 estimators are better than random by one and worse by another" in finding.sentence
    assert {(m.metric, m.estimator, m.text) for m in finding.marks} == {
        ("roar", chain, "contradicted by road") for chain in "abcd"
    }
    assert "worse than random" in finding.marks[0].why


def test_noise_that_agrees_with_nobody_cannot_tell():
    part = _made_up({"insertion": 0.0, "deletion": 0.0})
    finding = reliability(handed(**{"study": Handmade(), JUDGES: part}))
    assert finding.state == "cannot tell"


def test_many_judges_who_know_nothing_do_not_contradict_each_other_by_chance():
    names = [f"{kind}(steps={s})" for s in range(2, 26, 2) for kind in ("insertion", "deletion")]
    part = _made_up(dict.fromkeys(names, 0.0), seeds=(0,), seed=3)  # one replicate: exact t-tests over images
    sides = sides_of(part, values_per_image(part, names), Handmade())
    clear = sides[(sides["low"] > 0) | (sides["high"] < 0)]
    assert {-1, 1} <= set(np.sign(clear["advantage"])), "some of 96 intervals miss zero by chance"
    assert not sides["side"].any()
    assert contradictions(sides).empty
    raw = [advantage(part, row.judge, row.estimator).p for row in sides.itertuples()]
    by_hand = [min(1.0, max(q * (len(raw) - i) for i, q in enumerate(sorted(raw)) if q <= own)) for own in raw]
    assert sides["p_holm"].tolist() == pytest.approx(by_hand)


def test_images_that_are_easy_for_all_do_not_pass_for_agreement():
    data = values_per_image(_made_up({"insertion": 1.0, "deletion": -1.0}), ["insertion", "deletion"])
    (row,) = pairwise(data).to_dict("records")
    assert row["within_high"] < -0.5
    ranks = [
        np.mean([stats.spearmanr(data.values[0, s, :, i], data.values[1, s, :, i])[0] for s in (0, 1)])
        for i in range(60)
    ]
    assert row["within_images"] == pytest.approx(np.mean(ranks))


def test_a_heat_map_has_one_order_of_metrics_and_an_empty_diagonal():
    part = _made_up({"insertion": 1.0, "deletion": 0.8, "road": 0.6})
    plot = reliability(handed(**{"study": _accuracies(0.1), JUDGES: part})).plots[0]
    table = plot.data.pivot(index="other", columns="metric", values="correlation")
    assert list(table.index) == list(table.columns) and np.isnan(np.diag(table)).all()
    assert np.allclose(table, table.T, equal_nan=True) and table.notna().to_numpy().sum() == 6


def test_two_names_of_the_same_numbers_are_not_compared():
    part = _made_up({"insertion": 1.0, "deletion": 0.8})
    part._responses |= {
        ("insertion(steps=50)", c, s): part._responses["insertion", c, s] for c in CHAINS for s in (0, 1)
    }
    values = values_per_image(part, ["insertion", "deletion", "insertion(steps=50)"])
    assert values.metrics == ("insertion", "deletion")
    assert values.notes == ("insertion(steps=50) has the numbers of insertion and is not compared with it.",)


def test_metrics_of_values_are_not_asked_who_is_better_than_random():
    part = _made_up({"insertion": 1.0, "deletion": 0.8, "average_drop": 0.5, "relevance_mass": 0.3})
    data = values_per_image(part, list(part.study.metric_names))
    assert set(sides_of(part, data, Handmade())["judge"]) == {"insertion", "deletion"}


@pytest.fixture
def glossiness():
    """A metric of a plug-in that only describes maps; the registry is put back as it was."""

    @registry.metric(higher_is_better=False, low=0, high=1, chance="any", describes=True)
    def glossiness(batch):
        """How glossy a map is."""

    yield
    del registry.metrics._entries["glossiness"]


@pytest.mark.parametrize("name", ["sparseness", "value_density", "glossiness"])
def test_a_metric_that_only_describes_maps_is_no_judge(name, glossiness):
    part = _made_up({"insertion": 1.0, "deletion": 0.8, name: -3.0})
    finding = reliability(handed(**{"study": Handmade(), JUDGES: part}))
    assert finding.state == "holds"
    assert "2 metrics order" in finding.sentence


@pytest.mark.parametrize(
    ("slopes", "n", "chains", "reason"),
    [
        ({"insertion": 1.0}, 60, CHAINS, "1 metric finished; two that differ are needed"),
        ({"insertion": 1.0, "road": 1.0}, 60, CHAINS[:3], "2 estimators beside random have finished"),
        ({"insertion": 1.0, "road": 1.0}, 5, CHAINS, "5 test images cannot show .* at least 10"),
    ],
)
def test_too_little_is_refused_with_what_would_help(slopes, n, chains, reason):
    part = _made_up(slopes, n, chains)
    with pytest.raises(NotApplicable, match=reason):
        reliability(handed(**{"study": Handmade(), JUDGES: part}))


def test_it_runs_on_a_small_study(tmp_path):
    run = uproar.run(
        {
            "name": "small",
            "tasks": "planted(size=8, classes=3, train=60, test=30)",
            "estimators": ["grad", "ig", "sobel"],
            "metrics": ["roar:no-retrain", "insertion(steps=4)"],
            "fractions": [0.3, 0.7],
            "seeds": 2,
            "recipe": {"epochs": 2},
            "audits": ['reliability(metrics=["deletion(steps=4)", average_drop], replicates=2)'],
        },
        store=tmp_path,
        jobs=1,
    )
    (result,) = run.findings
    assert result.state in ("misleads", "holds", "cannot tell"), result.sentence
    assert "5 metrics (4 without retraining) order 3 estimators" in result.sentence
