"""Numbers with their nouns, names in a row and settings, as sentences have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def counted(size: float, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> counted(1, "replicate"), counted(3, "replicate"), counted(2, "pass", "passes")
    ('1 replicate', '3 replicates', '2 passes')
    """
    return f"{size:.0f} {noun if size == 1 else plural or noun + 's'}"


def series(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> series(["a"]), series(["a", "b", "c"]), series([])
    ('a', 'a, b and c', '')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def setting_text(value: Any) -> str:
    """The value of a setting in words.

    >>> setting_text(None), setting_text(["roar", "kar"]), setting_text({"epochs": 2}), setting_text(True)
    ('none', 'roar, kar', 'epochs 2', 'yes')
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {setting_text(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(setting_text, value)) or "none"
    return str(value)
