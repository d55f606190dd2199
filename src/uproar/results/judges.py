"""The judges of attribution methods: what each asks, what it measured, and whether it may judge here.

A judge is a protocol or a metric with a value per method and a test of every pair. Five kinds are trusted, in this
order; the first kind that has a judge able to judge decides, the others are shown beside it:

    evaluator    a network trained so that a mask's shape cannot reveal the class
    of answers   the same asked for the explained network's prediction instead of the label
    fine-tuned   the explained network, tuned so that changed images are no longer strange to it
    filled       the explained network as it is, on filled images
    retrained    networks trained anew on the method's own masks, which may give the class away

A judge that fails one of the `CHECKS` is unable to judge here: it is shown with the reason and does not vote. Of those
that are able, the ones that recover known orders decide (`Judge.trusted`, the rule of `results/recovery.py` on the
kinds that matter here). Where none of them is trusted the others decide, and the answer says with which recovery: what
they found is all there is, and how far to believe it is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from uproar.errors import UproarError
from uproar.estimators import read_chain
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.registry import family_of
from uproar.results.controls import NegativeControl, network_free
from uproar.results.evaluator import LEAST_EVALUATORS, EvaluatorScores
from uproar.results.recovery import MATTER, OF_CLASSES, JudgeRecovery, trust
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Interval
from uproar.wording import counted

if TYPE_CHECKING:
    from uproar.results.quality import NetworkQuality
    from uproar.results.scores import Curves, Scores
    from uproar.results.view import StudyView

Kind = Literal["evaluator", "of answers", "fine-tuned", "filled", "retrained"]
KINDS: tuple[Kind, ...] = ("evaluator", "of answers", "fine-tuned", "filled", "retrained")
"""The kinds of judges, the most trusted first."""

Question = Literal["data", "model"]
QUESTIONS: Mapping[Question, str] = {
    "data": "what can still be known from the pixels that are left",
    "model": "what this network uses",
}
"""What a judge asks: is the map true to the data, or to the model?"""

METRICS: Mapping[str, Kind] = {
    "ffid_plus": "fine-tuned",
    "ffid_minus": "fine-tuned",
    "idsds": "fine-tuned",
    "road": "filled",
    "road_lerf": "filled",
    "road_gap": "filled",
    "deletion": "filled",
    "insertion": "filled",
}
"""The metrics that judge; variants of released code (`road:leemann`) count as the metric. All others describe maps, or
ask something else, such as where an object is."""

CONTRADICTING = ("roar", "kar")
"""Neither of these two votes where methods are worse than random by the first and better by the second."""

IN_DOMAIN = 0.1
"""The share of pixels, drawn at random, that a network must bear to lose for filled images to tell it anything."""


@dataclass(frozen=True)
class Pair:
    """Two methods under a judge: how far the better one leads, on a scale where larger is better."""

    lead: Interval
    decided: bool


@dataclass(frozen=True)
class Judge:
    """One judge with what it measured."""

    name: str
    """As the study or the scores name it."""
    label: str
    """A name without options, where no other judge has the same."""
    kind: Kind
    question: Question
    values: Mapping[str, float]
    """By method and control; larger is better."""
    pairs: Mapping[tuple[str, str], Pair]
    """By the better and the worse of two."""
    of: Literal["images", "replicates"]
    images: int = 0
    replicates: int = 1
    seconds: float | None = None
    """What it took, explaining included, where that was measured."""
    random_curve: tuple[tuple[float, float], ...] = ()
    """Share of pixels filled in random order and what the network's answer is then, where the judge has it."""
    unable: str = ""
    """Why it cannot judge here; empty where it votes."""
    known: JudgeRecovery | None = None
    """How well it recovers known orders, as the board has it; None where the board has not asked it."""
    available_images: int | None = None
    """How many test images the task has, used or not, where that is known."""

    @property
    def trusted(self) -> bool:
        """Whether it recovers known orders well enough to decide before judges that do not."""
        return self.known is not None and self.known.trusted

    @property
    def votes(self) -> bool:
        """Whether it takes part in the answer."""
        return not self.unable

    @property
    def untested(self) -> bool:
        """Whether there is too little to test anything: one image, one replicate of trainings, or one evaluator."""
        if self.kind in ("evaluator", "of answers"):
            return self.replicates < LEAST_EVALUATORS
        return self.n < 2

    @property
    def n(self) -> int:
        """How many of what it pairs."""
        return self.replicates if self.of == "replicates" else self.images

    @property
    def basis(self) -> str:
        """What its numbers rest on, in words."""
        replicates, images = counted(self.replicates, "replicate"), counted(self.images, "image")
        if self.of == "replicates":
            return replicates
        return f"{replicates} of {images}" if self.replicates > 1 else images

    @property
    def tests(self) -> int:
        """Pairs that share its error rate."""
        return len(self.pairs)

    def beats(self, first: str, second: str) -> bool:
        """Whether the first is decidedly better than the second."""
        pair = self.pairs.get((first, second))
        return pair is not None and pair.decided

    def at_least(self, first: str, second: str) -> bool:
        """Whether the interval of the difference, of this pair alone, lies wholly at or above 0: no worse."""
        pair = self.pairs.get((first, second))
        return pair is not None and pair.lead.low >= 0


