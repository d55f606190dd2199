import math

import numpy as np
import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of, part
from tests.reference import probing_slow as slow
from uproar.errors import BadInput
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.probe import evaluate, fractions_of, joined, summarise
from uproar.metrics.soundness import Rule, at_level, included_at, soco_curve, sound_curve, sound_shares


def run(text, batch):
    return evaluate([parse(text)], batch)[0][str(parse(text))]


@pytest.fixture
def soco(golden, tiny16):
    g = golden("soco")
    batch = batch_of(
        g["smap_object"].float(), model=tiny16, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3)
    )
    return g, batch


def test_soundness_equals_that_of_the_released_code(soco):
    g, batch = soco
    results = run('soundness:soco(fill="linear(noise=0)")', batch)
    for name, options in (("default", {}), ("thr05_start30", {"epsilon": 0.05, "gate": 0.3})):
        accuracy, ratio = soco_curve(results, **options)
        torch.testing.assert_close(accuracy, g[f"sound_object_{name}_acc"], atol=1e-9, rtol=0)
        torch.testing.assert_close(ratio, g[f"sound_object_{name}_ratio"], atol=1e-6, rtol=0)
    ratios = fractions_of(parse("soundness:soco"), (3, 16, 16))
    np.testing.assert_allclose(ratios, g.numpy("ratios_soundness"))


def test_soundness_by_logit_equals_the_pred_score_of_the_released_code(soco):
    g, batch = soco
    results = run('soundness:soco(fill="linear(noise=0)", by=logit)', batch)
    mean, ratio = soco_curve(results, by="logit")
    torch.testing.assert_close(mean, g["sound_object_predscore_mean"], atol=1e-4, rtol=0)
    torch.testing.assert_close(ratio, g["sound_object_predscore_ratio"], atol=1e-6, rtol=0)


def test_completeness_equals_that_of_the_released_code(soco):
    g, batch = soco
    for name in ("completeness:soco", "completeness"):
        results = run(f'{name}(fill="linear(noise=0)")', batch)
        torch.testing.assert_close(results["curve"].mean(0), g["completeness_object_accdiff"], atol=1e-6, rtol=0)
    assert fractions_of(parse("completeness"), (3, 16, 16)) == tuple(i / 10 for i in range(9, 0, -1))


