"""Watermarks: where they are, what they say, and that nothing else tells the class."""

from __future__ import annotations

import pytest
import torch

from tests.data.layouts import write_picture
from uproar.data import Split, Task, load, tasks
from uproar.data.derived_tasks import number_mark, semi_natural, stripes_mark
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


@pytest.mark.parametrize(("kind", "place"), [("number", "corner"), ("number", "random"), ("stripes", "corner")])
def test_the_truth_is_what_was_changed(kind, place):
    before = grey(8)
    task = semi_natural(before, kind=kind, place=place)
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
    plain, marked = load(inner), load(f"semi-natural({inner}, kind=number, place=random)")
    assert marked.test.streams
    whole = marked.test.read(slice(None))
    assert torch.equal(whole[[5, 1]], marked.test.read([5, 1])), "nothing depends on the batch"
    changed = (whole != plain.test.read(slice(None))).any(1)
    assert torch.equal(changed, marked.test.truth(slice(None)))
    assert len({tuple(box) for box in marked.test.boxes[:, 0].tolist()}) > 3, "at random places"
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
    with pytest.raises(BadInput, match="By chance no train image got the class"):
        semi_natural(grey(8, n=8))
