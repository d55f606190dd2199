"""A job on a node of a Ray cluster. Started by `ray_executor.Ray`, not by people.

A node may lack what the machine of the user has: files of the user are copied to it, and what cannot be copied (the
store, the data, the package) is checked before anything is computed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from uproar.errors import BadInput, StoreError, UproarError, one_line
from uproar.extend import load_plugin
from uproar.plugins.loading import install_bundle
from uproar.storage.backends import backend_at
from uproar.storage.urls import public
from uproar.study.bench import bench_for
from uproar.study.job import Job
from uproar.study.run_job import run_job


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker has to know besides its job; the same for a whole run."""

    root: str
    token: str
    """A file in the store: a worker that does not see it has another store."""
    folder: str
    plugins: tuple[str, ...]
    files: Mapping[str, Any]
    """Files of the user by the name the study has for them: where Ray keeps them, with what they import."""
    version: str
    environment: Mapping[str, str]


@dataclass(frozen=True)
class JobStarted:
    """A job has begun on a node."""

    node: str
    torch: str


@dataclass(frozen=True)
class NodeUnfit:
    """A node cannot do jobs of this study, for this reason."""

    reason: str


def serve(setup: WorkerSetup, job: Job, data: str) -> Iterator[object]:
    """One job: where it began, then how it ended. `data` is the fingerprint of the images it is about."""
    import ray

    yield JobStarted(ray.get_runtime_context().get_node_id(), metadata.version("torch"))
    try:
        _prepare(setup)
        if bench_for(job.setting, setup.root).task.fingerprint != data:
            raise BadInput(f"its {job.setting.task} holds other images than that of this machine.")
    except UproarError as error:
        yield NodeUnfit(one_line(error))
        return
    try:
        yield run_job(job, setup.root)
    except UproarError as error:
        yield error


_ready: set[str] = set()
"""The runs this process can work for."""


def _prepare(setup: WorkerSetup) -> None:
    """Make this process one that can do the jobs of a run, or say why it cannot."""
    if setup.token in _ready:
        return
    here = metadata.version("uproar")
    if here != setup.version:
        raise BadInput(f"it has uproar {here}, not {setup.version}: install the same version.")
    for name, value in setup.environment.items():
        os.environ.setdefault(name, value)  # a node's own setting wins: it knows its disks
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    _take_files(setup)
    for file in setup.plugins:
        load_plugin(file)
    try:
        backend_at(setup.root).start(setup.token, 1)
    except OSError:
        raise StoreError(
            f"it does not see the store {public(setup.root)}: give a folder that all nodes share, or a URL."
        ) from None
    _ready.add(setup.token)


def _take_files(setup: WorkerSetup) -> None:
    import ray

    for name, content in setup.files.items():
        install_bundle(name, ray.get(content))
