"""The recommendation in words: the lines that pages, terminals and Python share, and the details below them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from uproar.results.evidence import QUESTIONS, Evidence
from uproar.results.flags import Kind as FlagKind
from uproar.results.recovery import LEAST, LEAST_LOW
from uproar.statistics.design import NETWORK_FREE
from uproar.statistics.power import required_sample_size
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.answer import Answer

WARNINGS: Mapping[FlagKind, str] = {
    "fails sanity": "maps of {} hardly change when the weights of the network are randomised",
    "unstable": "maps of {} change a lot under invisible noise",
}


def lines_of(answer: Answer) -> tuple[str, ...]:
    """At most four lines that a practitioner can act on: a possible shortcut, what to use, the others, one caveat."""
    lines = (_shortcut(answer), _lead(answer), _others(answer), _caveat(answer))
    return tuple(line for line in lines if line)


def quoted(names: Sequence[str], most: int = 4, last: str = "and") -> str:
    """Names in a sentence; beyond `most`, the rest is counted.

    >>> quoted(["ig", "grad"], last="or"), quoted(list("abcdef"))
    ('`ig` or `grad`', '`a`, `b`, `c`, `d` and 2 others')
    """
    shown = [f"`{name}`" for name in names]
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _shortcut(answer: Answer) -> str:
    """That the network relies on something else than the data offer, with the scores that show it."""
    if not answer.shortcut:
        return ""
    top, metrics = answer.qualified[0], {metric.kind: metric for metric in answer.metrics}
    network, label = (metrics[kind].lost[top].value for kind in ("evaluator", "label evaluator"))
    return (
        "Possible shortcut: your network and the data disagree about what matters. Removing the pixels that "
        f"`{top}` ranks first loses {network:.0%} of what can be known about your network's answer, but "
        f"{max(label, 0):.0%} of what can be known about the label."
    )


def _lead(answer: Answer) -> str:
    """Which methods to use, or why none."""
    if not answer.deciding or not answer.methods:
        return f"No method can be recommended: {_nothing_decides(answer)}."
    if answer.recommended:
        use, it = quoted(answer.recommended, 5, "or"), "It is" if len(answer.recommended) == 1 else "They are"
        asks = QUESTIONS[answer.deciding[0].question].replace("the network", "your network")
        return (
            f"Use {use}{_cheaper(answer)}. {it} significantly better than every model-free baseline at showing {asks}."
        )
    if answer.best:
        return f"No method can be recommended: `random` is the only baseline; better than it: {quoted(answer.best)}."
    return "No method can be recommended: none is significantly better than every model-free baseline."


def _nothing_decides(answer: Answer) -> str:
    if not answer.metrics:
        return "no method has a value" if answer.left_out else "nothing that was run compares methods yet"
    if not answer.methods:
        return "only baselines were compared"
    return f"no metric is reliable here ({'; '.join(dict.fromkeys(metric.unreliable for metric in answer.metrics))})"


def _cheaper(answer: Answer) -> str:
    """How many times as cheap as the dearest of the recommended methods the cheapest is, where it matters."""
    costs = [answer.costs[m].passes for m in answer.recommended if m in answer.costs]
    if len(costs) < 2 or not costs[0] > 0 or not costs[-1] >= 1.5 * costs[0]:
        return ""
    ratio = costs[-1] / costs[0]
    return f" (`{answer.recommended[0]}` is up to {ratio:.{0 if ratio >= 10 else 1}f}× cheaper)"


def _others(answer: Answer) -> str:
    """Who is behind, and who is not better than which baseline; the baseline that holds most back first."""
    if not answer.deciding:
        return ""
    behind = [m for m in answer.qualified if m not in answer.best]
    parts = [f"Also better than the baselines, but behind: {quoted(behind)}."] if behind else []
    groups: dict[str, list[str]] = {}
    for method in answer.methods:
        standings = answer.standings(method)
        if standings and method not in answer.qualified:
            groups.setdefault(min(standings, key=lambda one: one.lead.value).baseline, []).append(method)
    for baseline, methods in sorted(groups.items(), key=lambda group: -len(group[1]))[:2]:
        parts.append(f"Not better than `{baseline}`: {quoted(methods)}.")
    return " ".join(parts)


def _caveat(answer: Answer) -> str:
    """The one thing that limits the recommendation most."""
    if not answer.recommended:
        return ""
    first = answer.deciding[0]
    if first.question == "data":
        return f"Caveat: {first.label} measures {QUESTIONS['data']}, not {QUESTIONS['model']}."
    for kind, words in WARNINGS.items():
        flagged = [m for m in answer.recommended if any(flag.kind == kind for flag in answer.flags.get(m, ()))]
        if flagged:
            return f"Caveat: {words.format(quoted(flagged))}."
    if any(metric.trusted for metric in answer.deciding):
        return ""
    if first.board is None:
        return f"Caveat: whether {first.label} with these settings recovers known rankings has not been measured."
    return (
        f"Caveat: {first.label} recovers known rankings with τ = {first.board.recovery.value:.2f} only "
        f"(trusted from {LEAST:g})."
    )


# below the lines


def details_of(answer: Answer) -> tuple[str, ...]:
    """What decides, how far to believe it, who disagrees or is not reliable, checks, what would decide more."""
    lines = [_decided_by(answer), _trusted(answer), _disagreeing(answer), *_unreliable(answer), *_overconfident(answer)]
    lines += [*answer.checks, _would_decide(answer), _left_out(answer)]
    return tuple(line for line in lines if line)


def _decided_by(answer: Answer) -> str:
    if not answer.deciding or not answer.methods:
        return ""
    first = answer.deciding[0]
    return (
        f"Decided by {series([metric.label for metric in answer.deciding])} ({first.basis}): "
        f"{QUESTIONS[first.question]}. "
        f"Model-free baselines: {quoted(answer.baselines, 5)}."
    )


def _trusted(answer: Answer) -> str:
    """How well every reliable metric recovers known rankings, where exactly its settings were measured."""
    words = []
    for metric in answer.metrics:
        if not metric.unreliable:
            value = "not measured" if metric.board is None else f"{metric.board.recovery.value:.2f}"
            words.append(f"{metric.label} {value}{' (trusted)' * metric.trusted}")
    rule = f"Kendall's τ; trusted from {LEAST:g} with the interval above {LEAST_LOW:g}"
    return f"Recovery of known rankings ({rule}): {', '.join(words)}." if words else ""


def _disagreeing(answer: Answer) -> str:
    """Other reliable metrics about the same question that put another method significantly above the best one."""
    if not answer.best:
        return ""
    best = answer.qualified[0]
    others = [metric for metric in answer.metrics if not metric.unreliable and metric not in answer.deciding]
    above = {metric.label: [m for m in answer.methods if (m, best) in metric.significant] for metric in others}
    parts = [f"{label} puts {quoted(methods)} above it" for label, methods in above.items() if methods]
    return f"Other metrics disagree with `{best}`: {'; '.join(parts)}." if parts else ""


def _unreliable(answer: Answer) -> list[str]:
    reasons: dict[str, list[Evidence]] = {}
    for metric in answer.metrics:
        if metric.unreliable:
            reasons.setdefault(metric.unreliable, []).append(metric)
    return [f"Not reliable here: {series([m.label for m in metrics])} ({why})." for why, metrics in reasons.items()]


def _overconfident(answer: Answer) -> list[str]:
    """Evaluators that need more bits under some method's masks than guessing would."""
    sentences = []
    for metric in answer.metrics:
        if metric.excess:
            worst = max(metric.excess, key=lambda name: metric.excess[name])
            sentences.append(
                f"Overconfident: the {metric.label} needs more bits than guessing under the masks of "
                f"{quoted([*metric.excess])} (most: {metric.excess[worst]:.2f} bits for `{worst}`); scores are bounded."
            )
    return sentences


def _would_decide(answer: Answer) -> str:
    """How many images or replicates would decide the open comparison that is nearest to a decision."""
    if answer.deciding and answer.methods and answer.random_only:
        missing = quoted(NETWORK_FREE, 5)
        return f"A recommendation needs more baselines: add {missing} to the estimators."
    if not answer.deciding or answer.recommended:
        return ""
    needed = []
    for metric in answer.deciding:
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


def _left_out(answer: Answer) -> str:
    parts = [f"`{method}` ({reason.rstrip('.')})" for method, reason in answer.left_out.items()]
    return f"No value: {'; '.join(parts)}." if parts else ""
