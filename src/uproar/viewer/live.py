"""A run as it is now: what the store has is collected again whenever the run has gone on."""

from __future__ import annotations

import functools
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uproar.remaining_time import about
from uproar.runs.open import run_in
from uproar.runs.run import Run
from uproar.study.bench import bench_for
from uproar.study.image_evidence import ImageEvidence
from uproar.study.progress import FILE as PROGRESS
from uproar.study.progress import read_progress
from uproar.study.settings import Setting
from uproar.study.spec import Study, study_of
from uproar.viewer.content import Content

AGAIN = 5.0
"""Seconds between two collections of a run that goes on."""
SILENT = 30.0
"""Seconds after which a run that has not said anything is no longer taken to be running."""


def content_of(run: Run, most: int | None = None, live: bool = False, version: int = 0) -> Content:
    """All files of data of an opened run; at most so many images of each task."""
    study = study_of(run.study)
    benches = {
        (bench.setting.task, bench.spec.name): bench
        for bench in (bench_for(setting, run.place) for setting in Setting.all_of(study))
    }
    evidence = tuple(ImageEvidence(study, benches[place], most) for place in run.settings)
    return Content(run, evidence, live, version)


@dataclass(frozen=True)
class State:
    """How far a run is."""

    done: int
    total: int
    left: float | None
    age: float
    """Seconds since the run last said something."""

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.done < self.total and self.age < SILENT

    @property
    def words(self) -> str:
        """The same for a person."""
        if self.done >= self.total:
            return f"finished: {self.total} cells" if self.total else ""
        if not self.running:
            return f"{self.done} of {self.total} cells; the run is not going on"
        left = "" if self.left is None else f", {about(self.left)} left"
        return f"running: {self.done} of {self.total} cells{left}"


def state_of(folder: Path) -> State:
    """What a run last said of how far it is."""
    known = read_progress(folder)
    if known is None:
        return State(0, 0, None, 0.0)
    try:
        age = time.time() - (folder / PROGRESS).stat().st_mtime
        left = json.loads((folder / PROGRESS).read_bytes()).get("left")
    except (OSError, ValueError):
        age, left = 0.0, None
    return State(known.done, known.total, float(left) if isinstance(left, int | float) else None, age)


class LiveRun:
    """The run in a folder, collected again when it has new cells, at most every few seconds."""

    def __init__(self, folder: Path, study: Study, place: str, facts: Mapping[str, Any], most: int | None) -> None:
        self.folder, self._open = folder, functools.partial(run_in, folder, study, place, facts)
        self._most, self._lock = most, threading.Lock()
        self._seen, self._when = state_of(folder).done, time.monotonic()
        self._content = content_of(self._open(), most, live=True)

    def file(self, name: str) -> bytes | None:
        """A file of data, one at a time: the store's readers are not made for several threads."""
        with self._lock:
            return self._content.file(name)

    def progress(self) -> dict[str, Any]:
        """How far the run is; `version` counts up when there are new cells."""
        state = state_of(self.folder)
        with self._lock:
            due = time.monotonic() - self._when >= AGAIN or not state.running
            if state.done != self._seen and due:
                self._seen = state.done
                self._content = content_of(self._open(), self._most, live=True, version=self._content.version + 1)
                self._when = time.monotonic()
            return {"words": state.words, "running": state.running, "version": self._content.version}
