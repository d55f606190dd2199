"""Times as people write them: 90s, 30m, 1.5h."""

from __future__ import annotations

import re

from uproar.errors import BadInput

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(text: str) -> float:
    """A duration in seconds.

    >>> seconds_of("90"), seconds_of("30m"), seconds_of("1.5 h")
    (90.0, 1800.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if found is None or float(found[1]) == 0:
        raise BadInput(f"--budget takes a time such as 90s, 30m or 2h, not {text!r}.")
    return float(found[1]) * _UNITS[found[2]]
