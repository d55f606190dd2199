"""Figure data against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from uproar.report.images import as_colours, map_colours
from uproar.report.section import sections_of
from uproar.report.study_figures import (
    cost_table,
    curve_figures,
    gallery_figure,
    picture_figures,
    retraining_figures,
    ties_figure,
    verdict_tables,
)
from uproar.report.style import HUES, styles


@pytest.fixture
def section(plain_case):
    return sections_of(plain_case)[0]


def test_a_line_holds_the_mean_and_the_t_interval_of_its_replicates(make_results, make_row):
    values = {"random": (0.90, 0.80, 0.70), "grad": (0.60, 0.63, 0.57)}
    rows = [
        make_row("digits", "cnn", e, "roar", 0.5, seed, value)
        for e, three in values.items()
        for seed, value in enumerate(three)
    ]
    (figure,) = curve_figures(sections_of(make_results(rows))[0])
    random, grad = figure.series
    assert random.y == pytest.approx((0.80,))
    assert grad.y == pytest.approx((0.60,))
    half = 4.302653 * 0.03 / np.sqrt(3)  # t with two degrees of freedom, sd 0.03
    assert grad.low == pytest.approx((0.60 - half,), abs=1e-6)
    assert grad.high == pytest.approx((0.60 + half,), abs=1e-6)
    assert grad.n == (3,)


def test_one_replicate_has_a_line_but_no_band(make_cells, make_results):
    results = make_results(make_cells({"roar": {"random": 0.8, "grad": 0.6}}, seeds=1))
    (figure,) = curve_figures(sections_of(results)[0])
    assert figure.series[1].low == (None, None, None)
    assert all(mean is not None for mean in figure.series[1].y)


def test_lines_are_random_first_then_best_first_and_random_is_the_dashed_reference(section):
    roar = curve_figures(section)[0]
    assert [s.label for s in roar.series] == ["random", "grad", "ig", "sobel"]
    assert [s.reference for s in roar.series] == [True, False, False, False]
    assert roar.series[0].style.dash == "dash"
    assert roar.plots[0].x_label == "share of pixels removed"
    assert curve_figures(section)[1].plots[0].x_label == "share of pixels kept"


def test_an_estimator_looks_the_same_in_every_figure(section):
    looks = {s.label: s.style for s in curve_figures(section)[0].series}
    for table in verdict_tables(section):
        assert all(row.style == looks[row.label] for row in table.figure.forests[0].rows)
        assert all(row["style"] == looks[row["estimator"]] for row in table.rows)
    colours = {chart.title: {s.style.light for s in chart.series} for chart in retraining_figures(section)[0].charts}
    assert all(colours[label] == {looks[label].light} for label in colours)
    assert all(row.style == looks[row.label] for row in picture_figures(section)[0].plots[0].rows)
    assert {row.label: row.style for row in cost_table(section).figure.forests[0].rows} == looks


def test_twenty_eight_estimators_are_all_told_apart_without_colour_alone_where_hues_repeat():
    looks = styles(["random", *(f"e{i}" for i in range(28))])
    lines = [(s.light, s.dash) for s in looks.values()]
    assert len(set(lines)) == 29
    again = [looks[f"e{i}"] for i in (0, len(HUES))]
    assert again[0].light == again[1].light
    assert again[0].dash != again[1].dash
    assert again[0].marker != again[1].marker


def test_a_forest_shows_the_verdict_table_best_first(section, plain_case):
    roar = next(table for table in verdict_tables(section) if table.protocol.name == "roar")
    truth = plain_case.verdicts.query("protocol == 'roar'").set_index("estimator")
    forest = roar.figure.forests[0]
    assert [row.label for row in forest.rows] == [row["estimator"] for row in roar.rows] == ["grad", "ig", "sobel"]
    assert [row["kind"] for row in roar.rows] == ["better", "unclear", "worse"]
    assert [row.mark for row in forest.rows] == ["filled", "hollow", "filled"]
    for row, drawn in zip(roar.rows, forest.rows, strict=True):
        for column in ("advantage", "low", "high", "p_holm"):
            assert row[column] == truth.loc[drawn.label, column]
        assert (drawn.value, drawn.low, drawn.high) == tuple(100 * row[c] for c in ("advantage", "low", "high"))
        assert row["n"] == 3
    # flat curves from 0 to 0.9 with plain training in common: (0.25 + 0.4) / 0.9 of the difference
    assert roar.rows[0]["advantage"] == pytest.approx(0.2 * 0.65 / 0.9)
    assert max(abs(row["advantage"]) for row in roar.rows) < roar.limit
    assert roar.fractions == (0.0, 0.5, 0.9)
    assert [row["control"] for row in roar.rows] == [False, False, True]


def test_retraining_pairs_hold_the_retrained_and_the_original_network(section):
    (figure,) = retraining_figures(section)
    grad = next(chart for chart in figure.charts if chart.title == "grad")
    original, retrained = grad.series
    assert (original.label, retrained.label) == ("original network", "retrained network")
    assert retrained.y == pytest.approx((0.95, 0.60, 0.60))
    assert original.y == pytest.approx((0.95, 0.20, 0.20))


def test_the_y_axis_holds_every_mean_and_chance(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.8, "grad": 0.31}})
    results = make_results(rows, provenance={"classes": {"digits": 10}})
    (chart,) = curve_figures(sections_of(results)[0])[0].charts
    assert chart.level == 0.1
    assert chart.y_range[0] <= 0.1
    assert chart.y_range[1] >= 0.95
    (unknown,) = curve_figures(sections_of(make_results(rows))[0])[0].charts
    assert unknown.level is None
    assert 0.2 < unknown.y_range[0] < 0.31


def test_ties_are_averaged_over_replicates_without_the_plain_training(make_results, make_row):
    rows = []
    for seed, share in enumerate((0.2, 0.4)):
        rows.append(make_row("digits", "cnn", "ig", "roar", 0.0, seed, 0.9, ties=0.0))
        rows.append(make_row("digits", "cnn", "ig", "roar", 0.5, seed, 0.9, ties=share))
        rows.append(make_row("digits", "cnn", "grad", "roar", 0.5, seed, 0.9, ties=0.1))
    (plot,) = ties_figure(sections_of(make_results(rows))[0]).plots
    assert plot.columns == ("50\u00a0%",)
    assert list(zip(plot.rows, plot.values, strict=True)) == [
        ("ig", (pytest.approx(0.3),)),
        ("grad", (pytest.approx(0.1),)),
    ]


def test_costs_run_from_cheap_to_expensive_and_keep_what_was_not_timed(plain_case):
    costs = plain_case.costs.assign(milliseconds_per_image=[4.0, np.nan, 1.0, 2.0])
    section = sections_of(type(plain_case)(**{**vars(plain_case), "costs": costs}))[0]
    table = cost_table(section)
    assert [row["estimator"] for row in table.rows] == ["ig", "sobel", "random", "grad"]
    assert table.figure.forests[0].rows[-1].value is None


def test_a_tile_shows_its_own_estimator_and_fraction_with_its_accuracy(section, plain_case):
    (plot,) = next(figure for figure in picture_figures(section) if figure.subject == "roar").plots
    changed = plain_case.pictures[0].changed
    assert plot.heads == ("50\u00a0% removed", "90\u00a0% removed")
    for row in plot.rows:
        for t, tile in zip((0.5, 0.9), row.tiles, strict=True):
            assert np.array_equal(tile.pixels, changed["roar", row.label, t])
            assert tile.value == pytest.approx(section.accuracy("roar", row.label, t))
    best = {row.label: [tile.best for tile in row.tiles] for row in plot.rows}
    assert best["grad"] == [True, True]
    assert not any(best["sobel"])


def test_the_best_tile_is_the_highest_accuracy_where_pixels_are_kept(section):
    (plot,) = next(figure for figure in picture_figures(section) if figure.subject == "kar").plots
    assert {row.label for row in plot.rows if row.tiles[0].best} == {"grad"}


def test_maps_are_white_at_zero_red_above_blue_below_and_grey_where_undefined():
    white, red, blue, grey = map_colours(np.array([[0.0, 1.0, -1.0, np.nan]]))[0].astype(int)
    assert white.min() > 240
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    assert grey.tolist() == [128, 128, 128]


def test_the_gallery_has_a_column_per_estimator_and_counts_signed_maps(section):
    gallery = gallery_figure(section)
    assert gallery.plots[0].heads == ("random", "grad", "ig", "sobel")
    assert gallery.title.startswith("2 of 4")


def test_grey_and_colour_images_come_out_with_three_channels():
    assert as_colours(np.zeros((2, 3), dtype=np.uint8)).shape == (2, 3, 3)
    assert as_colours(np.zeros((2, 3, 3), dtype=np.uint8)).shape == (2, 3, 3)
    assert as_colours(None) is None


def test_sections_come_apart_by_task_and_model(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.8, "grad": 0.6}})
    rows += make_cells({"roar": {"random": 0.8, "grad": 0.9}}, model="vit")
    one, two = sections_of(make_results(rows))
    assert (one.model, two.model) == ("cnn", "vit")
    assert one.with_verdict("roar", "better") == ["grad"]
    assert two.with_verdict("roar", "worse") == ["grad"]
