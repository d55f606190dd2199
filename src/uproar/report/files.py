"""The files of a report: the libraries that make them, and how each reaches the disk as a whole, in the order given.

Pages and figures need matplotlib and pyarrow beside the core, the extra `report`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from uproar.errors import BadInput, StoreError
from uproar.paths import user_path, write_file

NEEDED = ("matplotlib", "pyarrow")


class MissingLibraries(UserWarning):
    """Tables were written and a page was not, since a library for it is not installed."""


def missing_libraries() -> list[str]:
    """Which of the libraries that draw and write a report are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def tables_only(missing: list[str]) -> str:
    """What is said where tables are written and a page cannot be drawn.

    >>> tables_only(["pyarrow"])
    "The tables are written as CSV; the page needs pyarrow, which is not installed: pip install 'uproar[report]'."
    """
    return f"The tables are written as CSV; the page needs {_install(missing)}"


def require_libraries(what: str) -> None:
    """Refuse to draw something where a library for it is missing."""
    missing = missing_libraries()
    if missing:
        raise BadInput(f"{what} needs {_install(missing)}")


def _install(missing: list[str]) -> str:
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)}, which {verb} not installed: pip install 'uproar[report]'."


def write_files(files: Mapping[str, bytes], folder: str | Path) -> Path:
    """Write contents by name into a folder, which is made if need be; the folder."""
    directory = user_path(folder)
    for name, content in files.items():
        path = directory / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        except OSError as error:
            raise StoreError(f"Cannot write the report to {path}: {error.strerror or error}.") from None
    return directory
