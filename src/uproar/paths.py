"""Paths and addresses as people give them, and files that are written as a whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import uuid
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from uproar.errors import BadInput

LONGEST_NAME = 255
"""Bytes of a file's or folder's name: what common file systems take."""
LONGEST_PATH = 4095
"""Bytes of a whole path: what Linux takes."""


def user_path(name: str | Path) -> Path:
    """The path a user means: `~` is their home, and what no file system takes is refused in one sentence.

    >>> user_path("runs/digits").as_posix()
    'runs/digits'
    """
    text = os.fspath(name)
    if not text:
        raise BadInput("A path is empty: name a file or a folder.")
    if "\0" in text:
        raise BadInput(f"A path has no NUL bytes: {text!r}.")
    try:
        path = Path(text).expanduser()
        size = len(os.fsencode(path))
    except RuntimeError:
        raise BadInput(f"No user has the home folder that {text} names.") from None
    except UnicodeEncodeError:
        raise BadInput(f"A path has characters that no file name can have: {text!r}.") from None
    longest = max((len(os.fsencode(component)) for component in path.parts), default=0)
    if longest > LONGEST_NAME or size > LONGEST_PATH:
        raise BadInput(
            f"A file's name has at most {LONGEST_NAME} bytes and a path at most {LONGEST_PATH}: {text!r} is too long."
        )
    return path


def check_working_folder() -> None:
    """Refuse to work in a folder that somebody has deleted: nothing could be found or written from there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        raise BadInput("The folder where the command runs is gone: change into one that exists.") from None


def write_file(path: str | Path, content: bytes, apart: str | None = None, flush: bool = True) -> None:
    """The whole file or nothing: written beside its place, or beside `apart`, flushed to the disk, then renamed.

    It is as readable for others as any new file of this process (its umask).
    """
    folder, last = os.path.split(path)
    begun = os.path.join(folder, f".{last}") if apart is None else apart
    hidden = f"{begun}.{uuid.uuid4().hex[:12]}"
    try:
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb", buffering=0) as file:
            done = 0
            while done < len(content):  # a disk takes what it can
                done += file.write(content[done:] if done else content)
            if flush:
                os.fsync(handle)
        os.replace(hidden, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise


# addresses without what must stay secret: passwords and tokens are never shown or written down

HIDDEN = "***"
_SECRETS = (
    re.compile(r"^(?P<before>[\w+.:-]*://[^/?#@]*?:)(?P<secret>[^/?#]*)(?=@)"),
    re.compile(r"(?P<before>[?&;][^=&;#\s]*=)(?P<secret>[^&;#\s]*)"),
)
"""The password of a URL, and the values of its query."""


def public(url: str) -> str:
    """A URL as it may be shown: the password and all values of the query hidden. A path stays as it is.

    >>> public("s3://key:secret@bucket/study?token=abc&region=eu")
    's3://key:***@bucket/study?token=***&region=***'
    >>> public("runs/digits/store")
    'runs/digits/store'
    """
    if "://" in url:
        for pattern in _SECRETS:
            url = pattern.sub(lambda match: match["before"] + HIDDEN, url)
    return url


def is_hidden(url: str) -> bool:
    """Whether a URL has lost a secret when it was written down."""
    return "://" in url and HIDDEN in url and public(url) == url


def hide(text: str, url: str) -> str:
    """A text in which nothing is left of the secrets of a URL, which an error's message may repeat.

    >>> hide("403 for s3://key:p%40ss@bucket (p@ss)", "s3://key:p%40ss@bucket")
    '403 for s3://key:***@bucket (***)'
    """
    if public(url) == url:
        return text
    secrets = [match["secret"] for pattern in _SECRETS for match in pattern.finditer(url)]
    for secret in sorted({*secrets, *map(unquote, secrets)} - {""}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def public_command(words: Iterable[str]) -> str:
    """A command line as it may be written down.

    >>> public_command(["uproar", "run", "--store=s3://k:secret@b"])
    "uproar run '--store=s3://k:***@b'"
    """
    shown = []
    for word in words:
        name, equals, value = word.partition("=")
        option = bool(equals) and name.startswith("-")
        shown.append(f"{name}={public(value)}" if option else public(word))
    return shlex.join(shown)
