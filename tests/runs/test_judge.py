"""Judging judges: the one that knows gets 1, one that draws lots about 0, one with the wrong sign is told so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import uproar
from uproar.errors import BadInput
from uproar.report.metric_board import board_json, board_page
from uproar.results.recovery import BOARD, COLUMNS, board_table, disagreements, judge_recovery, trust
from uproar.runs.judge import recovery_table
from uproar.study.judging import DEGRADED, QUICK, SUITE, judging_metrics, judging_protocols, local_suite


def knows_the_truth(batch):
    """The cosine of the map and the truth: what every degradation lowers."""
    return {"value": torch.cosine_similarity(batch.maps.flatten(1), batch.truth.flatten(1).to(batch.maps))}


def turned_round(batch):
    return {"value": -knows_the_truth(batch)["value"]}


def lots(number):
    def draws_lots(batch):
        seed = int(1e6 * float(batch.maps.double().abs().sum()) + 7919 * number) % 2**31
        return {"value": torch.rand(len(batch.maps), generator=torch.Generator().manual_seed(seed))}

    draws_lots.__name__ = f"draws_lots_{number}"
    return draws_lots


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("judge") / "store"


def test_the_metric_that_knows_gets_one(store):
    found = uproar.judge(knows_the_truth, store=store)
    assert found.recovery.value == pytest.approx(1, abs=0.01) and found.trusted and not found.blind
    assert set(found.by_kind) == set(DEGRADED)
    assert found.wrong == 0


def test_a_metric_that_is_wrong_in_sign_is_told_so(store):
    found = uproar.judge(turned_round, store=store)
    assert found.turned and "wrong in sign" in found.sentence
    assert not uproar.judge(knows_the_truth, store=store).turned


def test_metrics_that_draw_lots_are_at_zero(store):
    found = [uproar.judge(lots(number), store=store) for number in range(3)]
    assert abs(np.mean([one.recovery.value for one in found])) < 0.1
    assert not any(one.trusted for one in found)
    assert np.mean([one.wrong for one in found]) < 0.1


def test_a_judge_that_cannot_be_judged_is_refused(store):
    with pytest.raises(BadInput, match="asks how an estimator behaves"):
        uproar.judge("randomisation", store=store)
    with pytest.raises(BadInput, match="control and judges nothing"):
        uproar.judge("roar:mask", store=store)
    with pytest.raises(BadInput, match="use def"):
        uproar.judge(lambda batch: {}, store=store)


def test_a_protocol_is_judged_like_a_metric(store):
    table = recovery_table(["roar:no-retrain"], QUICK[:1], store=store, orders=("missing",), jobs=1)
    assert list(table["kind"]) == ["missing"] and table["tau"].iloc[0] > 0.5


def test_the_suite_covers_what_is_registered():
    assert len(SUITE) >= 8 and len(DEGRADED) >= 6
    assert {"roar", "kar", "decoupled"} <= set(judging_protocols())
    assert "randomisation" not in judging_metrics() and "deletion" in judging_metrics()
    assert all(one.model == "net.py:build" for one in local_suite("mine", "net.py:build"))


def rows(judge, taus, task="t"):
    return [{**dict.fromkeys(COLUMNS, 0.0), "judge": judge, "task": f"{task}{i}", "kind": "noise", "tau": tau}
            for i, tau in enumerate(taus)]  # fmt: skip


def test_the_rule_of_trust():
    table = pd.DataFrame(rows("good", [0.9, 1, 0.95]) + rows("wide", [1, 1, 0.4]) + rows("low", [0.7, 0.7, 0.71]))
    assert judge_recovery(table, "good").trusted
    assert not judge_recovery(table, "wide").trusted, "the interval reaches below 0.6"
    assert not judge_recovery(table, "low").trusted
    local, suite = ([judge_recovery(table, name)] for name in ("good", "low"))
    (sentence,) = disagreements([suite[0]], [type(suite[0])(**{**vars(local[0]), "judge": "low"})])
    assert sentence.startswith("low is trusted in the suite but not here")
    assert not disagreements(local, local)


def test_the_board_is_a_page_and_data_that_reads_back(tmp_path, monkeypatch):
    table = pd.DataFrame(rows("deletion", [0.9, 1]) + rows("roar", [0.1, -0.9]))[[*COLUMNS]]
    table.loc[0, "needed"] = np.inf
    facts = {"command": "uproar judge", "version": "0", "torch": "2", "seconds": 1}
    page = board_page(table, facts)
    assert "| `deletion` | 0.95 |" in page and "`roar`" in page
    file = tmp_path / "board.json"
    file.write_text(board_json(table, facts))
    monkeypatch.setattr("uproar.results.recovery.BOARD", file)
    board_table.cache_clear()
    pd.testing.assert_frame_equal(board_table(), table, check_dtype=False)
    assert trust("deletion(steps=4)").recovery.value == pytest.approx(0.95)
    assert trust("unheard of") is None
    board_table.cache_clear()


@pytest.mark.skipif(not BOARD.is_file(), reason="the board has not been made for this version")
def test_the_boards_numbers_come_with_the_package():
    board_table.cache_clear()
    known = trust("deletion")
    assert known is not None and known.recovery.n >= 8
