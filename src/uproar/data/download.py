"""Downloads that can be stopped at any moment: a file is whole and checked, or it is a `.part` that goes on growing."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from uproar.data.locations import CATALOGUE, PublicDataset, RemoteFile, find, locate
from uproar.data.photographs import PHOTOS, read_table
from uproar.data.registry import check_task, load
from uproar.data.stream import CentreCrop, Pictures
from uproar.data.task import Task
from uproar.data.user_images import folder_place
from uproar.errors import BadInput, StoreError
from uproar.expression import parse
from uproar.paths import write_file

Listener = Callable[[str, int, int], None]
"""What is being done, how many bytes or files of it are done, and of how many (0 if nobody knows)."""

ATTEMPTS = 5
"""How often in a row a download may break off without a single new byte."""

PAUSE = 2.0
"""Seconds before the next attempt after a failure, and so many more after each further one."""

_CHUNK = 1 << 18
_WAIT = 30.0
"""Seconds without an answer after which a server is given up."""
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
_GONE = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)


def get(known: PublicDataset, root: Path, listen: Listener) -> tuple[Path, str]:
    """Download a set into `root` and unpack it there; what is there already is not fetched again.

    Gives the set's folder, and what the user should know about it, if anything.
    """
    if not known.files:
        raise BadInput(f"{known.name} cannot be downloaded without a login. {known.how}")
    folder = find(known, str(root))
    for remote in known.files:
        names = (remote.name, remote.name.removesuffix(".gz"))  # what comes in an archive comes whole
        archive = remote.name.endswith(_ARCHIVES)
        if folder is None or not (archive or any((folder / name).is_file() for name in names)):
            _get_file(remote, root, folder or root / remote.into, listen)
    folder = find(known, str(root))
    if folder is None:
        raise BadInput(f"What was downloaded into {root} is not the set {known.name}.")
    if known.name == "birdsnap":
        present, gone = get_photos(folder, listen)
        return folder, f"{present:,} photos are there, {gone:,} are not on the web any more."
    return folder, ""


def _get_file(remote: RemoteFile, root: Path, folder: Path, listen: Listener) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = fetch(remote, folder, listen)
        if remote.name.endswith(_ARCHIVES):
            listen(f"unpacking {remote.name}", 0, 0)
            unpack(file, root)
            file.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        kept = "; what was downloaded is kept" if error.errno == errno.ENOSPC else ""
        raise StoreError(f"Cannot write into {folder}: {reason}{kept}.") from None


def fetch(remote: RemoteFile, folder: Path, listen: Listener) -> Path:
    """A file from a server, checked; a part that is there already is continued."""
    file, partial = folder / remote.name, folder / f"{remote.name}.part"
    if file.is_file():
        with file.open("rb") as content:
            if md5_of(content) == remote.md5:
                return file
        raise BadInput(f"{file} is there already, but its checksum is not that of {remote.url}; move it away first.")
    for _ in range(2 if partial.exists() else 1):  # it may be of another version of the file
        _receive(remote, partial, listen)
        with partial.open("rb") as content:
            checksum = md5_of(content)
        if checksum == remote.md5:
            os.replace(partial, file)
            return file
        partial.unlink()
    raise BadInput(
        f"The checksum of {remote.url} differs: it is {checksum}, not {remote.md5}. The download was damaged, or "
        "the file has changed; nothing was kept."
    )


def _receive(remote: RemoteFile, partial: Path, listen: Listener) -> None:
    """Append to `partial` until the file is complete, asking again where a connection breaks off."""
    failures, best = 0, 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        try:
            if _append(remote, partial, before, listen):
                return
            reason = "the connection ended early"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and before:  # nothing is left to send, as far as the server knows
                return
            reason = f"the server answers {error.code} {error.reason}"
            failures = ATTEMPTS if 400 <= error.code < 500 else failures
        except _GONE as error:
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or str(cause) or type(error).__name__
        after = partial.stat().st_size if partial.exists() else 0
        failures, best = (0 if after > best else failures + 1), max(best, after)
        if failures >= ATTEMPTS:
            kept = f" {after} bytes are kept; the same command goes on from there." if after else ""
            raise BadInput(
                f"{remote.url} cannot be downloaded: {reason}.{kept} If the server cannot be reached from here, get "
                "the set by hand and give its folder with --data-root."
            )
        time.sleep(PAUSE * failures)


def _append(remote: RemoteFile, partial: Path, start: int, listen: Listener) -> bool:
    """Ask for the rest of a file and write what comes; whether that was all."""
    with _asked(remote.url, start) as answer:
        if answer.status != 206:  # the server sends the whole file
            start = 0
        left = answer.headers.get("Content-Length")
        total, done = start + int(left) if left else 0, start
        with partial.open("ab" if start else "wb") as file:
            listen(remote.name, done, total)
            while chunk := answer.read(_CHUNK):
                done += file.write(chunk)
                listen(remote.name, done, total)
    return done >= total


def _asked(url: str, start: int = 0) -> Any:
    headers = {"User-Agent": "uproar"} | ({"Range": f"bytes={start}-"} if start else {})
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_WAIT)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder: beside it first, then moved, so that a set is there whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as unpacked:
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as held:
                    held.extractall(unpacked)
            else:
                with tarfile.open(archive) as pack:
                    pack.extractall(unpacked, filter="data")
        except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
            raise BadInput(f"{archive} cannot be unpacked: {error}.") from None
        for item in sorted(Path(unpacked).iterdir()):
            target = folder / item.name
            if target.is_dir():
                raise BadInput(f"{target} is there already, but is not whole; move it away first.")
            shutil.move(item, target)


def get_photos(folder: Path, listen: Listener) -> tuple[int, int]:
    """The photos that the list in a folder gives addresses of: how many are there in the end, and how many are gone."""
    rows = read_table(folder / "images.txt", ("url", "md5", "path"))

    def fetched(row: dict[str, str]) -> bool:
        name = PurePosixPath(row["path"])
        if name.is_absolute() or ".." in name.parts:
            raise BadInput(f"A list in {folder} names {row['path']!r}, which is outside of it.")
        file = folder / PHOTOS[0] / name
        if not file.is_file():
            with contextlib.suppress(*_GONE, ValueError, OSError):
                with _asked(row["url"]) as answer:
                    content = answer.read()
                if md5_of(BytesIO(content)) == row["md5"]:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_file(file, content)
        return file.is_file()

    count = 0
    with ThreadPoolExecutor(8) as pool:
        for done, present in enumerate(pool.map(fetched, rows), 1):
            count += present
            listen("photos", done, len(rows))
    return count, len(rows) - count


def md5_of(content: Any) -> str:
    """The checksum of an open file that the owners of the sets publish."""
    return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


# whether a data set on the disk is what its owners published, and whether every picture of it can be read


@dataclass
class Verification:
    """What was found out about a set."""

    name: str
    folder: Path | None = None
    facts: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    """Pictures that cannot be decoded, by name below the folder, with the reason."""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults and not self.unreadable


def verify(name: str, listen: Callable[[int, int], None]) -> Verification:
    """Check the task a text names: published checksums, the number of images, and every picture."""
    check_task(name)
    call = parse(name)
    verification = Verification(name)
    known = CATALOGUE.get(call.name)
    root = dict(call.options).get("root")
    if known is not None:
        verification.folder = locate(known.name, None if root is None else str(root))
        _check_files(known, verification.folder, verification)
    elif call.name == "folder":
        verification.folder = folder_place(str(root))
    try:
        task = load(name)
    except BadInput as error:
        verification.faults.append(str(error))
        return verification
    counts = (len(task.train), len(task.test))
    verification.facts.append(f"{counts[0]:,} training and {counts[1]:,} test images of {len(task.classes)} classes")
    if known is not None and counts != known.counts and "=" not in name:
        whole = f"{known.counts[0]:,} + {known.counts[1]:,}"
        verification.facts.append(f"a part of the published set, which has {whole}")
    _decode(task, verification, listen)
    return verification


def _check_files(known: PublicDataset, folder: Path, verification: Verification) -> None:
    same = 0
    for name, md5 in known.md5.items():
        for file in filter(Path.is_file, (folder / name, folder / f"{name}.gz")):
            try:  # of a packed file that of what is in it
                with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
                    checksum = md5_of(content)
            except (OSError, EOFError, zlib.error) as error:
                checksum = f"unknown ({error})"
            same += checksum == md5
            if checksum != md5:
                verification.faults.append(f"{file} is not the published file: its checksum is {checksum}, not {md5}.")
    if same:
        verification.facts.append(f"{same} files have the published checksum")


def _decode(task: Task, verification: Verification, listen: Callable[[int, int], None]) -> None:
    def fault(path: str) -> str:
        try:
            CentreCrop(8, 8).picture(Path(path))
        except BadInput as error:
            return str(error)
        return ""

    paths = [
        path for split in (task.train, task.test) if isinstance(split.images, Pictures) for path in split.images.paths
    ]
    base = verification.folder or Path()
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for done, (path, reason) in enumerate(zip(paths, pool.map(fault, paths), strict=True), 1):
            if reason:
                name = Path(os.path.relpath(path, base)).as_posix()
                verification.unreadable[name] = reason
            listen(done, len(paths))
    if paths and not verification.unreadable:
        verification.facts.append("every picture can be decoded")
