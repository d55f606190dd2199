"""The report: one page, the figures as files, and the tables."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from uproar.errors import StoreError
from uproar.report.document import chapters_of
from uproar.report.draw import drawn
from uproar.report.page import page
from uproar.report.tables import table_files
from uproar.results import Results

__all__ = ["write_report"]


def write_report(results: Results, folder: str | Path) -> Path:
    """Write the page, the figures and the tables into a folder; the page's path.

    Each file appears as a whole, the page last: who can open the page finds everything it links to.
    """
    chapters = chapters_of(results)
    files = table_files(results, chapters)
    for chapter in chapters:
        for figure in chapter.drawings():
            for name, content in drawn(figure).items():
                files[f"figures/{chapter.prefix}{name}"] = content
    files["report.html"] = page(results, chapters).encode()
    place = Path(folder).expanduser()
    _write(place, files)
    return place / "report.html"


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, content)
        except OSError as error:
            raise StoreError(
                f"Cannot write the report to {path}: {error.strerror or error}."
            ) from None


def _replace(path: Path, content: bytes) -> None:
    """The whole file or the one that was there before: written beside its place, then renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
