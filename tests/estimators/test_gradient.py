import pytest
import torch
import torch.nn.functional as F
from torch import nn

from uproar import explain
from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.estimators import Context, raw_maps, read_chain
from uproar.seeds import Draws


class Recorded(Draws):
    """Draws that give recorded noise instead of their own."""

    def normal(self, purpose, *shape):
        return torch.stack([NOISE[row[0]] for row in self.rows])

    def __getitem__(self, part):
        inner = super().__getitem__(part)
        return Recorded(inner.seed, inner.rows, inner.split)


NOISE: dict[int, torch.Tensor] = {}


def with_noise(model, x, target, name, noise):
    NOISE.update(enumerate(noise))
    draws = Draws.of(0, len(x))
    context = Context(Recorded(0, draws.rows))
    chain = read_chain(name)
    return raw_maps(model, x, target, context, [chain.raw])[chain.raw]


@pytest.fixture
def coherency(golden):
    return golden("coherency")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("grad", "raw_grad"),
        ("grad_input", "raw_gxi"),
        ("ig(steps=50, rule=right)", "raw_ig_zero"),
        ("guided_backprop", "raw_gbp"),
    ],
)
def test_maps_equal_those_of_the_coherency_library(tiny32, coherency, name, key):
    x, y = coherency["images_norm"], coherency["labels"].long()
    ours = explain(tiny32, x, name, target=y, raw=True)
    scale = float(coherency[key].abs().max())
    torch.testing.assert_close(ours, coherency[key], atol=1e-5 * scale, rtol=0)


def test_smoothgrad_equals_the_coherency_library_with_its_noise(tiny32, coherency):
    x, y = coherency["images_norm"], coherency["labels"].long()
    noise = coherency["smoothgrad_noise"] / 0.1
    name = "sg(grad, samples=10, sigma=0.1, unit=absolute)"
    ours = with_noise(tiny32, x, y, name, noise)
    scale = float(coherency["raw_smoothgrad"].abs().max())
    torch.testing.assert_close(ours, coherency["raw_smoothgrad"], atol=1e-5 * scale, rtol=0)


def test_maps_equal_those_of_captum(tiny32, golden):
    g = golden("captum_estimators")
    x, y = g["images_norm"], g["labels"].long()
    pairs = {"grad": "saliency_signed", "guided_backprop": "guided_backprop"}
    pairs |= CAPTUM_IG
    for name, key in pairs.items():
        ours = explain(tiny32, x, name, target=y, raw=True)
        scale = float(g[key].abs().max())
        torch.testing.assert_close(ours, g[key], atol=2e-5 * scale, rtol=0, msg=lambda m, k=key: f"{k}: {m}")


CAPTUM_IG = {
    "ig(steps=50, rule=gauss-legendre)": "ig_zero_50_gausslegendre",
    "ig(steps=50, rule=right)": "ig_zero_50_riemann_right",
    "ig(steps=25, rule=left)": "ig_zero_25_riemann_left",
}


