"""The pages on how to add something: every example is complete, loads as a plug-in and runs in a small study."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from uproar.extend import declared_in
from uproar.runs.execute import run

DOCS = Path(__file__).parents[1] / "docs"
SMALL = {
    "tasks": "planted(size=8, train=24, test=12)",
    "models": "cnn-small(width=2)",
    "estimators": ["random", "grad"],
    "protocols": ["roar:no-retrain"],
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
    "add-a-fill": (
        ["mirror", "speckled"],
        {"fill": "speckled(spread=0.2)", "metrics": ["deletion(fill=mirror, steps=2)"]},
    ),
    "add-a-protocol": (["roar_dim", "roar_grey"], {"protocols": ["roar_grey", "roar_dim"]}),
    "add-an-audit": (
        ["fill_decides"],
        {"audits": ["fill_decides"], "protocols": ["roar"], "estimators": ["random", "grad", "sobel"]},
    ),
}


def examples(page: str) -> str:
    """The Python of a page, in order, as the one file that it describes."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.S))


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(tmp_path, page):
    names, changes = PAGES[page]
    file = tmp_path / f"{page.replace('-', '_')}.py"
    file.write_text(examples(page))
    declared = declared_in(file)
    assert sorted(name for found in declared.values() for name in found) == names
    results = run({**SMALL, "plugins": str(file), **changes}, store=tmp_path / "store", jobs=1)
    everything = [*results.table.itertuples(), *results.scores.itertuples()]
    assert {(row.status, row.reason) for row in everything} == {("done", "")}
    assert len(results.findings) == len(changes.get("audits", ()))
    assert all(found.state in ("misleads", "holds", "cannot tell") for found in results.findings)


def test_every_kind_has_a_page_and_every_page_is_linked():
    table = (DOCS / "plug-ins.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    for page in sorted([*DOCS.glob("add-a*.md"), DOCS / "plug-ins.md"]):
        assert page.name == "plug-ins.md" or f"({page.name})" in table
        assert f"(docs/{page.name})" in readme


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md"), key=lambda page: page.name), ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]*)?\)", text):
        assert (page.parent / target).is_file(), target
