"""Everything a report shows, gathered once: the page, the drawings and the tables all take it from here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uproar.finding import Finding
from uproar.judgement import Judgement
from uproar.report.audits import AuditPart, audit_parts
from uproar.report.draw import Drawable
from uproar.report.figures import (
    Curves,
    Forest,
    Retraining,
    curve_figures,
    forest_figures,
    retraining_figures,
)
from uproar.report.findings import Answer, answer, leak_facts
from uproar.report.pictures import Gallery, Panel, gallery_figure, panel_figures
from uproar.report.score_document import Document, document_of
from uproar.report.sections import Section, sections_of
from uproar.report.tallies import Costs, Ties, cost_figure, ties_figure
from uproar.report.words import clean, slug
from uproar.results import Results
from uproar.scores import Scores


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
    metrics: Document | None
    """What the metrics say, which need no retraining."""
    audits: tuple[AuditPart, ...] = ()
    """What the audits found."""
    claims: tuple[Judgement, ...] = ()
    """What became of the claims of papers."""

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

    def stem(self, figure: Drawable) -> str:
        """Where a figure's file is, seen from the page, without its ending."""
        return f"figures/{self.prefix}{figure.name}"

    @property
    def retrains(self) -> bool:
        """Whether there are cells besides the metrics."""
        return not self.section.table.empty


def chapters_of(results: Results) -> list[Chapter]:
    """One chapter per task and model."""
    sections = sections_of(results)
    several = len(sections) > 1
    judged = {(clean(task), clean(model)): found for (task, model), found in results.judged.items()}
    return [
        _chapter(
            section, f"{place}-{slug([section.task, section.model])}-" if several else "",
            judged.get((section.task, section.model)),
            [f for f in results.findings if (clean(f.task), clean(f.model)) == (section.task, section.model)],
            [c for c in results.claims if (clean(c.task), clean(c.model)) == (section.task, section.model)],
        )
        for place, section in enumerate(sections, 1)
    ]  # fmt: skip


def _chapter(
    section: Section, prefix: str, scores: Scores | None, findings: list[Finding],
    claims: list[Judgement],
) -> Chapter:  # fmt: skip
    metrics = None if scores is None else document_of(scores, section.looks, f"{prefix}metrics-")
    found = metrics.answer if section.table.empty and metrics is not None else answer(section)
    return Chapter(
        prefix, section, found, tuple(leak_facts(section)),
        tuple(forest_figures(section)), tuple(curve_figures(section)),
        tuple(retraining_figures(section)), tuple(panel_figures(section)),
        gallery_figure(section), cost_figure(section), ties_figure(section), metrics,
        audit_parts(findings, section.looks), tuple(claims),
    )  # fmt: skip
