"""A run or a folder of scores as LaTeX tables and PDF figures, for a paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from uproar.report.document import Chapter, chapters_of
from uproar.report.draw import drawn
from uproar.report.formatting import NOTHING, p_value, points, protocol_label, slug, span
from uproar.report.latex import code, escaped, latex_document, latex_table
from uproar.report.pairs import PairFigure
from uproar.report.score_board import Board, Cell, Mark, Pair
from uproar.report.score_document import Document, document_of
from uproar.report.score_draw import drawn as drawn_scores
from uproar.report.score_figures import stems
from uproar.report.score_findings import metric_title, score, score_span
from uproar.report.score_metrics import Metric
from uproar.results.quality import NetworkQuality
from uproar.results.scores import Scores
from uproar.results.study import Results

MAIN = "report.tex"
"""The document that takes everything in."""


def latex_files(results: Results) -> dict[str, bytes]:
    """The verdicts, metrics and comparisons of a study as tables, its figures as PDF; by place in a folder."""
    chapters = chapters_of(results)
    tables: dict[str, str] = {}
    figures: dict[str, tuple[str, bytes]] = {}
    for chapter in chapters:
        tables |= _chapter_tables(chapter)
        for figure in chapter.drawings():
            content = drawn(figure, ("pdf",))[f"{figure.name}.pdf"]
            figures[f"figures/{chapter.prefix}{figure.name}.pdf"] = (figure.title, content)
        if chapter.metrics is not None:
            figures |= _score_figures(chapter.metrics)
    remarks = [line for chapter in chapters for line in _network(chapter.quality)]
    return _files(str(results.study.get("name", "study")), remarks, tables, figures)


def score_latex_files(scores: Scores) -> dict[str, bytes]:
    """The values and comparisons of scores as tables, their figures as PDF; by place in a folder."""
    document = document_of(scores)
    tables = _score_tables(document, "", scores.quality)
    remarks = _network(scores.quality)
    return _files("Scores of attribution maps", remarks, tables, _score_figures(document))


def _files(
    title: str, remarks: Sequence[str], tables: Mapping[str, str], figures: Mapping[str, tuple[str, bytes]]
) -> dict[str, bytes]:
    captions = {file: caption for file, (caption, _) in figures.items()}
    main = latex_document(title, remarks, list(tables), captions)
    return {
        **{file: (content + "\n").encode() for file, content in tables.items()},
        **{file: content for file, (_, content) in figures.items()},
        MAIN: main.encode(),
    }


def _network(quality: NetworkQuality | None) -> list[str]:
    if quality is None:
        return []
    return [quality.sentence, *([quality.warning] if quality.warning else [])]


def _score_figures(document: Document) -> dict[str, tuple[str, bytes]]:
    found = {}
    for figure in document.drawings():
        content = drawn_scores(figure, ("pdf",))[f"{figure.name}.pdf"]
        found[f"figures/{document.prefix}{figure.name}.pdf"] = (figure.title, content)
    return found


def _chapter_tables(chapter: Chapter) -> dict[str, str]:
    tables, where = {}, f"{chapter.section.task}, {chapter.section.model}"
    for forest in chapter.forests:
        name = f"{chapter.prefix}verdicts-{slug([forest.protocol])}"
        rows = [
            [code(r.label), *_words(points(r.advantage), span(r.low, r.high), p_value(r.p), r.n, r.verdict)]
            for r in forest.rows
        ]
        heads = ["estimator", ">advantage", r">95\,\% interval", ">$p$ (Holm)", ">$n$", "verdict"]
        caption = _caption(
            f"{forest.title}. Accuracy points against a random ranking ({where}); n counts replicates, p is adjusted "
            f"by Holm's method over {len(rows)} comparisons.",
            chapter.quality,
        )
        tables[f"tables/{name}.tex"] = latex_table(heads, rows, caption, name)
    for pairs in chapter.pairs:
        name = f"{chapter.prefix}comparisons-{slug([pairs.protocol])}"
        tables[f"tables/{name}.tex"] = _pairs_table(pairs, name, where, chapter.quality)
    if chapter.metrics is not None:
        tables |= _score_tables(chapter.metrics, chapter.prefix, chapter.quality)
    return tables


def _pairs_table(pairs: PairFigure, name: str, where: str, quality: NetworkQuality | None) -> str:
    rows = [
        [
            code(r.better),
            code(r.worse),
            *_words(points(r.lead), span(r.low, r.high), p_value(r.p), r.n),
            "better" if r.decided else "cannot tell",
        ]
        for r in pairs.rows
    ]
    heads = ["method", "against", ">lead", r">95\,\% interval", ">$p$ (Holm)", ">$n$", "verdict"]
    caption = _caption(
        f"{pairs.title}. Accuracy points by which the first method leads under {protocol_label(pairs.protocol)} "
        f"({where}); paired t-tests over n replicates, p adjusted by Holm's method over {len(rows)} pairs.",
        quality,
    )
    return latex_table(heads, rows, caption, name)


def _score_tables(document: Document, prefix: str, quality: NetworkQuality | None) -> dict[str, str]:
    board = document.board
    name = f"{prefix}metrics"
    tables = {f"tables/{name}.tex": _metrics_table(board, name, quality)}
    for metric in board.metrics:
        if board.pairs.get(metric.name):
            own = f"{prefix}comparisons-{stems(m.name for m in board.metrics)[metric.name]}"
            tables[f"tables/{own}.tex"] = _metric_pairs(board, metric, own, quality)
    return tables


def _metrics_table(board: Board, name: str, quality: NetworkQuality | None) -> str:
    """Methods by metrics: the best value bold, decidedly best with a star, unranked ones in brackets."""
    rows = []
    for method in board.methods:
        cells = ((board.cells.get((method, m.name)), board.mark(method, m)) for m in board.metrics)
        rows.append([code(method), *(_value(cell, mark) for cell, mark in cells)])
    heads = ["method", *(f">{code(m.name)} {escaped(m.arrow)}" for m in board.metrics)]
    brackets = " Brackets: not ranked, undefined for more than a tenth of the images."
    undefined = brackets if _some_unranked(board) else ""
    caption = _caption(
        f"Mean over {board.basis}, with 95 % intervals. Bold: the best value; with a star: decidedly better than every "
        f"other method.{undefined}",
        quality,
    )
    return latex_table(heads, rows, caption, name)


def _some_unranked(board: Board) -> bool:
    return any(cell.value is not None and not cell.ranked for cell in board.cells.values())


def _value(cell: Cell | None, mark: Mark) -> str:
    if cell is None or cell.value is None:
        return escaped(NOTHING)
    value = escaped(score(cell.value))
    if mark in ("best", "sole"):
        value = rf"\textbf{{{value}}}" + ("$^*$" if mark == "sole" else "")
    elif mark == "unranked":
        value = f"({value})"
    interval = rf" {{\scriptsize [{escaped(score_span(cell.low, cell.high))}]}}"
    missing = rf" {{\scriptsize {escaped(cell.undefined)}}}" if cell.nan else ""
    return f"{value}{interval}{missing}"


def _metric_pairs(board: Board, metric: Metric, name: str, quality: NetworkQuality | None) -> str:
    pairs = board.pairs[metric.name]
    heads = ["method", "against", ">difference", r">95\,\% interval", ">$p$ (Holm)", ">$n$", "verdict"]
    caption = _caption(
        f"{metric_title(board, metric)}. Differences of {metric.name} ({metric.direction}) on the same images, over "
        f"{board.basis}; p adjusted by Holm's method over {len(pairs)} pairs.",
        quality,
    )
    return latex_table(heads, [_pair(pair) for pair in pairs], caption, name)


def _pair(pair: Pair) -> list[str]:
    verdict = "better" if pair.decided else "cannot tell" if pair.ranked else "not ranked"
    return [
        code(pair.better),
        code(pair.worse),
        *_words(score(pair.difference), score_span(pair.low, pair.high), p_value(pair.p), pair.n),
        verdict,
    ]


def _words(*cells: object) -> list[str]:
    return [escaped(cell) for cell in cells]


def _caption(words: str, quality: NetworkQuality | None) -> str:
    parts: Iterable[str] = [words, *_network(quality)]
    return escaped(" ".join(parts))
