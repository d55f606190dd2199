"""Findings on the page: every kind of plot is drawn, marks reach the verdict table, names cannot break out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from uproar.report import write_report
from uproar.report.chapters import chapters_of
from uproar.report.drawing import _heat_maps, _settings
from uproar.report.study_figures import audit_figure
from uproar.results.finding import Finding, Mark, Plot

FRAME = pd.DataFrame(
    {
        "t": [0.1, 0.3, 0.1, 0.3],
        "who": ["grad", "grad", "<b>ig", "<b>ig"],
        "y": [0.9, 0.8, 0.7, np.nan],
        "low": [0.8, 0.7, 0.6, 0.4],
        "high": [1.0, 0.9, 0.8, 0.6],
    }
)


def plot(kind, **options):
    given = {"series": "who", "low": "low", "high": "high"} if kind in ("lines", "bars") else {}
    if kind == "heatmap":
        given = {"value": "y"}
    columns = ("who", "t") if kind == "heatmap" else ("t", "y")
    return Plot(kind, kind, f"Finding of {kind}", "Read it so.", FRAME, *columns, "x", "y", **given, **options)


PLOTS = (
    plot("lines", percent=True, reference=0.1, reference_label="chance"),
    plot("scatter", line=True),
    plot("bars"),
    plot("heatmap", diverging=True),
)


def test_series_are_cut_by_name_and_missing_numbers_stay_missing():
    (chart,) = audit_figure(PLOTS[0], "blur", {}).plots
    assert [s.label for s in chart.series] == ["grad", "<b>ig"]
    assert chart.series[1].y[0] == 0.7 and np.isnan(chart.series[1].y[1])
    assert chart.level == 0.1


def test_the_line_is_the_least_squares_line():
    (figure,) = audit_figure(PLOTS[1], "variation", {}).plots
    x, y = FRAME["t"][:3], FRAME["y"][:3]
    slope, start = np.polyfit(x, y, 1)
    assert figure.fit is not None
    np.testing.assert_allclose(figure.fit[1], [start + slope * 0.1, start + slope * 0.3])


def test_a_heat_map_has_a_place_for_every_pair():
    (figure,) = audit_figure(PLOTS[3], "blur", {}).plots
    assert (figure.columns, figure.rows) == (("grad", "<b>ig"), ("0.1", "0.3"))
    assert figure.values[0] == (0.9, 0.7) and figure.values[1][0] == 0.8 and np.isnan(figure.values[1][1])
    assert figure.limits == (-0.9, 0.9)


def test_changes_are_magenta_with_a_minus_and_cyan_with_a_plus():
    frame = pd.DataFrame({"x": ["a", "b", "c"], "y": ["e"] * 3, "v": [-0.031, 0.0, 0.02]})
    given = Plot("blur", "heatmap", "A title", "So.", frame, "x", "y", "", "", value="v", changes=True, percent=True)
    figure = audit_figure(given, "blur", {})
    assert figure.plots[0].scale == "changes"
    with _settings():
        (axes,) = _heat_maps(figure).axes
    assert [text.get_text() for text in axes.texts] == ["−3.1", "+0.0", "+2.0"]
    (image,) = axes.images
    low, none, high = image.cmap(image.norm(image.get_array()[0]))[:, :3]
    assert low[1] < min(low[0], low[2]) and high[0] < min(high[1], high[2])
    assert none == pytest.approx([1, 1, 1], abs=0.01)


@pytest.fixture
def audited(plain_case):
    results = plain_case
    task, model = results.cells["task"].iloc[0], results.cells["model"].iloc[0]
    known = results.verdicts.query("metric == 'roar'")["estimator"].iloc[0]
    finding = Finding(
        "misleads",
        "Masks alone reach 97 ± 1 %.",
        PLOTS,
        {"numbers": FRAME},
        (Mark("roar", known, "leaks", "97 % from the mask alone"),),
        ("Five networks.",),
        "leakage",
        "Leaking masks",
        "Do masks tell the class?",
        task,
        model,
    )
    skipped = replace(
        finding,
        state="skipped",
        sentence="Not answered: no boxes.",
        reason="no boxes.",
        plots=(),
        marks=(),
        audit="blur",
        tables={},
    )
    return replace(results, findings=(finding, skipped)), known


def test_the_page_shows_the_finding_and_the_verdict_table_its_mark(audited, tmp_path):
    results, known = audited
    page = write_report(results, tmp_path).read_text()
    assert "Masks alone reach 97 ± 1 %." in page and "no boxes." in page
    assert "<b>ig</b>" not in page
    (chapter,) = chapters_of(results)
    methods = chapter.tables()["methods"].frame
    marked = methods[methods["ROAR"].str.endswith(" (leaks)")]["method"]
    assert [name.removesuffix(" ✓") for name in marked] == [known]
    for kind in ("lines", "scatter", "bars", "heatmap"):
        assert (tmp_path / f"figures/audit-leakage-{kind}.svg").stat().st_size > 1000
    trust = pd.read_csv(tmp_path / "trust.csv")
    assert trust.query("metric == 'roar' and estimator == @known")["trust"].tolist() == ["leaks"]
    assert set(trust.query("metric != 'roar'")["trust"]) == {"holds"}
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "audits/leakage-numbers.csv"), FRAME)
    assert pd.read_csv(tmp_path / "audits.csv")["state"].tolist() == ["misleads", "skipped"]


def test_without_audits_there_is_no_trust(plain_case):
    assert plain_case.trust.empty
    (chapter,) = chapters_of(plain_case)
    assert "audits" not in chapter.tables()
