"""A job on a node of a Ray cluster. Started by `ray_executor.Ray`, not by people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from uproar.errors import UproarError, one_line
from uproar.study.executors import run_apart
from uproar.study.job import Job
from uproar.study.remote_worker import NodeUnfit, WorkerSetup, check_data, prepare


@dataclass(frozen=True)
class JobStarted:
    """A job has begun on a node."""

    node: str
    torch: str


def serve(setup: WorkerSetup, job: Job, data: str) -> Iterator[object]:
    """One job: where it began, then how it ended. `data` is the fingerprint of the images it is about."""
    import ray

    yield JobStarted(ray.get_runtime_context().get_node_id(), metadata.version("torch"))
    try:
        prepare(setup, ray.get)
        check_data(job, setup.root, data)
    except UproarError as error:
        yield NodeUnfit(one_line(error))
        return
    try:
        yield run_apart(job, setup.root, setup.plugins, setup.limit)
    except UproarError as error:
        yield error
