"""The answer in words: the sentence that all pages, terminals and Python share, and the details below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from uproar.results.flags import Kind as FlagKind
from uproar.results.judges import QUESTIONS, Judge, informed
from uproar.results.recovery import LEAST, LEAST_LOW
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.answer import Answer, Level

RANKINGS: Mapping[str, str] = {
    "random": "a random ranking",
    "brightness": "a ranking by brightness",
    "centre": "a ranking from the centre outwards",
    "sobel": "a ranking by edges",
    "block_random": "a random block",
}
"""Controls as a sentence calls them."""

FAILS: Mapping[FlagKind, tuple[str, str]] = {
    "encodes": ("encodes the class in its masks", "encode the class in their masks"),
    "fails sanity": ("fails the sanity check", "fail the sanity check"),
    "unstable": ("is unstable", "are unstable"),
}


def sentence_of(answer: Answer) -> str:
    """One sentence that a practitioner can act on."""
    if not answer.deciding:
        return f"No method can be recommended: {_no_judge(answer)}."
    if not answer.methods:
        return f"No method can be recommended: {_no_method(answer)}."
    parts = [_lead(answer), _tied(answer), *_below_bar(answer), *_flagged(answer), _judged_by(answer), _doubt(answer)]
    return f"{'; '.join(part for part in parts if part)}."


def ranking(control: str) -> str:
    """A network-free ranking in words.

    >>> ranking("brightness"), ranking("constant")
    ('a ranking by brightness', '`constant`, which never looks at the network')
    """
    return RANKINGS.get(control, f"`{control}`, which never looks at the network")


def names(methods: Sequence[str], most: int = 3) -> str:
    """Methods in a sentence; beyond `most`, the rest is counted.

    >>> names(["ig", "grad"]), names(list("abcdef"))
    ('`ig` and `grad`', '`a`, `b`, `c` and 3 others')
    """
    shown = [f"`{method}`" for method in methods]
    if len(shown) > most + 1:
        shown = [*shown[:most], f"{len(shown) - most} others"]
    return series(shown)


def _no_judge(answer: Answer) -> str:
    if not answer.judges:
        return "no method could be judged" if answer.left_out else "nothing that was run judges methods yet"
    reasons = dict.fromkeys(judge.unable for judge in answer.judges)
    return f"no judge here is able to judge ({'; '.join(reasons)})"


def _no_method(answer: Answer) -> str:
    """Why judges that are able to judge have no method to judge."""
    told = any(informed(name) for judge in answer.judges for name in judge.values)
    controls = "rankings that are told the important pixels or the class" if told else "network-free rankings"
    return f"only {controls} were judged, which are controls"


def _lead(answer: Answer) -> str:
    best = answer.leading
    if answer.recommended is not None:
        return f"Use `{best}`"
    if best is not None:
        return (
            f"No method can be recommended, since a random ranking is the only control here: the best against it is "
            f"`{best}`"
        )
    if any(answer.passes_bar(m) for m in answer.methods):
        return "No method can be recommended: those that beat every network-free ranking fail other checks"
    ahead = _ahead(answer)
    if ahead:
        verb = "is" if len(ahead) == 1 else "are"
        return (
            f"No method can be recommended yet: {names(ahead)} {verb} ahead of every network-free ranking, but not "
            f"decidedly with {answer.deciding[0].basis}"
        )
    shown = "shown to be " * bool(_at(answer, "undecided"))
    return f"No method can be recommended: none is {shown}better than the best network-free ranking"


def _tied(answer: Answer) -> str:
    best = answer.leading
    if best is None:
        return ""
    apart = [method for method in answer.qualified[1:] if method not in answer.tied]
    above = [method for method in apart if answer.preferred(method, best)]
    after = [method for method in apart if method not in above]
    it = f"`{best}`" if answer.recommended is None else "it"
    parts = [f"{names(answer.tied)} cannot be told from {it}"] if answer.tied else []
    parts += [f"{names(above)} {_is(above)} above {it} by one judge, but not by mean rank"] if above else []
    parts += [f"{names(after)} {'comes' if len(after) == 1 else 'come'} after {it}"] if after else []
    return "; ".join(parts)


def _is(methods: Sequence[str]) -> str:
    return "is" if len(methods) == 1 else "are"


def _at(answer: Answer, level: Level) -> list[str]:
    """The methods that the deciding judges place at one level at best, best first."""
    order = ("better", "undecided", "no better", "worse")
    sentences = []
    for method in answer.methods:
        levels = [placing.level for placing in answer.placings(method)]
        worst = "worse" if "worse" in levels else min(levels, key=order.index, default="")
        if worst == level:
            sentences.append(method)
    return sentences


def _ahead(answer: Answer) -> list[str]:
    """The methods that are ahead of every network-free ranking under a deciding judge, but not decidedly."""
    placed = {method: answer.placings(method) for method in _at(answer, "undecided")}
    return [m for m, placings in placed.items() if any(one.level == "undecided" and one.ahead for one in placings)]


def _below_bar(answer: Answer) -> list[str]:
    """Who cannot be told from which network-free ranking, and who is no better; the ranking that holds most first."""
    named = _ahead(answer) if answer.leading is None else []
    undecided = _by_control(answer, ("undecided",), named)
    below = _by_control(answer, ("no better", "worse"))
    parts = [f"{_who(answer, methods)} cannot be told from {ranking(c)}" for c, methods in undecided.items()]
    for control, methods in below.items():
        verb = "is" if len(methods) == 1 else "are"
        parts.append(f"{_who(answer, methods)} {verb} no better than {ranking(control)}")
    return parts


def _who(answer: Answer, methods: Sequence[str]) -> str:
    return f"all {len(methods)}" if len(methods) == len(answer.methods) > 1 else names(methods, 2)


def _by_control(answer: Answer, levels: Sequence[Level], named: Sequence[str] = ()) -> dict[str, list[str]]:
    """The methods at some levels by the network-free ranking that holds them there: the two that hold most."""
    groups: dict[str, list[str]] = {}
    for method in (method for level in levels for method in _at(answer, level) if method not in named):
        control = next(placing.control for placing in answer.placings(method) if placing.level in levels)
        groups.setdefault(control, []).append(method)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1]))[:2])


def _flagged(answer: Answer) -> list[str]:
    parts = []
    for kind, (one, several) in FAILS.items():
        flagged = [m for m in answer.methods if any(flag.kind == kind for flag in answer.flags.get(m, ()))]
        if len(flagged) == 1:
            parts.append(f"{names(flagged)} {one}")
        elif flagged:
            parts.append(f"{len(flagged)} of {len(answer.methods)} {several}")
    return parts


def _judged_by(answer: Answer) -> str:
    if answer.deciding[0].kind == "evaluator":
        return ""
    evaluators = [judge for judge in answer.judges if judge.kind == "evaluator"]
    if not evaluators:
        why = "without an evaluator"
    else:
        why = "the evaluator is less trusted" if evaluators[0].votes else "the evaluator is unable to judge here"
    return f"judged by {_few_labels(answer.deciding)} alone, {why}"


def _doubt(answer: Answer) -> str:
    """How far to believe judges of which none recovers known orders well enough to be trusted; nothing otherwise."""
    known = [judge for judge in answer.deciding if judge.known is not None]
    if not known or any(judge.trusted for judge in answer.deciding):
        return ""
    scores = [f"{judge.label} scores {judge.known.recovery.value:.2f}" for judge in known if judge.known is not None]
    return f"low confidence: {series(scores)} on benchmarks with known answers (trusted from {LEAST:g})"


def _few_labels(judges: Sequence[Judge], most: int = 4) -> str:
    """The labels of judges; of many, the settings of a metric are counted. The details name all."""
    if len(judges) <= most:
        return _labels(judges)
    names = [judge.label.partition("(")[0].strip() for judge in judges]
    often = Counter(names)
    return series([name if often[name] == 1 else f"{name} (in {often[name]} settings)" for name in often])


def _labels(judges: Sequence[Judge]) -> str:
    labels = list(dict.fromkeys(judge.label for judge in judges))
    return series(labels)


# below the sentence


def details_of(answer: Answer) -> tuple[str, ...]:
    """What decides, who disagrees, who cannot judge, what checks found, what would tell."""
    lines = [_decided_by(answer), _trusted(answer), _disagreeing(answer), *_unable(answer), *answer.check_results]
    lines += [answer.would_tell, _left_out(answer)]
    return tuple(line for line in lines if line)


def _decided_by(answer: Answer) -> str:
    if not answer.deciding or not answer.methods:
        return ""
    judge = answer.deciding[0]
    asks = " and ".join(QUESTIONS[question] for question in dict.fromkeys(j.question for j in answer.deciding))
    controls = names(answer.controls, 5)
    return (
        f"Decided by {_labels(answer.deciding)} ({judge.basis}), which measures {asks}. Baseline: the best ranking "
        f"that ignores the network, of {controls}."
    )


def _trusted(answer: Answer) -> str:
    """The recovery of every judge that is able to judge, where the board has it."""
    known = [judge for judge in answer.judges if judge.votes and judge.known is not None]
    if not known:
        return ""
    each = {
        judge.label: f"{judge.known.recovery.value:.2f}{' (trusted)' * judge.trusted}"
        for judge in known
        if judge.known is not None
    }
    listed = ", ".join(f"{label} {value}" for label, value in each.items())
    return (
        f"Agreement with known rankings (Kendall's τ; trusted from {LEAST:g} with the interval above {LEAST_LOW:g}): "
        f"{listed}."
    )


def _disagreeing(answer: Answer) -> str:
    """Other judges that decidedly prefer another method to the recommended one."""
    best = answer.leading
    others = [judge for judge in answer.judges if judge.votes and judge not in answer.deciding]
    prefer = {judge.label: [m for m in answer.methods if judge.beats(m, best)] for judge in others if best is not None}
    parts = [f"{label} puts {names(methods)} above it" for label, methods in prefer.items() if methods]
    return f"Other judges disagree with `{best}`: {'; '.join(parts)}." if parts else ""


def _unable(answer: Answer) -> list[str]:
    reasons: dict[str, list[Judge]] = {}
    for judge in answer.judges:
        if not judge.votes:
            reasons.setdefault(judge.unable, []).append(judge)
    verb = {True: "is", False: "are"}
    return [
        f"{_labels(judges)} {verb[len(judges) == 1]} unable to judge here: {why}." for why, judges in reasons.items()
    ]


def _left_out(answer: Answer) -> str:
    parts = [f"`{method}` ({reason.rstrip('.')})" for method, reason in answer.left_out.items()]
    return f"Not judged: {'; '.join(parts)}." if parts else ""
