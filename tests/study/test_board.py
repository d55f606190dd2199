"""The board: what knows gets 1, what draws lots about 0, what is fooled says so; networks use what they are said to."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import uproar
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.metrics import metric, metrics
from uproar.report.metric_board import board_json, board_page
from uproar.results.board import BOARD, COLUMNS, IMPOSTORS, PARTS, Card, board_table, card_of, cards
from uproar.study.board import DEGRADED, Network, board, networks, rows_of
from uproar.study.board_scenes import shares_of_use
from uproar.study.board_suite import area, captured
from uproar.study.check import quick_networks
from uproar.study.spec import METHODS

NETWORK = Network("check", "board_mark(used=mark, train=128, test=16)", "sees_mark")
EVERY = [network for part in PARTS for network in networks(part)]


def table_of(**scores):
    """Values of made-up metrics for all maps in three seeds; the known order is that of METHODS."""
    worse = [read_chain(name).name for maps in DEGRADED.values() for name in maps]
    names = [*METHODS, "known_use", *worse, *IMPOSTORS, "greedy"]
    known = np.array([*np.linspace(0.9, 0.1, len(METHODS)), 1, *[0.8, 0.6, 0.4] * 2, *[0.0] * len(IMPOSTORS), 0.5])
    rows = {}
    for seed in range(3):
        rows |= {(name, seed): known for name in ("whole_order", "top_k")}
        rows |= {(name, seed): make(known.copy(), names, np.random.default_rng(seed)) for name, make in scores.items()}
    index = pd.MultiIndex.from_tuples(rows, names=["metric", "replicate"])
    return pd.DataFrame(list(rows.values()), index, names)


def raised(known, names, place, value):
    known[names.index(place)] = value
    return known


def test_what_knows_gets_one_what_is_reversed_minus_one_and_lots_about_zero():
    table = table_of(
        knows=lambda known, *_: known,
        reversed=lambda known, *_: -known,
        constant=lambda known, *_: 0 * known,
        **{f"lots{i}": lambda known, _, draw, i=i: draw.normal(size=(40, len(known)))[i] for i in range(40)},
    )
    rows = pd.DataFrame(rows_of(table, NETWORK)).set_index("metric")
    taus = ["order", "top", "baselines", "degraded"]
    assert rows.loc["knows", taus].tolist() == [1, 1, 1, 1] and rows.loc["knows", "fooled"] == []
    assert rows.loc["reversed", taus].tolist() == [-1, -1, -1, -1]
    assert rows.loc["constant", taus].tolist() == [0, 0, 0, 0]
    lots = rows[rows.index.str.startswith("lots")]
    assert abs(lots["order"].mean()) < 0.1 and abs(lots["degraded"].mean()) < 0.15


def test_a_map_above_the_truth_in_most_seeds_fools_a_metric():
    def sometimes(known, names, draw):
        return raised(known, names, "greedy", 2.0 if draw.integers(10**6) == first else 0.5)

    first = np.random.default_rng(0).integers(10**6)
    table = table_of(
        fooled=lambda known, names, _: raised(known, names, "greedy", 2.0),
        once=sometimes,
        blind=lambda known, names, _: raised(known, names, "centre", 1.1),
    )
    rows = pd.DataFrame(rows_of(table, NETWORK))
    assert rows.set_index("metric")["fooled"].to_dict() == {"fooled": ["greedy"], "once": [], "blind": ["centre"]}
    blind = next(card for card in cards(rows) if card.metric == "blind")
    assert [*blind.fooled_by(impostors=True)] == ["centre"] and not blind.fooled_by(impostors=False)


def test_ranks_of_several_metrics_are_a_metric():
    table = table_of(one=lambda known, *_: known, other=lambda known, *_: -known)
    rows = pd.DataFrame(rows_of(table, NETWORK, {"both": ("one", "other"), "lacks": ("one", "none")}))
    assert rows.set_index("metric").loc["both", "order"] == 0 and "lacks" not in [*rows["metric"]]


def rows(taus, part, degraded=1.0, fooled=()):
    return [("m", part, f"{part} {i}", tau, tau, 1.0, degraded, [*fooled], 5) for i, tau in enumerate(taus)]


@pytest.mark.parametrize(
    ("held_out", "says"),
    [
        (rows([0.7, 0.8], "held-out"), ""),
        (rows([0.7, 0.2], "held-out"), "τ = 0.45 by whole order (held-out)"),
        (rows([1.0, -0.3, 1.0], "held-out"), "the order is turned round on held-out 1"),
        (rows([0.7, 0.8], "held-out", 0.7), "τ = 0.70 on degraded truths (held-out)"),
        (rows([0.7, 0.8], "held-out", 1, ["sobel"]), "sobel is put above the truth on held-out 0, held-out 1"),
        (rows([0.7, 0.8], "held-out", 1, ["greedy"]), ""),
    ],
)
def test_the_rule_of_trust(held_out, says):
    """Each part must pass by itself; adversaries stand on the card and do not decide."""
    others = rows([0.9, 0.9], "development") + rows([0.0, -0.5], "natural")  # their order of methods does not count
    card = Card("m", pd.DataFrame(others + held_out, columns=[*COLUMNS]))
    assert card.trusted == (not says) and says in "; ".join(card.against)
    unsure = card.rows.assign(baselines=card.rows["baselines"].where(card.rows["part"] != "natural", 0.4))
    assert "τ = 0.40 against baselines (natural)" in Card("m", unsure).against
    assert not Card("m", card.rows[card.rows["part"] == "development"]).trusted, "nothing is known of the held-out part"


# right


def test_the_truth_has_one_a_random_order_zero_and_the_last_place_less():
    shares = shares_of_use(torch.zeros(2, 1, 16, 16), torch.arange(512).view(2, 16, 16) % 8 == 0, ())
    best = area(captured(shares.flatten(1).argsort(1, descending=True), shares)) - 0.5
    worst = area(captured(shares.flatten(1).argsort(1), shares)) - 0.5
    assert shares.sum((1, 2)).tolist() == pytest.approx([1, 1])
    torch.testing.assert_close(best, -worst)
    orders = torch.stack([torch.randperm(256, generator=torch.Generator().manual_seed(i)) for i in range(2000)])
    random = area(captured(orders, shares[:1].expand(2000, -1, -1))) - 0.5
    assert abs(float(random.mean())) < 0.005


@pytest.mark.parametrize("network", EVERY, ids=lambda network: network.name)
def test_a_network_of_the_board_uses_nothing_but_what_it_is_said_to(network):
    """Pixels outside the known use, or what the view hides, may be anything; parts count as their weights say."""
    task = uproar.load(re.sub(r"train=\d+", "train=64", network.task) if "train" in network.task else network.task)
    model = uproar.build(network.model, task).eval()
    x, truth = task.test.read(slice(0, 8)), task.test.truth(slice(0, 8))
    noise = torch.rand(x.shape, generator=torch.Generator().manual_seed(0))
    if not network.trained:
        changed = torch.where(truth[:, None], x, noise)
    elif network.model in ("sees_channel", "sees_red"):
        changed = torch.cat([x[:, :1], noise[:, 1:]], 1)
    elif network.model in ("sees_coarse", "sees_fine", "sees_detail"):
        means = torch.nn.functional.avg_pool2d(noise, 4).repeat_interleave(4, 2).repeat_interleave(4, 3)
        changed = x + (noise - means if network.model == "sees_coarse" else means)
    else:
        unseen = model[0].seen == 0
        changed = torch.where(unseen, noise, x)
    torch.testing.assert_close(model(changed), model(x), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(model(noise), model(x), atol=1e-2)
    if network.weights:
        use, answer = shares_of_use(x, truth, network.weights), model(x)[:, 1]
        lost = [answer - model(torch.where(cell[:, None], task.mean, x))[:, 1] for cell in parts(use)]
        expected = torch.stack(lost, 1).abs()
        found = torch.stack([(use * cell).sum((1, 2)) for cell in parts(use)], 1)
        torch.testing.assert_close(found, expected / expected.sum(1, keepdim=True), atol=0.05, rtol=0)


def parts(use):
    """The cells of the grid that are used, (n, h, w) bool each."""
    rows = torch.arange(16) // 4
    cells = [(rows[:, None] * 4 + rows == cell).expand_as(use) for cell in range(16)]
    return [cell for cell in cells if float((use * cell).sum()) > 0]


# a metric of one's own


def knows_the_use(batch):
    return {"value": torch.cosine_similarity(batch.maps.flatten(1), batch.truth.flatten(1).to(batch.maps))}


def nowhere(batch):
    return {"value": torch.full((len(batch.maps),), torch.nan)}


def raises(batch):
    raise ValueError("no such thing")


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(metrics, "_entries", dict(metrics._entries))
    for function in (knows_the_use, nowhere, raises):
        metric(higher_is_better=True, low=-1, high=1, chance="unknown", uses="values")(function)


def test_a_metric_of_ones_own_is_tested_and_one_without_values_is_told_why(declared, tmp_path):
    said = []
    table = board(
        ["knows_the_use", "nowhere", "raises", "roar:no-retrain"],
        [NETWORK],
        tmp_path / "store",
        seeds=1,
        say=said.append,
        optimised=["greedy"],
    )
    found = {card.metric: card for card in cards(table)}
    assert {*found} == {"knows_the_use", "roar:no-retrain"}
    assert found["knows_the_use"].tau("degraded").value == 1 and not found["knows_the_use"].reversed
    assert not found["knows_the_use"].fooled_by(impostors=True)
    assert any("raises" in sentence and "no such thing" in sentence for sentence in said)
    with pytest.raises(BadInput, match="no such thing"):
        board(["raises"], [NETWORK], tmp_path / "store", seeds=1, optimised=["greedy"])


def test_what_says_nothing_of_a_map_is_refused():
    with pytest.raises(BadInput, match="asks how an estimator behaves"):
        uproar.check("randomisation")
    with pytest.raises(BadInput, match="a control of a metric"):
        uproar.check("roar:mask")
    with pytest.raises(BadInput, match="use def"):
        uproar.check(lambda batch: {})


def test_backdoors_are_planted_where_they_fit():
    assert [network.task for network in quick_networks("digits", "cnn-small")] == [
        "backdoor(digits, trigger=glyph, train=4096, test=48)",
        "backdoor(digits, trigger=glyph, strength=0.5, train=4096, test=48)",
    ], "ten frames do not fit into 8×8 pixels"
    assert len(quick_networks()) == 3


# the board of this version

PAGE = Path(__file__).parents[2] / "docs" / "board.md"


def test_the_board_reads_back(tmp_path, monkeypatch):
    table = pd.DataFrame(rows([0.9, float("nan")], "development", fooled=["centre"]), columns=[*COLUMNS])
    facts = {"command": "make board", "version": "0", "torch": "2", "python": "3", "minutes": 3}
    file = tmp_path / "board.json"
    file.write_text(board_json(table, facts))
    monkeypatch.setattr("uproar.results.board.BOARD", file)
    board_table.cache_clear()
    pd.testing.assert_frame_equal(board_table(), table)
    assert card_of("m").tau("order").value == 0.9 and card_of("road(repeats=99)") is None
    board_table.cache_clear()


@pytest.mark.skipif(not BOARD.is_file() or not PAGE.is_file(), reason="no board, or no checkout")
def test_the_page_says_what_the_data_say():
    """If this fails: python tools/metric_board.py --page."""
    board_table.cache_clear()
    facts = json.loads(BOARD.read_text())
    assert PAGE.read_text().endswith(board_page(board_table(), facts))
    assert {*board_table()["network"]} == {network.name for network in EVERY}
