"""Everything a report shows, gathered once: the page, the drawings and the tables all take it from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import paper_of
from uproar.report.answer import AnswerPart, answer_part
from uproar.report.audits import AuditPart, audit_parts
from uproar.report.evaluator_tables import EvaluatorPart, evaluator_parts
from uproar.report.figures import Figure
from uproar.report.findings import Summary, leak_facts, summary
from uproar.report.formatting import slug
from uproar.report.images import as_bytes, scaled_map
from uproar.report.pairs import PairTable, pair_tables
from uproar.report.paper_figures import FigureSource, PaperFigure, UndrawnFigure, figures_of_papers
from uproar.report.score_figures import disagreement_figures, score_curves, spread_figure, values_figure
from uproar.report.score_findings import score_summary
from uproar.report.score_table import ScoreTable, score_table
from uproar.report.section import Section, sections_of
from uproar.report.study_figures import (
    CostTable,
    VerdictTable,
    cost_table,
    curve_figures,
    gallery_figure,
    picture_figures,
    retraining_figures,
    ties_figure,
    verdict_tables,
)
from uproar.report.style import Style
from uproar.results.claim_outcome import Judgement
from uproar.results.quality import NetworkQuality
from uproar.results.scores import Scores
from uproar.results.study import Picture, Results
from uproar.results.view import StudyView

GALLERY = 6
"""Images whose maps are shown side by side on a page without a study."""


@dataclass(frozen=True)
class MetricPart:
    """What the metrics say, which need no retraining: in words, and all figures."""

    table: ScoreTable
    summary: Summary
    values: Figure | None
    curves: Mapping[str, Figure]
    spread: Figure | None
    disagreements: tuple[Figure, ...]

    @property
    def figures(self) -> list[Figure]:
        there = [figure for figure in (self.values, *self.curves.values(), self.spread) if figure is not None]
        return [*there, *self.disagreements]


@dataclass(frozen=True)
class Chapter:
    """One task and model: its answer and all its figures. Of scores alone there is one, without protocols."""

    id: str
    """Before the anchors of the page; empty for scores alone."""
    prefix: str
    """Before the figures' file names: empty when there is only one chapter."""
    section: Section
    answer: AnswerPart
    summary: Summary
    """What the retrained protocols say, or of scores alone the metrics."""
    metrics: MetricPart | None
    quality: NetworkQuality | None
    """How often the explained networks are right."""
    leaks: tuple[str, ...] = ()
    verdicts: tuple[VerdictTable, ...] = ()
    curves: tuple[Figure, ...] = ()
    retraining: tuple[Figure, ...] = ()
    pictures: tuple[Figure, ...] = ()
    gallery: Figure | None = None
    costs: CostTable | None = None
    ties: Figure | None = None
    pairs: tuple[PairTable, ...] = ()
    audits: tuple[AuditPart, ...] = ()
    claims: tuple[Judgement, ...] = ()
    paper_figures: tuple[PaperFigure, ...] = ()
    """The figures and tables of the papers whose claims were tested, from this study's numbers."""
    undrawn: tuple[UndrawnFigure, ...] = ()
    """Those that the study cannot draw."""
    unable_to_judge: tuple[str, ...] = ()
    """A sentence for every protocol and metric whose negative control failed: it comes first."""
    evaluator: tuple[EvaluatorPart, ...] = ()
    """The evaluator's verdicts with their numbers, by target."""

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """The figures that become files, by name: of the pictures, the first of each protocol."""
        first = {figure.subject: figure for figure in reversed(self.pictures)}
        own = [table.figure for table in self.verdicts]
        own += [*self.curves, *self.retraining, *reversed(first.values())]
        single = (self.gallery, None if self.costs is None else self.costs.figure, self.ties)
        own += [figure for figure in single if figure is not None]
        own += [figure for part in self.audits for figure in part.figures]
        own += [one.figure for one in self.paper_figures if one.figure is not None]
        yield from ((self.name(figure), figure) for figure in own)
        for figure in self.metrics.figures if self.metrics is not None else ():
            yield self.metric_name(figure), figure

    def name(self, figure: Figure) -> str:
        """Of a figure's file."""
        return self.prefix + figure.name

    def metric_name(self, figure: Figure) -> str:
        """The same for a figure of the metrics, which stand beside others in a study."""
        return self.prefix + (f"metrics-{figure.name}" if self.id else figure.name)

    def labels(self, figures: Sequence[Figure]) -> list[str]:
        """The protocols that figures are of, each once."""
        return list(dict.fromkeys(self.section.label(figure.subject) for figure in figures))

    def anchor(self, part: str) -> str:
        """The address of a part of the page."""
        return f"{self.id}-{part}" if self.id else part

    @property
    def retrains(self) -> bool:
        """Whether there are cells besides the metrics."""
        return not self.section.table.empty

    @property
    def trains_anew(self) -> bool:
        """Whether it asks for networks that learn changed images."""
        return any(self.section.protocols[p].retrains for p in self._asked)

    @property
    def shows_verdicts(self) -> bool:
        """Whether verdicts by accuracy have their part of the page: not where the evaluator's are all there is."""
        by_accuracy = any(not self.section.protocols[p].evaluator for p in self._asked)
        return self.retrains and (by_accuracy or not self.evaluator)

    @property
    def _asked(self) -> list[str]:
        """The protocols of the cells."""
        return list(self.section.table["protocol"].unique()) if self.retrains else []


