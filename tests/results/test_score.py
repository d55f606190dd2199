"""Scores of maps at hand: the same whatever the batch, honest about what is not defined."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import nn

import uproar
from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.metrics import metric, metrics
from uproar.metrics.registry import read_metric
from uproar.scoring import score_all

CHEAP = ["insertion(steps=5)", "deletion(steps=5)", "average_drop", "pointing_game", "total_variation"]


@pytest.fixture(scope="module")
def case():
    task = uproar.load("planted(size=8, classes=3, train=120, test=30)")
    model = uproar.build("cnn-small(width=8)", task)
    uproar.fit(model, task.train.images, task.train.labels, uproar.Recipe(epochs=4), 0)
    maps = uproar.explain(model, task.test.images, ["random", "grad"], target=task.test.labels)
    return model, task, maps


def scored(case, names=CHEAP, **options):
    model, task, maps = case
    given = {"mean": task.mean, "truth": task.test.masks, **options}
    maps = given.pop("maps", maps)
    return score_all(model, task.test.images, task.test.labels, maps, names, **given)


def test_scores_do_not_depend_on_the_batch(case):
    a, b, c = (scored(case, batch_size=size) for size in (1, 7, 512))
    pd.testing.assert_frame_equal(a.per_image, b.per_image, rtol=1e-5, atol=1e-5)
    pd.testing.assert_frame_equal(a.per_image, c.per_image, rtol=1e-5, atol=1e-5)
    assert a.forwards == b.forwards == c.forwards


FINE_TUNED = ["idsds(epochs=2, batch_size=32)", "ffid_plus(draws=2, epochs=1)", "deletion(steps=5)"]


def test_fine_tuned_judges_do_not_depend_on_the_batch_and_leave_the_model_as_it_is(case):
    model, task, _ = case
    before = {name: value.clone() for name, value in model.state_dict().items()}
    given = {"train": task.train.images, "train_labels": task.train.labels}
    a, b = (scored(case, FINE_TUNED, batch_size=size, **given) for size in (4, 512))
    pd.testing.assert_frame_equal(a.per_image, b.per_image, rtol=1e-5, atol=1e-5)
    assert set(a.table["metric"]) == {str(read_metric(name)) for name in FINE_TUNED}
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    softmax = nn.Sequential(model, nn.Softmax(1))
    as_probabilities = scored((softmax, *case[1:]), FINE_TUNED[2:], output="probability", **given)
    assert as_probabilities.table["value"].to_numpy() == pytest.approx(
        a.table[a.table["metric"] == "deletion(steps=5)"]["value"].to_numpy(), abs=1e-5
    )
    tuned = scored((softmax, *case[1:]), FINE_TUNED[:1], output="probability", **given)
    assert tuned.table["value"].notna().all()  # log-probabilities are logits: their copy learns as well


def test_fine_tuned_judges_without_training_images_are_left_out_or_refused(case):
    _, task, _ = case
    left = scored(case, FINE_TUNED)
    assert set(left.table["metric"]) == {"deletion(steps=5)"}
    assert any("give these with their labels (train= and train_labels=" in notice for notice in left.notices)
    with pytest.raises(NotApplicable, match="fine-tuned on training images; give these with their labels"):
        scored(case, FINE_TUNED[:1], train=task.train.images)
    with pytest.raises(BadInput, match="train_labels are the labels of train, which was not given"):
        scored(case, FINE_TUNED[:1], train_labels=task.train.labels)
    with pytest.raises(BadShape, match=r"There are 120 images but train_labels of shape \(3,\)"):
        scored(case, FINE_TUNED[:1], train=task.train.images, train_labels=torch.arange(3))
    with pytest.raises(BadInput, match="labels of the training images run from 0 to 5, but the model has 3 classes"):
        scored(case, FINE_TUNED[:1], train=task.train.images, train_labels=torch.arange(120) % 6)


def test_one_tensor_and_a_dict_of_one_say_the_same(case):
    model, task, maps = case
    one = uproar.score(model, task.test.images, task.test.labels, maps["grad"], ["deletion(steps=5)"], mean=task.mean)
    many = uproar.score(model, task.test.images, task.test.labels, maps, ["deletion(steps=5)"], mean=task.mean)
    assert one["value"].item() == many.set_index("method").loc["grad", "value"]
    each = uproar.score(
        model, task.test.images, task.test.labels, maps, ["deletion(steps=5)"], mean=task.mean, per_image=True
    )
    assert each.query("method == 'grad'")["value"].mean() == pytest.approx(one["value"].item())


def test_asking_for_more_metrics_of_the_same_changes_costs_nothing(case):
    alone = scored(case, ["insertion(steps=5)"]).forwards + scored(case, ["deletion(steps=5)"]).forwards
    together = scored(case, ["insertion(steps=5)", "deletion(steps=5)"])
    n = 30
    assert together.forwards < alone
    twice = scored(case, ["deletion(steps=5)", "deletion(steps=5, unit=pixel)"])
    assert twice.forwards == scored(case, ["deletion(steps=5)"]).forwards
    assert together.forwards >= n


def test_a_curve_starts_at_the_image_and_ends_at_the_fill(case):
    model, task, maps = case
    x, y = task.test.images, task.test.labels
    curve = uproar.curve(model, x, maps["grad"], "deletion", target=y, steps=4, mean=task.mean)
    assert curve.fractions[0] == 0 and curve.fractions[-1] == 1
    clean = uproar.predict(model, x).softmax(1).gather(1, y[:, None])[:, 0]
    empty = uproar.predict(model, task.mean.view(1, 1, 1, 1).expand_as(x)).softmax(1).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(curve.values[:, 0].float(), clean)
    torch.testing.assert_close(curve.values[:, -1].float(), empty)


def test_a_nan_in_one_map_makes_that_image_undefined_and_leaves_the_others(case):
    model, task, maps = case
    broken = maps["grad"].clone()
    broken[3, 0, 0] = torch.nan
    scores = scored(case, ["deletion(steps=5)", "average_drop"], maps={"whole": maps["grad"], "broken": broken})
    for _, group in scores.per_image.groupby("metric"):
        a = group.query("method == 'whole'")["value"].to_numpy()
        b = group.query("method == 'broken'")["value"].to_numpy()
        assert np.isnan(b[3])
        np.testing.assert_array_equal(np.delete(a, 3), np.delete(b, 3))
    assert (scores.table.query("method == 'broken'")["nan"] == 1).all()


def test_constant_zero_and_negative_maps_have_defined_outcomes(case):
    kinds = {"zero": torch.zeros(30, 8, 8), "constant": torch.ones(30, 8, 8), "negative": -torch.rand(30, 8, 8)}
    scores = scored(case, ["deletion(steps=5)", "average_drop"], maps=kinds)
    assert scores.table.query("metric == 'deletion(steps=5)'")["nan"].sum() == 0
    drops = scores.table.query("metric == 'average_drop'").set_index("method")["nan"]
    assert drops["zero"] == 30 and drops["negative"] == 30
    assert scores.table.set_index("method").loc["zero", "tied"].iloc[0] == 1


def test_channels_are_summed_and_other_sizes_refused(case):
    model, task, maps = case
    x, y = task.test.images, task.test.labels
    four = uproar.score(model, x, y, maps["grad"][:, None], ["total_variation"])
    assert four["value"].item() == uproar.score(model, x, y, maps["grad"], ["total_variation"])["value"].item()
    with pytest.raises(BadShape, match="4x4 but the images 8x8; resize them first"):
        uproar.score(model, x, y, torch.rand(30, 4, 4))
    with pytest.raises(BadShape, match=r"must be \(30, 8, 8\)"):
        uproar.score(model, x, y, torch.rand(29, 8, 8))
    with pytest.raises(BadShape, match="30 images but labels"):
        uproar.score(model, x, y[:3], maps)
    with pytest.raises(BadInput, match="labels run from 0 to 7, but the model has 3 classes"):
        uproar.score(model, x, y.clone().fill_(0).index_fill(0, torch.tensor([2]), 7), maps)
    with pytest.raises(BadInput, match="at least one"):
        uproar.score(model, x[:0], y[:0], torch.rand(0, 8, 8))
    with pytest.raises(BadInput, match="Did you mean 'deletion'"):
        uproar.score(model, x, y, maps, ["deletoin"])


def test_a_metric_that_does_not_apply_is_left_out_by_name_and_alone_it_is_an_error(case):
    model, task, maps = case
    x, y = task.test.images, task.test.labels
    asked = ["deletion(steps=5)", "pointing_game"]
    with pytest.warns(UserWarning, match=r"pointing_game is left out: .*not known; give truth="):
        scores = uproar.score(model, x, y, maps, asked, mean=task.mean)
    expected = uproar.score(model, x, y, maps, asked[:1], mean=task.mean)
    pd.testing.assert_frame_equal(scores, expected)
    with pytest.raises(NotApplicable, match="pointing_game"):
        uproar.score(model, x, y, maps, asked[1:], mean=task.mean)


def test_boxes_are_for_the_pointing_game_and_for_all_where_there_are_no_masks(case):
    model, task, _ = case
    x, y, masks, boxes = (task.test.images, task.test.labels, task.test.masks, task.test.boxes)
    hollow = (task.test.boxed(slice(None)) & ~masks).float()  # in the box, beside the glyph
    asked = ["pointing_game", "relevance_mass"]

    def hits(**known):
        return uproar.score(model, x, y, hollow, asked, **known)["value"].tolist()

    assert hits(truth=masks) == [0, 0]
    assert hits(truth=masks, boxes=boxes) == [1, 0]
    assert hits(boxes=boxes) == hits(boxes=boxes[:, None]) == [1, 1]
    with pytest.raises(BadInput, match=r"boxes= are whole numbers x0, y0, x1, y1 for every image, not float32"):
        hits(boxes=boxes.float())
    with pytest.raises(BadShape, match=r"boxes= are of shape .*must be \(\d+, 4\), or"):
        hits(boxes=boxes[:-1])


def test_images_that_were_normalised_before_are_noticed(case):
    model, task, maps = case
    x, y = task.test.images, task.test.labels
    with pytest.warns(UserWarning, match=r"run from -4 to \S+, not from 0 to 1. .*normalise="):
        uproar.score(model, x * 8 - 4, y, maps, ["deletion(steps=5)"], mean=task.mean)
    for ask in (uproar.explain, lambda *given: uproar.choose(*given, y, methods=["grad"])):
        with pytest.warns(UserWarning, match=r"run from \S+ to 255, not from 0 to 1. .*divide bytes by 255"):
            ask(model, x / x.max() * 255)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uproar.explain(model, x * 1.1 - 0.05)  # cubic splines overshoot


def test_maps_and_images_may_have_a_history(case):
    model, task, maps = case
    x, y, traced = task.test.images, task.test.labels, maps["grad"].clone().requires_grad_()
    expected = uproar.score(model, x, y, maps["grad"], ["deletion(steps=5)"], mean=task.mean)
    actual = uproar.score(model, x.clone().requires_grad_(), y, traced * 1, ["deletion(steps=5)"], mean=task.mean)
    assert actual["value"].tolist() == expected["value"].tolist()


def test_a_model_that_answers_with_probabilities_is_noticed_and_scored_the_same(case):
    model, task, maps = case
    soft = nn.Sequential(model, nn.Softmax(1))
    x, y = task.test.images, task.test.labels
    expected = uproar.score(model, x, y, maps, ["deletion(steps=5)"], mean=task.mean)
    with pytest.warns(UserWarning, match="taken as probabilities"):
        scores = uproar.score(soft, x, y, maps, ["deletion(steps=5)"], mean=task.mean)
    np.testing.assert_allclose(scores["value"], expected["value"], rtol=1e-4)
    told = uproar.score(soft, x, y, maps, ["deletion(steps=5)"], mean=task.mean, output="probability")
    np.testing.assert_allclose(told["value"], expected["value"], rtol=1e-4)
    with pytest.raises(BadInput, match="do not sum to 1"):
        uproar.score(model, x, y, maps, output="probability")


def test_dropout_left_on_is_put_in_evaluation_and_restored(case):
    _, task, maps = case
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 3)).train()
    x, y = task.test.images, task.test.labels
    a = uproar.score(model, x, y, maps, ["deletion(steps=5)"], mean=task.mean)
    b = uproar.score(model, x, y, maps, ["deletion(steps=5)"], mean=task.mean)
    assert model.training
    pd.testing.assert_frame_equal(a, b)


def test_the_interval_of_a_bounded_mean_is_over_the_images_where_it_is_defined(case):
    scores = scored(case, ["average_drop", "pointing_game"])
    values = scores.per_image.set_index(["metric", "method"])["value"]
    for row in scores.table.itertuples():
        v = values[row.metric, row.method].dropna()
        if row.metric == "pointing_game":
            ends = stats.binomtest(int(v.sum()), len(v)).proportion_ci(method="wilson")
        else:
            ends = np.clip(stats.t.interval(0.95, len(v) - 1, v.mean(), stats.sem(v)), 0, 1)
        assert (row.low, row.high) == pytest.approx(tuple(ends))


def test_pairs_are_a_paired_t_test_over_the_images_where_both_are_defined(case):
    scores = scored(case, ["average_drop", "pointing_game"])
    values = scores.per_image.set_index(["metric", "method"])["value"]
    for row in scores.comparisons.itertuples():
        a, b = (values[row.metric, name].to_numpy() for name in (row.better, row.worse))
        both = np.isfinite(a) & np.isfinite(b)
        reference = stats.ttest_rel(a[both], b[both])
        assert row.n == both.sum()
        if np.ptp(a[both] - b[both]) > 0:
            assert row.p == pytest.approx(reference.pvalue)
            ends = tuple(reference.confidence_interval())
            assert (row.low, row.high) == pytest.approx(ends)


def test_p_is_not_bounded_by_a_number_of_draws(case):
    """Ten methods are 45 pairs: a p of at least 2 / 1001 could not pass Holm's correction, however clear the pair."""
    model, task, maps = case
    noise = {f"m{k}": torch.rand(maps["grad"].shape, generator=torch.Generator().manual_seed(k)) for k in range(10)}
    scores = scored(case, ["sparseness"], maps={**noise, "m0": noise["m0"] ** 20})
    decided = scores.comparisons[scores.comparisons["verdict"] == "m0 better"]
    assert len(decided) == 9 and (decided["p"] < 1e-6).all()


