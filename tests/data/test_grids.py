"""Mosaics: what stands where, and networks that see one cell alone."""

from __future__ import annotations

import pytest
import torch

from uproar.data import Split, Task, load
from uproar.data.derived_tasks import Mosaics, grid
from uproar.errors import BadInput
from uproar.models import ModelSpec, build
from uproar.training import predict


def numbered(classes=6, n=24, size=4):
    """Images whose every pixel is their own row number / 100."""
    images = (torch.arange(n) / 100).view(n, 1, 1, 1).expand(n, 1, size, size).clone()
    labels = torch.arange(n) % classes
    return Task(
        "numbered", Split("train", images, labels), Split("test", images, labels), tuple(map(str, range(classes)))
    )


@pytest.mark.parametrize("cell", [None, 3])
def test_a_mosaic_shows_its_image_in_its_cell_and_other_classes_elsewhere(cell):
    task = grid(numbered(), k=2, cell=cell)
    assert task.test.shape == (1, 8, 8)
    places = set()
    for i in range(len(task.test)):
        shown = (task.test.images[i, 0, ::4, ::4].flatten() * 100).round().long()
        x0, y0, x1, y1 = task.test.boxes[i].tolist()
        assert (x1 - x0, y1 - y0) == (3, 3)
        assert bool((task.test.images[i, 0, y0 : y1 + 1, x0 : x1 + 1] == i / 100).all())
        assert len(set((shown % 6).tolist())) == 4, "four different classes"
        assert task.test.labels[i] == i % 6
        places.add((x0, y0))
    assert places == ({(4, 4)} if cell == 3 else {(0, 0), (4, 0), (0, 4), (4, 4)})
    tiles = task.train.images[5].unfold(1, 4, 4).unfold(2, 4, 4)
    assert bool((tiles == 0.05).all()), "a training image is one image in all cells"


def test_mosaics_of_a_source_are_those_of_its_images():
    before = numbered()
    members = torch.tensor([[0, 1, 2, 3], [7, 6, 5, 4]])
    held = Mosaics(before.test.images, members)
    read = Mosaics(Mosaics(before.test.images, torch.arange(24)[:, None]), members)
    assert torch.equal(held[[1, 0]], read[[1, 0]])
    assert held[[1]][0, 0, 0, 4] == 0.06
    assert held.digest() != Mosaics(before.test.images, members.flip(0)).digest()


def test_a_disconnected_network_changes_with_its_cell_alone():
    task = grid(numbered(size=8), k=2, cell=2)
    spec = ModelSpec.of("disconnected(k=2, cell=2)")
    model = build(spec, task, 0).eval()
    x = task.test.images[:4]
    before = predict(model, x)
    inside = task.test.boxed(slice(0, 4))[:, None]
    assert torch.equal(predict(model, torch.where(inside, x, torch.rand_like(x))), before)
    assert not torch.allclose(predict(model, torch.where(inside, torch.rand_like(x), x)), before)
    gradient = torch.autograd.grad(model(x.requires_grad_()).sum(), x)[0]
    assert bool((gradient[~inside] == 0).all())
    weights = [dict(build(spec, task, seed).named_parameters()) for seed in (0, 0, 1)]
    assert all(torch.equal(weights[0][n], weights[1][n]) for n in weights[0])
    assert any(not torch.equal(weights[0][n], weights[2][n]) for n in weights[0]), "replicates start differently"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("grid(digits, k=4)", "needs 16 classes; digits has 10"), ("grid(digits, k=2, cell=4)", "cells 0 to 3, not 4")],
)
def test_impossible_mosaics_are_refused(text, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(text)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [("disconnected(k=3)", "no mosaic of 3×3"), ("disconnected(k=2, cell=7)", "cells 0 to 3, not 7")],
)
def test_impossible_networks_are_refused(model, sentence):
    with pytest.raises(BadInput, match=sentence):
        build(ModelSpec.of(model), grid(numbered(), k=2), 0)
