"""What plug-ins do to what they share with others changes nobody's numbers."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import uproar
from uproar.containment.guard import recording_restored
from uproar.data.registry import tasks
from uproar.estimators import estimators
from uproar.estimators.contract import try_contract
from uproar.extend import load_plugin
from uproar.metrics import metrics
from uproar.plugins.loading import load_file
from uproar.protocols import PROTOCOLS
from uproar.protocols.registry import protocols
from uproar.removal.fill import fills
from uproar.storage.store import Store
from uproar.study.bench import Bench
from uproar.study.grid import cells_of, scores_of
from uproar.study.settings import Setting

FILE = Path(__file__).parent.parent / "misbehaving.py"
CLEAN = ["random", "grad", "sg(grad, samples=2)"]
FAIL = {
    "switches_mode": "The estimator switches_mode changed the model: its mode changed",
    "adds_to_weights": "changed the model: its weights or buffers changed (1.0.weight and",
    "zeroes_data": "changed the model: its weights or buffers changed (1.0.weight and",
    "moves_statistics": "changed the model: its weights or buffers changed (1.1.running_mean and",
    "exchanges_a_layer": "changed the model: its layers were exchanged",
    "replaces_forward": "changed the model: the options of its layers changed",
    "leaves_a_hook": "changed the model: hooks were left on it",
    "changes_a_class": "changed the model: the classes of its layers changed (1.2",
    "leaves_a_thread": "The estimator leaves_a_thread left threads running",
    "draws_unseeded": "gives other maps when it is run again",
    "follows_the_batch": "depends on the other images of the batch",
    "is_not_finite": "NaN or infinite",
    "has_another_shape": "has_another_shape returned (",
    "raises": "KeyError: 'oops'",
    "exits": "sys.exit(7)",
    "stops_like_a_generator": "GeneratorExit",
}
RUN = [
    "gradient",
    "returns_a_graph",
    "leaves_hooks_on_everything",
    "zeroes_its_inputs",
    "changes_the_process",
    "seeds_everything",
    "keeps_one_buffer",
    "is_whole_numbers",
    "dawdles_and_prints",
    "replaces_functions",
    "leaves_a_mode",
]
METRICS = ["insertion(steps=4)", "average_drop"]
BAD_METRICS = {
    "trains_the_model": "The metric trains_the_model changed the model: its mode changed",
    "forgets_an_image": "The metric forgets_an_image returned 'value' as (29,)",
}
HARMLESS_METRICS = ["zeroes_the_batch", "asks_for_emptied", "insertion(fill=vandal, steps=4)"]


REGISTRIES = (estimators, metrics, fills, tasks, protocols)


@pytest.fixture(scope="module", autouse=True)
def zoo():
    """The plug-ins as a module; they are gone when these tests are over."""
    for registry in REGISTRIES:
        list(registry)  # those of the package are declared when somebody asks for the first time
    before = [dict(registry._entries) for registry in REGISTRIES]
    load_plugin(FILE)
    yield load_file(FILE)
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)
    PROTOCOLS.pop("blanks")


@pytest.fixture(scope="module")
def make():
    def study(**changes):
        given = {
            "name": "contained",
            "task": "planted(size=8, classes=3, train=60, test=30)",
            "model": "cnn-small(width=4)",
            "estimators": CLEAN,
            "metrics": METRICS,
            "protocols": ["roar"],
            "fractions": [0.5],
            "seeds": 1,
            "recipe": {"epochs": 1, "batch": 16},
            "plugins": [str(FILE)],
        }
        return uproar.study_of({**given, **changes})

    return study


def stored(study, store):
    """Every array of the clean estimators' cells and scores."""
    setting = Setting.all_of(study)[0]
    bench = Bench(setting, Store(store))
    keys = {cell: ("cell", bench.keys.cell(cell)) for cell in cells_of(study, setting)}
    keys |= {unit: ("score", bench.keys.score(unit)) for unit in scores_of(study, setting)}
    return {unit: bench.store.read(*key).arrays for unit, key in keys.items()}


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


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_numbers_of_clean_methods_are_the_same_beside_estimators_that_misbehave(make, expected, tmp_path, jobs):
    study = make(estimators=[*FAIL, *RUN, "sg(zeroes_its_inputs, samples=2)", *CLEAN])
    results = uproar.run(study, store=tmp_path, jobs=jobs)
    assert_same(stored(make(), tmp_path), expected)
    cells = results.table.query("fraction > 0").set_index("estimator")
    for name, reason in FAIL.items():
        assert cells.loc[name, "status"] == "failed"
        assert reason in cells.loc[name, "reason"]
    assert set(cells.loc[RUN, "status"]) == {"done"}


def test_the_numbers_of_clean_methods_are_the_same_under_metrics_that_misbehave(make, expected, tmp_path):
    study = make(metrics=[*BAD_METRICS, *HARMLESS_METRICS, *METRICS])
    scores = uproar.run(study, store=tmp_path, jobs=1).scores.set_index(["estimator", "metric"])
    assert_same(stored(make(), tmp_path), expected)
    for name, reason in BAD_METRICS.items():
        assert scores.loc[("grad", name), "status"] == "failed"
        assert reason in scores.loc[("grad", name), "reason"]
    for name in HARMLESS_METRICS:
        assert scores.loc[("grad", name), "status"] == "done"


