"""Layer-wise relevance propagation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from tests.estimators.perturbing import close, scores, small, with_norms
from uproar.errors import NotApplicable
from uproar.estimators.class_scores import input_gradient
from uproar.estimators.decomposition import lrp
from uproar.models.small import cnn_small, resnet_small

COMPOSITES = ["epsilon-plus", "epsilon", "z-plus", "coherency"]


class Functional(nn.Module):
    """Functions instead of modules, in-place changes, a residual sum, batch norms without a layer before them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(8)
        self.one, self.two = (nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, bias=False))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = (x - 0.5) / 0.25
        x = F.relu(self.one(x))
        kept = x
        x = self.two(self.norm(x))
        F.relu_(x)
        x = x * 0.5
        x += kept
        x = F.max_pool2d(torch.relu(0.7 - x) + x, 3, stride=2)
        x = torch.cat([x[:, :4], x[:, 4:]], 1)
        return self.head(torch.flatten(F.avg_pool2d(x, 2), 1).view(len(x), 8, -1).mean(2) * 3)


# golden agreement: 1e-4 of the largest value, as the README of the golden data suggests for curves


def test_the_coherency_composite_is_the_released_code_one_image_at_a_time(golden, tiny32):
    data = golden("coherency")
    maps = lrp(with_norms(tiny32), data["images_norm"], data["labels"].long(), composite="coherency")
    close(maps, data["raw_lrp"], 1e-4)


# the epsilon rule


@pytest.mark.parametrize("name", ["cnn", "resnet", "functional", "tiny"])
def test_without_epsilon_relevance_is_gradient_times_normalised_input(name, tiny16):
    """In a network of ReLUs, with every bias absorbed: any layer treated wrongly would break it."""
    torch.manual_seed(0)
    model = {
        "cnn": lambda: small(cnn_small),
        "resnet": lambda: small(resnet_small),
        "functional": lambda: with_norms(Functional()),
        "tiny": lambda: with_norms(tiny16),
    }[name]().double()
    shift = {"functional": torch.full((3,), 0.5), "tiny": torch.zeros(3)}.get(name, torch.linspace(0.4, 0.6, 3))
    x, target = torch.rand(5, 3, 16, 16, dtype=torch.double), torch.arange(5) % 4
    expected = (x - shift.view(1, 3, 1, 1)) * input_gradient(model, x, target)
    close(lrp(model, x, target, composite="epsilon", epsilon=0), expected, 1e-6)


def test_a_larger_epsilon_keeps_relevance_back():
    torch.manual_seed(0)
    model, x, target = small(cnn_small), torch.rand(4, 3, 16, 16), torch.arange(4)
    sizes = [lrp(model, x, target, epsilon=e).abs().sum((1, 2, 3)) for e in (0, 0.1, 10.0)]
    assert (sizes[0] > sizes[1]).all()
    assert (sizes[1] > sizes[2]).all()


# conservation


@pytest.mark.parametrize("build", [cnn_small, resnet_small])
def test_positive_rules_hand_on_all_relevance(build):
    torch.manual_seed(0)
    model = small(build)
    x, target = torch.rand(5, 3, 16, 16), torch.arange(5) % 4
    maps = lrp(model, x, target, composite="z-plus")
    assert (maps >= 0).all()
    # up to the stabiliser, 1e-6 in every denominator
    assert torch.allclose(maps.sum((1, 2, 3)), torch.ones(5), atol=2e-3)
    mixed = lrp(model, x, target, composite="epsilon-plus")
    kept = scores(model, x, target) - model[-1].bias[target]
    assert torch.allclose(mixed.sum((1, 2, 3)), kept, atol=2e-3)


@pytest.mark.parametrize("composite", COMPOSITES[:-1])
def test_without_biases_all_rules_hand_on_all_relevance(composite):
    torch.manual_seed(0)
    conv = [nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in ((3, 8), (8, 8), (8, 8))]
    model = with_norms(
        nn.Sequential(
            conv[0],
            nn.ReLU(inplace=True),
            conv[1],
            nn.ReLU(),
            nn.MaxPool2d(2),
            conv[2],
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, 4, bias=False),
        )
    ).double()
    x, target = torch.rand(6, 3, 8, 8, dtype=torch.double), torch.arange(6) % 4
    maps = lrp(model, x, target, composite=composite, epsilon=1e-9)
    start = scores(model, x, target) if composite.startswith("epsilon") else torch.ones(6).double()
    assert torch.allclose(maps.sum((1, 2, 3)), start, atol=1e-5)


