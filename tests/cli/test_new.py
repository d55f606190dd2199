"""`uproar new` writes files that work as they are; `uproar compare` and `uproar run --from` put runs side by side and together."""

from __future__ import annotations

import pytest

from tests.cli.terminal import Commands

SMALL = ["--limit", "60", "--epochs", "1", "--fractions", "0.5", "--protocols", "roar", "--jobs", "1"]


def test_a_new_study_is_valid_and_a_file_that_is_there_is_left_alone(commands: Commands, tmp_path) -> None:
    done = commands.piped(["new", "study"], tmp_path)
    assert done.code == 0, done.errors
    text = (tmp_path / "study.toml").read_text()
    assert "uproar run study.toml" in text
    from uproar.study.spec import study_of

    assert study_of(tmp_path / "study.toml").protocols == ("evaluator", "roar", "kar")
    again = commands.piped(["new", "study"], tmp_path)
    assert again.code == 2 and "study.toml is there already" in again.errors
    assert (tmp_path / "study.toml").read_text() == text


def test_a_new_estimator_satisfies_the_contract(commands: Commands, tmp_path) -> None:
    assert commands.piped(["new", "estimator", "mine.py"], tmp_path).code == 0
    tried = commands.piped(["check", "mine.py"], tmp_path)
    assert tried.code == 0, tried.text + tried.errors
    assert "my_method satisfies the contract" in tried.text


def test_a_new_metric_scores_maps(commands: Commands, tmp_path) -> None:
    assert commands.piped(["new", "metric"], tmp_path).code == 0
    words = ["score", "--plugin", "my_metric.py", "--metrics", "my_metric", "--estimators", "random,brightness"]
    scored = commands.piped([*words, "--limit", "20"], tmp_path)
    assert scored.code == 0, scored.errors
    assert "my_metric" in scored.text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["new", "estimator", "mine.toml"], "ends in .py, not 'mine.toml'"),
        (["new", "study", "nowhere/study.toml"], "The folder nowhere is not there"),
        (["compare", "runs/none", "runs/a"], "runs/none"),
        (["compare", "runs/a", "runs/none"], "runs/a has no method 'runs/none' to compare; it has none"),
        (["compare", "runs/a", "runs/b", "grad"], "Two runs are compared as a whole"),
        (["run", *SMALL, "--from", "runs/none"], "neither the folder of a run nor a store"),
    ],
)
def test_a_mistake_is_one_sentence(words, sentence, commands: Commands, two_runs) -> None:
    refused = commands.piped(words, two_runs)
    assert refused.code == 2
    assert sentence in " ".join(refused.errors.split())
    assert "Traceback" not in refused.errors


@pytest.fixture(scope="module")
def two_runs(commands: Commands, tmp_path_factory):
    """Two runs of one study: other replicates, other estimators."""
    place = tmp_path_factory.mktemp("two")
    for name, seeds, estimators in (("a", "2", "random,grad"), ("b", "3", "random,sobel")):
        words = ["run", *SMALL, "--seeds", seeds, "--estimators", estimators, "--out", f"runs/{name}"]
        done = commands.piped(words, place)
        assert done.code == 0, done.errors
    return place


def test_a_run_does_not_differ_from_itself_and_differs_from_another(commands: Commands, two_runs) -> None:
    same = commands.piped(["compare", "runs/a", "runs/a"], two_runs)
    assert same.code == 0, same.errors
    assert "The studies are the same." in same.text and "all equal; 0 added, 0 removed" in same.text
    other = commands.terminal(["compare", "runs/a", "runs/b"], two_runs)
    assert other.code == 0
    assert "seeds" in other.text and "estimators" in other.text
    assert "0, 1, 2" in other.text


def test_results_of_other_runs_are_taken_and_only_what_nobody_has_is_computed(commands: Commands, two_runs) -> None:
    words = ["run", *SMALL, "--seeds", "3", "--estimators", "random,grad,sobel", "--out", "runs/m"]
    merged = commands.piped([*words, "--from", "runs/a,runs/b"], two_runs)
    assert merged.code == 0, merged.errors
    import uproar

    keys = ["estimator", "fraction", "seed"]
    values = {name: uproar.open(two_runs / "runs" / name).table.set_index(keys)["accuracy"] for name in ("a", "b", "m")}
    new = values["m"].index.difference(values["a"].index.union(values["b"].index))
    assert {key for key in new if key[1]} == {("grad", 0.5, 2)}, "the plain training is shared"
    assert " cells, 1 of them new" in merged.text
    for name in ("a", "b"):
        assert (values["m"].loc[values[name].index] == values[name]).all()
