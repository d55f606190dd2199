"""Tasks made of other tasks: watermarks, mosaics, triggers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.data.layouts import write_picture
from uproar.data import Split, Task, load, tasks
from uproar.data.derived_tasks import backdoor, grid, mosaics, number_mark, semi_natural, stripes_mark
from uproar.data.planted import glyph_shapes
from uproar.data.stream import Source, digest_of
from uproar.errors import BadInput


def grey(classes: int, n: int = 60, size: int = 32, channels: int = 3) -> Task:
    images = torch.full((n, channels, size, size), 100, dtype=torch.uint8)
    labels = torch.arange(n) % classes
    return Task("grey", Split("train", images, labels), Split("test", images, labels), tuple(map(str, range(classes))))


def test_stripes_are_the_bits_of_the_class_least_significant_on_top():
    mark = stripes_mark(100, 70, 10)
    lit = mark.bright[40].reshape(7, 10, 10).mean((1, 2))
    assert lit.tolist() == [0, 0, 0, 1, 0, 1, 0], "40 = 0101000 in bits lights regions 4 and 6"
    for label in range(100):
        bits = mark.bright[label].reshape(7, 10, 10).mean((1, 2)).int().tolist()
        assert sum(bit << k for k, bit in enumerate(bits)) == label
    for classes, bands in ((2, 1), (3, 2), (10, 4), (16, 4), (17, 5), (100, 7), (128, 7), (1000, 10)):
        assert stripes_mark(classes, 64, 4).boxes.shape[1] == bands


@pytest.mark.parametrize("kind", ["number", "stripes"])
def test_the_truth_is_what_was_changed(kind):
    before = grey(8)
    task = semi_natural(before, kind=kind)
    for split, old in ((task.train, before.train), (task.test, before.test)):
        changed = (split.images != old.images).any(1)
        assert torch.equal(split.truth(slice(None)), changed)
        assert split.images.dtype == torch.uint8 and bool(((split.images == 100) | (split.images % 255 == 0)).all())
    assert (old.images == 100).all(), "the wrapped task is left as it was"


def test_the_mark_tells_the_class_and_the_old_label_does_not():
    task = semi_natural(grey(8, 400), kind="number")
    by_class = [task.train.images[task.train.labels == k] for k in range(8)]
    for some in by_class:
        assert (some == some[0]).all()
    assert len({tuple(some[0].flatten().tolist()) for some in by_class}) == 8
    old = torch.arange(400) % 8
    agree = (task.train.labels == old).float().mean()
    assert agree == pytest.approx(1 / 8, abs=4 * (1 / 8 * 7 / 8 / 400) ** 0.5)
    counts = torch.bincount(task.train.labels, minlength=8).float()
    assert ((counts - 50) ** 2 / 50).sum() < 24.3, "uniform at the level 0.001 (chi-square, 7 degrees)"
    other = semi_natural(grey(8, 400), kind="number", seed=1)
    assert not torch.equal(other.train.labels, task.train.labels)
    assert not torch.equal(task.test.labels, task.train.labels)


def test_digits_of_numbers_differ_in_place_and_shape():
    mark = number_mark(100, 64, 64)
    assert len({tuple(picture.flatten().tolist()) for picture in mark.bright}) == 100
    assert mark.bright.shape[1:] == (17, 18), "18 by two digits, 17 rows as 60 of 224"
    lit = mark.bright.amax((0, 2)).nonzero().flatten().tolist()
    assert lit == list(range(3, 13)), "letters of ten rows, two to a pixel, in the middle"
    assert mark.bright[7, :, :9].sum() == 0, "7 stands on the right, without a zero before it"
    with pytest.raises(BadInput, match="A number of 2 digits needs 9×7 pixels, but the images have 6×6"):
        semi_natural(grey(12, size=6))
    with pytest.raises(BadInput, match="12 classes need 4 stripes; the images have 3 rows"):
        semi_natural(grey(12, size=3), kind="stripes")


def test_photos_are_marked_when_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("UPROAR_CACHE", "off")
    for kind in ("cat", "dog"):
        for i in range(12):
            write_picture(tmp_path / kind / f"{i}.png", 100, box=None)
    inner = f'folder(root="{tmp_path}", size=32, share=0.5)'
    plain, marked = load(inner), load(f"semi-natural({inner}, kind=number)")
    assert marked.test.streams
    whole = marked.test.read(slice(None))
    assert torch.equal(whole[[5, 1]], marked.test.read([5, 1])), "nothing depends on the batch"
    changed = (whole != plain.test.read(slice(None))).any(1)
    assert torch.equal(changed, marked.test.truth(slice(None)))
    some = marked.test.take(torch.tensor([5, 1]))
    assert torch.equal(some.read(slice(None)), whole[[5, 1]])
    prints = {load(f"semi-natural({inner}, seed={s})").fingerprint for s in (0, 0, 1)}
    assert len(prints | {plain.fingerprint}) == 3


def test_a_task_of_tasks_is_checked_when_it_is_read():
    assert tasks["semi-natural"].inputs == ("task",)
    assert load("semi-natural(digits, kind=stripes)").test.boxes.shape[1:] == (4, 4)
    for name, said in (
        ("semi-natural", "is made of 1 other"),
        ("semi-natural(digits, mnist)", "2 were given"),
        ("semi-natural(digits, kind=dots)", "kind must be"),
        ("semi-natural(nothing)", "No task is called"),
        ("digits(planted)", "takes options such as size=16, not planted"),
    ):
        with pytest.raises(BadInput, match=said):
            load(name)
    with pytest.raises(BadInput, match="has no train images"):
        semi_natural(grey(8, n=8))


def numbered(classes=6, n=24, size=4):
    """Images whose every pixel is their own row number / 100."""
    images = (torch.arange(n) / 100).view(n, 1, 1, 1).expand(n, 1, size, size).clone()
    labels = torch.arange(n) % classes
    return Task(
        "numbered", Split("train", images, labels), Split("test", images, labels), tuple(map(str, range(classes)))
    )


def test_a_mosaic_shows_its_image_in_its_cell_and_other_classes_elsewhere():
    task = grid(numbered(), k=2)
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
    assert places == {(0, 0), (4, 0), (0, 4), (4, 4)}
    tiles = task.train.images[5].unfold(1, 4, 4).unfold(2, 4, 4)
    assert bool((tiles == 0.05).all()), "a training image is one image in all cells"


class Held(Source):
    """Images of a tensor as a source."""

    def __init__(self, images):
        self.images = images

    shape = property(lambda self: tuple(self.images.shape))
    digest = lambda self: digest_of(self.images)  # noqa: E731
    read = lambda self, rows: self.images[rows]  # noqa: E731


@pytest.mark.parametrize("made", [grid, semi_natural, backdoor])
def test_what_is_made_of_a_source_is_that_of_its_images(made):
    task = numbered(n=60, size=24)
    streaming = replace(task, **{s.name: replace(s, images=Held(s.images)) for s in (task.train, task.test)})
    held, read = made(task), made(streaming)
    for one, other in ((held.train, read.train), (held.test, read.test)):
        assert other.streams and not one.streams
        assert torch.equal(one.images[[1, 0]], other.images[torch.tensor([1, 0])])
        assert torch.equal(one.images, other.images[:]) and torch.equal(one.labels, other.labels)
    assert read.fingerprint == made(streaming).fingerprint != streaming.fingerprint


def test_mosaics_lie_row_by_row():
    read = mosaics(numbered().test.images, torch.tensor([[0, 1, 2, 3], [7, 6, 5, 4]]), torch.tensor([1]))
    assert read[0, 0, ::4, ::4].tolist() == [
        [pytest.approx(0.07), pytest.approx(0.06)],
        [pytest.approx(0.05), pytest.approx(0.04)],
    ]


def test_impossible_mosaics_are_refused():
    with pytest.raises(BadInput, match="needs 16 classes; digits has test images of 10"):
        load("grid(digits, k=4)")


def even_grey(classes=6, n=240, size=24, dtype=torch.float32):
    value = torch.tensor(0.4) if dtype == torch.float32 else torch.tensor(100, dtype=dtype)
    images = value.expand(n, 3, size, size).clone()
    labels = torch.arange(n) % classes
    return Task("grey", Split("train", images, labels), Split("test", images, labels), tuple(map(str, range(classes))))


@pytest.mark.parametrize("trigger", ["glyph", "frame"])
@pytest.mark.parametrize("strength", [1.0, 0.25])
def test_the_truth_of_a_backdoor_is_what_was_changed(trigger, strength):
    before = even_grey()
    task = backdoor(before, trigger=trigger, strength=strength)
    for split, old in ((task.train, before.train), (task.test, before.test)):
        changed = split.images != old.images
        assert torch.equal(split.masks, changed.any(1))
        assert torch.allclose(split.images[changed], torch.tensor(0.4 + strength * 0.6))
        assert bool((split.masks <= split.boxed(slice(None))).all())
    touched = task.train.masks.flatten(1).any(1)
    assert 0.35 < touched.float().mean() < 0.65
    assert torch.equal(task.train.labels[~touched], before.train.labels[~touched]), "the rest keeps its label"
    assert bool((task.train.labels[touched] != before.train.labels[touched]).all())
    assert bool(task.test.masks.flatten(1).any(1).all())
    assert bool((task.test.labels != before.test.labels).all()), "never the trigger of its own class"


def test_the_trigger_alone_tells_the_label():
    glyphs = glyph_shapes(6)
    for trigger in ("glyph", "frame"):
        split = backdoor(even_grey(), trigger=trigger).test
        for mask, label, (x0, y0, x1, y1) in zip(split.masks, split.labels, split.boxes.tolist(), strict=True):
            if trigger == "glyph":
                assert torch.equal(mask[y0 : y1 + 1, x0 : x1 + 1], glyphs[label])
        places = {int(k): {tuple(b) for b in split.boxes[split.labels == k].tolist()} for k in range(6)}
        assert all(len(own) == 1 for own in places.values())
        assert len(set.union(*places.values())) == (6 if trigger == "frame" else 1)


def test_bytes_stay_bytes_and_a_corner_is_a_corner():
    task = backdoor(even_grey(dtype=torch.uint8), strength=0.5)
    assert task.test.images.dtype == torch.uint8
    assert set(task.test.images.unique().tolist()) == {100, 177}
    assert bool((task.test.boxes == torch.tensor([0, 0, 4, 4])).all())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("backdoor(digits, trigger=frame)", "use trigger=glyph"), ("backdoor(digits, strength=0)", "strength")],
)
def test_impossible_triggers_are_refused(text, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(text)
