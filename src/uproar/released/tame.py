"""As in the code released with TAME (Ntrougkas et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

from uproar.metrics.changes import Blended
from uproar.metrics.confidence import DROP, FACTS, INCREASE, Share, drop_of, drop_responses, probabilities_of
from uproar.metrics.prepared_batch import with_values
from uproar.metrics.registry import Batch, Change, Outputs, Responses, metric
from uproar.types import WITH_PROBABILITIES


def _tame(shape: Sequence[int], *, top: float) -> list[Change]:
    return [Blended("minmax") if top == 1 else Blended("minmax", "top", top)]


@metric(
    name="average_drop:tame",
    variant_of="average_drop",
    higher_is_better=False,
    formula=DROP,
    asks=_tame,
    kinds=WITH_PROBABILITIES,
    paper="Ntrougkas et al. 2022",
    **FACTS,
)
def average_drop_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Average drop of the min-max scaled map, of which only the highest share of pixels (1, 0.5, 0.15) is used."""
    before, after = probabilities_of(batch, outputs, _tame(batch.x.shape[1:], top=top)[0])
    return drop_responses(with_values(batch.maps), drop_of(before, after), before, after)


@metric(
    name="increase_in_confidence:tame",
    variant_of="increase_in_confidence",
    higher_is_better=True,
    asks=_tame,
    kinds=WITH_PROBABILITIES,
    formula=INCREASE,
    paper="Ntrougkas et al. 2022",
    **FACTS,
)
def increase_in_confidence_tame(batch: Batch, outputs: Outputs, *, top: Share = 1.0) -> Responses:
    """Increase in confidence of the min-max scaled map, of which only the highest share of pixels is used."""
    before, after = probabilities_of(batch, outputs, _tame(batch.x.shape[1:], top=top)[0])
    return drop_responses(with_values(batch.maps), (after > before).double(), before, after)
