"""Class-blind maps, said again class by class."""

from __future__ import annotations

import pytest
import torch

from uproar import explain, load
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.models import ModelSpec, build
from uproar.seeds import Draws


@pytest.fixture(scope="module")
def task():
    return load("planted(size=8, classes=3, train=16, test=6)")


@pytest.fixture(scope="module")
def model(task):
    return build(ModelSpec.of("cnn-small(width=4)"), task, 0).eval()


def test_the_sum_over_classes(model, task):
    x = task.test.read(slice(None))
    slow = sum(explain(model, x, "grad", target=k, raw=True).square() for k in range(3))
    assert torch.equal(explain(model, x, "class_sum(grad)", raw=True, target=0), slow)
    noisy = sum(explain(model, x, "sg(grad, samples=3)", target=k, raw=True).square() for k in range(3))
    both = explain(model, x, "class_sum(sg(grad, samples=3))", raw=True)
    assert torch.allclose(both, noisy, atol=1e-7)


def test_a_random_class_is_drawn_for_each_image_and_is_its_own(model, task):
    x = task.test.read(slice(None))
    drawn = [int(float(u.double()) * 3) for u in Draws.of(0, 6, "test").uniform("random class")]
    assert len(set(drawn)) > 1
    slow = torch.stack([explain(model, x, "grad", target=k, raw=True)[i] for i, k in enumerate(drawn)])
    result = explain(model, x, "random_class(grad)", raw=True, target=1)
    assert torch.equal(result, slow)
    assert torch.equal(explain(model, x[4:], "random_class(grad)", raw=True, index=[4, 5]), slow[4:])


@pytest.mark.parametrize("text", ["class_sum(sobel)", "class_sum(class_sum(grad))", "random_class"])
def test_what_has_no_other_class_is_refused(text):
    with pytest.raises(BadInput, match=r"class"):
        read_chain(text)


def test_cost_and_kind_are_known():
    chain = read_chain("sq(class_sum(sg(grad, samples=4)))")
    assert chain.class_blind and chain.passes_for(7) == 7 * 4 + 0.5
    assert not read_chain("sg(grad)").class_blind
