"""A report as one HTML page that needs no network: text, tables, pictures, charts and the script that draws them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from uproar.report import formatting
from uproar.report.answer import as_html, lead_as_html
from uproar.report.audits import trust_of
from uproar.report.canvas import dark_colours
from uproar.report.claims import KINDS as CLAIM_KINDS
from uproar.report.claims import claim_test, evidence_anchor, interval_text, undrawn_by_reason
from uproar.report.document import Chapter
from uproar.report.evaluator_tables import evaluator_tables
from uproar.report.formatting import NOTHING, clean, listed, number
from uproar.report.images import data_address
from uproar.report.interactive import script_data
from uproar.report.metric_guide import guide_of
from uproar.report.printing import Drawing
from uproar.report.score_findings import metric_title
from uproar.report.section import Section
from uproar.report.style import DASH_ARRAYS, MARKER_PATHS
from uproar.report.tables import verdict_table
from uproar.results.recovery import recovery_words
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.wording import counted, series

TEMPLATES = Path(__file__).parent / "templates"
FILES = {
    "results.csv": "one row per trained or tested network",
    "results.parquet": "the same, with types",
    "verdicts.csv": "the verdict tables above",
    "comparisons.csv": "every pair of estimators under every protocol and metric",
    "negative_controls.csv": "whether each protocol and metric tells any method from random rankings",
}
EVALUATOR_FILES = {
    "evaluator.csv": "the evaluator's verdicts: difference, interval, df, p alone and adjusted, n",
    "evaluator_scores.csv": "its score of every estimator and control",
    "evaluator_comparisons.csv": "every pair of methods by the evaluator",
    "evaluator_per_image.parquet": "what these follow from: one row per estimator, replicate and image",
}
METRIC_FILES = {
    "scores.csv": "one row per metric, estimator and replicate",
    "scores.parquet": "the same, with types",
    "metric_values.csv": "the same over all replicates",
    "metric_comparisons.csv": "all pairs of estimators under the metrics",
    "per_image.parquet": "one row per metric, estimator, replicate and image",
}
CHECK_FILES = {"checks.csv": "what the checks behind the flags measured"}
SCORE_FILES = {
    "scores.csv": "one row per method and metric",
    "comparisons.csv": "one row per metric and pair of methods",
    "per_image.parquet": "one row per method, metric and image",
}
"""What the page links to, and what is in it."""


def study_page(results: Results, chapters: list[Chapter], drawings: Mapping[str, Drawing]) -> str:
    """The report of a study; `drawings` are its figures by name."""
    study = clean(results.study.get("name", "study"))
    return _rendered(
        chapters,
        drawings,
        title=f"{study}: which attribution method can you trust?",
        study=study,
        links=_study_links(chapters),
        tiles=_study_tiles(results),
        leaks=_leaks(chapters),
        counting_images=_counting_images(chapters),
        given_model=results.study.get("weights") is not None,
        problems=_problems(results),
        notices=results.notices,
        settings=flat_facts(results.study),
        provenance=flat_facts(results.provenance),
        files=_study_files(results, chapters),
    )


def score_page(scores: Scores, chapter: Chapter, drawings: Mapping[str, Drawing]) -> str:
    """The report of scores: a page with one chapter, without protocols."""
    return _rendered(
        [chapter],
        drawings,
        title="Scores of attribution maps",
        links=_score_links(chapter),
        tiles=_score_tiles(scores, chapter),
        problems=None,
        notices=scores.notices,
        provenance=flat_facts(scores.provenance),
        files=SCORE_FILES,
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
    names = ("clean", "degrees", "known", "number", "p_value", "percent", "pieces", "points")
    environment.filters |= {
        name: getattr(formatting, name) for name in (*names, "score", "shortened", "signed", "stopped_early")
    }
    filters: dict[str, Any] = {
        "dash_array": lambda style: DASH_ARRAYS[style.dash],
        "marker_path": lambda style: MARKER_PATHS[style.marker],
        "address": data_address,
        "claim_kind": lambda outcome: CLAIM_KINDS[outcome],
        "interval_text": interval_text,
        "claim_test": claim_test,
        "guide": guide_of,
        "recovery": recovery_words,
        "as_html": as_html,
        "lead_as_html": lead_as_html,
    }
    environment.filters |= filters
    environment.globals |= {
        "span": formatting.span,
        "score_span": formatting.score_span,
        "round_numbers": round_numbers,
        "place": place,
        "trust_of": trust_of,
        "evidence_anchor": evidence_anchor,
        "undrawn_by_reason": undrawn_by_reason,
        "metric_title": metric_title,
        "counts_between": _counts_between,
        "decisions": _decisions,
        "NOTHING": NOTHING,
    }
    return environment


def _rendered(chapters: list[Chapter], drawings: Mapping[str, Drawing], **values: Any) -> str:
    """The template as one page with style, scripts and the data of its figures inside; names are escaped."""
    template = _environment().get_template("page.html")
    return template.render(
        **values,
        chapters=chapters,
        inline={name: drawing.inline for name, drawing in drawings.items()},
        figures=_json(script_data(chapters)),
        style=Markup(_template("report.css").replace("/* colours of drawings */", dark_colours())),
        script=Markup(charts_script() + _template("report.js")),
    )


def charts_script() -> str:
    """The script that draws charts, with the markers and dashes of all figures."""
    text = _template("charts.js")
    for mark, table in (("marker paths", MARKER_PATHS), ("dash arrays", DASH_ARRAYS)):
        text = text.replace(f"{{}} /* {mark} */", json.dumps(table))
    return text


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _json(data: Any) -> Markup:
    """Data for a script element: nothing in it can end the element or start another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# what templates ask


