"""Figures of papers: the right numbers in the right places, and a reason where the study lacks them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.papers.made import accuracies, finding, results, scored
from uproar.papers.claims import claims_named, judge
from uproar.papers.evidence import ClaimEvidence
from uproar.report.chapters import chapters_of
from uproar.report.drawing import draw
from uproar.report.figures import Chart, Figure, Series, styles
from uproar.report.paper_figures import FigureSource, figures_of_papers
from uproar.report.study_figures import estimator_styles
from uproar.results.finding import Plot

ROAR = {"random": 0.80, "grad": 0.85, "sg_sq(grad, samples=4)": 0.30, "ig": 0.82}
KAR = {"random": 0.50, "grad": 0.70, "sg_sq(grad, samples=4)": 0.65, "ig": 0.60}
ASKED = {"random": 0.60, "grad": 0.20, "sg_sq(grad, samples=4)": 0.10, "ig": 0.30}


@pytest.fixture
def hooker(make_cells, make_results, make_picture):
    rows = make_cells({"roar": ROAR, "kar": KAR, "roar:no-retrain": ASKED})
    results = make_results(rows, pictures=(make_picture(list(ROAR)),), provenance={"classes": {"digits": 10}})
    return replace(results, claims=tuple(judge(results, ["hooker2019"])))


def source_of(results, curves=None) -> FigureSource:
    """What the figures of papers are drawn from."""
    (view,) = results.views
    evidence = ClaimEvidence(results, view.task, view.model)
    return FigureSource(evidence, view, estimator_styles(results), curves or {})


def shown(results) -> dict:
    return exhibits(results, "hooker2019")


def exhibits(results, paper: str) -> dict:
    """The figures alone, without the rest of a report."""
    drawn = figures_of_papers(source_of(results), [paper])[0]
    return {one.name.removeprefix(f"paper-{paper}-"): one for one in drawn}


def test_hooker_has_single_estimates_beside_ensembles_and_kar_on_the_axis_of_roar(hooker):
    figure = shown(hooker)["roar-kar"].figure
    lines = {w.title: [(s.label, s.style.dash) for s in w.series] for w in figure.plots}
    solid = [("random", "--"), *((name, "-") for name in ("Grad", "IG", "SG-SQ-Grad"))]
    assert lines == {"ROAR": solid, "ROAR (solid) and KAR (dotted)": [*solid, *[("", ":")] * 4]}
    assert figure.columns == 2
    grad = figure.plots[0].series[1]
    assert grad.y == pytest.approx((0.95, 0.85, 0.85))
    assert len({w.y_range for w in figure.plots}) == 1
    assert figure.title.startswith("Left: ROAR of single estimates")
    assert figure.title.endswith("(Hooker et al. 2019, Figure 5)")


def test_pictures_are_in_the_paper_s_order_and_the_best_is_of_those_shown(hooker):
    result = shown(hooker)
    roar, kar = result["roar-pictures"].figure, result["kar-pictures"].figure
    assert [row.label for row in roar.plots[0].rows] == ["random", "Grad", "SG-SQ-Grad", "IG"]
    assert [row.label for row in roar.plots[0].rows if row.tiles[1].best] == ["SG-SQ-Grad"]
    assert [row.label for row in kar.plots[0].rows if row.tiles[1].best] == ["Grad"]
    assert kar.title.startswith("One image as KAR leaves it")
    turned = result["examples"].figure.plots[0]
    assert turned.heads == ("Grad", "SG-SQ-Grad", "IG")
    assert turned.rows[1].tiles == tuple(row.tiles[1] for row in roar.plots[0].rows[1:])


def test_retraining_shows_single_estimates_only(hooker):
    one = shown(hooker)["retraining"]
    (chart,) = one.figure.plots
    assert [line.label for line in chart.series] == ["random", "Grad", "IG", "", "", ""]
    assert chart.series[1].y != chart.series[4].y


def test_what_a_study_lacks_is_said_and_nothing_is_drawn_without_claims(make_cells, make_results):
    results = make_results(make_cells({"roar": {"random": 0.8, "grad": 0.7}}))
    (chapter,) = chapters_of(results)
    assert "papers" not in [part.anchor for part in chapter.parts]
    asked = replace(results, claims=tuple(judge(results, ["hooker2019"])))
    (chapter,) = chapters_of(asked)
    assert [name for name in chapter.figures() if name.startswith("paper-")] == ["paper-hooker2019-roar-kar"]
    drawn, undrawn = figures_of_papers(source_of(asked), ["hooker2019"])
    assert {place for places in undrawn.values() for place in places} == {f"Figure {k}" for k in (2, 3, 4, 6, 7, 8)}
    assert any("'roar:no-retrain'" in reason for _, reason in undrawn)


@pytest.mark.parametrize("paper", ["hooker2019", "song2023", "li2024", "vandersmissen2023"])
def test_a_study_that_has_only_begun_draws_nothing_and_says_why(paper):
    names = ("random", "block_random", "grad", "sq(grad)", "gaussian(sq(grad))")
    begun = {p: {name: {} for name in names} for p in ("roar", "kar", "roar:no-retrain")}
    result = results(accuracies(begun, 0.0))  # the plain network alone
    drawn_now, missing = figures_of_papers(source_of(result), [paper])
    assert not drawn_now
    assert all(reason for _, reason in missing)


def test_every_figure_is_drawn_the_same_each_time(hooker):
    for one in shown(hooker).values():
        assert draw(one.figure) == draw(one.figure)


# Song et al.


@pytest.fixture(scope="module")
def song():
    """Blur lowers variation and accuracy of Grad and leaves Grad-CAM alone; accuracy is linear in variation."""
    variation = {
        "random": 0.8,
        "block_random": 0.1,
        "sobel": 0.5,
        "sq(grad)": 0.6,
        "sq(ig)": 0.7,
        "sq(grad_cam)": 0.2,
        "sq(lrp)": 0.65,
        "sq(grad_input)": 0.55,
        "var(grad)": 0.35,
        "gaussian(sq(grad))": 0.3,
        "max(sq(grad))": 0.4,
        "gaussian(sq(grad_cam))": 0.2,
    }
    curves = {name: {0.3: 0.9 - 0.1 * (1 - v), 0.5: 0.4 + 0.5 * v} for name, v in variation.items()}
    draws = np.random.default_rng(0)
    values = {("total_variation", n): v + 1e-4 * draws.normal(size=20) for n, v in variation.items()}
    return results(accuracies({"roar": curves}, 0.0), **scored(values))


def test_song_s_differences_are_filtered_minus_plain(song):
    tables = exhibits(song, "song2023")["roar-differences"].figure.plots
    assert [t.title for t in tables] == ["30\u00a0% removed", "50\u00a0% removed"]
    assert tables[1].rows == ("sq(grad)", "sq(grad_cam)")
    assert tables[1].columns == ("plain", "max", "gaussian")  # in the order and colours of the paper
    assert tables[1].scale == "changes"
    assert tables[1].words[0] == ("70.0", "−10.0", "−15.0")
    assert tables[1].words[1] == ("50.0", "–", "0.0")


def test_song_s_line_goes_through_unfiltered_squared_estimators(song):
    """What knows no model is shown beside the line, which ends with the roughest and smoothest estimators."""
    one = exhibits(song, "song2023")["variation-maps-squared"]
    cloud = one.figure.plots[1]
    assert {series.label for series in cloud.series} == {
        "random",
        "block_random",
        "sobel",
        "sq(grad)",
        "sq(ig)",
        "sq(grad_cam)",
        "sq(lrp)",
        "sq(grad_input)",
        "var(grad)",
    }
    assert "random, block_random and sobel" in one.reading
    assert cloud.fit[0] == pytest.approx((0.2, 0.7), abs=1e-3)
    assert cloud.title == "50\u00a0% removed, R² = 1.00"
    (x0, x1), (y0, y1) = cloud.fit
    assert (y1 - y0) / (x1 - x0) == pytest.approx(0.5, abs=1e-2)
    assert "published: 0.83 to 0.96" in one.reading


def test_song_s_trajectories_have_a_plot_per_estimator_and_a_line_per_filter(song):
    grad, cam = exhibits(song, "song2023")["trajectories-maps"].figure.plots
    assert (grad.title, cam.title) == ("sq(grad)", "sq(grad_cam)")
    lines = {line.label: line for line in grad.series}
    assert list(lines) == ["plain", "max", "gaussian"]
    assert [lines[kind].x[1] for kind in lines] == pytest.approx((0.6, 0.4, 0.3), abs=1e-3)
    assert [lines[kind].y[1] for kind in lines] == pytest.approx((0.7, 0.6, 0.55))
    assert lines["plain"].names == ("30\u00a0%", "50\u00a0%")


def test_blocks_stand_beside_the_published_ones(song):
    rows = {row[0]: row[1:] for row in exhibits(song, "song2023")["blocks"].table.rows}
    assert rows["blocks, published"] == ("65.86", "43.84", "28.15", "17.05", "5.33")
    assert rows["blocks, here"][2].startswith("45.0\u00a0%")
    assert rows["blocks, here"][0] == "–"


# Vandersmissen and Oramas


@pytest.fixture(scope="module")
def coherency():
    """Images whose insertion and deletion fully agree by value, and so fully contradict each other when oriented."""
    x = np.linspace(0.1, 0.9, 40)
    values = {}
    for name in ("ig", "grad_cam"):
        values |= {
            ("insertion", name): x,
            ("insertion(fill=blur)", name): x**2,
            ("deletion", name): x,
            ("road", name): 1 - x,
            ("average_drop", name): x,
            ("average_drop(binarise=0.5)", name): 1 - x,
        }
    return results(**scored(values))


def test_correlations_of_metrics_are_oriented_and_stand_beside_the_published_ones(coherency):
    here, published = exhibits(coherency, "vandersmissen2023")["agreement"].figure.plots
    assert here.columns == published.columns == ("Grad-CAM", "IG")
    rows = dict(zip(here.rows, here.words, strict=True))
    assert rows["insertion & deletion"] == ("−1.00", "−1.00")
    assert rows["insertion & ROAD"] == ("1.00", "1.00")
    assert "insertion & pointing" not in rows
    theirs = dict(zip(published.rows, published.words, strict=True))
    assert theirs["insertion & deletion"] == ("−0.69", "−0.68")


def test_settings_and_binary_maps(coherency):
    result = exhibits(coherency, "vandersmissen2023")
    rows = {row[0]: row[1:] for row in result["consistency"].table.rows}
    assert rows["insertion: mean + pixel and blur + pixel"] == ("0.817", "1.000")
    binary = result["binary"].figure.plots[0]
    assert binary.rows == ("avg. drop 50 % & insertion", "avg. drop 50 % & deletion", "avg. drop 50 % & ROAD")
    assert binary.words == (("1.00", "1.00"), ("−1.00", "−1.00"), ("1.00", "1.00"))


def _with_curves(results, *metrics: str) -> FigureSource:
    """What the figures see, with a flat curve of every estimator under some metrics."""
    names = dict.fromkeys(results.scores["estimator"])
    lines = tuple(Series(n, styles([n])[n], (0.0, 1.0), (0.5, 0.5), (0.4, 0.4), (0.6, 0.6)) for n in names)
    curves = {m: Figure((Chart("", lines, "", "", (0, 1)),)) for m in metrics}
    return source_of(results, curves)


@pytest.mark.parametrize(
    ("blurs", "drawn_blur"), [(["gaussian"], "gaussian"), (["coarse"], "coarse"), (["gaussian", "coarse"], "coarse")]
)
def test_blurred_maps_are_those_of_the_claims(blurs, drawn_blur):
    """The paper's blur, or a plain one where a study has no other."""
    levels = {"ig(steps=8)": 0.2, "gaussian(ig(steps=8))": 0.4, "coarse(ig(steps=8))": 0.6, "sg(grad)": 0.3}
    names = ["ig(steps=8)", "sg(grad)", *(f"{how}(ig(steps=8))" for how in blurs)]
    wave = np.linspace(-0.1, 0.1, 20)
    values = {(m, n): levels[n] + wave for m in ("insertion", "deletion", "average_drop(scale=minmax)") for n in names}
    source = _with_curves(results(**scored(values)), "insertion", "deletion")
    (one,) = (e for e in figures_of_papers(source, ["vandersmissen2023"])[0] if e.name.endswith("-blurred"))
    level = levels[f"{drawn_blur}(ig(steps=8))"]
    assert [s.label for s in one.figure.plots[0].series] == ["SmoothGrad", "IG (blurred)"]
    rows = {row[0]: row[1:] for row in one.table.rows}
    assert rows["IG: average drop %"] == ("96.85", "44.99", "20", f"{100 * level:.0f}")
    assert rows["SmoothGrad: average drop %"][2:] == ("30", "–")