def test_the_better_method_comes_first_whatever_the_direction(case):
    scores = scored(case, ["deletion(steps=5)", "insertion(steps=5)", "pointing_game"])
    value = scores.table.set_index(["metric", "method"])["value"]
    for row in scores.comparisons.itertuples():
        better, worse = value[row.metric, row.better], value[row.metric, row.worse]
        higher = metrics[row.metric.partition("(")[0]].facts["higher_is_better"]
        assert better >= worse if higher else better <= worse


def test_metrics_are_cells_of_a_study(tmp_path):
    study = {
        "task": "planted(size=8, classes=3, train=60, test=30)",
        "model": "cnn-small(width=4)",
        "estimators": ["random", "grad", "bernoulli"],
        "baselines": [],
        "metrics": ["deletion(steps=5)", "pointing_game", "relevance_mass"],
        "seeds": 2,
        "recipe": {"epochs": 1},
    }
    results = uproar.run(study, store=tmp_path, jobs=1)
    status = results.scores.groupby("estimator")["status"].unique().str[0].to_dict()
    assert status == {"random": "done", "grad": "done", "bernoulli": "skipped"}
    task = uproar.load(study["task"])
    model = uproar.build(study["model"], task, 1)
    uproar.fit(model, task.train.images, task.train.labels, uproar.Recipe(epochs=1), 1)
    maps = uproar.explain(model, task.test.images, "grad", seed=1)
    expected = uproar.score(
        model,
        task.test.images,
        task.test.labels,
        maps,
        study["metrics"],
        mean=task.mean,
        truth=task.test.masks,
        boxes=task.test.boxes,
        seed=1,
    )
    actual = results.scores.query("estimator == 'grad' and seed == 1").set_index("metric")["value"]
    for row in expected.itertuples():
        assert actual[row.metric] == pytest.approx(row.value, abs=1e-6)
    before = sorted(tmp_path.rglob("*.safetensors"))
    uproar.run({**study, "metrics": [*study["metrics"], "total_variation"]}, store=tmp_path, jobs=1)
    assert len(sorted(tmp_path.rglob("*.safetensors"))) == len(before) + 4


