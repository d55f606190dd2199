"""Where data sets are looked for, and the sentence for one that is not there.

A place is no part of a result: the same files elsewhere are the same data.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from uproar.errors import BadInput, unknown
from uproar.paths import user_path

VARIABLE = "UPROAR_DATA"
"""The environment variable with the folders of data sets; worker processes inherit it."""


def roots() -> list[Path]:
    """The folders that hold data sets: those of UPROAR_DATA, ./data, and the user's own, in this order."""
    named = [user_path(name) for name in environment_roots()]
    return [*named, Path("data"), platform_cache() / "data"]


def platform_cache() -> Path:
    """The platform's folder for what can be made or downloaded again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "uproar"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "uproar"
    cache = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(cache) if cache else Path.home() / ".cache") / "uproar"


def download_root() -> Path:
    """Where downloads go: the first folder of UPROAR_DATA, or the user's own."""
    return next((user_path(name) for name in environment_roots()), platform_cache() / "data")


def use_root(folder: str | Path) -> None:
    """Look in `folder` first, in this process and in those it starts."""
    chosen = user_path(folder).resolve()
    if chosen.exists() and not chosen.is_dir():
        raise BadInput(f"--data-root must be a folder; {folder} is a file.")
    others = [name for name in environment_roots() if name != str(chosen)]
    os.environ[VARIABLE] = os.pathsep.join([str(chosen), *others])


def add_roots(folders: Sequence[str]) -> None:
    """Look in `folders` too, after those given: where a run found its data is where its report may need them."""
    rest = [folder for folder in folders if folder not in environment_roots()]
    if rest:
        os.environ[VARIABLE] = os.pathsep.join([*environment_roots(), *rest])


def environment_roots() -> list[str]:
    """The folders that the environment names."""
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name.strip()]


def find(known: PublicDataset, root: str | None = None) -> Path | None:
    """The folder of a set: below `root`, or below the first of the usual places that has it."""
    for parent in [user_path(root)] if root else roots():
        folders = [parent / folder for folder in known.folders]
        folders += [parent / known.name / folder for folder in ("", *known.folders)]
        folders += [parent] if root is not None or not known.common else []
        for folder in folders:
            if any((folder / mark).exists() for mark in known.marks):
                return folder
    return None


def locate(name: str, root: str | None = None) -> Path:
    """The folder of a public data set; one that is not there is refused with how to get it."""
    known = public_dataset(name)
    folder = find(known, root)
    if folder is not None:
        return folder
    looked = ", ".join(str(parent) for parent in ([Path(root)] if root else roots()))
    sentence = f"The data set {known.name} was not found: no {' or '.join(known.folders[:3])} in {looked}."
    if not known.files:
        raise BadInput(f"{sentence} {known.how} Then give the folder above with --data-root or {VARIABLE}.")
    raise BadInput(
        f"{sentence} `uproar data get {known.name}` downloads it ({known.size}) into {download_root()}; or unpack it "
        f"yourself ({known.page}) and give the folder above with --data-root or {VARIABLE}."
    )


# the public data sets, from the table catalogue.toml: how they lie on a disk, where they come from, what they hold


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server. An archive is unpacked in the data folder, any other file put `into` a folder there."""

    url: str
    md5: str
    into: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class PublicDataset:
    """A public set."""

    name: str
    folders: tuple[str, ...]
    """Where it may lie below a data folder, the usual place first."""
    marks: tuple[str, ...]
    """A folder that has any one of these files or folders holds the set."""
    counts: tuple[int, int]
    """Training and test images of the complete set."""
    page: str
    size: str
    files: tuple[RemoteFile, ...] = ()
    """What `uproar data get` downloads; nothing where the owner asks for a login."""
    how: str = ""
    """What to do by hand."""
    md5: Mapping[str, str] = field(default_factory=dict)
    """Checksums of files of the set by name; of a file.gz that of what is in it, since packers differ."""
    common: bool = False
    """Whether the marks are those of other sets too: then a folder must be named, or given as `root=`."""


def _dataset(name: str, facts: dict[str, Any]) -> PublicDataset:
    lists = {key: tuple(value) for key, value in facts.items() if isinstance(value, list)}
    files = tuple(RemoteFile(**file) for file in facts.get("files", ()))
    return PublicDataset(name, **{**facts, **lists, "files": files})


_TABLE = tomllib.loads(resources.files("uproar.data").joinpath("catalogue.toml").read_text(encoding="utf-8"))
CATALOGUE: Mapping[str, PublicDataset] = {name: _dataset(name, facts) for name, facts in _TABLE.items()}


def public_dataset(name: str) -> PublicDataset:
    """The entry of a public data set."""
    if name not in CATALOGUE:
        raise unknown("public data set", name, CATALOGUE)
    return CATALOGUE[name]
