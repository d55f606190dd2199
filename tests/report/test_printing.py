"""Drawn figures: every kind of plot, as files and inside the page, well-formed, escaped, lines where the numbers are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from uproar.report.audits import audit_figure
from uproar.report.canvas import ON_DARK
from uproar.report.figures import Chart, Figure, Forest, ForestRow, HeatMap, PictureRow, Pictures, Series, Tile
from uproar.report.printing import draw
from uproar.report.style import REFERENCE, styles
from uproar.results.finding import Plot

SVG = "{http://www.w3.org/2000/svg}"


def words(root):
    return [e.text for e in root.iter(f"{SVG}text")]


def curves(**options) -> Figure:
    x = (0.1, 0.5, 0.9)
    by_name = styles(["random", "<grad>"])
    series = tuple(
        Series(name, by_name[name], x, mean, (0.1, None, 0.2), (0.3, None, 0.6), reference=name == "random")
        for name, mean in (("random", (0.9, 0.5, 0.2)), ("<grad>", (0.8, None, 0.1)))
    )
    chart = Chart("", series, "share removed", "accuracy", (0.0, 1.0), level=0.1, level_label="chance")
    return Figure((chart,), name="c", title="A <title>", **options)


def test_curves_have_a_line_and_a_band_for_every_method_and_gaps_stay_open():
    root = ET.fromstring(draw(curves()).files["c.svg"])
    assert {"A <title>", "<grad>", "random", "share removed", "accuracy", "chance", "40\u00a0%"} <= {*words(root)}
    paths = [path.get("d", "") for g in root.iter(f"{SVG}g") for path in g.findall(f"{SVG}path")]
    drawn = [[float(y) for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", d)] for d in paths]
    falling = [line for line in drawn if len(line) == 3 and all(a < b for a, b in pairwise(line))]
    assert len(falling) == 1, "random has no gap, and a larger value stands higher"


def test_inside_the_page_a_figure_has_no_title_own_ids_and_colours_that_follow_the_page():
    whole, bare = draw(curves(), "1-c").inline, draw(curves(shared_legend=True), "1-c").inline
    root = ET.fromstring(str(whole))
    assert "A <title>" not in words(root) and "<grad>" in words(root)
    assert "<grad>" not in words(ET.fromstring(str(bare))), "the page has the legend"
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert ids and all(i.startswith("1-c-") for i in ids) and len(set(ids)) == len(ids)
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", whole))
    assert used <= set(ids)
    grad = styles(["random", "<grad>"])["<grad>"]
    assert f"var(--on{grad.light[1:]},{grad.light})" in whole and ON_DARK[grad.light] == grad.dark
    assert "http://purl.org" not in whole and "<style" not in whole


def test_rows_of_every_kind_are_drawn():
    style = styles(["a"])["a"]
    rows = (
        ForestRow("a", style, 0.5, 0.4, 0.6, "+0.5", quantiles=(0.1, 0.2, 0.5, 0.7, 0.9)),
        ForestRow("b & c", style, 0.2, mark="cross"),
        ForestRow("d", style, None, words="none"),
    )
    for kind in ("intervals", "bars", "boxes"):
        one = Forest(rows, (0, 1), "x", kind=kind, zero=kind == "intervals")
        for plots in ((one,), (one, one)):
            root = ET.fromstring(draw(Figure(plots, name="f", title="T")).files["f.svg"])
            assert {"a", "b & c", "d", "T"} <= {*words(root)}


def test_heat_maps_and_pictures_say_what_is_in_their_cells():
    heat = HeatMap("one", ("x", "y"), ("r",), ((0.5, None),), (("0.50", "–"),))
    texts = words(ET.fromstring(draw(Figure((heat, heat), name="h", title="T")).files["h.svg"]))
    assert texts.count("0.50") == 2 and texts.count("–") == 2
    tiles = (Tile(np.zeros((4, 4), np.uint8), "93 %", 0.93, True), Tile(None, "–"))
    pictures = Pictures(("50 %", "90 %"), (PictureRow("grad", tiles),), np.zeros((4, 4, 3), np.uint8), "image 7")
    texts = words(ET.fromstring(draw(Figure((pictures,), name="p", title="T")).files["p.svg"]))
    assert {"93 %", "–", "50 %", "90 %", "grad", "image 7"} <= {*texts}


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
    drawing = draw(audit_figure(plot, "blur", {}))
    assert set(drawing.files) == {"audit-blur-p.svg", "audit-blur-p.png"}
    if kind != "heatmap":
        assert "a&b" in words(ET.fromstring(str(drawing.inline)))


def test_no_two_of_a_hundred_methods_look_the_same_and_ten_have_hues_of_their_own():
    looks = styles(["random", *(f"m{k}" for k in range(100))])
    assert looks["random"] == REFERENCE
    assert len(set(looks.values())) == 101
    assert len({looks[f"m{k}"].light for k in range(10)}) == 10
    assert all(re.fullmatch("#[0-9a-f]{6}", s.light) and re.fullmatch("#[0-9a-f]{6}", s.dark) for s in looks.values())
