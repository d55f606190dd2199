"""Figure data as one HTML page that needs no network: text, tables, pictures, Plotly and all."""

from __future__ import annotations

import base64
import functools
import gzip
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from uproar.report.audit_figures import plot_view
from uproar.report.audits import audit_view, trust_view
from uproar.report.claims import claim_views, paper_figure_view, undrawn_views
from uproar.report.document import Chapter
from uproar.report.figures import Curves, Pair, Retraining
from uproar.report.formatting import NOTHING, clean, count, listed, number, pieces, protocol_label
from uproar.report.page_parts import (
    cost_view,
    forest_view,
    gallery_view,
    pairs_view,
    panel_views,
    picture_choices,
    series_view,
    ties_view,
)
from uproar.report.score_document import Document
from uproar.report.score_metrics import guide_of
from uproar.report.score_parts import curve_views, legend_view, matrix_view, pair_views, plot_data, table_view
from uproar.report.style import DASH_ARRAYS, MARKER_PATHS
from uproar.report.svg_charts import curve_chart, pair_chart
from uproar.results.study import Results

TEMPLATES = Path(__file__).parent / "templates"


def page(results: Results, chapters: list[Chapter], files: Mapping[str, bytes]) -> str:
    """The report as HTML; `files` holds the figures that were drawn, by their place beside the page."""
    views = [_view(place, chapter, files) for place, chapter in enumerate(chapters)]
    return rendered(
        "page.html",
        study=clean(results.study.get("name", "study")),
        sections=views,
        links=_links(views),
        tiles=_tiles(results),
        leaks=_leaks(chapters),
        scored=bool(len(results.scores)),
        retrains=any(view["retrains"] for view in views),
        given_model=results.study.get("weights") is not None,
        problems=_problems(results),
        notices=[clean(notice) for notice in results.notices],
        settings=flat_facts(results.study),
        provenance=flat_facts(results.provenance),
        figures=_plot_data(chapters),
    )


def rendered(template: str, figures: Any, **values: Any) -> str:
    """A template as one page with style, scripts and the data of its figures inside; names are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["pieces"] = pieces
    environment.filters["dash_array"] = lambda style: DASH_ARRAYS[style.dash]
    environment.filters["marker_path"] = lambda style: MARKER_PATHS[style.marker]
    return environment.get_template(template).render(
        **values,
        figures=_json(figures),
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        script=Markup((TEMPLATES / "report.js").read_text(encoding="utf-8")),
        plotly=Markup(_packed(get_plotlyjs())),
    )


@functools.cache
def _packed(script: str) -> str:
    """A script compressed and as letters, which the page unpacks: it would be nine tenths of the page."""
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()


def _view(place: int, chapter: Chapter, files: Mapping[str, bytes]) -> dict[str, Any]:
    """One chapter in the words of the templates."""
    section, identity = chapter.section, f"s{place}"
    return {
        "id": identity,
        "task": section.task,
        "model": section.model,
        "answer": chapter.answer,
        "quality": chapter.quality,
        "remarks": section.remarks,
        "spent": _spent_view(section.spent),
        "forests": [
            {**forest_view(f, chapter.stem(f)), "trust": trust_view(chapter.audits, f, identity)}
            for f in chapter.forests
        ],
        "pairs": [pairs_view(f) for f in chapter.pairs],
        "legend": [{"label": e, "style": section.looks[e]} for e in _drawn(chapter)],
        "curves": [
            {
                "title": f.title,
                "reading": f.reading,
                "stem": chapter.stem(f),
                "key": _key(chapter, f),
                "static": curve_chart(f),
            }
            for f in chapter.curves
        ],
        "retraining": [
            {
                "title": f.title,
                "reading": f.reading,
                "stem": chapter.stem(f),
                "key": _key(chapter, f),
                "label": protocol_label(f.protocol),
                "pairs": [{"label": pair.label, "static": pair_chart(f, pair)} for pair in f.pairs],
            }
            for f in chapter.retraining
        ],
        "panels": panel_views(chapter),
        **picture_choices(chapter),
        "gallery": gallery_view(chapter),
        "costs": cost_view(chapter),
        "ties": ties_view(chapter),
        "retrains": chapter.retrains,
        "metrics": _metrics_view(identity, chapter.metrics),
        "audits": [audit_view(part, chapter.prefix, identity) for part in chapter.audits],
        "claims": claim_views(chapter, identity),
        "paper_figures": [paper_figure_view(chapter, one, files) for one in chapter.paper_figures],
        "undrawn": undrawn_views(chapter.undrawn),
    }


def _spent_view(spent: pd.DataFrame) -> list[dict[str, Any]]:
    """By protocol: with how many replicates each estimator was decided, and which are still open."""
    views = []
    for protocol, rows in spent.groupby("protocol", sort=False):
        decided = rows[~rows["open"]]
        looks = [f"with {n}: {listed(list(group['estimator']), 30)}" for n, group in decided.groupby("look")]
        still = [f"{r.estimator} ({count(r.replicates, 'replicate')})" for r in rows[rows["open"]].itertuples()]
        views.append({"label": protocol_label(str(protocol)), "looks": looks, "open": listed(still, 30)})
    return views


def _metrics_view(identity: str, document: Document | None) -> dict[str, Any] | None:
    """What the metrics say, in the words of the templates."""
    if document is None:
        return None
    return {
        "answer": document.answer,
        "basis": document.board.basis,
        "replicated": document.board.replicates > 1,
        "table": table_view(document),
        "matrix": matrix_view(document.board),
        "pairs": pair_views(document.board),
        "curves": curve_views(document),
        "legend": legend_view(document),
        "group": f"{identity}-metrics",
        "guides": [guide_of(metric) for metric in document.board.metrics],
        "several": len(document.board.judges) > 1,
    }


def _drawn(chapter: Chapter) -> list[str]:
    there = {s.label for figure in chapter.curves for s in figure.series}
    return [e for e in chapter.section.estimators if e in there]


def _leaks(chapters: list[Chapter]) -> list[str]:
    """Signs of a leaking mask, by task and model where there are several."""
    lines = [(chapter.section.name, " ".join(chapter.leaks)) for chapter in chapters if chapter.leaks]
    return [f"{name}: {line}" if len(chapters) > 1 else line for name, line in lines]


def _links(views: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The small table of contents on top: the parts of the only chapter, or the chapters."""
    end = [("caveats", "Caveats"), ("problems", "Problems"), ("study", "Study")]
    if len(views) != 1:
        inner = [(view["id"], f"{view['task']} · {view['model']}") for view in views]
        end = end if any(view["retrains"] for view in views) else end[1:]
    else:
        view = views[0]
        parts = [
            ("verdicts", "Verdicts", view["retrains"]),
            ("pairs", "Method against method", view["pairs"]),
            ("curves", "Curves", view["curves"]),
            ("retraining", "Retraining", view["retraining"]),
            ("audits", "Audits", view["audits"]),
            ("claims", "Claims", view["claims"]),
            ("papers", "As in the paper", view["paper_figures"]),
            ("metrics", "Metrics", view["metrics"]),
            ("pictures", "Pictures", view["panels"]),
            ("maps", "Maps", view["gallery"]),
            ("cost", "Cost", view["costs"] or view["ties"]),
        ]
        inner = [(f"{view['id']}-{part}", words) for part, words, there in parts if there]
        if view["retrains"]:
            inner.insert(1, end.pop(0))
        else:
            end = end[1:]
    return [{"anchor": anchor, "words": words} for anchor, words in [*inner, *end]]


