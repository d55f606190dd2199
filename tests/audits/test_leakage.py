"""Leakage: known answers, exact numbers, and verdicts that must and must not be 'fooled'."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import uproar
from uproar.papers.song2023.measures import shared_bits, theorem_one_gains, theorem_two_world
from uproar.statistics.intervals import crossed_mean
from uproar.training.fit import nll_bits


def test_theorem_two_in_exact_numbers():
    world = theorem_two_world()
    quarter = -0.25 * math.log2(0.25) - 0.75 * math.log2(0.75)
    assert shared_bits(world, "Z", "A", "X") == pytest.approx(1.0)
    assert shared_bits(world, "Z", "Ã", "X") == pytest.approx(0.0, abs=1e-12)
    assert shared_bits(world[world["Z"] == 2], "X'", "Y") == pytest.approx(1.0)
    # X' = (0, 0) half of the time, then Y is 1 with 1/4; (0, 1) a quarter, Y open; (1, 0) a quarter, Y known
    assert shared_bits(world, "X'", "Y") == pytest.approx(1 - (0.5 * quarter + 0.25))
    assert shared_bits(world, "X̃'", "Y") == pytest.approx(0.0, abs=1e-12)


def test_no_processing_of_the_attribution_alone_adds_information_about_the_explainer():
    gains = theorem_one_gains()
    assert all(gain == pytest.approx(0, abs=1e-12) for gain in gains.values()), (
        "the identity gains nothing, and nothing gains more"
    )


def test_nll_is_calibrated_on_other_images():
    labels = torch.arange(4).repeat(50)
    assert nll_bits(torch.zeros(200, 4), labels).tolist() == pytest.approx([2.0] * 200)
    right = torch.nn.functional.one_hot(labels, 4).double()
    wrong = torch.nn.functional.one_hot((labels + 1) % 4, 4).double()
    # right in about three of four images of either half, and far too sure of it
    hit = torch.arange(200) // 4 % 4 < 3
    sure = torch.where(hit[:, None], right, wrong) * 30
    bits = nll_bits(sure, labels)
    share = float(hit.double().mean())
    best = -share * math.log2(share) - (1 - share) * math.log2((1 - share) / 3)
    assert float(bits.mean()) == pytest.approx(best, abs=0.01)
    raw = torch.nn.functional.cross_entropy(sure, labels) / math.log(2)
    assert float(raw) > 5


def test_a_mean_allows_for_other_replicates_and_other_images():
    generator = np.random.default_rng(0)
    replicate, image = generator.normal(size=(4, 1)), generator.normal(size=(1, 50))
    mean = crossed_mean(replicate + image)
    rows, columns = (replicate + image).mean(1), (replicate + image).mean(0)
    alone = [np.var(v, ddof=1) / len(v) for v in (rows, columns)]
    assert mean.value == pytest.approx(rows.mean())
    half = (mean.high - mean.low) / 2
    assert half > 1.96 * math.sqrt(sum(alone)) and half < 3.2 * math.sqrt(sum(alone))
    only = crossed_mean(image)
    assert (only.high - only.low) / 2 == pytest.approx(2.0096 * math.sqrt(alone[1]), rel=1e-3)


BRIGHT = {
    "name": "bright",
    "task": "planted(size=8, classes=3, train=240, test=90, noise=0)",
    "fractions": [0.14],
    "metrics": ["roar", "kar"],
    "seeds": 3,
    "recipe": {"epochs": 6, "batch": 32},
    "audits": ["leakage"],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def test_the_best_possible_explanation_is_found_to_leak(store):
    """A glyph on black: what is removed is the glyph, its hole has the glyph's shape, and ROAR reads it."""
    run = uproar.run({**BRIGHT, "estimators": ["random", "oracle"]}, store=store, jobs=1)
    (leak,) = run.findings
    assert leak.state == "misleads", leak.sentence
    assert [(m.metric, m.estimator, m.text) for m in leak.marks] == [
        ("roar", "oracle", "leaks"),
        ("kar", "oracle", "leaks"),
    ]
    assert "KAR reads the mask for 1 of 1" in leak.sentence
    masks = leak.tables["masks alone against ROAR, accuracy"].set_index("estimator")
    assert masks.loc["oracle", "masks alone"] > 0.95 and masks.loc["oracle", "ROAR"] > 0.9
    assert masks.loc["random", "masks alone"] < 0.5
    # the masks of the truth do not depend on the base model
    assert masks.loc["oracle", "masks of another base model"] > 0.95
    decoupled = leak.tables["decoupled ROAR, accuracy"].set_index("estimator")
    missed = decoupled.loc["oracle"]
    assert missed["own minus permuted"] < -0.3, "decoupled, the removed glyph is missed"
    assert missed["high"] < 0, "and decidedly so, with the variance between three replicates"
    assert decoupled.loc["random", "low"] < 0 < decoupled.loc["random", "high"]
    assert 1.5 < masks.loc["oracle", "bits of the mask, at least"] < 1.59
    assert all(plot.title and plot.reading and len(plot.data) for plot in leak.plots)


def test_masks_that_do_not_know_the_class_do_not_leak(store):
    run = uproar.run({**BRIGHT, "estimators": ["random", "block_random"]}, store=store, jobs=1)
    (leak,) = run.findings
    assert leak.state == "holds", leak.sentence
    assert leak.marks == ()


def test_a_study_of_random_alone_is_refused_with_the_reason(store):
    run = uproar.run({**BRIGHT, "estimators": ["random"], "seeds": 1}, store=store, jobs=1)
    assert run.findings[0].state == "skipped"
    assert "beside random" in run.findings[0].sentence
