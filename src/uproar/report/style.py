"""One line style per estimator, the same in every figure, in print and on screen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from uproar.statistics.design import BASELINE


@dataclass(frozen=True)
class Style:
    """How a series is drawn: a colour for light and one for dark ground, a dash and a marker."""

    light: str
    dark: str
    dash: str = "solid"
    marker: str = "circle"


REFERENCE = Style("#16191d", "#f4f6f8", "dash", "circle-open")

# Okabe and Ito's hues, darkened or lightened for contrast, and a violet: told apart with any of the
# usual colour deficiencies. Yellow is left out, since no dark enough yellow is one. The last three, brown,
# crimson and olive, are for studies with many estimators; markers tell them apart where hues do not.
HUES = (
    ("#0072b2", "#4db2ec"),
    ("#d55e00", "#ff8a3d"),
    ("#00896a", "#2fcfa5"),
    ("#b8458c", "#ee8cc6"),
    ("#b98200", "#f2b632"),
    ("#3da0d6", "#9bdcff"),
    ("#6a4fbf", "#b3a1ff"),
    ("#8a4b1f", "#d9a06a"),
    ("#b3202f", "#ff8088"),
    ("#5d6b00", "#c0d04a"),
)
MARKERS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x", "star")
DASHES = ("solid", "dot", "dashdot", "longdash")

MARKER_PATHS = {
    "circle": "M0-3.8a3.8 3.8 0 1 0 .01 0z",
    "circle-open": "M0-3.8a3.8 3.8 0 1 0 .01 0z",
    "square": "M-3.4-3.4h6.8v6.8h-6.8z",
    "diamond": "M0-4.8l4.8 4.8-4.8 4.8-4.8-4.8z",
    "triangle-up": "M0-4.6l4.6 8h-9.2z",
    "triangle-down": "M0 4.6l4.6-8h-9.2z",
    "cross": "M-1.6-4.4h3.2v2.8h2.8v3.2h-2.8v2.8h-3.2v-2.8h-2.8v-3.2h2.8z",
    "x": "M-3.8-2.2l1.9-1.9 1.9 1.9 1.9-1.9 1.9 1.9-1.9 2.2 1.9 2.2-1.9 1.9-1.9-1.9-1.9 1.9-1.9-1.9 1.9-2.2z",
    "star": "M0-5.2l1.5 3.4 3.7.4-2.8 2.5.8 3.6-3.2-1.9-3.2 1.9.8-3.6-2.8-2.5 3.7-.4z",
}
"""Markers as SVG paths around their middle."""
DASH_ARRAYS = {"solid": "none", "dash": "6 3", "dot": "1.6 2.4", "dashdot": "6 2.5 1.6 2.5", "longdash": "10 3"}
"""Dashes as SVG has them."""


def styles(estimators: Iterable[str]) -> dict[str, Style]:
    """A style by estimator, in the order of the study; random is the dark dashed reference.

    Ten hues come once before any comes again, and then with another dash: 40 lines. The marker changes with
    every estimator, so that even those of one hue differ in two ways, and beyond 40 in the marker alone.

    >>> by_name = styles(["random", "grad", "ig"])
    >>> by_name["random"].dash, by_name["grad"].dash, by_name["grad"].light != by_name["ig"].light
    ('dash', 'solid', True)
    """
    by_name: dict[str, Style] = {}
    for name in dict.fromkeys(estimators):
        if name == BASELINE:
            by_name[name] = REFERENCE
            continue
        place = len(by_name) - (BASELINE in by_name)
        light, dark = HUES[place % len(HUES)]
        dash = DASHES[place // len(HUES) % len(DASHES)]
        rounds = place // (len(HUES) * len(DASHES))
        by_name[name] = Style(light, dark, dash, MARKERS[(place + rounds) % len(MARKERS)])
    return by_name
