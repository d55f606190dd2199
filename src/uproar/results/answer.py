"""Which attribution method to use: the one recommendation that pages, terminals and Python give.

    results.answer.lines           at most four lines for a person
    results.answer.recommended     the methods to use, the cheapest first; empty where none can be recommended
    results.answer.table           methods x metrics: better than every model-free baseline or not
    results.answer.details         what supports and limits the recommendation

The rule (`recommend`):

1. Metrics that are not reliable here take no part (`results/evidence.py` says why). The question is what *the network*
   uses: metrics about the network decide, those about the data only where there is no other. Of these the first kind
   (`KINDS`) with metrics that the board trusts, alone or together (docs/board.md); where there are none, the first.
2. A method qualifies where a deciding metric finds it significantly better than every model-free baseline, and none
   finds a baseline significantly better. Where `random` is the only baseline nothing is recommended.
3. Recommended are the best of these and all others that qualify and are not significantly different from it. The best
   has the best mean rank of those that no other is significantly better than.
4. Where removing the pixels that the best method ranks first loses less than half as much of what can be known about
   the label as of what can be known about the network's answer, and the intervals of both do not overlap, the network
   and the data disagree about what matters: a possible shortcut.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from uproar.results.board import agreement, card_of
from uproar.results.evidence import Evidence, Kind, Question, checked, facts_of
from uproar.results.finding import Flag, FlagKind
from uproar.results.html import block
from uproar.statistics.design import BASELINE, MODEL_FREE
from uproar.statistics.intervals import required_sample_size
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.scores import Scores

QUESTIONS: Mapping[Question, str] = {"model": "what the network uses", "data": "what the data allow"}

WARNINGS: Mapping[FlagKind, str] = {
    "fails sanity": "maps of {} hardly change when the weights of the network are randomised",
    "unstable": "maps of {} change a lot under invisible noise",
}
LIMITS: Mapping[str, tuple[FlagKind, float, str]] = {
    "randomisation": ("fails sanity", 0.5, "similarity {} to maps of the network with fresh weights"),
    "sensitivity_max": ("unstable", 1.0, "changes by {} times its size under invisible noise"),
}
"""By metric: the warning about a method whose median over images lies above a limit, the limit, and what it means."""

LETTERS = string.ascii_lowercase + string.ascii_uppercase


@dataclass(frozen=True)
class Cost:
    """What a method costs per image."""

    passes: float
    """Forward and backward passes of the network; NaN where nobody knows."""
    seconds: float = float("nan")


@dataclass(frozen=True)
class Choice:
    """What the rule decides, by the metrics that decide."""

    deciding: tuple[Evidence, ...]
    methods: tuple[str, ...]
    """All methods, best first by their mean rank under the metrics that decide."""
    qualified: tuple[str, ...] = ()
    """The methods that are better than every baseline, best first."""
    best: tuple[str, ...] = ()
    """The best of these and those not significantly different from it, the cheapest first."""
    random_only: bool = False
    """Whether `random` is the only baseline: too low a bar to recommend by."""
    shortcut: bool = False
    """Whether the network and the data disagree about what matters."""

    def better(self, first: str, second: str) -> bool:
        """Whether a deciding metric finds one method significantly better than another, and none the other way."""
        pairs_by_metric = [metric.significant for metric in self.deciding]
        return any((first, second) in pairs for pairs in pairs_by_metric) and not any(
            (second, first) in pairs for pairs in pairs_by_metric
        )


def trusted_of(metrics: Sequence[Evidence]) -> list[Evidence]:
    """Of metrics of one kind those that the board trusts: all of them where it trusts them together."""
    together = card_of(agreement([metric.name for metric in metrics]))
    return [metric for metric in metrics if metric.trusted or (together is not None and together.trusted)]


def recommend(metrics: Sequence[Evidence], costs: Mapping[str, Cost]) -> Choice:
    """The rule at the top of this file, step by step."""
    names = list(dict.fromkeys(name for metric in metrics for name in metric.methods))
    reliable = [metric for metric in metrics if not metric.unreliable]
    about_network = [metric for metric in reliable if metric.question == "model"] or reliable
    if not about_network:
        return Choice((), tuple(names))
    by_kind: dict[Kind | None, list[Evidence]] = {}
    for metric in about_network:
        by_kind.setdefault(metric.kind, []).append(metric)
    kinds = list(by_kind.values())
    deciding = tuple(next((trusted for kind in kinds if (trusted := trusted_of(kind))), kinds[0]))

    ranks = {
        name: np.mean([metric.methods.index(name) if name in metric.methods else len(names) for metric in deciding])
        for name in names
    }
    methods = tuple(sorted(names, key=lambda name: ranks[name]))
    standings = {name: [metric.standings[name] for metric in deciding if name in metric.standings] for name in names}
    qualified = tuple(
        name
        for name in methods
        if any(standing.better for standing in standings[name])
        and not any(standing.lead.high < 0 for standing in standings[name])
    )
    decided = Choice(deciding, methods, qualified)
    unbeaten = (name for name in qualified if not any(decided.better(other, name) for other in qualified))
    first = next(unbeaten, "")
    if first and first != qualified[0]:  # the best mean rank is of a method that another is significantly better than
        position = methods.index(qualified[0])
        methods = (*methods[:position], first, *(name for name in methods[position:] if name != first))
        qualified = tuple(name for name in methods if name in qualified)
    best = [name for name in qualified if not decided.better(qualified[0], name)]
    best.sort(key=lambda name: costs[name].passes if name in costs else np.inf)
    random_only = not any(name in metric.baselines - {BASELINE} for metric in deciding for name in metric.values)

    lost = {metric.kind: metric.lost.get(qualified[0]) for metric in reliable} if qualified else {}
    network, label = lost.get("evaluator"), lost.get("label evaluator")
    shortcut = False
    if network is not None and label is not None:
        shortcut = label.high < network.low and label.value < network.value / 2
    return Choice(deciding, methods, qualified, tuple(best), random_only, shortcut)


@dataclass(frozen=True)
class Answer:
    """The recommendation for one task and model, or for scores."""

    metrics: tuple[Evidence, ...]
    """What the metrics say, in the order in which they would decide."""
    flags: Mapping[str, tuple[Flag, ...]] = field(default_factory=dict)
    """Warnings by method."""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that were asked for and have no value, with the reason."""
    task: str = ""
    model: str = ""
    checks: tuple[str, ...] = ()
    """What the checks found, a sentence each."""

    @cached_property
    def choice(self) -> Choice:
        """What the rule makes of the metrics."""
        return recommend(self.metrics, self.costs)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, best first by their mean rank under the metrics that decide."""
        return self.choice.methods

    @property
    def recommended(self) -> tuple[str, ...]:
        """The methods to use, the cheapest first; empty where none can be recommended."""
        return () if self.choice.random_only else self.choice.best

    @property
    def lines(self) -> tuple[str, ...]:
        """The recommendation in at most four lines."""
        return lines_of(self)

    @property
    def sentence(self) -> str:
        """The same lines in one paragraph."""
        return " ".join(self.lines)

    @property
    def details(self) -> tuple[str, ...]:
        """What supports and limits the recommendation, a sentence each."""
        return details_of(self)

    @property
    def table(self) -> pd.DataFrame:
        """One row per method: rank group, standing under every metric, warnings, passes and seconds per image."""
        choice, rows = self.choice, []
        ranked = [name for name in self.methods if any(name in metric.values for metric in choice.deciding)]
        differ = lambda first, second: choice.better(first, second) or choice.better(second, first)  # noqa: E731
        letters = letters_of(letter_groups(ranked, differ))
        for method in self.methods:
            row = {"method": method, "group": letters.get(method, ""), "recommended": method in self.recommended}
            for metric in self.metrics:
                standing = metric.standings.get(method)
                not_better = "" if standing is None else f"not better than {standing.baseline}"
                row[metric.label] = "better" if standing is not None and standing.better else not_better
            cost = self.costs.get(method, Cost(float("nan")))
            warnings = ", ".join(flag.kind for flag in self.flags.get(method, ()))
            rows.append({**row, "warnings": warnings, "passes": cost.passes, "seconds": cost.seconds})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Answer: {self.sentence}>"

    def _repr_html_(self) -> str:
        return block([self.sentence], self.table.drop(columns="recommended", errors="ignore"), self.details)


def answer_of(
    evidence: Sequence[Evidence],
    scores: Sequence[Scores] = (),
    costs: pd.DataFrame = pd.DataFrame(),
    left_out: Mapping[str, str] = MappingProxyType({}),
    flags: Iterable[Flag] = (),
    task: str = "",
    model: str = "",
) -> Answer:
    """The recommendation from what the metrics say; `scores` are metrics without retraining, and checks."""
    metrics = checked(evidence)
    warnings: dict[str, dict[str, Flag]] = {}
    checks = [read_checks(scored) for scored in scores]
    for flag in (*flags, *(flag for raised, _ in checks for flag in raised)):
        warnings.setdefault(flag.method, {}).setdefault(flag.kind, flag)
    seconds = costs.get("milliseconds_per_image", pd.Series(np.nan, costs.index)) / 1000
    rows = zip(costs["estimator"], costs["passes"], seconds, strict=True) if "passes" in costs else ()
    ranked = {name for metric in metrics for name in metric.values}
    return Answer(
        metrics,
        {method: tuple(each.values()) for method, each in warnings.items()},
        {str(name): Cost(float(passes), float(each)) for name, passes, each in rows},
        {name: why for name, why in left_out.items() if name not in ranked},
        task,
        model,
        tuple(sentence for _, sentences in checks for sentence in sentences),
    )


def read_checks(scores: Scores) -> tuple[list[Flag], list[str]]:
    """The warnings that checks raise, and a sentence on each check: the range of its medians over images, the limit.

    The median counts: a few images can carry any mean.
    """
    medians: dict[str, dict[str, float]] = {}
    for row in scores.table[scores.table["role"].eq("method") & scores.table["median"].notna()].itertuples():
        medians.setdefault(facts_of(row.metric).get("name", ""), {})[str(row.method)] = float(row.median)
    flags, sentences = list[Flag](), list[str]()
    for metric, (kind, limit, words) in LIMITS.items():
        values = medians.get(metric, {})
        above = {
            method: words.format(f"{value:.2f} (median over images)")
            for method, value in values.items()
            if value > limit
        }
        flags += [Flag(method, kind, why) for method, why in above.items()]
        if values:
            extent = words.format(f"{min(values.values()):.2f} to {max(values.values()):.2f}").replace("-", "−")
            sentences.append(f"Check ({len(values)} methods, medians over images): {extent}; {kind} above {limit:g}.")
    return flags, sentences


def letter_groups(names: Sequence[str], decided: Callable[[str, str], bool]) -> tuple[tuple[str, ...], ...]:
    """Compact letter display (Piepho 2004): two methods share a letter if and only if they are not decided.

    The methods of each letter, in the order of `names`; the letter of the best method first. All methods begin with one
    letter; every decided pair splits the letters that both have, and one whose methods all share another is absorbed.

    `names` are best first, and `decided` says of two whether they are significantly different. Every group is a
    largest possible one: no further method could join it.

    >>> apart = {("ig", "grad")}
    >>> letter_groups(["ig", "lrp", "grad"], lambda one, other: (one, other) in apart)
    (('ig', 'lrp'), ('lrp', 'grad'))
    """
    groups = [frozenset(range(len(names)))] if names else []
    for i, j in combinations(range(len(names)), 2):
        if decided(names[i], names[j]):
            split = [half for group in groups for half in ((group - {i}, group - {j}) if {i, j} <= group else (group,))]
            groups = [group for group in dict.fromkeys(split) if not any(group < other for other in split)]
    kept = sorted(groups, key=sorted)
    for group in reversed(list(kept)):  # a letter whose pairs, or whose only method, others have too is not needed
        others = [other for other in kept if other != group]
        links: list[tuple[int, ...]] = [*combinations(sorted(group), 2)] or [tuple(group)]
        if all(any(set(link) <= other for other in others) for link in links):
            kept = others
    return tuple(tuple(names[i] for i in group) for group in sorted(map(sorted, kept)))


def letters_of(groups: Sequence[Sequence[str]]) -> Mapping[str, str]:
    """The letters of every method, in the order of the alphabet: a … z, A … Z, then a1, b1, …

    >>> letters_of([["ig", "lrp"], ["lrp", "grad"]])
    {'ig': 'a', 'lrp': 'ab', 'grad': 'b'}
    """
    letters: dict[str, str] = {}
    for number, group in enumerate(groups):
        rounds, letter = divmod(number, len(LETTERS))
        for name in group:
            letters[name] = letters.get(name, "") + LETTERS[letter] + (str(rounds) if rounds else "")
    return letters


# in words


def quoted(names: Sequence[str], most: int = 4, last: str = "and") -> str:
    """Names in a sentence; beyond `most`, the rest is counted.

    >>> quoted(["ig", "grad"], last="or"), quoted(list("abcdef"))
    ('`ig` or `grad`', '`a`, `b`, `c`, `d` and 2 others')
    """
    shown = [f"`{name}`" for name in names]
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def lines_of(answer: Answer) -> tuple[str, ...]:
    """At most four lines that a practitioner can act on: a possible shortcut, what to use, the others, one caveat."""
    choice, use, lines = answer.choice, answer.recommended, []
    if choice.shortcut:
        best, metrics = choice.qualified[0], {metric.kind: metric for metric in answer.metrics}
        network, label = (metrics[kind].lost[best].value for kind in ("evaluator", "label evaluator"))
        lines.append(
            "Possible shortcut: your network and the data disagree about what matters. Removing the pixels that "
            f"`{best}` ranks first loses {network:.0%} of what can be known about your network's answer, but "
            f"{max(label, 0):.0%} of what can be known about the label."
        )

    none = "No method can be recommended:"
    if use:
        question = QUESTIONS[choice.deciding[0].question].replace("the network", "your network")
        costs = [answer.costs[method].passes for method in use if method in answer.costs]
        cheaper = ""
        if len(costs) > 1 and costs[0] > 0 and costs[-1] >= 1.5 * costs[0]:
            ratio = costs[-1] / costs[0]
            cheaper = f" (`{use[0]}` is up to {ratio:.{0 if ratio >= 10 else 1}f}× cheaper)"
        lines.append(
            f"Use {quoted(use, 5, 'or')}{cheaper}. {'It is' if len(use) == 1 else 'They are'} significantly "
            f"better than every model-free baseline at showing {question}."
        )
    elif not answer.metrics:
        compared = "no method has a value" if answer.left_out else "nothing that was run compares methods yet"
        lines.append(f"{none} {compared}.")
    elif not answer.methods:
        lines.append(f"{none} only baselines were compared.")
    elif not choice.deciding:
        reasons = "; ".join(dict.fromkeys(metric.unreliable for metric in answer.metrics))
        lines.append(f"{none} no metric is reliable here ({reasons}).")
    elif choice.best:
        lines.append(f"{none} `random` is the only baseline; better than it: {quoted(choice.best)}.")
    else:
        lines.append(f"{none} none is significantly better than every model-free baseline.")

    behind = [method for method in choice.qualified if method not in choice.best]
    others = [f"Also better than the baselines, but behind: {quoted(behind)}."] if behind else []
    not_better: dict[str, list[str]] = {}
    untested = []
    for method in answer.methods:
        standings = [metric.standings[method] for metric in choice.deciding if method in metric.standings]
        if standings and all(math.isnan(standing.p) for standing in standings):
            untested.append(method)
        elif standings and method not in choice.qualified:
            not_better.setdefault(min(standings, key=lambda standing: standing.lead.value).baseline, []).append(method)
    for baseline, methods in sorted(not_better.items(), key=lambda group: -len(group[1]))[:2]:
        others.append(f"Not significantly better than `{baseline}`: {quoted(methods)}.")
    others += [f"Not tested: {quoted(untested)}."] if untested else []
    others += [f"Left out: {quoted([*answer.left_out])}."] if answer.left_out else []
    lines += [" ".join(others), caveat_of(answer) if use else ""]
    return tuple(line for line in lines if line)


def caveat_of(answer: Answer) -> str:
    """The one thing that limits the recommendation most, or how far to believe it by the board."""
    first = answer.choice.deciding[0]
    if first.question == "data":
        return f"Caveat: {first.label} measures {QUESTIONS['data']}, not {QUESTIONS['model']}."
    for kind, words in WARNINGS.items():
        flagged = [m for m in answer.recommended if any(flag.kind == kind for flag in answer.flags.get(m, ()))]
        if flagged:
            return f"Caveat: {words.format(quoted(flagged))}."
    deciding = answer.choice.deciding
    label = series([metric.label for metric in deciding]).replace("evaluator", "the evaluator")
    card = first.board if len(deciding) == 1 else card_of(agreement([metric.name for metric in deciding]))
    trusted = any(metric.trusted for metric in deciding)
    if card is not None:
        if card.trusted:
            return f"How far to believe it: {card.believe(label)}"
        return f"Caveat: {card.believe(label)} It misses the mark of a trusted metric (docs/board.md)."
    return "" if trusted else f"Caveat: how well methods are ordered by {label} with these settings was not measured."


def details_of(answer: Answer) -> tuple[str, ...]:
    """What decides, how far to believe it, who disagrees or is not reliable, checks, what would decide more."""
    choice, lines = answer.choice, []
    reliable = [metric for metric in answer.metrics if not metric.unreliable]
    if choice.deciding and answer.methods:
        first = choice.deciding[0]
        baselines = list(dict.fromkeys(n for metric in answer.metrics for n in metric.values if n in metric.baselines))
        lines.append(
            f"Decided by {series([metric.label for metric in choice.deciding])} ({first.basis}): "
            f"{QUESTIONS[first.question]}. Model-free baselines: {quoted(baselines, 5)}."
        )
    measured = [f"{known.label}: {'not measured' if known.board is None else known.board.words}" for known in reliable]
    together = card_of(agreement([metric.name for metric in choice.deciding])) if len(choice.deciding) > 1 else None
    if together is not None:
        measured.append(f"{series([metric.label for metric in choice.deciding])} together: {together.words}")
    if measured:
        lines.append(f"Kendall's τ with the known order of methods (docs/board.md): {'; '.join(measured)}.")

    if choice.best:
        best, parts = choice.qualified[0], []
        for metric in reliable:
            above = [m for m in answer.methods if (m, best) in metric.significant and metric not in choice.deciding]
            parts += [f"{metric.label} puts {quoted(above)} above it"] if above else []
        lines += [f"Other metrics disagree with `{best}`: {'; '.join(parts)}."] if parts else []

    reasons: dict[str, list[str]] = {}
    for metric in answer.metrics:
        if metric.unreliable:
            reasons.setdefault(metric.unreliable, []).append(metric.label)
    lines += [f"Not reliable here: {series(labels)} ({why})." for why, labels in reasons.items()]
    for metric in answer.metrics:
        if metric.leaks:
            worst = max(metric.leaks, key=lambda name: metric.leaks[name])
            lines.append(
                f"Masks leak the class to the {metric.label}: {quoted([*metric.leaks])} (most: those of `{worst}`, "
                f"laid on images of other classes, have their class named {metric.leaks[worst]:.0%} above chance)."
            )
    lines += [*answer.checks, _would_decide(answer)]
    left_out = [f"`{method}` ({reason.rstrip('.')})" for method, reason in answer.left_out.items()]
    lines += [f"No value: {'; '.join(left_out)}."] if left_out else []
    return tuple(line for line in lines if line)


def _would_decide(answer: Answer) -> str:
    """How many images or replicates would decide the open comparison that is nearest to a decision."""
    if answer.methods and answer.choice.random_only:
        return f"A recommendation needs more baselines: add {quoted(MODEL_FREE, 5)} to the estimators."
    if not answer.choice.deciding or answer.recommended:
        return ""
    needed = []
    for metric in answer.choice.deciding:
        n = metric.replicates if metric.unit == "replicates" or metric.replicates > 1 else metric.images
        unit = "images" if n == metric.images and metric.replicates == 1 else "replicates"
        for method, standing in metric.standings.items():
            size = required_sample_size(
                standing.lead.value, standing.lead.half_width, standing.lead.df, n, len(metric.standings)
            )
            if not standing.better and size is not None:
                needed.append((size / n, f"{size} {unit} instead of {n}", method, standing.baseline))
    times, amount, method, baseline = min(needed, default=(math.inf, "", "", ""))
    if not math.isfinite(times):
        return ""
    return f"About {amount} would show that `{method}` is better than `{baseline}`, if it is."
