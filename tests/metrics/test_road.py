import numpy as np
import pytest
import torch
from torch import nn

from tests.metrics.looking import batch_of
from uproar.errors import BadInput, NotApplicable
from uproar.expression import parse
from uproar.metrics.changes import Jittered, Removed, removed
from uproar.metrics.probe import evaluate, fractions_of, outputs_by_change
from uproar.removal import FillContext, filled


class Normalised(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner((x - 0.5) / 0.25)


def run(text, batch):
    return evaluate([parse(text)], batch)[0][str(parse(text))]


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
