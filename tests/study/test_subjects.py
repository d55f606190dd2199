"""Folders and tables of pictures for networks of the user's own: some of the classes, grey pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from uproar.errors import BadInput
from uproar.study.subjects import images_of_files, subject_of_images

NET = """
from torch import nn

def build(channels=3):
    return nn.Sequential(nn.Conv2d(channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    rng = np.random.default_rng(0)
    for name in ("dog", "ant"):
        for folder in (tmp_path / "some" / name, tmp_path / "flat"):
            folder.mkdir(parents=True, exist_ok=True)
            for i in range(2):
                Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(folder / f"{name}{i}.png")
    return tmp_path


def subject(place, folder, classes=None, table=None, model="net.py:build"):
    network = f"{place}/{model}"
    images = images_of_files(str(place / folder), network, None, classes, 10, table=table)
    return subject_of_images(images, network, None, "predicted" if images.labels is None else "label", 0)


def test_a_folder_of_some_classes_is_numbered_by_the_names_of_all(place):
    assert subject(place, "some", ["bee", "ant", "cat", "dog", "eel"]).target.tolist() == [1, 3, 1, 3]
    with pytest.raises(BadInput, match="has 2 classes .ant, dog., and the network 5 outputs: give the names of all 5"):
        subject(place, "some")
    for name, number in (("dog", "4"), ("ant", "2")):
        (place / "some" / name).rename(place / "some" / number)
    assert subject(place, "some").target.tolist() == [2, 4, 2, 4]


def test_a_table_labels_pictures_by_the_names_of_their_files(place):
    (place / "labels.csv").write_text("image,label\ndog0.png,4\ndog1.png,4\nant0,0\nant1,3\n")
    assert subject(place, "flat", table=str(place / "labels.csv")).target.tolist() == [0, 3, 4, 4]
    (place / "labels.csv").write_text("image,label\ndog0,4\n")
    with pytest.raises(BadInput, match="has no label for 3 of 4 pictures, such as ant0"):
        subject(place, "flat", table=str(place / "labels.csv"))


def test_a_network_of_one_channel_sees_pictures_in_grey(place):
    grey = subject(place, "flat", model="net.py:build(channels=1)")
    colours = subject(place, "flat")
    weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    assert grey.x.shape == (4, 1, 8, 8)
    assert torch.allclose(grey.x, (colours.x * weights).sum(1, keepdim=True))


def test_training_pictures_of_a_network_of_one_channel_are_grey_and_need_no_labels(place):
    network = f"{place}/net.py:build(channels=1)"
    flat = str(place / "flat")
    images = images_of_files(flat, network, None, None, 10, train=flat, train_labels=False)
    train = subject_of_images(images, network, None, "predicted", 0).context.train
    assert train.shape == (1, 8, 8) and train.labels.tolist() == [0] * 4
    with pytest.raises(BadInput, match="0 class folders"):
        images_of_files(flat, network, None, None, 10, train=flat)
