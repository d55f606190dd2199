"""The answer as pages show it: the sentence, and the table of methods by judges, by printed names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from uproar.report.formatting import NOTHING, clean, known, number
from uproar.report.markdown import code, text
from uproar.report.style import REFERENCE, Style
from uproar.results.answer import Answer, Cost
from uproar.results.evidence import QUESTIONS, Evidence, Standing
from uproar.results.flags import Flag
from uproar.results.letter_groups import letters_of
from uproar.results.recovery import JudgeRecovery

Mark = Literal["better", "worse", "unclear"]
"""How a cell is drawn."""


@dataclass(frozen=True)
class Column:
    """One judge above the table."""

    label: str
    question: str
    asks: str
    basis: str
    able: bool
    decides: bool
    why: str
    bar: str
    """Its best network-free ranking."""
    recovery: str = ""
    """How well it recovers known orders, where the board has asked it."""
    trusted: bool = False


@dataclass(frozen=True)
class Cell:
    """One method under one judge."""

    kind: Mark
    words: str
    control: str
    """The network-free ranking that holds the method there; empty where it is better than all."""


@dataclass(frozen=True)
class Row:
    """One method."""

    method: str
    style: Style
    group: str
    """Its letters: methods that share one are not significantly different; empty where nobody ranks it."""
    begins: bool
    """Whether it shares no letter with the method above it."""
    standing: Literal["use", ""]
    cells: tuple[Cell | None, ...]
    flags: tuple[Flag, ...]
    cost: str

    @property
    def flag_words(self) -> str:
        """Warnings about it."""
        return ", ".join(flag.kind for flag in self.flags)


@dataclass(frozen=True)
class BoardRow:
    """What the board of judges says of one judge."""

    judge: str
    recovery: str
    trusted: bool
    wrong: str
    needed: str
    by_kind: tuple[str, ...]
    blind: str
    rewards: str


@dataclass(frozen=True)
class AnswerPart:
    """The answer of a chapter."""

    sentence: str
    details: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    kinds: tuple[str, ...] = ()
    """The kinds of degradations that judges were asked about."""
    board: tuple[BoardRow, ...] = ()
    """The judges that the board knows."""


def answer_part(answer: Answer, styles: Mapping[str, Style]) -> AnswerPart:
    """An answer with everything by names that can be printed."""
    known = [(metric.label, metric.board) for metric in answer.metrics if metric.board is not None]
    kinds = tuple(dict.fromkeys(kind for _, one in known for kind in one.by_kind))
    return AnswerPart(
        clean(answer.sentence),
        tuple(map(clean, answer.details)),
        tuple(_column(answer, metric) for metric in answer.metrics),
        tuple(
            _row(answer, method, above, styles)
            for method, above in zip(answer.methods, (None, *answer.methods), strict=False)
        ),
        kinds,
        tuple(_board_row(label, one, kinds) for label, one in known),
    )


def _board_row(label: str, known: JudgeRecovery, kinds: Sequence[str]) -> BoardRow:
    one = known.recovery
    taus = (f"{known.by_kind[kind]:.2f}" if kind in known.by_kind else NOTHING for kind in kinds)
    return BoardRow(
        clean(label),
        f"{one.value:.2f} ({one.low:.2f} … {one.high:.2f})".replace("-", "−"),
        known.trusted,
        f"{known.wrong:.0%}",
        f"{known.needed:,.0f}" if math.isfinite(known.needed) else "∞",
        tuple(tau.replace("-", "−") for tau in taus),
        ", ".join(known.blind) or NOTHING,
        ", ".join(known.rewards) or NOTHING,
    )


def _column(answer: Answer, metric: Evidence) -> Column:
    baselines = [name for name in metric.values if name in metric.baselines]
    best = max(baselines, key=lambda name: metric.values[name], default=NOTHING)
    return Column(
        clean(metric.label),
        metric.question,
        QUESTIONS[metric.question],
        metric.basis,
        not metric.unreliable,
        metric in answer.deciding,
        metric.unreliable,
        clean(best),
        "" if metric.board is None else f"{metric.board.recovery.value:.2f}".replace("-", "−"),
        metric.trusted,
    )


def _row(answer: Answer, method: str, above: str | None, styles: Mapping[str, Style]) -> Row:
    return Row(
        clean(method),
        styles.get(clean(method), REFERENCE),
        letters_of(answer.groups).get(method, ""),
        above is not None and not any({method, above} <= set(group) for group in answer.groups),
        "use" if method in answer.recommended else "",
        tuple(_cell(metric.standings.get(method)) for metric in answer.metrics),
        answer.flags.get(method, ()),
        cost_words(answer.costs.get(method)),
    )


def _cell(standing: Standing | None) -> Cell | None:
    if standing is None:
        return None
    worse = not standing.better and standing.lead.high < 0
    return Cell(
        "better" if standing.better else "worse" if worse else "unclear",
        "better" if standing.better else "not better",
        "" if standing.better else clean(standing.baseline),
    )


def cost_words(cost: Cost | None) -> str:
    """Passes and time per image.

    >>> cost_words(Cost(25.0, 0.0125)), cost_words(Cost(1.0)), cost_words(None)
    ('25 passes, 12 ms', '1 pass', '–')
    """
    if cost is None or not known(cost.passes):
        return NOTHING
    passes = f"{number(cost.passes)} pass{'es' * (cost.passes != 1)}"
    return passes if math.isnan(cost.seconds) else f"{passes}, {_time(cost.seconds)}"


def _time(seconds: float) -> str:
    return f"{number(1000 * seconds, 2)} ms" if seconds < 1 else f"{number(seconds, 2)} s"


# a sentence with names in backquotes


def as_html(sentence: str) -> Markup:
    """A sentence whose names in backquotes are set as code; everything is escaped.

    >>> as_html("Use `ig` & no <b>")
    Markup('Use <code>ig</code> &amp; no &lt;b&gt;')
    """
    quoted_as = Markup("<code>{}</code>")
    return Markup("").join(quoted_as.format(part) if quoted else escape(part) for quoted, part in _parts(sentence))


def lead_as_html(sentence: str) -> Markup:
    """The sentence with what comes after its first clause in smaller letters; the semicolon between is only read aloud.

    >>> lead_as_html("Use a; b is not.")
    Markup('Use a<span class="visually-hidden">; </span><span class="rest">b is not.</span>')
    """
    lead, _, rest = sentence.partition("; ")
    if not rest:
        return as_html(sentence)
    pattern = Markup('{}<span class="visually-hidden">; </span><span class="rest">{}</span>')
    return pattern.format(as_html(lead), as_html(rest))


def as_markdown(sentence: str) -> str:
    """The same as Markdown.

    >>> as_markdown("Use `sg_sq(ig)` or a_b")
    'Use `sg_sq(ig)` or a\\\\_b'
    """
    return "".join(code(part) if quoted else _spaced(part) for quoted, part in _parts(sentence))


def _spaced(words: str) -> str:
    """Words in which nothing is taken for markup, with the spaces around them."""
    start, end = " " * words.startswith(" "), " " * (words.endswith(" ") and bool(words.strip()))
    return f"{start}{text(words)}{end}"


def _parts(sentence: str) -> list[tuple[bool, str]]:
    """What stands between backquotes and what does not."""
    pieces = re.split(r"`([^`]*)`", sentence)
    return [(bool(i % 2), piece) for i, piece in enumerate(pieces)]
