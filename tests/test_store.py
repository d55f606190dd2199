import contextlib
import json
import os

import fsspec
import numpy as np
import pytest
import safetensors.numpy

from uproar import store
from uproar.errors import Absent, BadInput, Damaged, StoreError
from uproar.store import FORMAT, Item, Store, _marker, decode_item, encode_item, key_of, verify_store


@pytest.fixture(params=["folder", "file://", "memory://", "s3://", "sftp-like"])
def address(request, tmp_path, monkeypatch) -> str:
    """Stores of every sort: a folder, objects that are put whole, files that are moved into place."""
    if request.param == "folder":
        return str(tmp_path)
    if request.param == "file://":
        return f"file://{tmp_path}"
    if request.param == "s3://":
        import objects  # noqa: F401

        monkeypatch.setenv("UPROAR_OBJECTS", str(tmp_path / "objects"))
        (tmp_path / "objects").mkdir()
        return "s3://bucket/some/place"
    if request.param == "sftp-like":
        monkeypatch.setattr("uproar.backends.OBJECTS", set())
    return f"memory://{tmp_path.name}"


@pytest.fixture
def item() -> Item:
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array([True, False])}
    return Item(arrays, {"accuracy": 0.5, "name": "é <b>"})


def test_what_is_read_is_what_was_written(address, item):
    store = Store(address)
    store.write("cell", "ab12", item)
    result = Store(address).read("cell", "ab12")
    assert result.facts == item.facts
    for name, array in item.arrays.items():
        assert result.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(result.arrays[name], array)


def test_what_is_quickly_made_does_not_wait_for_the_disk(tmp_path, item, monkeypatch):
    flushed, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (flushed.append(handle), real(handle)))
    store = Store(tmp_path)
    store.begin()
    flushed.clear()
    store.write("cell", "ab12", item, flush=False)
    assert not flushed and store.read("cell", "ab12").facts == item.facts
    store.write("cell", "cd34", item)
    assert len(flushed) == 1


def test_parts_of_an_array_are_read_without_the_rest(address, item):
    store = Store(address)
    store.write("cell", "ab12", item)
    whole = item.arrays["a"].tobytes()
    assert store.spans("cell", "ab12", "a", [(2, 6), (0, 12)]) == [whole[2:6], whole]
    with pytest.raises(KeyError):
        store.spans("cell", "cd34", "a", [(0, 1)])
    with pytest.raises(Damaged, match="ends early"):
        Store(address).spans("cell", "ab12", "a", [(8, 14)])


def test_make_is_called_once(address, item):
    store, calls = Store(address), []
    for _ in range(3):
        store.once("cell", "ab", lambda: calls.append(1) or item)
    assert len(calls) == 1


@pytest.mark.parametrize("damage", ["truncate", "flip a bit", "empty", "garbage"])
def test_a_damaged_file_is_noticed_set_aside_and_made_again(address, item, damage):
    store = Store(address)
    store.write("cell", "ab", item)
    name = store.name("cell", "ab")
    content = store.backend.content(name)
    if damage == "flip a bit":
        content[-1] ^= 1
    changed = {"truncate": content[:-3], "flip a bit": content, "empty": b"", "garbage": b"x" * 99}
    store.backend.write(name, bytes(changed[damage]))
    with pytest.raises(Damaged):
        store.read("cell", "ab")
    again = store.once("cell", "ab", lambda: item)
    assert again.facts == item.facts
    assert "computed again" in store.faults.notices[0]
    assert store.read("cell", "ab").facts == item.facts
    assert [*store.backend.sizes("cell")] == ["cell/ab/ab.damaged", "cell/ab/ab.safetensors"]


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
    (tmp_path / "FORMAT.json").write_bytes(_marker(FORMAT + 1))
    with pytest.raises(StoreError, match="another version"):
        Store(tmp_path)


def test_looking_leaves_no_trace_and_writing_begins_a_store(tmp_path, item):
    store = Store(tmp_path / "new")
    assert store.find("cell", "ab") is None
    assert not (tmp_path / "new").exists()
    store.write("cell", "ab", item)
    assert json.loads((tmp_path / "new" / "FORMAT.json").read_text())["format"] == FORMAT


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


def test_facts_are_those_that_were_written_and_empty_of_what_is_not_there(address, item):
    store = Store(address)
    store.write("levels", "abc-1", item)
    assert store.facts("levels", "abc-1") == item.facts
    assert store.facts("levels", "zz") == {}


def test_facts_longer_than_what_is_read_at_first_are_read_whole(address):
    store = Store(address)
    store.write("cell", "ab", Item({}, {"long": "x" * 100_000}))
    assert len(store.facts("cell", "ab")["long"]) == 100_000


