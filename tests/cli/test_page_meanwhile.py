"""The page of a run that still goes on."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.report.conftest import cells, results_of
from uproar.cli import run
from uproar.report import write_report


class Writer:
    """A process that writes the page of a folder."""

    ended = 0

    def __init__(self, arguments, **_) -> None:
        self.folder = arguments[-1]

    def wait(self) -> None:
        with open(f"{self.folder}/report.html", "w") as page:
            page.write("so far")

    def terminate(self) -> None:
        Writer.ended += 1


def test_a_page_is_written_early_and_its_writers_end_with_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "Popen", Writer)
    monkeypatch.setattr(run, "EARLY", 0.01)
    with pytest.raises(KeyboardInterrupt), run.page_meanwhile(tmp_path):
        while not (tmp_path / "report.html").is_file():
            time.sleep(0.01)
        time.sleep(0.1)
        raise KeyboardInterrupt
    assert Writer.ended >= 1
    assert "reloads itself" in capsys.readouterr().err.replace("\n", " ")


def test_only_the_page_of_an_unfinished_run_reloads_itself(tmp_path):
    rows = cells({"roar": {"random": 0.8, "grad": 0.6}})
    rows[0] |= {"status": "missing", "accuracy": float("nan")}
    for begun, ended, reloads in ((1, 0, True), (1, 1, False)):
        wall = {"seconds": 1.0, "begun": begun, "ended": ended}
        page = write_report(results_of(rows, provenance={"wall": wall}), tmp_path).read_text("utf-8")
        assert ('http-equiv="refresh"' in page) == ("1 result still missing." in page) == reloads
