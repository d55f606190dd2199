"""What scores will cost: passes of the network, and seconds from a short measurement."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from uproar.errors import NotApplicable
from uproar.estimators import Chain
from uproar.metrics import metrics as known_metrics
from uproar.metrics.probe import images_shown
from uproar.metrics.registry import fine_tuning_of, read_metric
from uproar.models.speed import Speed
from uproar.remaining_time import about, duration
from uproar.storage.store import Store
from uproar.study.maps import Piece, Subject, pieces_of
from uproar.wording import counted

LONG = 600.0
"""Seconds from which shorter options are suggested."""


@dataclass(frozen=True)
class ScoreCost:
    """What scores will cost: passes of the network, and seconds from a short measurement."""

    images: int
    methods: int
    metrics: tuple[str, ...]
    shown: float
    """Changed images per image and method."""
    pieces: Sequence[Piece]
    speed: Speed
    tuned: float = 0.0
    """Images passed forward and backward to fine-tune the networks that judge."""

    @classmethod
    def of(
        cls, subject: Subject, chains: Sequence[Chain], own_maps: Collection[str], metrics: Sequence[str], store: Store
    ) -> ScoreCost:
        """What is to be done, counted, and how long it takes here by a short measurement."""
        c, h, w = subject.x.shape[1:]
        try:
            shown = images_shown(tuple(metrics), (c, h, w))
        except NotApplicable:  # a metric that does not fit is left out later, with its reason
            shown = 20.0 * len(metrics)
        return cls(
            len(subject.x),
            len({*own_maps, *(chain.name for chain in chains)}),
            tuple(metrics),
            shown,
            pieces_of(subject, chains, store) if chains else [],
            Speed.of(subject.model, subject.x),
            _fine_tuned_images(subject, metrics),
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
    def fine_tuning(self) -> float:
        """Seconds for the networks that judge, as if the store had none."""
        return self.speed.both * self.tuned

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.explaining + self.scoring + self.fine_tuning

    def within(self, budget: float) -> int:
        """How many images about can be done in so many seconds."""
        left, each = budget - self.fine_tuning, self.explaining + self.scoring
        return max(1, min(self.images, int(self.images * left / max(each, 1e-9))))

    def sentences(self, budget: float | None) -> list[str]:
        """What is going to be done, about how long it takes, and what would make it shorter."""
        passes = sum(p.passes * (p.rows.stop - p.rows.start) for p in self.pieces if not p.there)
        kept = sum(p.there for p in self.pieces)
        maps = f"{passes:,.0f} forward and backward for maps" if passes else "none for maps"
        there = f" ({kept} of {len(self.pieces)} pieces are in the store)" if kept else ""
        tuned = f", {self.tuned:,.0f} forward and backward to fine-tune what judges" if self.tuned else ""
        said = [
            f"{counted(self.images, 'image')} × {counted(self.methods, 'method')} × "
            f"{self.shown:,.0f} changed images for {counted(len(self.metrics), 'metric')}: "
            f"{self.images * self.methods * self.shown:,.0f} passes forward, "
            f"{maps}{there}{tuned}: {about(self.seconds)}."
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


def _fine_tuned_images(subject: Subject, metrics: Sequence[str]) -> float:
    """Training images times epochs of all fine-tunings that metrics ask for."""
    train = subject.context.train
    tunings = {tuning for name in metrics if (tuning := fine_tuning_of(name)) is not None}
    return 0.0 if train is None else float(len(train) * sum(tuning.recipe.epochs for tuning in tunings))


def _fewer_steps(names: Sequence[str]) -> str | None:
    """The metrics with a tenth of their steps, where any has so many; None where none has."""
    changed, fewer = [], False
    for name in names:
        call = read_metric(name)
        steps = known_metrics[call.name].bind(**dict(call.options)).get("steps")
        if isinstance(steps, int) and steps >= 50:
            given = {**dict(call.options), "steps": steps // 10}
            options = ", ".join(f"{option}={value}" for option, value in given.items())
            changed.append(f"{call.name}({options})")
            fewer = True
        else:
            changed.append(name)
    return ",".join(changed) if fewer else None
