"""`uproar new` writes files that work as they are; `uproar diff` and `uproar merge` put runs side by side and together."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.terminal import Commands
from uproar.errors import BadInput
from uproar.runs.merge import united_study

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
    tried = commands.piped(["try", "mine.py"], tmp_path)
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
        (["diff", "runs/a", "runs/none"], "runs/none"),
        (["merge", "runs/a", "--out", "runs/m"], "Two runs or more"),
        (["merge", "runs/a", "runs/a/", "--out", "runs/m"], "each once"),
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
    same = commands.piped(["diff", "runs/a", "runs/a"], two_runs)
    assert same.code == 0, same.errors
    assert "The studies are the same." in same.text and "all equal; 0 added, 0 removed" in same.text
    other = commands.terminal(["diff", "runs/a", "runs/b"], two_runs)
    assert other.code == 0
    assert "seeds" in other.text and "estimators" in other.text
    assert "0, 1, 2" in other.text


def test_merged_runs_have_all_cells_of_both_and_nothing_is_computed(commands: Commands, two_runs) -> None:
    merged = commands.piped(["merge", "runs/a", "runs/b", "--out", "runs/m"], two_runs)
    assert merged.code == 1, merged.errors  # grad has no replicate 2: what nobody has is missing, not made up
    assert "missing 1 cells" in merged.errors and "uproar store repair runs/m makes what is missing" in merged.text
    import uproar

    parts = {name: uproar.open(two_runs / "runs" / name) for name in ("a", "b", "m")}
    keys = ["estimator", "fraction", "seed"]
    tables = {
        name: run.table[run.table["fraction"] == 0.5] for name, run in parts.items()
    }  # the plain training is shared
    values = {name: table[table["status"] == "done"].set_index(keys)["accuracy"] for name, table in tables.items()}
    for name in ("a", "b"):
        own = values[name]
        assert (values["m"].loc[own.index] == own).all()
    assert len(values["m"]) == len(values["a"].index.union(values["b"].index))
    assert set(parts["m"].table["status"]) == {"done", "missing"}
    shutil.rmtree(two_runs / "runs" / "m")


def test_studies_that_results_depend_on_are_not_merged(commands: Commands, two_runs) -> None:
    words = ["run", *SMALL, "--seeds", "2", "--estimators", "random", "--fill", "zero", "--out", "runs/z"]
    assert commands.piped(words, two_runs).code == 0
    refused = commands.piped(["merge", "runs/a", "runs/z", "--out", "runs/m"], two_runs)
    assert refused.code == 2 and "differ in fill (mean and zero)" in " ".join(refused.errors.split())
    assert not (two_runs / "runs" / "m").exists()


def test_of_recipes_that_differ_only_the_settings_that_do_are_named() -> None:
    from uproar.study.spec import study_of

    studies = [study_of({}, recipe={"epochs": 2}), study_of({}, recipe={"epochs": 1}, limit=50)]
    with pytest.raises(BadInput, match=r"differ in limit \(none and 50\) and recipe\.epochs \(2 and 1\)\.$"):
        united_study(studies, [Path("a"), Path("b")])
