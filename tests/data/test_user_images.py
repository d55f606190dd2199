"""Pictures of the user's own: one folder, or a folder per class."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from uproar.data.user_images import classes_in, count_images, read_images
from uproar.errors import BadInput
from uproar.study.subjects import images_of_files, subject_of_images

NET = "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))\n"


@pytest.fixture
def photos(tmp_path):
    """A class of three pictures, an empty one, and one of one picture; the grey of a picture is its number."""
    for name, greys in {"ant": (1, 2, 3), "bee": (), "cat": (4,)}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for grey in greys:
            Image.fromarray(np.full((4, 4, 3), grey, np.uint8)).save(tmp_path / "photos" / name / f"{grey}.png")
    (tmp_path / "photos" / ".hidden").mkdir()
    return tmp_path / "photos"


def test_class_folders_give_labels_and_take_turns(photos):
    x, names, labels = read_images(photos)
    assert names == ["1", "4", "2", "3"] and labels is not None and labels.tolist() == [0, 2, 0, 0]
    assert (x[:, 0, 0, 0] * 255).round().tolist() == [1, 4, 2, 3]
    assert read_images(photos, limit=2)[1] == ["1", "4"]
    assert (count_images(photos), len(classes_in(photos))) == (4, 3)
    assert read_images(photos / "ant")[2] is None and not classes_in(photos / "ant")
    with pytest.raises(BadInput, match="nor in folders in it"):
        read_images(photos / "bee")


def test_class_folders_are_as_many_as_the_outputs_or_refused(photos, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    model = f"{tmp_path / 'net.py'}:build"
    subject = subject_of_images(images_of_files(str(photos), model, None, None, 4), model, None, "label", 0)
    assert subject.target.tolist() == [0, 2, 0, 0]
    (photos / "bee").rmdir()
    with pytest.raises(BadInput, match="2 classes .*, and the network 3 outputs"):
        subject_of_images(images_of_files(str(photos), model, None, None, 4), model, None, "label", 0)


def test_images_that_are_sorted_by_class_are_mixed_where_the_first_ones_are_judged(tmp_path, photos):
    labels = np.repeat([0, 1, 2], 20)
    file = tmp_path / "sorted.npz"
    np.savez(file, images=np.broadcast_to(labels[:, None, None] / 2, (60, 4, 4)).astype("float32"), labels=labels)
    assert set(read_images(file, 6)[2].tolist()) == {0}
    x, names, first = read_images(file, 6, mixed=0)
    assert first.tolist() == [0, 1, 2, 0, 1, 2]
    assert (x[:, 0, 0, 0] * 2).tolist() == first.tolist(), "images go with their labels"
    assert len(set(names)) == 6
    for grey in range(10, 30):
        Image.fromarray(np.full((4, 4, 3), grey, np.uint8)).save(photos / "ant" / f"{grey}.png")
    flat = read_images(photos / "ant", 8, mixed=0)
    assert flat[1] != read_images(photos / "ant", 8)[1]
    assert [int(name) for name in flat[1]] == (flat[0][:, 0, 0, 0] * 255).round().int().tolist()
    assert read_images(photos / "ant", 8, mixed=0)[1] == flat[1], "the same seed gives the same order"