def chapters_of(results: Results) -> list[Chapter]:
    """One chapter per task and model."""
    sections = sections_of(results)
    several = len(sections) > 1
    return [
        _chapter(view, section, f"s{place}", f"{place + 1}-{slug([section.task, section.model])}-" if several else "")
        for place, (view, section) in enumerate(zip(results.views, sections, strict=True))
    ]


def score_chapter(scores: Scores) -> Chapter:
    """The chapter of scores alone: one replicate, no protocols."""
    none = pd.DataFrame()
    metrics = metric_part(scores)
    styles = metrics.table.styles
    pictures = () if scores.costs.empty else _gallery(scores)
    section = Section(
        "", "", none, none, {}, {}, {}, scores.costs, pictures, {}, styles, None, (), none, layers=scores.layers
    )
    return Chapter(
        "",
        "",
        section,
        answer_part(scores.answer, styles),
        metrics.summary,
        metrics,
        scores.quality,
        gallery=gallery_figure(section),
        costs=cost_table(section),
        unable_to_judge=tuple(one.sentence for one in scores.negative_controls.values() if one.failed),
    )


def _gallery(scores: Scores) -> tuple[Picture, ...]:
    """Some of the images with the maps of every method."""
    if scores.images is None:
        return ()
    return tuple(
        Picture(
            "",
            "",
            title,
            as_bytes(scores.images[i]),
            {name: scaled_map(np.asarray(maps[i], dtype=float)) for name, maps in scores.maps.items()},
            {},
            scores.predictions[i] if i < len(scores.predictions) else None,
        )
        for i, title in enumerate(scores.titles[:GALLERY])
    )


def metric_part(scores: Scores, styles: Mapping[str, Style] | None = None) -> MetricPart:
    """What some scores say; `styles` are those of a page on which the methods already have some."""
    table = score_table(scores, styles)
    return MetricPart(
        table,
        score_summary(table),
        values_figure(table),
        score_curves(table),
        spread_figure(table),
        tuple(disagreement_figures(table, scores)),
    )


def _chapter(view: StudyView, section: Section, identity: str, prefix: str) -> Chapter:
    metrics = None if view.metric_scores is None else metric_part(view.metric_scores, section.styles)
    pictures = tuple(picture_figures(section))
    curves = {} if metrics is None else metrics.curves
    source = FigureSource(ClaimEvidence(view.results, view.task, view.model), section, pictures, curves)
    paper_figures, undrawn = figures_of_papers(source, papers_of(view.results))
    return Chapter(
        identity,
        prefix,
        section,
        answer_part(view.answer, section.styles),
        metrics.summary if section.table.empty and metrics is not None else summary(section),
        metrics,
        view.quality,
        tuple(leak_facts(section)),
        tuple(verdict_tables(section)),
        tuple(curve_figures(section)),
        tuple(retraining_figures(section)),
        pictures,
        gallery_figure(section),
        cost_table(section),
        ties_figure(section),
        tuple(pair_tables(section)),
        audit_parts(view.findings, section.styles),
        tuple(view.claims),
        paper_figures,
        undrawn,
        tuple(view.unable_to_judge.values()),
        evaluator_parts(view),
    )


def papers_of(results: Results) -> list[str]:
    """The papers whose claims were tested, by the names that studies use."""
    return list(dict.fromkeys(paper_of(one.claim) for one in results.claims))
