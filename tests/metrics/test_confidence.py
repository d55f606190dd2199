import numpy as np
import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of
from uproar.expression import parse
from uproar.metrics.probe import evaluate, summarise


def run(text, batch):
    return evaluate([parse(text)], batch)[0][str(parse(text))]


CASES = [("", ""), ("_thr0.5", "threshold=0.5")]
CASES += [(f"_bin{q}", f"percentile={q}") for q in (50, 70, 75, 80, 85, 90)]


@pytest.mark.parametrize(("suffix", "options"), CASES)
def test_drop_and_increase_equal_those_of_the_coherency_code(golden, tiny32, suffix, options):
    g = golden("coherency")
    batch = batch_of(g["sal_object"][:, 0], model=tiny32, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3))
    drop = run(f"average_drop:coherency({options})", batch)["value"]
    torch.testing.assert_close(drop.float(), g[f"drop{suffix}_object"][:, 0], atol=1e-6, rtol=0)
    rise = run(f"increase_in_confidence:coherency({options})", batch)["value"]
    assert rise.bool().tolist() == g[f"inc{suffix}_object"][:, 0].tolist()
    if suffix in ("", "_bin50", "_bin75"):  # there the percentile happens to be an exact share
        own = {"": "", "_bin50": "binarise=0.5", "_bin75": "binarise=0.75"}[suffix]
        drop = run(f"average_drop({own})", batch)["value"]
        torch.testing.assert_close(drop.float(), g[f"drop{suffix}_object"][:, 0], atol=1e-6, rtol=0)


class Brightness(nn.Module):
    """p(class 1) / p(class 0) is e to the sum of all pixels."""

    def forward(self, x):
        total = x.sum((1, 2, 3))
        return torch.stack([torch.zeros_like(total), total], 1)


def faded(maps, x=None, **more):
    x = torch.ones(len(maps), 1, *maps.shape[1:]) if x is None else x
    target = torch.ones(len(maps), dtype=torch.long)
    return batch_of(maps, model=Brightness(), x=x, target=target, mean=torch.zeros(1), **more)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def test_drops_are_what_the_formula_says_on_a_model_that_sums_pixels():
    maps = torch.tensor([[[2.0, 1.0], [0.0, -1.0]]])  # by its maximum: 1, 1/2, 0, 0
    before, after = sigmoid(4), sigmoid(1.5)
    assert float(run("average_drop", faded(maps))["value"]) == pytest.approx((before - after) / before)
    assert float(run("average_drop:gradcam", faded(maps / 2))["value"]) == pytest.approx(before - sigmoid(1))
    kept = sigmoid(1)
    assert float(run("average_drop(binarise=0.75)", faded(maps))["value"]) == pytest.approx((before - kept) / before)
    top = sigmoid(1 + 2 / 3)  # min-max scaled: 1, 2/3, 1/3, 0
    assert float(run("average_drop:tame(top=0.5)", faded(maps))["value"]) == pytest.approx((before - top) / before)
    assert float(run("increase_in_confidence", faded(maps))["value"]) == 0
    assert float(run("increase_in_confidence", faded(maps, -torch.ones(1, 1, 2, 2)))["value"]) == 1
    assert float(run("average_drop", faded(maps, -torch.ones(1, 1, 2, 2)))["value"]) == 0


def test_drop_and_increase_of_one_map_cost_one_image_together():
    batch = faded(torch.rand(3, 4, 4))
    calls = [parse("average_drop"), parse("increase_in_confidence"), parse("average_drop(scale=minmax)")]
    assert evaluate(calls, batch)[1] == 3 * 2


def test_a_map_without_values_is_not_defined_and_counted():
    maps = torch.rand(4, 3, 3)
    maps[1], maps[2] = 0, 0.7
    results = run("average_drop", faded(maps))
    assert results["value"].isnan().tolist() == [False, True, True, False]
    summary = summarise(parse("average_drop"), results)
    assert (summary["n"], summary["nan"]) == (4, 2)
    assert summary["value"] == pytest.approx(float(results["value"][[0, 3]].mean()))
    assert run("average_drop(binarise=0.5)", faded(maps))["value"].isfinite().all()


def test_a_positive_factor_changes_nothing_and_a_power_does():
    maps = torch.rand(3, 4, 4)
    value = run("average_drop", faded(maps))["value"]
    torch.testing.assert_close(run("average_drop", faded(maps * 8))["value"], value)
    assert not torch.allclose(run("average_drop", faded(maps**3))["value"], value)
    exact = run("average_drop(binarise=0.6)", faded(maps))["value"]
    assert torch.equal(run("average_drop(binarise=0.6)", faded(maps**3))["value"], exact)


def test_a_probability_of_zero_cannot_drop():
    batch = faded(torch.rand(2, 4, 4), -1000 * torch.ones(2, 1, 4, 4))
    assert run("average_drop", batch)["value"].isnan().all()
