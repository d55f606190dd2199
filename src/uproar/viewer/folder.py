"""The viewer as a folder of files, for any web server or to be opened from disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from uproar.paths import user_path
from uproar.report.files import remove_files, write_files
from uproar.viewer.content import Content

PAGE = Path(__file__).parent / "page"
FILES = ("view.css", "view.js", "index.html")
"""The page itself; what holds it together is written last."""
_OURS = re.compile(r"(index|s\d+-[a-z]+(-\d+)*)\.js")


def page_file(name: str) -> bytes:
    """A file of the page."""
    return (PAGE / name).read_bytes()


def write_folder(content: Content, folder: str | Path, said: Callable[[str], None] = lambda _: None) -> Path:
    """Write everything into a folder, each file as a whole; the path of the page.

    Files of data that an earlier viewer left there and this one does not have are removed.
    """
    place = user_path(folder)
    names = list(content.names())
    for number, name in enumerate(names):
        said(f"writing file {number + 1} of {len(names)}")
        made = content.file(name)
        assert made is not None, name
        write_files({f"data/{name}.js": made}, place)
    there = {file.name for file in (place / "data").iterdir() if _OURS.fullmatch(file.name)}
    remove_files((f"data/{name}" for name in there - {f"{name}.js" for name in names}), place)
    write_files({name: page_file(name) for name in FILES}, place)
    return place / "index.html"
