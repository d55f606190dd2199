"""A command that was not told where to write overwrites nothing of another question."""

from __future__ import annotations

import json
from pathlib import Path

from uproar.cli.score import output_folder


def wrote(folder: Path, command: str) -> None:
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps({"provenance": {"command": command}}))


def test_the_same_command_goes_where_it_was_and_another_one_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = Path("runs/score")
    assert output_folder(first, "uproar score a") == first
    wrote(first, "uproar score a")
    assert output_folder(first, "uproar score a --json") == first
    assert output_folder(first, "uproar score b") == Path("runs/score-2")
    wrote(Path("runs/score-2"), "uproar score b")
    assert output_folder(first, "uproar score b") == Path("runs/score-2")
    assert output_folder(first, "uproar score c") == Path("runs/score-3")


def test_scores_that_do_not_say_what_they_answer_are_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/score").mkdir(parents=True)
    Path("runs/score/scores.json").write_text("{}")
    assert output_folder(Path("runs/score"), "uproar score a") == Path("runs/score-2")
