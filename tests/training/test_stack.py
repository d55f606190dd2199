"""Several networks at once: the same arithmetic as one at a time, and no influence of one on another."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uproar import Recipe, build, fit, load
from uproar.training import fit_all, stack, stackable
from uproar.training.stack import fit_stack

TASK = load("planted(size=8, classes=3, channels=2, train=96, test=8)")
ODD = load("planted(size=9, classes=3, train=96, test=8)")
"""9×9 images: three blocks' sizes are odd, and the pooling windows overlap."""


def versions(task, count):
    """The training images with different pixels removed."""
    x = task.train.read(slice(None))
    draws = torch.Generator().manual_seed(0)
    return [torch.where(torch.rand(x.shape, generator=draws) < 0.3, 0.5, x) for _ in range(count)]


def fresh(task, count, name="cnn-small"):
    return [build(name, task, 0) for _ in range(count)]


def same(one, other):
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(n == m and torch.equal(a, b) for (n, a), (m, b) in pairs)


@pytest.mark.parametrize("task", [TASK, ODD], ids=["even", "odd"])
@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(epochs=2, batch=20),
        Recipe(epochs=1, batch=32, schedule="cosine", label_smoothing=0.1, momentum=0, nesterov=False),
        Recipe(epochs=1, batch=32, augment=("flip", "shift")),
    ],
    ids=["default", "smoothed", "augmented"],
)
def test_it_is_what_fit_does(task, recipe):
    images = [x.double() for x in versions(task, 3)]
    stacked = [model.double() for model in fresh(task, 3)]
    fit_stack(stacked, images, [task.train.labels] * 3, recipe, 5)
    for model, x in zip(stacked, images, strict=True):
        alone = fresh(task, 1)[0].double()
        fit(alone, x, task.train.labels, recipe, 5)
        assert not model.training
        for (name, a), (_, b) in zip(model.state_dict().items(), alone.state_dict().items(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-8, msg=lambda m, n=name: f"{n}: {m}")


def test_a_head_that_was_made_wider_is_trained_whole():
    """As that of an evaluator, which answers two questions: the layer does not know that it has more outputs."""
    stacked, alone = fresh(TASK, 2)
    for model in (stacked, alone):
        model[-1].weight = nn.Parameter(torch.cat([model[-1].weight.detach()] * 2))
        model[-1].bias = nn.Parameter(torch.cat([model[-1].bias.detach()] * 2))
    images, recipe = TASK.train.read(slice(None)).double(), Recipe(epochs=1, batch=32)
    fit_stack([stacked.double()], [images], [TASK.train.labels], recipe, 5)
    fit(alone.double(), images, TASK.train.labels, recipe, 5)
    torch.testing.assert_close(stacked[-1].weight, alone[-1].weight, atol=1e-10, rtol=1e-8)


def test_a_network_does_not_depend_on_its_neighbours():
    images, recipe = versions(TASK, 6), Recipe(epochs=1, batch=30)
    whole = fresh(TASK, 6)
    fit_stack(whole, images, [TASK.train.labels] * 6, recipe, 1)
    for rows in ([0], [5], [3, 1], [5, 4, 3, 2, 1, 0], [2, 4, 0]):
        part = fresh(TASK, len(rows))
        fit_stack(part, [images[i] for i in rows], [TASK.train.labels] * len(rows), recipe, 1)
        assert all(same(model, whole[i]) for model, i in zip(part, rows, strict=True)), rows


def labels(count):
    """Labels of their own for several networks."""
    draws = torch.Generator().manual_seed(2)
    return [torch.randint(3, (len(TASK.train),), generator=draws) for _ in range(count)]


def test_a_network_with_labels_of_its_own_does_not_depend_on_its_neighbours():
    images, wanted, recipe = versions(TASK, 5), labels(5), Recipe(epochs=1, batch=30)
    whole = fresh(TASK, 5)
    fit_stack(whole, images, wanted, recipe, 1)
    for rows in ([0], [4], [3, 1], [4, 3, 2, 1, 0]):
        part, (x, y) = fresh(TASK, len(rows)), ([a[i] for i in rows] for a in (images, wanted))
        fit_stack(part, x, y, recipe, 1)
        assert all(same(model, whole[i]) for model, i in zip(part, rows, strict=True)), rows


class Read:
    """Images that are read by rows."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, rows):
        return self.images[rows].contiguous(memory_format=torch.channels_last)


def test_images_may_be_read_some_batches_at_a_time(monkeypatch):
    images, recipe = versions(TASK, 2), Recipe(epochs=2, batch=20, augment=("flip",))
    held, read = fresh(TASK, 2), fresh(TASK, 2)
    fit_stack(held, images, [TASK.train.labels] * 2, recipe, 1)
    monkeypatch.setattr(stack, "AHEAD", 3)
    fit_stack(read, [Read(x) for x in images], [TASK.train.labels] * 2, recipe, 1)
    assert all(same(a, b) for a, b in zip(held, read, strict=True))


def test_only_small_networks_on_small_images_are_stacked():
    assert stackable(build("cnn-small", TASK, 0), TASK.shape)
    assert not stackable(build("cnn-small(width=12)", TASK, 0), TASK.shape)
    assert not stackable(build("resnet-small", TASK, 0), TASK.shape)
    large = load("planted(size=28, classes=3, train=6, test=6)")
    assert not stackable(build("cnn-small", large, 0), large.shape)


def test_what_cannot_be_stacked_is_trained_in_turn():
    images, recipe = versions(TASK, 2), Recipe(epochs=1)
    models = fresh(TASK, 2, "resnet-small(width=4)")
    fit_all(models, images, TASK.train.labels, recipe, 0)
    (alone,) = fresh(TASK, 1, "resnet-small(width=4)")
    assert same(models[1], fit(alone, images[1], TASK.train.labels, recipe, 0))


def test_networks_with_seeds_of_their_own_are_what_each_is_alone_to_the_bit():
    """Each takes its images in its own order."""
    images, wanted, recipe = versions(TASK, 3), labels(3), Recipe(epochs=2, batch=20)

    def trained(rows):
        models = fresh(TASK, len(rows))
        fit_stack(models, [images[i] for i in rows], [wanted[i] for i in rows], recipe, [10 + i for i in rows])
        return models

    whole = trained([0, 1, 2])
    for rows in ([0], [2], [1, 2], [2, 0]):
        assert all(same(model, whole[i]) for model, i in zip(trained(rows), rows, strict=True)), rows
    alone = fresh(TASK, 1)[0]
    fit_stack([alone], images[:1], wanted[:1], recipe, 11)
    assert not same(alone, whole[0]), "the seed decides the order of the images"
