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

from uproar.report.chapters import paper_title
from uproar.report.content import MAPS, ROWS, Block, Chapter, Images, Part, Table, as_text, facts_table
from uproar.report.drawing import LARGEST, dark_colours, inline, map_layer
from uproar.report.figures import Figure
from uproar.report.formatting import clean, score
from uproar.report.tables import FILES
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.wording import counted, series

TEMPLATES = Path(__file__).parent / "templates"
COLOURS = {
    **{"▲": "better", "better": "better", "holds": "better", "worse": "worse", "misleads": "worse"},
    **{"does not hold": "worse", "cannot tell": "unclear", "undecided": "unclear", "not ": "unclear"},
    **{"failed": "worse", "skipped": "unclear", "missing": "unclear"},
}
"""How a cell of a table is coloured, by how it begins."""
METHODS = {
    "evaluator": "The evaluator is a network trained on images with randomly removed pixels to predict what the "
    "explained network answers. A method's score is the bits of log-loss that its masks cost the evaluator beyond the "
    "same masks at another place, mean over the fractions removed and kept.",
    "fine-tuned": "{} fine-tune the network on changed images and then test it.",
    "filled": "{} replace pixels and test the network itself.",
    "retrained": "{} train new networks on images without, or with nothing but, the pixels that a method ranks first "
    "(Hooker et al. 2019).",
}
"""What a paper says of each kind of metric; names stand in the braces."""


def title_of(results: Results | Scores) -> str:
    """What a report is called."""
    if isinstance(results, Scores):
        return "Scores of attribution maps"
    name = clean(results.study.get("name", "study"))
    return f"{name}: {paper_title(results) or 'which attribution method can you trust?'}"


def page_of(
    results: Results | Scores, chapters: list[Chapter], figures: Mapping[str, bytes], files: Sequence[str]
) -> str:
    """The report of a run or of scores as one page with style, script and figures inside; names are escaped.

    `figures` are drawn, by name, and `files` are the tables beside the page.
    """
    how = {name: value for name, value in results.provenance.items() if name not in ("wall", "seconds")}
    details = [*problems_of(results), facts_table(how, "How it was run.")]
    paper, running = "", ""
    if not isinstance(results, Scores):
        details.append(facts_table(results.study, "Settings of the study."))
        paper = paper_title(results)
        wall, missing = results.provenance.get("wall", {}), results.problems.query("status == 'missing'")["cells"].sum()
        if missing and wall.get("begun", 0) > wall.get("ended", 0):
            running = f"{counted(missing, 'result')} still missing."

    def drawn(figure: Figure, prefix: str) -> Markup:
        name = prefix + figure.name
        return inline(figures[name], name, figure.title)

    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title_of(results),
            paper=paper,
            running=running,
            chapters=chapters,
            methods=[method_text(chapter) for chapter in chapters],
            details=Part("Details: settings, versions, problems", tuple(details), "details"),
            files={file: FILES[name] for file in files if (name := file.partition(".")[0]) in FILES},
            drawn=drawn,
            colours=Markup(dark_colours()),
        )
    )


def problems_of(results: Results | Scores) -> list[Block]:
    """Cells without a number, counted by reason, numbers that are none, and notices."""
    notices = [f"- {clean(notice)}" for notice in results.notices]
    if isinstance(results, Scores):
        return [*notices]
    frame = results.problems
    blocks: list[Block] = []
    if len(frame):
        blocks.append(Table(as_text(frame[["status", "estimator", "cells", "reason"]]), "Missing, skipped or failed."))
    empty = int(results.done["accuracy"].isna().sum())
    if empty:
        blocks.append(f"{counted(empty, 'finished result')} without a number (NaN): left out of every mean.")
    return [*blocks, *notices]


def method_text(chapter: Chapter) -> str:
    """What a paper says of how methods were compared."""
    kinds: dict[str, list[str]] = {}
    for metric in chapter.answer.metrics:
        kinds.setdefault(str(metric.kind), []).append(metric.label)
    sentences = [METHODS[kind].format(series(labels)) for kind, labels in kinds.items() if kind in METHODS]
    compared = f"{chapter.name}: {chapter.basis}" if chapter.name else chapter.basis
    tests = "Methods are compared by paired tests, adjusted by Holm's method; intervals are 95 %."
    return " ".join([f"Compared ({compared}).", *sentences, tests])


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
    filters = {"address": _address, "clean": clean, "coloured": _coloured, "kind": _kind}
    environment.filters |= {**filters, "lead": _lead, "marked_up": marked_up, "score": score}
    environment.globals |= {"ROWS": ROWS, "MAPS": MAPS}
    return environment


def _kind(block: Block) -> str:
    """Which part of the template shows a block."""
    return {Table: "table", Figure: "figure", Images: "images"}.get(type(block), "text")


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


def _lead(lines: Sequence[str], details: Sequence[str]) -> tuple[str, list[str], str]:
    """The headline, the lines below it, and one caveat: a shortcut, a limit of the recommendation, or who disagrees."""
    lines = [clean(line) for line in lines]
    limits = [line for line in lines if line.startswith(("Possible shortcut", "Caveat"))]
    first, *others = [line for line in lines if line not in limits]
    match = re.match(r"(.*?)[;.]\s+(.*)", first)
    head, rest = (match[1], match[2][:1].upper() + match[2][1:]) if match else (first.rstrip("."), "")
    if aside := re.fullmatch(r"(Use .*?) \((.*)\)", head):  # what is cheaper is no headline
        head, rest = aside[1], f"{rest} {aside[2]}."
    limits += [clean(line) for line in details if line.startswith("Other metrics disagree")]
    caveat = limits[0].removeprefix("Caveat: ") if limits and head.startswith("Use ") else ""
    return head, [line for line in (rest, *others) if line], caveat[:1].upper() + caveat[1:]


def _address(pixels: np.ndarray) -> str:
    """A map in [-1, 1], or bytes (h, w) or (h, w, 3), as an address that holds them; large ones are shrunk."""
    pixels = np.asarray(pixels) if pixels.dtype == np.uint8 else map_layer(pixels)
    image = Image.fromarray(np.ascontiguousarray(pixels))
    content, kind = io.BytesIO(), "png"
    if max(image.size) > LARGEST:
        image.thumbnail((LARGEST, LARGEST))
        kind = "webp"
    image.save(content, kind, **({"quality": 80} if kind == "webp" else {}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
