"""Maps and scores on their way: what they cost, how far they are, and when the time for them is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from uproar.cli.console import about, duration
from uproar.cli.progress import Watch
from uproar.errors import NotApplicable
from uproar.estimators import Chain
from uproar.metrics import metrics
from uproar.metrics.base import read_metric
from uproar.metrics.probe import images_shown
from uproar.models.speed import Speed
from uproar.remaining_time import Pace
from uproar.storage.store import Store
from uproar.study.maps import Piece, Subject, pieces_of

LONG = 600.0
"""Seconds from which ways to make it shorter are told."""


class Explaining:
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


@dataclass(frozen=True)
class Cost:
    """What scores will cost: passes of the network, and seconds from a short measurement."""

    images: int
    methods: int
    metrics: tuple[str, ...]
    shown: float
    """Changed images per image and method."""
    pieces: Sequence[Piece]
    speed: Speed

    @classmethod
    def of(
        cls, subject: Subject, chains: Sequence[Chain], given: Collection[str], asked: Sequence[str], store: Store
    ) -> Cost:
        """What is to be done, counted, and how long it takes here by a short measurement."""
        c, h, w = subject.x.shape[1:]
        try:
            shown = images_shown(tuple(asked), (c, h, w))
        except NotApplicable:  # a metric that does not fit is left out later, with its reason
            shown = 20.0 * len(asked)
        return cls(
            len(subject.x),
            len({*given, *(chain.name for chain in chains)}),
            tuple(asked),
            shown,
            pieces_of(subject, chains, store) if chains else [],
            Speed.of(subject.model, subject.x),
        )

    @property
    def explaining(self) -> float:
        """Seconds for the maps that the store does not have."""
        return self.speed.both * sum(piece.work for piece in self.pieces)

    @property
    def scoring(self) -> float:
        """Seconds for the metrics."""
        return self.speed.forward * self.images * self.methods * self.shown

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.explaining + self.scoring

    def within(self, budget: float) -> int:
        """How many images about can be done in so many seconds."""
        return max(1, min(self.images, int(self.images * budget / max(self.seconds, 1e-9))))

    def sentences(self, budget: float | None) -> list[str]:
        """What is going to be done, about how long it takes, and what would make it shorter."""
        passes = sum(p.passes * (p.rows.stop - p.rows.start) for p in self.pieces if not p.there)
        kept = sum(p.there for p in self.pieces)
        maps = f"{passes:,.0f} forward and backward for maps" if passes else "none for maps"
        there = f" ({kept} of {len(self.pieces)} pieces are in the store)" if kept else ""
        said = [
            f"{self.images} images × {self.methods} methods × {self.shown:,.0f} changed images for "
            f"{len(self.metrics)} metrics: {self.images * self.methods * self.shown:,.0f} passes forward, "
            f"{maps}{there}: {about(self.seconds)}."
        ]
        if budget is not None and self.seconds > budget:
            said.append(
                f"The budget of {duration(budget)} is enough for about {self.within(budget)} of the "
                f"{self.images} images."
            )
        elif budget is None and self.seconds > LONG:
            said.append(self._shorter())
        return said

    def _shorter(self) -> str:
        n = self.within(LONG)
        ways = [f"--budget 10m (about {n} of the {self.images} images)", f"--limit {n}"]
        fewer = _fewer_steps(self.metrics)
        if fewer is not None:
            ways.append(f'--metrics "{fewer}"')
        return f"Within 10 minutes: {', or '.join(ways)}."


def _fewer_steps(names: Sequence[str]) -> str | None:
    """The metrics with a tenth of their steps, where any has so many; None where none has."""
    changed, fewer = [], False
    for name in names:
        call = read_metric(name)
        steps = metrics[call.name].bind(**dict(call.options)).get("steps")
        if isinstance(steps, int) and steps >= 50:
            given = {**dict(call.options), "steps": steps // 10}
            options = ", ".join(f"{option}={value}" for option, value in given.items())
            changed.append(f"{call.name}({options})")
            fewer = True
        else:
            changed.append(name)
    return ",".join(changed) if fewer else None


class Scoring:
    """Shows how far maps and then scores are, and says when the time for them is over."""

    def __init__(self, watch: Watch, cost: Cost, budget: float | None, began: float) -> None:
        self.watch, self.cost, self.budget, self.began = watch, cost, budget, began
        self.pace = Pace()
        self.explained = Explaining(watch, cost.pieces, cost.images, self.pace)
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
