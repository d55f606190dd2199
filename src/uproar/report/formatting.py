"""Numbers and names as a person reads them. What is not known is a dash, never `nan`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from uproar.wording import series

NOTHING = "–"
LEVEL = "95\u00a0%"
"""Of every interval, as it is printed."""


def known(value: float | None) -> bool:
    """Whether a number is there at all: not None, not NaN, not infinite."""
    return value is not None and math.isfinite(value)


def percent(value: float | None, digits: int = 1) -> str:
    """A share of one as percent; the space does not break.

    >>> percent(0.9312) == "93.1\u00a0%", percent(0.5, 0) == "50\u00a0%", percent(float("nan"))
    (True, True, '–')
    """
    return NOTHING if value is None or not known(value) else f"{100 * value:.{digits}f}\u00a0%"


def points(value: float | None, signed: bool = True) -> str:
    """A difference of accuracies in percentage points, with a real minus sign.

    >>> points(0.052), points(-0.1), points(0.00001), points(None)
    ('+5.2', '−10.0', '0.0', '–')
    """
    if value is None or not known(value):
        return NOTHING
    size = f"{abs(100 * value):.1f}"
    if size == "0.0" or not signed:
        return size
    return ("+" if value > 0 else "−") + size


def number(value: float | None, digits: int = 3) -> str:
    """A plain number with so many significant digits, no exponent for everyday sizes.

    >>> number(0.16038), number(25.0), number(1234567), number(None)
    ('0.16', '25', '1234567', '–')
    """
    if value is None or not known(value):
        return NOTHING
    if value == int(value) or abs(value) >= 10**digits:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def score(value: float | None) -> str:
    """A score: three decimals for everyday sizes, a real minus sign.

    >>> score(0.46), score(-0.0213), score(12345.6), score(0.00012), score(None)
    ('0.460', '−0.021', '12346', '0.00012', '–')
    """
    if value is None or not known(value):
        return NOTHING
    size = abs(value)
    text = f"{size:.3f}" if 0.001 <= size < 100 or size == 0 else number(size, 2)
    return f"−{text}" if value < 0 else text


def with_interval(value: float | None, low: float | None, high: float | None, in_points: bool = False) -> str:
    """A number and its interval: a score, or a difference of accuracies in points.

    >>> with_interval(0.0004, -0.4, 0.6), with_interval(-0.01, -0.02, 0.0, True), with_interval(1.0, None, None)
    ('0.000 [−0.400, 0.600]', '−1.0 [−2.0, 0.0]', '1.000')
    """
    shown = [points(v) if in_points else score(v) for v in (value, low, high)]
    sizes = [abs(v) for v in (value, low, high) if v is not None and known(v)]
    if not in_points and 0.01 <= max(sizes, default=0.0) < 100:  # all three with the same digits
        shown = [score(None if v is None else round(v, 3)) for v in (value, low, high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" if NOTHING not in shown else shown[0]


def level_text(level: float, before: str = "") -> str:
    """The confidence level of an interval where it is not 95 %, else nothing.

    >>> level_text(0.95), level_text(0.99), level_text(1 - 0.05 / 15, " at ").replace("\u00a0", " ")
    ('', '99\xa0%', ' at 99.7 %')
    """
    return "" if math.isclose(level, 0.95) or not known(level) else f"{before}{100 * level:.3g}\u00a0%"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence; beyond `most`, the rest is counted.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdef"), most=2)
    ('a', 'a, b and c', 'a, b and 4 others')
    """
    shown = [shortened(name, 48) for name in names]
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return series(shown)


def clean(text: object) -> str:
    """A name on one line without control characters, which neither XML nor a reader can take."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+", " ", str(text)).strip()


def shortened(name: str, most: int = 34) -> str:
    """A name that fits beside a figure: the middle of a long one is left out.

    >>> shortened("sg_sq(grad)"), shortened("a" * 30 + "b" * 30, 21)
    ('sg_sq(grad)', 'aaaaaaaaaa…bbbbbbbbbb')
    """
    name = clean(name)
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[: most - 1 - half]}…{name[len(name) - half :]}"


def slug(parts: Iterable[str]) -> str:
    """Names as a piece of a file name: letters, digits and dashes only.

    >>> slug(["../digits", "cnn-small(width=2)"])
    'digits-cnn-small-width-2'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)).strip("-")[:60] or "setting"
