"""Numbers with their nouns and names in a row, as sentences have them."""

from __future__ import annotations

from collections.abc import Sequence


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
