"""Words that shells complete: scripts for bash, zsh and fish, and names without torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from uproar.cli.options import complete_names

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
    assert answer.split()[:1] == ["deletion"]


def test_the_last_name_of_a_list_or_an_expression_is_completed():
    complete = complete_names("estimators")
    assert "grad,sg(ig" in complete("grad,sg(i")
    assert complete("guided_b") == ["guided_backprop", "guided_backpropagation"]
    assert not complete("no_such")
    kinds = ("tasks", "models", "metrics", "studies", "audits", "claims", "fills")
    assert all(complete_names(kind)("") for kind in kinds)
