"""A report as one HTML page that needs no network: text, tables, figures, images and a small script."""

from __future__ import annotations

import base64
import functools
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup, escape
from PIL import Image

from uproar.report.content import ROWS, Block, Chapter, Fold, Images, Part, Table, facts_table
from uproar.report.drawing import LARGEST, dark_colours, inline
from uproar.report.figures import Figure
from uproar.report.formatting import clean, score
from uproar.report.score_report import FILES as SCORE_FILES
from uproar.report.study_report import problem_part
from uproar.report.tables import FILES
from uproar.results.scores import Scores
from uproar.results.study import Results

TEMPLATES = Path(__file__).parent / "templates"
COLOURS = {
    **{"better": "better", "holds": "better", "worse": "worse", "misleads": "worse", "does not hold": "worse"},
    **{"not better": "unclear", "no better": "unclear", "cannot tell": "unclear", "undecided": "unclear"},
    **{"failed": "worse", "skipped": "unclear", "missing": "unclear", "not significantly": "unclear"},
}
"""How a cell of a table is coloured, by how it begins."""


def study_page(results: Results, chapters: list[Chapter], figures: Mapping[str, bytes], files: Sequence[str]) -> str:
    """The report of a study; `figures` are drawn, by name."""
    study = clean(results.study.get("name", "study"))
    known = {file: FILES[file.partition(".")[0]] for file in files if file.partition(".")[0] in FILES}
    settings = facts_table(results.study, "Settings of the study.")
    record = Part("Provenance", (settings, facts_table(results.provenance, "How it was run.")), "record")
    return _rendered(
        f"{study}: which attribution method can you trust?", chapters, figures, known, [problem_part(results), record]
    )


def score_page(scores: Scores, chapter: Chapter, figures: Mapping[str, bytes], files: Sequence[str]) -> str:
    """The report of scores."""
    known = {file: SCORE_FILES.get(file, "") for file in files}
    return _rendered("Scores of attribution maps", [chapter], figures, known, [])


def _rendered(
    title: str, chapters: list[Chapter], figures: Mapping[str, bytes], files: Mapping[str, str], end: list[Part]
) -> str:
    """The template as one page with style, script and figures inside; names are escaped."""
    environment = _environment()
    page = environment.get_template("page.html")
    style = _template("report.css").replace("/* colours of figures */", dark_colours())

    def drawn(figure: Figure, prefix: str) -> Markup:
        name = prefix + figure.name
        return inline(figures[name], name, figure.title)

    return page.render(
        title=title,
        chapters=chapters,
        end=end,
        files=files,
        drawn=drawn,
        style=Markup(style),
        script=Markup(_template("report.js")),
    )


@functools.cache
def _environment() -> jinja2.Environment:
    """The templates with their filters, compiled once; names are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "address": _address,
        "clean": clean,
        "coloured": _coloured,
        "kind": _kind,
        "lead": _lead,
        "marked_up": marked_up,
        "score": score,
    }
    environment.globals["ROWS"] = ROWS
    return environment


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _kind(block: Block) -> str:
    """Which part of the template shows a block."""
    kinds = {Table: "table", Figure: "figure", Images: "images", Fold: "fold"}
    return kinds.get(type(block), "text")


def _coloured(cell: str) -> str:
    """The class of a cell that holds a verdict."""
    if cell.endswith("in part"):  # what some parts of a claim say never looks like an outcome of the whole
        return "unclear"
    return next((kind for words, kind in COLOURS.items() if cell.startswith(words)), "")


def marked_up(words: str) -> Markup:
    """Words whose names in backquotes are set as code; everything is escaped.

    >>> marked_up("Use `ig` & no <b>")
    Markup('Use <code>ig</code> &amp; no &lt;b&gt;')
    """
    pieces = re.split(r"`([^`]*)`", clean(words))
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(pieces))


def _lead(lines: Sequence[str]) -> tuple[str, list[str], str]:
    """The recommendation's first clause, which is the headline; its other lines; and a possible shortcut."""
    shortcut = next((clean(line) for line in lines if line.startswith("Possible shortcut")), "")
    first, *others = (clean(line) for line in lines if clean(line) != shortcut)
    match = re.match(r"(.*?)[;.]\s+(.*)", first)
    head, rest = (match[1], match[2][:1].upper() + match[2][1:]) if match else (first.rstrip("."), "")
    if aside := re.fullmatch(r"(Use .*?) \((.*)\)", head):  # what is cheaper is no headline
        head, rest = aside[1], f"{rest} {aside[2]}."
    return head, [line for line in (rest, *others) if line], shortcut


def _address(pixels: np.ndarray) -> str:
    """Bytes (h, w) or (h, w, 3) as an address that holds them; large ones are shrunk, since hundreds are shown."""
    image = Image.fromarray(np.ascontiguousarray(pixels, dtype=np.uint8))
    content, kind = io.BytesIO(), "png"
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST))
        kind = "jpeg"
    image.save(content, kind, **({"quality": 88} if kind == "jpeg" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
