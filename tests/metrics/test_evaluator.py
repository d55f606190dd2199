"""The evaluator: its masks say nothing of the image, its control lies where random blocks lie, its start is known."""

from __future__ import annotations

import pytest
import torch

from uproar.data import Split, load
from uproar.estimators.control import block_random
from uproar.estimators.registry import Context
from uproar.metrics.evaluator import (
    MaskedImages,
    begin_as,
    begins_explained,
    build_evaluator,
    calibrate,
    default_architecture,
    evaluator_epochs,
    evaluator_scores,
    families_for,
    fit_evaluators,
    leak,
    mask_pool,
    other_class_donors,
)
from uproar.metrics.mask_assignment import RandomBlocks, block_centres, moved_to, random_places
from uproar.models import ModelSpec, build
from uproar.seeds import Draws
from uproar.training import Recipe, fit


@pytest.fixture(scope="module")
def task():
    return load("planted(size=8, classes=3, train=60, test=30)")


def masked(task, times=3, change=lambda x, removed, rows: removed.float()[:, None]) -> MaskedImages:
    return MaskedImages(task.train, mask_pool(task, (8, 8), 0), times, 0, change)


def test_no_family_of_masks_looks_at_a_network():
    for side in (1, 8, 28, 224):
        chains = families_for(side, side)
        assert all(chain.role in ("baseline", "random") for chain in chains)
        assert len({chain.name for chain in chains}) == len(chains)


def test_rankings_of_the_pool_are_permutations(task):
    pool = mask_pool(task, (8, 8), 0)
    assert torch.equal(pool.flatten(1).sort(1).values, torch.arange(64, dtype=pool.dtype).expand(len(pool), 64))


def test_channel_values_have_masks_of_their_own(task):
    pool = mask_pool(task, (1, 8, 8), 0)
    assert pool.shape[1:] == (1, 8, 8)


def test_what_is_removed_depends_on_the_row_alone(task):
    images = masked(task)
    rows = torch.tensor([5, 170, 0, 65])
    assert torch.equal(images[rows], torch.cat([images[rows[i : i + 1]] for i in range(4)]))
    assert not torch.equal(images[torch.tensor([5])], images[torch.tensor([65])]), "the same image, another mask"


def test_masks_do_not_know_the_image_they_are_given_to(task):
    """The share removed and the places are the same for every class: the masks of classes have equal means."""
    images = masked(task, times=200)
    gone = images[:].flatten(1)
    assert abs(float(gone.mean()) - 0.5) < 0.02
    labels = task.train.labels.repeat(200)
    means = torch.stack([gone[labels == k].mean(0) for k in range(3)])
    assert float((means - means.mean(0)).abs().max()) < 0.04
    assert float((gone.mean(0) - 0.5).abs().max()) < 0.03, "moved on the torus, no pixel is removed more often"


def test_a_moved_mask_is_the_same_mask_elsewhere():
    masks = torch.rand(20, 6, 9, generator=torch.Generator().manual_seed(0)) < 0.3
    there = moved_to(masks, torch.rand(20, 3))
    for mask, other in zip(masks, there, strict=True):
        rolls = (mask.roll((dy, dx), (0, 1)) for dy in range(6) for dx in range(9))
        assert any(torch.equal(other, roll) for roll in rolls)


