"""What an answer leaves open, how much more would decide it, and how long that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from uproar.remaining_time import duration
from uproar.statistics.intervals import Interval
from uproar.statistics.sample_size import required_sample_size

if TYPE_CHECKING:
    from uproar.results.answer import Answer
    from uproar.results.judges import Judge


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
        return f"At least {self.amount} are needed to tell {pair}: {used}, and replicates do not make up for images."


def open_question(answer: Answer) -> OpenQuestion | None:
    """What is open about the answer: whether a method passes the bar, or which of two is better; the nearest first."""
    if not answer.deciding:
        return None
    if answer.recommended is None:
        questions = [_against_control(answer, method, judge) for method in answer.methods for judge in answer.deciding]
    else:
        questions = [_between(judge, answer.recommended, m) for m in answer.tied for judge in answer.deciding]
    return min((one for one in questions if one is not None), key=lambda one: one.n, default=None)


def _against_control(answer: Answer, method: str, judge: Judge) -> OpenQuestion | None:
    """A method that is ahead of every network-free ranking, but not decidedly."""
    placing = answer.placing(method, judge)
    if placing is None or placing.level != "undecided" or not placing.ahead or answer.disqualified(method):
        return None
    return _between(judge, method, placing.control)


def _between(judge: Judge, first: str, second: str) -> OpenQuestion | None:
    """The open comparison of two methods, the better one first."""
    for better, worse in ((first, second), (second, first)):
        pair = judge.pairs.get((better, worse))
        if pair is not None and not pair.decided:
            n = _needed(pair.lead, judge)
            return None if n is None or _out_of_reach(n, judge) else OpenQuestion(better, worse, judge, n)
    return None


def _out_of_reach(n: int, judge: Judge) -> bool:
    """Whether a single replicate needs more images than there are."""
    single = judge.of == "images" and judge.replicates == 1
    return single and judge.available_images is not None and n > judge.available_images


def _needed(lead: Interval, judge: Judge) -> int | None:
    return required_sample_size(lead.value, lead.half_width, lead.df, judge.n, judge.tests)
