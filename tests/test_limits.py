"""Input that nobody means: refused in one short sentence, at once, never with a traceback or a long wait."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from uproar import study_of
from uproar.cli.app import _exit_code
from uproar.errors import LONGEST_MESSAGE, BadInput, unknown
from uproar.expression import DEEPEST, parse
from uproar.paths import user_path
from uproar.store import Store
from uproar.study.spec import MOST, MOST_CELLS


def refused(sentence: str, action, *arguments) -> None:
    began = time.process_time()
    with pytest.raises(BadInput, match=sentence) as caught:
        action(*arguments)
    assert len(str(caught.value)) < LONGEST_MESSAGE + 100
    assert time.process_time() - began < 5, "it is found at once"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"seeds": 10**9}, f"at most {MOST} seeds, not 1000000000"),
        ({"seeds": [10**20]}, "A seed lies between .* not at 100000000000000000000"),
        ({"seeds": list(range(50_000))}, f"seeds has at most {MOST} entries, not 50000"),
        ({"fractions": [i / 1e6 for i in range(100_000)]}, "fractions has at most"),
        ({"estimators": [f"sg(grad, samples={i})" for i in range(1, 20_000)]}, "estimators has at"),
        ({"seeds": MOST, "fractions": [i / 1000 for i in range(1, 1000)]}, f"more than {MOST_CELLS}"),
        ({"estimators": "sg(" * 300 + "grad" + ")" * 300}, f"at most {DEEPEST} calls or lists"),
        ({"estimators": "x" * 10_000_000}, "at most 10000 characters, not 10000000"),
        ({"task": "planted(size=" + "9" * 5000 + ")"}, "the number 9+… .* is too large"),
        ({"name": "n" * 10_000_000}, r"not 'nnn.* \(10000003 characters\)"),
        ({"x" * 10_000_000: 1}, "has no setting 'xxx"),
        ({"plugins": "p" * 300 + ".py"}, "at most 255 bytes"),
        ({"plugins": "~nobody_has_this_name/p.py"}, "No user has the home folder"),
        ({"plugins": "p\0.py"}, "no NUL bytes"),
        ({"weights": "~nobody_has_this_name/w.pth"}, "No user has the home folder"),
    ],
    ids=lambda value: next(iter(value))[:12] if isinstance(value, dict) else None,
)
def test_settings_beyond_any_use_are_one_sentence(settings, sentence):
    def checked():
        study_of(settings).check_files()

    refused(sentence, checked)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seeds = " + "9" * 5000, "is not valid TOML"),
        ("seeds = " + "[" * 5000 + "]" * 5000, "too deep"),
        ("a." * 3000 + "b = 1", "too deep"),
        ("name = 'a\0b'", "TOML"),
        ("\n" * 10_000_001, "more than 10000000 bytes"),
    ],
    ids=["digits", "deep list", "deep table", "NUL", "large"],
)
def test_study_files_beyond_any_use_are_one_sentence(tmp_path, text, sentence):
    file = tmp_path / "study.toml"
    file.write_text(text)
    refused(sentence, study_of, file)


@pytest.mark.parametrize(
    "text",
    ["f(a=" + "[" * 300 + "]" * 300 + ")", "f(a=1e999)", "f(a=" + "1" * 9000 + "x)", "(" * 9000, "-" * 9000],
    ids=["lists", "infinite", "digits", "brackets", "marks"],
)
def test_expressions_beyond_any_use_are_one_sentence(text):
    refused(".", parse, text)


def test_as_many_as_may_be_are_read():
    study = study_of({"seeds": MOST, "estimators": ["random"], "metrics": ["roar"], "fractions": [0.5]})
    assert len(study.seeds) == MOST
    assert len(study_of({"estimators": [f"sg(grad, samples={i})" for i in range(1, 3001)]}).chains) == 3001
    inside = "sq(" * (DEEPEST - 1) + "grad" + ")" * (DEEPEST - 1)
    assert str(parse(inside)) == inside


def test_what_is_repeated_of_a_long_value_is_short():
    assert len(str(unknown("fill", "y" * 10_000_000, ["mean"]))) < 300
    assert len(str(unknown("fill", "y z " * 10_000_000, ["mean"]))) < LONGEST_MESSAGE + 100
    assert "name-9" in str(unknown("fill", "z", [f"name-{i}" for i in range(10)])), "a short list is told whole"
    assert "name-99" not in str(unknown("fill", "z", [f"name-{i}" for i in range(100)]))


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "~nobody_has_this_name/x", "a/" * 3000])
def test_paths_that_no_file_can_have_are_one_sentence_in_every_command(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (name, ""):
        refused(".", user_path, path)
        refused(".", Store, path)
    for command in (
        ["run", f"{name}.toml"],
        ["report", name],
        ["compare", name, "grad"],
        ["explain", name],
        ["score", "--maps", f"{name}.npz"],
        ["check", f"{name}.py"],
        ["ls", "estimators", "--plugin", f"{name}.py"],
        ["run", "--dry-run", "--task", f'folder("{name}")'],
        ["run", "--out", name],
    ):
        assert _exit_code(command) in (2, 3), command
        told = capsys.readouterr().err
        assert "Traceback" not in told and len(told) < 12_000
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("redirection", "code", "told"),
    [("| true", 141, ""), ("> /dev/full", 3, "Cannot write to the standard output: No space left"), (">&-", 0, "")],
    ids=["closed pipe", "full", "closed"],
)
def test_an_output_that_takes_nothing_ends_the_command_quietly(redirection, code, told):
    command = f"set -o pipefail; {sys.executable} -m uproar ls {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == code
    assert told in done.stderr and len(done.stderr.splitlines()) <= 1


def test_an_interrupt_while_the_program_is_loaded_is_one_sentence(tmp_path):
    code = (
        "import sys, uproar.cli\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'uproar.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "uproar.cli.main(['ls'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip() == "Stopped before anything was done."


def test_a_working_folder_that_is_gone_is_one_sentence(tmp_path, capsys, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert _exit_code(["run"]) == 2
    finally:
        monkeypatch.chdir(Path(__file__).parent)
    assert "The folder where the command runs is gone" in capsys.readouterr().err
