"""What the numbers say, in sentences. Every sentence is built from the verdicts, none from hope."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from uproar.report.sections import Section
from uproar.report.words import (
    count,
    known,
    listed,
    number,
    percent,
    points,
    protocol_label,
    retrains,
)
from uproar.results import BASELINE


@dataclass(frozen=True)
class Answer:
    """Which method to trust for one task and model: the short answer, and what supports or limits it."""

    headline: str
    details: tuple[str, ...]


def answer(section: Section) -> Answer:
    """The answer for one task and model. Controls are never recommended: they explain nothing."""
    judged = section.judged
    if not judged:
        return Answer(_no_answer(section), ())
    methods = _methods(section)
    better = {p: [m for m in section.called(p, "better") if m in methods] for p in judged}
    agreed = [m for m in better[judged[0]] if all(m in better[p] for p in judged)]
    details = (*_details(section), *_control_details(section))
    if agreed:
        return Answer(_agreed(section, agreed), details)
    worse = {p: section.called(p, "worse") for p in judged}
    some = [m for m in methods if any(m in better[p] for p in judged)]
    clean = [m for m in some if not any(m in worse[p] for p in judged)]
    if clean:
        return Answer(_some(section, clean, better), details)
    if some:
        leak = [f"{LEAK} {fact}" for fact in leak_facts(section)]
        return Answer(_contradicted(section, some, methods), (*leak, *details))
    return Answer(_none(section, methods), details)


def _methods(section: Section) -> list[str]:
    """Compared estimators that look at the network."""
    first = section.verdicts[section.judged[0]]["estimator"]
    rest = [e for p in section.judged[1:] for e in section.verdicts[p]["estimator"]]
    return [e for e in dict.fromkeys([*first, *rest]) if e not in section.controls]


def _under(protocols: list[str]) -> str:
    names = [protocol_label(p) for p in protocols]
    return f"both {listed(names)}" if len(names) == 2 else listed(names)


def _agreed(section: Section, agreed: list[str]) -> str:
    under = _under(section.judged)
    verb = "beats" if len(agreed) == 1 else "beat"
    rivals = [c for c in section.controls if all(c in section.called(p, "better") for p in section.judged)]
    if rivals:
        look = "looks" if len(rivals) == 1 else "look"
        return (
            f"{listed(agreed, 3)} {verb} a random ranking under {under}, but so "
            f"{'does' if len(rivals) == 1 else 'do'} {listed(rivals)}, which never {look} at the network."
        )
    return f"Trust {listed(agreed, 3)} here: better than a random ranking under {under}."


def _some(section: Section, clean: list[str], better: dict[str, list[str]]) -> str:
    parts = []
    for protocol in section.judged:
        if names := [m for m in clean if m in better[protocol]]:
            verb = "beats" if len(names) == 1 else "beat"
            parts.append(f"{listed(names, 3)} {verb} a random ranking under {protocol_label(protocol)}")
    only = " only" if len(section.judged) > 1 else ""
    return f"{'; '.join(part + only for part in parts)}."


def _contradicted(section: Section, some: list[str], methods: list[str]) -> str:
    """The protocols disagree about every method that beats random anywhere."""
    first = some[0]
    up = [p for p in section.judged if first in section.called(p, "better")]
    down = [p for p in section.judged if first in section.called(p, "worse")]
    alike = [m for m in some if all(m in section.called(p, "better") for p in up)]
    alike = [m for m in alike if all(m in section.called(p, "worse") for p in down)]
    who = f"all {len(alike)} attribution methods" if alike == methods else listed(alike, 2)
    return (
        f"The protocols contradict each other: {who if len(methods) > 1 else first} "
        f"{'is' if len(alike) == 1 else 'are'} worse than a random ranking under "
        f"{listed([protocol_label(p) for p in down])} and better under "
        f"{listed([protocol_label(p) for p in up])}."
    )


LEAK = (
    "Both at once is what a leaking mask looks like: which pixels are missing gives the class away, "
    "and a retrained network reads it."
)


def leak_facts(section: Section) -> list[str]:
    """The strongest sign of a leaking mask: a method that is worse than random when its pixels are
    removed and better when they are kept, and the accuracy it leaves; empty if there is none."""
    removes = [p for p in section.judged if not section.higher_is_better[p]]
    keeps = [p for p in section.judged if section.higher_is_better[p]]
    both = [
        (p, m)
        for p in removes
        for m in section.called(p, "worse")
        if any(m in section.called(k, "better") for k in keeps)
    ]
    if not both:
        return []
    fractions = {p: float(section.curves[p]["fraction"].max()) for p, _ in both}
    reached = {(p, m): section.accuracy(p, m, fractions[p]) for p, m in both}
    protocol, worst = max(both, key=lambda key: reached[key] if known(reached[key]) else -1.0)
    t = fractions[protocol]
    return [
        f"With {percent(t, 0)} of the pixels removed where {worst} says, a retrained network still "
        f"reaches {percent(reached[protocol, worst])}; where chance says, "
        f"{percent(section.accuracy(protocol, BASELINE, t))}."
    ]


def _none(section: Section, methods: list[str]) -> str:
    worse = [m for m in methods if any(m in section.called(p, "worse") for p in section.judged)]
    n = replicates(section, section.judged[0])
    if not methods:
        return "No attribution method was compared with a random ranking, only controls."
    if not worse:
        return (
            f"No attribution method can be told apart from a random ranking with {count(n, 'replicate')}."
        )
    who = f"all {len(worse)}" if len(worse) == len(methods) else f"{len(worse)} of {len(methods)}"
    if len(methods) == 1:
        return f"{methods[0]} does not beat a random ranking here: it is worse."
    return f"No attribution method beats a random ranking here; {who} are worse."


def _no_answer(section: Section) -> str:
    if not any(retrains(p) for p in section.table["protocol"].unique()):
        return "No answer: nothing was retrained, and without retraining a network fails on what it never saw."
    if not section.curves:
        return "No answer yet: no cell is done."
    ranked = [p for p in section.curves if retrains(p)]
    if not ranked:
        return "No answer yet: no retrained network is done."
    if not any(BASELINE in set(section.curves[p]["estimator"]) for p in ranked):
        return f"No answer: there is no {BASELINE} ranking to compare with."
    return f"No answer yet: only the {BASELINE} ranking is done."


def replicates(section: Section, protocol: str) -> int:
    """The most replicates any comparison of a protocol rests on."""
    return int(section.verdicts[protocol]["n"].max())


def _details(section: Section) -> list[str]:
    """One sentence per protocol: how many are better, worse, undecided, and what could be seen."""
    lines = []
    for protocol in section.judged:
        frame = section.verdicts[protocol]
        better, worse = (len(section.called(protocol, k)) for k in ("better", "worse"))
        unclear = len(frame) - better - worse
        seen = frame["detectable"].median()
        limit = f"; {points(seen, False)} points would usually be found" if known(seen) else ""
        lines.append(
            f"{protocol_label(protocol)}: {better} of {count(len(frame), 'estimator')} better than "
            f"random, {worse} worse, {unclear} undecided "
            f"({count(replicates(section, protocol), 'replicate')}{limit})."
        )
    return lines


def _control_details(section: Section) -> list[str]:
    """What the estimators that never look at the network say about the benchmark itself."""
    lines = []
    for protocol in section.judged:
        winners = [c for c in section.called(protocol, "better") if c in section.controls]
        if not winners:
            continue
        methods = [e for e in section.verdicts[protocol]["estimator"] if e not in section.controls]
        gain = section.advantage(protocol, winners[0])
        line = (
            f"{winners[0]} never looks at the network and still gains {points(gain, False)} points over "
            f"random under {protocol_label(protocol)}"
        )
        ahead = [m for m in methods if section.advantage(protocol, m) > gain]
        if len(ahead) == len(methods):
            more = f"all {len(methods)} attribution methods gain more"
        else:
            more = f"{len(ahead) or 'none'} of {count(len(methods), 'attribution method')} gains more"
        lines.append(f"{line}; {more}." if methods else f"{line}.")
    return lines


def verdict_title(section: Section, protocol: str) -> str:
    """The finding of a protocol: who leads, how many beat random, how many are worse."""
    label, frame = protocol_label(protocol), section.verdicts.get(protocol)
    if frame is None:
        return f"{label}: nothing to compare with random yet"
    better, worse = section.called(protocol, "better"), section.called(protocol, "worse")
    total = count(len(frame), "estimator")
    tail = f"; {len(worse)} {'is' if len(worse) == 1 else 'are'} worse" if worse else ""
    if len(frame) == 1 and (better or worse):
        name = frame["estimator"].iloc[0]
        return f"{name} is {'better' if better else 'worse'} than random under {label}"
    if len(better) == 1:
        return f"Only {better[0]} of {total} beats random under {label}{tail}"
    if len(better) == len(frame) > 1:
        return f"All {total} beat random under {label}; {better[0]} leads"
    if better:
        return f"{better[0]} leads the {len(better)} of {total} that beat random under {label}{tail}"
    if worse:
        verb = "is" if len(worse) == 1 else "are"
        return f"No estimator beats random under {label}; {len(worse)} of {len(frame)} {verb} worse"
    n = count(replicates(section, protocol), "replicate")
    return f"No estimator can be told apart from random under {label} with {n}"


def retraining_title(section: Section, retrained: str, asked: str) -> str:
    """How the verdicts change when the original network is asked instead of a retrained one."""
    if retrained in section.verdicts and asked in section.verdicts:
        counts = []
        for protocol in (asked, retrained):
            frame = section.verdicts[protocol]
            counts.append(f"{len(section.called(protocol, 'better'))} of {len(frame)}")
        return (
            f"Without retraining {counts[0]} estimators seem to beat random under "
            f"{protocol_label(retrained)}; with retraining {counts[1]}"
        )
    return f"{protocol_label(retrained)} with and without retraining"


def picture_title(section: Section, protocol: str, fractions: list[float]) -> str:
    """The estimator and fraction furthest from random, for better or worse, in accuracies."""
    word = "kept" if section.higher_is_better[protocol] else "removed"
    gaps: dict[tuple[str, float], float] = {}
    for e in section.estimators:
        for t in fractions:
            gap = section.accuracy(protocol, e, t) - section.accuracy(protocol, BASELINE, t)
            if e != BASELINE and known(gap):
                gaps[e, t] = abs(gap)
    if not gaps:
        return f"What is left when each estimator chooses the pixels that are {word}"
    e, t = max(gaps, key=lambda key: gaps[key])
    own, other = (section.accuracy(protocol, name, t) for name in (e, BASELINE))
    return (
        f"With {percent(t, 0)} of the pixels {word}, a retrained network reaches {percent(own)} if {e} "
        f"chooses them and {percent(other)} if chance does"
    )


def gallery_title(signed: list[str], total: int) -> str:
    """How many estimators say what speaks against the class, and not only what matters."""
    if not signed:
        return f"None of the {count(total, 'estimator')} shown has negative values: a larger one means more important"
    return (
        f"{len(signed)} of {count(total, 'estimator')} shown {'has' if len(signed) == 1 else 'have'} "
        "negative values, which are ranked last"
    )


def cost_title(costs: pd.DataFrame) -> str:
    """The dearest and the cheapest estimator that look at the network."""
    timed = costs[costs["milliseconds_per_image"].notna() & (costs["passes"] > 0)]
    if timed.empty:
        return "No estimator that looks at the network has been timed yet"
    ordered = timed.sort_values("milliseconds_per_image", kind="stable")
    cheap, dear = ordered.iloc[0], ordered.iloc[-1]
    if len(ordered) == 1:
        return f"{dear['estimator']} takes {number(dear['milliseconds_per_image'])} ms per image"
    times = dear["milliseconds_per_image"] / cheap["milliseconds_per_image"]
    ratio = f", {number(times, 2)} times as long as {cheap['estimator']}" if known(times) else ""
    return (
        f"{dear['estimator']} takes longest, {number(dear['milliseconds_per_image'])} ms "
        f"per image{ratio}"
    )


def ties_title(shares: dict[tuple[str, float], float]) -> str:
    """Where chance had most to say about the order of the pixels."""
    real = {key: share for key, share in shares.items() if known(share)}
    if not real:
        return "No ties have been counted yet"
    (name, fraction), most = max(real.items(), key=lambda item: item[1])
    if most == 0:
        return "No cut fell among equally important pixels"
    return (
        f"{name} leaves most to chance: {percent(most)} of the pixels were ordered by the tie-break "
        f"alone at {percent(fraction, 0)}"
    )
