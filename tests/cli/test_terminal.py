"""What a person sees while a command runs: on a terminal, through pipes, with TERM=dumb."""

from __future__ import annotations

import re
import signal

import pytest

from tests.cli.conftest import STUDY

COLOURS = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d(?:;\d+)*m")
"""Sequences that choose a colour; bold and dim are none."""


def test_a_run_shows_a_bar_and_colours_on_a_terminal_and_neither_elsewhere(commands, tmp_path):
    """The run, the page of it again in other surroundings, and the error of a wrong command."""
    for variables, term, given, coloured in (
        ({}, "xterm-256color", ["run", *STUDY, "--out", "r"], True),
        ({"NO_COLOR": "1"}, "xterm-256color", ["report", "r"], False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "dumb", ["report", "r"], False),
    ):
        for arguments, code in ((given, 0), (["run", "--seeds", "x"], 2)):
            shown = commands.terminal(arguments, tmp_path, term=term, variables=variables)
            assert shown.code == code and "Traceback" not in shown.plain, shown.plain
            assert bool(COLOURS.search(shown.text)) == coloured, (variables, term, shown.text)
            assert term != "dumb" or "\x1b" not in shown.text
            if given[0] == "run" and not code:
                assert re.search(r"(\d+) results, \1 of them new", shown.plain)
    shown = commands.piped(["report", "r"], tmp_path, variables={"FORCE_COLOR": "1"})
    assert shown.code == 0 and COLOURS.search(shown.text)
    assert not re.search(r"\x1b\[\d*[A-K]|\x1b\[\?25", shown.text + shown.errors), "cursor movements in a pipe"
    plain = commands.piped(["report", "r"], tmp_path)
    assert plain.code == 0 and "\x1b" not in plain.text + plain.errors


SMALL = ["--task", "planted(size=8, classes=3, train=60, test=150)", "--model", "cnn-small(width=4)"]
SLOW = """
import time
def slow(model, x, target):
    time.sleep(0.02 * len(x))
    return x.sum(1)
"""


@pytest.mark.slow
def test_time_left_is_shown_in_every_surrounding_without_control_codes_where_there_is_no_terminal(commands, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    given = ["score", *SMALL, "--limit", "140", "--plugin", "slow.py", "--estimators", "slow"]
    given += ["--metrics", "deletion(steps=4)", "--out"]
    shown = commands.terminal([*given, "a"], tmp_path, columns=80)
    assert shown.code == 0, shown.plain
    assert "\x1b[" in shown.text
    assert re.search(r"/140 images \d+ s left +explaining by slow", shown.plain), shown.plain
    given = ["explain", *given[1 : given.index("--metrics")], "--out"]
    for end, shown in (
        ("b", commands.piped([*given, "b.png"], tmp_path)),
        ("c", commands.terminal([*given, "c.png", "--seed", "1"], tmp_path, term="dumb")),
    ):
        said = shown.errors if end == "b" else shown.text.replace("\r\n", "\n")
        assert shown.code == 0, said
        assert "\x1b" not in said and "\r" not in said
        assert "explaining" in said, "what takes longer than two seconds is told"
        assert len(said.splitlines()) < 12


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            ["run", *STUDY[:4], *STUDY[6:], "--estimators", "random,slow", "--out", "r"],
            "Finished results are in r/store; the same",
        ),
        pytest.param(
            ["score", *SMALL, "--estimators", "random,slow", "--out", "s"],
            "Finished maps are in s/store; the same",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["explain", *SMALL, "--estimators", "random,slow"],
            "Finished maps are in runs/explain/store; the same",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_ctrl_c_says_what_is_kept(commands, tmp_path, command, sentence):
    """Typed while an estimator sleeps: one sentence, no traceback, the code of an interruption."""
    (tmp_path / "slow.py").write_text(SLOW.replace("0.02 * len(x)", "60"))
    typed = [("by slow|cells", "\x03")]
    shown = commands.terminal([*command, "--plugin", "slow.py"], tmp_path, keys=typed, timeout=50)
    assert shown.code == 130, shown.plain
    assert f"Stopped. {sentence}" in re.sub(r"\s+", " ", shown.plain)
    assert "Traceback" not in shown.plain


@pytest.mark.slow
def test_ctrl_c_where_nothing_can_be_kept_says_so_and_the_second_one_ends_at_once(commands, tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def slow(model, x, target):\n"
        "    try:\n        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n        print('not yet', flush=True)\n        time.sleep(60)\n        raise\n"
    )
    given = ["check", "slow.py"]
    shown = commands.terminal(given, tmp_path, keys=[("so far", "\x03"), ("not yet", "\x03")], timeout=50)
    assert shown.code == -signal.SIGINT, shown.plain
    assert "Traceback" not in shown.plain
    (tmp_path / "slow.py").write_text("import time\ndef slow(model, x, target):\n    time.sleep(60)\n")
    shown = commands.terminal(given, tmp_path, keys=[("so far", "\x03")], timeout=50)
    assert shown.code == 130
    assert "Stopped. Nothing was kept." in shown.plain