def test_the_terms_of_a_residual_sum_share_in_proportion():
    class Sum(nn.Module):
        def forward(self, x):
            return (x[:, :1] + 3 * x[:, 1:2] - x[:, 2:]).flatten(1)

    x = torch.tensor([2.0, 1.0, 1.0]).view(1, 3, 1, 1).repeat(2, 1, 1, 1)
    target = torch.tensor([0, 0])
    # 2 + 3 − 1 = 4
    assert torch.allclose(lrp(Sum(), x, target, composite="epsilon")[0].flatten(), torch.tensor([2.0, 3.0, -1.0]))
    # the last subtraction has one positive term, the first sum two
    positive = lrp(Sum(), x, target, composite="z-plus")[0].flatten()
    assert torch.allclose(positive, torch.tensor([0.4, 0.6, 0.0]), atol=1e-5)
    # where no term is positive, the negative ones share
    negative = torch.tensor([-2.0, -1.0, 0.0]).view(1, 3, 1, 1).repeat(2, 1, 1, 1)
    shares = lrp(Sum(), negative, target, composite="z-plus")[0].flatten()
    assert torch.allclose(shares, torch.tensor([0.4, 0.6, 0.0]), atol=1e-5)


def test_a_unit_that_is_active_through_its_bias_alone_keeps_its_relevance():
    model = with_norms(nn.Sequential(nn.Flatten(), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1, bias=False)))
    model[1].weight.data = torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    model[1].bias.data = torch.tensor([0.0, 3.0])
    model[3].weight.data = torch.tensor([[1.0, 1.0]])
    x = torch.full((2, 1, 1, 2), 0.5)
    # the hidden units are 1 and 3 − 1 = 2
    maps = lrp(model, x, torch.tensor([0, 0]), composite="z-plus")
    assert torch.allclose(maps, torch.full((2, 1, 1, 2), 1 / 6), atol=1e-5)


# the rules, once more and slowly


def slow_layer(rule: str, a: list[float], w: list[list[float]], b: list[float], r: list[float]) -> list[float]:
    """One dense layer by the textbook: z_ij = a_i w_ij, number by number."""
    result = [0.0] * len(a)
    for j in range(len(b)):
        z = [a[i] * w[j][i] for i in range(len(a))]
        z = z if rule == "epsilon" else [max(v, 0) for v in z]
        total = sum(z) + (b[j] if rule == "epsilon" else 0)
        shares = [v / total if total else 0 for v in z]
        result = [old + share * r[j] for old, share in zip(result, shares, strict=True)]
    return result


@pytest.mark.parametrize("composite", ["epsilon", "z-plus"])
def test_a_dense_network_gets_what_the_definition_says(composite):
    torch.manual_seed(3)
    model = with_norms(nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))).double()
    x, target = torch.rand(4, 1, 2, 3, dtype=torch.double), torch.tensor([0, 1, 2, 0])
    maps = lrp(model, x, target, composite=composite, epsilon=0)
    for n in range(4):
        hidden = model[:3](x[n : n + 1])[0]
        start = [0.0] * 3
        start[target[n]] = float(model(x[n : n + 1])[0, target[n]]) if composite == "epsilon" else 1.0
        head, body = model[3], model[1]
        r = slow_layer(composite, hidden.tolist(), head.weight.tolist(), head.bias.tolist(), start)
        r = slow_layer(composite, x[n].flatten().tolist(), body.weight.tolist(), body.bias.tolist(), r)
        assert torch.allclose(maps[n].flatten(), torch.tensor(r, dtype=torch.double), atol=1e-9)


def test_signed_inputs_count_with_negative_weights_as_positive_contributions():
    model = with_norms(nn.Sequential(nn.Flatten(), nn.Linear(2, 1, bias=False)))
    model[1].weight.data = torch.tensor([[2.0, -1.0]])
    x = torch.tensor([[1.0, -3.0], [1.0, 3.0]]).view(2, 1, 1, 2)
    maps = lrp(model, x, torch.tensor([0, 0]), composite="z-plus").flatten(1)
    assert torch.allclose(maps, torch.tensor([[0.4, 0.6], [1.0, 0.0]]), atol=1e-5)


# batch norm, shared and in-place modules


