"""What pages to keep leave out: where things are on one machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from uproar.report.markdown import text
from uproar.results.study import Results

PLACES = ("--out", "--store", "--data-root")
"""Options that say where things are on one machine."""


def without_paths(command: str) -> str:
    """A command as it would be typed elsewhere: without the places of one machine.

    >>> without_paths("/usr/bin/uproar run x --out runs/x --store=/s --weights /data/net.th --jobs 2")
    'uproar run x --weights net.th --jobs 2'
    """
    kept: list[str] = []
    words = iter(shlex.split(command))
    for word in words:
        name, given, _ = word.partition("=")
        if name in PLACES:
            if not given:
                next(words, None)
            continue
        kept.append(Path(word).name if word.startswith("/") else word)
    return shlex.join(kept)


def folders_of(results: Results) -> list[bytes]:
    """Where models of one's own lie on this machine, e.g. `/home/me/` of `/home/me/net.py:build`."""
    own = {model for _, model in results.settings if Path(model).is_absolute()}
    folders = [f"{Path(model).parent}/" for model in sorted(own)]
    return [form.encode() for folder in folders for form in (folder, text(folder))]


def without(folders: Sequence[bytes], content: bytes) -> bytes:
    """The content of a file without these folders."""
    for folder in folders:
        content = content.replace(folder, b"")
    return content
