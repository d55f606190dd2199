"""Whether a data set on the disk is what its owners published, and whether every picture of it can be read."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from uproar.data.catalogue import CATALOGUE, PublicDataset
from uproar.data.cropping import CentreCrop
from uproar.data.download import md5_of
from uproar.data.folder import folder_place
from uproar.data.locations import locate
from uproar.data.photographs import EXCLUSION_LIST, excluded_files
from uproar.data.registry import check_task, load
from uproar.data.stream import Pictures
from uproar.data.task import Task
from uproar.errors import BadInput, StoreError
from uproar.expression import parse
from uproar.storage.backends import write_file


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
    _count(task, known, verification)
    _decode(task, verification, listen)
    return verification


def exclude_unreadable(verification: Verification) -> Path:
    """List the unreadable pictures in the set's folder, after those listed before: they are then left out."""
    if verification.folder is None:
        raise BadInput(f"{verification.name} has no folder in which files could be left out.")
    file = verification.folder / EXCLUSION_LIST
    names = sorted(excluded_files(verification.folder) | set(verification.unreadable))
    head = "# Pictures that cannot be decoded: no part of the data set. Delete a line to have it back.\n"
    try:
        write_file(file, (head + "".join(f"{name}\n" for name in names)).encode())
    except OSError as error:
        raise StoreError(f"Cannot write {file}: {error.strerror or error}.") from None
    return file


def _check_files(known: PublicDataset, folder: Path, verification: Verification) -> None:
    same = 0
    for name, md5 in known.md5.items():
        for file in (folder / name, folder / f"{name}.gz"):
            if file.is_file():
                checksum = _md5(file)
                same += checksum == md5
                if checksum != md5:
                    verification.faults.append(
                        f"{file} is not the published file: its checksum is {checksum}, not {md5}."
                    )
    if same:
        verification.facts.append(f"{same} files have the published checksum")


def _md5(file: Path) -> str:
    """The checksum of a file, of a packed one that of what is in it."""
    if file.suffix != ".gz":
        return md5_of(file)
    try:
        return hashlib.md5(gzip.decompress(file.read_bytes()), usedforsecurity=False).hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        return f"unknown ({error})"


def _count(task: Task, known: PublicDataset | None, verification: Verification) -> None:
    counts = (len(task.train), len(task.test))
    verification.facts.append(f"{counts[0]:,} training and {counts[1]:,} test images of {len(task.classes)} classes")
    if known is not None and counts != known.counts and "=" not in verification.name:
        whole = f"{known.counts[0]:,} + {known.counts[1]:,}"
        verification.facts.append(f"a part of the published set, which has {whole}")
    if verification.folder is not None and (aside := excluded_files(verification.folder)):
        verification.facts.append(f"{len(aside)} pictures left out by {EXCLUSION_LIST}")


def _decode(task: Task, verification: Verification, listen: Callable[[int, int], None]) -> None:
    paths = [
        path for split in (task.train, task.test) if isinstance(split.images, Pictures) for path in split.images.paths
    ]
    base = verification.folder or Path()
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for done, (path, fault) in enumerate(zip(paths, pool.map(_fault, paths), strict=True), 1):
            if fault:
                name = Path(os.path.relpath(path, base)).as_posix()
                verification.unreadable[name] = fault
            listen(done, len(paths))
    if paths and not verification.unreadable:
        verification.facts.append("every picture can be decoded")


def _fault(path: str) -> str:
    try:
        CentreCrop(8, 8).picture(Path(path))
    except BadInput as error:
        return str(error)
    return ""
