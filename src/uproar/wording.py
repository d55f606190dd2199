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


def differing_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that differ, with both values; of a table of settings those in it that do.

    >>> differing_settings({"fill": "mean", "recipe": {"epochs": 2, "lr": 0.1}}, {"recipe": {"epochs": 1, "lr": 0.1}})
    {'fill': ('mean', None), 'recipe.epochs': (2, 1)}
    """
    found: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= {f"{name}.{part}": values for part, values in differing_settings(old, new).items()}
        elif old != new:
            found[name] = old, new
    return found


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
