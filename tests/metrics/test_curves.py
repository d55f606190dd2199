"""Insertion, deletion and ROAD."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of
from tests.reference import probing_slow as slow
from uproar.errors import BadInput, BadOption, NotApplicable, UnknownName
from uproar.expression import parse
from uproar.metrics.changes import Jittered, Removed, removed
from uproar.metrics.probe import evaluate, fractions_of, outputs_by_change
from uproar.registry import Entry
from uproar.removal import FillContext, filled
from uproar.removal.fill import fills
from uproar.seeds import Draws


def run(text, batch):
    return evaluate([parse(text)], batch)[0][str(parse(text))]


@pytest.mark.parametrize("step", [32, 100])
def test_curves_and_areas_equal_those_of_the_rise_code(golden, tiny32, step):
    g = golden("rise")
    batch = batch_of(
        g["sal_a"].float(), model=tiny32, x=g["images_norm"], target=g["probs"].argmax(1), mean=torch.zeros(3)
    )
    for short, name in (("del", "deletion"), ("ins", "insertion")):
        results = run(f"{name}:rise(step={step})", batch)
        torch.testing.assert_close(results["curve"], g[f"{short}_step{step}_sal_a_single"], atol=1e-6, rtol=0)
        torch.testing.assert_close(results["value"], g[f"{short}_step{step}_sal_a_auc"], atol=1e-6, rtol=0)
        mean_of_curves = g.numpy(f"{short}_step{step}_sal_a_batch_meanauc")
        assert float(results["value"].mean()) == pytest.approx(float(mean_of_curves), abs=1e-6)


def test_the_blurred_canvas_equals_that_of_the_rise_code(golden):
    g = golden("rise")
    x = g["images_norm"]
    everything = torch.ones(len(x), 32, 32, dtype=torch.bool)
    blurred = filled(x, everything, "blur:rise", FillContext(Draws.of(0, len(x)), torch.zeros(3)))
    torch.testing.assert_close(blurred, g["blurred"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("fill", ["zero", "blur", "uniform"])
@pytest.mark.parametrize("unit", ["pixel", "region9"])
def test_curves_equal_those_of_the_coherency_code(golden, tiny32, monkeypatch, fill, unit):
    g = golden("coherency")
    noise = Entry("fill", "given", lambda x, removed, around: g["uniform_baseline"])
    monkeypatch.setitem(fills._entries, "given", noise)
    batch = batch_of(g["sal_object"][:, 0], model=tiny32, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3))
    ours = {"zero": "mean", "blur": "blur", "uniform": "given"}[fill]
    options = "unit=pixel" if unit == "pixel" else "unit=region, steps=12"
    for name in ("deletion", "insertion"):
        curve = run(f"{name}:coherency(fill={ours}, {options})", batch)["curve"]
        torch.testing.assert_close(curve, g[f"{name}_{unit}_{fill}_object"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("unit", ["pixel", "region"])
@pytest.mark.parametrize("name", ["insertion", "deletion"])
def test_curve_and_area_follow_from_the_definition_step_by_step(name, unit, tiny16):
    torch.manual_seed(0)
    x, maps, target = torch.rand(2, 3, 16, 16), torch.randn(2, 16, 16), torch.tensor([1, 3])
    mean = torch.tensor([0.2, 0.4, 0.6])
    batch = batch_of(maps, model=tiny16, x=x, target=target, mean=mean)
    results = run(f"{name}(steps=13, unit={unit}, window=5)", batch)
    for i in range(2):
        values = maps[i].numpy()
        order = slow.region_order(values, 5 if unit == "region" else 1)
        canvas = mean.view(3, 1, 1).expand(3, 16, 16).numpy()
        curve, area = slow.path(tiny16, x[i].numpy(), canvas, order, int(target[i]), 13, name == "insertion")
        np.testing.assert_allclose(results["curve"][i], curve, atol=1e-6)
        assert float(results["value"][i]) == pytest.approx(area, abs=1e-6)
    assert fractions_of(parse(f"{name}(steps=13)"), (3, 16, 16)) == tuple(i / 13 for i in range(14))


class OnePixel(nn.Module):
    """Certain of class 1 while one pixel is bright, of class 0 otherwise."""

    def forward(self, x):
        seen = x[:, 0, 2, 3] > 0.5
        return torch.stack([~seen, seen], 1).float() * 200


def test_a_map_of_the_one_pixel_that_matters_gets_nearly_the_best_possible_areas():
    x = torch.ones(3, 1, 5, 8)
    good, bad = torch.rand(3, 5, 8), torch.rand(3, 5, 8)
    good[:, 2, 3], bad[:, 2, 3] = 2, -2
    for maps, deleted, inserted in ((good, 0.0125, 0.9875), (bad, 0.9875, 0.0125)):
        batch = batch_of(maps, model=OnePixel(), x=x, target=torch.ones(3, dtype=torch.long), mean=torch.zeros(1))
        # 40 steps of one pixel: the answer changes between two points, half a step in
        assert run("deletion(steps=40)", batch)["value"].tolist() == pytest.approx([deleted] * 3)
        assert run("insertion(steps=40)", batch)["value"].tolist() == pytest.approx([inserted] * 3)


@pytest.mark.parametrize("name", ["insertion", "deletion:rise", "deletion(unit=region, window=3)"])
def test_only_the_order_of_the_map_counts(name, tiny16):
    torch.manual_seed(0)
    x, maps = torch.rand(3, 3, 16, 16), torch.rand(3, 16, 16)
    more = {"model": tiny16, "x": x, "target": torch.tensor([0, 1, 2]), "mean": torch.zeros(3)}
    plain, bent = (run(name, batch_of(a, **more)) for a in (maps, torch.exp(5 * maps) - 3))
    assert torch.equal(plain["curve"], bent["curve"])


def test_noise_is_averaged_over_five_independent_draws(tiny16):
    torch.manual_seed(0)
    x, maps = torch.rand(2, 3, 16, 16), torch.rand(2, 16, 16)
    batch = batch_of(maps, model=tiny16, x=x, target=torch.tensor([0, 1]), mean=torch.zeros(3))
    call = parse("deletion(steps=4, fill=uniform)")
    scores, shown = evaluate([call], batch)
    assert shown == 2 * 4 * 5
    average = torch.zeros(2, 5, dtype=torch.float64)
    for draw in range(5):
        draws = batch.draws if draw == 0 else batch.draws.copies([draw])
        for i in range(5):
            order = maps.flatten(1).argsort(1, descending=True)
            gone = torch.zeros(2, 256, dtype=torch.bool).scatter_(1, order[:, : 64 * i], True)
            images = filled(x, gone.view(2, 16, 16), "uniform", FillContext(draws))
            with torch.no_grad():
                p = tiny16(images).double().softmax(1)
            average[:, i] += p[[0, 1], [0, 1]] / 5
    torch.testing.assert_close(scores[str(call)]["curve"], average, atol=1e-6, rtol=0)
    assert evaluate([parse("deletion(steps=4, fill=mean, repeats=9)")], batch)[1] == 2 * 4


def test_a_constant_map_is_ordered_by_the_samples_own_draws(tiny16):
    x = torch.rand(2, 3, 16, 16)
    curves = [
        run("deletion(steps=9)", batch_of(torch.zeros(2, 16, 16), model=tiny16, x=x, mean=torch.zeros(3), seed=s))
        for s in (0, 0, 1)
    ]
    assert torch.equal(curves[0]["curve"], curves[1]["curve"])
    assert not torch.equal(curves[0]["curve"], curves[2]["curve"])
    assert curves[0]["value"].isfinite().all()


def test_options_that_cannot_work_are_refused_before_any_image_is_shown(tiny16):
    batch = batch_of(torch.rand(2, 16, 16), model=tiny16, x=torch.rand(2, 3, 16, 16))
    with pytest.raises(BadOption, match="at most 3 steps on 16×16"):
        run("insertion:coherency(unit=region)", batch)
    with pytest.raises(UnknownName, match="men"):
        run("insertion(fill=men)", batch)


class Normalised(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner((x - 0.5) / 0.25)


@pytest.fixture
def leemann(golden, tiny32):
    g = golden("road_masks")
    batch = batch_of(
        g["expl_hwc"].sum(-1), model=Normalised(tiny32), x=g["images"], target=g["labels"], mean=torch.zeros(3)
    )
    return g, batch


@pytest.mark.parametrize(("short", "side"), [("morf", "most"), ("lerf", "least")])
def test_masks_images_and_answers_equal_those_of_the_road_code(leemann, short, side):
    g, batch = leemann
    for i, p in enumerate(g["percentages"].tolist()):
        k = int(1024 * p) if side == "most" else 1024 - int(1024 * p)
        change = removed(side, k, 1024, "linear(noise=0)", 0, Jittered(0.0))
        assert torch.equal(change.removed_mask(batch), g[f"{short}_mask"][i] == 0)
        torch.testing.assert_close(change.images(batch), g[f"{short}_imputed"][i], atol=1e-5, rtol=0)
        outputs, _ = outputs_by_change(batch, [change])
        torch.testing.assert_close(outputs[change], g[f"{short}_logits"][i], atol=1e-4, rtol=0)


def test_accuracies_equal_those_of_the_road_code(leemann):
    g, batch = leemann
    for name, short in (("road", "morf"), ("road_lerf", "lerf")):
        text = f'{name}:leemann(jitter=0, fill="linear(noise=0)")'
        results = run(text, batch)
        np.testing.assert_allclose(results["curve"].mean(0), g.numpy(f"{short}_acc"))
        assert float(results["value"].mean()) == pytest.approx(float(g[f"{short}_acc"].mean()))
        assert fractions_of(parse(text), (3, 32, 32)) == tuple(g["percentages"].tolist())


def test_in_the_road_code_the_fraction_of_the_other_order_is_the_share_kept(leemann):
    _, batch = leemann
    kept = run('road_lerf:leemann(jitter=0, fractions=[0.25], fill="linear(noise=0)", by=probability)', batch)
    gone = run('road_lerf(fractions=[0.75], fill="linear(noise=0)", by=probability)', batch)
    assert torch.equal(kept["curve"], gone["curve"])


def test_score_differences_equal_those_of_grad_cam(golden, tiny32):
    g = golden("gradcam_road")
    batch = batch_of(g["cams"], model=tiny32, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3))
    fill = 'fill="linear(noise=0)"'
    most = run(f"road_morf:gradcam({fill})", batch)
    torch.testing.assert_close(most["curve"].T.float(), g["morf_scorediff"], atol=1e-4, rtol=0)
    least, both = run(f"road_lerf:gradcam({fill})", batch), run(f"road:gradcam({fill})", batch)
    torch.testing.assert_close(both["value"], (least["value"] - most["value"]) / 2)
    mirrored = batch_of(1 - g["cams"], model=tiny32, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3))
    torch.testing.assert_close(run(f"road_morf:gradcam({fill})", mirrored)["curve"], least["curve"])


@pytest.mark.parametrize("by", ["accuracy", "probability"])
def test_both_orders_follow_from_their_definition(tiny16, by):
    torch.manual_seed(0)
    x, maps, target = (torch.rand(6, 3, 16, 16), torch.rand(6, 16, 16), torch.tensor([0, 1, 2, 3, 0, 1]))
    mean = torch.full((3,), 0.5)
    batch = batch_of(maps, model=tiny16, x=x, target=target, mean=mean)
    fractions = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)
    areas = {}
    for name, sign in (("road", -1), ("road_lerf", 1)):
        order = (sign * maps.flatten(1)).argsort(1)
        curve = []
        for t in fractions:
            gone = torch.zeros(6, 256, dtype=torch.bool).scatter_(1, order[:, : round(256 * t)], True)
            images = filled(x, gone.view(6, 16, 16), "linear", FillContext(batch.draws, mean))
            with torch.no_grad():
                scores = tiny16(images).double()
            right = (scores.argmax(1) == target).double()
            curve.append(right if by == "accuracy" else scores.softmax(1)[range(6), target])
        curve = torch.stack(curve, 1)
        results = run(f"{name}(by={by})", batch)
        torch.testing.assert_close(results["curve"], curve, atol=1e-6, rtol=0)
        areas[name] = torch.trapezoid(curve, torch.tensor(fractions, dtype=torch.float64))
        torch.testing.assert_close(results["value"], areas[name], atol=1e-6, rtol=0)
        assert fractions_of(parse(name), (3, 16, 16)) == fractions
    gap = run(f"road_gap(by={by})", batch)["value"]
    torch.testing.assert_close(gap, areas["road_lerf"] - areas["road"], atol=1e-6, rtol=0)


def test_the_gap_costs_nothing_beside_its_two_halves(tiny16):
    x = torch.rand(2, 3, 16, 16)
    batch = batch_of(torch.rand(2, 16, 16), model=tiny16, x=x, mean=torch.zeros(3))
    halves = evaluate([parse("road"), parse("road_lerf")], batch)[1]
    assert evaluate([parse("road"), parse("road_lerf"), parse("road_gap")], batch)[1] == halves == 2 * 15


def test_a_map_and_its_negative_have_opposite_gaps(tiny16):
    torch.manual_seed(0)
    x, maps = torch.rand(3, 3, 16, 16), torch.rand(3, 16, 16)
    plain, turned = (
        run("road_gap(by=probability)", batch_of(a, model=tiny16, x=x, mean=torch.zeros(3)))["value"]
        for a in (maps, -maps)
    )
    torch.testing.assert_close(plain, -turned)


def test_accuracy_differences_equal_those_of_the_soundness_code(golden, tiny16):
    g = golden("soco")
    batch = batch_of(
        g["smap_object"].float(), model=tiny16, x=g["images_norm"], target=g["labels"], mean=torch.zeros(3)
    )
    clean = (batch.clean.argmax(1) == batch.target).double().mean()
    cases = (("road_morf", "most", "linear(noise=0)"), ("road_lerf", "least", "linear(noise=0)"))
    for name, side, fill in (*cases, ("deletion", "most", "mean")):
        changes = [Removed(side, int(256 * r), fill) for r in g["ratios_completeness"].tolist()]
        outputs, _ = outputs_by_change(batch, changes)
        right = torch.stack([(outputs[c].argmax(1) == batch.target).double().mean() for c in changes])
        torch.testing.assert_close(clean - right, g[f"{name}_object_accdiff"], atol=1e-6, rtol=0)


def test_fractions_that_do_not_increase_and_an_unknown_mean_colour_are_refused(tiny16):
    x, maps = torch.rand(2, 3, 16, 16), torch.rand(2, 16, 16)
    with pytest.raises(BadInput, match="must increase"):
        run("road(fractions=[0.5, 0.1])", batch_of(maps, model=tiny16, x=x, mean=torch.zeros(3)))
    with pytest.raises(NotApplicable, match="mean colour"):
        run("road", batch_of(maps, model=tiny16, x=x))
    assert run("road(fractions=[0.1, 0.5])", batch_of(maps, model=tiny16, x=x))["value"].isfinite().all()