# what a study and scores have


def judges_of_scores(scores: Scores) -> list[Judge]:
    """The judges of scores: evaluators, where there were training images for them, and the metrics that judge."""
    evaluators = {target: EvaluatorScores(bits, target=target) for target, bits in scores.evaluations.items()}
    judges = [evaluator_judge(target, own, scores.seconds) for target, own in evaluators.items() if len(own.verdicts)]
    kinds = {str(metric): kind_of_metric(str(metric)) for metric in scores.table["metric"].unique()}
    judging = {metric: kind for metric, kind in kinds.items() if kind is not None}
    settings = Counter(parse(metric).name for metric in judging)
    for metric, kind in judging.items():
        rows = scores.table[scores.table["metric"] == metric]
        ranked = rows[rows["ranked"] & rows["value"].notna()]
        if ranked.empty:
            continue
        sign = 1 if bool(rows["higher_is_better"].iloc[0]) else -1
        name = parse(metric).name
        judges.append(
            Judge(
                metric,
                name if settings[name] == 1 else metric,
                kind,
                metrics[name].facts.get("true_to") or "model",
                {str(row.method): sign * float(row.value) for row in ranked.itertuples()},
                _pairs(scores.comparisons[scores.comparisons["metric"] == metric], sign),
                "images",
                int(ranked["n"].max()),
                scores.replicates,
                scores.seconds,
                _random_curve(scores.curves.get(metric), name),
                _why_failed(scores.negative_controls.get(metric)),
            )
        )
    return judges


def judges_of_view(view: StudyView) -> list[Judge]:
    """The judges of one task and model of a study: its evaluators, its metrics and its retrained protocols."""
    scores, seconds = view.metric_scores, view.seconds
    evaluators = [evaluator_judge(target, own, seconds) for target, own in view.evaluators.items() if len(own.verdicts)]
    measured = [] if scores is None else judges_of_scores(replace(scores, seconds=seconds))
    return [
        replace(judge, available_images=view.available_images) for judge in (*evaluators, *measured, *_retrained(view))
    ]


def evaluator_judge(target: str, scores: EvaluatorScores, seconds: float | None) -> Judge:
    """An evaluator as a judge: its own verdicts against network-free rankings and random, its own pairs of methods."""
    table, sides = scores.table, dict(zip(scores.verdicts["estimator"], scores.verdicts["side"], strict=True))
    pairs = _pairs(scores.pairs, 1)
    for (method, control), gap in scores.differences.items():
        ahead = gap.value >= 0
        side = sides[method]
        decided = side == 2 or (control == BASELINE and side == (1 if ahead else -1))
        pairs[(method, control) if ahead else (control, method)] = Pair(gap if ahead else -gap, decided)
    kind: Kind = "evaluator" if target == "label" else "of answers"
    return Judge(
        scores.name,
        "evaluator" if target == "label" else "evaluator (model's predictions)",
        kind,
        "data" if target == "label" else "model",
        dict(zip(table["estimator"].map(str), table["score"].astype(float), strict=True)),
        pairs,
        "images",
        int(table["n"].max()),
        int(table["replicates"].max()),
        seconds,
        unable=_why_failed(scores.negative_control),
    )


