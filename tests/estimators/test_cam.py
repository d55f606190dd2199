"""Class activation maps and the layer they look at."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.estimators.perturbing import close, frozen, small
from uproar.errors import BadInput, NotApplicable, UnknownName
from uproar.estimators import read_chain
from uproar.estimators.cam import grad_cam, grad_cam_pp
from uproar.estimators.layers import captured, default_layer, layer_gradient, module_named
from uproar.models.small import Residual, cnn_small, resnet_small

# golden agreement: 1e-5 of the largest value


def test_grad_cam_of_a_named_layer_is_that_of_the_coherency_code(golden, tiny32):
    data = golden("coherency")
    maps = grad_cam(frozen(tiny32), data["images_norm"], data["labels"].long(), layer="conv2")
    close(maps.expand(-1, 3, -1, -1), data["raw_gradcam"])


@pytest.mark.parametrize("layer", ["conv2", "relu2"])
def test_weighted_features_are_those_of_captum(golden, tiny32, layer):
    data = golden("captum_estimators")
    features, gradient = layer_gradient(frozen(tiny32), data["images_norm"], data["labels"].long(), layer)
    maps = (gradient.mean((2, 3), keepdim=True) * features).sum(1, keepdim=True)
    close(maps, data[f"layergradcam_{layer}_raw_norelu"])


def test_enlarged_grad_cam_is_that_of_captum(golden, tiny32):
    data = golden("captum_estimators")
    maps = grad_cam(frozen(tiny32), data["images_norm"], data["labels"].long(), layer="conv2")
    close(maps, data["layergradcam_conv2_up"])


def test_the_per_channel_variant_is_that_of_the_sianalytics_code(golden, tiny32):
    data = golden("sianalytics_roar")
    x = (data["est_inputs_255"] / 255 - 0.5) / 0.25
    maps = grad_cam(frozen(tiny32), x, data["est_logits"].argmax(1), variant="per-channel")
    close(maps, data["est_single_gc_conv2"].mean(1, keepdim=True))


# known answers


class Planted(nn.Module):
    """Class k is the mean of feature map k, which is colour channel k."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1, bias=False)
        self.conv.weight.data = torch.eye(3).view(3, 3, 1, 1)

    def forward(self, x):
        return self.conv(x).mean((2, 3))


def test_the_map_is_the_feature_map_that_the_class_is_the_mean_of():
    x = torch.rand(3, 3, 8, 8)
    maps = grad_cam(frozen(Planted()), x, torch.arange(3))
    close(maps[:, 0], torch.stack([x[i, i] for i in range(3)]) / 64)


def test_what_speaks_against_the_class_is_kept_only_without_the_relu():
    model = frozen(Planted())
    model.conv.weight.data.neg_()
    x, target = torch.rand(2, 3, 4, 4) + 0.1, torch.tensor([0, 1])
    assert grad_cam(model, x, target).count_nonzero() == 0
    assert (grad_cam(model, x, target, relu=False) < 0).all()


def test_grad_cam_pp_weights_are_ratios_of_derivatives_of_the_exponential_score(tiny16):
    """From the definition: second and third derivatives by automatic differentiation, unit by unit."""
    model = frozen(nn.Sequential(tiny16.relu2, tiny16.gap, tiny16.flat, tiny16.fc).double())
    a = torch.rand(2, 16, 3, 3, dtype=torch.double)
    weights = torch.zeros(2, 16, dtype=torch.double)
    for n, k in ((n, k) for n in range(2) for k in range(16)):
        for place in range(9):
            unit = a[n, k].flatten()[place].clone().requires_grad_()
            features = a[n : n + 1].clone()
            features[0, k, place // 3, place % 3] = unit
            y = model(features)[0, n].exp()
            (first,) = torch.autograd.grad(y, unit, create_graph=True)
            (second,) = torch.autograd.grad(first, unit, create_graph=True)
            (third,) = torch.autograd.grad(second, unit)
            share = second / (2 * second + a[n, k].sum() * third)
            weights[n, k] += (share * first.clamp_min(0) / y).detach()
    expected = (weights[:, :, None, None] * a).sum(1, keepdim=True).clamp_min(0)
    whole = frozen(nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), model).double())
    whole[0].weight.data = torch.eye(16, dtype=torch.double).view(16, 16, 1, 1)
    close(grad_cam_pp(whole, a, torch.arange(2), layer="0"), expected, 1e-9)


def test_small_layers_are_enlarged_with_pixel_centres_in_place():
    model = frozen(nn.Sequential(nn.AvgPool2d(4), Planted()))
    maps = grad_cam(model, torch.rand(2, 3, 8, 8), torch.tensor([0, 1]))
    left, right = maps[:, :, 0, 0], maps[:, :, 0, 7]
    # pixels 0 and 1 lie outside the centre of the first cell; pixel 3 is 3/8 of a cell from it
    assert torch.equal(maps[:, :, 0, 1], left)
    close(maps[:, :, 0, 3], left + (right - left) * 3 / 8)


# which layer


class VGG(nn.Sequential):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(4 * 4 * 4, 4))