def test_the_threshold_of_the_paper_is_absolute_on_maps_clamped_to_0_and_1():
    """Algorithm 4: pixels above t are removed, t = 0.9, 0.8, …, 0.1, whatever the map's maximum."""
    maps = torch.zeros(4, 4, 5)
    for image, value in enumerate((0.35, 1.0, 7.0, 0.0)):
        maps[image, 0, 0] = value  # the one pixel that counts
    lost = run("completeness(fill=mean, threshold=absolute)", corner(maps))
    thresholds = fractions_of(parse("completeness(threshold=absolute)"), (1, 4, 5))
    assert thresholds == (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
    for image, value in enumerate((0.35, 1.0, 1.0, 0.0)):
        assert lost["curve"][image].tolist() == [float(value > t) for t in thresholds]
    assert lost["value"][3] == 0, "a map without values removes nothing, and counts"
    assert run("completeness(fill=mean)", corner(maps))["curve"][0].tolist() == [1.0] * 9, "relative: any scale"


def test_one_step_of_the_released_code_is_reproduced(golden):
    g = golden("soco")
    values = included_at(g["smap_object"][:4].float() / 255, [256 - int(256 * r) for r in (0.6, 0.55)])
    new = values[:, 1] - values[:, 0]
    torch.testing.assert_close(new.float(), g["unit_new_added"], atol=1e-4, rtol=0)
    ratio = (values[:, 1] - g["unit_accum_false"]) / (values[:, 1] + 1e-6)
    torch.testing.assert_close(ratio.float(), g["unit_attr_ratio"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.1])
def test_the_curve_follows_algorithm_3_step_by_step(epsilon):
    rng = np.random.default_rng(0)
    n, steps, features = 10, 9, 30
    hidden = [round(features * (steps + 1 - i) / (steps + 1)) for i in range(1, steps + 1)]
    correct = (rng.random((steps, n)) < np.linspace(0.2, 0.9, steps)[:, None]).astype(float)
    values = rng.random((n, features))
    expected = slow.soundness(correct, values, hidden, epsilon)
    responses = {
        "curve": torch.from_numpy(correct.T.copy()),
        "included": included_at(torch.from_numpy(values), [features - m for m in hidden]),
        "defined": torch.ones(n, dtype=torch.bool),
    }
    accuracy, share = sound_curve(responses, "accuracy", Rule(epsilon))
    np.testing.assert_allclose(accuracy, expected[:, 0])
    np.testing.assert_allclose(share, expected[:, 1])


def test_a_gain_of_exactly_epsilon_is_not_false_but_is_for_the_released_code():
    correct = torch.zeros(100, 2)
    correct[:56, 0] = 1
    correct[:57, 1] = 1  # 0.57 − 0.56 is less than 0.01 in floating point
    responses = {
        "curve": correct,
        "included": torch.tensor([[1.0, 2.0]]).expand(100, 2),
        "defined": torch.ones(100, dtype=torch.bool),
    }
    assert sound_curve(responses, "accuracy", Rule(0.01))[1].tolist() == [1, 1]
    closed = Rule(0.01, closed=True)
    assert sound_curve(responses, "accuracy", closed)[1].tolist() == [1, 0.5]


def test_the_lag_counts_false_attribution_one_step_later_and_the_gate_spares_the_start():
    gain, gate = torch.tensor([[0.0, 0.5, 0.0, 0.0]]), torch.tensor([[0.0, 0.5, 0.5, 0.5]])
    included = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    assert sound_shares(gain, gate, included, Rule(0.01)).tolist() == [[0, 0.5, 0.25, 0.125]]
    gated = Rule(0.01, gate=0.04)
    assert sound_shares(gain, gate, included, gated).tolist() == [[1, 1, 0.5, 0.25]]
    late = Rule(0.01, gate=0.04, lag=True)
    assert sound_shares(gain, gate, included, late).tolist() == [[1, 1, 1, 0.75]]


def test_the_value_at_a_level_is_taken_at_the_first_step_that_reaches_it():
    level, shares = torch.tensor([0.2, 0.6, 0.4, 0.8]), torch.tensor([1.0, 0.9, 0.8, 0.7])
    assert float(at_level(level, shares, 0.5)) == pytest.approx(0.9)
    assert float(at_level(level, shares, 0.2)) == 1
    assert float(at_level(level, shares, 0.7)) == pytest.approx(0.7)
    assert math.isnan(float(at_level(level, shares, 0.9)))


def test_over_several_levels_the_value_is_their_mean():
    maps = torch.rand(8, 4, 5, generator=torch.Generator().manual_seed(0))

    def value(levels: str) -> float:
        call = parse(f"soundness(fill=mean, steps=9, level={levels})")
        return summarise(call, run(str(call), corner(maps)))["value"]

    low, high = value("0.3"), value("0.9")
    assert low != high
    assert value("[0.3, 0.9]") == pytest.approx((low + high) / 2)
    assert math.isnan(value("[0.3, 1.1]")), "a level that is not reached was passed over"
    with pytest.raises(BadInput, match="level"):
        value("[]")


class Corner(nn.Module):
    """Right about class 1 as soon as the two brightest pixels, in the corner, are there."""

    def forward(self, x):
        seen = (x[:, 0, 0, :2] > 0.9).all(1)
        return torch.stack([~seen, seen], 1).float()


def corner(maps):
    x = torch.full((len(maps), 1, 4, 5), 0.5)
    x[:, 0, 0, :2] = 1
    target = torch.ones(len(maps), dtype=torch.long)
    return batch_of(maps, model=Corner(), x=x, target=target, mean=torch.full((1,), 0.5))


def test_a_map_of_what_the_model_uses_is_sound_and_one_with_more_before_it_is_not():
    right = torch.zeros(3, 4, 5)
    right[:, 0, :2] = torch.tensor([1.0, 1.0])
    wrong = right.clone()
    wrong[:, 2, :2] = 3.0
    call = parse("soundness(fill=mean, steps=9)")  # two pixels more at each step
    summaries = [summarise(call, run(str(call), corner(a))) for a in (right, wrong)]
    assert [s["value"] for s in summaries] == pytest.approx([1, 2 / 8])
    assert "3 images" in summaries[0]["note"]
    own = run(str(call), corner(wrong))["value"]
    assert own.tolist() == pytest.approx([0.25] * 3)


class Contrast(nn.Module):
    """Class 1 where the brightest and the darkest pixel of an image are far apart."""

    def forward(self, x):
        range_ = x.flatten(1).amax(1) - x.flatten(1).amin(1)
        return torch.stack([torch.full_like(range_, 0.5), range_], 1)


def test_a_small_object_without_its_surroundings_is_called_false_where_the_fill_spreads_it():
    """By hand, Algorithm 3 on four bright pixels of a hundred, one more pixel at each of 99 steps.

    Linear imputation makes an image of one colour of the four: no contrast, no gain, all of the attribution false. The
    step that lets the first dark pixel in gains everything, and brings no attribution. So the exact map scores 0. On a
    dark canvas the first bright pixel shows, and nothing is inserted that could be false before it.
    """
    x = torch.full((3, 1, 10, 10), 0.1)
    x[:, :, 4:6, 4:6] = 0.9
    truth = (x[:, 0] > 0.5).float()
    around = {"model": Contrast(), "x": x, "target": torch.ones(3, dtype=torch.long), "mean": torch.tensor([0.1])}
    results = run('soundness(fill="linear(noise=0)")', batch_of(truth, **around))
    assert results["curve"].mean(0).tolist() == [0.0] * 4 + [1.0] * 95
    call = parse('soundness(fill="linear(noise=0)")')
    assert summarise(call, results)["value"] == 0
    assert (
        summarise(parse("soundness(fill=mean)"), run("soundness(fill=mean)", batch_of(truth, **around)))["value"] == 1
    )
    # a map that wrongly ranks one dark pixel first scores higher: the next pixel, a right one, shows the contrast
    hinted = truth + 0.01
    hinted[:, 0, 0] = 1.5
    value = summarise(call, run(str(call), batch_of(hinted, **around)))["value"]
    assert value == pytest.approx(1.01 / (1.5 + 1.01))


def test_a_map_that_misses_what_the_model_uses_is_not_complete():
    right, wrong = torch.zeros(2, 4, 5), torch.zeros(2, 4, 5)
    right[:, 0, 0], wrong[:, 3, 3] = 1, 1
    assert run("completeness(fill=mean)", corner(right))["value"].tolist() == pytest.approx([1, 1])
    assert run("completeness(fill=mean)", corner(wrong))["value"].tolist() == [0, 0]
    half = right.clone()
    half[:, 0, 0], half[:, 1, 1] = 0.55, 1  # reached only by thresholds below 0.55
    results = run("completeness(fill=mean)", corner(half))
    assert results["curve"][0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_a_factor_changes_nothing_but_the_values_do():
    torch.manual_seed(0)
    maps = torch.rand(8, 4, 5)
    call = parse("soundness(fill=mean, steps=9, level=0.3)")
    result = [summarise(call, run(str(call), corner(a)))["value"] for a in (maps, 7 * maps, maps**4)]
    assert result[0] == pytest.approx(result[1])
    assert abs(result[0] - result[2]) > 0.01


def test_the_statistic_of_streamed_batches_is_that_of_the_data_set_and_not_a_mean():
    maps = torch.rand(12, 4, 5, generator=torch.Generator().manual_seed(1))
    batch = corner(maps)
    call = parse("soundness(steps=9, level=0.5, fill=mean)")
    whole = evaluate([call], batch)[0]
    parts = [evaluate([call], part(batch, range(i, i + 4)))[0] for i in range(0, 12, 4)]
    expected = summarise(call, whole[str(call)])["value"]
    assert 0 < expected < 1
    assert summarise(call, joined(parts)[str(call)])["value"] == expected
    each = [summarise(call, p[str(call)])["value"] for p in parts]
    assert abs(np.mean(each) - expected) > 0.01


def test_maps_without_values_are_left_out_and_counted():
    maps = torch.rand(4, 4, 5, generator=torch.Generator().manual_seed(0))
    maps[1, 0, :2], maps[3, 0, :2] = 0.8, 0.4
    maps[0], maps[2] = 0, 1
    call = parse("soundness(fill=mean, steps=9, level=0.3)")
    results = run(str(call), corner(maps))
    summary, rest = summarise(call, results), run(str(call), corner(maps[[1, 3]]))
    assert (summary["n"], summary["nan"]) == (4, 2)
    assert 0 < summary["value"] < 1
    assert summary["value"] == pytest.approx(summarise(call, rest)["value"])
    assert math.isnan(summarise(call, run(str(call), corner(torch.zeros(2, 4, 5))))["value"])
    assert run("completeness(fill=mean)", corner(maps))["value"].isnan().tolist() == [True, False, True, False]
    assert run("completeness:soco(fill=mean)", corner(maps))["value"].isfinite().all()


def test_the_note_speaks_of_accuracy_only_where_accuracy_decides():
    batch = batch_of(torch.rand(4, 6, 6), model=Contrast(), x=torch.rand(4, 1, 6, 6))
    for by, said in (("accuracy", True), ("logit", False)):
        text = f"soundness(fill=zero, steps=5, by={by})"
        note = summarise(parse(text), run(text, batch))["note"]
        assert note.startswith("a statistic of 4 images together") and ("accuracy" in note) is said


def test_the_trace_is_the_statistic_at_every_level():
    """Read at any level, the curve is what the metric would report there; NaN where accuracy never gets."""
    draws = torch.Generator().manual_seed(3)
    curve = (torch.rand(30, 12, generator=draws) < torch.linspace(0.1, 0.8, 12)).float()
    included = torch.rand(30, 12, generator=draws).cumsum(1)
    responses = {"curve": curve, "included": included, "defined": torch.ones(30)}
    facts = metrics["soundness"].facts
    options = {"epsilon": 0.01, "by": "accuracy"}
    levels = (0.2, 0.5, 0.99)
    result = facts["trace"].of(responses, levels, **options)
    wanted = [facts["statistic"](responses, level=level, **options) for level in levels]
    assert result.tolist() == pytest.approx(wanted, nan_ok=True)
    assert math.isnan(wanted[2])
    assert math.isfinite(wanted[1])
