"""Addresses of stores without what must stay secret: passwords and tokens are never shown or written down."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from urllib.parse import unquote

HIDDEN = "***"
_USER = re.compile(r"^(?P<before>[\w+.:-]*://[^/?#@]*?:)(?P<secret>[^/?#]*)(?=@)")
_QUERY = re.compile(r"(?P<before>[?&;][^=&;#\s]*=)(?P<secret>[^&;#\s]*)")


def public(url: str) -> str:
    """A URL as it may be shown: the password and all values of the query hidden. A path stays as it is.

    >>> public("s3://key:secret@bucket/study?token=abc&region=eu")
    's3://key:***@bucket/study?token=***&region=***'
    >>> public("runs/digits/store")
    'runs/digits/store'
    """
    if "://" not in url:
        return url
    for pattern in (_USER, _QUERY):
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
    secrets = [match["secret"] for pattern in (_USER, _QUERY) for match in pattern.finditer(url)]
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
