"""What audits will cost, each for itself, before anything is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uproar.storage.store import Store
from uproar.study.audit import asked, needed, simulations
from uproar.study.estimate import estimate
from uproar.study.settings import Setting
from uproar.study.spec import Study
from uproar.study.trials import plan_trials, seconds_per_trial


@dataclass(frozen=True)
class Cost:
    """New cells of an audit and about how many seconds they take; or why it does not apply."""

    audit: str
    cells: int
    seconds: float
    refused: str = ""
    trainings: int = 0
    """Networks that would be trained."""


def costs(study: Study, store: Store, workers: int) -> Iterator[Cost]:
    """The cost of each audit of a study in turn. What an earlier one runs anyway counts there.

    Single cells that two audits share are counted for both: the sum is the most that it can be.
    """
    rates: dict[Setting, float] = {}
    seen: list[Study] = []
    for name in study.audits:
        every = asked(study, [name])
        new, seconds, networks = 0, 0.0, 0
        for part in needed(every).values():
            if part not in seen:
                seen.append(part)
                found = estimate(part, store, workers, rates)
                new += found.cells - found.cached - found.skipped
                seconds += found.seconds
                networks += found.trainings
        for trials, setting in simulations(every).values():
            todo = plan_trials(trials, setting, store)
            new += len(todo.jobs)
            seconds += todo.cost * seconds_per_trial(trials) / workers if todo.jobs else 0.0
        refused = "; ".join(dict.fromkeys(one.refused for one in every if one.refused))
        yield Cost(name, new, seconds, refused, networks)


def retrains(study: Study) -> bool:
    """Whether a study itself trains networks beside those it explains."""
    return any(protocol.retrains for protocol in study.protocol_list)
