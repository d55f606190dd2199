"""What an answer leaves open, how much more would decide it, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uproar.remaining_time import duration
from uproar.statistics.design import NETWORK_FREE
from uproar.statistics.intervals import Interval
from uproar.statistics.sample_size import required_sample_size
from uproar.wording import series

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.judges import Judge

RUN_EVALUATOR = "`uproar run --protocols evaluator`"
USUAL_IMAGES, USUAL_REPLICATES, USUAL_EVALUATORS = 64, 5, 3
"""What is asked for where there is too little for any test."""


@dataclass(frozen=True)
class OpenQuestion:
    """One comparison that is not decided, and what would decide it."""

    method: str
    other: str
    judge: Judge
    n: int
    """Images or replicates that would decide a difference of the present size four times out of five."""

    @property
    def times(self) -> float:
        """How many times as much as there is."""
        return self.n / self.judge.n

    @property
    def images(self) -> int:
        """Images that are asked for: no more than there are."""
        if self.judge.of == "replicates":
            return self.judge.images
        return self.n if self.judge.available_images is None else min(self.n, self.judge.available_images)

    @property
    def replicates(self) -> int:
        """Replicates that are asked for: where images are paired over several, in step with the images."""
        judge = self.judge
        if judge.of == "replicates":
            return self.n
        return 1 if judge.replicates == 1 else max(judge.replicates + 1, round(judge.replicates * self.times))

    @property
    def enough(self) -> bool:
        """Whether there are as many images as it takes; where not, the replicates asked for are the least."""
        return self.judge.of == "replicates" or self.images == self.n

    @property
    def seconds(self) -> float | None:
        """How long the further ones take, at the pace so far; None where no time was measured."""
        if self.judge.seconds is None:
            return None
        more = self.images / self.judge.images if self.judge.of == "images" else 1.0
        return self.judge.seconds * (self.replicates / self.judge.replicates * more - 1)

    @property
    def amount(self) -> str:
        """What would decide it, in words."""
        judge = self.judge
        if judge.of == "replicates":
            return f"{self.n} replicates instead of {judge.n}"
        if judge.replicates == 1:
            return f"{self.images} images instead of {judge.n}"
        if self.images <= judge.n:
            return f"{self.replicates} replicates instead of {judge.replicates}"
        both = f"{self.replicates} replicates of {self.images} images instead of {judge.replicates} of {judge.n}"
        both = f"{both} (`evaluator_images = {self.images}`)" if judge.kind == "evaluator" else both
        return both if judge.available_images is not None else f"{both}, where there are as many,"

    @property
    def sentence(self) -> str:
        """What would tell the two apart."""
        takes = "" if self.seconds is None else f" ({duration(self.seconds)} more at the pace so far)"
        pair = f"`{self.method}` from `{self.other}` under {self.judge.label}{takes}"
        if self.enough:
            return f"About {self.amount} would tell {pair}."
        there = f"{self.judge.available_images} test images of the task"
        used = f"all {there} are used" if self.images <= self.judge.n else f"there are {there}"
        return f"At least {self.amount} are needed to tell {pair}: {used}, and more replicates alone may not be enough."


def further_evidence(answer: Answer) -> str:
    """What would decide what is open, with the time it takes where that is known; empty where nothing is open."""
    if not answer.deciding:
        return _for_a_judge(answer)
    parts = [_more_controls(answer), _for_a_decision(answer)]
    return " ".join(part for part in parts if part)


def _more_controls(answer: Answer) -> str:
    """Which rankings to add where random is the only control."""
    if not answer.methods or not answer.random_only:
        return ""
    return (
        f"A recommendation needs the network-free rankings among the methods: {_quoted(NETWORK_FREE)} "
        f"(`--estimators …,{','.join(NETWORK_FREE)}`)."
    )


def _for_a_decision(answer: Answer) -> str:
    """How much more would decide the comparison that is nearest to a decision."""
    if answer.open is not None:
        return answer.open.sentence
    pairs = _undecided(answer)
    if not pairs:
        return ""
    judge, first, second = pairs[0]
    found = _question(judge, first, second)
    if found is None:
        way = f"the evaluator ({RUN_EVALUATOR}) or more replicates" if _no_evaluator(answer) else "more replicates"
        return (
            f"`{first}` and `{second}` differ too little under {judge.label} to say how many {judge.of} would decide "
            f"it: {way} may show a difference."
        )
    each = "" if judge.seconds is None else f", about {duration(judge.seconds)} each"
    return (
        f"About {found.n} images would be needed to tell `{first}` from `{second}` under {judge.label}, and the task "
        f"has {judge.available_images}: a task with more test images, or replicates with networks trained anew "
        f"(`--seeds 5`{each}), could decide it."
    )


def _for_a_judge(answer: Answer) -> str:
    """What would make a judge able to judge: more images, more replicates, or the evaluator."""
    few = [judge for judge in answer.judges if judge.untested]
    if few:
        judge = max(few, key=lambda one: one.images)
        if judge.of == "images" and judge.images < 2:
            return f"More images could decide this: {judge.basis} has no spread, {USUAL_IMAGES} are a usual start."
        n = USUAL_REPLICATES if judge.kind == "retrained" else USUAL_EVALUATORS
        takes = "" if judge.seconds is None else f" ({duration(judge.seconds * (n / judge.replicates - 1))} more)"
        what = "replicates" if judge.kind == "retrained" else "evaluators"
        return f"{n} {what} instead of {judge.replicates} could decide this (`--seeds {n}`){takes}."
    if not _no_evaluator(answer) or (answer.left_out and not answer.judges):
        return ""
    if not answer.task:
        return "Running the evaluator could decide this, which needs training images: `uproar choose … --train FOLDER`."
    how_long = "with `--dry-run` it says how long it takes"
    return f"Running the evaluator could decide this: {RUN_EVALUATOR}; {how_long}."


def _no_evaluator(answer: Answer) -> bool:
    return not any(judge.kind in ("evaluator", "of answers") for judge in answer.judges)


def _quoted(names: Sequence[str]) -> str:
    return series([f"`{name}`" for name in names])


def open_question(answer: Answer) -> OpenQuestion | None:
    """The comparison that is nearest to a decision, of the most important ones that are open; see `_undecided`."""
    if not answer.deciding:
        return None
    for pairs in _open_pairs(answer):
        questions = [_between(judge, first, second) for judge, first, second in pairs]
        nearest = min((one for one in questions if one is not None), key=lambda one: one.n, default=None)
        if nearest is not None:
            return nearest
    return None


OpenPair = tuple["Judge", str, str]


def _undecided(answer: Answer) -> list[OpenPair]:
    """All open comparisons, the most important ones first."""
    return [pair for pairs in _open_pairs(answer) for pair in pairs]


def _open_pairs(answer: Answer) -> list[list[OpenPair]]:
    """What is open, by importance: between the best methods, whether one that is ahead passes, all else."""
    tied = [(judge, str(answer.leading), m) for m in answer.tied for judge in answer.deciding]
    ahead: list[OpenPair] = []
    behind: list[OpenPair] = []
    for method in answer.methods:
        for judge in answer.deciding:
            placing = answer.placing(method, judge)
            if placing is None or placing.level != "undecided" or answer.disqualified(method):
                continue
            if answer.passes_bar(method):
                continue
            (ahead if placing.ahead else behind).append((judge, method, placing.control))
    return [[pair for pair in pairs if _is_open(*pair)] for pairs in (tied, ahead, behind)]


def _is_open(judge: Judge, first: str, second: str) -> bool:
    """Whether a judge has tested two methods and not decided between them."""
    pair = judge.pairs.get((first, second)) or judge.pairs.get((second, first))
    return pair is not None and not pair.decided and math.isfinite(pair.lead.half_width)


def _between(judge: Judge, first: str, second: str) -> OpenQuestion | None:
    """The open comparison of two methods, the better one first; None where what it takes is out of reach."""
    found = _question(judge, first, second)
    return None if found is None or _out_of_reach(found.n, judge) else found


def _question(judge: Judge, first: str, second: str) -> OpenQuestion | None:
    """The open comparison of two methods, the better one first; None where it is decided or too small to be."""
    for better, worse in ((first, second), (second, first)):
        pair = judge.pairs.get((better, worse))
        if pair is not None and not pair.decided:
            n = _needed(pair.lead, judge)
            return None if n is None else OpenQuestion(better, worse, judge, n)
    return None


def _out_of_reach(n: int, judge: Judge) -> bool:
    """Whether a single replicate needs more images than there are."""
    single = judge.of == "images" and judge.replicates == 1
    return single and judge.available_images is not None and n > judge.available_images


def _needed(lead: Interval, judge: Judge) -> int | None:
    return required_sample_size(lead.value, lead.half_width, lead.df, judge.n, judge.tests)
