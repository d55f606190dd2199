"""The verdicts of the retrained protocols in sentences, each built from verdicts: what the papers would say."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.report.formatting import known, listed, percent, points, shortened
from uproar.report.section import Section
from uproar.statistics.design import BASELINE
from uproar.wording import counted


@dataclass(frozen=True)
class Summary:
    """What protocols or metrics say of the methods: in a sentence, and what supports or limits it."""

    headline: str
    details: tuple[str, ...]


def summary(section: Section) -> Summary:
    """What the retrained protocols say against random. Controls are never trusted: they explain nothing."""
    judged = section.retrained_protocols
    if not judged:
        return Summary(_no_answer(section), ())
    methods = _methods(section)
    better = {p: [m for m in section.with_verdict(p, "better") if m in methods] for p in judged}
    agreed = [m for m in better[judged[0]] if all(m in better[p] for p in judged)]
    details = (*_details(section), *_control_details(section))
    if agreed:
        return Summary(_agreed(section, agreed), details)
    worse = {p: section.with_verdict(p, "worse") for p in judged}
    some = [m for m in methods if any(m in better[p] for p in judged)]
    clean = [m for m in some if not any(m in worse[p] for p in judged)]
    if clean:
        return Summary(_some(section, clean, len(some) - len(clean)), details)
    if some:
        group, up, down = _largest_split(section, some)
        leak = [f"{LEAK} {fact}" for fact in leak_facts(section)[1:] if _leaky(section, up, down)]
        return Summary(_contradicted(section, group, up, down, methods), (*leak, *details))
    return Summary(_none(section, methods), details)


def _methods(section: Section) -> list[str]:
    """Compared estimators that look at the network."""
    first = section.verdicts[section.retrained_protocols[0]]["estimator"]
    rest = [e for p in section.retrained_protocols[1:] for e in section.verdicts[p]["estimator"]]
    return [e for e in dict.fromkeys([*first, *rest]) if e not in section.controls]


def _under(section: Section) -> str:
    names = [section.label(p) for p in section.retrained_protocols]
    return f"both {listed(names)}" if len(names) == 2 else listed(names)


def _agreed(section: Section, agreed: list[str]) -> str:
    under = _under(section)
    verb = "beats" if len(agreed) == 1 else "beat"
    rivals = [
        c for c in section.controls if all(c in section.with_verdict(p, "better") for p in section.retrained_protocols)
    ]
    if rivals:
        look = "looks" if len(rivals) == 1 else "look"
        return (
            f"{listed(agreed, 3)} {verb} a random ranking under {under}, but so "
            f"{'does' if len(rivals) == 1 else 'do'} {listed(rivals)}, which never {look} at the network."
        )
    return f"Trust {listed(agreed, 3)} here: better than a random ranking under {under}."


def _some(section: Section, clean: list[str], contradicted: int) -> str:
    """Who beats random where, of those that are worse nowhere; and of how many others the protocols disagree."""
    only = " only" if len(section.retrained_protocols) > 1 else ""
    parts = []
    for (up, _), names in _by_outcome(section, clean).items():
        verb, under = "beats" if len(names) == 1 else "beat", listed([section.label(p) for p in up])
        parts.append(f"{listed(names, 3)} {verb} a random ranking under {under}{only}")
    if contradicted:
        verb = "is" if contradicted == 1 else "are"
        parts.append(f"{counted(contradicted, 'other')} {verb} better under one protocol and worse under another")
    return f"{'; '.join(parts)}."


Outcome = tuple[tuple[str, ...], tuple[str, ...]]
"""The protocols under which a method is better than random, and those under which it is worse."""


def _by_outcome(section: Section, methods: list[str]) -> dict[Outcome, list[str]]:
    """The methods by where they are better and where worse."""
    groups: dict[Outcome, list[str]] = {}
    for m in methods:
        up = tuple(p for p in section.retrained_protocols if m in section.with_verdict(p, "better"))
        down = tuple(p for p in section.retrained_protocols if m in section.with_verdict(p, "worse"))
        groups.setdefault((up, down), []).append(m)
    return groups


Split = tuple[list[str], list[str], list[str]]


def _largest_split(section: Section, some: list[str]) -> Split:
    """The most methods the protocols disagree about in one way; where they are better, where worse."""
    (up, down), group = max(_by_outcome(section, some).items(), key=lambda item: len(item[1]))
    return group, list(up), list(down)


def _contradicted(section: Section, group: list[str], up: list[str], down: list[str], methods: list[str]) -> str:
    everyone = len(group) == len(methods) > 1
    who = f"{_every(len(group))} attribution methods" if everyone else listed(group, 2)
    return (
        f"The protocols contradict each other: {who} {'is' if len(group) == 1 else 'are'} worse than a "
        f"random ranking under {listed([section.label(p) for p in down])} and better under "
        f"{listed([section.label(p) for p in up])}."
    )


def _leaky(section: Section, up: list[str], down: list[str]) -> bool:
    """Whether a disagreement is the one a leaking mask causes: bad to remove, good to keep."""
    removes = not any(section.protocols[p].higher_is_better for p in down)
    return removes and all(section.protocols[p].higher_is_better for p in up)


LEAK = (
    "Both at once is what a leaking mask looks like: which pixels are missing gives the class away, "
    "and a retrained network reads it."
)


def leak_facts(section: Section) -> list[str]:
    """How many estimators look as if their mask leaked, and the clearest example; empty if none does.

    They are worse than random when their pixels are removed and better when they are kept.
    """
    removes = [p for p in section.retrained_protocols if not section.protocols[p].higher_is_better]
    keeps = [p for p in section.retrained_protocols if section.protocols[p].higher_is_better]
    kept = {m for p in keeps for m in section.with_verdict(p, "better")}
    both = [(p, m) for p in removes for m in section.with_verdict(p, "worse") if m in kept]
    last = {p: float(section.curves[p]["fraction"].max()) for p in removes}
    reached = {(p, m): section.accuracy(p, m, last[p]) for p, m in both}
    reached = {key: value for key, value in reached.items() if known(value)}
    if not reached:
        return []
    (protocol, example), accuracy = max(reached.items(), key=lambda item: item[1])
    many = len({m for _, m in both})
    return [
        f"{counted(many, 'estimator')} {'is' if many == 1 else 'are'} worse than random when the pixels "
        "are removed and better when they are kept.",
        f"With {percent(last[protocol], 0)} of the pixels removed in the order of {shortened(example, 48)}, "
        f"a retrained network still reaches {percent(accuracy)}; in random order, "
        f"{percent(section.accuracy(protocol, BASELINE, last[protocol]))}.",
    ]


def _none(section: Section, methods: list[str]) -> str:
    worse = [m for m in methods if any(m in section.with_verdict(p, "worse") for p in section.retrained_protocols)]
    n = replicates(section, section.retrained_protocols[0])
    if not methods:
        return "No attribution method was compared with a random ranking, only controls."
    if not worse:
        return f"No attribution method can be told apart from a random ranking with {counted(n, 'replicate')}."
    who = _every(len(worse)) if len(worse) == len(methods) else f"{len(worse)} of {len(methods)}"
    if len(methods) == 1:
        return f"{listed(methods)} does not beat a random ranking here: it is worse."
    verb = "is" if len(worse) == 1 else "are"
    return f"No attribution method beats a random ranking here; {who} {verb} worse."


def _no_answer(section: Section) -> str:
    if not any(section.protocols[p].retrains for p in section.table["protocol"].unique()):
        return "No answer: nothing was retrained, and without retraining a network fails on what it never saw."
    if not section.curves:
        return "No answer yet: no cell is done."
    ranked = [p for p in section.curves if section.protocols[p].retrains]
    if not ranked:
        return "No answer yet: no retrained network is done."
    if not any(BASELINE in set(section.curves[p]["estimator"]) for p in ranked):
        return f"No answer: there is no {BASELINE} ranking to compare with."
    if section.remarks:
        return f"No answer: {section.remarks[0]}"
    return f"No answer yet: only the {BASELINE} ranking is done."


def replicates(section: Section, protocol: str) -> int:
    """The most replicates any comparison of a protocol rests on."""
    return int(section.verdicts[protocol]["n"].max())


def _details(section: Section) -> list[str]:
    """One sentence per protocol: how many are better, worse, undecided, and what is detectable."""
    lines = []
    for protocol in section.retrained_protocols:
        frame = section.verdicts[protocol]
        better, worse = (len(section.with_verdict(protocol, k)) for k in ("better", "worse"))
        unclear = len(frame) - better - worse
        detectable = frame["detectable"].median()
        limit = f"; a difference of {points(detectable, False)} points would usually show" if known(detectable) else ""
        lines.append(
            f"{section.label(protocol)}: {better} of {counted(len(frame), 'estimator')} better than "
            f"random, {worse} worse, {unclear} undecided "
            f"({counted(replicates(section, protocol), 'replicate')}{limit})."
        )
    return lines


def _every(n: int) -> str:
    """All of several things, in words."""
    return "both" if n == 2 else f"all {n}"


def _control_details(section: Section) -> list[str]:
    """What the estimators that never look at the network say about the benchmark itself."""
    lines = []
    for protocol in section.retrained_protocols:
        winners = [c for c in section.with_verdict(protocol, "better") if c in section.controls]
        if not winners:
            continue
        methods = [e for e in section.verdicts[protocol]["estimator"] if e not in section.controls]
        gain = section.advantage(protocol, winners[0])
        line = (
            f"{listed(winners[:1])} never looks at the network and still gains {points(gain, False)} points over "
            f"random under {section.label(protocol)}"
            f"{', allowing for stopping early' if 'adjusted' in section.verdicts[protocol] else ''}"
        )
        ahead = [m for m in methods if section.advantage(protocol, m) > gain]
        verb = "gain" if len(ahead) > 1 else "gains"
        if len(ahead) == len(methods) > 1:
            more = f"{_every(len(methods))} attribution methods gain more"
        elif len(methods) == 1:
            more = f"{listed(methods)} gains {'more' if ahead else 'no more'}"
        else:
            more = f"{len(ahead) or 'none'} of {len(methods)} attribution methods {verb} more"
        lines.append(f"{line}; {more}." if methods else f"{line}.")
    return lines
