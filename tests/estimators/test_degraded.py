"""Degraded truth: every level is worse than the one before, by the cosine with the truth, on every kind of scene."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from uproar.data import load
from uproar.errors import NotApplicable
from uproar.estimators.control import KINDS, LEVELS, degraded, oracle
from uproar.estimators.registry import Context
from uproar.seeds import Draws

N = 60


@pytest.fixture(scope="module", params=["planted", "planted-fixed", "planted-place", "hand-set(rule=or)"])
def split(request):
    base, _, options = request.param.partition("(")
    inside = f"{options.removesuffix(')')}, " if options else ""
    return load(f"{base}({inside}train=10, test={N})").test


def maps_of(split, kind, level, seed=0):
    context = Context(Draws.of(seed, len(split)), truth=split.truth(slice(None)))
    return degraded(nn.Identity(), split.images, split.labels, context, kind=kind, level=level)[:, 0]


def cosine(maps, truth):
    return torch.cosine_similarity(maps.flatten(1).double(), truth.flatten(1).double())


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_is_worse_than_the_one_before(split, kind):
    truth = split.masks
    known = truth.flatten(1).any(1)
    quality = [cosine(maps_of(split, kind, level), truth)[known].mean() for level in (0, *LEVELS)]
    assert quality[0] == pytest.approx(1)
    assert all(better > worse + 0.003 for better, worse in itertools.pairwise(quality)), quality


def test_what_each_kind_changes(split):
    truth = split.masks
    size = truth.sum((1, 2))
    for level in LEVELS:
        gone = (level * size).round().long()
        missing, *others = (maps_of(split, kind, level) for kind in ("missing", "encoder", "shift"))
        assert torch.equal((missing > 0).sum((1, 2)), size - gone) and not (missing > 0)[~truth].any()
        for replaced in others:
            assert torch.equal((replaced > 0).sum((1, 2)), size), "as many pixels as the truth has"
            assert torch.equal(((replaced > 0) & truth).sum((1, 2)), size - gone)


def test_what_is_missing_at_one_level_is_missing_at_all_higher_ones(split):
    levels = [maps_of(split, "missing", level) for level in LEVELS]
    assert all(bool(torch.le(high, low).all()) for low, high in itertools.pairwise(levels))


def test_an_encoder_depends_on_the_class_and_a_map_on_its_sample_alone():
    split = load("planted(train=10, test=16)").test
    context = Context(Draws.of(0, 16), truth=split.masks)
    other = degraded(nn.Identity(), split.images, (split.labels + 1) % 4, context, kind="encoder", level=1.0)
    assert not torch.equal(other[:, 0], maps_of(split, "encoder", 1.0))
    for kind in KINDS:
        rows = context[slice(5, 9)]
        some = degraded(nn.Identity(), split.images[5:9], split.labels[5:9], rows, kind=kind, level=0.5)
        assert torch.equal(some[:, 0], maps_of(split, kind, 0.5)[5:9])
        assert torch.equal(maps_of(split, kind, 0), oracle(nn.Identity(), split.images, split.labels, context)[:, 0])


def test_without_a_truth_there_is_nothing_to_degrade():
    split = load("digits").test.take(slice(0, 4))
    with pytest.raises(NotApplicable, match="not known"):
        degraded(nn.Identity(), split.images, split.labels, Context(Draws.of(0, 4)))
