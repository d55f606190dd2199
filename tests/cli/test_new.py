"""`uproar new` writes files that work as they are; `uproar compare` and `uproar run --from` put runs beside each other
and together."""

from __future__ import annotations

import re

import pytest

import uproar
from tests.cli.conftest import NETWORK, STUDY
from uproar.cli.app import _exit_code
from uproar.study.spec import study_of


def test_a_new_study_is_valid_and_a_file_that_is_there_is_left_alone(here, capsys):
    assert _exit_code(["new", "study"]) == 0
    text = (here / "study.toml").read_text()
    assert "uproar run study.toml" in text
    assert study_of(here / "study.toml").metrics[:4] == ("evaluator", "evaluator:model", "roar", "kar")
    assert _exit_code(["new", "study"]) == 2
    assert "study.toml is there already" in capsys.readouterr().err
    assert (here / "study.toml").read_text() == text


def test_a_new_estimator_satisfies_the_contract_and_a_new_metric_scores_maps(here, capsys):
    assert _exit_code(["new", "estimator", "mine.py"]) == 0
    assert _exit_code(["check", "mine.py", "--model", "cnn-small(width=2)"]) == 0
    assert "my_method satisfies the contract" in capsys.readouterr().out
    assert _exit_code(["new", "metric"]) == 0
    file = here / "my_metric.py"  # other tests declare a metric of that name in the same process
    file.write_text(file.read_text().replace("my_metric", "new_metric"))
    words = ["--plugin", "my_metric.py", "--metrics", "new_metric", "--estimators", "random,brightness"]
    assert _exit_code(["score", *NETWORK, *words, "--limit", "12"]) == 0
    assert "new_metric" in capsys.readouterr().out


@pytest.fixture(scope="module")
def two_runs(tiny_run, tmp_path_factory):
    """Two runs of one study: other seeds, other estimators."""
    place = tmp_path_factory.mktemp("two")
    tiny_run.copy(place / "runs" / "a")
    words = [*STUDY, "--seeds", "3", "--out", str(place / "runs" / "b")]
    words[words.index("random,grad,sobel")] = "random,grad"
    assert _exit_code(["run", *words]) == 0
    return place


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["new", "estimator", "mine.toml"], "ends in .py, not 'mine.toml'"),
        (["new", "study", "nowhere/study.toml"], "The folder nowhere is not there"),
        (["compare", "runs/none", "runs/a"], "runs/none"),
        (["compare", "runs/a", "runs/none"], "runs/a has no method 'runs/none' to compare; it has grad, "),
        (["compare", "runs/a", "runs/b", "grad"], "Two runs are compared as a whole"),
        (["run", *STUDY, "--from", "runs/none"], "neither the folder of a run nor a store"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, two_runs, monkeypatch, capsys):
    monkeypatch.chdir(two_runs)
    assert _exit_code(words) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_run_does_not_differ_from_itself_and_differs_from_another(two_runs, monkeypatch, capsys):
    monkeypatch.chdir(two_runs)
    assert _exit_code(["compare", "runs/a", "runs/a"]) == 0
    same = capsys.readouterr().out
    assert "The studies are the same." in same and "all equal; 0 added, 0 removed" in same
    assert _exit_code(["compare", "runs/a", "runs/b"]) == 0
    other = capsys.readouterr().out
    assert "seeds" in other and "estimators" in other and "0, 1, 2" in other


def test_results_of_other_runs_are_taken_and_only_what_nobody_has_is_computed(two_runs, monkeypatch, capsys):
    monkeypatch.chdir(two_runs)
    assert _exit_code(["run", *STUDY, "--seeds", "3", "--out", "runs/m", "--from", "runs/a,runs/b"]) == 0
    keys = ["estimator", "fraction", "seed"]
    values = {name: uproar.open(two_runs / "runs" / name).cells.set_index(keys)["accuracy"] for name in ("a", "b", "m")}
    new = values["m"].index.difference(values["a"].index.union(values["b"].index))
    assert {key for key in new if key[1]} == {("sobel", 0.5, 2)}, "the plain training is shared"
    assert re.search(r" results, \d+ of them new", capsys.readouterr().out)
    for name in ("a", "b"):
        assert (values["m"].loc[values[name].index] == values[name]).all()
