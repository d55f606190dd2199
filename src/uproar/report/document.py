"""Everything a report shows, gathered once: the page, the drawings and the tables all take it from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uproar.claims.evidence import ClaimEvidence
from uproar.report.audits import AuditPart, audit_parts
from uproar.report.costs import Costs, Ties, cost_figure, ties_figure
from uproar.report.draw import Drawable
from uproar.report.figures import Curves, Forest, Retraining, curve_figures, forest_figures, retraining_figures
from uproar.report.findings import Answer, leak_facts
from uproar.report.formatting import clean, slug
from uproar.report.headline import answer_of, scores_of
from uproar.report.pairs import PairFigure, pair_figures
from uproar.report.paper_figures import FigureSource, PaperFigure, UndrawnFigure, figures_of_papers
from uproar.report.pictures import Gallery, Panel, gallery_figure, panel_figures
from uproar.report.score_document import Document, document_of
from uproar.report.slices import Section, sections_of
from uproar.results.judgement import Judgement
from uproar.results.quality import NetworkQuality
from uproar.results.study import Results


@dataclass(frozen=True)
class Chapter:
    """One task and model: its answer and all its figures."""

    prefix: str
    """Before the figures' file names: empty when there is only one chapter."""
    section: Section
    answer: Answer
    leaks: tuple[str, ...]
    forests: tuple[Forest, ...]
    curves: tuple[Curves, ...]
    retraining: tuple[Retraining, ...]
    panels: tuple[Panel, ...]
    gallery: Gallery | None
    costs: Costs | None
    ties: Ties | None
    pairs: tuple[PairFigure, ...]
    metrics: Document | None
    """What the metrics say, which need no retraining."""
    quality: NetworkQuality | None = None
    """How often the explained networks are right."""
    audits: tuple[AuditPart, ...] = ()
    """What the audits found."""
    claims: tuple[Judgement, ...] = ()
    """What became of the claims of papers."""
    paper_figures: tuple[PaperFigure, ...] = ()
    """The figures and tables of those papers, from this study's numbers."""
    undrawn: tuple[UndrawnFigure, ...] = ()
    """Those that the study cannot draw."""

    def drawings(self) -> Iterator[Drawable]:
        """The figures that become files: of the pictures, the first of each protocol."""
        first = {panel.protocol: panel for panel in reversed(self.panels)}
        yield from self.forests
        yield from self.curves
        yield from self.retraining
        yield from reversed(first.values())
        for figure in (self.gallery, self.costs, self.ties):
            if figure is not None:
                yield figure
        for part in self.audits:
            yield from part.figures
        for shown in self.paper_figures:
            if shown.figure is not None:
                yield shown.figure

    def stem(self, figure: Drawable) -> str:
        """Where a figure's file is, source from the page, without its ending."""
        return f"figures/{self.prefix}{figure.name}"

    @property
    def retrains(self) -> bool:
        """Whether there are cells besides the metrics."""
        return not self.section.table.empty


def chapters_of(results: Results) -> list[Chapter]:
    """One chapter per task and model."""
    sections = sections_of(results)
    several = len(sections) > 1
    return [
        _chapter(results, section, f"{place}-{slug([section.task, section.model])}-" if several else "")
        for place, section in enumerate(sections, 1)
    ]


def _chapter(results: Results, section: Section, prefix: str) -> Chapter:
    def own(task: str, model: str) -> bool:
        return (clean(task), clean(model)) == (section.task, section.model)

    scores = scores_of(results, section)
    findings = [f for f in results.findings if own(f.task, f.model)]
    claims = tuple(c for c in results.claims if own(c.task, c.model))
    metrics = None if scores is None else document_of(scores, section.looks, f"{prefix}metrics-")
    found = answer_of(results, section)
    panels = tuple(panel_figures(section))
    task, model = next(place for place in results.settings if own(*place))
    source = FigureSource(ClaimEvidence(results, task, model), section, panels, metrics)
    figures, undrawn = figures_of_papers(source, papers_of(results))
    return Chapter(
        prefix,
        section,
        found,
        tuple(leak_facts(section)),
        tuple(forest_figures(section)),
        tuple(curve_figures(section)),
        tuple(retraining_figures(section)),
        panels,
        gallery_figure(section),
        cost_figure(section),
        ties_figure(section),
        tuple(pair_figures(section)),
        metrics,
        next((found for place, found in results.quality.items() if own(*place)), None),
        audit_parts(findings, section.looks),
        claims,
        figures,
        undrawn,
    )


def papers_of(results: Results) -> list[str]:
    """The papers whose claims were asked, by the names that studies use."""
    return list(dict.fromkeys(one.claim.partition(":")[0] for one in results.claims))
