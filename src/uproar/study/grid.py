"""Fractions on the grid of pixels: two that take the same pixels away would be trained twice for one number."""

from __future__ import annotations

import math

from uproar.errors import BadInput
from uproar.removal.order import count
from uproar.study.bench import bench_for
from uproar.study.settings import Setting
from uproar.study.spec import Study


def check_fractions(study: Study, root: str) -> None:
    """Refuse fractions that an image of some task has too few pixels to tell apart."""
    if not study.protocols:
        return
    for setting in Setting.all_of(study):
        features = math.prod(bench_for(setting, root).inputs.features)
        what = "channel values" if setting.features == "channel" else "pixels"
        check_grid((*study.fractions, *study.random_fractions), features, what, setting.task)


def check_grid(fractions: tuple[float, ...], features: int, what: str, task: str) -> None:
    """Refuse fractions that mean the same number of features as another one, or as nothing, or as everything.

    >>> check_grid((0.1, 0.5), 64, "pixels", "digits")
    """
    meant = {0: 0.0, features: 1.0}
    for fraction in fractions:
        found = count(fraction, features)
        other = meant.setdefault(found, fraction)
        if other != fraction:
            raise BadInput(
                f"The fraction {fraction!r} means {found} of the {features} {what} of an image of {task}, as {other!r} "
                "does: choose fractions that are further apart."
            )
