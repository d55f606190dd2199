"""What `--help` shows: every option described, with its default, in 80 columns, without names of Python types."""

from __future__ import annotations

import re

import pytest
import typer.main

from uproar.cli.app import _exit_code, app
from uproar.study.spec import Study

PROGRAM = typer.main.get_command(app)


def _lines(command, before=()):
    """The words of every command of the program."""
    yield [*before]
    for name, inner in getattr(command, "commands", {}).items():
        yield from _lines(inner, (*before, name))


LINES = list(_lines(PROGRAM))


def _command(line):
    result = PROGRAM
    for name in line:
        result = result.commands[name]
    return result


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_help_is_whole_at_80_columns_and_the_usual_options_fit_one_screen(line, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    assert _exit_code([*line, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    rows = [row for row in shown.splitlines() if row.startswith("│")]
    assert not [row for row in rows if row.rstrip(" │").endswith("…") and "A,B,…" not in row]
    assert not re.search(r"<\w+(\[\w+\])?>", shown), "names of Python types"
    usual, *advanced = re.split(r"\n╭─ Advanced", shown)
    assert not line or len(usual.splitlines()) <= 24, "the usual options fit one screen"
    assert not advanced or "╭─" not in advanced[0], "nothing comes after the advanced options"


def test_there_are_twelve_commands_in_three_groups_and_choose_is_first(capsys):
    assert next(iter(PROGRAM.commands)) == "choose" and len(PROGRAM.commands) == 12
    assert _exit_code(["--help"]) == 0
    groups = re.findall(r"╭─ ([A-Z][a-z ]+) ─", capsys.readouterr().out)
    assert groups == ["Options", "Ask about a network", "Run a study", "Extend and keep"]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_every_option_is_described(line):
    for parameter in _command(line).params:
        if parameter.name in ("install_completion", "show_completion"):
            continue
        assert parameter.help, parameter.name
        if parameter.param_type_name == "option" and not parameter.is_flag:
            assert parameter.metavar, f"{parameter.name} does not say what it takes"


def test_the_defaults_that_help_shows_are_those_of_the_study_without_a_file():
    study = Study()
    held = {
        "task": study.tasks,
        "model": study.models,
        "audits": study.audits or ("none",),
        "fractions": study.fractions,
        "seeds": (len(study.seeds),),
        "fill": (study.fill,),
        "device": (study.device,),
        "epochs": (study.recipe.epochs,),
    }
    shown = {p.name: re.search(r"\[default: (.*)\]\[/\]$", p.help or "") for p in _command(["run"]).params}
    for name, value in held.items():
        assert shown[name][1] == ", ".join(map(str, value)), name
    assert study.limit is None and study.weights is None
    assert (study.recipe.optimizer, study.recipe.schedule) == ("sgd", "one-cycle")


@pytest.mark.parametrize("line", [["explain"], ["score"], ["check"]], ids=" ".join)
def test_the_defaults_that_help_shows_are_what_the_command_takes(line):
    for parameter in _command(line).params:
        shown = re.search(r"\[default: (.*)\]\[/\]$", parameter.help or "")
        flag = getattr(parameter, "is_flag", False)
        if parameter.default is not None and not parameter.required and not flag:
            assert shown is not None, parameter.name
            assert shown[1] == str(parameter.default), parameter.name


def test_the_version_is_printed_alone(capsys):
    from importlib.metadata import version

    assert _exit_code(["--version"]) == 0
    assert capsys.readouterr().out == f"uproar {version('uproar')}\n"


def test_help_says_where_data_sets_are_looked_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert _exit_code(["data", "get", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "then ./data, then ~/.cache/uproar/data" in shown