class Scaled(nn.Module):
    """The golden network behind pixels of 0..255, as the sianalytics inputs are."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner((x / 255 - 0.5) / 0.25)


def test_single_image_gradients_equal_those_of_the_roar_pitfalls_code(tiny32, golden):
    g = golden("sianalytics_roar")
    x, y = g["est_inputs_255"].float(), g["est_labels"].long()
    model = Scaled(tiny32)
    for name, key, target in [
        ("abs(grad)", "est_single_grad", None),
        ("abs(grad_input)", "est_single_gi", None),
        ("grad", "est_grad_signed_single", None),
        ("abs(grad)", "est_gt_single_grad", y),
        ("sobel(axis=x)", "est_single_sobl", None),
    ]:
        theirs = g[key].float()
        ours = explain(model, x, name, target=target, raw=True)
        torch.testing.assert_close(
            ours, theirs, atol=1e-4 * float(theirs.abs().max()), rtol=0, msg=lambda m, k=key: f"{k}: {m}"
        )


def test_ig_of_gradient_sizes_equals_the_roar_pitfalls_code_where_the_class_stays(tiny32, golden):
    """That code explains the class predicted at each point of the path; for image 0 it is the same all along."""
    g = golden("sianalytics_roar")
    x, model = g["est_inputs_255"].float()[:1], Scaled(tiny32)
    assert all(int(model(x * i / 25).argmax()) == int(model(x).argmax()) for i in range(25))
    ours = explain(model, x, "abs(ig(rule=left, inner=abs))", raw=True)
    theirs = g["est_single_ig"][:1]
    torch.testing.assert_close(ours, theirs, atol=1e-5 * float(theirs.max()), rtol=0)


def test_smoothgrad_and_vargrad_of_absolute_gradients_equal_the_roar_pitfalls_code(tiny32, golden):
    g = golden("sianalytics_roar")
    model = Scaled(tiny32)
    for sigma in ("0.15", "25.0"):
        noise = g[f"est_sg_sigma{sigma}_noise"].float()
        x = g["est_inputs_255"].float()[: len(noise)]
        samples = noise.shape[1]
        # the reference explains the class of each noisy copy: equal to ours where that class is constant
        target = model(x).argmax(1)
        noisy = model((x[:, None] + noise).flatten(0, 1)).argmax(1).view(len(x), samples)
        same = (noisy == target[:, None]).all(1)
        assert same.any()
        for name, key in (("sg", f"est_sg_sigma{sigma}"), ("var", f"est_vg_sigma{sigma}")):
            expression = f"{name}(abs(grad), samples={samples}, sigma={sigma}, unit=absolute)"
            used = g[f"{key}_noise"].float() / float(sigma)
            ours = with_noise(model, x, target, expression, used)
            theirs = g[key].float()
            torch.testing.assert_close(
                ours[same],
                theirs[same],
                atol=2e-4 * float(theirs.abs().max()),
                rtol=1e-3,
                msg=lambda m, k=key: f"{k}: {m}",
            )


def linear(c=1, h=4, w=5, k=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(c * h * w, k))


def test_a_linear_models_gradient_is_its_weight_and_ig_its_contributions():
    model, x = linear(), torch.rand(6, 1, 4, 5)
    target = torch.tensor([0, 1, 2, 0, 1, 2])
    weight = model[1].weight[target].view(6, 1, 4, 5)
    torch.testing.assert_close(explain(model, x, "grad", target=target, raw=True), weight)
    for rule in ("midpoint", "left", "right", "both-ends", "gauss-legendre"):
        ig = explain(model, x, f"ig(steps=7, rule={rule})", target=target, raw=True)
        torch.testing.assert_close(ig, weight * x)
    white = explain(model, x, "ig(baseline=white)", target=target, raw=True)
    torch.testing.assert_close(white, weight * (x - 1))


@pytest.mark.parametrize("rule", ["midpoint", "gauss-legendre"])
def test_integrated_gradients_sum_to_the_difference_of_scores(rule, tiny32, coherency):
    x = coherency["images_norm"]
    target = tiny32(x).argmax(1)
    ig = explain(tiny32, x, f"ig(steps=300, rule={rule})", raw=True)
    black = tiny32(torch.zeros_like(x)).gather(1, target[:, None])[:, 0]
    expected = tiny32(x).gather(1, target[:, None])[:, 0] - black
    torch.testing.assert_close(ig.sum((1, 2, 3)), expected.detach(), atol=0.02, rtol=0.02)


class Styles(nn.Module):
    """One network whose ReLUs are called in four ways."""

    def __init__(self, style):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.fc, self.style = nn.Linear(4, 3), style
        self.relu, self.other = nn.ReLU(inplace=style == "inplace"), nn.ReLU()

    def forward(self, x):
        if self.style == "functional":
            first, second = F.relu, torch.relu
        elif self.style == "method":
            first = second = torch.Tensor.relu_
        elif self.style == "shared":
            first = second = self.relu
        else:
            first, second = self.relu, self.other
        x = second(self.b(first(self.a(x))))
        return self.fc(x.mean((2, 3)))


def test_guided_backprop_is_the_same_however_the_relus_are_called():
    x = torch.rand(4, 1, 6, 6)
    modules = explain(Styles("modules"), x, "guided_backprop", raw=True)
    plain = explain(Styles("modules"), x, "grad", raw=True)
    assert not torch.allclose(modules, plain)
    for style in ("functional", "method", "shared", "inplace"):
        torch.testing.assert_close(explain(Styles(style), x, "guided_backprop", raw=True), modules)


def test_guided_backprop_refuses_a_model_without_relus():
    with pytest.raises(NotApplicable, match="no ReLU"):
        explain(linear(), torch.rand(2, 1, 4, 5), "guided_backprop")


def test_bad_targets_and_images_get_one_sentence():
    model, x = linear(), torch.rand(2, 1, 4, 5)
    with pytest.raises(BadInput, match=r"run from 3 to 3, but the model has 3 classes \(0 to 2\)"):
        explain(model, x, target=3)
    with pytest.raises(BadInput, match="run from -1"):
        explain(model, x, target=-1)
    with pytest.raises(BadShape, match=r"2 images but targets of shape \(3,\)"):
        explain(model, x, target=[0, 1, 2])
    with pytest.raises(BadInput, match="no images"):
        explain(model, x[:0])
    with pytest.raises(BadInput, match="divide bytes by 255"):
        explain(model, (x * 255).byte())
    with pytest.raises(BadShape, match=r"\(n, c, h, w\)"):
        explain(model, x[0])
    with pytest.raises(BadShape, match="2 images but 3 indices"):
        explain(model, x, index=[1, 2, 3])
