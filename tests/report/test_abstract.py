"""The text for a paper: it names methods, data, statistics and numbers, and agrees with the answer; figures in one PDF."""

from __future__ import annotations

import re

import pytest

from uproar.report.abstract import score_abstract, study_abstract
from uproar.report.latex_files import latex_files
from uproar.results.quality import NetworkQuality

from .test_latex import commands_balance
from .test_score_report import PLAIN, scores_of

LEVELS = {"random": 0.8, "ig": 0.5, "sg_sq(grad)": 0.7, "my_method": 0.9}


@pytest.fixture
def results(make_cells, make_results):
    quality = {("digits", "cnn"): NetworkQuality(300, 10, 0.9, 0.95)}
    study = {"name": "s", "fractions": [0.1, 0.5], "protocols": ["roar"], "fill": "mean"}
    return make_results(make_cells({"roar": LEVELS}), quality=quality, study=study)


def test_the_abstract_of_a_study_says_what_was_done_and_found(results):
    text = study_abstract(results).text
    (view,) = results.views
    assert view.answer.sentence.replace("`", "") in text
    for method in view.answer.methods:
        assert method in text
    assert "ig (Sundararajan et al. 2017)" in text and "ROAR (Hooker et al. 2019; " in text
    assert view.quality.sentence[1:] in text
    assert "10 and 50 % of the pixels" in text and "(fill: mean)" in text and "Holm" in text
    for judge in view.answer.deciding:
        for (better, worse), pair in judge.pairs.items():
            if worse == "random" and better in view.answer.methods:
                assert f"{better} {pair.lead.value:+.3g} [" in text


def test_the_letters_of_the_tables_are_those_of_the_answer(results):
    abstract = study_abstract(results)
    (view,) = results.views
    rows = [line.split("|")[1:3] for line in abstract.markdown.splitlines() if line.startswith("| ")][1:]
    shown = {name.strip().strip("`"): letters.strip() for letters, name in rows}
    assert shown == {method: view.answer.group_of(method) for method in view.answer.methods}
    assert all(letters.isalpha() for letters in shown.values())
    for text in (abstract.text, abstract.latex, abstract.markdown):
        words = " ".join(text.split())
        assert "share a letter are not significantly different" in words and "told apart" not in words
    assert "not checked" in abstract.latex and "not checked" in abstract.markdown
    assert commands_balance(abstract.latex) and abstract.latex.count(r"\\") == 1 + len(shown)
    assert re.fullmatch(r"@software\{uproar,\n(  \w+ = \{.*\},\n)+\}", abstract.bibtex)


def test_scores_have_an_abstract_too():
    abstract = score_abstract(scores_of(PLAIN))
    assert "`" not in abstract.text and "We compared the attribution methods" in abstract.text
    assert list(abstract.parts) == ["Abstract", "BibTeX", "LaTeX", "Markdown"]


def test_all_figures_are_in_one_pdf_a_page_each(results):
    files = latex_files(results)
    single = [name for name in files if name.startswith("figures/")]
    assert len(re.findall(rb"/Type /Page\b", files["figures.pdf"])) == len(single) > 1
    assert latex_files(results)["figures.pdf"] == files["figures.pdf"], "the same bytes every time"
