"""The checks: metrics that rank no methods but flag those that fail them; some images are enough to tell.

Does a map stay the same for a network that has learned nothing, and does noise that nobody sees change it? What follows
from the values is in `results/flags.py`.
"""

from __future__ import annotations

from uproar.errors import BadInput
from uproar.expression import parse

CHECKS = ("randomisation(order=whole)", "sensitivity_max(samples=1)")
"""What is asked where nobody names checks: one map more per image each."""
FLAGGING = tuple(parse(check).name for check in CHECKS)
"""The metrics that raise flags."""
CHECK_IMAGES = 64
"""Test images that are asked about in every replicate, drawn at random where there are more."""


def read_checks(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Checks in canonical form; other metrics are refused, since nobody would look at their values.

    >>> read_checks(("sensitivity_max(samples = 1)",))
    ('sensitivity_max(samples=1)',)
    """
    from uproar.metrics.registry import read_metric  # its own imports may need this module

    calls = [read_metric(text) for text in texts]
    for call in calls:
        if call.name not in FLAGGING:
            raise BadInput(f"{call} raises no flag; checks are {' and '.join(FLAGGING)}: name it among the metrics.")
    return tuple(map(str, calls))