def _why_failed(control: NegativeControl | None) -> str:
    """Why a judge whose negative control failed cannot judge here; nothing where it did not."""
    if control is None or not control.failed:
        return ""
    below = f", {control.worse} decidedly below" if control.worse else ""
    return f"none of {counted(control.methods, 'method')} is decidedly above random rankings{below}"


def _retrained(view: StudyView) -> list[Judge]:
    """The retrained protocols as judges."""
    retrained, seconds = [], view.seconds
    for name, verdicts in view.verdicts.items():
        protocol = view.results.protocols[name]
        if protocol.retrains:
            against = {str(row.estimator): _against_random(row) for row in verdicts.itertuples()}
            pairs = {((e, BASELINE) if ahead else (BASELINE, e)): pair for e, (ahead, pair) in against.items()}
            others = _pairs(view.comparisons.get(name, pd.DataFrame()), protocol.direction)
            values = dict(zip(verdicts["estimator"].map(str), verdicts["advantage"].astype(float), strict=True))
            replicates = int(verdicts["n"].max())
            retrained.append(
                Judge(
                    name,
                    protocol.label,
                    "retrained",
                    protocol.true_to,
                    {BASELINE: 0.0, **values},
                    {**pairs, **others},
                    "replicates",
                    replicates=replicates,
                    seconds=seconds,
                    unable=_why_failed(view.negative_controls.get(name)),
                )
            )
    return retrained


def kind_of_metric(metric: str) -> Kind | None:
    """The kind of judge a metric is; None for one that does not judge, or that nobody has declared here."""
    try:
        name = parse(metric).name
        return METRICS.get(family_of(name)) if name in metrics else None
    except UproarError:
        return None


def _pairs(frame: pd.DataFrame, sign: int) -> dict[tuple[str, str], Pair]:
    """The rows of a table of comparisons that were tested."""
    pairs = {}
    for row in frame[frame["ranked"]].itertuples() if len(frame) else ():
        lead = Interval(row.difference, row.low, row.high, int(row.n), int(row.replicates), row.df, row.p)
        pairs[str(row.better), str(row.worse)] = Pair(lead if sign > 0 else -lead, row.side == 1)
    return pairs


def _against_random(row: object) -> tuple[bool, Pair]:
    """A verdict against random as a pair, and whether the estimator is ahead."""
    lead = Interval(row.advantage, row.low, row.high, int(row.n), int(row.n), row.df, row.p)  # type: ignore[attr-defined]
    ahead = lead.value >= 0
    return ahead, Pair(lead if ahead else -lead, row.side != 0)  # type: ignore[attr-defined]


def _random_curve(curves: Curves | None, name: str) -> tuple[tuple[float, float], ...]:
    """The curve of the random ranking by the share of pixels that are filled."""
    if curves is None or BASELINE not in curves.lines:
        return ()
    axis = metrics[name].facts["axis"]
    filled = 1 - curves.fractions if axis is not None and axis.of_shown else curves.fractions
    points = zip(filled.tolist(), np.asarray(curves.lines[BASELINE].mean).tolist(), strict=True)
    return tuple(sorted(points))


# which are able to judge here


def informed(name: str) -> bool:
    """Whether a ranking is told the important pixels or the class (`oracle`, `label_cue`): no method, no control."""
    try:
        return read_chain(name).role == "truth"
    except UproarError:
        return False


def check_judges(judges: Sequence[Judge], kinds: Iterable[str] = MATTER) -> list[Judge]:
    """The judges, the most trusted kind first, each with the reason where it is unable to judge here.

    `kinds` are the degradations that matter here, by which judges are trusted.
    """
    kinds = tuple(kinds)
    with_reasons = [
        replace(
            judge,
            label=label,
            unable=_first(check(judge, judges) for check in CHECKS),
            known=trust(_on_the_board(judge), kinds),
        )
        for judge, label in zip(judges, _distinct_labels(judges), strict=True)
    ]
    return sorted(with_reasons, key=lambda judge: KINDS.index(judge.kind))


