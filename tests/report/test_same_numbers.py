"""Terminal, page, Markdown, LaTeX and notebook print the effect, interval and p of the table, and no others."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

from tests.cli.printed import terminal_of
from tests.results.test_evaluator import GAINS, KINDS, scores_of
from uproar.cli.print_results import print_results
from uproar.cli.print_tables import print_verdicts
from uproar.report.document import chapters_of
from uproar.report.evaluator_tables import EvaluatorPart
from uproar.report.formatting import p_value, points, span
from uproar.report.latex_files import _chapter_tables, _evaluator_table
from uproar.report.page import study_page
from uproar.report.result_page import StudyText, result_files
from uproar.results.html import results_html

LEVELS = {"random": 0.80, "grad": 0.62, "ig": 0.76, "sobel": 0.81}


def made(make_cells, make_results, **study):
    """Results whose rows vary by chance."""
    rows, rng = make_cells({"roar": LEVELS}), np.random.default_rng(11)
    for row in rows:
        row["accuracy"] += rng.normal(0, 0.008) if row["fraction"] else 0
    return make_results(rows, study={"name": "same", "weights": None, **study})


def plain(text: str) -> str:
    """Text without markup, with one kind of space."""
    text = text.replace("$-$", "−").replace(r"\textless{}~", "&lt; ").replace(r"\textless{}", "&lt;")
    bare = re.sub(r"(?s)<style.*?</style>|<[^>]+>", " ", text.replace("\\,", " "))
    return re.sub(r"\s+", " ", html.unescape(bare))


def outputs(results, monkeypatch) -> dict[str, str]:
    console = terminal_of(monkeypatch, 200)
    print_verdicts(results)
    chapters = chapters_of(results)
    markdown = next(v for k, v in result_files(results, StudyText("", "")).items() if k.endswith(".md")).decode()
    return {
        "terminal": console.file.getvalue(),
        "page": plain(study_page(results, chapters, {}).split("<script")[0]),
        "markdown": plain(markdown),
        "latex": plain(_chapter_tables(chapters[0])["tables/verdicts-roar.tex"]),
        "notebook": plain(results_html(results)),
    }


def test_every_output_prints_the_numbers_of_the_verdicts(make_cells, make_results, monkeypatch):
    results = made(make_cells, make_results)
    shown = outputs(results, monkeypatch)
    assert set(results.verdicts["side"]) >= {0, 1}, "the case must hold both kinds of verdict"
    for row in results.verdicts.to_dict("records"):
        ends = plain(span(row["low"], row["high"]))
        for place in ("page", "markdown", "latex"):
            part = shown[place]
            assert points(row["advantage"]) in part and ends in part and plain(p_value(row["p_holm"])) in part, place
        for place, text in (("page", plain(p_value(row["p"]))), ("page", f"{row['df']:.1f} df")):
            assert text in shown[place]
        line = next(line for line in shown["terminal"].splitlines() if f" {row['estimator']} " in line)
        assert f"{100 * row['advantage']:+.1f}" in line
        assert f"{100 * row['low']:+.1f}…{100 * row['high']:+.1f}" in line and row["verdict"] in line
        assert row["verdict"] in shown["notebook"]


def test_an_advantage_that_ended_a_design_early_has_its_allowance_wherever_it_is_printed(
    make_cells, make_results, monkeypatch
):
    results = made(make_cells, make_results, until_decided=True, seeds=[*range(5)])
    early = results.verdicts[results.verdicts["advantage"] - results.verdicts["adjusted"] > 0.001]
    assert list(early["estimator"]) == ["ig"] and early["analysis"].item() == 3
    shown = outputs(results, monkeypatch)
    for row in early.to_dict("records"):
        plainly, left = points(row["advantage"]), points(row["adjusted"])
        assert plainly != left and f"{plainly} ({left})" in shown["latex"] and "stopping early" in shown["latex"]
        assert f"{left} allowing for stopping early" in shown["page"]
        assert f"{plainly} ({left} allowing for stopping early)" in shown["markdown"]
    assert "adjusted" in shown["notebook"]


@pytest.mark.parametrize("place", ["terminal", "page", "markdown"])
def test_a_negative_control_that_failed_stands_before_every_verdict(make_cells, make_results, monkeypatch, place):
    levels = {"random": 0.60, "grad": 0.70, "ig": 0.72}
    results = make_results(make_cells({"roar": levels}), study={"name": "same", "weights": None})
    assert results.negative_controls["control"].tolist() == ["failed"]
    if place == "terminal":
        console = terminal_of(monkeypatch, 200)
        print_results(results)
        shown = console.file.getvalue()
    else:
        shown = outputs(results, monkeypatch)[place]
    assert "roar cannot judge here" in shown
    marked = "not reliable here" if place == "terminal" else "nable to judge here"
    assert marked in " ".join(shown.split()), "the table of the protocol is marked too"
    if place == "page":
        shown = shown[shown.index("Which attribution method can you trust on") :]
    first = min(shown.index(text) for text in ("worse than random", "No method", "grad") if text in shown)
    assert shown.index("cannot judge here") < first


def test_the_page_of_the_evaluator_alone_says_one_thing(make_cells, make_results):
    levels = {"random": 0.5, "good": 0.4, "fair": 0.45, "bad": 0.6}
    rows = [
        {**row, "protocol": protocol}
        for protocol in ("evaluator", "evaluator:shifted")
        for row in make_cells({"roar": levels})
    ]
    results = make_results(rows, evaluations={("digits", "cnn", "label"): scores_of(GAINS, KINDS).bits})
    (chapter,) = chapters = chapters_of(results)
    own, control = chapter.curves
    assert own.title == (
        "good leads the 2 of 3 estimators that beat random by the evaluator's score (own masks against the same ones "
        "shifted, not the accuracies below); 1 is worse"
    )
    assert own.reading.startswith("The lower the line")
    assert "control" in control.title and "better" not in control.reading
    page = study_page(results, chapters, {})
    caveats = page[page.index('id="caveats"') :].partition("</aside>")[0]
    assert "the evaluator hold the variance between images too" in caveats
    assert "not that of which images" not in caveats and "detectable" not in caveats
    assert "nothing was retrained" not in page and "verdicts.csv" not in page
    assert 'href="#s0-evaluator"' in page and 'id="s0-evaluator"' in page
    assert "p of better" in page and "asks only whether the method is better" in page, "one-sided beside an interval"


def test_the_one_sided_p_of_the_evaluator_is_told_in_latex():
    scores = scores_of(GAINS, KINDS)
    assert (scores.verdicts["margin"] <= 0).any(), "some method is behind, with p 1 beside an interval below 0"
    part = EvaluatorPart("label", tuple(scores.verdicts.to_dict("records")), ("cnn",))
    assert "asks only whether the method is better" in " ".join(_evaluator_table(part, "x", "digits", None).split())


def test_the_page_of_retrained_protocols_says_what_its_intervals_hold(make_cells, make_results):
    results = make_results(make_cells({"roar": {"random": 0.5, "grad": 0.4}}))
    page = study_page(results, chapters_of(results), {})
    assert "not that of which images were in the test set" in page and "the evaluator hold" not in page
    assert "detectable</i> says" in page and 'href="verdicts.csv"' in page


def test_no_answer_is_said_once(make_cells, make_results):
    results = make_results(make_cells({"roar:no-retrain": {"random": 0.5, "grad": 0.4}}))
    assert study_page(results, chapters_of(results), {}).count("nothing was retrained") == 1
