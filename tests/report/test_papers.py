"""Figures of papers: the right numbers in the right places, and a reason where the study lacks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from uproar.claims import judge
from uproar.report.document import chapters_of
from uproar.report.draw import drawn

ROAR = {"random": 0.80, "grad": 0.85, "sg_sq(grad, samples=4)": 0.30, "ig": 0.82}
KAR = {"random": 0.50, "grad": 0.70, "sg_sq(grad, samples=4)": 0.65, "ig": 0.60}
ASKED = {"random": 0.60, "grad": 0.20, "sg_sq(grad, samples=4)": 0.10, "ig": 0.30}


@pytest.fixture
def hooker(make_cells, make_results, make_picture):
    rows = make_cells({"roar": ROAR, "kar": KAR, "roar:no-retrain": ASKED})
    found = make_results(
        rows, pictures=(make_picture(list(ROAR)),), provenance={"classes": {"digits": 10}}
    )
    return replace(found, claims=tuple(judge(found, ["hooker2019"])))


def shown(results) -> dict:
    (chapter,) = chapters_of(results)
    return {one.name.rpartition("2019-")[2]: one for one in chapter.exhibits}


def test_hooker_has_a_plot_per_estimate_and_protocol_with_its_ensembles(hooker):
    figure = shown(hooker)["roar-kar"].figure
    lines = {w.title: [s.label for s in w.series] for w in figure.windows}
    assert lines == {
        "ROAR: Grad and ensembles": ["random", "single", "SG-SQ"], "ROAR: IG": ["random", "single"],
        "KAR: Grad and ensembles": ["random", "single", "SG-SQ"], "KAR: IG": ["random", "single"],
    }  # fmt: skip
    assert figure.columns == 2
    grad = figure.windows[0].series[1]
    assert grad.mean == pytest.approx((0.95, 0.85, 0.85))
    assert len({w.y_range for w in figure.windows}) == 1
    assert "random 80.0\u00a0%" in figure.title
    assert "SG-SQ-Grad) 30.0\u00a0%" in figure.title


def test_published_numbers_stand_beside_ours(hooker):
    rows = {row[0]: row[1:] for row in shown(hooker)["roar-kar"].table.rows}
    assert rows["Grad, 90 % removed"][0] == "67.76 %"
    assert rows["Grad, 90 % removed"][1].startswith("85.0\u00a0% (")
    assert rows["range of estimators under ROAR, 90 % removed, points"][1].startswith("+55.0 (")
    assert rows["random, 99 % removed"][1] == "not asked"


def test_pictures_are_in_the_paper_s_order_and_the_best_is_of_those_shown(hooker):
    found = shown(hooker)
    roar, kar = found["roar-pictures"].figure, found["kar-pictures"].figure
    assert [row[0] for row in roar.rows] == ["random", "grad", "sg_sq(grad, samples=4)", "ig"]
    assert [row[0] for row in roar.rows if row[2][1].best] == ["sg_sq(grad, samples=4)"]
    assert [row[0] for row in kar.rows if row[2][1].best] == ["grad"]
    assert "50.0\u00a0% where random" in kar.title


def test_retraining_shows_single_estimates_only(hooker):
    one = shown(hooker)["retraining"]
    assert [pair.label for pair in one.figure.pairs] == ["random", "grad", "ig"]
    assert "brings back 20.0 to 65.0" in one.title


def test_what_a_study_lacks_is_said_and_nothing_is_drawn_without_claims(make_cells, make_results):
    found = make_results(make_cells({"roar": {"random": 0.8, "grad": 0.7}}))
    (chapter,) = chapters_of(found)
    assert not chapter.exhibits
    assert not chapter.missing
    asked = replace(found, claims=tuple(judge(found, ["hooker2019"])))
    (chapter,) = chapters_of(asked)
    assert [one.name for one in chapter.exhibits] == ["paper-hooker2019-roar-kar"]
    assert {m.place for m in chapter.missing} == {"Figure 4", "Figures 3 and 8", "Figure 7"}
    assert any("add protocol 'roar:no-retrain'" in m.reason for m in chapter.missing)


def test_every_figure_is_drawn_the_same_each_time(hooker):
    for one in shown(hooker).values():
        files = drawn(one.figure)
        assert files == drawn(one.figure)
        assert set(files) == {f"{one.name}.svg", f"{one.name}.png"}
