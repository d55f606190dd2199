"""Attention weights and their gradients, and the maps made of them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import uproar
from tests.closeness import alike
from tests.estimators.transformers import HandSet, Written
from uproar.errors import NotApplicable
from uproar.estimators.attention import AttentionRecord, attention_rollout, grad_attention, legrad, token_structure
from uproar.models import ModelSpec, make

METHODS = [attention_rollout, grad_attention, legrad]


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("how", ["fused", "module"])
def test_attention_is_the_same_however_it_is_written(how, pooled):
    x, y = torch.rand(3, 3, 8, 12), torch.tensor([0, 1, 2])
    plain, other = Written("explicit", pooled), Written(how, pooled)
    for method in METHODS:
        torch.testing.assert_close(method(other, x, y), method(plain, x, y), rtol=1e-4, atol=1e-6)
    with AttentionRecord() as record:
        said = other(x)
    torch.testing.assert_close(said, other(x))
    assert [tuple(each.shape) for each in record.weights] == [(3, 2, 25 - pooled, 25 - pooled)] * 2


def test_scores_are_read_from_the_class_token_or_from_all_patches():
    x = torch.rand(2, 3, 8, 12)
    assert token_structure(Written("fused"), x).read == (0,)
    assert token_structure(Written("fused", pooled=True), x).read == tuple(range(24))
    assert token_structure(Written("module"), x).blocks == ("blocks.0", "blocks.1")


def test_scores_that_rest_on_no_attention_are_read_from_all_tokens():
    model, x = (
        make(ModelSpec.of("vit-small(depth=1, width=8)"), 0, (1, 8, 8), 3, torch.zeros(1), torch.ones(1)),
        torch.rand(2, 1, 8, 8),
    )
    assert token_structure(model, x).read == (0,)
    with torch.no_grad():
        model.head.weight.zero_()
    assert len(token_structure(model, x).read) == 17


def test_maps_of_attention_set_by_hand():
    """Score 0 is Σ_j a_j v_j t_j: its gradient in the attention to patch j is v_j t_j."""
    torch.manual_seed(0)
    logits, values = torch.randn(5, 5), torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5])
    model, x = HandSet(logits, values), torch.rand(2, 3, 4, 4)
    y = torch.tensor([0, 1])
    weights = logits.softmax(-1)
    tokens = nn.functional.avg_pool2d(x, 2).mean(1).flatten(1)
    up = lambda v: nn.functional.interpolate(v.view(2, 1, 2, 2), (4, 4), mode="bilinear")  # noqa: E731
    rolled = ((weights + torch.eye(5)) / 2)[0, 1:]
    torch.testing.assert_close(attention_rollout(model, x, y), up(rolled.expand(2, -1)))
    sign = torch.tensor([1.0, -1.0])[:, None]
    gradient = sign * values[1:] * tokens
    torch.testing.assert_close(grad_attention(model, x, y), up((weights[0, 1:] * gradient).clamp_min(0)))


def test_two_layers_are_followed_as_by_hand():
    """Both formulas again, with plain loops over images, on a network of two layers and two heads."""
    model, x, y = Written("explicit"), torch.rand(2, 3, 4, 4), torch.tensor([0, 2])
    with torch.enable_grad(), AttentionRecord() as record:
        total = model(x.requires_grad_()).gather(1, y[:, None]).sum()
    gradients = torch.autograd.grad(total, record.weights)
    x = x.detach()
    for i in range(2):
        rolled, relevance = torch.eye(5), torch.eye(5)
        for weights, gradient in zip(record.weights, gradients, strict=True):
            rolled = (0.5 * weights[i].detach().mean(0) + 0.5 * torch.eye(5)) @ rolled
            raised = torch.stack([(w * g).clamp_min(0) for w, g in zip(weights[i].detach(), gradient[i], strict=True)])
            relevance = relevance + raised.mean(0) @ relevance
        for method, expected in ((attention_rollout, rolled), (grad_attention, relevance)):
            large = nn.functional.interpolate(expected[0, 1:].view(1, 1, 2, 2), (4, 4), mode="bilinear")
            torch.testing.assert_close(method(model, x, y)[i : i + 1], large, rtol=1e-4, atol=1e-7)


def test_legrad_asks_every_layer_as_if_it_were_the_last():
    """Again, with a network cut off behind each block."""
    model, x, y = Written("explicit"), torch.rand(2, 3, 4, 4), torch.tensor([0, 2])
    total = torch.zeros(2, 5)
    for depth in (1, 2):
        cut = copy.deepcopy(model)
        cut.blocks = cut.blocks[:depth]
        with torch.enable_grad(), AttentionRecord() as record:
            score = cut(x.clone().requires_grad_()).gather(1, y[:, None]).sum()
        (gradient,) = torch.autograd.grad(score, record.weights[-1])
        total += gradient.clamp_min(0).mean((1, 2)) / 2
    large = nn.functional.interpolate(total[:, 1:].view(2, 1, 2, 2), (4, 4), mode="bilinear")
    torch.testing.assert_close(legrad(model, x, y), large, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("name", ["attention_rollout", "grad_attention", "legrad", "ablation_cam"])
@pytest.mark.parametrize("how", ["fused", "module"])
def test_maps_do_not_depend_on_the_batch_and_leave_the_model_alone(name, how):
    model = Written(how).train()
    x, y = torch.rand(5, 3, 8, 12), torch.arange(5) % 3
    whole = uproar.explain(model, x, name, target=y)
    assert alike(uproar.explain(model, x, name, target=y, batch_size=2), whole)
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_model_without_attention_is_refused():
    model = make(ModelSpec.of("cnn-small(width=4)"), 0, (3, 8, 8), 3, torch.zeros(3), torch.ones(3))
    for method in METHODS:
        with pytest.raises(NotApplicable, match="attention is needed, and none was met"):
            method(model.eval(), torch.rand(2, 3, 8, 8), torch.tensor([0, 1]))
