"""Replicates where they are needed, and a budget that ends a run cleanly."""

from __future__ import annotations

import shutil
import time

import pandas as pd
import pytest
import torch
from scipy import stats

import uproar
from tests.readings import reading_of
from tests.results.test_evaluator import scores_of
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.metrics.retraining import retraining_named
from uproar.results.study import COLUMNS, Results
from uproar.statistics.comparisons import sequential
from uproar.study.adaptive import _undecided
from uproar.study.collected import collect_run
from uproar.study.grid import settings_of
from uproar.wording import seconds_of

SMALL = {
    "name": "small",
    "tasks": "planted(size=8, classes=2, train=300, test=200, noise=0.3)",
    "models": "cnn-small",
    "estimators": ["oracle", "sobel"],
    "metrics": ["roar"],
    "fractions": [0.45],
    "seeds": 8,
    "recipe": {"epochs": 6},
    "until_decided": True,
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    store, seen = tmp_path_factory.mktemp("adaptive"), []
    run = uproar.run(SMALL, store=store, jobs=1, listen=lambda state: seen.append(state.study))
    return run, list(dict.fromkeys(seen)), store


def test_each_analysis_asks_only_for_what_is_open(done):
    run, analyses, _ = done
    spent = run.spent.set_index("estimator")
    assert analyses[0] == "interim analysis at 5 replicates: roar"
    for name, row in spent.iterrows():
        cells = run.done.query("estimator == @name and fraction > 0")
        assert cells["seed"].nunique() == row["replicates"] == (8 if row["open"] else row["analysis"])
    assert spent.loc["oracle", "analysis"] == (5 if _p_at_the_first_analysis(run, "oracle") <= 0.025 else 8)
    assert not spent.loc["oracle", "open"]
    later = run.done.query("estimator == 'random' and fraction > 0")["seed"].nunique()
    assert later == (8 if len(analyses) > 1 else 5)


def _p_at_the_first_analysis(run, name):
    """p with five replicates of the only method; each of two analyses may spend half of 5 %."""
    early = run.done[run.done["seed"].isin(sorted(run.done["seed"].unique())[:5])]
    areas = early.groupby(["estimator", "seed"])["accuracy"].mean()  # of two fractions
    return stats.ttest_rel(areas[name], areas["random"]).pvalue


def test_verdicts_are_those_of_the_analyses(done):
    run, _, _ = done
    tidy = run.done.rename(columns={"seed": "replicate", "accuracy": "value"})
    again = sequential(tidy[["estimator", "replicate", "fraction", "value"]], analyses=(5, 8), others=["sobel"])
    assert run.verdicts["verdict"].tolist() == again["verdict"].tolist()
    assert not (run.cells["status"] == "missing").any()


def test_the_report_says_where_the_replicates_went(done, tmp_path):
    run, _, _ = done
    page = run.report(tmp_path).read_text()
    assert f"ROAR: decided with {run.spent.set_index('estimator').loc['oracle', 'analysis']} replicates: oracle" in page


def test_what_an_analysis_asked_for_is_missing_when_it_is_lost_and_made_again(done, tmp_path):
    """Also of an estimator that was decided early, and in a report that computes nothing."""
    run, _, store = done
    copy = tmp_path / "copy"
    shutil.copytree(store, copy)
    study = uproar.study_of(SMALL)
    reading = reading_of(study, copy)
    lost = reading.setting.accuracy(read_chain("oracle"), retraining_named("roar"), 0.45, study.seeds[1])
    (copy / reading.store.name(lost.folder, lost.key)).unlink()
    missing = collect_run(study, copy).cells.query("status == 'missing'")
    # without it nobody knows what was decided: what the next analysis would then ask for is missing too
    assert study.seeds[1] in missing["seed"].tolist() and "oracle" in set(missing["estimator"])
    again = uproar.run(study, store=copy, jobs=1)
    columns = ["estimator", "fraction", "seed", "accuracy", "ties", "status"]
    assert again.cells[columns].equals(run.cells[columns])
    assert again.verdicts.equals(run.verdicts)


def test_a_budget_begins_nothing_new_and_the_same_command_goes_on(tmp_path):
    study = {**SMALL, "until_decided": False, "seeds": 2}
    run = uproar.run(study, store=tmp_path, jobs=1, budget=1.0, listen=lambda _: time.sleep(0.5))
    missing = (run.cells["status"] == "missing").sum()
    assert missing
    assert any("The budget of 1 seconds ended the run" in notice for notice in run.notices)
    whole = uproar.run(study, store=tmp_path, jobs=1)
    assert not (whole.cells["status"] == "missing").any()
    assert not whole.notices


def test_too_few_seeds_and_wrong_times_are_refused():
    with pytest.raises(BadInput, match="needs 5 replicates for its first interim analysis, but the study has 2 seeds"):
        uproar.Study(**{**SMALL, "seeds": 2})
    for text in ("soon", "0m", "-3", "5d"):
        with pytest.raises(BadInput, match="such as 90s, 30m or 2h"):
            seconds_of(text)
    with pytest.raises(BadInput, match="^budget= takes a time such as"):
        uproar.choose(torch.nn.Flatten(), torch.rand(2, 1, 2, 2), budget="-3m")


def test_an_evaluator_is_asked_again_only_of_the_methods_that_its_score_leaves_open():
    study = uproar.study_of({**SMALL, "estimators": ["grad", "ig", "sobel"], "metrics": ["evaluator"]})
    (setting,), kinds = settings_of(study), {"grad": "method", "ig": "method", "sobel": "baseline"}
    place = (*setting.names, "label")

    def open_ones(gains):
        bits = scores_of(gains, {**kinds, "random": "random"}).bits
        results = Results({}, pd.DataFrame(columns=list(COLUMNS)), pd.DataFrame(), evaluations={place: bits})
        return _undecided(study, setting, "evaluator", results)

    assert open_ones({"grad": 0.8, "ig": 0.0, "sobel": 0.0, "random": 0.0}) == ["random", "ig", "sobel"]
    assert open_ones({"grad": 0.8, "ig": 0.7, "sobel": 0.0, "random": 0.0}) == []