def test_centres_of_blocks_are_those_of_block_random():
    places = torch.rand(200, 3, generator=torch.Generator().manual_seed(0))

    class Given(Draws):
        def uniform(self, purpose, *shape):
            return places

    x = torch.zeros(200, 1, 16, 16)
    maps = block_random(torch.nn.Identity(), x, torch.zeros(200).long(), Context(Given.of(0, 200)))[:, 0]
    for count in (13, 51, 128):
        block = maps.flatten(1).argsort(dim=1, descending=True)[:, :count]
        slow = torch.stack([(block // 16).double().mean(1), (block % 16).double().mean(1)], 1) + 0.5
        fast = block_centres(places.double(), torch.full((200,), float(count)), 16, 16)
        assert float((slow - fast).abs().max()) < 0.7  # the last side of a block is filled from one end


def test_random_blocks_cover_what_their_control_covers():
    n = 4000
    x = torch.zeros(n, 1, 12, 12)
    maps = block_random(torch.nn.Identity(), x, torch.zeros(n).long(), Context(Draws.of(0, n)))[:, 0]
    own = maps > maps.flatten(1).sort(1, descending=True).values[:, 29].view(n, 1, 1)
    control = moved_to(own, torch.rand(n, 3, generator=torch.Generator().manual_seed(1)))
    assert float((own.double().mean(0) - control.double().mean(0)).abs().mean()) < 0.03
    middle = (slice(None), slice(4, 8), slice(4, 8))
    more = float(control[middle].double().mean() - own[middle].double().mean())
    assert 0 <= more < 0.06, "blocks at the border are longer, and are moved inwards: the control is the harder one"


@pytest.mark.parametrize("model", ["cnn-small(width=4)", "resnet-small(width=4)"])
def test_an_evaluator_can_begin_as_the_explained_network(task, model):
    spec = ModelSpec.of(model)
    explained = build(spec, task, 5).eval()
    evaluator = build_evaluator(spec, task, 1, 0).eval()
    begin_as(evaluator, explained)
    x = task.test.read(slice(0, 4))
    both = evaluator_scores(evaluator, torch.cat([x, torch.zeros_like(x)], 1))
    expected = explained(x).detach()
    for target in (0, 1):
        torch.testing.assert_close(both[:, :, target], expected)
    assert begins_explained((3, 224, 224)) and not begins_explained((3, 64, 64))


@pytest.mark.parametrize(
    ("explained", "shape", "expected"),
    [
        ("cnn-small(width=4)", (1, 28, 28), "resnet-half"),
        ("resnet-half(width=8)", (3, 64, 64), "vgg-small"),
        ("cnn-small(width=4)", (1, 8, 8), "cnn-small(width=4)"),
        ("cnn-small", (1, 1, 200), "cnn-small"),
        ("resnet50", (3, 224, 224), "resnet50"),
    ],
)
def test_a_judge_is_of_another_architecture_than_the_explained_network_where_that_matters(explained, shape, expected):
    assert default_architecture(explained, shape) == expected


@pytest.mark.parametrize(
    ("images", "explained", "expected"),
    [(1437, False, 24), (2048, False, 24), (3072, False, 16), (60_000, False, 12), (1437, True, 6), (0, False, 24)],
)
def test_an_evaluator_sees_many_images_less_often(images, explained, expected):
    """Twice the recipe's epochs up to 2,048 images, once from 4,096 on, between them as many masked images."""
    assert evaluator_epochs(Recipe(epochs=12), images, explained) == expected


def test_a_stack_in_larger_batches_is_what_fit_does_with_less_momentum(task):
    """A constant gradient moves the weights as far as in small batches."""
    recipe = Recipe(epochs=3, batch=8, lr=0.02, momentum=0.9, label_smoothing=0.1)
    spec, images = (
        ModelSpec.of("cnn-small"),
        torch.rand(96, 2, 8, 8, generator=torch.Generator().manual_seed(0)).double(),
    )
    labels = torch.arange(96)[:, None] % torch.tensor([3, 2])
    quick, plain = (build_evaluator(spec, task, 1, 0).double() for _ in range(2))
    fit_evaluators([quick], [images], [labels], recipe, [4])
    larger = Recipe(epochs=1, batch=32, lr=0.02 * 4 * (1 - 0.9**2) / (1 - 0.9), momentum=0.9**2)
    fit(plain, images, labels, larger, 4)
    label, answer = plain.body[-1].weight.detach().chunk(2)
    assert not torch.allclose(label, answer, atol=0.01), "an own last layer for each target"
    for (name, a), (_, b) in zip(quick.state_dict().items(), plain.state_dict().items(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-7, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("sizes", [1, 3, 20])
def test_places_that_are_found_once_are_those_found_for_each_mask(sizes):
    split = Split("test", torch.zeros(20, 1, 9, 7), torch.zeros(20).long())
    blocks, draw = RandomBlocks(split, 3), torch.Generator().manual_seed(0)
    for _ in range(2):
        order = torch.rand(20, 63, generator=draw).argsort(1).argsort(1).view(20, 9, 7)
        masks = order < 12 + torch.arange(20).view(-1, 1, 1) % sizes
        rows = torch.randperm(20, generator=draw)
        assert torch.equal(blocks.moved(masks[rows], rows), moved_to(masks[rows], random_places(split, 3)[rows]))


@pytest.mark.parametrize("sure", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.25, 0.25, 0.25, 0.25)])
def test_calibrated_loss_is_at_most_the_entropy_however_sure_the_evaluator_is(sure, shares):
    """Where nothing is left the evaluator guesses, and says so with whatever confidence."""
    draw = torch.Generator().manual_seed(0)
    labels, half = (
        torch.multinomial(torch.tensor(shares), 1000, replacement=True, generator=draw),
        torch.arange(1000) % 2,
    )
    frequencies = torch.bincount(labels) / 1000
    entropy = -float((frequencies * frequencies.log2()).sum())
    right, guessed = (
        sure * torch.eye(len(shares))[classes] for classes in (labels, labels[torch.randperm(1000, generator=draw)])
    )
    raw = torch.nn.functional.cross_entropy(guessed, labels) / torch.tensor(2.0).log()
    bits = calibrate(torch.stack([guessed, right]), labels, half)
    assert bits.shape == (2, 1000)
    assert float(bits[0].mean()) < entropy + 0.03, "no more than there is to know"
    assert sure < 3 or float(raw) > float(bits[0].mean()) + 0.3
    assert float(bits[1].mean()) < (0.02 if sure > 20 else entropy + 0.01), "who knows the answer keeps it"


def test_calibration_never_makes_an_evaluator_surer():
    """Guesses that depend on the mask by chance, with hardly any confidence, are not turned into knowledge."""
    classes = torch.arange(400) % 2
    bits = calibrate(0.02 * torch.eye(2)[classes], classes, torch.arange(400) // 2 % 2)
    assert float(bits.mean()) > 0.98


def test_no_image_has_a_say_in_its_own_calibration():
    draw = torch.Generator().manual_seed(0)
    scores, classes, half = (
        torch.randn(3, 60, 4, generator=draw),
        torch.randint(4, (60,), generator=draw),
        torch.arange(60) % 2,
    )
    bits, changed = calibrate(scores, classes, half), scores.clone()
    changed[:, 0] *= -50
    assert torch.equal(calibrate(changed, classes, half)[:, 2::2], bits[:, 2::2])


def test_donors_are_of_another_class():
    classes = torch.tensor([0, 0, 0, 1, 2, 2])
    donors = other_class_donors(classes, 0)
    assert (classes[donors] != classes).all()
    assert torch.equal(donors, other_class_donors(classes, 0))
    assert not len(other_class_donors(torch.zeros(4).long(), 0))


def test_leak_is_above_zero_only_where_masks_name_their_class():
    draw = torch.Generator().manual_seed(0)
    classes = torch.arange(3000) % 3
    worn = classes[other_class_donors(classes, 0)]
    assert float(leak(worn, worn).mean()) > 0.6
    assert float(leak(classes, worn).mean()) < -0.3, "the image tells its own class"
    for guesses in (torch.zeros(3000).long(), torch.randint(3, (3000,), generator=draw)):
        assert abs(float(leak(guesses, worn).mean())) < 0.03, "a favourite class is chance"
    rare = (torch.arange(3000) % 10 == 0).long()
    worn = rare[other_class_donors(rare, 0)]
    assert abs(float(leak(torch.zeros(3000).long(), worn).mean())) < 0.01
