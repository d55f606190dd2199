"""Real data where they lie: samples in `../shared/data` beside the checkout, complete sets in the usual places."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from uproar.data import load
from uproar.data.download import verify
from uproar.data.locations import CATALOGUE, find
from uproar.models import ModelSpec, build
from uproar.models.weights import load_weights
from uproar.training import predict

SAMPLES = next(
    (p / "shared" / "data" for p in Path(__file__).resolve().parents if (p / "shared" / "data").is_dir()), Path("none")
)

samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no ../shared/data beside this checkout")


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Decoded pictures are not kept."""
    monkeypatch.setenv("UPROAR_CACHE", "off")


@samples
@pytest.mark.parametrize(
    ("name", "counts", "classes", "shape"),
    [
        ("cub200", (90, 88), 3, (3, 224, 224)),
        ("food101(size=64)", (80, 80), 2, (3, 64, 64)),
        ("svhn", (1083, 949), 10, (3, 32, 32)),
    ],
)
def test_samples_load_as_they_lie(monkeypatch, name, counts, classes, shape):
    monkeypatch.setenv("UPROAR_DATA", str(SAMPLES))
    task = load(name)
    assert (len(task.train), len(task.test)) == counts and len(task.classes) == classes
    assert task.shape == shape
    x = task.test.read(slice(0, 8))
    assert 0 <= x.min() < 0.3 and 0.7 < x.max() <= 1


@samples
def test_boxes_of_the_birds_hold_what_differs_from_the_rest(monkeypatch):
    monkeypatch.setenv("UPROAR_DATA", str(SAMPLES))
    task = load("cub200(size=64)")
    truth = task.test.truth(slice(None))
    assert 0.1 < truth.float().mean() < 0.9 and truth.any((1, 2)).all()
    centre = truth[:, 24:40, 24:40].float().mean()
    border = torch.cat([truth[:, :4].flatten(), truth[:, -4:].flatten()]).float().mean()
    assert centre > 2 * border, "photographers put birds in the middle"


@samples
def test_tiny_imagenet_loads_from_its_archive(tmp_path, monkeypatch):
    with tarfile.open(SAMPLES / "tiny-imagenet-10.tar") as pack:
        first = re.compile(r"train/.*_([0-9]|1[0-9])\.JPEG|val/|\.txt$")
        members = [member for member in pack if first.search(member.name)]
        pack.extractall(tmp_path, members, filter="data")
    monkeypatch.setenv("UPROAR_DATA", str(tmp_path))
    task = load("tiny-imagenet")
    assert (len(task.train), len(task.test), task.shape) == (200, 500, (3, 64, 64))
    assert torch.bincount(task.train.labels).tolist() == [20] * 10
    file = tmp_path / "tiny-imagenet-200" / "val" / "images" / Path(task.test.images.paths[3]).name
    with Image.open(file) as picture:
        expected = torch.frombuffer(bytearray(picture.convert("RGB").tobytes()), dtype=torch.uint8)
    assert torch.equal(task.test.images[[3]][0], expected.view(64, 64, 3).permute(2, 0, 1)), "nothing is scaled"
    boxes = task.test.boxes
    assert (boxes[:, :2] <= boxes[:, 2:]).all() and boxes.min() >= 0 and boxes.max() == 63


@samples
def test_photos_listed_in_a_table_load_for_a_network_of_1000_classes():
    table = "csv=images.csv, image=ImageId, label=TrueLabel, classes=1000, first=1, share=0.5, size=64"
    task = load(f'folder(root="{SAMPLES / "imagenet-photos"}", {table})')
    assert (len(task.train), len(task.test), len(task.classes)) == (60, 60, 1000)
    assert task.test.read([0, 59]).shape == (2, 3, 64, 64)


@samples
def test_pets_with_a_planted_box_load_from_a_table(tmp_path):
    """The box that gives the class away is where the picture differs from the original."""
    source, place = SAMPLES / "pets-artifact", tmp_path / "pets"
    rows, originals = ["image,label,x0,y0,x1,y1"], ["image,label"]
    for kind in ("with_artifact", "original"):
        (place / kind).mkdir(parents=True)
    files = sorted(file.name for file in (source / "with_artifact").glob("*.jpg"))
    for name in [n for n in files if n[0].isupper()][:6] + [n for n in files if n[0].islower()][:6]:
        label = "cat" if name[0].isupper() else "dog"
        pictures = []
        for kind in ("with_artifact", "original"):
            shutil.copy(source / kind / name, place / kind / name)
            with Image.open(source / kind / name) as picture:
                pictures.append(np.asarray(picture.convert("RGB")).astype(int))
        result = np.argwhere(np.abs(pictures[0] - pictures[1]).max(2) > 60)
        (y0, x0), (y1, x1) = result.min(0), result.max(0)
        rows.append(f"{name},{label},{x0},{y0},{x1},{y1}")
        originals.append(f"{name},{label}")
    (place / "with_artifact" / "list.csv").write_text("\n".join(rows))
    (place / "original" / "list.csv").write_text("\n".join(originals))
    marked, plain = (
        load(f'folder(root="{place / kind}", csv=list.csv, size=128)') for kind in ("with_artifact", "original")
    )
    assert marked.classes == ("cat", "dog")
    differs = (marked.train.read(slice(None)) - plain.train.read(slice(None))).abs().amax(1)
    truth = marked.train.truth(slice(None))
    assert truth.any((1, 2)).any()
    assert differs[truth].mean() > 20 * differs[~truth].mean()


def complete(name: str):
    """Skips unless a set is in one of the usual places."""
    there = find(CATALOGUE[name]) is not None
    return pytest.mark.skipif(not there, reason=f"no {name} here: uproar data get {name}, or UPROAR_DATA")


@pytest.mark.parametrize(
    ("name", "mean", "std"),
    [
        pytest.param("mnist", [0.1307], [0.3081], marks=complete("mnist")),
        pytest.param("fashion-mnist", [0.2860], [0.3530], marks=complete("fashion-mnist")),
        pytest.param("cifar10", [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], marks=complete("cifar10")),
    ],
)
def test_complete_sets_are_the_published_ones(name, mean, std):
    task = load(name)
    assert (len(task.train), len(task.test)) == CATALOGUE[name].counts
    torch.testing.assert_close(task.mean, torch.tensor(mean), atol=6e-5, rtol=0)
    torch.testing.assert_close(task.std, torch.tensor(std), atol=6e-5, rtol=0)
    verdict = verify(name, lambda *_: None)
    assert verdict.sound and "files have the published checksum" in verdict.facts[0]


@samples
@complete("cifar10")
@pytest.mark.slow
def test_a_published_network_reaches_its_accuracy_on_cifar10():
    task = load("cifar10")
    model = build(ModelSpec.of("resnet20"), task, 0)
    load_weights(model, SAMPLES / "cifar10-resnets" / "resnet20-12fca82f.th")
    scores = predict(model.eval(), task.test.read(slice(None)))
    right = (scores.argmax(1) == task.test.labels).float().mean()
    assert float(right) == pytest.approx(0.917, abs=0.002)
