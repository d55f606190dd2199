"""Every metric keeps its range, its inputs and its values in any batch; and the example of the documentation."""

from __future__ import annotations

import copy
import dataclasses
import re
from pathlib import Path

import pytest
import torch
from tools.cards import metric_card, metrics_of_maps

from tests.metrics.known_case import case, gradient_map, measured, oracle_of, random_map
from tests.metrics.looking import batch_of, part, value
from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.probe import evaluate, fractions_of, summarise
from uproar.metrics.registry import metric
from uproar.plugins import load_file

DOCS = Path(__file__).parents[2] / "docs"
FEW = {"draws": 3, "steps": 10}
"""Options with which a metric shows an image less often than by default."""
CHEAP = ["pointing_game", "relevance_mass", "sparseness", "infidelity", "sensitivity_max", "randomisation"]


@pytest.fixture(scope="module")
def built_in():
    return case()


@pytest.fixture(scope="module")
def numbers(built_in):
    return measured(CHEAP, sets=2, base=built_in)


@pytest.fixture
def registry():
    """The registry, put back as it was afterwards."""
    before = dict(metrics._entries)
    yield metrics
    metrics._entries.clear()
    metrics._entries.update(before)


@pytest.fixture(scope="module")
def base():
    return case("planted(size=10, train=256, test=6)", epochs=2)


def test_every_declaration_is_complete_and_its_range_makes_sense():
    for entry in metrics_of_maps():
        facts = entry.facts
        assert entry.summary.endswith("."), entry.name
        assert facts["chance"] and facts["formula"] and facts["biases"] and facts["paper"], entry.name
        assert facts["true_to"] in ("model", "data", "map"), entry.name
        assert facts["true_to"] == "map" or not facts["describes"], entry.name
        assert facts["low"] < facts["high"], entry.name


def test_random_maps_get_the_chance_level_and_the_oracle_the_ceiling(numbers):
    glyph, square = 9 / 256, 25 / 256
    assert numbers["pointing_game"].oracle == numbers["relevance_mass"].oracle == 1
    assert numbers["relevance_mass"].random == pytest.approx(glyph, abs=0.005)
    assert numbers["pointing_game"].random == pytest.approx(square, abs=0.06)
    assert numbers["sparseness"].random == pytest.approx(1 / 3, abs=0.01)
    assert numbers["sparseness"].oracle == pytest.approx(1 - glyph, abs=1e-3)
    assert numbers["infidelity"].oracle < numbers["infidelity"].random


def test_maps_that_ignore_the_model_are_stable_and_survive_its_loss(numbers):
    for name, ignorant in (("sensitivity_max", 0), ("randomisation", 1)):
        assert numbers[name].random == pytest.approx(ignorant)
        assert numbers[name].oracle == pytest.approx(ignorant)
    assert numbers["sensitivity_max"].maps == 11
    assert numbers["sensitivity_max"].gradient > 0
    assert numbers["randomisation"].gradient < 0.5


def test_the_built_in_case_is_one_that_the_network_has_learned(built_in):
    base = built_in
    assert (base.clean.argmax(1) == base.target).double().mean() > 0.9
    oracle, noise = oracle_of(base), random_map(base.model, base.x, base.target, base.draws)
    assert torch.equal(oracle(base.model, base.x[:2], base.target[:2], base.draws[[5, 3]]), base.maps[[5, 3]])
    assert noise.shape == gradient_map(base.model, base.x, base.target, base.draws).shape


@pytest.mark.skipif(not DOCS.exists(), reason="only in a checkout")
def test_the_documented_examples_run(registry, tiny16, tmp_path):
    text = (DOCS / "add-a-metric.md").read_text()
    file = tmp_path / "my_metric.py"
    file.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.S)))
    load_file(file)
    batch = batch_of(
        torch.rand(6, 16, 16), model=tiny16, x=torch.rand(6, 3, 16, 16), target=torch.tensor([0, 1, 2, 3, 0, 1])
    )
    batch.maps[2] = 0
    calls = [Call("centred"), Call("dimming", (), (("steps", 3),)), Call("centred:worst-class")]
    responses, shown = evaluate(calls, batch)
    assert shown == 18
    nans = responses["centred"]["value"].isnan().tolist()
    assert nans == [False, False, True, False, False, False]
    with torch.no_grad():
        dark = tiny16(batch.x * 0).softmax(1).gather(1, batch.target[:, None])[:, 0]
    torch.testing.assert_close(responses["dimming(steps=3)"]["curve"][:, 0], dark)
    summary = summarise(calls[2], responses["centred:worst-class"])
    centred = value("centred", batch)
    expected = min(centred[[0, 4]].mean(), centred[[1, 5]].mean(), centred[3])
    assert summary["value"] == pytest.approx(float(expected))
    assert summary["nan"] == 1
    assert fractions_of(calls[1], (3, 16, 16)) == (0, 1 / 3, 2 / 3)
    assert metric_card(metrics["centred"]).startswith("**`centred`** ")


def test_cards_are_of_the_package_alone(registry):
    @metric(higher_is_better=True, low=0, high=1, chance="")
    def of_a_plugin(batch):
        """Nothing."""

    assert "of_a_plugin" in metrics
    assert "of_a_plugin" not in [entry.name for entry in metrics_of_maps()]


@pytest.mark.parametrize("name", [entry.name for entry in metrics_of_maps()])
def test_every_metric_keeps_its_range_its_inputs_and_its_values_in_any_batch(name, base):
    entry, weights = metrics[name], copy.deepcopy(base.model.state_dict())
    call = Call(name, (), tuple((option, few) for option, few in FEW.items() if option in entry.bind()))
    for explain in (gradient_map, oracle_of(base)):
        maps = explain(base.model, base.x, base.target, base.draws)
        batch = dataclasses.replace(base, maps=maps, explain=explain)
        given = {key: column.clone() for key, column in vars(batch).items() if torch.is_tensor(column)}
        together = evaluate([call], batch)[0][str(call)]
        values = together["value"]
        assert values.shape == (6,)
        known = values[~values.isnan()]
        assert ((known >= entry.facts["low"]) & (known <= entry.facts["high"])).all()
        for key, column in given.items():
            assert torch.equal(getattr(batch, key), column), key
        if explain is not gradient_map:  # the oracle's maps have many ties
            apart = evaluate([call], part(batch, [4, 1]))[0][str(call)]
            for key, column in apart.items():
                assert torch.equal(column.nan_to_num(9), together[key][[4, 1]].nan_to_num(9)), key
    for key, column in base.model.state_dict().items():
        assert torch.equal(column, weights[key]), key
