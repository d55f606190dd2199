"""Everything a score report shows, gathered once: the page and the drawings take it from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uproar.report.figures import Curves
from uproar.report.findings import Answer
from uproar.report.score_board import Board, board_of
from uproar.report.score_disagreements import Disagreement, disagreement_figures
from uproar.report.score_draw import Drawable
from uproar.report.score_figures import Overview, Spreads, curve_figures, overview_figure, spreads_figure
from uproar.report.score_findings import answer
from uproar.report.style import Style
from uproar.results.scores import Scores


@dataclass(frozen=True)
class Document:
    """The answer and all figures."""

    board: Board
    answer: Answer
    overview: Overview | None
    curves: Mapping[str, Curves]
    spreads: Spreads | None
    disagreements: tuple[Disagreement, ...]
    prefix: str = ""
    """Before the figures' file names, where others lie beside them."""

    def drawings(self) -> Iterator[Drawable]:
        """The figures that become files."""
        if self.overview is not None:
            yield self.overview
        yield from self.curves.values()
        if self.spreads is not None:
            yield self.spreads
        yield from self.disagreements

    def stem(self, figure: Drawable) -> str:
        """Where a figure's file is, seen from the page, without its ending."""
        return f"figures/{self.prefix}{figure.name}"


def document_of(scores: Scores, looks: Mapping[str, Style] | None = None, prefix: str = "") -> Document:
    """The document of some scores; `looks` and `prefix` fit it into a larger one."""
    board = board_of(scores, looks)
    return Document(
        board,
        answer(board),
        overview_figure(board),
        curve_figures(board),
        spreads_figure(board),
        tuple(disagreement_figures(board, scores)),
        prefix,
    )
