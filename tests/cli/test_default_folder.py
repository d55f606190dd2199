"""A command that was not told where to write overwrites nothing of another question."""

from __future__ import annotations

import json
from pathlib import Path

from uproar.cli.checks import default_folder, tell_other_folder


def wrote(folder: Path, command: str) -> None:
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps({"provenance": {"command": command}}))


def test_the_same_command_goes_where_it_was_and_another_one_elsewhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = Path("runs/score")
    assert default_folder(first, "uproar score a") == first
    wrote(first, "uproar score a")
    assert default_folder(first, "uproar score a --json") == first
    assert default_folder(first, "uproar score b") == Path("runs/score-2")
    assert capsys.readouterr().err == "", "nothing was written yet"
    tell_other_folder(first, Path("runs/score-2"))
    assert "is left as it is: this went to runs/score-2" in " ".join(capsys.readouterr().err.split())
    tell_other_folder(first, first)
    assert capsys.readouterr().err == ""
    wrote(Path("runs/score-2"), "uproar score b")
    assert default_folder(first, "uproar score b") == Path("runs/score-2")
    assert default_folder(first, "uproar score c") == Path("runs/score-3")


def test_scores_that_do_not_say_what_they_answer_are_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/score").mkdir(parents=True)
    Path("runs/score/scores.json").write_text("{}")
    assert default_folder(Path("runs/score"), "uproar score a") == Path("runs/score-2")
