"""Titles that state what a figure shows, made from the numbers it shows."""

from __future__ import annotations

import pandas as pd

from uproar.report.findings import replicates
from uproar.report.formatting import known, listed, number, percent, shortened
from uproar.report.section import Section
from uproar.statistics.design import BASELINE
from uproar.wording import counted


def curve_title(section: Section, protocol: str) -> str:
    """The finding behind a protocol's curves; of one that judges no estimator, what its curves are."""
    kind, label = section.protocols[protocol], section.label(protocol)
    if not kind.judges:
        moved = "the control, every mask moved to another place"
        return f"{label}: {moved if kind.test.of == 'shifted' else 'no estimator is judged by it'}"
    return _evaluator_title(section, protocol) if kind.evaluator else verdict_title(section, protocol)


def _evaluator_title(section: Section, protocol: str) -> str:
    """The finding of the evaluator's score, which has both directions in it."""
    label, target = section.label(protocol), section.protocols[protocol].target
    if target not in section.evaluator:
        return f"{label}: nothing to compare with random yet"
    frame = section.evaluator[target]
    better, worse = (frame.loc[sign * frame["side"] > 0, "estimator"].tolist() for sign in (1, -1))
    of = " for the network's predictions" if target == "answer" else ""
    score = f"by the evaluator's score{of} (own masks against the same ones shifted, not the accuracies below)"
    return _finding(frame, better, worse, score, int(frame["replicates"].max()))


def verdict_title(section: Section, protocol: str) -> str:
    """The finding of a protocol: who leads, how many beat random, how many are worse."""
    label, frame = section.label(protocol), section.verdicts.get(protocol)
    if frame is None:
        return f"{label}: nothing to compare with random yet"
    better, worse = section.with_verdict(protocol, "better"), section.with_verdict(protocol, "worse")
    return _finding(frame, better, worse, f"under {label}", replicates(section, protocol))


def _finding(frame: pd.DataFrame, better: list[str], worse: list[str], judged: str, n: int) -> str:
    """Who beats random; `frame` has a row per estimator, `judged` says by what and `n` with how many replicates."""
    total = counted(len(frame), "estimator")
    tail = f"; {len(worse)} {'is' if len(worse) == 1 else 'are'} worse" if worse else ""
    if len(frame) == 1 and (better or worse):
        name = shortened(str(frame["estimator"].iloc[0]), 48)
        return f"{name} is {'better' if better else 'worse'} than random {judged}"
    best = listed(better[:1])
    if len(better) == 1:
        return f"Only {best} of {total} beats random {judged}{tail}"
    if len(better) == len(frame) > 1:
        return f"All {total} beat random {judged}; {best} leads"
    if better:
        return f"{best} leads the {len(better)} of {total} that beat random {judged}{tail}"
    if worse:
        verb = "is" if len(worse) == 1 else "are"
        return f"No estimator beats random {judged}; {len(worse)} of {len(frame)} {verb} worse"
    return f"No estimator can be told apart from random {judged} with {counted(n, 'replicate')}"


def retraining_title(section: Section, retrained: str, asked: str) -> str:
    """How the verdicts change when the original network is asked instead of a retrained one."""
    if retrained in section.verdicts and asked in section.verdicts:
        counts = []
        for protocol in (asked, retrained):
            frame = section.verdicts[protocol]
            counts.append(f"{len(section.with_verdict(protocol, 'better'))} of {len(frame)}")
        return (
            f"Without retraining {counts[0]} estimators seem to beat random under "
            f"{section.label(retrained)}; with retraining {counts[1]}"
        )
    return f"{section.label(retrained)} with and without retraining"


def picture_title(section: Section, protocol: str, fractions: list[float]) -> str:
    """The estimator and fraction furthest from random, for better or worse, in accuracies."""
    word = "kept" if section.protocols[protocol].higher_is_better else "removed"
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
        f"With {percent(t, 0)} of the pixels {word}, {asked_network(section, protocol)[0]} reaches {percent(own)} if "
        f"{shortened(e, 48)} chooses them and {percent(other)} if chance does"
    )


def asked_network(section: Section, protocol: str) -> tuple[str, str]:
    """Which network gives the accuracies of a protocol: in a sentence about one, and as what they are of."""
    kind = section.protocols[protocol]
    if kind.evaluator:
        return "the evaluator", "the evaluator, which was trained with masks that know nothing of the image"
    if kind.retrains:
        return "a retrained network", "networks trained on images changed this way"
    return "the original network", "the original network on images changed this way"


def gallery_title(signed: list[str], total: int) -> str:
    """How many estimators say what speaks against the class, and not only what matters."""
    if not signed:
        return f"None of the {counted(total, 'estimator')} shown has negative values: a larger one means more important"
    return (
        f"{len(signed)} of {counted(total, 'estimator')} shown {'has' if len(signed) == 1 else 'have'} "
        "negative values, which are ranked last"
    )


def cost_title(costs: pd.DataFrame) -> str:
    """The slowest and the fastest estimator that look at the network."""
    timed = costs[costs["milliseconds_per_image"].notna() & (costs["passes"] > 0)]
    if timed.empty:
        return "No estimator that looks at the network has been timed yet"
    ordered = timed.sort_values("milliseconds_per_image", kind="stable")
    fast, slow = ordered.iloc[0], ordered.iloc[-1]
    if len(ordered) == 1:
        return f"{shortened(slow['estimator'], 48)} takes {number(slow['milliseconds_per_image'])} ms per image"
    times = slow["milliseconds_per_image"] / fast["milliseconds_per_image"]
    ratio = f", {number(times, 2)} times as long as {shortened(fast['estimator'], 48)}" if known(times) else ""
    return (
        f"{shortened(slow['estimator'], 48)} takes longest, {number(slow['milliseconds_per_image'])} ms "
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
        f"{shortened(name, 48)} leaves most to chance: {percent(most)} of the pixels were ordered by the tie-break "
        f"alone at {percent(fraction, 0)}"
    )
