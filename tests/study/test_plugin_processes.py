"""Functions of plug-ins run in processes of their own: what they do there changes nobody else's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import uproar
from tests.readings import reading_of
from uproar.estimators import estimators
from uproar.estimators.contract import try_contract
from uproar.extend import load_plugin
from uproar.metrics import metrics
from uproar.plugins import load_file
from uproar.removal.fill import fills
from uproar.store import Store
from uproar.study.grid import cells_of
from uproar.study.run import plan

from ..closeness import alike

FILE = Path(__file__).parent.parent / "misbehaving.py"
CLEAN = ["random", "grad", "sg(grad, samples=2)"]
FAIL = {
    "switches_mode": "The estimator switches_mode changed the model: its mode changed",
    "adds_to_weights": "changed the model: its weights or buffers changed (1.0.weight and",
    "zeroes_data": "changed the model: its weights or buffers changed (1.0.weight and",
    "moves_statistics": "changed the model: its weights or buffers changed (1.1.running_mean and",
    "exchanges_a_layer": "changed the model: its layers or weights were exchanged",
    "leaves_a_hook": "changed the model: hooks were left on it",
    "draws_unseeded": "gives other maps when it is run again",
    "follows_the_batch": "depends on the other images of the batch",
    "is_not_finite": "NaN or infinite",
    "has_another_shape": "has_another_shape returned (",
    "raises": "KeyError: 'oops'",
    "exits": "sys.exit(7)",
    "stops_like_a_generator": "GeneratorExit",
}
RUN = [
    *("gradient", "returns_a_graph", "zeroes_its_inputs", "seeds_everything", "keeps_one_buffer", "is_whole_numbers"),
    "dawdles_and_prints",
]
METRICS = ["insertion(steps=4)"]
BAD_METRICS = {
    "trains_the_model": "The metric trains_the_model changed the model: its mode changed",
    "forgets_an_image": "The metric forgets_an_image returned 'value' as (29,)",
}
HARMLESS_METRICS = ["zeroes_the_batch", "asks_for_emptied", "insertion(fill=vandal, steps=4)"]

PATCHES = """
import os
import torch
from torch import nn
from uproar import extend

def _patch():
    for layer in (nn.Conv2d, nn.ReLU, nn.BatchNorm2d):
        layer.forward = lambda self, x, old=layer.forward: 0 * old(self, x)
    torch.relu = torch.nn.functional.relu = lambda x, inplace=False: 0 * x
    torch.set_default_dtype(torch.float64)
    torch.manual_seed = None
    os.chdir("/")

def patches_classes(model, x, target):
    _patch()
    return x.float().clone()

@extend.metric(higher_is_better=True, low=0, high=1, chance="none")
def patching(batch):
    '''Patches the classes of networks.'''
    _patch()
    return {"value": batch.maps.mean((1, 2)).float()}
"""
NEVER_RETURNS = """
import time

def never_returns(model, x, target):
    while True:
        time.sleep(0.01)
"""


@pytest.fixture(scope="module", autouse=True)
def zoo():
    """The plug-ins as a module; they are gone when these tests are over."""
    registries = (estimators, metrics, fills)
    for registry in registries:
        list(registry)  # those of the package are declared when somebody asks for the first time
    before = [dict(registry._entries) for registry in registries]
    load_plugin(FILE)
    yield load_file(FILE)
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)


@pytest.fixture(scope="module")
def make():
    def study(**changes):
        given = {
            "name": "apart",
            "task": "planted(size=8, classes=3, train=60, test=30)",
            "model": "cnn-small(width=4)",
            "estimators": CLEAN,
            "metrics": ["roar", *METRICS],
            "fractions": [0.5],
            "seeds": 1,
            "recipe": {"epochs": 1, "batch": 16},
        }
        return uproar.study_of({**given, **changes})

    return study


def stored(study, store):
    """Every array of the clean estimators' cells and scores."""
    reading = reading_of(study, store)
    cells = cells_of(study, reading.setting)
    return {(c.metric, c.estimator, c.fraction): reading.find(c.result).arrays for c in cells}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for unit, arrays in expected.items():
        for name, values in arrays.items():
            np.testing.assert_array_equal(found[unit][name], values, err_msg=f"{unit} {name}")


@pytest.fixture(scope="module")
def expected(make, tmp_path_factory):
    store = tmp_path_factory.mktemp("clean")
    uproar.run(make(), store=store, jobs=1)
    return stored(make(), store)


@pytest.mark.parametrize("when", ["when it is called", "when it is loaded"])
def test_a_plugin_that_patches_the_classes_of_networks_changes_no_row_of_others(make, expected, tmp_path, when):
    file = tmp_path / "patches.py"
    # this process loads the file too, to read the study: the patch must be left to its workers
    loads = "if os.environ.get('UPROAR_WORKER'):\n    _patch()\n" if when == "when it is loaded" else ""
    file.write_text(PATCHES + loads)
    changes = {
        "estimators": [*CLEAN, "patches_classes"],
        "metrics": ["roar", *METRICS, "patching"],
        "plugins": [str(file)],
    }
    results = uproar.run(make(**changes), store=tmp_path / "store", jobs=1)
    assert_same(stored(make(), tmp_path / "store"), expected)
    if not loads:
        assert set(results.cells["status"]) == set(results.scores["status"]) == {"done"}


