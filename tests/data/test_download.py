"""Downloads against a server on this machine: resume, checksums, servers that misbehave, and what is unpacked."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import zipfile

import pytest

from tests.data.layouts import write_birdsnap, write_cifar10
from tests.data.serving import Server, serving
from uproar.data import download, load
from uproar.data.download import fetch, get, get_photos, unpack
from uproar.data.locations import CATALOGUE, PublicDataset, RemoteFile
from uproar.errors import BadInput, StoreError

CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


@pytest.fixture
def seen():
    """What a listener was told."""
    return []


def remote(server: Server, name: str, content: bytes = CONTENT, into: str = "") -> RemoteFile:
    server.files[name] = content
    return RemoteFile(f"{server.url}/{name}", hashlib.md5(content).hexdigest(), into)


def test_a_download_is_whole_checked_and_told(server, tmp_path, seen):
    file = fetch(remote(server, "a.bin"), tmp_path, lambda *state: seen.append(state))
    assert file.read_bytes() == CONTENT
    assert seen[0] == ("a.bin", 0, len(CONTENT)) and seen[-1] == ("a.bin", len(CONTENT), len(CONTENT))
    assert [f.name for f in tmp_path.iterdir()] == ["a.bin"]
    fetch(remote(server, "a.bin"), tmp_path, lambda *_: None)
    assert len(server.asked) == 1, "a file that is there is not asked for again"


def test_a_download_goes_on_where_it_was_stopped(server, tmp_path, seen):
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:700_000])
    fetch(remote(server, "a.bin"), tmp_path, lambda *state: seen.append(state))
    assert server.asked == ["bytes=700000-"]
    assert seen[0] == ("a.bin", 700_000, len(CONTENT))
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_connections_that_break_off_are_taken_up_again(server, tmp_path):
    server.drop = 300_000
    fetch(remote(server, "a.bin"), tmp_path, lambda *_: None)
    assert server.asked == [None, "bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_is_asked_from_the_start(server, tmp_path):
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"x" * 1000)
    fetch(remote(server, "a.bin"), tmp_path, lambda *_: None)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_part_of_another_file_is_thrown_away_once(server, tmp_path):
    for wrong in (b"x" * 1000, b"x" * (len(CONTENT) + 5)):
        (tmp_path / "a.bin.part").write_bytes(wrong)
        fetch(remote(server, "a.bin"), tmp_path, lambda *_: None).unlink()


def test_a_server_that_never_gets_further_is_given_up_and_the_part_kept(server, tmp_path):
    server.ranges, server.drop = False, 1000
    with pytest.raises(BadInput, match="connection ended early. 1000 bytes are kept; the same command"):
        fetch(remote(server, "a.bin"), tmp_path, lambda *_: None)
    assert (tmp_path / "a.bin.part").stat().st_size == 1000
    assert len(server.asked) == download.ATTEMPTS + 1


def test_a_checksum_that_differs_is_told_and_nothing_kept(server, tmp_path):
    wrong = RemoteFile(remote(server, "a.bin").url, "0" * 32)
    with pytest.raises(BadInput, match=f"differs: it is {hashlib.md5(CONTENT).hexdigest()}, not 000"):
        fetch(wrong, tmp_path, lambda *_: None)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(BadInput, match="is there already, but its checksum is not that of"):
        fetch(remote(server, "a.bin"), tmp_path, lambda *_: None)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


def test_a_missing_file_or_server_is_one_sentence(server, tmp_path):
    with pytest.raises(BadInput, match="none.bin cannot be downloaded: the server answers 404"):
        fetch(RemoteFile(f"{server.url}/none.bin", ""), tmp_path, lambda *_: None)
    assert len(server.asked) == 1, "asking again would not help"
    with pytest.raises(BadInput, match="cannot be downloaded: .*refused"):
        fetch(RemoteFile("http://127.0.0.1:9/a.bin", ""), tmp_path, lambda *_: None)


def _tar(folder, name: str, mode: str = "w:gz") -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as pack:
        pack.add(folder, name)
    return held.getvalue()


def test_a_set_is_downloaded_unpacked_and_loads(server, tmp_path, monkeypatch):
    write_cifar10(tmp_path / "made", "binary")
    archive = remote(server, "cifar-10-binary.tar.gz", _tar(tmp_path / "made", "cifar-10-batches-bin"))
    official = CATALOGUE["cifar10"]
    known = PublicDataset("cifar10", official.folders, official.marks, official.counts, "", "", files=(archive,))
    root = tmp_path / "root"
    folder, note = get(known, root, lambda *_: None)
    assert (folder, note) == (root / "cifar-10-batches-bin", "")
    assert [f.name for f in root.iterdir()] == ["cifar-10-batches-bin"], "no archive, no rest"
    assert len(load(f'cifar10(root="{root}")').train) == 50
    get(known, root, lambda *_: None)
    assert len(server.asked) == 1


def test_plain_files_go_into_the_folder_of_their_set(server, tmp_path):
    files = tuple(
        remote(server, name, b"x", "MNIST/raw") for name in ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
    )
    known = PublicDataset("mnist", ("MNIST/raw",), ("t10k-images-idx3-ubyte",), (1, 1), "", "", files=files)
    raw = tmp_path / "MNIST" / "raw"
    assert get(known, tmp_path, lambda *_: None)[0] == raw
    (raw / "train-images-idx3-ubyte").unlink()
    get(known, tmp_path, lambda *_: None)
    assert (raw / "train-images-idx3-ubyte").is_file(), "stopped between two files, it goes on"
    assert len(server.asked) == 3


def test_archives_cannot_reach_outside_and_damaged_ones_leave_nothing(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(tmp_path / "evil.tgz", "w:gz") as pack:
        pack.addfile(tarfile.TarInfo("../evil.txt"))
    with pytest.raises(BadInput, match="cannot be unpacked"):
        unpack(tmp_path / "evil.tgz", root)
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as held:
        held.writestr("../evil.txt", "x")
    unpack(tmp_path / "odd.zip", root)
    assert not (tmp_path / "evil.txt").exists()
    (root / "evil.txt").unlink()
    (tmp_path / "cut.tar.gz").write_bytes(_tar(root.parent / "odd.zip", "set")[:60])
    (tmp_path / "cut.zip").write_bytes(b"PK" + b"x" * 50)
    for name in ("cut.tar.gz", "cut.zip"):
        with pytest.raises(BadInput, match="cannot be unpacked"):
            unpack(tmp_path / name, root)
    assert list(root.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_sentence(server, tmp_path):
    (tmp_path / "file").write_text("x")
    known = PublicDataset("x", ("x",), ("x",), (1, 1), "", "", files=(remote(server, "a.bin"),))
    with pytest.raises(StoreError, match="Cannot write into .*file"):
        get(known, tmp_path / "file", lambda *_: None)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_one_sentence_and_what_came_is_kept(server, tmp_path):
    (tmp_path / "a.bin.part").symlink_to("/dev/full")
    known = PublicDataset("x", ("x",), ("x",), (1, 1), "", "", files=(remote(server, "a.bin"),))
    with pytest.raises(StoreError, match="No space left on device; what was downloaded is kept"):
        get(known, tmp_path, lambda *_: None)
    assert (tmp_path / "a.bin.part").is_symlink() and not (tmp_path / "a.bin").exists()


def test_imagenet_says_what_to_do_by_hand(tmp_path):
    with pytest.raises(BadInput, match="without a login. Ask for access at https://image-net.org"):
        get(CATALOGUE["imagenet"], tmp_path, lambda *_: None)


def test_photos_that_are_gone_are_counted_and_the_others_checked(server, tmp_path, seen):
    folder = tmp_path / "birdsnap"
    write_birdsnap(folder, server.url)
    good = (tmp_path / "one.jpg").read_bytes()
    for name in ("Acadian_Flycatcher/0.jpg", "Acorn_Woodpecker/1.jpg"):
        server.files[name] = good
    server.files["Acorn_Woodpecker/2.jpg"] = b"this photo is no longer available"
    assert get_photos(folder, lambda *state: seen.append(state)) == (2, 4)
    assert seen[-1] == ("photos", 6, 6)
    there = sorted(f.name for f in (folder / "download" / "images").rglob("*.*"))
    assert there == ["0.jpg", "1.jpg"]
    asked = len(server.asked)
    assert get_photos(folder, lambda *_: None) == (2, 4)
    assert len(server.asked) == asked + 4, "those that are there are not asked for again"
