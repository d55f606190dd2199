"""No process outlives the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import children, left_after
from uproar.cli import app
from uproar.cli.interrupt import orderly_end
from uproar.store import Store
from uproar.study import worker_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SECONDS = 2.0
"""How long a worker may outlive its parent."""

PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(600)
"""
CHILD = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("worker_process", {file!r})
worker_process = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker_process)
{before}
worker_process.end_with(os.getppid())
open({ready!r}, "w").close()
{work}
"""


def waited_for(file: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not file.exists():
        assert process.poll() is None and time.monotonic() < deadline, "it never began"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("before", "work"),
    [
        ("", "pow(3, 10**9)"),  # minutes in C, with the interpreter's lock held
        ("worker_process.sys.platform = 'darwin'", "time.sleep(600)"),  # without the kernel's help
    ],
    ids=["the kernel ends it in a long call", "the thread ends it"],
)
def test_a_process_bound_to_its_parent_ends_with_it(tmp_path, before, work):
    ready = tmp_path / "ready"
    code = CHILD.format(file=worker_process.__file__, ready=str(ready), before=before, work=work)
    parent = subprocess.Popen([sys.executable, "-c", PARENT, code])
    waited_for(ready, parent)
    started = children(parent.pid)
    parent.kill()
    parent.wait()
    assert len(started) == 1
    assert not left_after(started, SECONDS)


def test_a_process_whose_parent_is_gone_already_does_not_begin(tmp_path):
    ready = tmp_path / "ready"
    code = CHILD.format(file=worker_process.__file__, ready=str(ready), before="", work="").replace(
        "os.getppid()", "os.getppid() + 1"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 1
    assert not ready.exists()


STUCK = """
from pathlib import Path

def stuck(model, x, target):
    Path("ready").touch()
    pow(3, 10**9)
"""


def test_a_terminated_run_ends_its_workers_and_says_so(tmp_path):
    """Both workers are in a call that never looks up; what was finished before is whole in the store."""
    (tmp_path / "stuck.py").write_text(STUCK)
    command = [
        sys.executable,
        "-m",
        "uproar",
        "run",
        "--task",
        "planted(size=8, classes=3, train=30, test=15)",
        "--plugin",
        "stuck.py",
        "--estimators",
        "random,stuck",
        "--metrics",
        "roar",
        "--fractions",
        "0.5",
        "--seeds",
        "2",
        "--epochs",
        "1",
        "--jobs",
        "2",
        "--out",
        "out",
    ]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    waited_for(tmp_path / "ready", run)
    started = children(run.pid)
    run.terminate()
    _, told = run.communicate(timeout=30)
    assert len(started) >= 2
    assert not left_after(started, SECONDS)
    assert run.returncode == 128 + signal.SIGTERM
    assert "Ended by SIGTERM. Finished results are in out/store; the same command" in told
    assert "Traceback" not in told
    store = Store(tmp_path / "out" / "store")
    for key in store.keys("model"):
        store.read("model", key)


def in_process(monkeypatch, number: int) -> int:
    """The exit code of a command that is sent a signal."""

    def sends(*_, **__):
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr(app, "app", sends)
    return app._exit_code([])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_exit_code_is_that_of_the_signal(monkeypatch, capsys, number):
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # tests that run in the background may have been told to ignore it
    try:
        assert in_process(monkeypatch, number) == 128 + number
        assert "Nothing was kept." in capsys.readouterr().err
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)


def test_while_the_first_ctrl_c_is_dealt_with_a_second_one_ends_the_process(monkeypatch):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), orderly_end():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            finally:
                assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch):
    """As `nohup` has it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(app, "app", lambda *_, **__: os.kill(os.getpid(), signal.SIGHUP))
        assert app._exit_code([]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_command_that_was_not_interrupted_leaves_ctrl_c_as_it_was(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(app, "app", lambda *_, **__: 0)
    with pytest.raises(SystemExit):
        app.main([])
    assert signal.getsignal(signal.SIGINT) is before
