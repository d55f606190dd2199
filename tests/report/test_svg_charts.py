"""Charts without scripts: every line, within its frame, well-formed, escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest

from uproar.report.audit_figures import audit_figure
from uproar.report.figures import Curves, Series
from uproar.report.style import REFERENCE, styles
from uproar.report.svg_charts import audit_chart, curve_chart
from uproar.results.finding import Plot


def parsed(chart):
    root = ET.fromstring(str(chart))
    _, _, width, height = map(float, root.get("viewBox").split())
    for line in root.iter("polyline"):
        points = [tuple(map(float, p.split(","))) for p in line.get("points").split()]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in points)
    return root


def words(root):
    return [e.text for e in root.iter("text")]


def test_curves_have_a_line_and_a_band_for_every_method_and_gaps_stay_open():
    x = (0.1, 0.5, 0.9)
    looks = styles(["random", "<grad>"])
    series = tuple(
        Series(name, looks[name], x, mean, (0.1, None, 0.2), (0.3, None, 0.6), (3, 3, 3))
        for name, mean in (("random", (0.9, 0.5, 0.2)), ("<grad>", (0.8, None, 0.1)))
    )
    figure = Curves("c", "A <title>", "", "roar", "share removed", "accuracy", (0.0, 1.0), series, 0.1)
    root = parsed(curve_chart(figure))
    assert [e.text for e in root.iter("title")] == ["<grad>", "random"], "the reference on top"
    lines = [e.get("points").split() for e in root.iter("polyline")]
    assert sorted(map(len, lines)) == [2, 3]
    assert len(list(root.iter("polygon"))) == 2
    assert {"share removed", "accuracy", "chance", "50\u00a0%"} - {*words(root)} <= {"50\u00a0%"}
    low, high = (float(p.split(",")[1]) for p in max(lines, key=len)[::2])
    assert low < high, "a larger value stands higher"


@pytest.mark.parametrize("kind", ["bars", "lines", "scatter", "heatmap"])
def test_every_kind_of_audit_plot_is_drawn(kind):
    data = pd.DataFrame(
        {"x": [1.0, 2.0, 3.0], "y": [0.1, -0.2, float("nan")], "s": ["a&b", "a&b", "c"], "v": [0.5, -1.0, 0.2]}
    )
    plot = Plot(
        "p",
        kind,
        "A title",
        "How to read it",
        data,
        x="x",
        y="y",
        series=None if kind == "heatmap" else "s",
        value="v" if kind == "heatmap" else None,
        x_label="across",
        y_label="up",
    )
    root = parsed(audit_chart(audit_figure(plot, "blur", {})))
    shapes = {"bars": "rect", "lines": "path", "scatter": "path", "heatmap": "rect"}[kind]
    assert len(list(root.iter(shapes))) >= 2
    if kind != "heatmap":
        assert "a&b" in words(root)


def test_no_two_of_a_hundred_methods_look_the_same_and_ten_have_hues_of_their_own():
    looks = styles(["random", *(f"m{k}" for k in range(100))])
    assert looks["random"] == REFERENCE
    assert len(set(looks.values())) == 101
    assert len({looks[f"m{k}"].light for k in range(10)}) == 10
    assert all(re.fullmatch("#[0-9a-f]{6}", s.light) and re.fullmatch("#[0-9a-f]{6}", s.dark) for s in looks.values())