def _tiles(results: Results) -> list[dict[str, str]]:
    """The size of the study in a few numbers."""
    cells, scores = results.own_cells, results.scores
    status = pd.concat([cells["status"], scores["status"]])
    images = sorted({int(n) for t in (results.done, scores) for n in t["images"] if n > 0})
    estimators = {e for t in (results.table, scores) for e in t["estimator"]}
    fractions = cells["fraction"].nunique()
    seeds = len({seed for t in (results.table, scores) for seed in t["seed"]})
    metrics = scores["metric"].nunique()
    tiles = [
        ("estimators", str(len(estimators)), True),
        ("replicates" if seeds != 1 else "replicate", str(seeds), True),
        ("fractions", str(fractions), fractions or not metrics),
        ("metrics" if metrics != 1 else "metric", str(metrics), metrics),
        ("cells done", f"{int((status == 'done').sum())} of {len(status)}", True),
        ("test images", listed([str(n) for n in images], 3) or NOTHING, True),
    ]
    return [{"words": words, "value": value} for words, value, there in tiles if there]


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
    parts = [f"{count(int(n), 'cell')} {status}" for status, n in counts.items()]
    empty = int(results.done["accuracy"].isna().sum())
    return {
        "title": listed(parts) or "Skipped and failed cells: none",
        "rows": rows,
        "reading": (
            f"{count(empty, 'finished cell')} without a number (NaN): left out of every mean."
            if empty
            else "Every finished cell has a number; none is NaN."
        ),
    }


def flat_facts(given: Mapping[str, Any], before: str = "") -> list[dict[str, str]]:
    """Nested settings as a flat list of names and values."""
    facts: list[dict[str, str]] = []
    for name, value in given.items():
        label = f"{before}{clean(name)}"
        if isinstance(value, Mapping):
            facts += flat_facts(value, f"{label}: ")
        else:
            facts.append({"name": label.replace("_", " "), "value": _plain(value)})
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


def _key(chapter: Chapter, figure: Curves | Retraining) -> str:
    return chapter.prefix + figure.name


def _plot_data(chapters: list[Chapter]) -> dict[str, Any]:
    """What the page's script draws, by figure."""
    data: dict[str, Any] = {}
    for place, chapter in enumerate(chapters):
        for curves in chapter.curves:
            lines = {"chance": curves.chance, "series": [series_view(s) for s in curves.series]}
            data[_key(chapter, curves)] = {**_axes(place, curves), **lines}
        for figure in chapter.retraining:
            pairs = {"chance": None, "pairs": [_pair(pair) for pair in figure.pairs]}
            data[_key(chapter, figure)] = {**_axes(place, figure), **pairs}
        for part in chapter.audits:
            data |= {chapter.prefix + f.name: plot_view(f) for f in part.figures}
        if chapter.metrics is not None:
            data |= plot_data(chapter.metrics, f"s{place}-metrics")
    return data


def _axes(place: int, figure: Curves | Retraining) -> dict[str, Any]:
    return {
        "group": f"s{place}",
        "x_label": figure.x_label,
        "y_label": figure.y_label,
        "y_range": figure.y_range,
        "word": figure.x_label.rpartition(" ")[2],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "label": pair.label,
        "style": asdict(pair.style),
        "retrained": series_view(pair.retrained),
        "asked": series_view(pair.asked),
    }


def _json(data: Any) -> Markup:
    """Data for a script element: nothing in it can end the element or start another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