class PreActivation(nn.Module):
    """The sum has no module of its own, and the last batch norm and ReLU come after it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.body = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.body(F.relu(x))
        return self.head(F.relu(self.norm(x)).mean((2, 3)))


class SqueezeAndExcite(nn.Module):
    """Convolutions on pooled features, of one place each, do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.gate = nn.Conv2d(4, 4, 1)
        self.act = nn.Sigmoid()
        self.head = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        x = self.conv(x)
        x = x * self.act(self.gate(x.mean((2, 3), keepdim=True)))
        return self.head(x.mean((2, 3), keepdim=True)).flatten(1)


class Unused(nn.Module):
    """A convolution that runs last but is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.side = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)

    def forward(self, x):
        x = self.conv(x)
        self.side(x)
        return x.mean((2, 3))


class Functional(nn.Module):
    """A block that calls its convolution as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))

    def forward(self, x):
        return F.relu(F.conv2d(x, self.weight))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (VGG(), "features.4"),
        (PreActivation(), "norm"),
        (SqueezeAndExcite(), "conv"),
        (Unused(), "conv"),
        (nn.Sequential(Functional(), nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(4)), "0"),
        (
            nn.Sequential(nn.Sequential(Residual(3, 4, 1), Residual(4, 4, 2)), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
            "0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_the_last_convolutional_block_ends_before_pooling(model, name):
    x = torch.rand(2, 3, 16, 16)
    model.eval()(x)
    assert default_layer(frozen(model), x) == name


@pytest.mark.parametrize(("build", "name"), [(cnn_small, "2.2"), (resnet_small, "4")])
def test_the_last_block_of_the_small_networks_is_found(build, name):
    model = small(build)
    result = module_named(model, default_layer(model, torch.rand(2, 3, 16, 16)))
    same = result is module_named(model, name)
    # a block and its last module have the same output
    assert same or [*result.modules()][-1] is module_named(model, name)


def test_a_module_called_several_times_counts_with_its_last_call():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)

        def forward(self, x):
            return self.conv(self.conv(x)).mean((2, 3))

    model, x = frozen(Twice()), torch.rand(2, 3, 8, 8)
    features, gradient = layer_gradient(model, x, torch.tensor([0, 1]), None)
    close(features, model.conv(model.conv(x)))
    # the score is a mean over 64 places of one feature map
    assert torch.allclose(gradient[0, 0], torch.tensor(1 / 64))
    assert gradient[0, 1:].count_nonzero() == 0


def test_an_in_place_relu_does_not_change_the_captured_convolution():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 4, 3)
    rest = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4))
    x, target = torch.rand(2, 3, 8, 8), torch.tensor([0, 3])
    apart = layer_gradient(frozen(nn.Sequential(conv, nn.ReLU(), *rest)), x, target, "0")
    inside = layer_gradient(frozen(nn.Sequential(conv, nn.ReLU(inplace=True), *rest)), x, target, "0")
    assert (inside[0] < 0).any()
    assert torch.equal(inside[0], apart[0])
    assert torch.equal(inside[1], apart[1])


def test_no_hook_is_left_behind_even_after_an_error():
    model = frozen(VGG())
    with pytest.raises(RuntimeError), captured(model.features):
        model(torch.rand(2, 5, 16, 16))
    with pytest.raises(BadInput, match="cannot take"):
        default_layer(model, torch.rand(2, 5, 16, 16))
    assert not any(module._forward_hooks for module in model.modules())


def test_a_number_names_a_place_in_a_sequence():
    assert dict(read_chain("grad_cam(layer=4)").raw.options)["layer"] == "4"


# refusals


def test_an_unknown_layer_is_refused_with_near_names(tiny32):
    with pytest.raises(UnknownName, match="Did you mean 'conv2' or 'conv1'"):
        grad_cam(frozen(tiny32), torch.rand(2, 3, 32, 32), torch.tensor([0, 1]), layer="conv3")


def test_a_layer_without_feature_maps_is_refused(tiny32):
    with pytest.raises(BadInput, match=r"layer 'fc' is \(2, 4\)"):
        grad_cam(frozen(tiny32), torch.rand(2, 3, 32, 32), torch.tensor([0, 1]), layer="fc")


def test_a_layer_that_the_score_does_not_depend_on_is_refused():
    with pytest.raises(BadInput, match="do not depend on layer 'side'"):
        grad_cam(frozen(Unused()), torch.rand(2, 3, 8, 8), torch.tensor([0, 1]), layer="side")


@pytest.mark.parametrize("method", [grad_cam, grad_cam_pp])
def test_a_model_without_convolutions_is_not_applicable(method):
    model = frozen(nn.Sequential(nn.Flatten(), nn.Linear(12, 4)))
    with pytest.raises(NotApplicable, match="a convolution is needed"):
        method(model, torch.rand(2, 3, 2, 2), torch.tensor([0, 1]))


def test_images_of_one_pixel_are_not_applicable():
    with pytest.raises(NotApplicable, match="single place"):
        grad_cam(small(cnn_small, (3, 1, 1)), torch.rand(2, 3, 1, 1), torch.tensor([0, 1]))


# properties
