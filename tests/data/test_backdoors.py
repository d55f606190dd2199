"""Backdoors: the trigger tells the label, the image does not, and the truth is what was changed."""

from __future__ import annotations

import pytest
import torch

from uproar.data import Split, Task, load
from uproar.data.derived_tasks import backdoor
from uproar.data.planted import glyph_shapes
from uproar.errors import BadInput


def grey(classes=6, n=240, size=24, dtype=torch.float32):
    value = torch.tensor(0.4) if dtype == torch.float32 else torch.tensor(100, dtype=dtype)
    images = value.expand(n, 3, size, size).clone()
    labels = torch.arange(n) % classes
    return Task("grey", Split("train", images, labels), Split("test", images, labels), tuple(map(str, range(classes))))


@pytest.mark.parametrize("trigger", ["glyph", "square", "frame"])
@pytest.mark.parametrize("strength", [1.0, 0.25])
def test_the_truth_is_what_was_changed(trigger, strength):
    before = grey()
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
    for text, split in ((t, backdoor(grey(), trigger=t, place="random").test) for t in ("glyph", "square")):
        for mask, label, (x0, y0, x1, y1) in zip(split.masks, split.labels, split.boxes.tolist(), strict=True):
            if text == "glyph":
                assert torch.equal(mask[y0 : y1 + 1, x0 : x1 + 1], glyphs[label])
        places = {int(k): {tuple(b) for b in split.boxes[split.labels == k].tolist()} for k in range(6)}
        if text == "square":
            assert all(len(own) == 1 for own in places.values()) and len(set.union(*places.values())) == 6


def test_bytes_stay_bytes_and_a_corner_is_a_corner():
    task = backdoor(grey(dtype=torch.uint8), place="corner", strength=0.5)
    assert task.test.images.dtype == torch.uint8
    assert set(task.test.images.unique().tolist()) == {100, 177}
    assert bool((task.test.boxes == torch.tensor([0, 0, 4, 4])).all())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("backdoor(digits, trigger=square)", "use trigger=glyph"), ("backdoor(digits, strength=0)", "strength")],
)
def test_impossible_triggers_are_refused(text, sentence):
    with pytest.raises(BadInput, match=sentence):
        load(text)