def test_what_another_process_wrote_is_seen(address, item, monkeypatch):
    """Listings that a file system remembers, and those kept for planning, must not hide it for long."""
    mine, other = Store(address), Store(address)
    assert not mine.has("levels", "abc")
    other.write("levels", "abc", item)
    assert [*mine.backend.sizes("levels")] == ["levels/ab/abc.safetensors"]
    assert mine.find("levels", "abc") is not None
    monkeypatch.setattr("uproar.backends.LISTED", 0.0)
    assert mine.has("levels", "abc")


def test_a_url_nobody_can_open_is_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"No file system is known for s4:// in s4://a/b: give a"):
        Store("s4://a/b")
    with pytest.raises(BadInput, match=r"A store at gs:// needs one more package .*gcsfs"):
        Store("gs://bucket/x")
    import objects  # noqa: F401

    monkeypatch.setenv("UPROAR_OBJECTS", str(tmp_path))
    with pytest.raises(StoreError, match=r"^Cannot read s3://forbidden/FORMAT.json: .*Denied.$"):
        Store("s3://forbidden")


def test_an_object_store_that_goes_away_is_no_damage(tmp_path, item, monkeypatch):
    """A read that fails for another reason than the file must not set the file aside."""
    import objects  # noqa: F401

    monkeypatch.setenv("UPROAR_OBJECTS", str(tmp_path))
    store = Store("s3://bucket")
    store.write("cell", "ab", item)

    def gone(*_, **__):
        raise TimeoutError("no route to host")

    with monkeypatch.context() as patch:
        patch.setattr(fsspec.get_filesystem_class("s3"), "cat_file", gone)
        with pytest.raises(StoreError, match=r"Cannot read .*ab.safetensors: .*no route to host"):
            store.find("cell", "ab")
    assert store.find("cell", "ab") is not None


def change_bytes(store: Store, name: str, change) -> None:
    store.backend.write(name, bytes(change(store.backend.content(name))))


def test_facts_are_verified_without_the_arrays(address, item):
    """A number edited in a header is not a result."""
    store = Store(address)
    store.write("levels", "ab", item)
    change_bytes(store, store.name("levels", "ab"), lambda c: c.replace(b"0.5", b"0.7"))
    assert store.facts("levels", "ab") == {}
    assert "does not match its digest: set aside" in store.faults.notices[0]
    assert not store.has("levels", "ab") and store.faults.damaged == {("levels", "ab")}


@pytest.mark.parametrize("other", [("cell", "cd"), ("model", "ab")])
def test_a_file_is_only_the_item_whose_name_it_bears(address, item, other):
    store = Store(address)
    store.write("cell", "ab", item)
    store.write(*other, Item({"a": np.zeros(2)}, {"accuracy": 0.9}))
    names = store.name("cell", "ab"), store.name(*other)
    contents = [bytes(store.backend.content(name)) for name in names]
    for name, content in zip(names, reversed(contents), strict=True):
        store.backend.write(name, content)
    for kind, key in (("cell", "ab"), other):
        with pytest.raises(Damaged, match="holds another result"):
            store.read(kind, key)
        assert store.facts(kind, key) == {}
    assert store.find("cell", "ab") is None


def test_every_byte_of_a_file_counts(tmp_path):
    """Wherever a bit is flipped: the item is read as it was, or found to be damaged."""
    store = Store(tmp_path)
    item = Item({"a": np.arange(5), "b": np.ones((2, 3), np.float16)}, {"x": 0.25})
    store.write("cell", "ab", item)
    path = tmp_path / store.name("cell", "ab")
    sound = path.read_bytes()
    noticed = 0
    for place in range(len(sound)):
        content = bytearray(sound)
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        try:
            result = store.read("cell", "ab")
        except Damaged:
            noticed += 1
            continue
        assert result.facts == item.facts
        assert all(np.array_equal(result.arrays[n], a) for n, a in item.arrays.items())
        assert result.arrays["b"].dtype == np.float16
    assert noticed > 0.9 * len(sound)


@pytest.mark.parametrize("changed", [[0.5, 40], [0, 39], [0, 48], [-3, 37], [10**30, 10**30 + 40], ["0", 40], None, []])
def test_where_arrays_lie_is_verified(tmp_path, changed):
    """Their places in the header are what types and shapes say, whatever part is read."""
    store, name = Store(tmp_path), ("cell", "ab")
    path = tmp_path / store.name(*name)
    for read in (store.find, lambda *name: store.spans(*name, "a", [(0, 8)])):
        store.write(*name, Item({"a": np.arange(5), "b": np.ones(3)}))
        content = path.read_bytes()
        size = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:size])
        assert header["a"]["data_offsets"] == [0, 40]
        header["a"]["data_offsets"] = changed
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[size:])
        with contextlib.suppress(Damaged):
            assert read(*name) is None
        assert not path.exists()  # set aside, so that it is made again


