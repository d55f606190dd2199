"""Drawn figures: every kind of plot, well-formed, escaped, lines where the numbers are, marks for the page's script."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uproar.report.drawing import as_bytes, as_colours, dark_colours, draw, inline, map_colours
from uproar.report.figures import (
    HUES,
    ON_DARK,
    REFERENCE,
    Chart,
    Figure,
    Forest,
    ForestRow,
    HeatMap,
    PictureRow,
    Pictures,
    Series,
    Tile,
    styles,
)
from uproar.report.study_figures import audit_figure
from uproar.results.finding import Plot

NAN = float("nan")
SVG = "{http://www.w3.org/2000/svg}"


def words(root):
    return [" ".join(e.itertext()).strip() for e in root.iter(f"{SVG}text")]


def curves() -> Figure:
    by_name = styles(["random", "<grad>"])
    series = tuple(
        Series(name, by_name[name], (0.1, 0.5, 0.9), mean, (0.1, NAN, 0.2), (0.3, NAN, 0.6))
        for name, mean in (("random", (0.9, 0.5, 0.2)), ("<grad>", (0.8, NAN, 0.1)))
    )
    chart = Chart("", series, "share removed", "accuracy", (0.0, 1.0), level=0.1, level_label="chance")
    return Figure((chart,), name="c", title="A <title>")


def test_points_lie_where_the_numbers_are_and_tell_them_and_gaps_stay_open():
    root = ET.fromstring(draw(curves()))
    assert {"<grad>", "random", "share removed", "accuracy", "chance"} <= {*words(root)}
    told, heights = [], []
    for group in root.iter(f"{SVG}g"):
        for point in group.findall(f".//{SVG}use"):
            title = point.find(f"{SVG}title")
            if group.get("data-series") and title is not None:
                told.append(title.text)
                heights.append(float(point.get("y")))
    assert [text.partition(":")[0] for text in told] == [
        *(f"random at {t}\u00a0%" for t in (10, 50, 90)),
        *(f"<grad> at {t}\u00a0%" for t in (10, 90)),
    ]
    assert told[0].endswith("90.0\u00a0% [10.0\u00a0%, 30.0\u00a0%]") and told[1].endswith(": 50.0\u00a0%")
    values = [0.9, 0.5, 0.2, 0.8, 0.1]
    slope, start = np.polyfit(values, heights, 1)
    assert slope < 0 and np.abs(np.polyval([slope, start], values) - heights).max() < 0.02


def test_a_level_outside_of_the_axis_is_left_out():
    """Its label would squeeze the axes to nothing."""
    (chart,) = curves().plots
    texts = words(ET.fromstring(draw(Figure((replace(chart, level=2.0),), name="c"))))
    assert "random" in texts and "chance" not in texts


def test_a_legend_entry_names_the_lines_it_hides():
    root = ET.fromstring(draw(curves()))
    series = {e.get("data-series") for e in root.iter() if e.get("data-series")}
    legend = {e.get("data-legend") for e in root.iter() if e.get("data-legend")}
    assert series == legend == {"random", "<grad>"}


def test_inside_the_page_a_figure_has_ids_of_its_own_and_colours_that_follow_the_page():
    whole = inline(draw(curves()), "1-c", 'what "it" shows')
    root = ET.fromstring(str(whole))
    assert root.get("aria-label") == 'what "it" shows'
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    assert ids and all(i.startswith("1-c-") for i in ids) and len(set(ids)) == len(ids)
    assert set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", whole)) <= set(ids)
    grad = styles(["random", "<grad>"])["<grad>"]
    assert (
        f"var(--on{grad.colour[1:]},{grad.colour})" in whole
        and f"--on{grad.colour[1:]}:{ON_DARK[grad.colour]};" in dark_colours()
    )
    assert "http://purl.org" not in whole and "<style" not in whole


def test_rows_are_drawn_and_tell_their_values():
    style = styles(["a"])["a"]
    rows = (
        ForestRow("a", style, 0.5, 0.4, 0.6),
        ForestRow("b & c", style, 0.2, filled=False),
        ForestRow("d", style, NAN),
    )
    one = Forest(rows, (0, 1), "x", zero=True, band=(0.1, 0.2))
    for plots in ((one,), (one, one)):
        root = ET.fromstring(draw(Figure(plots, name="f")))
        assert {"a", "b & c", "d"} <= {*words(root)}
        assert "a: 0.500 [0.400, 0.600]" in [title.text for title in root.iter(f"{SVG}title")]


def test_heat_maps_and_pictures_say_what_is_in_their_cells():
    heat = HeatMap("one", ("x", "y"), ("r",), ((0.5, NAN),), (("0.50", "–"),))
    texts = words(ET.fromstring(draw(Figure((heat, heat), name="h"))))
    assert texts.count("0.50") == 2 and texts.count("–") == 2
    tiles = (Tile(np.zeros((4, 4), np.uint8), "93 %", True), Tile(None, "–"))
    pictures = Pictures(("50 %", "90 %"), (PictureRow("grad", tiles, np.zeros((300, 200, 3), np.uint8)),), "image 7")
    texts = words(ET.fromstring(draw(Figure((pictures,), name="p"))))
    assert {"93 %", "–", "50 %", "90 %", "grad", "image 7"} <= {*texts}


@pytest.mark.parametrize("kind", ["bars", "lines", "scatter", "heatmap"])
def test_every_kind_of_audit_plot_is_drawn(kind):
    numbers = {"x": [1.0, 2.0, 3.0], "y": [0.1, -0.2, float("nan")], "v": [0.5, -1.0, 0.2]}
    data = pd.DataFrame({**numbers, "s": ["a&b", "a&b", "c"]})
    how = {"value": "v"} if kind == "heatmap" else {"series": "s"}
    plot = Plot("p", kind, "A title", "How to read it", data, "x", "y", "across", "up", **how)
    root = ET.fromstring(draw(audit_figure(plot, "blur", {})))
    assert kind == "heatmap" or "a&b" in words(root)


@pytest.mark.parametrize(("kind", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<svg")])
def test_a_figure_is_the_same_bytes_every_time(kind, start):
    content = draw(curves(), kind)
    assert content.startswith(start) and content == draw(curves(), kind)


def test_no_two_of_a_hundred_methods_look_the_same_and_ten_have_hues_of_their_own():
    looks = styles(["random", *(f"m{k}" for k in range(100))])
    assert looks["random"] == REFERENCE and len(set(looks.values())) == 101
    assert len({looks[f"m{k}"].colour for k in range(10)}) == len(HUES)


def test_maps_are_red_above_zero_blue_below_and_grey_where_they_are_not_numbers():
    (red, white, blue, grey) = map_colours(np.array([[1.0, 0.0, -1.0, np.nan]]))[0].astype(int)
    assert red[0] > red[2] and blue[2] > blue[0] and white.min() > 240 and (grey == 128).all()
    assert as_bytes(np.array([[[0.0, 1.0]]])).tolist() == [[0, 255]]
    assert as_colours(np.array([[7]], np.uint8)).tolist() == [[[7, 7, 7]]]
