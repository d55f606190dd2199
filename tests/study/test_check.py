"""Judging judges: the one that knows gets 1, one that draws lots about 0, one with the wrong sign is told so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from uproar.study.bench import bench_for
from uproar.study.settings import Setting

import uproar
from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.guard import is_builtin
from uproar.metrics import metric, metrics
from uproar.protocols import PROTOCOLS
from uproar.report.metric_board import board_json, board_page
from uproar.results.evaluator import EvaluatorScores
from uproar.results.recovery import BOARD, COLUMNS, MATTER, board_table, disagreements, judge_recovery, trust
from uproar.statistics.recovery import MOST_REPLICATES
from uproar.study.check import Durations, recovery_table
from uproar.study.collect import evaluator_bits
from uproar.study.judge_suite import (
    DEGRADED,
    KNOWN,
    ORDERS,
    OUT_OF_DISTRIBUTION,
    QUICK,
    SOUND,
    SUITE,
    SuiteTask,
    every_judge,
    judging_metrics,
    judging_protocols,
    local_suite,
    order_worsens,
    parts_of,
    reads_order,
    recoveries,
    replicated_parts,
    trainings_needed,
)
from uproar.study.run import run_study


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


LOTS = [lots(number) for number in range(3)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("judge") / "store"


@pytest.fixture(scope="module")
def table(store):
    """All made-up judges together, since they share the maps; what `uproar.judge` asks of each is then in the store."""
    before = dict(metrics._entries)
    for one in (knows_the_truth, turned_round, *LOTS):
        metric(higher_is_better=True, low=-1, high=1, chance="unknown", uses="values")(one)
    names = [one.__name__ for one in (knows_the_truth, turned_round, *LOTS)]
    yield recovery_table(names, QUICK, store=store, orders=KNOWN, jobs=1)
    metrics._entries.clear()
    metrics._entries.update(before)


def test_the_metric_that_knows_gets_one(store, table):
    result = uproar.check(knows_the_truth, store=store)
    assert result == judge_recovery(table, "knows_the_truth")
    assert result.recovery.value == pytest.approx(1, abs=0.01) and result.trusted and not result.blind
    assert set(result.by_kind) == set(KNOWN)
    assert result.wrong == 0


def test_a_metric_that_is_wrong_in_sign_is_told_so(table):
    recovery = judge_recovery(table, "turned_round")
    assert recovery.turned and "wrong in sign" in recovery.sentence
    assert not judge_recovery(table, "knows_the_truth").turned


def test_metrics_that_draw_lots_are_at_zero(table):
    result = [judge_recovery(table, one.__name__) for one in LOTS]
    assert abs(np.mean([one.recovery.value for one in result])) < 0.1
    assert not any(one.trusted for one in result)
    assert np.mean([one.wrong for one in result]) < 0.1


def raises(batch):
    raise ValueError("no such thing")


def nowhere(batch):
    return {"value": torch.full((len(batch.maps),), torch.nan)}


def maps_again(batch):
    return {"value": batch.maps}


def one_for_all(batch):
    return {"value": batch.maps.mean()}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (raises, "no such thing"),
        (nowhere, r"it has no value for any map \(all are NaN\)"),
        (maps_again, r"'value' as \(24, 16, 16\); it must be one number per image, \(24,\)"),
        (one_for_all, r"'value' as \(\); for 24 images"),
    ],
)
def test_a_metric_that_gives_no_numbers_is_told_why(store, monkeypatch, wrong, reason):
    """Alone it is an error; beside another the other is judged, and it is said why this one is not."""
    monkeypatch.setattr(metrics, "_entries", dict(metrics._entries))
    metric(higher_is_better=True, low=-1, high=1, chance="unknown", uses="values")(wrong)
    hand_set, said = QUICK[2:], []
    with pytest.raises(BadInput, match=f"{wrong.__name__} was not judged: .*{reason}"):
        recovery_table([wrong.__name__], hand_set, store=store, orders=["random"], jobs=1)
    both = [wrong.__name__, "relevance_mass"]
    found = recovery_table(both, hand_set, store=store, orders=["random"], jobs=1, say=said.append)
    assert set(found["judge"]) == {"relevance_mass"} and found["tau"].item() == 1
    assert len(said) == 1 and re.search(reason, said[0])


def test_a_judge_that_cannot_be_judged_is_refused(store):
    with pytest.raises(BadInput, match="asks how an estimator behaves"):
        uproar.check("randomisation", store=store)
    with pytest.raises(BadInput, match="control and judges nothing"):
        uproar.check("roar:mask", store=store)
    with pytest.raises(BadInput, match="use def"):
        uproar.check(lambda batch: {}, store=store)


def test_a_protocol_is_judged_like_a_metric(store):
    table = recovery_table(["roar:no-retrain"], QUICK[:1], store=store, orders=("missing",), jobs=1)
    assert list(table["kind"]) == ["missing"] and table["tau"].iloc[0] > 0.5


def test_the_suite_covers_what_is_registered():
    assert len(SUITE) >= 8 and len(DEGRADED) >= 6
    assert {"roar", "kar", "decoupled"} <= set(judging_protocols())
    assert "randomisation" not in judging_metrics() and "deletion" in judging_metrics()
    assert all(one.model == "net.py:build" for one in local_suite("planted", "net.py:build"))
    assert {*every_judge()} >= {*judging_metrics(), *judging_protocols()}


def rows(judge, taus, task="t"):
    facts = {**dict.fromkeys(COLUMNS, 0.0), "judge": judge, "kind": "noise", "counts": True}
    return [{**facts, "task": f"{task}{i}", "tau": tau} for i, tau in enumerate(taus)]


def test_what_a_judge_cannot_read_does_not_count_against_it():
    table = pd.DataFrame(rows("deletion", [0.9, 1, 0.95]) + rows("deletion", [-1, -1, -1]))
    table.loc[3:, ["kind", "counts"]] = "blur", False
    recovery = judge_recovery(table, "deletion")
    assert recovery.recovery.value == pytest.approx(0.95) and recovery.trusted
    assert recovery.by_kind["blur"] == -1 and recovery.rewards == ["blur"], "it is shown all the same"


def test_the_rule_of_trust():
    table = pd.DataFrame(rows("good", [0.9, 1, 0.95]) + rows("wide", [1, 1, 0.45]) + rows("low", [0.7, 0.7, 0.71]))
    assert judge_recovery(table, "good").trusted
    fooled = pd.DataFrame([{**row, "kind": kind} for kind in MATTER for row in rows("good", [1, 1, 1])])
    assert judge_recovery(fooled, "good").trusted
    fooled = fooled.assign(tau=np.where(fooled["kind"] == "leak", -0.3, 1.0))
    assert not judge_recovery(fooled, "good").trusted and judge_recovery(fooled, "good").fooled == ["leak"]
    lost = pd.DataFrame(rows("good", [0.9, 1, 0.95]) + [{**row, "kind": "random"} for row in rows("good", [1, -0.9])])
    found = judge_recovery(lost, "good")
    assert not found.trusted and "a random map above the truth on t1" in found.sentence
    wide = judge_recovery(table, "wide")
    assert not wide.trusted and wide.sentence.endswith("not trusted, since its interval reaches below 0.6.")
    (sentence,) = disagreements([wide], [type(wide)(**{**vars(judge_recovery(table, "good")), "judge": "wide"})])
    assert sentence.startswith("wide is trusted in the suite but not known to be here, where 3 tasks are too few: ")
    assert not judge_recovery(table, "low").trusted
    local, suite = ([judge_recovery(table, name)] for name in ("good", "low"))
    (sentence,) = disagreements([suite[0]], [type(suite[0])(**{**vars(local[0]), "judge": "low"})])
    assert sentence.startswith("low is trusted in the suite but not here")
    assert not disagreements(local, local)
    alone = judge_recovery(pd.DataFrame(rows("low", [0.9])), "low")
    assert alone.single and "on one task" in alone.sentence and not disagreements([alone], suite)


PAGE = Path(__file__).parents[2] / "docs" / "metric-board.md"


def test_the_board_is_a_page_and_data_that_reads_back(tmp_path, monkeypatch):
    table = pd.DataFrame(rows("deletion", [0.9, 1]) + rows("roar", [0.1, -0.9]))[[*COLUMNS]]
    table.loc[0, "needed"] = np.inf
    facts = {
        "command": "tools/metric_board.py",
        "version": "0",
        "torch": "2",
        "python": "3",
        "fraction": 0.1,
        "replicates": 4,
        "seconds": {"t0": 90},
    }
    table.loc[2:, "replicates"] = 3.0, np.nan
    page = board_page(table, facts)
    assert "| 0 | 3 |" in next(line for line in page.splitlines() if line.startswith("| `roar` |")), "trainings"
    assert "| `deletion` | 0.95 |" in page and "`roar`" in page and "2 minutes of processor time" in page
    file = tmp_path / "board.json"
    file.write_text(board_json(table, facts))
    monkeypatch.setattr("uproar.results.recovery.BOARD", file)
    board_table.cache_clear()
    pd.testing.assert_frame_equal(board_table(), table, check_dtype=False)
    assert trust("deletion").recovery.value == pytest.approx(0.95)
    assert trust("unheard of") is None
    board_table.cache_clear()


def test_durations_of_several_sessions_add_up(tmp_path):
    for _ in range(2):
        Durations(tmp_path / "durations.json").add("t", 1.5)
    assert Durations(tmp_path / "durations.json").by_task == {"t": 3.0}


def test_replicates_have_networks_of_their_own_and_say_how_many_it_takes(store):
    """The rows of a judge that trains have a number for the kinds that are asked; those of the others have none."""
    one = SuiteTask("planted-fixed(train=64, test=10)", replicates=2)
    (part,) = replicated_parts(one, ["deletion", "roar:no-retrain", "evaluator:keep"], ("missing", "contrast"))
    assert part.study.seeds == (0, 1) and part.judges == ("evaluator:keep",) and [*part.orders] == ["missing"]
    assert replicated_parts(SuiteTask(one.task), ["evaluator"]) == []
    run_study(part.study, store, 1)
    needed = trainings_needed(part, str(store), "evaluator:keep")
    assert [*needed] == ["missing"] and 2 <= needed["missing"] <= MOST_REPLICATES


def test_an_evaluator_is_judged_by_its_own_score(store):
    """The values behind τ are the scores that a study prints, by way of its tables."""
    one = SuiteTask("planted-fixed(train=128, test=20)")
    (part,) = parts_of(one, ["evaluator"], ("missing",))
    run_study(part.study, store, 1)
    result = recoveries(part, str(store), "evaluator")["missing"].values
    bits = evaluator_bits(part.study, bench_for(Setting.all_of(part.study)[0], str(store)))
    scores = EvaluatorScores(bits["label"]).table.set_index("estimator")["score"]
    assert result == pytest.approx([scores[read_chain(name).name] for name in ORDERS["missing"]])


def test_a_filter_that_leaves_the_order_is_told_from_one_that_does_not(store):
    """The glyph in the middle is a square whose blur has the same pixels on top; that of nine bright pixels has not."""
    for task, worse in (("planted-fixed(train=16, test=20)", False), ("planted-place(train=16, test=20)", True)):
        (part,) = parts_of(SuiteTask(task), ["deletion"], KNOWN)
        assert order_worsens(part, str(store), "blur") is worse
        assert order_worsens(part, str(store), "missing") and not order_worsens(part, str(store), "contrast")


def test_backdoors_are_planted_where_they_fit():
    assert [one.task for one in local_suite("digits", "cnn-small")] == [
        "backdoor(digits, trigger=glyph, train=4096, test=64)",
        "backdoor(digits, trigger=glyph, strength=0.5, train=4096, test=64)",
    ], "ten frames do not fit into 8×8 pixels"


def _own():
    """What the package itself declares."""
    return [name for name in every_judge() if name in PROTOCOLS or is_builtin(metrics[name.partition("(")[0]].function)]


@pytest.mark.skipif(not BOARD.is_file(), reason="the board has not been made for this version")
def test_the_boards_numbers_come_with_the_package():
    board_table.cache_clear()
    table = board_table()
    assert set(table["judge"]) == {*_own()}, "all that is registered, and nothing else"
    assert table["task"].nunique() >= 8 and table["kind"].nunique() >= 6
    for name in _own():
        known = trust(name)
        assert known is not None and known.recovery.n >= (5 if name in PROTOCOLS else 8), name


@pytest.mark.skipif(not BOARD.is_file(), reason="the board has not been made for this version")
def test_the_board_finds_what_is_known():
    board_table.cache_clear()
    order, values = trust("deletion"), trust("relevance_mass")
    assert order.by_kind["contrast"] == 0 and values.by_kind["contrast"] > 0.9, (
        "what reads the order is blind to values"
    )
    for name in _own():
        if reads_order(name) and "contrast" in trust(name).by_kind:
            assert trust(name).by_kind["contrast"] == 0, name
    complete, sound = trust("completeness").by_kind, trust(SOUND).by_kind
    assert complete["missing"] > 0.8 and abs(complete["extra"]) < 0.2, "it sees what is missing, not what is added"
    assert sound["extra"] > 0.6 and abs(sound["missing"]) < 0.2, "it sees what is added, not what is missing"
    assert not trust("roar").trusted and not trust("kar").trusted and trust("kar").by_kind["encoding"] < -0.2
    assert trust("evaluator").trusted and trust("evaluator").by_kind["encoder"] > 0.8
    strange, usual = trust(OUT_OF_DISTRIBUTION[0]), trust("deletion")
    assert strange.recovery.value < usual.recovery.value - 0.05, "a fill out of distribution misleads"
    assert strange.random_won and not strange.trusted and not usual.random_won
    assert trust("average_drop").by_kind["extra"] < -0.2, "it rewards maps that mark more"


@pytest.mark.skipif(not PAGE.is_file(), reason="only in a checkout")
def test_the_page_of_the_board_shows_its_data():
    """If this fails: run tools/metric_board.py, and make the listings anew."""
    facts = {k: v for k, v in json.loads(BOARD.read_text()).items() if k not in ("names", "columns", "rows")}
    made, page = board_page(board_table(), facts), PAGE.read_text()
    number = re.compile(r"-?\d+(?:\.\d+)?")
    assert number.sub("#", page) == number.sub("#", made)
    shown, expected = ([float(found) for found in number.findall(text)] for text in (page, made))
    np.testing.assert_allclose(
        shown, expected, atol=0.0101, err_msg="the data are rounded to four digits, the page is not"
    )
