"""Fine-tuned judges in a study: one fine-tuning per base model, kept under a key of its own, the same everywhere."""

import numpy as np
import pytest
import torch
from uproar.study.bench import bench_for
from uproar.study.plan import plan
from uproar.study.settings import Setting

from uproar.metrics.registry import fine_tuning_of
from uproar.store import Store, list_store
from uproar.study.audit import required_results
from uproar.study.collect import collect
from uproar.study.run import run_study
from uproar.study.spec import study_of

METRICS = ["ffid_plus(draws=2, epochs=2)", "ffid_minus(draws=2, epochs=2)", "idsds(epochs=2, batch_size=32, lr=0.01)"]
GIVEN = {
    "tasks": "planted(size=8, classes=3, train=90, test=24)",
    "models": "cnn-small(width=4)",
    "estimators": ["random", "grad", "oracle"],
    "metrics": METRICS,
    "protocols": [],
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
    kinds = [job.kind for job in before.jobs]
    assert kinds.count("fine-tune") == 2 * 2  # two kinds, two replicates
    tuned = {job.id: job for job in before.jobs if job.kind == "fine-tune"}
    for job in before.jobs:
        if job.kind == "score":
            assert {need for need in job.needs if need in tuned} == {t.id for t in tuned.values() if t.seed == job.seed}
    bench = bench_for(Setting.all_of(study)[0], Store(place).root)
    keys = {bench.keys.fine_tuned(fine_tuning_of(name), seed) for name in METRICS for seed in (0, 1)}
    assert len(keys) == 4
    assert all(bench.store.has("fine-tuned", key) for key in keys)
    assert list_store(bench.store).kinds()["fine-tuned"][0] == 4
    assert not plan(study, Store(place)).jobs


def test_a_lost_copy_is_made_again_and_judges_the_same(study, done, tmp_path):
    place, _ = done
    first = values(study, place)
    assert first.notna().all()
    bench = bench_for(Setting.all_of(study)[0], Store(place).root)
    copy = bench.base_models.fine_tuned(0)(fine_tuning_of(METRICS[2]))
    base = bench.base_models.get(0)[0]
    assert any(not torch.equal(a, b) for a, b in zip(copy.parameters(), base.parameters(), strict=True))
    run_study(study, tmp_path, jobs=2)
    again = values(study, tmp_path)
    np.testing.assert_array_equal(again[first.index].to_numpy(), first.to_numpy())
    other = bench_for(Setting.all_of(study)[0], Store(tmp_path).root)
    same = other.base_models.fine_tuned(0)(fine_tuning_of(METRICS[2]))
    assert all(torch.equal(a, b) for a, b in zip(copy.parameters(), same.parameters(), strict=True))


def test_the_store_keeps_what_the_study_needs_and_its_size_is_counted(study, done):
    place, before = done
    needs = required_results(study, Store(place))
    bench = bench_for(Setting.all_of(study)[0], Store(place).root)
    assert ("fine-tuned", bench.keys.fine_tuned(fine_tuning_of(METRICS[0]), 1)) in needs
    assert sum(job.cost for job in before.jobs if job.kind == "fine-tune") == 4 * 2 * 90


def test_a_fine_tuning_that_diverges_ends_its_own_metrics_only(tmp_path):
    wild = study_of({**GIVEN, "metrics": ["idsds(lr=1e30, epochs=2, batch_size=32)", "deletion(steps=4)"], "seeds": 1})
    progress = run_study(wild, tmp_path, jobs=1)
    reasons = {str(unit.metric): outcome.reason for unit, outcome in progress.outcomes.items()}
    assert list(reasons) == ["idsds(batch_size=32, epochs=2, lr=1e+30)"]
    assert "fine-tuning diverged" in next(iter(reasons.values()))
    assert set(values(wild, tmp_path).dropna().index.get_level_values("metric")) == {"deletion(steps=4)"}
