"""The recommendation in words: the lines that pages, terminals and Python share, and the details below them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from uproar.results.evidence import QUESTIONS
from uproar.results.flags import Kind as FlagKind
from uproar.results.recovery import LEAST, LEAST_LOW
from uproar.statistics.design import MODEL_FREE
from uproar.statistics.intervals import required_sample_size
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.answer import Answer

WARNINGS: Mapping[FlagKind, str] = {
    "fails sanity": "maps of {} hardly change when the weights of the network are randomised",
    "unstable": "maps of {} change a lot under invisible noise",
}


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
        lines.append(
            f"Use {quoted(use, 5, 'or')}{_cheaper(answer)}. {'It is' if len(use) == 1 else 'They are'} significantly "
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
    for method in answer.methods:
        standings = [metric.standings[method] for metric in choice.deciding if method in metric.standings]
        if standings and method not in choice.qualified:
            not_better.setdefault(min(standings, key=lambda one: one.lead.value).baseline, []).append(method)
    for baseline, methods in sorted(not_better.items(), key=lambda group: -len(group[1]))[:2]:
        others.append(f"Not better than `{baseline}`: {quoted(methods)}.")
    lines += [" ".join(others), _caveat(answer) if use else ""]
    return tuple(line for line in lines if line)


def _cheaper(answer: Answer) -> str:
    """How many times as cheap as the dearest of the recommended methods the cheapest is, where it matters."""
    costs = [answer.costs[m].passes for m in answer.recommended if m in answer.costs]
    if len(costs) < 2 or not costs[0] > 0 or not costs[-1] >= 1.5 * costs[0]:
        return ""
    ratio = costs[-1] / costs[0]
    return f" (`{answer.recommended[0]}` is up to {ratio:.{0 if ratio >= 10 else 1}f}× cheaper)"


def _caveat(answer: Answer) -> str:
    """The one thing that limits the recommendation most."""
    first = answer.choice.deciding[0]
    if first.question == "data":
        return f"Caveat: {first.label} measures {QUESTIONS['data']}, not {QUESTIONS['model']}."
    for kind, words in WARNINGS.items():
        flagged = [m for m in answer.recommended if any(flag.kind == kind for flag in answer.flags.get(m, ()))]
        if flagged:
            return f"Caveat: {words.format(quoted(flagged))}."
    if any(metric.trusted for metric in answer.choice.deciding):
        return ""
    if first.board is None:
        return f"Caveat: whether {first.label} with these settings recovers known rankings has not been measured."
    return (
        f"Caveat: {first.label} recovers known rankings with τ = {first.board.recovery.value:.2f} only "
        f"(trusted from {LEAST:g})."
    )


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
    recoveries = []
    for metric in reliable:
        value = "not measured" if metric.board is None else f"{metric.board.recovery.value:.2f}"
        recoveries.append(f"{metric.label} {value}{' (trusted)' * metric.trusted}")
    if recoveries:
        rule = f"Kendall's τ; trusted from {LEAST:g} with the interval above {LEAST_LOW:g}"
        lines.append(f"Recovery of known rankings ({rule}): {', '.join(recoveries)}.")

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
        if metric.excess:
            worst = max(metric.excess, key=lambda name: metric.excess[name])
            lines.append(
                f"Overconfident: the {metric.label} needs more bits than guessing under the masks of "
                f"{quoted([*metric.excess])} (most: {metric.excess[worst]:.2f} bits for `{worst}`); scores are bounded."
            )
    lines += [*answer.checks, _would_decide(answer)]
    left_out = [f"`{method}` ({reason.rstrip('.')})" for method, reason in answer.left_out.items()]
    lines += [f"No value: {'; '.join(left_out)}."] if left_out else []
    return tuple(line for line in lines if line)


def _would_decide(answer: Answer) -> str:
    """How many images or replicates would decide the open comparison that is nearest to a decision."""
    if answer.methods and answer.choice.random_only:
        missing = quoted(MODEL_FREE, 5)
        return f"A recommendation needs more baselines: add {missing} to the estimators."
    if not answer.choice.deciding or answer.recommended:
        return ""
    needed = []
    for metric in answer.choice.deciding:
        n = metric.replicates if metric.unit == "replicates" or metric.replicates > 1 else metric.images
        unit = "images" if n == metric.images and metric.replicates == 1 else "replicates"
        for method, one in metric.standings.items():
            size = required_sample_size(one.lead.value, one.lead.half_width, one.lead.df, n, len(metric.standings))
            if not one.better and size is not None:
                needed.append((size / n, f"{size} {unit} instead of {n}", method, one.baseline))
    if not needed:
        return ""
    times, amount, method, baseline = min(needed)
    return (
        f"About {amount} would show that `{method}` is better than `{baseline}`, if it is."
        if math.isfinite(times)
        else ""
    )