# Li et al.


@pytest.mark.parametrize(
    ("kind", "published"),
    [("number", {"Rect": "0.92", "Pooling": "0.31"}), ("stripes", {"Rect": "0.60", "Pooling": "0.93"})],
)
def test_published_shares_on_marks_are_possible_and_called_inferred(kind, published):
    """Pooling is constant along rows: on a number it cannot reach .6, nor can Rect on stripes lie below their share."""
    task = f"semi-natural(digits, kind={kind})"
    wave = np.linspace(0.3, 0.5, 20)
    given = results(**scored({("attr_percent", name): wave for name in ("rect(ig)", "pooling(ig)")}, task))
    one = exhibits(given, "li2024")["marks"]
    assert {row[0]: row[1] for row in one.table.rows} == published
    assert "inferred" in one.table.note
    assert all("inferred" in claim.published for claim in claims_named(["li2024:rect", "li2024:pooling"]))


def test_distances_and_cues_stand_beside_the_published_ones():
    distances = pd.DataFrame(
        {
            "metric": ["completeness", "soundness", "deletion", "road"],
            "distance": [0.4, 0.2, 0.03, 0.02],
            "low": [0.3, 0.1, 0.0, 0.0],
            "high": [0.5, 0.3, 0.06, 0.04],
            "n": 9,
            "replicates": 3,
            "changes": "all",
        }
    )
    cut = distances.assign(changes="cut to [0, 1]", distance=0.9)
    distances = pd.concat([distances, cut])
    bars = Plot("values-distance", "bars", "", "", distances, "metric", "distance", "", "")
    values = replace(finding("values", **{"smallest Hausdorff distance by metric": distances}), plots=(bars,))
    cells = accuracies({"roar": {"random": {0.5: 0.5}}}, 0.0)
    one = exhibits(results(cells, findings=(values,)), "li2024")["distances"]
    assert one.table.rows[0] == ("completeness", "0.503 ± 0.112", "0.400 (0.300 to 0.500)", "9 images in 3 replicates")
    assert draw(one.figure)

    columns = ["network", "removed", "accuracy", "low", "high"]
    holes = pd.DataFrame(
        [
            ("retrained", "centre", 0.5, 0.4, 0.6),
            ("retrained", "centre and cue of the label", 0.9, 0.9, 0.9),
            ("original", "centre", 0.3, 0.3, 0.3),
            ("original", "centre and cue of the label", 0.2, 0.2, 0.2),
        ],
        columns=columns,
    )
    edge = pd.DataFrame([("a", "", 0.9, 0.9, 0.9), ("b", "", 0.3, 0.3, 0.3)], columns=columns)
    plots = (
        Plot("spurious", "bars", "", "", holes, "network", "accuracy", "", "", "removed"),
        Plot("spurious-edge", "bars", "", "", edge, "network", "accuracy", "", ""),
    )
    spurious = replace(finding("spurious"), plots=plots)
    one = exhibits(results(cells, findings=(spurious,)), "li2024")["cues"]
    assert one.table.rows[0] == ("retrained, centre removed", "0.60", "0.500 (0.400 to 0.600)")