def _distinct_labels(judges: Sequence[Judge]) -> list[str]:
    """The labels of judges, with all options where two would be called the same."""
    often = Counter(judge.label for judge in judges)
    return [judge.label if often[judge.label] == 1 else judge.name for judge in judges]


def _on_the_board(judge: Judge) -> str:
    """The protocol or metric that a judge is."""
    return {"evaluator": "evaluator", "of answers": "evaluator:model"}.get(judge.kind, judge.name)


def kinds_that_matter(quality: NetworkQuality | None) -> tuple[str, ...]:
    """The degradations that matter for a network: where there are no classes, no mask can tell one."""
    by_class = quality is None or quality.kind == "softmax"
    return tuple(kind for kind in MATTER if by_class or kind not in OF_CLASSES)


def _first(reasons: Iterable[str]) -> str:
    return next((reason for reason in reasons if reason), "")


def _given(judge: Judge, judges: Sequence[Judge]) -> str:
    """What is known against it already, e.g. by negative controls that were run."""
    return judge.unable


def _has_controls(judge: Judge, judges: Sequence[Judge]) -> str:
    """Nothing can be read without a ranking that knows nothing."""
    if any(network_free(name) for name in judge.values):
        return ""
    return "it has no ranking that never looks at the network to compare with, such as random"


def _has_tests(judge: Judge, judges: Sequence[Judge]) -> str:
    """One replicate, or one image, has no spread to test with."""
    if any(np.isfinite(pair.lead.p) for pair in judge.pairs.values()):
        return ""
    return f"{judge.basis} cannot be tested"


def _has_evaluators(judge: Judge, judges: Sequence[Judge]) -> str:
    """What one evaluator gets wrong is shared by all methods, and images do not show it."""
    if judge.kind not in ("evaluator", "of answers") or not judge.untested:
        return ""
    return f"one evaluator cannot be tested, {LEAST_EVALUATORS} replicates are the least"


def _in_domain(judge: Judge, judges: Sequence[Judge]) -> str:
    """A network that no longer recognises what lost some random pixels fails for another reason than a ranking."""
    curve = judge.random_curve
    if judge.kind != "filled" or len(curve) < 2:
        return ""
    reach = in_domain_share(curve)
    if reach >= IN_DOMAIN:
        return ""
    return f"accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random"


def in_domain_share(curve: Sequence[tuple[float, float]]) -> float:
    """The share of random pixels that may be filled before the answer has fallen half way to that of an empty image.

    `curve` has the shares filled, increasing, and the answers; between them it is interpolated.

    >>> in_domain_share([(0, 1.0), (0.2, 0.8), (0.4, 0.4), (1, 0.2)])
    0.3
    """
    shares, answers = np.asarray(curve, dtype=float).T
    half = (answers[0] + answers[-1]) / 2
    below = np.flatnonzero(answers < half)
    if not len(below):
        return float(shares[-1])
    i = int(below[0])
    part = (answers[i - 1] - half) / (answers[i - 1] - answers[i])
    return round(float(shares[i - 1] + part * (shares[i] - shares[i - 1])), 6)


def _not_contradicted(judge: Judge, judges: Sequence[Judge]) -> str:
    """Worse than random under ROAR and better under KAR: the masks give the class away.

    Of these two alone. A variant such as decoupled ROAR, made so that masks cannot tell the class, is contradicted by
    ROAR just where it does its work.
    """
    pair = {one.name: one for one in judges if one.name in CONTRADICTING}
    if judge.name not in pair or len(pair) < len(CONTRADICTING):
        return ""
    removing, keeping = (pair[name] for name in CONTRADICTING)
    methods = [name for name in judge.values if not network_free(name)]
    against = [m for m in methods if removing.beats(BASELINE, m) and keeping.beats(m, BASELINE)]
    if not against or 2 * len(against) < len(methods):
        return ""
    return (
        f"{removing.label} and {keeping.label} contradict each other on {len(against)} of {len(methods)} methods, as "
        "they do where masks give the class away"
    )


Check = Callable[[Judge, Sequence[Judge]], str]
CHECKS: tuple[Check, ...] = (_has_evaluators, _given, _has_controls, _has_tests, _in_domain, _not_contradicted)
"""Each gives the reason why a judge is unable to judge beside the others, or nothing."""
