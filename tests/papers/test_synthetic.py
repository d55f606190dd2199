"""A linear network whose answers are known: what its claims and its figure are made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from uproar.expression import parse
from uproar.metrics import Batch
from uproar.metrics.probe import evaluate, summarise
from uproar.metrics.soundness import Rule, sound_curve
from uproar.papers.li2024.synthetic import FEATURES, READ_AT, Insertion, data, maps, mean_height, trials
from uproar.seeds import Draws


def test_the_linear_network_gives_the_known_answers():
    sound, lost = trials(4, samples=300)
    assert (sound["truth"][:, READ_AT] == 1).all() and (sound["removed"][:, READ_AT] == 1).all()
    assert sound["introduced"][:, READ_AT].mean() < 0.95
    complete = {name: mean_height(table).mean() for name, table in lost.items()}
    assert complete["removed"] < complete["truth"] - 0.05
    again, _ = trials(2, samples=300)
    assert np.array_equal(again["truth"], sound["truth"][:2]), "a trial depends on its number alone"


def test_with_zeros_in_the_holes_the_linear_network_is_as_simulated():
    draws = np.random.default_rng(0)
    x, y = data(1000, draws)
    zero, (truth, removed, _) = np.zeros_like(x), maps(x, y, draws).values()
    half = (0.5, 0.5 + 1e-9)  # one threshold
    assert mean_height(Insertion(x, y, truth, zero).lost(half), half) == pytest.approx(0.965, abs=0.02)
    assert mean_height(Insertion(x, y, removed, zero).lost(half), half) == pytest.approx(0.821, abs=0.04)
    less = np.clip(truth / truth.max(1, keepdims=True) - 0.6, 0, 1)
    assert mean_height(Insertion(x, y, less, zero).lost(half), half) == pytest.approx(0.445, abs=0.05)
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
    assert mean_height(insertion.lost((0.2, 0.6)), (0.2, 0.6)) == pytest.approx(np.mean(lost))
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
        assert summarise(calls[0], responses[str(calls[0])])["value"] == pytest.approx(mean_height(ours.lost())), name
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
