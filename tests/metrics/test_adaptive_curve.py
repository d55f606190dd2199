"""Adaptive curves: the points shown are those of the full curve, the area is nearly the same, for fewer images."""

import dataclasses

import pytest
import torch

from tests.metrics.looking import batch_of, part
from uproar.data import load
from uproar.errors import BadOption
from uproar.expression import parse
from uproar.metrics.curves import TOLERANCE
from uproar.metrics.probe import evaluate, images_shown
from uproar.models import ModelSpec, build
from uproar.training import Recipe, fit


@pytest.fixture(scope="module")
def digits():
    task = load("digits")
    model = build(ModelSpec.of("cnn-small"), task, 0)
    fit(model, task.train.read(slice(None)), task.train.labels, Recipe(epochs=3), 0)
    x, y = task.test.read(slice(0, 24)), task.test.labels[:24]
    torch.manual_seed(0)
    maps = torch.cat([x[:12].mean(1), torch.rand(12, 8, 8)])
    return batch_of(maps, model=model, x=x, target=y, mean=task.mean)


def one(text, batch, **more):
    call = parse(text)
    responses, shown = evaluate([call], batch, **more)
    return responses[str(call)], shown


CASES = [
    ("deletion", "fill=mean"),
    ("insertion", "fill=linear"),
    ("deletion", "fill=uniform, repeats=2"),
    ("insertion", "unit=region, window=3"),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_area_is_that_of_the_full_curve_for_fewer_images(digits, name, options):
    full, most = one(f"{name}({options})", digits)
    result, shown = one(f"{name}(steps=adaptive, {options})", digits)
    assert abs(float((result["value"] - full["value"]).mean())) < 0.005
    assert float((result["value"] - full["value"]).abs().mean()) < 0.006
    coarse = result["curve"][:, ::5]
    assert torch.equal(coarse, full["curve"][:, ::5].double())
    # beyond every fifth point, those shown are the full curve's bit for bit; the others lie on straight lines
    beside = (result["curve"] == full["curve"]).sum(1) - 21
    repeats = 2 if "repeats" in options else 1
    assert (beside * repeats >= result["shown"]).all()
    assert shown < 0.55 * most  # 8×8 pixels: only 64 of the 100 steps differ
    steep = (result["curve"].diff(dim=1).abs() * 0.01).amax(1)
    assert (steep <= 0.01).all()
    wide = (coarse.diff(dim=1).abs() * 0.05 > TOLERANCE).sum(1)
    assert (result["shown"] >= repeats * wide).all()


@pytest.mark.parametrize("options", ["", ", fill=linear"])
def test_no_value_depends_on_the_batch(digits, options):
    text = f"deletion(steps=adaptive{options})"
    whole, shown = one(text, digits)
    again, _ = one(text, digits, rows=5)
    apart, _ = one(text, part(digits, [7, 20, 3]))
    alone, few = one(text, part(digits, [20]))
    for key, value in whole.items():
        assert torch.equal(again[key], value), key
        assert torch.equal(apart[key], value[[7, 20, 3]]), key
        assert torch.equal(alone[key], value[[20]]), key
    assert shown == 24 * 20 + int(whole["shown"].sum())
    assert few == 20 + int(whole["shown"][20])


def test_a_flat_curve_takes_no_further_points_and_a_broken_map_has_no_area(digits):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).requires_grad_(False)
    model[1].weight.zero_()
    maps = digits.maps.clone()
    maps[1, 0, 0] = torch.nan
    flat = dataclasses.replace(digits, model=model, maps=maps, clean=model(digits.x))
    result, _ = one("insertion(steps=adaptive)", flat)
    assert result["value"].isnan().tolist() == [False, True] + [False] * 22
    assert float(result["shown"].sum()) == 0


def test_costs_are_expected_and_other_words_refused(digits):
    assert images_shown(("deletion(steps=adaptive)",), (1, 8, 8)) == 21 + 10
    assert images_shown(("deletion",), (1, 8, 8)) > 60
    with pytest.raises(BadOption, match="steps"):
        one("deletion(steps=sometimes)", digits)


GIVEN = [0, 0.125, 0.25, 0.375, 0.5]


@pytest.mark.parametrize("name", ["road", "road_lerf", "road_gap"])
@pytest.mark.parametrize("fill", ["linear", "mean"])
def test_the_area_of_road_is_that_of_eight_times_as_many_fractions(digits, name, fill):
    every = [i / 64 for i in range(33)]
    options = f"by=probability, fill={fill}"
    full, most = one(f"{name}({options}, fractions={every})", digits)
    result, shown = one(f"{name}({options}, fractions={GIVEN}, points=adaptive)", digits)
    assert abs(float((result["value"] - full["value"]).mean())) < 0.005 * (2 if name == "road_gap" else 1)
    assert torch.equal(result["curve"][:, ::8], full["curve"][:, ::8].double())
    # what is shown between is the full curve's bit for bit, the rest lies on straight lines
    curves = 2 if name == "road_gap" else 1
    if curves == 1:
        assert ((result["curve"] == full["curve"]).sum(1) - len(GIVEN) >= result["shown"]).all()
    assert shown < 0.5 * most
    coarse, _ = one(f"{name}({options}, fractions={GIVEN})", digits)
    assert abs(float((result["value"] - full["value"]).mean())) <= abs(float((coarse["value"] - full["value"]).mean()))


def test_no_value_of_adaptive_road_depends_on_the_batch(digits):
    text = f"road(by=probability, fractions={GIVEN}, points=adaptive)"
    whole, _ = one(text, digits)
    apart, _ = one(text, part(digits, [7, 20, 3]))
    for key, value in whole.items():
        assert torch.equal(apart[key], value[[7, 20, 3]]), key


@pytest.mark.parametrize(
    ("options", "sentence"),
    [("points=adaptive", "by=probability"), ("by=probability, fractions=[0.5], points=adaptive", "two fractions")],
)
def test_road_that_cannot_be_adaptive_says_why(digits, options, sentence):
    with pytest.raises(BadOption, match=sentence):
        one(f"road({options})", digits)
