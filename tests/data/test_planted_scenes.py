"""Made-up scenes: an observer that sees the evidence alone is right, one that sees all else is at chance."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from uproar.data import load, tasks
from uproar.data.planted import glyph_shapes
from uproar.errors import BadOption
from uproar.seeds import Draws

SCENES = [name for name in tasks if name.startswith("planted-")]
SIZES = [(16, 1), (40, 3), (64, 1)]


def bright_pixels(images):
    """Which pixels are bright: all noise lies below 0.5, all bright pixels above 0.6."""
    return (images > 0.55).all(1)


def best_match(bright, shapes):
    """Which shape fits best anywhere: pixels of the shape that are bright, minus pixels beside it that are."""
    kernels = (2 * shapes.float() - 1)[:, None]
    return F.conv2d(F.pad(bright.float()[:, None], [shapes.shape[-1]] * 4), kernels).flatten(2).amax(2).argmax(1)


def large(shapes, cell):
    return shapes.repeat_interleave(cell, 1).repeat_interleave(cell, 2)


def quarter(bright):
    """0 for an empty image, else 1 + the quarter in which the bright pixels lie."""
    top, left = (
        bright.flatten(1).any(1) for bright in (bright[:, : bright.shape[1] // 2], bright[:, :, : bright.shape[2] // 2])
    )
    place = 1 + 2 * (~top).long() + (~left).long()
    return torch.where(bright.flatten(1).any(1), place, 0)


OBSERVERS = {
    "planted-fixed": lambda bright, cell: best_match(bright, large(glyph_shapes(4), cell)),
    "planted-place": lambda bright, cell: quarter(bright),
}


def accuracy(answers, labels):
    return float((answers == labels).float().mean())


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize(("size", "channels"), SIZES)
def test_the_evidence_alone_tells_the_class(name, size, channels):
    task = load(f"{name}(size={size}, channels={channels}, train=10, test=60)")
    for split in (task.train, task.test):
        assert split.shape == (channels, size, size)
        assert split.images.min() >= 0 and split.images.max() <= 1
        seen = bright_pixels(split.images) & split.masks
        assert accuracy(OBSERVERS[name](seen, size // 16), split.labels) == 1


@pytest.mark.parametrize("name", SCENES)
def test_all_but_the_evidence_tells_nothing(name):
    """Outside of the evidence there is the noise alone, which is drawn without the label."""
    split = load(f"{name}(size=16, train=10, test=400)").test
    noise = 0.5 * Draws.of(0, 400, "test").uniform("planted background", 1, 16, 16)
    assert torch.equal(split.images[~split.masks[:, None]], noise[~split.masks[:, None]])


@pytest.mark.parametrize("name", SCENES)
def test_boxes_lie_tightly_around_the_evidence(name):
    split = load(f"{name}(size=32, train=20, test=60)").test
    boxed = split.boxed(slice(None))
    assert bool((split.masks <= boxed).all())
    for mask, boxes in zip(split.masks, split.boxes.reshape(len(split), -1, 4), strict=True):
        for x0, y0, x1, y1 in boxes.tolist():
            inside = mask[y0 : y1 + 1, x0 : x1 + 1]
            if x1 >= x0:
                assert all(bool(edge.any()) for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_class_by_place_has_an_empty_class_and_one_shape():
    split = load("planted-place(train=20, test=100)").test
    sizes = split.masks.sum((1, 2))
    assert torch.equal(sizes, torch.where(split.labels == 0, 0, 9))
    assert bool((split.boxes[split.labels == 0] == torch.tensor([0, 0, -1, -1])).all())
    assert not split.truth(slice(None))[split.labels == 0].any()


def test_a_seed_gives_other_images_of_the_same_kind():
    one, same, other = (load(f"planted-place(train=8, test=8, seed={seed})").fingerprint for seed in (0, 0, 1))
    assert one == same != other


def test_noise_is_the_difficulty():
    easy, hard = (load(f"planted-place(noise={noise}, train=8, test=100)").test for noise in (0.1, 1.0))
    gap = lambda s: s.images[:, 0][s.masks].min() - s.images[:, 0][~s.masks].quantile(0.5)  # noqa: E731
    assert gap(easy) > 0.5 > gap(hard)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("planted-fixed(size=12)", "size"),
        ("planted-place(channels=2)", "channels"),
        ("planted-fixed(noise=1.5)", "noise"),
        ("planted-place(classes=4)", "takes no option 'classes'"),
    ],
)
def test_impossible_options_are_refused(text, sentence):
    with pytest.raises(BadOption, match=sentence):
        load(text)
