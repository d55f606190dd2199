"""The contract every estimator satisfies, tested by walking the registry: a new one is covered when declared."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.closeness import alike
from uproar import explain, load
from uproar.errors import BadInput, NotApplicable
from uproar.estimators import Context, estimators
from uproar.models import ModelSpec, build
from uproar.seeds import Draws
from uproar.training import Recipe, fit

CHEAP = {  # fewer steps than the defaults, so that the walk stays short
    "ig": "ig(steps=4)",
    "rise": "rise(masks=40)",
    "extremal_perturbation": "extremal_perturbation(iterations=8, areas=[0.1, 0.3])",
    "input_iba": "input_iba(epochs=1, steps=3, feature_steps=2)",
    "iba": "iba(steps=3)",
    "tame": "tame(epochs=1)",
    "kernel_shap": "kernel_shap(samples=40)",
    "lime": "lime(samples=40)",
}
ENTRIES = [e for e in estimators.values() if e.module.startswith("uproar.estimators.")]
MAPS = [CHEAP.get(e.name, e.name) for e in ENTRIES if e.facts["role"] == "estimator"]
WRAPPED = [
    f"{e.name}(grad)"
    for e in estimators.values()
    if e.facts["role"] in ("transform", "ensemble", "postprocess", "classes")
]
DIRECT = [e.name for e in estimators.values() if e.facts["role"] == "direct"]


@pytest.fixture(scope="module")
def task():
    return load("planted(size=16, channels=3, train=128, test=24)")


@pytest.fixture(scope="module", params=["cnn-small(width=8)", "resnet-small(width=8)"])
def model(request, task):
    net = build(ModelSpec.of(request.param), task, 0)
    return fit(net, task.train.read(slice(None)), task.train.labels, Recipe(epochs=2), 0)


def maps(model, task, name, rows=slice(0, 6), **options):
    x = task.test.read(rows)
    index = range(*rows.indices(len(task.test)))
    try:
        return explain(
            model, x, name, index=index, train=task.train.images, raw=True, truth=task.test.truth(rows), **options
        )
    except NotApplicable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", MAPS + WRAPPED)
def test_a_map_is_finite_and_depends_neither_on_the_batch_nor_on_the_global_generator(name, model, task):
    a = maps(model, task, name, batch_size=512)
    assert a.shape in ((6, 3, 16, 16), (6, 1, 16, 16)) and a.dtype == torch.float32
    assert torch.isfinite(a).all()
    torch.rand(3)
    drawn = torch.random.get_rng_state()
    assert alike(a, maps(model, task, name, batch_size=4))
    assert alike(a[3:], maps(model, task, name, slice(3, 6), batch_size=1))
    assert torch.equal(drawn, torch.random.get_rng_state())


@pytest.mark.parametrize("name", MAPS)
def test_the_model_and_the_images_come_back_as_they_were(name, model, task):
    model.train()
    state = copy.deepcopy(model.state_dict())
    x = task.test.read(slice(0, 2))
    before = x.clone()
    try:
        explain(model, x, name, train=task.train.images, truth=task.test.truth(slice(0, 2)))
    except NotApplicable as reason:
        pytest.skip(str(reason))
    finally:
        assert model.training
        model.eval()
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
    assert torch.equal(x, before)
    assert not x.requires_grad


@pytest.mark.parametrize("name", MAPS)
def test_a_map_responds_to_the_model_and_to_the_class_unless_it_says_that_it_does_not(name, model, task):
    facts = estimators[name.partition("(")[0]].facts
    other = build(ModelSpec.of("cnn-small(width=8)"), task, 99)
    a, b = (maps(m, task, name, slice(0, 4), target=0) for m in (model, other))
    assert torch.equal(a, b) == (not facts["model"])
    if facts["model"] and facts["by_class"]:
        assert not torch.equal(a, maps(model, task, name, slice(0, 4), target=1))


@pytest.mark.parametrize("entry", estimators.values(), ids=list(estimators))
def test_every_entry_has_facts_and_a_sentence(entry):
    assert entry.summary.endswith((".", ":"))
    assert entry.facts["formula"]
    if entry.facts["role"] == "estimator":
        options = {k: p.default for k, p in entry.options.items()}
        passes = entry.facts["passes"]
        cost = passes(**options) if callable(passes) else passes
        assert cost >= 0 and (cost > 0) == entry.facts["model"]


@pytest.mark.parametrize("name", DIRECT)
def test_a_control_without_a_ranking_removes_the_share_asked_for_on_average(name, task):
    x = task.train.read(slice(None))
    context = Context(Draws.of(0, len(x), "train"))
    function = estimators[name].function
    for fraction in (0.0, 0.25, 0.9, 1.0):
        gone = function(x, fraction, context)
        assert gone.shape == (len(x), 16, 16)
        assert abs(float(gone.double().mean()) - fraction) < 0.01
        assert torch.equal(gone[5:9], function(x[5:9], fraction, context[5:9]))


class Linear(torch.nn.Module):
    """No convolution, no ReLU, any size."""

    def __init__(self, values: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(values, 3)

    def forward(self, x):
        return self.fc(x.flatten(1))


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 4)])
def test_tiny_grey_images_and_a_model_without_convolutions_give_a_map_or_a_reason(name, shape):
    x = torch.rand(3, *shape)
    try:
        a = explain(
            Linear(x[0].numel()), x, name, target=1, train=torch.rand(8, *shape), truth=torch.ones(3, *shape[1:]).bool()
        )
    except NotApplicable as reason:
        assert len(str(reason)) > 10
        return
    assert a.shape == (3, *shape[1:])
    assert torch.isfinite(a).all()


class TwoInputs(torch.nn.Module):
    def forward(self, x, mask):
        return x.flatten(1)


class Pair(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1), 2 * x.flatten(1)


@pytest.mark.parametrize("target", [None, 0])
def test_a_model_that_cannot_take_the_images_is_refused_in_one_sentence(target):
    x = torch.rand(2, 1, 4, 4)
    with pytest.raises(BadInput, match=r"cannot take torch.float32 images of shape \(2, 1, 4, 4\).*mask"):
        explain(TwoInputs(), x, target=target)
    with pytest.raises(BadInput, match="class scores, not tuple with 2 tensors of one row per image"):
        explain(Pair(), x, target=target)


def test_an_installed_package_adds_estimators_by_entry_point(monkeypatch):
    from importlib import metadata

    from uproar.registry import Registry

    def mine(model, x, target):
        """Nothing."""

    class Point(metadata.EntryPoint):
        def load(self):
            return mine

    point = Point("mine", "package:mine", "uproar.things")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point] if group == "uproar.things" else [])
    registry = Registry("thing", "uproar.things")
    assert registry["mine"].function is mine
    assert list(registry) == ["mine"]
