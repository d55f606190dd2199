"""Hugging Face sets, through a stand-in with the few calls that are made of the package."""

from __future__ import annotations

import importlib.util
import io
import sys
import types

import numpy as np
import pytest
import torch
from PIL import Image

from uproar.data import load, photographs
from uproar.data.registry import check_task
from uproar.errors import BadInput


class _Picture:
    """The feature type of a column of pictures."""

    def __init__(self, decode: bool = True) -> None:
        self.decode = decode


_Picture.__name__ = "Image"


class ClassLabel:
    def __init__(self, names) -> None:
        self.names = names


class Table:
    """A split: rows of columns; pictures come decoded or as files."""

    def __init__(self, columns, features) -> None:
        self.columns, self.features = columns, features

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, key):
        if isinstance(key, str):
            return [self._value(key, i) for i in range(len(self))]
        return {name: self._value(name, key) for name in self.columns}

    def _value(self, name, row):
        value = self.columns[name][row]
        feature = self.features[name]
        if type(feature).__name__ == "Image" and feature.decode:
            return Image.open(io.BytesIO(value["bytes"]))
        return value

    def cast_column(self, name, feature):
        return Table(self.columns, {**self.features, name: feature})


def _file(level: int, size=(12, 12)) -> dict:
    held = io.BytesIO()
    Image.fromarray(np.full((size[1], size[0]), level, np.uint8)).save(held, "PNG")
    return {"bytes": held.getvalue(), "path": None}


def _table(n: int, size=(12, 12), named: bool = True) -> Table:
    labels = [i % 2 if named else ("yes", "no")[i % 2] for i in range(n)]
    kind = ClassLabel(["cat", "dog"]) if named else object()
    return Table({"img": [_file(10 * i, size) for i in range(n)], "kind": labels}, {"img": _Picture(), "kind": kind})


@pytest.fixture
def sets(monkeypatch):
    """The stand-in package; what `load_dataset` knows by name."""
    known: dict = {}
    package = types.ModuleType("datasets")
    package.__spec__ = importlib.util.spec_from_loader("datasets", None)

    def load_dataset(name, config=None):
        if name not in known:
            raise FileNotFoundError(f"Couldn't find {name}\non the Hub")
        return known[name]

    package.load_dataset, package.Image = load_dataset, _Picture
    monkeypatch.setitem(sys.modules, "datasets", package)
    photographs.hf_entry.cache_clear()
    yield known
    photographs.hf_entry.cache_clear()


def test_columns_classes_size_and_test_split_are_found(sets):
    sets["some/pets"] = {"train": _table(8), "validation": _table(4)}
    task = load("hf:some/pets")
    assert task.classes == ("cat", "dog") and task.shape == (3, 12, 12)
    assert task.train.labels.tolist() == [0, 1] * 4 and len(task.test) == 4
    assert (task.train.read([3, 1])[:, 0, 0, 0] * 255).round().tolist() == [30, 10]
    assert load("hf:some/pets(train=2, size=8)").shape == (3, 8, 8)
    sets["copy"] = {"train": _table(8), "test": _table(4)}
    assert torch.equal(load("hf:copy").test.images[:], task.test.images[:])
    assert load("hf:copy").train.images.digest() == task.train.images.digest()
    other = {"train": _table(9), "test": _table(4)}
    sets["other"] = other
    assert load("hf:other").train.images.digest() != task.train.images.digest()


def test_labels_without_names_become_classes(sets):
    sets["words"] = {"train": _table(4, named=False), "test": _table(4, named=False)}
    task = load("hf:words(label=kind)")
    assert task.classes == ("no", "yes") and task.train.labels.tolist() == [1, 0, 1, 0]


def test_what_is_not_there_is_said_with_what_is(sets):
    sets["pets"] = {"train": _table(4), "extra": _table(4)}
    sets["wide"] = {"train": _table(4, (20, 10)), "test": _table(4)}
    for name, said in (
        ("hf:nothing", "hf:nothing cannot be loaded: FileNotFoundError: Couldn't find nothing on the Hub"),
        ("hf:pets", "has no split 'test' but train, extra; say which with judge="),
        ("hf:pets(judge=extra, label=y)", "There is no column 'y' but img, kind; say which with label="),
        ("hf:wide", "The first picture is 20×10; say to what size"),
        ("hf:pets(sides=3)", "takes no option 'sides'"),
    ):
        with pytest.raises(BadInput, match=said):
            load(name)
    assert load("hf:pets(judge=extra)").shape == (3, 12, 12)


def test_a_missing_package_is_one_sentence(monkeypatch):
    photographs.hf_entry.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"hf:mnist needs the package datasets: pip install 'uproar\[hf\]'"):
        check_task("hf:mnist")
    with pytest.raises(BadInput, match="hf: needs the name of a set"):
        check_task("hf:")
