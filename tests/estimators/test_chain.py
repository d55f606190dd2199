import numpy as np
import pytest
import scipy.ndimage
import torch
from torch import nn

import uproar
from uproar import explain
from uproar.errors import BadInput, BadMap, BadOption, UnknownName
from uproar.estimators import Context, estimators, families, read_chain
from uproar.estimators.explain import explain_chains
from uproar.estimators.registry import COMMON_NAMES
from uproar.seeds import Draws


class Counting(nn.Module):
    """A small network that counts the rows that pass through it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
        self.rows = 0

    def forward(self, x):
        self.rows += len(x)
        return self.inner(x)


def evaluate(model, x, names, seed=0):
    chains = [read_chain(name) for name in names]
    target = torch.zeros(len(x), dtype=torch.long)
    return explain_chains(model, x, target, Context(Draws.of(seed, len(x))), chains)


def test_one_noisy_pass_serves_all_ensembles_of_a_base_and_one_gradient_its_family():
    model, x = Counting(), torch.rand(4, 1, 8, 8)
    evaluate(model, x, ["grad", "sq(grad)", "grad_input", "gaussian(sq(grad))", "max(grad)"])
    assert model.rows == 4
    model.rows = 0
    evaluate(
        model, x, ["sg(grad)", "sg_sq(grad)", "var(grad)", "sg(grad_input)", "sg(sq(grad))", "gaussian(var(grad))"]
    )
    assert model.rows == 4 * 15
    model.rows = 0
    evaluate(model, x, ["sg(grad)", "sg(grad, samples=5)"])
    assert model.rows == 4 * 20


@pytest.mark.parametrize("base", ["grad", "grad_input", "ig(steps=3)", "guided_backprop", "sq(grad)"])
def test_ensembles_equal_a_slow_loop_over_noisy_copies(base):
    model, x = Counting(), torch.rand(3, 1, 8, 8)
    samples, sigma = 6, 0.3
    noise = Draws.of(4, 3).normal("ensemble noise", samples, 1, 8, 8)
    maps = []
    for s in range(samples):
        spread = (x.flatten(1).amax(1) - x.flatten(1).amin(1)).view(-1, 1, 1, 1)
        noisy = x + sigma * spread * noise[:, s]
        maps.append(explain(model, noisy, base, target=0, raw=True).double())
    stack = torch.stack(maps)
    slow = {"sg": stack.mean(0), "sg_sq": stack.square().mean(0), "var": stack.var(0)}
    for name, expected in slow.items():
        fast = explain(model, x, f"{name}({base}, samples={samples}, sigma={sigma})", target=0, raw=True, seed=4)
        torch.testing.assert_close(fast, expected.float(), rtol=1e-4, atol=1e-7)


def test_an_ensemble_inside_an_ensemble_is_evaluated_at_the_noisy_images():
    model, x = Counting(), torch.rand(2, 1, 8, 8)
    nested = explain(model, x, "sg(sg(grad, samples=2), samples=3)", target=0)
    assert not torch.allclose(nested, explain(model, x, "sg(grad, samples=3)", target=0))


def test_families_join_what_shares_passes_and_nothing_else():
    names = ["random", "grad", "ig", "sg(grad)", "grad_input", "var(grad)", "sg(ig)", "sobel"]
    groups = [sorted(c.name for c in family) for family in families([read_chain(n) for n in names])]
    assert sorted(groups) == [
        ["grad", "grad_input"],
        ["ig"],
        ["random"],
        ["sg(grad)", "var(grad)"],
        ["sg(ig)"],
        ["sobel"],
    ]


def test_the_steps_of_a_chain_come_in_their_fixed_order():
    model, x = Counting(), torch.rand(2, 1, 8, 8).expand(2, 1, 8, 8)
    raw = explain(model, x, "grad", target=1, raw=True)
    for sign, f in {"none": lambda a: a, "abs": torch.abs, "sq": torch.square, "relu": torch.relu}.items():
        torch.testing.assert_close(explain(model, x, "grad", target=1, sign=sign), f(raw).sum(1))
    ours = explain(model, x, "gaussian(grad, sigma=1.5)", target=1, sign="abs")
    slow = scipy.ndimage.gaussian_filter(raw.abs().sum(1).numpy(), (0, 1.5, 1.5), mode="reflect")
    np.testing.assert_allclose(ours.numpy(), slow, atol=1e-6)


def test_filters_equal_those_of_the_roar_pitfalls_code(golden):
    g = golden("sianalytics_roar")
    a = g["attr_chw"].float().mean(0)[None]
    for name, key in (("gaussian", "gaussian_filtered"), ("max", "maximum_filtered")):
        chain = read_chain(f"{name}(grad)")
        torch.testing.assert_close(chain.reduced(a[:, None])[0], g[key].float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 9), (1, 3, 2)])
def test_filters_equal_scipy_on_tiny_maps(shape):
    a = torch.rand(*shape)
    ours = read_chain("gaussian(grad, sigma=2)").reduced(a[:, None])
    slow = np.stack([scipy.ndimage.gaussian_filter(m, 2, mode="reflect") for m in a.numpy()])
    np.testing.assert_allclose(ours.numpy(), slow, atol=1e-6)
    ours = read_chain("max(grad, size=5)").reduced(a[:, None])
    slow = np.stack([scipy.ndimage.maximum_filter(m, 5, mode="reflect") for m in a.numpy()])
    np.testing.assert_allclose(ours.numpy(), slow)


def test_a_name_leaves_defaults_out_and_an_identity_writes_them_all():
    a, b = read_chain("sg(grad, samples=15)"), read_chain("sg(grad)")
    assert a.name == b.name == "sg(grad)"
    assert a.identity == b.identity
    assert read_chain("sg(grad, samples=16)").identity != a.identity
    assert read_chain("grad", sign="abs").identity != read_chain("grad").identity
    assert "samples=15" in str(a.raw)


def test_the_cost_is_known_before_anything_runs():
    costs = {"grad": 1, "sobel": 0, "ig": 25, "sg(grad)": 15, "sg_sq(ig(steps=10), samples=4)": 40, "gaussian(ig)": 25}
    assert {name: read_chain(name).passes for name in costs} == costs


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        ("gard", UnknownName, "Did you mean 'grad'"),
        ("sg(grad, sample=3)", BadOption, "takes no option 'sample'; it takes samples, sigma, unit"),
        ("sg(gaussian(grad))", BadInput, "must be outermost"),
        ("sg", BadInput, "applied to one estimator"),
        ("sg(grad, ig)", BadInput, "got 2 things"),
        ("grad(ig)", BadInput, "takes options"),
        ("gaussian(bernoulli)", BadInput, "removes without ranking"),
        ("sq(bernoulli)", BadInput, "removes without ranking"),
        ("var(grad, samples=1)", BadOption, "at least 2"),
        ("max(grad, size=4)", BadOption, "odd"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(text, error, sentence):
    with pytest.raises(error, match=sentence):
        read_chain(text).reduced(torch.zeros(1, 1, 4, 4))


def test_a_plain_function_is_an_estimator():
    def summed(model, x, target):
        return x.sum(1)

    x = torch.rand(3, 3, 4, 4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    torch.testing.assert_close(explain(model, x, summed), x.sum(1))
    torch.testing.assert_close(explain(model, x, "sq(summed)"), x.sum(1).square())


def test_a_function_that_returns_no_map_is_named():
    def broken(model, x, target):
        return x.sum()

    with pytest.raises(BadMap, match=r"broken returned \(\) for images"):
        explain(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), torch.rand(2, 1, 4, 4), broken)
    with pytest.raises(BadInput, match=r"a function with a name \(def"):
        explain(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), torch.rand(2, 1, 4, 4), lambda m, x, t: x)


@pytest.mark.parametrize("name", COMMON_NAMES)
def test_a_common_name_has_the_maps_and_the_identity_of_what_it_stands_for(name):
    chain, meant = read_chain(name), read_chain(COMMON_NAMES[name])
    assert chain.name == name and chain.identity == meant.identity
    assert read_chain(f"gaussian(sq({name}))").raw == read_chain(f"gaussian(sq({COMMON_NAMES[name]}))").raw


def test_common_names_are_as_captum_has_them():
    captum = pytest.importorskip("captum.attr")
    torch.manual_seed(0)
    model, x, y = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)), torch.rand(2, 3, 2, 2), 1
    ours = explain(model, x, ["saliency", "input_x_gradient"], target=y)
    x.requires_grad_()
    assert torch.allclose(ours["saliency"], captum.Saliency(model).attribute(x, y).sum(1), atol=1e-6)
    assert torch.allclose(ours["input_x_gradient"], captum.InputXGradient(model).attribute(x, y).sum(1), atol=1e-6)


def test_options_of_a_common_name_are_those_of_what_it_stands_for():
    assert read_chain("smoothgrad(samples=50)").identity == read_chain("sg(abs(grad), samples=50)").identity
    with pytest.raises(BadInput, match="saliency takes options such as name=value, not grad"):
        read_chain("saliency(grad)")
    for slip, meant in {"SmoothGrad": "smoothgrad", "Saliency": "saliency", "GradCAM": "gradcam"}.items():
        with pytest.raises(UnknownName, match=f"Did you mean '{meant}'"):
            read_chain(slip)
    with pytest.raises(BadInput, match="'saliency' is another name of the estimator abs"):
        estimators.add("saliency", lambda model, x, target: x)


def test_an_estimator_is_declared_with_and_without_a_name():
    def ones(model, x, target):
        return torch.ones_like(x)

    uproar.estimator(ones)
    uproar.estimator("all_ones")(ones)
    uproar.estimator()(ones)
    x = torch.rand(2, 1, 3, 3)
    maps = explain(nn.Sequential(nn.Flatten(), nn.Linear(9, 2)), x, ["ones", "all_ones"])
    assert torch.equal(maps["ones"], torch.ones(2, 3, 3)) and torch.equal(maps["all_ones"], maps["ones"])
    with pytest.raises(BadInput, match="not 3"):
        uproar.estimator(3)