def place(value: float, limits: tuple[float, float], width: float, rim: float) -> float:
    """A value on an axis, in pixels; what lies beyond the axis ends at its rim."""
    low, high = limits
    share = max(0.0, min(1.0, (value - low) / (high - low)))
    return round(rim + share * (width - 2 * rim), 1)


def round_numbers(low: float, high: float) -> list[float]:
    """A few round numbers between two ends.

    >>> round_numbers(-0.04, 1.04), round_numbers(-23.0, 23.0), round_numbers(3.0, 812.0)
    ([0.0, 0.5, 1.0], [-20.0, -10.0, 0.0, 10.0, 20.0], [200.0, 400.0, 600.0, 800.0])
    """
    ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(f"{v:.12g}") for v in ticks if low <= v <= high]


def _counts_between(chapter: Chapter, first: str, second: str) -> dict[str, Any]:
    """Under how many metrics a method is better or worse than another, or not told from it."""
    assert chapter.metrics is not None, "only metrics are counted"
    table = chapter.metrics.table
    up, down = (sum(table.beats(m, a, b) for m in table.judges) for a, b in ((first, second), (second, first)))
    unclear = sum({first, second} <= set(table.ranked(m)) for m in table.judges) - up - down
    kind = "mixed" if up and down else "better" if up else "worse" if down else "unclear"
    text = f"{first} against {second}: better under {up}, worse under {down}, cannot tell under {unclear}"
    return {"up": up, "down": down, "unclear": unclear, "kind": kind, "text": text}


def _decisions(section: Section) -> list[dict[str, Any]]:
    """By protocol: with how many replicates each estimator was decided, and which are still open."""
    rows = []
    for protocol, own in section.spent.groupby("protocol", sort=False) if len(section.spent) else ():
        decided = own[~own["open"]]
        steps = [f"with {n}: {listed(list(group['estimator']), 30)}" for n, group in decided.groupby("analysis")]
        still = [f"{r.estimator} ({counted(r.replicates, 'replicate')})" for r in own[own["open"]].itertuples()]
        rows.append({"label": section.label(str(protocol)), "decided": steps, "open": listed(still, 30)})
    return rows


# head and end of the page


def _leaks(chapters: list[Chapter]) -> list[str]:
    """Signs of a leaking mask, by task and model where there are several."""
    lines = [(chapter.section.name, " ".join(chapter.leaks)) for chapter in chapters if chapter.leaks]
    return [f"{name}: {line}" if len(chapters) > 1 else line for name, line in lines]


def _counting_images(chapters: list[Chapter]) -> str:
    """What has intervals that hold the variance between images, in words; empty for nothing."""
    there = {"the evaluator": any(c.evaluator for c in chapters), "the metrics": any(c.metrics for c in chapters)}
    return series([name for name, used in there.items() if used])


def _study_files(results: Results, chapters: list[Chapter]) -> dict[str, str]:
    """The tables beside the page of a study that have rows."""
    tables = {"verdicts.csv": verdict_table(chapters), "comparisons.csv": results.comparisons}
    empty = {name for name, frame in tables.items() if frame.empty}
    always = {name: text for name, text in FILES.items() if name not in empty}
    metrics = METRIC_FILES if len(results.metric_rows) else {}
    return always | _evaluator_files(results) | metrics | (CHECK_FILES if results.check_scores else {})


def _evaluator_files(results: Results) -> dict[str, str]:
    """The tables of the evaluator that are written: a single method has no pairs."""
    written = {f"{name}.csv" for name in evaluator_tables(results)}
    written |= {"evaluator_per_image.parquet"} if results.evaluations else set()
    return {name: text for name, text in EVALUATOR_FILES.items() if name in written}