@pytest.mark.parametrize("composite", COMPOSITES[:-1])
def test_a_batch_norm_is_the_same_as_one_merged_by_hand(composite):
    torch.manual_seed(0)
    blocks = [(nn.Conv2d(a, b, 3), nn.BatchNorm2d(b)) for a, b in ((3, 6), (6, 6))]
    head = (nn.Flatten(), nn.Linear(6 * 16, 4))
    whole = with_norms(nn.Sequential(*blocks[0], nn.ReLU(), *blocks[1], nn.ReLU(), *head)).double()
    merged = [fuse_conv_bn_eval(*block) for block in blocks]
    fused = with_norms(nn.Sequential(merged[0], nn.ReLU(), merged[1], nn.ReLU(), *head)).double()
    x, target = torch.rand(3, 3, 8, 8, dtype=torch.double), torch.arange(3)
    options = {"composite": composite, "epsilon": 1e-9}
    close(lrp(whole, x, target, **options), lrp(fused, x, target, **options), 1e-6)


@pytest.mark.parametrize("composite", COMPOSITES)
def test_in_place_and_shared_modules_are_the_same_as_plain_copies(composite):
    torch.manual_seed(0)
    conv, relu, norm = nn.Conv2d(3, 3, 3, padding=1), nn.ReLU(inplace=True), nn.BatchNorm2d(3)
    shared = with_norms(nn.Sequential(conv, norm, relu, conv, norm, relu, nn.Flatten(), nn.Linear(48, 4)))
    plain = copy.deepcopy(shared)
    for place in (2, 5):
        plain[place] = nn.ReLU()
    for place in (3, 4):
        plain[place] = copy.deepcopy(plain[place - 3])
    x, target = torch.rand(3, 3, 4, 4), torch.arange(3)
    assert torch.equal(lrp(shared, x, target, composite=composite), lrp(plain, x, target, composite=composite))


def test_a_forward_pass_in_place_without_using_the_result_is_followed():
    class Statement(nn.Module):
        def __init__(self, plain: bool) -> None:
            super().__init__()
            self.plain, self.conv = plain, nn.Conv2d(3, 4, 3)

        def forward(self, x):
            x = self.conv(x)
            if self.plain:
                x = F.relu(x) + 1
            else:
                F.relu_(x)
                x.add_(1)
            return x.mean((2, 3))

    torch.manual_seed(0)
    plain, inside = with_norms(Statement(True)), with_norms(Statement(False))
    inside.load_state_dict(plain.state_dict())
    x, target = torch.rand(2, 3, 5, 5), torch.tensor([0, 3])
    assert torch.equal(lrp(plain, x, target), lrp(inside, x, target))


# refusals


class Calling(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def through_a_view(x):
    x = x.clone()
    part = x[:, :1]
    x.mul_(2)
    return part.flatten(1)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp_min(0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.flatten(1).softmax(1), "'Softmax'"),
        (lambda x: F.layer_norm(x, x.shape[1:]).flatten(1), "'NativeLayerNorm'"),
        (lambda x: (x * x.sigmoid()).flatten(1), "'Mul'"),
        (lambda x: (1 / (1 + x)).flatten(1), "'Mul'|'Reciprocal'"),
        (lambda x: x.square().flatten(1), "'Pow'"),
        (lambda x: (x.flatten(1) @ x.flatten(1).T)[:, :2], "'Mm'"),
        (lambda x: Own.apply(x).flatten(1), "'Own'"),
        (lambda x: F.conv2d(x, x.mean((0, 2, 3)).view(1, 3, 1, 1)).flatten(1), "weights that depend"),
        (lambda x: F.batch_norm(x, None, None, training=True).flatten(1), "statistics of the batch"),
        (through_a_view, "in-place changes"),
    ],
    ids=["softmax", "norm", "gate", "quotient", "square", "product", "self-made", "dynamic", "batch", "view"],
)
@pytest.mark.parametrize("composite", ["epsilon-plus", "coherency"])
def test_operations_without_a_rule_are_refused_by_name(function, name, composite):
    if name in ("'Softmax'", "'NativeLayerNorm'") and composite != "coherency":
        return  # have rules there: test_transformer_rules
    with pytest.raises(NotApplicable, match=name):
        lrp(Calling(function), torch.rand(2, 3, 2, 2) + 0.1, torch.tensor([0, 1]), composite=composite)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_layers_do_not_slip_through_with_their_gradient():
    model = torch.jit.trace(
        with_norms(nn.Sequential(nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten())), torch.rand(2, 3, 2, 2)
    )
    with pytest.raises(NotApplicable, match="no rule for the operation"):
        lrp(model, torch.rand(2, 3, 2, 2), torch.tensor([0, 1]))


def test_a_rule_for_the_first_layer_needs_one_that_sees_pixels():
    model = with_norms(nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 2)))
    with pytest.raises(NotApplicable, match="first layer"):
        lrp(model, torch.rand(2, 3, 2, 2), torch.tensor([0, 1]), composite="coherency")


# properties
