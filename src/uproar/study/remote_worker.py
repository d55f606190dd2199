"""What a process on another machine has to know and check before it does jobs of a run.

A machine may lack what that of the user has: files of the user travel with the run, and what cannot travel (the store,
the data, the package) is checked before anything is computed.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from uproar.backends import backend_at
from uproar.data.locations import VARIABLE, roots
from uproar.errors import BadInput, StoreError
from uproar.extend import load_plugins_later
from uproar.paths import public
from uproar.plugins import Bundle, bundle, install_bundle
from uproar.study.graph import Job
from uproar.study.inputs import Data
from uproar.study.spec import Study

FOLDER = "runs"
LONGEST = 30 * 24 * 3600.0
"""Seconds after which a run of another machine is taken to be over."""


class Token:
    """The token of one run."""

    def __init__(self, root: str) -> None:
        self.backend = backend_at(root)
        self.name = f"{FOLDER}/{uuid.uuid4().hex}"

    def write(self) -> None:
        """Say that the run is there; forget those that are over."""
        for name in self.backend.sizes(FOLDER):
            if self._over(name):
                self._forget(name)
        said = {"host": socket.gethostname(), "pid": os.getpid(), "begun": time.time()}
        self.backend.write(self.name, json.dumps(said).encode())

    def remove(self) -> None:
        """The run is over."""
        self._forget(self.name)

    def _forget(self, name: str) -> None:
        with contextlib.suppress(Exception):  # not worth a sentence: the next run tries again
            self.backend.remove(name)

    def _over(self, name: str) -> bool:
        """Whether the run of a token has ended, as far as this machine can know."""
        try:
            said = json.loads(self.backend.start(name, 1000))
            host, pid, begun = str(said["host"]), int(said["pid"]), float(said["begun"])
        except FileNotFoundError:
            return False
        except (ValueError, KeyError, TypeError, OSError):
            return True  # no token of a run of this version
        if time.time() - begun > LONGEST:
            return True
        return host == socket.gethostname() and not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker has to know besides its job; the same for a whole run."""

    root: str
    token: str
    """A file in the store: a worker that does not see it has another store."""
    folder: str
    plugins: tuple[str, ...]
    files: Mapping[str, Any]
    """Files of the user by the name the study has for them, with what they import."""
    version: str
    environment: Mapping[str, str]
    limit: float
    """Seconds that a job may take."""


@dataclass(frozen=True)
class NodeUnfit:
    """A node cannot do jobs of this study, for this reason."""

    reason: str


def worker_setup(
    root: str, token: str, studies: Sequence[Study], keep: Callable[[Bundle], Any] = lambda content: content
) -> WorkerSetup:
    """The setup of a run; `keep` puts the content of a file where workers find it."""
    files = dict.fromkeys(name for study in studies for name in _files(study))
    places = os.pathsep.join(str(place.resolve()) for place in roots() if place.is_dir())
    return WorkerSetup(
        root,
        token,
        os.getcwd(),
        plugins=tuple(dict.fromkeys(file for study in studies for file in study.plugins)),
        files={name: keep(bundle(name)) for name in files},
        version=metadata.version("uproar"),
        environment={VARIABLE: places, **_uproar_variables()},
        limit=max(study.job_limit for study in studies),
    )


def _files(study: Study) -> list[str]:
    """The files a study names: plug-ins, models, weights and maps."""
    models = [model.partition(":")[0] for model in study.models if ".py:" in model]
    weights = [file for file in (study.weights, study.pretrained) if file is not None]
    maps = [stored.path for chain in study.chains for stored in chain.files]
    return [*study.plugins, *models, *weights, *maps]


def _uproar_variables() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k.startswith("UPROAR_") and k != VARIABLE}


_ready: set[str] = set()
"""The runs this process can work for."""


def prepare(setup: WorkerSetup, fetch: Callable[[Any], Bundle] = lambda content: content) -> None:
    """Make this process one that can do the jobs of a run, or say why it cannot; `fetch` gets the content of a file."""
    if setup.token in _ready:
        return
    here = metadata.version("uproar")
    if here != setup.version:
        raise BadInput(f"it has uproar {here}, not {setup.version}: install the same version.")
    for name, value in setup.environment.items():
        os.environ.setdefault(name, value)  # a node's own setting wins: it knows its disks
    with contextlib.suppress(OSError):
        os.chdir(setup.folder)
    for name, content in setup.files.items():
        install_bundle(name, fetch(content))
    load_plugins_later(setup.plugins)
    try:
        backend_at(setup.root).start(setup.token, 1)
    except OSError:
        raise StoreError(
            f"it does not see the store {public(setup.root)}: give a folder that all nodes share, or a URL."
        ) from None
    _ready.add(setup.token)


def fingerprint_of(job: Job) -> str:
    """The fingerprint of the images that a job is about; empty where it is about none."""
    return "" if job.data is None else Data(job.data.name, job.data.limit, job.data.output).task.fingerprint


def check_data(job: Job, fingerprint: str) -> None:
    """Refuse to compute with images that are not those of the user's machine."""
    if fingerprint_of(job) != fingerprint:
        raise BadInput(f"its {job.data.name} holds other images than that of this machine.")
