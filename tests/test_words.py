"""What people read is short and in the words of the field: words to avoid, and sizes of pages."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "uproar"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    SOURCES / "for-assistants.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
GENERATED = ("reference", "notebooks", "project")
"""Folders of docs that the build makes."""
WRITTEN = [page for page in PAGES if page.relative_to(ROOT).parts[1:2] not in [(name,) for name in GENERATED]]

WORDS = {
    r"told (apart|from)|tells? \w+ apart|tell (apart|from)": "(not) significantly different",
    r"judge[sd]?|judging": "metric; a metric scores",
    r"not asked|asked of": "not tested",
    r"made (again|anew)|of this version": "regenerated, computed again",
    r"hand(s|ed)? on|g[ia]ves? (the|their|a) \w+ away|give away|gives away": "leak (the label)",
    r"what goes(?! wrong)|tak(es?|en) away": "removed pixels",
    r"luck|calm|yardstick|worn": "noise, variance, reference",
    r"(centre|middle) outwards|ranking by brightness": "baseline",
    r"decidedly": "significantly",
    r"placings?": "rank group",
    r"unable to judge": "not reliable here, because",
    r"by lot|dealt out": "at random",
    r"interim looks?": "interim analysis",
    r"protocols?": "metric",
}
"""Words that must not appear, and what to write instead."""
PATTERN = re.compile("|".join(rf"(?P<w{number}>\b(?:{words})\b)" for number, words in enumerate(WORDS)), re.IGNORECASE)


def prose(text: str) -> str:
    """A page without code and without the addresses of links."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2", "", text, flags=re.S | re.M)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`\n]*`", "`code`", text))


def spoken(file: Path) -> str:
    """The strings and docstrings of a module, or a whole template or data file."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return text
    nodes = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return "\n".join(value for value in nodes if isinstance(value, str) and " " in value)


def avoided(text: str) -> Counter[str]:
    """The words of a text that should not be there."""
    return Counter(match.group().lower() for match in PATTERN.finditer(text))


ALLOWED: dict[str, int] = {"papers": 2, "metrics": 5}
"""How many words to avoid are still in a folder of the package: this list may only shrink."""
STILL: dict[str, int] = {}
"""The same for pages, by their path."""


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_words_of_the_field(page):
    words = avoided(prose(page.read_text(encoding="utf-8")))
    assert words.total() <= STILL.get(str(page.relative_to(ROOT)), 0), words


def test_sources_and_templates_use_the_words_of_the_field():
    files = [file for pattern in ("*.py", "*.toml", "*.html", "*.js") for file in sorted(SOURCES.rglob(pattern))]
    words: dict[str, Counter[str]] = {}
    for file in files:
        for word, count in avoided(spoken(file)).items():
            words.setdefault(file.relative_to(SOURCES).parts[0], Counter())[f"{file.name}: {word}"] += count
    assert {folder: every for folder, every in words.items() if every.total() > ALLOWED.get(folder, 0)} == {}


PRONOUNS = set(["one", "own", "made", "found", "told", "asked", "there", "given", "part", "place"])
"""No names of things: a name says what is held."""
NAMED = {"part of the board": 6, "place in a paper": 3}
"""Where the word is the thing's own: the development part of the board, the place of a figure in a paper."""


def names_of(file: Path) -> list[str]:
    """The names that a module gives to values, arguments, functions and classes."""
    named: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            named.append(node.id)
        elif isinstance(node, ast.arg):
            named.append(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            named.append(node.name)
    return named


def test_names_are_nouns():
    pronouns = [f"{file.name}: {name}" for file in SOURCES.rglob("*.py") for name in names_of(file) if name in PRONOUNS]
    assert len(pronouns) <= sum(NAMED.values()), pronouns


def paragraphs(page: Path) -> list[str]:
    """The paragraphs and items of lists of a page, without tables and headings."""
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose(page.read_text(encoding="utf-8")))
    return [block for block in blocks if not block.lstrip().startswith(("|", "#"))]


LISTS = ()
"""Pages that are generated, beside results."""


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if "results" not in page.parts and page.stem not in LISTS], ids=lambda p: p.stem
)
def test_sentences_are_short(page):
    for paragraph in paragraphs(page):
        assert paragraph.count(";") <= 1, f"two semicolons: {paragraph}"
        for sentence in re.split(r"(?<=[.!?:;])\s", paragraph):
            assert len(sentence.split()) <= 40, f"more than 40 words: {sentence}"


@pytest.mark.parametrize("page", [page for page in WRITTEN if page.name != "CHANGELOG.md"], ids=lambda page: page.stem)
def test_pages_have_no_history_and_no_word_twice(page):
    text = prose(page.read_text(encoding="utf-8"))
    assert not re.findall(
        r"\b(?:now|previously|earlier (?:runs?|versions?)|used to (?:be|have))\b", text, re.IGNORECASE
    )
    assert not re.findall(r"\b([a-z]{2,}) \1\b", text)


def test_pages_are_short():
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in WRITTEN}
    readme, changes = (ROOT / name for name in ("README.md", "CHANGELOG.md"))
    assert words[readme] <= 700 and len(readme.read_text(encoding="utf-8").splitlines()) <= 130
    assert len(changes.read_text(encoding="utf-8").partition("\n## 0.1.0")[0].splitlines()) <= 45
    assert max(words.values()) <= 2500
    assert sum(count for page, count in words.items() if "docs" in page.parts) <= 35_000
    assert sum(count for page, count in words.items() if "results" in page.parts) <= 8_000
