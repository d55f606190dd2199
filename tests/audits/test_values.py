"""Values of maps: metrics that see them, metrics that do not, and a linear network whose answers are known."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import cdist

from tests.audits.handmade import Handed, Handmade
from uproar import Study
from uproar.audits.registry import Trials, read_audit, studies_of
from uproar.audits.synthetic import FEATURES, NAME, SIMULATIONS, Insertion, Simulation, data, maps, summary, trial
from uproar.audits.values import (
    ALL,
    ALTERED,
    CUT,
    RESAMPLES,
    ChangedCurves,
    changed_chains,
    hausdorff,
    least_distance,
    mean_distance,
    values,
    variants,
)
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.metrics import Batch
from uproar.metrics.probe import evaluate, summarise
from uproar.metrics.soundness import Rule, sound_curve
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study.audit import trials_in, trials_of_audit
from uproar.study.graph import Done, run_job
from uproar.study.run import plan_results

AXIS = (0.0, 0.5, 1.0)


def _made_up(shift: float, noise: float = 0.001) -> Handmade:
    """ROAD curves that move by so much where values are removed, and as far the other way where introduced."""
    draws = np.random.default_rng(5)
    responses = {}
    for scheme, clip in (
        ("constant", True),
        ("constant", False),
        ("random", True),
        ("random", False),
        ("partial", True),
    ):
        for how, sign in (("removed", -1), ("introduced", 1)):
            curve = 0.5 + sign * shift + noise * draws.normal(size=(6, 3))
            responses["road", changed_chains("ig", scheme, clip)[how], 0] = {"value": curve.mean(1), "curve": curve}
    responses["road", "ig", 0] = {"value": np.full(6, 0.5), "curve": np.full((6, 3), 0.5)}
    return Handmade(responses, axes={"road": AXIS})


def test_a_metric_whose_curves_do_not_move_misleads_and_one_whose_curves_do_holds():
    blind = values(Handed(**{ALTERED: _made_up(0.0)}), estimators=("ig",), trials=0)
    assert blind.state == "misleads"
    assert blind.sentence.startswith("road cannot distinguish maps that differ in values and not in order")
    sees = values(Handed(**{ALTERED: _made_up(0.2)}), estimators=("ig",), trials=0)
    assert sees.state == "holds"
    table = sees.tables["smallest Hausdorff distance by metric"]
    assert table["distance"].tolist() == pytest.approx([0.2, 0.2], abs=0.01)
    assert table["changes"].tolist() == [ALL, CUT]
    assert table["n"].tolist() == [6, 6]  # images: the cells of one metric share them
    assert "road distinguish maps" in sees.sentence
    assert len(sees.tables["by estimator and scheme"]) == 5
    assert sees.plots[1].data["map"].tolist() == ["plain"] * 3 + ["removed"] * 3 + ["introduced"] * 3


def test_the_distance_is_hausdorffs_and_the_smallest_of_three():
    draws = np.random.default_rng(0)
    a, b = draws.random((9, 2)), draws.random((7, 2))
    between = cdist(a, b)
    assert hausdorff(a, b) == pytest.approx(max(between.min(0).max(), between.min(1).max()))
    curves = {"x": np.array([[0, 0.0]]), "y": np.array([[0, 0.3]]), "z": np.array([[0, 0.4]])}
    assert least_distance(curves) == pytest.approx(0.1)


def _cells(distances: np.ndarray, drawn: np.ndarray, images: int) -> pd.DataFrame:
    """Rows of one metric, (cells, replicates) distances and (cells, replicates, resamples) resampled ones."""
    return pd.DataFrame(
        [
            {"seed": s, "distance": distances[c, s], "resampled": drawn[c, s], "images": images}
            for c, s in np.ndindex(distances.shape)
        ]
    )


def test_more_cells_of_the_same_images_do_not_make_a_distance_more_certain():
    """Six cells that share their images and networks are one measurement, not six."""
    draws = np.random.default_rng(3)
    one, again = 0.1 + 0.02 * draws.normal(size=(1, 3)), 0.1 + 0.02 * draws.normal(size=(1, 3, RESAMPLES))
    alone = mean_distance(_cells(one, again, 50))
    six = mean_distance(_cells(np.repeat(one, 6, 0), np.repeat(again, 6, 0), 50))
    assert (six.low, six.high) == pytest.approx((alone.low, alone.high))
    assert (six.n, six.replicates) == (50, 3)


def test_the_interval_of_a_distance_covers_what_all_images_have():
    """Curves of 400 images and samples of 40 of them: about 19 in 20 intervals hold the distance of all."""
    draws, hit = np.random.default_rng(8), 0
    plain, moved = 0.5 + 0.2 * draws.normal(size=(400, 3)), 0.2 + 0.3 * draws.normal(size=(400, 3))
    world = {"ig": plain, "down": plain - moved, "up": plain + 2 * moved}

    def curves(rows: np.ndarray) -> ChangedCurves:
        responses = {("road", "ig", 0): {"value": plain[rows].mean(1), "curve": plain[rows]}}
        for how, name in (("removed", "down"), ("introduced", "up")):
            curve = world[name][rows]
            for scheme, clip in variants():
                responses["road", changed_chains("ig", scheme, clip)[how], 0] = {"value": curve.mean(1), "curve": curve}
        return ChangedCurves(Handmade(responses, axes={"road": AXIS}))

    truth = least_distance(curves(np.arange(400)).three("road", "ig", "constant", True, 0))
    for _ in range(60):
        interval = mean_distance(curves(draws.integers(400, size=40)).table(["ig"]))
        hit += interval.low < truth < interval.high
    assert 52 <= hit <= 60


def test_soundness_is_drawn_against_accuracy():
    score = np.array([[0, 1, 1], [0, 0, 1]], dtype=float)
    response = {"value": np.ones(2), "curve": score, "included": np.array([[1, 2, 3]] * 2), "defined": np.ones(2)}
    part = Handmade({("soundness(steps=3)", "ig", 0): response})
    points = ChangedCurves(part).points("soundness(steps=3)", "ig", 0)
    # the first step's attribution brings nothing and is false: 0, 1/2 and 2/3 of what is included are true
    assert points.tolist() == [[0, 0], [0.5, 0.5], [1.0, pytest.approx(2 / 3)]]


def test_what_it_asks_for_is_plain_removed_and_introduced_maps():
    chains = studies_of(read_audit("values(estimators=[ig])"), Study(seeds=2))[ALTERED].estimators
    assert len(chains) == 11
    assert chains[:3] == ("ig", "remove_values(ig)", "introduce_values(ig)")
    assert "remove_values(ig, clip=false, scheme=random)" in chains


def test_nothing_finished_is_refused():
    with pytest.raises(NotApplicable, match="no metric of ig .* is finished"):
        values(Handed(**{ALTERED: Handmade()}), estimators=("ig",), trials=0)


def test_the_linear_network_gives_the_known_answers():
    each = [trial(number, samples=300) for number in range(4)]
    trials = {name: np.array([values[name] for values in each]) for name in each[0]}
    table = summary(trials).set_index(["map", "metric"])
    result = table["mean"]
    assert result["truth", "soundness"] == result["removed", "soundness"] == 1
    assert result["introduced", "soundness"] < 0.95
    assert result["removed", "completeness"] < result["truth", "completeness"] - 0.05
    assert set(table["trials"]) == {4}


def test_trials_are_made_once_and_depend_on_their_numbers_alone(tmp_path, monkeypatch):
    asked_for, few = [], Simulation(lambda number: asked_for.append(number) or {"number": number**2})
    monkeypatch.setitem(SIMULATIONS, NAME, few)
    store = Store(tmp_path)
    for count, new, cached in ((120, 3, 0), (120, 0, 3), (150, 1, 2)):
        todo = plan_results(trials_of_audit(Trials(NAME, count)), store)
        assert (len(todo.jobs), todo.cached) == (new, cached)
        with pytest.raises(NotApplicable, match="not finished") if new else nullcontext():
            trials_in(Trials(NAME, count), store)
        for job in todo.jobs:
            (outcome,) = run_job(job, store.root).outcomes.values()
            assert outcome == Done()
        values = trials_in(Trials(NAME, count), store)["number"]
        assert values.tolist() == [number**2 for number in range(count)]
    assert len(asked_for) == 120 + 50  # the last twenty came in a smaller piece
    few = Simulation(few.trial, version=2)
    monkeypatch.setitem(SIMULATIONS, NAME, few)
    assert plan_results(trials_of_audit(Trials(NAME, 120)), store).cached == 0


def test_with_zeros_in_the_holes_the_linear_network_is_as_simulated():
    draws = np.random.default_rng(0)
    x, y = data(1000, draws)
    zero, (truth, removed, _) = np.zeros_like(x), maps(x, y, draws).values()
    half = (0.5, 0.5 + 1e-9)  # one threshold
    assert Insertion(x, y, truth, zero).completeness(half) == pytest.approx(0.965, abs=0.02)
    assert Insertion(x, y, removed, zero).completeness(half) == pytest.approx(0.821, abs=0.04)
    less = np.clip(truth / truth.max(1, keepdims=True) - 0.6, 0, 1)
    assert Insertion(x, y, less, zero).completeness(half) == pytest.approx(0.445, abs=0.05)
    accuracy, shares = Insertion(x, y, truth, zero).curve()
    assert float(accuracy[0]) == 1
    assert float(shares[-1]) == pytest.approx(0.12, abs=0.02)


def test_sums_equal_features_filled_one_by_one():
    draws = np.random.default_rng(1)
    x, y = data(20, draws)
    fill, a = draws.normal(size=x.shape), maps(x, y, draws)["introduced"]
    insertion = Insertion(x, y, a, fill)
    lost = [
        1 - np.mean(np.sign(np.where(a > a.max(1, keepdims=True) * (1 - r), fill, x).sum(1)) == y) for r in (0.2, 0.6)
    ]
    assert insertion.completeness((0.2, 0.6)) == pytest.approx(np.mean(lost))
    kept = a.argsort(1)[:, FEATURES - 4 :]
    shown = fill.copy()
    np.put_along_axis(shown, kept, np.take_along_axis(x, kept, 1), 1)
    assert float(insertion.curve()[0][0]) == np.mean(np.sign(shown.sum(1)) == y)


class _Sum(torch.nn.Module):
    """Two classes by the sign of the sum."""

    def forward(self, x):
        total = x.flatten(1).sum(1)
        return torch.stack([-total, total], 1)


def _tabular(x: np.ndarray, y: np.ndarray, a: np.ndarray, **more) -> Batch:
    """Samples as images of one row."""
    images = torch.from_numpy(x).float()[:, None, None]
    model = _Sum()
    return Batch(
        model,
        images,
        torch.from_numpy(y > 0).long(),
        torch.from_numpy(a).float()[:, None],
        model(images),
        Draws.of(0, len(x)),
        **more,
    )


def test_the_metrics_of_images_give_the_same_numbers_for_rows_of_features():
    draws = np.random.default_rng(2)
    x, y = data(100, draws)
    for name, a in maps(x, y, draws).items():
        ours = Insertion(x, y, a, np.zeros_like(x))
        calls = [parse("completeness(fill=zero)"), parse("soundness(fill=zero, steps=49, level=0.9)")]
        responses, _ = evaluate(calls, _tabular(x, y, a))
        assert summarise(calls[0], responses[str(calls[0])])["value"] == pytest.approx(ours.completeness()), name
        accuracy, shares = sound_curve(responses[str(calls[1])], "accuracy", Rule(0.01))
        first = 9  # 36 of 200 features: further on, features without attribution come in random order
        for theirs, mine in zip((accuracy, shares), ours.curve(), strict=True):
            assert theirs[:first].tolist() == pytest.approx(mine[:first].tolist(), abs=1e-6), name


def test_features_drawn_from_training_samples_are_as_good_as_normal_ones():
    draws = np.random.default_rng(3)
    x, y = data(300, draws)
    train = torch.from_numpy(data(500, draws)[0]).float()[:, None, None]
    call = parse("completeness(fill=resample)")
    responses, _ = evaluate([call], _tabular(x, y, maps(x, y, draws)["truth"], train=train))
    assert summarise(call, responses[str(call)])["value"] == pytest.approx(0.818, abs=0.03)
