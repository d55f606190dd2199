"""The progress of maps and scores: how far they are, and when the budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from uproar.cli.progress import Watch
from uproar.remaining_time import Pace
from uproar.study.maps import Piece
from uproar.study.score_cost import ScoreCost


class MapProgress:
    """Shows how far maps are: images that have all of them, and the time left by passes."""

    def __init__(self, watch: Watch, pieces: Sequence[Piece], images: int, pace: Pace | None = None) -> None:
        self.watch, self.images = watch, images
        self.pace = Pace() if pace is None else pace
        self.waiting = [piece for piece in pieces if not piece.there]
        for piece in pieces:
            self.pace.expect(piece.like, piece.work)
        watch.say("explaining")
        self._show(0, "explaining")

    def __call__(self, piece: Piece, seconds: float, done: int) -> None:
        """A piece is there."""
        self.pace.spent(piece.like, piece.work, 0.0 if piece.there else seconds)
        self.waiting = [other for other in self.waiting if other is not piece]
        names = [chain.name for chain in self.waiting[0].group] if self.waiting else []
        self._show(done, f"explaining by {', '.join(names)}" if names else "explaining")

    def _show(self, done: int, doing: str) -> None:
        left, share = lambda: self.pace.left, self.pace.share
        self.watch.count(done, self.images, "images", left, doing, share)


class ScoreProgress:
    """Shows how far maps and then scores are, and says when the time for them is over."""

    def __init__(self, watch: Watch, cost: ScoreCost, budget: float | None, began: float) -> None:
        self.watch, self.cost, self.budget, self.began = watch, cost, budget, began
        self.pace = Pace()
        self.explained = MapProgress(watch, cost.pieces, cost.images, self.pace)
        self.pace.expect(("score",), cost.images * cost.methods * cost.shown)
        self.pace.assume(("explain",), cost.speed.both)
        self.pace.assume(("score",), cost.speed.forward)
        self.whole = self.seconds = 0.0
        self.images = cost.images

    def limited_to(self, images: int) -> None:
        """Only so many images have maps: the others are not scored."""
        left_out = self.cost.images - images
        self.pace.drop(("score",), left_out * self.cost.methods * self.cost.shown)
        self.images = images
        self.watch.say("scoring")

    def scored(self, method: str, more: int, whole: int, seconds: float) -> None:
        """Further images of a method are scored."""
        self.pace.spent(("score",), more * self.cost.shown, seconds)
        self.seconds += seconds
        self.whole = whole
        self.watch.count(whole, self.images, "images", lambda: self.pace.left, f"scoring {method}", self.pace.share)

    @property
    def enough_explained(self) -> Callable[[], bool]:
        """Whether the maps have had their share of the budget."""
        if self.budget is None:
            return lambda: False
        start = time.perf_counter()
        mine = (self.budget - (start - self.began)) * self.cost.explaining / max(self.cost.seconds, 1e-9)
        return lambda: time.perf_counter() - start >= mine

    def over(self) -> bool:
        """Whether the next images, at the pace so far, would end after the budget."""
        if self.budget is None:
            return False
        each = self.seconds / self.whole if self.whole else 0.0
        return time.perf_counter() - self.began + each > self.budget
