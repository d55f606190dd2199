"""The pages on how to add something: every example is complete, loads as a plug-in and runs in a small study."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from uproar.extend import _registries, declared_in
from uproar.study.sessions import run
from uproar.study.spec import shipped_studies

DOCS = Path(__file__).parents[1] / "docs"
SMALL = {
    "tasks": "planted(size=8, train=24, test=12)",
    "models": "cnn-small(width=2)",
    "estimators": ["random", "grad"],
    "metrics": ["roar:no-retrain"],
    "fractions": [0.5],
    "seeds": 1,
    "recipe": {"epochs": 1},
}
PAGES = {
    "add-a-metric": (
        ["centred", "centred:worst-class", "dimming"],
        {"metrics": ["centred", "dimming(steps=2)", "centred:worst-class"]},
    ),
    "add-a-task": (["bars"], {"tasks": "bars(train=16, test=8)", "estimators": ["random", "oracle"]}),
    "extend": (
        ["fill_decides", "mirror", "speckled"],
        {
            "fill": "speckled(spread=0.2)",
            "audits": ["fill_decides"],
            "metrics": ["roar", "deletion(fill=mirror, steps=2)"],
            "estimators": ["random", "grad", "sobel"],
            "seeds": 2,
        },
    ),
}


def examples(page: str) -> str:
    """The Python of a page, in order, as the one file that it describes."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S))


@pytest.fixture
def forget():
    """Takes out what a page declares: lists and cards of later tests are of the package alone."""
    yield
    for entries in (registry._entries for registry in _registries()):
        for name in [name for names, _ in PAGES.values() for name in names]:
            entries.pop(name, None)


@pytest.mark.usefixtures("forget")
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(tmp_path, page):
    names, changes = PAGES[page]
    file = tmp_path / f"{page.replace('-', '_')}.py"
    file.write_text(examples(page))
    declared = declared_in(file)
    assert sorted(name for result in declared.values() for name in result) == names
    results = run({**SMALL, "plugins": str(file), **changes}, store=f"memory://{tmp_path.name}", jobs=1)
    everything = [*results.cells.itertuples(), *results.scores.itertuples()]
    assert {(row.status, row.reason) for row in everything} == {("done", "")}
    assert len(results.findings) == len(changes.get("audits", ()))
    assert all(result.state in ("misleads", "holds", "cannot tell") for result in results.findings)


ROOT = DOCS.parent
WRITTEN = [page for pattern in ("*.md", "docs/*.md", "docs/results/*.md") for page in sorted(ROOT.glob(pattern))]
MADE = ("reference/", "notebooks/", "project/")
"""Folders of pages that `make docs` makes, and checks."""


def prose(page: Path) -> str:
    """A page without its code."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "`code`", text)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and the documentation site name them."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if target.startswith(MADE):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{target}#{anchor}"


def test_every_page_is_in_the_contents_of_the_site():
    listed = re.findall(r"^(?:.+ <)?([\w/-]+)>?$", (DOCS / "index.md").read_text(encoding="utf-8"), flags=re.M)
    assert {page.stem for page in DOCS.glob("*.md")} - {*listed, "index"} == set()


def test_no_heading_is_cut_in_the_middle_of_a_sentence():
    for page in WRITTEN:
        assert not re.findall(r"(?m)^#+ .*\w…\w.*$", prose(page)), page
        assert not re.findall(r"(?m)^#+ .* … .*$", prose(page)), page


@pytest.mark.parametrize("name", shipped_studies())
def test_no_study_says_that_it_tests_all_claims(name):
    """Where an estimator or a fraction is missing, a claim is tested in part: the table of the run says which."""
    assert "all claims" not in shipped_studies()[name].read_text(encoding="utf-8").lower()
