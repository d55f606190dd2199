"""A printed figure: sizes in inches, a title that fits, one set of line styles; as SVG, PNG or PDF, or inside the page.

Automatic layouts measure every text of a figure several times; with the sizes known beforehand a
figure is drawn once, which is ten times as fast for small multiples.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from uproar.report.figures import Numbers
from uproar.report.formatting import shortened
from uproar.report.style import HUES, Style

INK, MUTED, LINE, PAPER = "#16191d", "#5b6470", "#dfe3e8", "#fefefe"
ON_DARK = dict(HUES) | {INK: "#f4f6f8", MUTED: "#b5bec9", LINE: "#2b323a", PAPER: "#171b20"}
"""What a colour of a figure becomes on a dark page."""
DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2.2)),
    "dot": (0, (1.2, 1.6)),
    "dashdot": (0, (5, 1.6, 1.2, 1.6)),
    "longdash": (0, (8, 2.5)),
}
MARKERS = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "star": "*",
}
SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "uproar",
    "pdf.fonttype": 42,
}
TITLE, STEP, LETTER = 10.5, 0.2, 0.075
"""Size of a title in points; height of its lines and width of a small letter in inches."""
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"


@dataclass
class Canvas:
    """A figure with its title on top; axes are placed by inches from the lower left corner."""

    figure: Figure
    width: float
    height: float
    title_height: float
    legend_width: float = 0.0
    """At the right, of a legend that can be left out."""

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        share = (left / self.width, bottom / self.height, width / self.width, height / self.height)
        return self.figure.add_axes(share)

    def inch_axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Empty axes measured in inches, y pointing down, nothing clipped at the rim."""
        axes = self.axes(left, bottom, width, height)
        axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
        axes.set_axis_off()
        return axes

    def text(self, x: float, y: float, text: str, **options: Any) -> None:
        self.figure.text(x / self.width, y / self.height, text, **options)

    def file(self, kind: str) -> bytes:
        """The figure as an SVG, PNG or PDF file, the same bytes every time; in a PDF the caption has the title."""
        content = io.BytesIO()
        options: dict[str, Any] = {"svg": {"metadata": {"Date": None}}}.get(kind, {})
        if kind == "pdf":
            self.figure.texts[0].set_visible(False)
            options = {"metadata": {"CreationDate": None}, "bbox_inches": "tight", "pad_inches": 0.03}
        self.figure.savefig(content, format=kind, dpi=150, facecolor="white", **options)
        return content.getvalue()

    def inline(self, svg: bytes, key: str, legend: bool) -> Markup:
        """The SVG file as a part of a page: no title of its own, colours that follow the page, `key` before its ids."""
        root = ET.fromstring(svg)
        left_out = {"patch_1", "title"} | (set() if legend else {"legend_1"})
        for parent in list(root.iter()):
            for child in list(parent):
                if child.get("id") in left_out or child.tag.rpartition("}")[2] in ("metadata", "style"):
                    parent.remove(child)
        wide = self.width - (0.0 if legend else self.legend_width)
        box = (0.0, 72 * self.title_height, 72 * wide, 72 * (self.height - self.title_height))
        for name in ("width", "height"):
            del root.attrib[name]
        root.attrib |= {
            "class": "static",
            "viewBox": " ".join(f"{v:.1f}" for v in box),
            "style": f"max-width:{96 * wide:.0f}px",
        }
        for element in root.iter():
            _own_ids(element, key)
        ET.register_namespace("", SVG)
        ET.register_namespace("xlink", XLINK)
        text = ET.tostring(root, encoding="unicode")
        return Markup(re.sub("|".join(ON_DARK), lambda c: f"var(--on{c[0][1:]},{c[0]})", text))


def _own_ids(element: ET.Element, key: str) -> None:
    """Ids that no other figure of the page has, and only those that something refers to; shorter numbers."""
    name = element.attrib.pop("id", "")
    if re.fullmatch("[mp][0-9a-f]{10}|C.*|image[0-9a-f]+", name):
        element.set("id", f"{key}-{name}")
    for attribute, value in element.attrib.items():
        if attribute in ("d", "x", "y"):
            element.set(attribute, re.sub(r"(\.\d)\d+", r"\1", value))
        elif "#" in value and attribute in ("clip-path", f"{{{XLINK}}}href"):
            element.set(attribute, value.replace("#", f"#{key}-"))


def dark_colours() -> str:
    """The style rule that turns inline figures to a dark page."""
    return "".join(f"--on{light[1:]}:{dark};" for light, dark in ON_DARK.items())


def canvas(title: str, width: float, body: float) -> Canvas:
    """A canvas with room for a body of that height under a title of as many lines as it needs."""
    lines = wrap(title, max(int((width - 0.2) / 0.093), 20)) or [""]
    height = body + STEP * len(lines) + 0.12
    made = Canvas(Figure(figsize=(width, height)), width, height, height - body)
    made.text(0.1, height - 0.08, "\n".join(lines), fontsize=TITLE, fontweight="bold", va="top", gid="title")
    return made


def label_width(labels: list[str], most: float = 2.6) -> float:
    """Inches that names need beside a plot."""
    return min(max([len(shortened(name)) for name in labels], default=0) * LETTER + 0.2, most)


def array_of(values: Numbers) -> np.ndarray:
    """Values for drawing, gaps as NaN."""
    return np.array([np.nan if v is None else v for v in values], dtype=float)


def in_percent(axis: Axis) -> None:
    """Print the shares of an axis in percent."""
    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol="\u00a0%"))


def line_style(style: Style, joined: bool = True) -> dict[str, Any]:
    """A style in Matplotlib's words; points of a scatter plot are not joined."""
    hollow = style.marker.endswith("open")
    return {
        "color": style.light,
        "linestyle": DASHES[style.dash] if joined else "none",
        "marker": MARKERS[style.marker],
        "markersize": 4.5,
        "markerfacecolor": PAPER if hollow else style.light,
    }


def legend_entry(label: str, style: dict[str, Any]) -> Line2D:
    """An entry of a legend, which would leave out a name that starts with an underscore."""
    short = shortened(label)
    return Line2D([], [], **style, label=f" {short}" if short.startswith("_") else short)
