"""Where data sets are looked for, and the sentence for one that is not there.

A place is no part of a result: the same files elsewhere are the same data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from uproar.data.catalogue import PublicDataset, public_dataset
from uproar.errors import BadInput
from uproar.paths import user_path

VARIABLE = "UPROAR_DATA"
"""The environment variable with the folders of data sets; worker processes inherit it."""


def roots() -> list[Path]:
    """The folders that hold data sets: those of UPROAR_DATA, ./data, and the user's own, in this order."""
    given = [user_path(part) for part in environment_roots()]
    return [*given, Path("data"), user_root()]


def user_root() -> Path:
    """The user's folder for downloaded data sets."""
    return platform_cache() / "data"


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
    return next((user_path(part) for part in environment_roots()), user_root())


def use_root(folder: str | Path) -> None:
    """Look in `folder` first, in this process and in those it starts."""
    place = user_path(folder).resolve()
    if place.exists() and not place.is_dir():
        raise BadInput(f"--data-root must be a folder; {folder} is a file.")
    rest = [part for part in environment_roots() if part != str(place)]
    os.environ[VARIABLE] = os.pathsep.join([str(place), *rest])


def add_roots(folders: Sequence[str]) -> None:
    """Look in `folders` too, after those given: where a run found its data is where its report may need them."""
    rest = [folder for folder in folders if folder not in environment_roots()]
    if rest:
        os.environ[VARIABLE] = os.pathsep.join([*environment_roots(), *rest])


def environment_roots() -> list[str]:
    """The folders that the environment names."""
    return [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part.strip()]


def find(known: PublicDataset, root: str | None = None) -> Path | None:
    """The folder of a set: below `root`, or below the first of the usual places that has it."""
    bare = root is not None or not known.common
    for place in [user_path(root)] if root else roots():
        for folder in _candidates(known, place, bare):
            if any((folder / mark).exists() for mark in known.marks):
                return folder
    return None


def locate(name: str, root: str | None = None) -> Path:
    """The folder of a public data set; one that is not there is refused with how to get it."""
    known = public_dataset(name)
    folder = find(known, root)
    if folder is None:
        raise BadInput(missing_message(known, root))
    return folder


def missing_message(known: PublicDataset, root: str | None = None) -> str:
    """What to download, where it was looked for, and the command."""
    looked = ", ".join(str(place) for place in ([Path(root)] if root else roots()))
    sentence = f"The data set {known.name} was not found: no {' or '.join(known.folders[:3])} in {looked}."
    if not known.files:
        return f"{sentence} {known.how} Then give the folder above with --data-root or {VARIABLE}."
    return (
        f"{sentence} `uproar data get {known.name}` downloads it ({known.size}) into {download_root()}; or unpack it "
        f"yourself ({known.page}) and give the folder above with --data-root or {VARIABLE}."
    )


def _candidates(known: PublicDataset, place: Path, bare: bool) -> list[Path]:
    named = [place / folder for folder in known.folders]
    named += [place / known.name / folder for folder in ("", *known.folders)]
    return [*named, place] if bare else named