def _study_links(chapters: list[Chapter]) -> list[tuple[str, str]]:
    """The small table of contents on top: the parts of the only chapter, or the chapters."""
    end = [("problems", "Problems"), ("study", "Study")]
    caveats = [("caveats", "Caveats")] if any(chapter.retrains for chapter in chapters) else []
    if len(chapters) != 1:
        return [*((c.id, c.section.name) for c in chapters), *caveats, *end]
    (chapter,) = chapters
    parts = [
        ("pairs", "Method against method", chapter.pairs),
        ("curves", "Curves", chapter.curves),
        ("retraining", "Retraining", chapter.retraining),
        ("audits", "Audits", chapter.audits),
        ("claims", "Claims", chapter.claims),
        ("papers", "As in the paper", chapter.paper_figures),
        ("metrics", "Metrics", chapter.metrics),
        ("pictures", "Pictures", chapter.pictures),
        ("maps", "Maps", chapter.gallery),
        ("cost", "Cost", chapter.costs or chapter.ties),
    ]
    first = [(chapter.anchor("answer"), "Answer")] if chapter.answer.rows else []
    verdicts = "verdicts" if chapter.shows_verdicts else "evaluator"
    first += [(chapter.anchor(verdicts), "Verdicts"), *caveats] if chapter.retrains else []
    return [*first, *((chapter.anchor(part), text) for part, text, there in parts if there), *end]


def _score_links(chapter: Chapter) -> list[tuple[str, str]]:
    metrics = chapter.metrics
    assert metrics is not None, "a page of scores has metrics"
    parts = [
        ("answer", "Answer", chapter.answer.rows),
        ("values", "Values", True),
        ("caveats", "Caveats", True),
        ("pairs", "Comparisons", any(metrics.table.pairs.values())),
        ("curves", "Curves", metrics.curves),
        ("images", "Per image", metrics.spread),
        ("disagreements", "Disagreements", metrics.disagreements),
        ("metrics", "Metrics", metrics.table.metrics),
        ("record", "Notices", True),
    ]
    return [(anchor, text) for anchor, text, there in parts if there]


def _study_tiles(results: Results) -> list[tuple[str, str]]:
    """The size of the study in a few numbers."""
    cells, scores = results.own_cells, results.scores
    status = pd.concat([cells["status"], scores["status"]])
    estimators = {e for t in (results.table, scores) for e in t["estimator"]} - {*results.further_rankings}
    fractions = cells["fraction"].nunique()
    seeds = len({seed for t in (results.table, scores) for seed in t["seed"]})
    metrics = results.metric_rows["metric"].nunique()
    tiles = [
        ("estimators", str(len(estimators)), True),
        ("replicates" if seeds != 1 else "replicate", str(seeds), True),
        ("fractions", str(fractions), fractions or not metrics),
        ("metrics" if metrics != 1 else "metric", str(metrics), metrics),
        ("cells done", f"{int((status == 'done').sum())} of {len(status)}", True),
        ("test images", listed([str(n) for n in results.test_images], 3) or NOTHING, True),
    ]
    return [(text, value) for text, value, there in tiles if there]


def _score_tiles(scores: Scores, chapter: Chapter) -> list[tuple[str, str]]:
    assert chapter.metrics is not None, "a page of scores has metrics"
    table = chapter.metrics.table
    sizes = {"method": len(table.methods), "metric": len(table.metrics), "image": table.images}
    tiles = [(noun if size == 1 else f"{noun}s", _grouped(size)) for noun, size in sizes.items()]
    return [*tiles, ("images shown to the model", _grouped(scores.forwards))]


def _grouped(size: int) -> str:
    """A count in groups of three.

    >>> _grouped(121472) == "121\\u202f472", _grouped(0)
    (True, '–')
    """
    return f"{size:,}".replace(",", "\u202f") if size else NOTHING


def _problems(results: Results) -> dict[str, Any]:
    """Cells without a number, counted by reason, and numbers that are none."""
    frame = results.problems
    rows = []
    for (status, reason), group in frame.groupby(["status", "reason"], dropna=False, sort=False):
        names = [clean(e) for e in dict.fromkeys(group["estimator"])]
        text = clean(reason) if isinstance(reason, str) and reason else NOTHING
        cells = int(group["cells"].sum())
        rows.append({"status": clean(status), "reason": text, "cells": cells, "estimators": listed(names, 6)})
    counts = frame.groupby("status", sort=False)["cells"].sum() if len(frame) else {}
    parts = [f"{counted(int(n), 'cell')} {status}" for status, n in counts.items()]
    empty = int(results.done["accuracy"].isna().sum())
    return {
        "title": listed(parts) or "Skipped and failed cells: none",
        "rows": rows,
        "reading": (
            f"{counted(empty, 'finished cell')} without a number (NaN): left out of every mean."
            if empty
            else "Every finished cell has a number; none is NaN."
        ),
    }


def flat_facts(given: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as a flat list of names and values."""
    facts: list[tuple[str, str]] = []
    for name, value in given.items():
        label = f"{before}{clean(name)}"
        if isinstance(value, Mapping):
            facts += flat_facts(value, f"{label}: ")
        else:
            facts.append((label.replace("_", " "), _plain(value)))
    return facts


def _plain(value: Any) -> str:
    if value is None or value == "" or value == () or value == []:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value)
    return clean(value)
