"""What evaluators say for a choice, also of methods that a file declares."""

from __future__ import annotations

from uproar.results.evaluator import EvaluatorScores
from uproar.runs.evaluations import evaluations_of

PLUGIN = """
import torch


def gradient_of_a_file(model, x, target):
    x.requires_grad_()
    return torch.autograd.grad(model(x).gather(1, target[:, None]).sum(), x)[0]


def fails_in_a_file(model, x, target):
    raise ValueError("never works")
"""


def test_methods_of_a_file_are_judged_in_worker_processes_and_what_failed_is_said(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    task, methods = "planted(size=8, classes=3, train=60, test=30)", ["random", "gradient_of_a_file", "fails_in_a_file"]
    said, why = evaluations_of(task, "cnn-small(width=4)", None, methods, [str(file)], 0, str(tmp_path / "store"), None)
    assert set(said) == {"label", "answer"}
    judged = set(EvaluatorScores(said["label"]).measurements)
    assert "gradient_of_a_file" in judged
    assert "fails_in_a_file" not in judged
    assert why.startswith("The evaluator has not judged fails_in_a_file: ")
    assert "never works" in why