def test_a_metric_of_ones_own_comes_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import uproar\n"
        "@uproar.metric(higher_is_better=True, low=0, high=1, chance='0.5', formula='-')\n"
        "def brightness_of_the_top(batch):\n"
        '    """How bright the most important pixel is."""\n'
        "    top = batch.maps.flatten(1).argmax(1, keepdim=True)\n"
        "    return {'value': batch.x.mean(1).flatten(1).gather(1, top)[:, 0]}\n"
    )
    study = {
        "task": "planted(size=8, classes=3, train=60, test=30)",
        "model": "cnn-small(width=4)",
        "estimators": ["random", "oracle"],
        "metrics": ["brightness_of_the_top"],
        "seeds": 1,
        "recipe": {"epochs": 1},
        "plugins": [str(tmp_path / "mine.py")],
    }
    results = uproar.run(study, store=f"memory://{tmp_path.name}", jobs=1)
    value = results.scores.set_index("estimator")["value"]
    assert value["oracle"] >= 0.6 > value["random"]


def test_a_statistic_that_is_undefined_is_said_to_be_and_not_ranked():
    @metric(higher_is_better=True, low=0, high=1, chance="none", statistic=lambda responses: float("nan"))
    def never_known(batch):
        """No number for a whole set of images."""
        return {"value": batch.maps.mean((1, 2))}

    try:
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
        x, y = torch.rand(4, 1, 4, 4), torch.tensor([0, 1, 2, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row = uproar.score(model, x, y, torch.rand(4, 4, 4), ["never_known"]).iloc[0]
    finally:
        del metrics._entries["never_known"]
    assert not row.ranked and row.nan == 4
    assert np.isnan([row.value, row.low, row.high]).all()
    assert "the statistic of these images together is undefined" in row.note


def test_what_maps_are_is_told_and_never_read_off_their_names(case):
    maps = case[2]["grad"]
    named = {"oracle": maps, "brightness": maps, "centre": maps}
    scores = scored(case, CHEAP[:1], maps=named, roles={"centre": "baseline"})
    assert scores.roles == {"oracle": "method", "brightness": "method", "centre": "baseline"}
