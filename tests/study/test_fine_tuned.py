"""Fine-tuned judges in a study: one fine-tuning per base model, kept under a key of its own, the same everywhere."""

import numpy as np
import pytest
import torch

from tests.readings import base_network, reading_of
from uproar.metrics.registry import fine_tuning_of
from uproar.store import Store, list_store
from uproar.study.audit import required_results
from uproar.study.collect import collect
from uproar.study.graph import stored
from uproar.study.run import plan, run_study
from uproar.study.spec import study_of

METRICS = ["ffid_plus(draws=2, epochs=2)", "ffid_minus(draws=2, epochs=2)", "idsds(epochs=2, batch_size=32, lr=0.01)"]
GIVEN = {
    "tasks": "planted(size=8, classes=3, train=90, test=24)",
    "models": "cnn-small(width=4)",
    "estimators": ["random", "grad", "oracle"],
    "metrics": METRICS,
    "fractions": [0.5],
    "seeds": 2,
    "recipe": {"epochs": 2},
}


@pytest.fixture(scope="module")
def study():
    return study_of(GIVEN)


@pytest.fixture(scope="module")
def done(study, tmp_path_factory):
    place = tmp_path_factory.mktemp("fine-tuned")
    before = plan(study, Store(place))
    run_study(study, place, jobs=1)
    return place, before


def values(study, place):
    table = collect(study, Store(place)).scores
    return table.set_index(["estimator", "metric", "seed"])["value"]


def test_one_fine_tuning_of_a_kind_serves_all_estimators_of_a_replicate(study, done):
    place, before = done
    assert [job.step for job in before.jobs].count("fine_tuned") == 2 * 2  # two kinds, two replicates
    tuned = {job.id: job.results[0]["seed"] for job in before.jobs if job.step == "fine_tuned"}
    for job in before.jobs:
        if job.step == "metric_of_maps":
            seed = job.results[0]["seed"]
            assert {need for need in job.needs if need in tuned} == {i for i, own in tuned.items() if own == seed}
    reading = reading_of(study, place)
    results = {reading.setting.fine_tuned(fine_tuning_of(name), seed) for name in METRICS for seed in (0, 1)}
    assert len(results) == 4
    assert all(reading.find(result) is not None for result in results)
    assert list_store(reading.store).kinds()["fine-tuned"][0] == 4
    assert not plan(study, Store(place)).jobs


def test_a_lost_copy_is_made_again_and_judges_the_same(study, done, tmp_path):
    place, _ = done
    first = values(study, place)
    assert first.notna().all()
    reading, tuning = reading_of(study, place), fine_tuning_of(METRICS[2])
    copy = stored(reading.setting.fine_tuned(tuning, 0), reading.store).arrays
    base = base_network(reading).state_dict()
    assert any(not torch.equal(torch.from_numpy(copy[name].copy()), value) for name, value in base.items())
    run_study(study, tmp_path, jobs=1)
    again = values(study, tmp_path)
    np.testing.assert_array_equal(again[first.index].to_numpy(), first.to_numpy())
    other = reading_of(study, tmp_path)
    same = stored(other.setting.fine_tuned(tuning, 0), other.store).arrays
    assert all(np.array_equal(values, same[name]) for name, values in copy.items())


def test_the_store_keeps_what_the_study_needs_and_its_size_is_counted(study, done):
    place, before = done
    tuned = reading_of(study, place).setting.fine_tuned(fine_tuning_of(METRICS[0]), 1)
    assert (tuned.folder, tuned.key) in required_results(study)
    assert sum(job.cost for job in before.jobs if job.step == "fine_tuned") == 4 * 2 * 90


def test_a_fine_tuning_that_diverges_ends_its_own_metrics_only(tmp_path):
    wild = study_of({**GIVEN, "metrics": ["idsds(lr=1e30, epochs=2, batch_size=32)", "deletion(steps=4)"], "seeds": 1})
    progress = run_study(wild, tmp_path, jobs=1)
    assert {"fine-tuning diverged" in outcome.reason for outcome in progress.outcomes.values()} == {True}
    table = collect(wild, Store(tmp_path), progress.outcomes).scores.set_index("metric")["status"]
    assert set(table["idsds(batch_size=32, epochs=2, lr=1e+30)"]) == {"failed"}
    assert set(values(wild, tmp_path).dropna().index.get_level_values("metric")) == {"deletion(steps=4)"}
