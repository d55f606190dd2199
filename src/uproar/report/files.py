"""How the files of a report reach the disk: each as a whole, in the order given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from uproar.errors import StoreError
from uproar.paths import user_path
from uproar.storage.backends import write_file


def write_files(files: Mapping[str, bytes], folder: str | Path) -> Path:
    """Write contents by name into a folder, which is made if need be; the folder."""
    place = user_path(folder)
    for name, content in files.items():
        path = place / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        except OSError as error:
            raise StoreError(f"Cannot write the report to {path}: {error.strerror or error}.") from None
    return place


def remove_files(names: Iterable[str], folder: str | Path) -> None:
    """Remove files of a folder that are there."""
    for name in names:
        path = user_path(folder) / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot remove {path}: {error.strerror or error}.") from None
