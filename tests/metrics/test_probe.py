import dataclasses
import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of, part
from uproar.errors import BadInput, BadOption, BadShape
from uproar.expression import parse
from uproar.metrics import metrics, probe
from uproar.metrics.changes import Removed, Unchanged
from uproar.metrics.probe import evaluate, fractions_of, has_curve, joined, outputs_by_change, summarise

OURS = [
    name
    for name in metrics
    if metrics[name].function.__module__.rpartition(".")[2] in ("curves", "soundness", "confidence")
]
FEWER = {
    **dict.fromkeys(("insertion", "deletion"), "steps=7, fill=uniform, repeats=2"),
    **dict.fromkeys(("insertion:coherency", "deletion:coherency"), "steps=3, unit=region, window=4"),
    "soundness": "steps=7",
    "soundness:soco": "fill=mean",
    "insertion:rise": "step=20",
    "deletion:rise": "step=20",
}
COMMON = ["insertion", "deletion", "road", "road_gap", "soundness", "completeness", "average_drop"]


class Counting(nn.Module):
    """A linear model that notes how many images it has seen at a time."""

    def __init__(self, classes=4, shape=(3, 6, 5)):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(math.prod(shape), classes))
        self.rows = []

    def forward(self, x):
        self.rows.append(len(x))
        return x.flatten(1) @ self.weight


@pytest.fixture
def batch():
    torch.manual_seed(0)
    model, x = Counting(), torch.rand(7, 3, 6, 5)
    target = torch.randint(4, (7,))
    made = batch_of(torch.rand(7, 6, 5), model=model, x=x, target=target, mean=torch.full((3,), 0.4))
    model.rows.clear()
    return made


