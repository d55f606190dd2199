"""What audits would cost is told before anything is run, and networks are not retrained unasked."""

from __future__ import annotations

import json
import re

import pytest
from safetensors.torch import save_file

import uproar
from uproar.cli.app import _exit_code
from uproar.store import Store
from uproar.study.cost_estimate import audit_costs
from uproar.study.spec import study_of

TASK, MODEL = "planted(size=8, classes=3, train=600, test=30)", "cnn-small(width=4)"


@pytest.fixture
def given(tmp_path, monkeypatch):
    """A study of metrics alone on a network with given weights."""
    monkeypatch.chdir(tmp_path)
    save_file(uproar.build(MODEL, uproar.load(TASK), 0).state_dict(), "net.safetensors")
    return {
        "tasks": TASK,
        "models": MODEL,
        "weights": "net.safetensors",
        "estimators": ["random", "grad"],
        "metrics": ["deletion(steps=4)"],
        "fractions": [0.3, 0.6],
        "seeds": 2,
        "recipe": {"epochs": 9},
    }


def test_the_cost_of_an_audit_counts_the_trainings_it_needs_also_where_weights_are_given(given, tmp_path):
    """Geometry retrains on two shapes of holes: its cost is that of trainings, not of showing test images."""
    result = {}
    for name, weights in (("given", "net.safetensors"), ("trained", None)):
        study = study_of({**given, "weights": weights, "audits": ["geometry"]})
        result[name] = next(audit_costs(study, Store(tmp_path / name), 1))
    assert result["given"].trainings == 8  # two shapes, two fractions, two seeds
    assert result["trained"].trainings == 8 + 2
    assert result["given"].seconds > 0.3 * result["trained"].seconds


def test_networks_are_retrained_only_where_that_was_asked_for(given, monkeypatch, capsys):
    monkeypatch.setattr("uproar.audits.audits", ["geometry", "values"])  # all of them take long
    options = [
        "--task",
        TASK,
        "--model",
        MODEL,
        "--weights",
        "net.safetensors",
        "--estimators",
        "random,grad",
        "--metrics",
        "roar:no-retrain",
        "--fractions",
        "0.3,0.6",
        "--seeds",
        "1",
    ]
    assert _exit_code(["run", *options, "--jobs", "1", "--out", "r"]) == 0
    capsys.readouterr()
    assert _exit_code(["audit", "r", "--dry-run", "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    line = re.search(r"geometry: left out: would retrain (\d+) networks, (?:about .+|less than a second);", said)
    assert line and int(line[1]) == 4, said
    assert "--audits geometry runs it." in said
    assert _exit_code(["audit", "r", "--dry-run", "--audits", "geometry", "--jobs", "1"]) == 0
    assert "left out" not in capsys.readouterr().out


def test_the_same_run_after_an_audit_keeps_it_on_the_page_and_another_study_says_that_it_does_not(given, capsys):
    options = ["--task", TASK, "--model", MODEL, "--weights", "net.safetensors", "--estimators", "random,grad"]
    options += ["--metrics", "roar:no-retrain", "--fractions", "0.5", "--seeds", "1", "--jobs", "1", "--out", "r"]
    assert _exit_code(["run", *options]) == 0
    assert _exit_code(["audit", "r", "--audits", "sanity", "--jobs", "1"]) == 0
    capsys.readouterr()
    assert _exit_code(["run", *options, "--json"]) == 0
    assert [row["audit"] for row in json.loads(capsys.readouterr().out)["audits"]] == ["sanity"]
    assert _exit_code(["run", *options, "--seeds", "2"]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "leaves the page; uproar audit r --audits sanity repeats them." in said


def test_a_folder_of_scores_is_told_what_to_do_instead(tmp_path, capsys):
    (tmp_path / "scores.json").write_text("{}")
    assert _exit_code(["audit", str(tmp_path)]) == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "holds scores of maps (uproar score), not a run: run a study" in said
