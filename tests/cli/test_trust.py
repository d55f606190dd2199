"""Reading a run runs no code that its folder names; secrets of URLs are written nowhere."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from uproar.backends import ObjectStore
from uproar.cli.app import _exit_code
from uproar.data import load
from uproar.errors import BadInput, StoreError
from uproar.models import ModelSpec, build
from uproar.paths import hide, public, public_command
from uproar.store import Store
from uproar.study.record import read_run, write_run
from uproar.study.spec import Study

TASK = "planted(size=8, classes=3, train=30, test=15)"
EVIL = (
    "import pathlib\npathlib.Path(__file__).with_name('executed').touch()\n"
    "def make(shape, classes):\n    raise SystemExit\n"
    "def evil(model, x, target):\n    return x.sum(1)\n"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def record(folder: Path, **study) -> None:
    """A run folder as it would come from somebody else."""
    content = {
        "study": {"tasks": [TASK], "estimators": ["random"], "metrics": ["roar"], "fractions": [0.5], **study},
        "store": str(folder / "store"),
        "facts": {},
    }
    (folder / "store").mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(content))


@pytest.mark.parametrize("command", ["report", "audit"])
@pytest.mark.parametrize(
    "study",
    [
        {"plugins": ["evil.py"]},
        {"plugins": "evil.py"},
        {"models": ["evil.py:make"]},
        {"model": "evil.py:make(width=3)"},
        {"estimators": ["sq(captum:evil.Evil)"]},
        {"estimator": "captum:evil.Evil"},
    ],
    ids=["plugins", "plugin", "models", "model", "module", "estimator"],
)
def test_code_that_a_received_folder_names_is_not_run(here, capsys, monkeypatch, command, study):
    (here / "evil.py").write_text(EVIL)
    record(here / "got", **study)
    assert _exit_code([command, "got"]) == 2
    told = capsys.readouterr().err
    assert "which reading it would run" in told and "evil" in told and "--trust" in told
    assert not (here / "executed").exists()
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    monkeypatch.syspath_prepend(here)  # as `python -m uproar` has it
    with contextlib.suppress(BadInput):
        build(ModelSpec.of(read_run(here / "got", trust=True)[0].models[0]), load(TASK), 0)
    assert (here / "executed").exists(), "the test would not notice"


def test_the_store_beside_a_record_is_the_one_that_is_read(here):
    record(here / "got")
    content = json.loads((here / "got/run.json").read_text())
    for elsewhere in (str(here), "s3://bucket/study"):
        (here / "got/run.json").write_text(json.dumps({**content, "store": elsewhere}))
        assert read_run(here / "got")[1] == str(here / "got/store")
        (here / "got/store").rmdir()
        assert read_run(here / "got")[1] == elsewhere
        assert read_run(here / "got", store="other")[1] == "other"
        (here / "got/store").mkdir()


SECRET = "hunter2secret"
URLS = [f"s3://user:{SECRET}@bucket/study", f"memory://bucket/x?token={SECRET}&sig={SECRET}", f"ftp://u:{SECRET}@h/x"]


@pytest.mark.parametrize("url", URLS)
def test_secrets_of_a_store_are_written_and_told_nowhere(here, url, capsys, monkeypatch):
    write_run(here / "out", Study(tasks=TASK), url, {"command": public_command(["uproar", url])})
    written = (here / "out/run.json").read_text()
    assert SECRET not in written and "***" in written
    with pytest.raises(BadInput, match="whose password was not written down: give the whole URL as --store") as told:
        read_run(here / "out")
    assert SECRET not in str(told.value)
    assert read_run(here / "out", store=url)[1] == url
    backend = ObjectStore.__new__(ObjectStore)
    backend.root = url
    with pytest.raises(StoreError) as broken, backend._translate_errors("write", "cell/x"):
        raise OSError(f"403 from {url} ({SECRET})")
    assert SECRET not in str(broken.value) and broken.value.__cause__ is None
    assert _exit_code(["report", "out", "--store", url.replace("memory", "nonsense")]) in (2, 3)
    assert SECRET not in capsys.readouterr().err


def test_what_is_no_secret_stays(tmp_path):
    for address in ("s3://bucket/study", "/a/b:c@d", "file:///a/b", str(tmp_path)):
        assert public(address) == address
        assert hide(f"cannot open {address}", address) == f"cannot open {address}"


def test_workers_do_not_show_the_store_in_their_command_line(tmp_path, monkeypatch):
    from uproar.study.executors import Processes

    seen = []

    class Process:
        def __init__(self, command, **_):
            seen.extend(command)

        def kill(self):
            pass

        wait = kill

    monkeypatch.setattr("uproar.study.executors.subprocess.Popen", Process)
    pool = Processes(URLS[0], 1)
    pool.worker(0, "")
    pool.close()
    assert seen and SECRET not in " ".join(seen)


def test_a_store_without_a_secret_is_the_same_as_ever(here):
    write_run(here / "out", Study(tasks=TASK), "memory://bucket/x", {})
    assert read_run(here / "out")[1] == "memory://bucket/x"
    assert Store("memory://bucket/x").root == "memory://bucket/x"