SHARES_A_PASS = """
import uproar

@uproar.estimator(passes=1, of="grad")
def spoils_the_base(model, x, target, base):
    if len(x) > 4:
        model.train()
    return base.zero_()
"""


def test_a_map_that_shares_a_pass_with_a_clean_one_fails_alone(make, expected, tmp_path):
    (tmp_path / "spoils.py").write_text(SHARES_A_PASS)
    names = ["spoils_the_base", "sg(spoils_the_base, samples=2)", *CLEAN]
    study = make(estimators=names, plugins=[str(tmp_path / "spoils.py")])
    table = uproar.run(study, store=tmp_path / "store", jobs=1).table.query("fraction > 0")
    assert_same(stored(make(), tmp_path / "store"), expected)
    reasons = table.set_index("estimator")["reason"]
    for name in names[:2]:
        assert "The estimator spoils_the_base changed the model: its mode" in reasons[name]


def test_a_gradient_written_with_autograd_is_the_built_in_one(case, zoo):
    model, x = case
    maps = uproar.explain(model, x, [zoo.gradient, "grad"], target=1)
    assert torch.equal(maps["gradient"], maps["grad"])
    assert not maps["gradient"].requires_grad


def test_a_fill_a_protocol_and_a_task_that_misbehave_change_nothing_for_a_later_study(make, expected, tmp_path):
    uproar.run(make(fill="vandal", protocols=["blanks", "roar"]), store=tmp_path, jobs=1)
    uproar.run(make(task="unruly"), store=tmp_path, jobs=1)
    uproar.run(make(), store=tmp_path, jobs=1)
    assert_same(stored(make(), tmp_path), expected)
    assert torch.get_default_dtype() == torch.float32


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


def test_the_process_is_as_it_was(case, zoo):
    model, x = case

    def seen():
        switches = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
        anomaly = torch.is_anomaly_enabled(), torch.are_deterministic_algorithms_enabled()
        precision = torch.get_float32_matmul_precision(), float(torch.tensor([1e-40]) * 1)
        around = dict(os.environ), os.getcwd(), np.geterr(), sys.stdout
        around += torch.backends.mkldnn.enabled, torch.backends.mha.get_fastpath_enabled()
        around += torch.relu, torch.softmax, torch.Tensor.relu, torch.nn.ReLU.forward, np.argsort
        return switches, anomaly, precision, around

    torch.manual_seed(5)
    np.random.seed(5)
    before, numbers = seen(), (torch.rand(3), np.random.rand(3))
    torch.manual_seed(5)
    np.random.seed(5)
    for function in (zoo.changes_the_process, zoo.seeds_everything, zoo.replaces_functions):
        uproar.explain(model, x, function, target=0)
    assert seen() == before
    assert torch.equal(torch.rand(3), numbers[0])
    assert np.array_equal(np.random.rand(3), numbers[1])


def test_a_library_that_adds_a_warnings_filter_when_it_is_first_imported_is_no_side_effect(case):
    def imports_late(model, x, target):
        warnings.filterwarnings("once", message="as sympy does")
        return x.clone()

    with warnings.catch_warnings(), recording_restored() as changed:
        uproar.explain(*case, imports_late, target=0)
    assert changed == []


class Scaled(torch.nn.Module):
    """A network with a number, a tensor that is no buffer, and a count of its calls."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.scale, self.shift, self.calls = inner, 1.0, torch.zeros(3), 0

    def forward(self, x):
        self.calls += 1
        return self.inner(x) * self.scale + self.shift


def test_plain_attributes_of_a_network_come_back_and_one_that_counts_its_calls_is_not_accused(case):
    model, x = Scaled(case[0]).eval(), case[1]
    before = uproar.explain(model, x, "grad", target=0)

    def spoils(model, x, target):
        maps = model(x)[:, :1, None, None] * x
        model.scale = 0.0
        model.shift.fill_(7)
        model.shift = None
        return maps

    uproar.explain(model, x, spoils, target=0)
    assert model.scale == 1 and torch.equal(model.shift, torch.zeros(3))
    assert torch.equal(uproar.explain(model, x, "grad", target=0), before)


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
        ("changes_the_process", "leaves the process", "the default dtype of torch, the number"),
        ("seeds_everything", "leaves the process", "the global random generators"),
        ("zeroes_its_inputs", "leaves the process and its inputs as they were", "its inputs"),
        ("draws_unseeded", "is the same for a seed", "values differ"),
    ],
)
def test_the_contract_notices_what_a_study_undoes(name, clause, seen):
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
    said = {check.clause: check.message for check in checks if not check.asked}
    assert set(unasked) <= set(said) and bool(said) == bool(unasked)
    assert all(message.startswith("not asked: ") for message in said.values())
