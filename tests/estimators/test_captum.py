"""Captum's classes as estimators: the same numbers as our own, checked options, and a model left as it was."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import pytest
import torch
from torch import nn

from uproar.data.task import Split
from uproar.errors import BadInput, BadOption, NotApplicable, UnknownName
from uproar.estimators.adapters import captum_entry
from uproar.estimators.gradient import grad, grad_input, guided_backprop, ig
from uproar.estimators.registry import Context
from uproar.models.small import cnn_small
from uproar.registry import Entry
from uproar.seeds import Draws

pytest.importorskip("captum")
pytestmark = pytest.mark.filterwarnings("ignore")

N, SHAPE = 9, (3, 13, 12)  # odd: vector kernels treat the last numbers of a batch differently


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return cnn_small(SHAPE, 4, torch.full((3,), 0.5), torch.full((3,), 0.3)).eval()


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(N, *SHAPE, generator=torch.Generator().manual_seed(1))


TARGET = torch.arange(N) % 4


def context_of(rows=range(N)) -> Context:
    train = Split("train", torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(2)), torch.zeros(20))
    return Context(Draws.of(0, rows), mean=torch.tensor([0.4, 0.5, 0.6]), train=train)


def run(name: str, model: nn.Module, x, rows=range(N), **options) -> torch.Tensor:
    entry, rows = captum_entry(name), list(rows)
    with torch.no_grad():
        return entry.function(model, x[rows], TARGET[rows], context_of(rows), **entry.bind(**options))


def test_saliency_is_our_gradient(model, x) -> None:
    results = run("captum:Saliency", model, x, abs=False)
    torch.testing.assert_close(results, grad(model, x, TARGET), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(run("captum:Saliency", model, x), results.abs())


def test_input_times_gradient_is_ours(model, x) -> None:
    ours = grad_input(model, x, TARGET, grad(model, x, TARGET))
    torch.testing.assert_close(run("captum:InputXGradient", model, x), ours, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("method", "rule"),
    [("riemann_right", "right"), ("riemann_middle", "midpoint"), ("gausslegendre", "gauss-legendre")],
)
def test_integrated_gradients_are_ours_under_every_rule(model, x, method, rule) -> None:
    ours = ig(model, x, TARGET, context_of(), steps=20, rule=rule)
    results = run("captum:IntegratedGradients", model, x, n_steps=20, method=method)
    torch.testing.assert_close(results, ours, atol=1e-5, rtol=1e-4)


def test_baselines_can_be_a_number_or_the_mean_colour(model, x) -> None:
    for given, ours in ((1.0, "white"), ("mean", "mean")):
        results = run("captum:IntegratedGradients", model, x, n_steps=9, method="riemann_right", baselines=given)
        wanted = ig(model, x, TARGET, context_of(), steps=9, rule="right", baseline=ours)
        torch.testing.assert_close(results, wanted, atol=1e-5, rtol=1e-4)


def test_guided_backprop_is_ours(model, x) -> None:
    results = run("captum:GuidedBackprop", model, x)
    torch.testing.assert_close(results, guided_backprop(model, x, TARGET), atol=1e-6, rtol=1e-5)


def test_occlusion_takes_a_window_without_channels(model, x) -> None:
    results = run("captum:Occlusion", model, x, sliding_window_shapes=4, strides=4)
    with torch.no_grad():
        hidden = x.clone()
        hidden[:, :, 4:8, 8:12] = 0
        drop = (model(x) - model(hidden)).gather(1, TARGET[:, None])
    torch.testing.assert_close(results[:, 1, 5, 9], drop[:, 0], atol=1e-5, rtol=1e-4)
    assert torch.equal(run("captum:Occlusion", model, x, sliding_window_shapes=(3, 4, 4), strides=(3, 4, 4)), results)


def test_a_layers_attributions_are_summed_and_brought_to_the_images_size(model, x) -> None:
    entry = captum_entry("captum:LayerGradientXActivation")
    results = run(entry.name, model, x, layer="2")
    kept: list[torch.Tensor] = []
    handle = model[2].register_forward_hook(lambda m, i, o: kept.append(o))
    model(x).gather(1, TARGET[:, None]).sum().backward(inputs=kept)
    handle.remove()
    product = (kept[0] * kept[0].grad).detach().sum(1, keepdim=True)
    wanted = nn.functional.interpolate(product, size=(13, 12), mode="bilinear")
    torch.testing.assert_close(results, wanted, atol=1e-6, rtol=1e-4)
    assert entry.facts["channels"] is False
    assert captum_entry("captum:Saliency").facts["channels"] is True


def test_without_a_name_the_layer_is_the_last_convolutional_block(model, x) -> None:
    assert torch.equal(run("captum:LayerGradCam", model, x), run("captum:LayerGradCam", model, x, layer="2"))
    with pytest.raises(UnknownName, match="layer"):
        run("captum:LayerGradCam", model, x, layer="nowhere")


DETERMINISTIC = ["Saliency", "IntegratedGradients", "DeepLift", "DeepLiftShap", "LayerGradCam", "GuidedGradCam"]
RANDOM = ["GradientShap", "KernelShap", "Lime"]


@pytest.mark.parametrize("name", DETERMINISTIC + RANDOM)
def test_a_map_does_not_depend_on_the_batch_or_the_order(name, model, x) -> None:
    options = {"feature_mask": 4, "n_samples": 12} if name in ("KernelShap", "Lime") else {}
    if name in ("KernelShap", "Lime"):
        pytest.importorskip("sklearn")
    whole = run(name, model, x, **options)
    parts = [run(name, model, x, rows, **options) for rows in (range(2), range(2, 5), range(5, 9))]
    assert torch.equal(torch.cat(parts), whole)
    order = torch.randperm(N).tolist()
    assert torch.equal(run(name, model, x, order, **options), whole[order])
    assert torch.isfinite(whole).all()


def test_random_classes_leave_the_global_generators_alone(model, x) -> None:
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first = run("captum:GradientShap", model, x)
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()
    torch.rand(3)
    np.random.rand(3)
    assert torch.equal(run("captum:GradientShap", model, x), first)


def marks(model: nn.Module) -> list:
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [(sorted(vars(m)), [len(getattr(m, h)) for h in hooks], m.training) for m in model.modules()]


@pytest.mark.parametrize("name", ["DeepLift", "GuidedBackprop", "LayerGradCam", "LRP", "GuidedGradCam"])
def test_no_hooks_or_attributes_are_left_also_after_an_error(name, model, x) -> None:
    model.train()
    before, flags = marks(model), [p.requires_grad for p in model.parameters()]
    entry = captum_entry(name)
    for target in (TARGET, torch.full((N,), 99)):
        with contextlib.suppress(NotApplicable, IndexError, RuntimeError):
            entry.function(model, x, target, context_of(), **entry.bind())
        assert marks(model) == before
        assert [p.requires_grad for p in model.parameters()] == flags
    assert not x.requires_grad


def test_options_are_those_of_the_class_and_others_are_refused() -> None:
    entry = captum_entry("captum:IntegratedGradients")
    assert isinstance(entry, Entry)
    assert (entry.kind, entry.name) == ("estimator", "captum:IntegratedGradients")
    assert entry.inputs == ("model", "x", "target", "context")
    assert entry.bind(n_steps=20)["n_steps"] == 20
    with pytest.raises(BadOption, match=r"takes no option 'steps'; it takes .*n_steps.*method"):
        entry.bind(steps=20)
    for wrong in ({"n_steps": 0}, {"n_steps": "many"}, {"multiply_by_inputs": 3}, {"baselines": "grey"}):
        with pytest.raises(BadOption):
            entry.bind(**wrong)
    with pytest.raises(BadOption, match="needs the option 'sliding_window_shapes'"):
        captum_entry("captum:Occlusion").bind()


def test_the_cost_follows_the_steps_and_the_version_is_captums() -> None:
    facts = captum_entry("captum:IntegratedGradients").facts
    assert facts["passes"](n_steps=20) == 20
    assert facts["version"] == sys.modules["captum"].__version__
    assert facts["role"] == "estimator"


def test_unknown_classes_are_refused_with_names_that_are_near() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'captum:IntegratedGradients'"):
        captum_entry("captum:IntegratedGradient")
    for name in ("NeuronGradient", "LLMAttribution", "Attribution", "visualization"):
        with pytest.raises(UnknownName):
            captum_entry(name)


def test_classes_that_cannot_be_estimators_are_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match=r"NoiseTunnel.*sg\(\.\.\.\)"):
        captum_entry("captum:NoiseTunnel")
    with pytest.raises(BadInput, match="between the images of a batch"):
        captum_entry("captum:FeaturePermutation")


def test_a_class_elsewhere_is_found_by_its_dotted_name(model, x) -> None:
    results = run("captum:captum.attr.Saliency", model, x)
    assert torch.equal(results, run("captum:Saliency", model, x))
    with pytest.raises(BadInput, match="cannot be imported"):
        captum_entry("captum:no.such.Thing")
    with pytest.raises(BadInput, match="must be a class of"):
        captum_entry("captum:torch.nn.Linear")


def test_without_captum_one_sentence_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(BadInput, match="pip install captum"):
        captum_entry("captum:Deconvolution")


def test_what_is_missing_is_said(model, x) -> None:
    entry = captum_entry("captum:GradientShap")
    with pytest.raises(NotApplicable, match="needs training images; give train="):
        entry.function(model, x, TARGET, Context(Draws.of(0, N)), **entry.bind())
    with pytest.raises(BadInput, match="many baselines"):
        run("captum:IntegratedGradients", model, x, baselines="train")
    with pytest.raises(NotApplicable, match=r"captum's Occlusion refuses this: .*"):
        run("captum:Occlusion", model, x, sliding_window_shapes=4, strides=8)


def test_a_fault_inside_the_model_is_not_called_a_refusal(x) -> None:
    """Only what Captum raises, or a call that does not fit it, makes a method not applicable."""

    class Faulty(nn.Module):
        def forward(self, images):
            return images.sum((2, 3)) + len(None)

    with pytest.raises(TypeError, match="NoneType"):
        run("captum:Saliency", Faulty(), x)
