"""Seeds where they are needed: looks at 3, 5, 8, 13 and 20 replicates, each only for what is still undecided."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from uproar.models import ModelSpec
from uproar.statistics.design import INTERIM_ANALYSES
from uproar.statistics.sequential import undecided
from uproar.storage.store import Store
from uproar.study.collect import collect
from uproar.study.settings import Setting
from uproar.study.spec import Study


def looks(study: Study, store: str | Path) -> Iterator[tuple[str, Study]]:
    """The studies to run, one look after the other, each made when the one before has run.

    At every look a task, model and protocol ask only for the estimators whose verdict is still open, and for the
    random ranking that all are compared with.
    """
    before = 0
    for n in (n for n in INTERIM_ANALYSES if n <= len(study.seeds)):
        found = _verdicts(study, before, store) if before else None
        before = n
        asked = False
        for setting in Setting.all_of(study):
            for protocol in study.protocol_list:
                names = [chain.name for chain in study.chains]
                if found is not None:
                    here = found[
                        (found["task"] == setting.task)
                        & (found["model"] == ModelSpec.of(setting.model).name)
                        & (found["protocol"] == protocol.name)
                    ]
                    names = undecided(here) if len(here) else names
                if not names:
                    continue
                asked = True
                where = f"{setting.task}, {setting.model}, " if _several(study) else ""
                yield (
                    f"look at {n} replicates: {where}{protocol.name}",
                    study.with_changes(
                        tasks=(setting.task,),
                        models=(setting.model,),
                        protocols=(protocol.name,),
                        estimators=names,
                        seeds=study.seeds[:n],
                        audits=(),
                        metrics=study.metrics if n == INTERIM_ANALYSES[0] else (),
                    ),
                )
        if not asked:
            return


def _verdicts(study: Study, n: int, store: str | Path) -> pd.DataFrame:
    """What the first n replicates say: the same however many more the store has."""
    part = study.with_changes(seeds=study.seeds[:n])
    return collect(part, Store(store), with_pictures=False).verdicts


def _several(study: Study) -> bool:
    return len(study.tasks) * len(study.models) > 1
