"""Files of the user: what they may do, and what happens when they do something else."""

from __future__ import annotations

import textwrap

import pytest

from uproar.cli.app import _exit_code
from uproar.errors import BadInput
from uproar.extend import load_plugin
from uproar.running import run
from uproar.study.cell import Failed
from uproar.study.work import attempt

TINY = {
    "tasks": "planted(size=8, train=24, test=12)", "models": "cnn-small(width=2)",
    "estimators": ["random"], "protocols": ["roar:no-retrain"], "fractions": [0.5], "seeds": 1,
    "recipe": {"epochs": 1},
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, where the command line runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(file, text: str) -> str:
    """A file with a text, its folders made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return str(file)


EXITS = """
    import sys
    import uproar
    from uproar.removal import fills

    @uproar.estimator(passes=1)
    def exits(model, x, target):
        sys.exit(7)

    @uproar.metric(higher_is_better=True, low=0, high=1, chance="0")
    def exits_too(batch):
        sys.exit()

    @fills.declare()
    def exits_here(x, removed, around):
        raise SystemExit("no colour")

    def build(classes):
        sys.exit(3)
"""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"estimators": ["random", "exits"]}, "leaves.py, line 8: sys.exit(7) was called"),
        ({"fill": "exits_here"}, "leaves.py, line 16: sys.exit('no colour') was called"),
        ({"metrics": "exits_too"}, "leaves.py, line 12: sys.exit() was called"),
    ],
)
def test_an_exit_asked_for_by_a_plugin_fails_its_own_cells(here, changes, reason):
    file = write(here / "leaves.py", EXITS)
    results = run({**TINY, "plugins": file, **changes}, store=here / "store", jobs=1)
    parts = [results.table, results.scores]
    failed = [row for part in parts for row in part.itertuples() if row.status == "failed"]
    assert failed and all(row.reason == reason for row in failed)
    assert "done" in set(results.table["status"]) or "fill" in changes


def test_an_exit_asked_for_by_a_model_or_on_loading_is_one_sentence(here, capsys):
    write(here / "leaves.py", EXITS)
    assert _exit_code(["run", "--model", "leaves.py:build", "--out", "mine"]) == 2
    said = capsys.readouterr().err
    assert "leaves.py:build could not be built: leaves.py, line 19: sys.exit(3) was called" in said
    write(here / "gone.py", "import sys\nsys.exit(7)\n")
    assert _exit_code(["try", "gone.py"]) == 2
    assert "gone.py raises when it is loaded: sys.exit(7) was called" in capsys.readouterr().err


def test_an_exit_in_explain_is_one_sentence_and_in_try_a_broken_rule(here, capsys):
    write(here / "leaves.py", EXITS)
    given = ["--plugin", "leaves.py", "--estimators", "exits", "--task", TINY["tasks"]]
    assert _exit_code(["explain", *given, "--limit", "2"]) == 2
    assert "leaves.py, line 8: sys.exit(7) was called." in capsys.readouterr().err
    assert _exit_code(["try", "leaves.py"]) == 1
    assert "sys.exit(7) was called" in capsys.readouterr().out


def test_an_interrupt_stays_one(here):
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupted)
    assert isinstance(attempt(lambda: exec("raise SystemExit")), Failed)
    write(here / "stops.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_plugin(here / "stops.py")
    write(here / "stops.py", "raise SystemExit\n")
    with pytest.raises(BadInput, match=r"stops.py raises when it is loaded: sys.exit\(\) was"):
        load_plugin(here / "stops.py")
