"""Method against method in the results of a study, on its page and in its tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from uproar.report import write_report, write_results
from uproar.report.chapters import chapters_of
from uproar.results.quality import NetworkQuality, Prediction


def leaders(results, measure):
    own = results.comparisons[
        (results.comparisons["measure"] == measure) & (results.comparisons["against"] != "random")
    ]
    return {(r.better, r.worse) for r in own.itertuples() if r.verdict == f"{r.better} better"}


def test_every_method_is_compared_with_every_baseline_and_method_under_every_metric(plain_case):
    frame = plain_case.comparisons
    for measure in ("roar", "kar", "roar:no-retrain"):
        own = frame[frame["measure"] == measure]
        assert own["against"].value_counts().to_dict() == {"": 1, "random": 2, "sobel": 2}
    assert leaders(plain_case, "roar") == {("grad", "ig"), ("grad", "sobel"), ("ig", "sobel")}
    roar = frame[(frame["measure"] == "roar") & (frame["worse"] == "sobel") & (frame["better"] == "grad")]
    between = -0.30 * (0.5 / 2 + 0.4) / 0.9  # the curves part at 0, where nothing is removed
    assert roar["difference"].item() == pytest.approx(between)
    assert roar["n"].item() == 5


def test_a_study_with_interim_analyses_spends_a_share_on_its_pairs(plain_case, make_results):
    again = make_results(plain_case.cells.to_dict("records"), study={"until_decided": True, "seeds": [*range(20)]})
    assert plain_case.comparison_alpha == 0.05
    assert again.comparison_alpha == 0.0125
    p = plain_case.comparisons["p_holm"]
    between = (p > 0.0125) & (p < 0.05)
    assert (~again.comparisons["verdict"][between].str.endswith(" better")).all()


def test_results_without_random_still_compare_the_methods(make_cells, make_results):
    results = make_results(make_cells({"roar": {"grad": 0.6, "ig": 0.8}}))
    assert results.verdicts.empty
    assert leaders(results, "roar") == {("grad", "ig")}


def test_the_report_says_who_is_better_than_every_baseline_and_who_differs(plain_case):
    (chapter,) = chapters_of(plain_case)
    rows = chapter.tables()["methods"].frame.set_index("method")
    assert rows.loc["grad ✓", "ROAR"].startswith("▲ +14.4 [")
    assert rows.loc["ig", "ROAR"].startswith("0.0 [")
    assert set(rows.loc["grad ✓", "rank group"]).isdisjoint(rows.loc["ig", "rank group"])
    assert [*rows.index] == ["grad ✓", "ig", "sobel", "random"], "methods, then baselines"


def test_the_network_and_what_it_predicts_stand_on_the_page(plain_case, tmp_path):
    (one,) = plain_case.pictures
    quality = {("digits", "cnn"): NetworkQuality(100, 10, 0.2, 0.3)}
    pictures = (replace(one, predicted=Prediction("8", 0.61)),)
    results = replace(plain_case, pictures=pictures, quality=quality)
    shown = write_report(results, tmp_path).read_text("utf-8")
    assert "right on 30 % of 100 images" in shown and "Weak network." in shown
    assert "predicted 8 (61\u00a0%)" in shown
    page = write_results(results, tmp_path, "A study.")
    assert "right on 30 % of 100 images" in page.read_text("utf-8")
