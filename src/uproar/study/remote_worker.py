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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from uproar.backends import backend_at, is_private
from uproar.data.locations import VARIABLE, roots
from uproar.errors import BadInput, StoreError, UproarError, one_line
from uproar.extend import load_plugins_later
from uproar.paths import public
from uproar.plugins import Bundle, bundle, install_bundle
from uproar.study.devices import WORKER
from uproar.study.graph import Job
from uproar.study.inputs import Data
from uproar.study.spec import Study

FOLDER = "runs"
LONGEST = 30 * 24 * 3600.0
"""Seconds after which a run of another machine is taken to be over."""


class Token:
    """A file in the store as long as a run goes on: workers see by it that theirs is the same store."""

    def __init__(self, root: str) -> None:
        self.backend = backend_at(root)
        self.name = f"{FOLDER}/{uuid.uuid4().hex}"

    def write(self) -> None:
        """Say that the run is there; forget those that are over."""
        for name in self.backend.sizes(FOLDER):
            if self._over(name):
                self.backend.remove(name)
        said = {"host": socket.gethostname(), "pid": os.getpid(), "begun": time.time()}
        self.backend.write(self.name, json.dumps(said).encode())

    def remove(self) -> None:
        """The run is over."""
        with contextlib.suppress(Exception):  # not worth a sentence: the next run tries again
            self.backend.remove(self.name)

    def _over(self, name: str) -> bool:
        """Whether the run of a token has ended, as far as this machine can know."""
        try:
            said = json.loads(self.backend.start(name, 1000))
            if time.time() - said["begun"] < LONGEST and said["host"] == socket.gethostname():
                os.kill(said["pid"], 0)
            return time.time() - said["begun"] > LONGEST
        except (FileNotFoundError, PermissionError):
            return False
        except (ValueError, KeyError, TypeError, OverflowError, OSError):
            return True  # no such process, or no token of a run of this version


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
    versions: Mapping[str, str]
    """Packages that change numbers."""
    environment: Mapping[str, str]
    limit: float
    """Seconds that a job may take."""


def worker_setup(
    root: str, token: str, study: Study, keep: Callable[[Bundle], Any] = lambda content: content
) -> WorkerSetup:
    """The setup of a run; `keep` puts the content of a file where workers find it."""
    places = os.pathsep.join(str(folder.resolve()) for folder in roots() if folder.is_dir())
    environment = {name: value for name, value in os.environ.items() if name.startswith("UPROAR_") and name != WORKER}
    return WorkerSetup(
        root,
        token,
        os.getcwd(),
        plugins=study.plugins,
        files={name: keep(bundle(name)) for name in dict.fromkeys(_files(study))},
        versions={package: _version(package) for package in ("uproar", "torch")},
        environment={**environment, VARIABLE: places},
        limit=study.job_limit,
    )


def _files(study: Study) -> list[str]:
    """The files a study names: plug-ins, models, weights and maps."""
    models = [model.partition(":")[0] for model in study.models if ".py:" in model]
    weights = [file for file in (study.weights, study.pretrained) if file is not None]
    maps = [stored.path for chain in study.chains for stored in chain.files]
    return [*study.plugins, *models, *weights, *maps]


def shared_root(root: str) -> str:
    """A store as other machines see it."""
    if is_private(root):
        raise BadInput(f"No node sees {root}: use a folder that all nodes share, or a URL.")
    return root if "://" in root else str(Path(root).resolve())


_ready: set[str] = set()
"""The runs this process can work for."""


def prepare(
    setup: WorkerSetup, job: Job, data: str, host: str, fetch: Callable[[Any], Bundle] = lambda content: content
) -> None:
    """Make this process one that can do a job, or say why `host` cannot; `fetch` gets the content of a file.

    `data` is the fingerprint that the job's images have for the user.
    """
    try:
        if setup.token not in _ready:
            _install(setup, fetch)
        if fingerprint_of(job) != data:
            raise BadInput(f"its {job.data.name} holds other images than that of this machine.")
    except UproarError as error:
        reason = one_line(error).rstrip(".")
        raise BadInput(
            f"Node {host} cannot do this study: {reason}. Fix that, or leave the node out; what was finished is kept."
        ) from None


def _install(setup: WorkerSetup, fetch: Callable[[Any], Bundle]) -> None:
    for package, version in setup.versions.items():
        if (here := _version(package)) != version:
            raise BadInput(f"it has {package} {here}, not {version}: install the same version.")
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


def _version(package: str) -> str:
    """The version of a package here, without the device it was built for."""
    return metadata.version(package).partition("+")[0]


def fingerprint_of(job: Job) -> str:
    """The fingerprint of the images that a job is about; empty where it is about none."""
    return "" if job.data is None else Data(job.data.name, job.data.limit, job.data.output).task.fingerprint
