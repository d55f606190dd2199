"""Evaluators for a choice: of methods that a file declares, of images that nobody has named, in little time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from uproar.errors import BadInput
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.results.scores import Scores
from uproar.study import evaluations
from uproar.study.evaluations import with_evaluators

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
    named = {"tasks": task, "models": "cnn-small(width=4)", "plugins": (str(file),)}
    scores = with_evaluators(NONE, named, methods, 0, str(tmp_path / "store"), None)
    said, (why,) = scores.evaluations, scores.notices
    assert set(said) == {"label", "answer"}
    judged = set(EvaluatorScores(said["label"]).measurements)
    assert "gradient_of_a_file" in judged
    assert "fails_in_a_file" not in judged
    assert why.startswith("The evaluator has no score of fails_in_a_file: ")
    assert "never works" in why


NONE = Scores(*[pd.DataFrame()] * 3)
DIGITS = {"tasks": "digits", "models": "cnn-small"}


@pytest.mark.parametrize(("finished", "judges"), [(1, False), (4, False), (5, True)])
def test_a_budget_that_ended_early_has_one_account_and_says_how_much_would_do(monkeypatch, finished, judges):
    draws = np.random.default_rng(0)
    places = [(name, keeps) for name in ("ig", "random") for keeps in (False, True)]

    def bits() -> dict[tuple[str, bool], np.ndarray]:
        some = {place: draws.normal(size=(6, 20)) for place in places}
        for values in some.values():
            values[finished:] = np.nan
        return some

    of = EvaluatorBits(bits(), bits(), {"ig": "method", "random": "random"})
    table = pd.DataFrame({"status": ["done", "missing"], "estimator": ["ig", "ig"], "reason": ["", "not run yet"]})
    made = SimpleNamespace(cells=table, problems=table[1:], evaluations={("t", "m", "label"): of})
    monkeypatch.setattr(evaluations, "run_to_end", lambda *_: SimpleNamespace(results=made))
    cost = SimpleNamespace(seconds=30.0, jobs={"evaluator": (3, 9.0)})
    monkeypatch.setattr(evaluations, "estimate", lambda *_: cost)
    scores = with_evaluators(NONE, DIGITS, ["random", "ig"], 0, "store", 60.0)
    said, (why,) = scores.evaluations, scores.notices
    assert bool(said) == judges, "fewer than five decide nothing: nothing else speaks of them"
    assert why.startswith(f"The time was over after {finished} of 5 evaluators")
    wanted = {1: 11, 4: 3, 5: 3}[finished]
    assert f"A budget of {wanted}m should do; the same call goes on." in why
    assert "not run yet" not in why and "has no score of" not in why


@pytest.mark.parametrize(("budget", "replicates"), [(160.0, 5), (140.0, 0)])
def test_evaluators_begin_only_where_five_end_in_time_and_none_begins_near_the_end(monkeypatch, budget, replicates):
    """Each evaluator takes 30 s, of which its training takes 20 s."""
    asked = []
    monkeypatch.setattr(
        evaluations,
        "estimate",
        lambda study, *_: SimpleNamespace(
            seconds=30.0 * len(study.seeds), jobs={"evaluator": (len(study.seeds), 20.0)}
        ),
    )

    def run(study, store, jobs, listen, ray, end):
        asked.append((len(study.seeds), end))
        raise BadInput("enough seen")

    monkeypatch.setattr(evaluations, "run_to_end", run)
    (why,) = with_evaluators(NONE, DIGITS, ["random", "ig"], 0, "store", budget).notices
    if replicates:
        ((count, end),) = asked
        assert count == replicates and budget - 25 < end <= budget - 20
    else:
        assert not asked
        assert "5, the least that can be tested, take about 2 min 30 s here, and 2 min 20 s were left" in why
        assert "A budget of 6m should do" in why
