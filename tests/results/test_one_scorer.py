"""`uproar.score` is the one-replicate case of a study's metrics: the same loop, tables and comparisons."""

from __future__ import annotations

import pandas as pd
import pytest
import torch

import uproar
from uproar.metrics import Batch
from uproar.metrics.evaluation import Evaluation, evaluate_methods
from uproar.metrics.registry import read_metric
from uproar.models import MemoryBudget
from uproar.results.scores import combined_scores, replicate_interval
from uproar.scoring import score_all
from uproar.seeds import Draws

STUDY = {
    "task": "planted(size=8, classes=3, train=60, test=20)",
    "model": "cnn-small(width=4)",
    "estimators": ["random", "grad", "sq(grad)"],
    "baselines": [],
    "metrics": ["deletion(steps=5)", "soundness(fill=mean, level=0.2)", "pointing_game"],
    "seeds": 1,
    "recipe": {"epochs": 2},
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same metrics of the same maps, by a study of one replicate and by a score."""
    results = uproar.run(STUDY, store=tmp_path_factory.mktemp("store"), jobs=1)
    task = uproar.load(STUDY["task"])
    model = uproar.build(STUDY["model"], task, 0)
    uproar.fit(model, task.train.images, task.train.labels, uproar.Recipe(epochs=2), 0)
    test = task.test
    maps = uproar.explain(model, test.images, STUDY["estimators"], mean=task.mean)
    scores = score_all(
        model,
        test.images,
        test.labels,
        maps,
        STUDY["metrics"],
        mean=task.mean,
        truth=test.masks,
        boxes=test.boxes,
        roles={"random": "random"},
    )
    return results, scores


def test_a_study_of_one_replicate_has_the_table_and_the_verdicts_of_a_score(both):
    results, scores = both
    (studied,) = (view.metric_scores for view in results.views)
    pd.testing.assert_frame_equal(studied.table, scores.table, rtol=1e-6, check_dtype=False)
    pd.testing.assert_frame_equal(studied.comparisons, scores.comparisons, rtol=1e-4, atol=1e-9, check_dtype=False)


def test_rows_by_replicate_have_the_interval_of_the_table_of_one_replicate(both):
    results, scores = both
    rows = results.scores.set_index(["metric", "estimator"])
    for row in scores.table.itertuples():
        assert rows.loc[(row.metric, row.method), ["low", "high"]].tolist() == pytest.approx([row.low, row.high], 1e-6)


def made(values, call=None):
    call = call or read_metric("pointing_game")
    return [Evaluation.of(call, {"value": torch.tensor(v)}, 0.0) for v in values]


def test_replicates_without_a_metric_are_left_out_of_its_numbers():
    call = read_metric("pointing_game")
    first, second = made([[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0]])
    groups = {"a": [[first], [], [second]], "b": [[second], [], [first]]}
    scores = combined_scores({call: groups, read_metric("sparseness"): {}}, (1, 2, 2), {})
    assert scores is not None and scores.comparisons["replicates"].tolist() == [2]
    assert scores.table[["value", "n"]].to_numpy().tolist() == [[0.625, 4], [0.625, 4]]
    alone = combined_scores({call: {"a": [[first]]}}, (1, 2, 2), {}).table.iloc[0]
    ends = replicate_interval(call, first)
    assert (alone["low"], alone["high"]) == (ends.low, ends.high)
    assert combined_scores({call: {}}, (1, 2, 2), {}) is None


def test_groups_take_turns_and_are_heard_of():
    heard, asked = [], []

    def batches(group, rows):
        asked.append((tuple(group), rows.start, rows.stop))
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
        n = rows.stop - rows.start
        x = torch.rand(n, 1, 2, 2)
        maps, target = torch.rand(n, 2, 2), torch.zeros(n, dtype=torch.long)
        return [Batch(model, x, target, maps, torch.zeros(n, 2), Draws.of(0, n), None) for _ in group]

    call = read_metric("sparseness")
    methods = evaluate_methods(
        {"a": [call], "b": [call]},
        [["a"], ["b"]],
        batches,
        4,
        MemoryBudget(4),
        step=2,
        listen=lambda *told: heard.append(told[:3]),
    )
    assert asked == [(("a",), 0, 2), (("b",), 0, 2), (("a",), 2, 4), (("b",), 2, 4)]
    assert heard == [("a", 2, 0), ("b", 2, 2), ("a", 2, 2), ("b", 2, 4)]
    assert methods["a"].images == 4 and methods["a"].responses["sparseness"]["value"].isfinite().all()
