"""One tiny run, made once for all tests of the command line: most of them read it."""

from __future__ import annotations

import contextlib
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from uproar.cli.app import _exit_code

TASK, MODEL = "planted(size=8, classes=3, train=24, test=12)", "cnn-small(width=2)"
NETWORK = ["--task", TASK, "--model", MODEL]
STUDY = [
    *(*NETWORK, "--estimators", "random,grad,sobel", "--metrics", "roar", "--metrics", "deletion"),
    *("--fractions", "0.5", "--seeds", "2", "--epochs", "1", "--jobs", "1"),
]


@dataclass
class TinyRun:
    """A finished run, and what it printed."""

    folder: Path
    code: int
    out: str
    err: str

    def copy(self, folder: Path) -> Path:
        """The run in another folder, to be changed there."""
        shutil.copytree(self.folder, folder)
        record = folder / "run.json"
        record.write_text(record.read_text().replace(str(self.folder), str(folder)))
        return folder


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory) -> TinyRun:
    """`uproar run` of a small study; nobody changes its folder."""
    folder = tmp_path_factory.mktemp("tiny") / "mine"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _exit_code(["run", *STUDY, "--out", str(folder)])
    return TinyRun(folder, code, out.getvalue(), err.getvalue())


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty folder, where the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