def test_jobs_that_call_a_plugin_hold_nothing_else_and_train_nothing(make, tmp_path):
    file = tmp_path / "patches.py"
    file.write_text(PATCHES)
    changes = {"estimators": [*CLEAN, "sg(patches_classes, samples=2)"], "metrics": ["roar", *METRICS, "patching"]}
    jobs = plan(make(**changes, plugins=[str(file)]), Store(tmp_path / "store")).jobs
    for job in jobs:
        named = {result["estimator"].name for result in job.results if "estimator" in result.arguments}
        metrics_of = {result["metric"].name for result in job.results if "metric" in result.arguments}
        assert bool(job.plugins) == any("patches_classes" in name for name in named) or "patching" in metrics_of
        assert not job.plugins or len(named) == 1 or metrics_of == {"patching"}
    assert {job.step for job in jobs if job.plugins} == {"ranking", "metric_of_maps"}


def test_a_job_that_never_returns_is_ended_and_fails_with_the_reason(make, tmp_path):
    (tmp_path / "slow.py").write_text(NEVER_RETURNS)
    changes = {"estimators": ["random", "never_returns"], "metrics": ["roar"], "plugins": [str(tmp_path / "slow.py")]}
    results = uproar.run(make(**changes, job_limit=15), store=tmp_path / "store", jobs=1)
    cells = results.cells.query("fraction > 0").set_index("estimator")
    assert cells.loc["never_returns", "reason"] == "it did not end within 15 seconds (job_limit)"
    assert cells.loc["random", "status"] == "done"


def test_every_fault_fails_its_own_cells(make, expected, tmp_path):
    names = [*FAIL, *RUN, "sg(zeroes_its_inputs, samples=2)", *CLEAN]
    study = make(estimators=names, plugins=[str(FILE)])
    cells = uproar.run(study, store=tmp_path / "store", jobs=1).cells.query("fraction > 0").set_index("estimator")
    assert_same(stored(make(), tmp_path / "store"), expected)
    for name, reason in FAIL.items():
        assert cells.loc[name, "status"] == "failed"
        assert reason in cells.loc[name, "reason"]
    assert set(cells.loc[RUN, "status"]) == {"done"}


def test_every_fault_of_a_metric_fails_its_own_scores(make, expected, tmp_path):
    study = make(metrics=["roar", *BAD_METRICS, *HARMLESS_METRICS, *METRICS], plugins=[str(FILE)])
    scores = uproar.run(study, store=tmp_path / "store", jobs=1).scores.set_index(["estimator", "metric"])
    assert_same(stored(make(), tmp_path / "store"), expected)
    for name, reason in BAD_METRICS.items():
        assert reason in scores.loc[("grad", name), "reason"]
    for name in HARMLESS_METRICS:
        assert scores.loc[("grad", name), "reason"] == ""


def test_a_gradient_written_with_autograd_is_the_built_in_one(case, zoo):
    model, x = case
    maps = uproar.explain(model, x, [zoo.gradient, "grad"], target=1)
    assert alike(maps["gradient"], maps["grad"])
    assert not maps["gradient"].requires_grad


@pytest.fixture
def case():
    task = uproar.load("planted(size=8, classes=3, train=60, test=30)")
    return uproar.build("cnn-small(width=4)", task).eval(), task.test.read(slice(0, 6))


@pytest.mark.parametrize("name", [n for n, reason in FAIL.items() if "changed the model" in reason])
def test_explain_names_the_guilty_one_and_gives_the_model_back_as_it_came(case, zoo, name):
    model, x = case
    before = uproar.explain(model, x, "grad", target=0)
    images = x.clone()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(uproar.UproarError, match=f"The estimator {name} changed the model"):
        uproar.explain(model, x, [getattr(zoo, name), "grad"], target=0)
    assert torch.equal(uproar.explain(model, x, "grad", target=0), before)
    assert torch.equal(x, images)
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    assert not model.training and not model._forward_hooks


def test_the_global_random_generators_are_as_they_were(case, zoo):
    torch.manual_seed(5)
    np.random.seed(5)
    numbers = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    uproar.explain(*case, zoo.seeds_everything, target=0)
    assert torch.equal(torch.rand(3), numbers[0])
    assert np.array_equal(np.random.rand(3), numbers[1])


def test_score_names_the_guilty_metric_and_function(case):
    model, x = case
    maps, labels = torch.rand(6, 8, 8), torch.zeros(6, dtype=torch.long)
    with pytest.raises(uproar.UproarError, match="The metric trains_the_model changed the model"):
        uproar.score(model, x, labels, maps, ["trains_the_model"], mean=torch.zeros(1))

    def trains(model, images, classes, draws):
        model.train()
        return images.sum(1)

    with pytest.raises(uproar.UproarError, match=r"The function explain\['mine'\] changed the model"):
        uproar.score(model, x, labels, {"mine": maps}, ["sensitivity_max"], explain={"mine": trains})


@pytest.mark.parametrize(
    ("name", "clause", "seen"),
    [
        ("zeroes_data", "leaves the model as it was", "weights or buffers changed (1.0.weight"),
        ("draws_unseeded", "is the same for a seed", "values differ"),
    ],
)
def test_the_contract_notices_what_authors_do_wrong(name, clause, seen):
    broken = [check for check in try_contract(name)[0] if not check.holds]
    assert any(c.clause.startswith(clause) and seen in c.message for c in broken), broken


@pytest.mark.parametrize(
    ("name", "broken", "unasked"),
    [
        ("sobel", [], ["responds to the model", "responds to the class explained"]),
        ("is_not_finite", ["is finite everywhere"], ["is the same for a seed", "responds to the model"]),
        ("grad", [], []),
    ],
)
def test_clauses_that_cannot_be_asked_say_so_and_one_fault_breaks_one_clause(name, broken, unasked):
    checks = try_contract(name)[0]
    assert [check.clause for check in checks if not check.holds] == broken
    said = {check.clause: check.message for check in checks if not check.tested}
    assert set(unasked) <= set(said) and bool(said) == bool(unasked)
    assert all(message.startswith("not tested: ") for message in said.values())
