"""One look per estimator, the same in every figure, on paper and on screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from uproar.results import BASELINE


@dataclass(frozen=True)
class Style:
    """How a series is drawn: a colour for light and one for dark ground, a dash and a marker."""

    light: str
    dark: str
    dash: str = "solid"
    marker: str = "circle"


REFERENCE = Style("#16191d", "#f4f6f8", "dash", "circle-open")

# Okabe and Ito's hues, darkened or lightened for contrast, and a violet: told apart with any of the
# usual colour deficiencies. Yellow is left out, since no dark enough yellow is one.
HUES = (
    ("#0072b2", "#4db2ec"),
    ("#d55e00", "#ff8a3d"),
    ("#00896a", "#2fcfa5"),
    ("#b8458c", "#ee8cc6"),
    ("#b98200", "#f2b632"),
    ("#3da0d6", "#9bdcff"),
    ("#6a4fbf", "#b3a1ff"),
)
MARKERS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dot", "dashdot", "longdash")


def styles(estimators: Iterable[str]) -> dict[str, Style]:
    """A style by estimator, in the order of the study; random is the dark dashed reference.

    Seven hues with a dash each round give 28 lines; the marker changes with every estimator, so that
    even those of one hue differ in two ways.

    >>> looks = styles(["random", "grad", "ig"])
    >>> looks["random"].dash, looks["grad"].dash, looks["grad"].light != looks["ig"].light
    ('dash', 'solid', True)
    """
    looks: dict[str, Style] = {}
    for name in dict.fromkeys(estimators):
        if name == BASELINE:
            looks[name] = REFERENCE
            continue
        place = len(looks) - (BASELINE in looks)
        light, dark = HUES[place % len(HUES)]
        dash = DASHES[place // len(HUES) % len(DASHES)]
        looks[name] = Style(light, dark, dash, MARKERS[place % len(MARKERS)])
    return looks