def test_parts_of_arrays_are_verified(address, monkeypatch):
    monkeypatch.setattr("uproar.store.CHUNK", 16)
    store, values = Store(address), np.arange(100, dtype=np.uint8)
    store.write("shard", "ab", Item({"levels": values}))
    name = store.name("shard", "ab")
    sound = store.backend.content(name)
    assert store.spans("shard", "ab", "levels", [(90, 100), (3, 20), (4, 5)]) == [
        bytes(values[90:100]),
        bytes(values[3:20]),
        bytes(values[4:5]),
    ]
    broken = bytearray(sound)
    broken[-70] ^= 4  # byte 30
    store.backend.write(name, bytes(broken))
    assert store.spans("shard", "ab", "levels", [(0, 16), (32, 100)])
    with pytest.raises(Damaged, match="does not match"):
        store.spans("shard", "ab", "levels", [(31, 33)])
    assert not store.has("shard", "ab"), "set aside"
    with pytest.raises(Absent):
        store.spans("shard", "ab", "levels", [(31, 33)])
    for cut in (1, 36, 100):  # also where a chunk ends
        store.backend.write(name, bytes(sound[:-cut]))
        with pytest.raises(Damaged, match="does not match"):
            store.spans("shard", "ab", "levels", [(60, 100)])


def test_a_file_made_anew_is_read_after_its_header_was(tmp_path):
    """Another process may have repaired a file whose header this one remembers."""
    mine, other = Store(tmp_path), Store(tmp_path)
    item = Item({"levels": np.arange(9, dtype=np.uint8)}, {"seconds": 1})
    mine.write("shard", "ab", item)
    assert mine.spans("shard", "ab", "levels", [(0, 2)]) == [b"\0\1"]
    other.write("shard", "ab", Item(item.arrays, {"seconds": 1.2345678}))
    assert mine.spans("shard", "ab", "levels", [(3, 5)]) == [b"\3\4"]
    assert not mine.faults.notices


@pytest.mark.parametrize("content", ["", "hello", '{"format": "2"}', '{"format": 3, "digest": "6f"}', "[]"])
def test_a_damaged_marker_does_not_hide_sound_results(address, item, content):
    store = Store(address)
    store.write("cell", "ab", item)
    store.backend.write("FORMAT.json", content.encode())
    again = Store(address)
    assert again.has("cell", "ab") and again.read("cell", "ab").facts == item.facts
    assert list(verify_store(Store(address)).damaged) == ["FORMAT.json"]
    assert len(again.faults.notices) == 1  # however often it is opened
    assert "the results beside it are not" in again.faults.take_notices()[0]
    again.begin()
    assert Store(address).faults.take_notices() == []


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_files_are_as_private_as_the_umask_says(tmp_path, item, mask):
    before = os.umask(mask)
    try:
        Store(tmp_path / "store").write("cell", "ab", item)
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~mask}


def test_what_killed_writers_left_goes_after_a_while(tmp_path, item):
    store = Store(tmp_path)
    store.write("cell", "ab", item)
    old, new = (tmp_path / "unfinished" / name for name in ("cell-ab.1", "cell-cd.2"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.backend.sweep()
    assert not old.exists() and new.exists()


def test_other_programs_can_open_an_item():
    arrays = {
        "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "bytes": np.arange(3, dtype=np.uint8),
        "single": np.ones(()),
        "none": np.zeros((0, 2), np.float16),
        "yes or no": np.array([True, False]),
        "big end first": np.arange(4, dtype=">i8"),
    }
    content = encode_item("cell", "ab", Item(arrays, {"name": 'é"'}))
    opened, read = safetensors.numpy.load(content), decode_item(bytearray(content), "cell", "ab")
    assert set(opened) == set(arrays) == set(read.arrays)
    for name, array in arrays.items():
        for other in (opened[name], read.arrays[name]):
            assert other.shape == array.shape and np.array_equal(other, array), name


def test_results_of_another_torch_are_other_results(monkeypatch):
    keys = set()
    for version in ("2.8.0+cpu", "2.8.0+cu128", "2.9.0"):
        monkeypatch.setattr(store.metadata, "version", lambda _, version=version: version)
        store.torch_version.cache_clear()
        keys.add(key_of("model", {"seed": 0}))
    store.torch_version.cache_clear()
    assert len(keys) == 2


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_folder_in_place_of_a_file_is_damage(tmp_path, item, make):
    store = Store(tmp_path)
    store.write("cell", "ab", item)
    path = tmp_path / store.name("cell", "ab")
    for _ in range(2):  # what was set aside before is in nobody's way
        path.unlink()
        make(path)
        assert list(verify_store(store).damaged) == [store.name("cell", "ab")]
        assert store.facts("cell", "ab") == {} and not path.exists()
        make(path)
        assert store.once("cell", "ab", lambda: item).facts == item.facts
        assert store.read("cell", "ab").facts == item.facts
    path.unlink()
    make(path)
    store.write("cell", "ab", item)
    assert store.read("cell", "ab").facts == item.facts


def test_a_pipe_in_place_of_the_marker_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "FORMAT.json")
    with pytest.raises(StoreError, match="Cannot use"):
        Store(tmp_path)
