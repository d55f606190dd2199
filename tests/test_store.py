import json
import os

import numpy as np
import pytest

from uproar.errors import Damaged, StoreError
from uproar.store import FORMAT, Item, Store, key_of


@pytest.fixture
def item() -> Item:
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array([True, False])}
    return Item(arrays, {"accuracy": 0.5, "name": "é <b>"})


def test_what_is_read_is_what_was_written(tmp_path, item):
    store = Store(tmp_path)
    store.write("cell", "ab12", item)
    found = Store(tmp_path).read("cell", "ab12")
    assert found.facts == item.facts
    for name, array in item.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_make_is_called_once(tmp_path, item):
    store, calls = Store(tmp_path), []
    for _ in range(3):
        store.once("cell", "ab", lambda: calls.append(1) or item)
    assert len(calls) == 1


@pytest.mark.parametrize("damage", ["truncate", "flip a bit", "empty", "garbage"])
def test_a_damaged_file_is_noticed_set_aside_and_made_again(tmp_path, item, damage):
    store = Store(tmp_path)
    store.write("cell", "ab", item)
    path = store.path("cell", "ab")
    content = bytearray(path.read_bytes())
    if damage == "flip a bit":
        content[-1] ^= 1
    path.write_bytes(
        {"truncate": content[:-3], "flip a bit": content, "empty": b"", "garbage": b"x" * 99}[
            damage
        ]
    )
    with pytest.raises(Damaged):
        store.read("cell", "ab")
    again = store.once("cell", "ab", lambda: item)
    assert again.facts == item.facts
    assert "made again" in store.notices[0]
    assert store.read("cell", "ab").facts == item.facts


def test_a_write_that_fails_leaves_nothing_behind(tmp_path, item, monkeypatch):
    store = Store(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.write("cell", "ab", item)
    assert not store.has("cell", "ab")
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "FORMAT.json"]


def test_a_store_of_a_newer_version_is_refused(tmp_path):
    (tmp_path / "FORMAT.json").write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(StoreError, match="newer uproar"):
        Store(tmp_path)


def test_a_folder_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "FORMAT.json").write_text("hello")
    with pytest.raises(StoreError, match="not a store"):
        Store(tmp_path)
    with pytest.raises(StoreError, match="choose another"):
        Store(tmp_path / "FORMAT.json" / "below")


def test_a_key_changes_with_every_input():
    base = {"a": 1, "b": [1, 2], "c": {"d": 0.1}}
    keys = {key_of("x", base), key_of("y", base)}
    keys |= {key_of("x", {**base, "a": 2}), key_of("x", {**base, "c": {"d": 0.2}})}
    assert len(keys) == 4


def test_keys_are_found_by_their_beginning(tmp_path, item):
    store = Store(tmp_path)
    for key in ("abc-1", "abc-2", "abd-1"):
        store.write("levels", key, item)
    assert list(store.keys("levels", "abc")) == ["abc-1", "abc-2"]
    assert len(list(store.keys("levels"))) == 3
    assert store.facts("levels", "abc-1") == item.facts
    assert store.facts("levels", "zz") == {}
