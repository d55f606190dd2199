"""Which plug-ins a job calls: such jobs run in processes that do nothing else (`executors`)."""

from __future__ import annotations

from collections.abc import Iterable

from uproar.estimators import Chain, estimators, read_chain
from uproar.metrics import metrics
from uproar.metrics.registry import read_metric
from uproar.protocols import protocols
from uproar.registry import Entry
from uproar.removal.fill import read_fill
from uproar.study.cell import Cell, ScoreCell, Unit
from uproar.study.job import Job
from uproar.study.settings import Setting


def plugins_of_chain(chain: Chain) -> str:
    """The plug-ins whose functions make a chain's maps, as one text; empty where all are uproar's own."""
    return _joined(_of_chain(chain))


def plugins_of_unit(unit: Unit, setting: Setting) -> str:
    """The plug-ins whose functions are called for a cell.

    The maps of an accuracy are in the store, so that the plug-in that made them is loaded for its names alone: no
    network is trained in a process that has called it.
    """
    if isinstance(unit, ScoreCell):
        call = metrics.complete(read_metric(unit.metric))
        fill = dict(call.options).get("fill")
        own = [metrics[call.name], *([read_fill(fill)[0]] if isinstance(fill, str) else [])]
        return _joined([*_of_chain(read_chain(unit.estimator)), *own])
    if not isinstance(unit, Cell):
        return ""
    chain = read_chain(unit.estimator)
    own = [protocols[unit.protocol]] if unit.protocol in protocols else []
    called = _joined([*own, read_fill(setting.fill)[0], *(_of_chain(chain) if chain.is_direct else ())])
    loaded = plugins_of_chain(chain)
    return f"{called} (after {loaded})" if loaded else called


def plugins_of_job(job: Job) -> str:
    """The plug-ins whose functions a job calls; all its chains and cells call the same."""
    if job.cells:
        return plugins_of_unit(job.cells[0], job.setting)
    if job.names:
        return plugins_of_chain(read_chain(job.names[0]))
    return _joined([read_fill(job.setting.fill)[0]]) if job.kind == "evaluator" else ""


def _of_chain(chain: Chain) -> list[Entry]:
    return [estimators[call.name] for call in (*chain.raw.walk(), *chain.filters)]


def _joined(entries: Iterable[Entry]) -> str:
    return " ".join(sorted({entry.plugin for entry in entries} - {""}))
