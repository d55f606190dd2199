"""What a person sees while a command runs: on a terminal, through pipes, with TERM=dumb."""

from __future__ import annotations

STUDY = [
    "--task", "planted(size=8, classes=3, train=60, test=30)", "--model", "cnn-small(width=4)",
    "--estimators", "random,grad", "--fractions", "0.3,0.6", "--seeds", "2", "--epochs", "1",
    "--protocols", "roar", "--jobs", "1",
]  # fmt: skip


def test_a_run_and_its_audit_show_a_bar_on_a_terminal_and_end_well(commands, tmp_path):
    shown = commands.terminal(["run", *STUDY, "--out", "r"], tmp_path)
    assert shown.code == 0, shown.plain
    assert "Traceback" not in shown.plain
    assert "8 cells, 8 of them new" in shown.plain
    shown = commands.terminal(["audit", "r", "--audits", "variation", "--jobs", "1"], tmp_path)
    assert shown.code == 0, shown.plain
    assert "Traceback" not in shown.plain
