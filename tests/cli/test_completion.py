"""Words that shells complete: scripts for bash, zsh and fish, and names without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from uproar.cli.options import complete_names, complete_runs, listed_names

PROGRAM = "import sys; from uproar.cli import main; sys.argv = ['uproar', *sys.argv[1:]]; main()"


def asked(**variables):
    """What the program answers a shell, which asks through variables."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "says"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef uproar"), ("fish", "complete --command uproar")],
)
def test_every_shell_gets_a_script_that_it_can_read(shell, says, tmp_path):
    script = asked(_UPROAR_COMPLETE=f"source_{shell}")
    assert says in script
    if shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        subprocess.run([shell, "-n", str(file)], check=True)


def test_shells_are_answered_with_names_a_line_each():
    answer = asked(_UPROAR_COMPLETE="complete_bash", COMP_WORDS="uproar explain --estimators grad,ig", COMP_CWORD="3")
    assert "grad,ig" in answer.split()
    answer = asked(
        _UPROAR_COMPLETE="complete_fish",
        _TYPER_COMPLETE_ARGS="uproar run --metrics del",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert [line.partition("\t")[0] for line in answer.splitlines()][:1] == ["deletion"]
    assert all("\t" in line for line in answer.splitlines()), "no name is broken into lines"


def test_the_last_name_of_a_list_or_an_expression_is_completed():
    complete = complete_names("estimators")
    assert ("grad,sg(ig") in [name for name, _ in complete("grad,sg(i")]
    assert [name for name, _ in complete("guided_b")] == ["guided_backprop", "guided_backpropagation"]
    assert not complete("no_such")
    every = {
        kind: listed_names(kind) for kind in ("tasks", "models", "metrics", "studies", "audits", "claims", "fills")
    }
    assert all(every.values())
    assert max(len(told) for pairs in every.values() for _, told in pairs) <= 60


def test_runs_are_offered_from_where_one_stands(tmp_path, monkeypatch):
    for name in ("runs/a", "runs/b", "elsewhere/c", "other"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/a", "runs/b", "elsewhere/c"):
        (tmp_path / name / "run.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in complete_runs("")] == ["elsewhere", "runs", "runs/a", "runs/b"]
    assert [name for name, _ in complete_runs("ru")] == ["runs"]
    assert [name for name, _ in complete_runs("runs/")] == ["runs/a", "runs/b"]
