"""A run or a folder of scores as LaTeX tables and PDF figures, for a paper."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from uproar.report.document import Chapter, MetricPart, chapters_of, score_chapter
from uproar.report.evaluator_tables import EvaluatorPart
from uproar.report.formatting import (
    NOTHING,
    advantage_points,
    capital,
    degrees,
    known,
    p_value,
    points,
    score,
    score_span,
    slug,
    span,
    stopped_early,
)
from uproar.report.latex import code, escaped, latex_document, latex_table
from uproar.report.metric_guide import Metric
from uproar.report.pairs import Pair, PairTable
from uproar.report.printing import Drawing, draw, pdf_pages
from uproar.report.score_figures import stems
from uproar.report.score_findings import metric_title
from uproar.report.score_table import Cell, Mark, ScoreTable
from uproar.results.answer import Answer
from uproar.results.quality import NetworkQuality
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.wording import counted

MAIN = "report.tex"
"""The document that takes everything in."""
ALL_FIGURES = "figures.pdf"
"""Every figure, a page each."""
TEST_HEADS = [r">95\,\% interval", ">df", ">$p$", ">$p$ (Holm)", ">$n$", "verdict"]
PAIR_HEADS = ["method", "against", ">difference", *TEST_HEADS]


def latex_files(results: Results) -> dict[str, bytes]:
    """The answer, verdicts, metrics and comparisons of a study as tables, its figures as PDF; by place in a folder."""
    return _files(
        str(results.study.get("name", "study")), [view.answer for view in results.views], chapters_of(results)
    )


def score_latex_files(scores: Scores) -> dict[str, bytes]:
    """The answer, values and comparisons of scores as tables, their figures as PDF; by place in a folder."""
    return _files("Scores of attribution maps", [scores.answer], [score_chapter(scores)])


def _files(title: str, answers: Sequence[Answer], chapters: Sequence[Chapter]) -> dict[str, bytes]:
    tables = {
        f"tables/answer-{place}.tex": answer.table.to_latex(index=False, escape=True, float_format="%.3g", na_rep="--")
        for place, answer in enumerate(answers, 1)
    }
    drawings: list[Drawing] = []
    captions: dict[str, str] = {}
    for chapter in chapters:
        tables |= _chapter_tables(chapter)
        for name, figure in chapter.figures():
            captions[f"figures/{name}.pdf"] = figure.title
            drawings.append(draw(figure, name, ("pdf",)))
    main = latex_document(title, [line for answer in answers for line in answer.lines], list(tables), captions)
    encoded = {file: (content + "\n").encode() for file, content in tables.items()}
    figures = {f"figures/{file}": content for one in drawings for file, content in one.files.items()}
    together = {ALL_FIGURES: pdf_pages(drawings)} if drawings else {}
    return {**encoded, **figures, **together, MAIN: main.encode()}


def _network(quality: NetworkQuality | None) -> list[str]:
    if quality is None:
        return []
    return [quality.sentence, *([quality.warning] if quality.warning else [])]


def _chapter_tables(chapter: Chapter) -> dict[str, str]:
    where = f"{chapter.section.task}, {chapter.section.model}"
    tables = {}
    for part in chapter.evaluator:
        name = f"{chapter.prefix}evaluator-{part.target}"
        tables[f"tables/{name}.tex"] = _evaluator_table(part, name, where, chapter.quality)
    for one in chapter.verdicts:
        name = f"{chapter.prefix}verdicts-{slug([one.protocol.name])}"
        rows = [
            [
                code(r["estimator"]),
                *_escaped(advantage_points(r), span(r["low"], r["high"]), *_test(r["df"], r["p"], r["p_holm"])),
                *_escaped(r["n"], r["verdict"]),
            ]
            for r in one.rows
        ]
        heads = ["estimator", ">advantage", *TEST_HEADS]
        unable = "Unable to judge here, the negative control failed. " if one.unable else ""
        early = " In brackets: allowing for stopping early." if any(map(stopped_early, one.rows)) else ""
        caption = _caption(
            f"{unable}{one.figure.title}. {capital(chapter.section.score)} points against a random ranking ({where}); "
            f"n counts replicates, p is that of each alone and adjusted by Holm's method over {len(rows)} "
            f"comparisons.{early}{_notes((r['estimator'], r['note']) for r in one.rows)}",
            chapter.quality,
        )
        tables[f"tables/{name}.tex"] = latex_table(heads, rows, caption, name)
    for pairs in chapter.pairs:
        name = f"{chapter.prefix}comparisons-{slug([pairs.protocol.name])}"
        tables[f"tables/{name}.tex"] = _pairs_table(pairs, name, where, chapter.quality)
    if chapter.metrics is not None:
        tables |= _score_tables(chapter.metrics, chapter.prefix, chapter.quality)
    return tables


def _evaluator_table(part: EvaluatorPart, name: str, where: str, quality: NetworkQuality | None) -> str:
    """Every method with its score, leads over random and the best network-free ranking, and the p of beating all."""
    asked = "what can still be known of the class" if part.target == "label" else "the network's own answers"
    caption = _caption(
        f"The evaluator ({where}) on {asked}: bits of log-loss that an image's own mask costs beyond the same mask at "
        f"another place, and its lead over random rankings and over the best ranking that never looks at the "
        f"network ({_best_network_free(part)}), with 95 % intervals; degrees of freedom and p, alone and adjusted by "
        f"Holm's method over {counted(len(part.rows), 'method')}, behind the second lead are those of the ranking "
        f"without the network that is beaten least clearly, since a method must beat all of them; "
        f"{counted(part.rows[0]['replicates'], 'evaluator')}, "
        f"{part.rows[0]['n']} images. {part.sidedness} "
        f"{part.trained_as}{_notes((r['estimator'], r['note']) for r in part.rows)}",
        quality,
    )
    rows = [
        [
            code(r["estimator"]),
            _bits(r, "score"),
            _bits(r, "over_random", "over_random"),
            *_escaped(*_test(r["over_random_df"], r["over_random_p"], r["p_random"])),
            _bits(r, "over_best", "over_best"),
            *_escaped(*_test(r["margin_df"], r["margin_p"], r["p_network_free"])),
            escaped(r["verdict"].replace("the best network-free ranking", "both")),
        ]
        for r in part.rows
    ]
    test = TEST_HEADS[1:4]
    heads = ["method", ">score", ">over random", *test, ">over network-free", *test, "verdict"]
    return latex_table(heads, rows, caption, name)


def _best_network_free(part: EvaluatorPart) -> str:
    """The network-free ranking with the highest score, the same in all rows."""
    name = part.rows[0]["best_network_free"]
    return name if isinstance(name, str) else "none here"


def _test(df: float | None, p: float | None, adjusted: float | None) -> tuple[str, str, str]:
    """Degrees of freedom, p alone and p adjusted."""
    return degrees(df), p_value(p), p_value(adjusted)


def _notes(noted: Iterable[tuple[str, str]]) -> str:
    """What is said of single rows, at the end of a caption."""
    return "".join(f" {name}: {note}." for name, note in noted if note)


def _bits(row: Mapping[Hashable, Any], name: str, interval: str = "") -> str:
    """A number of bits, with the interval of that name."""
    if not known(row[name]):
        return escaped(NOTHING)
    low, high = (row[f"{interval}_{end}"] if interval else None for end in ("low", "high"))
    ends = rf" {{\scriptsize [${low:.2f}$, ${high:.2f}$]}}" if known(low) and known(high) else ""
    return f"${row[name]:+.2f}${ends}"


def _pairs_table(table: PairTable, name: str, where: str, quality: NetworkQuality | None) -> str:
    caption = _caption(
        f"{table.title}. {capital(table.score)} points by which the first method leads under {table.protocol.label} "
        f"({where}); t-tests of differences paired over n replicates, p of each alone and adjusted by Holm's method "
        f"over {len(table.pairs)} pairs.{_own_errors(table.pairs)}",
        quality,
    )
    rows = [_pair(pair, points(pair.difference), span(pair.low, pair.high)) for pair in table.pairs]
    return latex_table([*PAIR_HEADS[:2], ">lead", *PAIR_HEADS[3:]], rows, caption, name)


def _score_tables(metrics: MetricPart, prefix: str, quality: NetworkQuality | None) -> dict[str, str]:
    table = metrics.table
    name = f"{prefix}metrics"
    tables = {f"tables/{name}.tex": _metrics_table(table, name, quality)}
    for metric in table.metrics:
        if table.pairs.get(metric.name):
            own = f"{prefix}comparisons-{stems(m.name for m in table.metrics)[metric.name]}"
            tables[f"tables/{own}.tex"] = _metric_pairs(table, metric, own, quality)
    return tables


def _metrics_table(table: ScoreTable, name: str, quality: NetworkQuality | None) -> str:
    """Methods by metrics: the best value bold, decidedly best with a star, unranked ones in brackets."""
    rows = []
    for method in table.methods:
        cells = ((table.cells.get((method, m.name)), table.mark(method, m)) for m in table.metrics)
        rows.append([code(method), *(_value(cell, mark) for cell, mark in cells)])
    heads = ["method", *(f">{code(m.name)} {escaped(m.arrow)}" for m in table.metrics)]
    brackets = " Brackets: not ranked, undefined for more than a tenth of the images."
    undefined = brackets if table.some_unranked else ""
    failed = [m.name for m in table.metrics if m.unable]
    unable = f" Unable to judge here, since their negative control failed: {', '.join(failed)}." if failed else ""
    caption = _caption(
        f"Mean over {table.basis}, with 95 % intervals. Bold: the best value; with a star: decidedly better than every "
        f"other method.{undefined}{unable}",
        quality,
    )
    return latex_table(heads, rows, caption, name)


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


def _metric_pairs(table: ScoreTable, metric: Metric, name: str, quality: NetworkQuality | None) -> str:
    pairs = table.pairs[metric.name]
    caption = _caption(
        f"{metric_title(table, metric)}. Differences of {metric.name} ({metric.direction}) on the same images, over "
        f"{table.basis}; p of each alone and adjusted by Holm's method over {len(pairs)} pairs"
        f"{table.adjusted_by}.{_own_errors(pairs)}",
        quality,
    )
    rows = [_pair(pair, score(pair.difference), score_span(pair.low, pair.high)) for pair in pairs]
    return latex_table(PAIR_HEADS, rows, caption, name)


def _pair(pair: Pair, difference: str, interval: str) -> list[str]:
    star = "*" if pair.note else ""
    numbers = _escaped(difference, interval, *_test(pair.df, pair.p_alone, pair.p), pair.sample, pair.verdict + star)
    return [code(pair.better), code(pair.worse), *numbers]


def _own_errors(pairs: Iterable[Pair]) -> str:
    """What the star behind a verdict means, where there is one: pairs are too many to give each its note."""
    if not any(pair.note for pair in pairs):
        return ""
    return (
        " Star: tested with a standard error larger than the pooled one, or without an interval since nothing varies."
    )


def _escaped(*cells: object) -> list[str]:
    return [escaped(cell) for cell in cells]


def _caption(words: str, quality: NetworkQuality | None) -> str:
    parts: Iterable[str] = [words, *_network(quality)]
    return escaped(" ".join(parts))