@pytest.mark.parametrize("name", OURS)
def test_responses_are_the_same_for_any_batch_size_order_and_rows(name, tiny16):
    torch.manual_seed(1)
    x, target = torch.rand(6, 3, 12, 12), torch.randint(4, (6,))
    call = parse(f"{name}({FEWER.get(name, '')})")
    maps = torch.rand(6, 12, 12).round(decimals=1)  # with ties
    whole = batch_of(maps, model=tiny16, x=x, target=target, mean=torch.full((3,), 0.4))
    expected = evaluate([call], whole)[0][str(call)]
    again = evaluate([call], whole, rows=4)[0][str(call)]
    rows = [[4], [0, 5, 2], [1, 3]]
    parts = [evaluate([call], part(whole, r), rows=50)[0] for r in rows]
    streamed = joined(parts)[str(call)]
    back = torch.tensor([4, 0, 5, 2, 1, 3]).argsort()
    for key, value in expected.items():
        torch.testing.assert_close(again[key], value, rtol=1e-5, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(streamed[key][back], value, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", OURS)
def test_every_value_lies_within_its_declared_bounds_and_every_curve_has_its_fractions(name, tiny16):
    torch.manual_seed(2)
    x, target = torch.rand(4, 3, 10, 10), torch.randint(4, (4,))
    batch = batch_of(torch.rand(4, 10, 10), model=tiny16, x=x, target=target, mean=torch.full((3,), 0.4))
    call = parse(name)
    result = evaluate([call], batch)[0][name]
    value = result["value"]
    assert value.shape == (4,)
    facts = metrics[name].facts
    fine = value[value.isfinite()]
    assert ((fine >= facts["low"] - 1e-9) & (fine <= facts["high"] + 1e-9)).all()
    assert has_curve(call) == ("curve" in result)
    if has_curve(call):
        fractions = fractions_of(call, (3, 10, 10))
        assert result["curve"].shape == (4, len(fractions))
        assert all(0 <= t <= 1 for t in fractions)


def test_each_changed_image_is_shown_once_however_many_metrics_ask_for_it(batch):
    calls = [parse("insertion(steps=10)"), parse("deletion(steps=10)")]
    _, shown = evaluate(calls, batch)
    # 9 inner points each, nothing removed is known already, everything removed is the same for both
    assert shown == 7 * (9 + 9 + 1) == sum(batch.model.rows)
    batch.model.rows.clear()
    more = [*calls, parse("insertion(steps=5)"), parse("average_drop(binarise=0.7)")]
    assert evaluate(more, batch)[1] == shown == sum(batch.model.rows)


def test_passes_hold_many_images_but_no_more_than_asked(batch):
    evaluate([parse("deletion(steps=10)")], batch, rows=21)
    assert set(batch.model.rows) == {21, 7}
    batch.model.rows.clear()
    evaluate([parse("deletion(steps=10)")], batch, rows=3)
    assert max(batch.model.rows) == 3


def test_the_unchanged_images_are_not_shown_again(batch):
    outputs, shown = outputs_by_change(batch, [Unchanged(), Removed("most", 3), Unchanged()])
    assert shown == 7
    assert torch.equal(outputs[Unchanged()], batch.clean)


def test_a_change_from_elsewhere_is_shown_like_any_other(batch):
    @dataclass(frozen=True)
    class Mirrored:
        def images(self, batch):
            return batch.x.flip(-1)

    outputs, _ = outputs_by_change(batch, [Mirrored(), Removed("most", 4)], rows=14)
    with torch.no_grad():
        torch.testing.assert_close(outputs[Mirrored()], batch.model(batch.x.flip(-1)))


def test_the_model_is_given_back_as_it_came_and_what_it_does_to_its_input_stays_there(batch):
    class Rude(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.drop = batch.model, nn.Dropout(0.5)

        def forward(self, x):
            return self.inner(self.drop(x.clone() if self.polite else x.mul_(2).div_(2)))

    rude = Rude().train()
    results = []
    for rude.polite in (True, False):
        made = dataclasses.replace(batch, model=rude)
        results.append(evaluate([parse(name) for name in COMMON], made)[0])
        assert rude.training
        assert all(p.requires_grad for p in rude.parameters())
    for name in COMMON:
        assert torch.equal(results[0][name]["value"].nan_to_num(), results[1][name]["value"].nan_to_num())


def test_a_map_that_is_not_finite_makes_its_own_image_undefined_and_no_other(batch):
    maps = batch.maps.clone()
    maps[2, 0, 0] = math.nan
    maps[5, 1, 1] = math.inf
    calls = [parse(name) for name in OURS if not (name.endswith("coherency") and name[0] in "di")]
    good, bad = evaluate(calls, batch)[0], evaluate(calls, dataclasses.replace(batch, maps=maps))[0]
    for call in calls:
        value = bad[str(call)]["value"]
        assert value[[2, 5]].isnan().all(), call
        rest = [0, 1, 3, 4, 6]
        assert torch.equal(value[rest].nan_to_num(-9), good[str(call)]["value"][rest].nan_to_num(-9))
        assert summarise(call, bad[str(call)])["nan"] >= 2


def test_a_summary_is_the_mean_over_defined_images_and_says_how_many_are_not():
    value = torch.tensor([1.0, math.nan, 3.0])
    assert summarise(parse("deletion"), {"value": value}) == {"value": 2.0, "n": 3, "nan": 1, "note": ""}
    nothing = summarise(parse("deletion"), {"value": value[1:2]})
    assert math.isnan(nothing["value"])
    assert nothing["nan"] == 1


def test_what_does_not_fit_is_refused_in_a_sentence(batch):
    turned = dataclasses.replace(batch)
    object.__setattr__(turned, "maps", torch.rand(7, 5, 6))
    with pytest.raises(BadShape, match=r"maps are \(5, 6\) but the images \(6, 5\)"):
        evaluate([parse("deletion")], turned)
    with pytest.raises(BadShape, match="7 images but 6 rows of draws"):
        evaluate([parse("deletion")], dataclasses.replace(batch, draws=batch.draws[:6]))
    with pytest.raises(BadOption, match="steps"):
        evaluate([parse("deletion(steps=0)")], batch)
    with pytest.raises(BadInput, match="average_drop has no curve"):
        fractions_of(parse("average_drop"), (3, 6, 5))


def test_a_curve_takes_the_softmax_of_all_its_points_at_once(batch, monkeypatch):
    calls = []
    monkeypatch.setattr(probe, "probabilities", lambda logits: calls.append(logits.shape) or logits.softmax(-1))
    call = metrics.complete(parse("deletion(steps=7, fill=uniform, repeats=2)"))
    curve = evaluate([call], batch)[0][str(call)]["curve"]
    assert len(calls) == 1 and curve.shape == (7, 8)
