"""The public data sets, from the table catalogue.toml: how they lie on a disk, where they come from, what they hold."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from uproar.errors import unknown


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
    classes: int = 10
    shape: tuple[int, int, int] = (3, 224, 224)
    """Of its images; photos are cut to a size that the task is asked for."""
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
