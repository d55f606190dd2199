"""Kinds of model outputs: one logit, several labels and values give the numbers that are known for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import uproar
from uproar.errors import BadInput, BadShape, NotApplicable
from uproar.estimators import estimators
from uproar.extend import metric
from uproar.metrics import metrics
from uproar.models.output_kind import OutputKind, assuming_output, check_output, probabilities, target_loss
from uproar.scoring import score_all
from uproar.types import KINDS

SIZE = 12
GREY = torch.tensor([0.5])
N = 6


class Net(nn.Module):
    """A small convolutional network with `outputs` numbers, which `end` turns into its answer."""

    def __init__(self, outputs: int, end=lambda z: z, scale: float = 200, shift: float = 2.5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act, self.next = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3)
        self.head, self.end, self.scale, self.shift = nn.Linear(8, outputs), end, scale, shift

    def forward(self, x):
        z = self.head(self.next(self.act(self.conv(x))).relu().mean((2, 3)))
        return self.end(self.scale * z - self.shift)


def twin(z):
    """The two logits of the softmax whose second probability is the sigmoid of z."""
    return torch.cat([torch.zeros_like(z), z], 1)


@pytest.fixture
def images():
    return torch.rand(N, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def maps():
    return torch.rand(N, SIZE, SIZE, generator=torch.Generator().manual_seed(2))


LABELS = torch.tensor([0, 1, 1, 0, 1, 0])
FOLLOWING = (
    "insertion(steps=6)",
    "deletion(steps=6)",
    "road",
    "road(by=probability)",
    "road_gap",
    "average_drop",
    "increase_in_confidence",
    "completeness",
    "soundness(steps=5, by=probability, level=0.2)",
)


@pytest.mark.parametrize("end", [lambda z: z, lambda z: z[:, 0], torch.sigmoid], ids=["logit", "flat", "probability"])
def test_one_logit_scores_as_the_two_logits_of_its_softmax_twin(images, maps, end):
    one = score_all(Net(1, end), images, LABELS, maps, FOLLOWING, mean=GREY, output="sigmoid")
    two = score_all(Net(1, twin), images, LABELS, maps, FOLLOWING, mean=GREY)
    torch.testing.assert_close(
        torch.tensor(one.per_image["value"]), torch.tensor(two.per_image["value"]), atol=1e-6, rtol=1e-5, equal_nan=True
    )
    assert one.quality.accuracy == two.quality.accuracy
    assert one.quality.probability == pytest.approx(two.quality.probability, abs=1e-6)
    assert "sigmoid of one logit" in one.quality.sentence and "softmax over 2 classes" in two.quality.sentence
    varied = one.per_image.groupby("metric")["value"].nunique()
    assert varied["insertion(steps=6)"] == varied["deletion(steps=6)"] == N


def test_one_logit_is_explained_for_yes_and_for_no(images):
    model, mean = Net(1), GREY
    z = Net(1, twin)
    for name in ("grad", "ig", "occlusion(window=4)", "rise(masks=30)", "iba(steps=2, samples=2)"):
        yes, no = (
            uproar.explain(model, images, name, target=k, output="sigmoid", mean=mean, train=images) for k in (1, 0)
        )
        torch.testing.assert_close(
            yes, uproar.explain(z, images, name, target=1, mean=mean, train=images), atol=1e-5, rtol=1e-4
        )
        assert float(no.flatten(1).std(1).min()) > 0
    grad = [uproar.explain(model, images, "grad", target=k, output="sigmoid", raw=True) for k in (0, 1)]
    assert torch.equal(grad[0], -grad[1])
    occluded = [
        uproar.explain(model, images, "occlusion(window=4)", target=k, output="sigmoid", mean=mean) for k in (0, 1)
    ]
    torch.testing.assert_close(occluded[0], -occluded[1], atol=1e-6, rtol=0)


def test_the_class_that_one_logit_predicts_is_explained_by_default(images):
    model = Net(1)
    predicted = (uproar.predict(model, images)[:, 0] > 0).long()
    assert set(predicted.tolist()) == {0, 1}
    both = uproar.explain(model, images, "grad", output="sigmoid")
    assert torch.equal(both, uproar.explain(model, images, "grad", target=predicted, output="sigmoid"))


def test_labels_are_followed_each_by_itself(images, maps):
    """Other labels do not matter: the network of one of the labels alone gives the same numbers."""
    weights = Net(5, scale=4, shift=0)
    several = score_all(weights, images, torch.full((N,), 3), maps, FOLLOWING, mean=GREY, output="sigmoid")
    alone = score_all(
        Net(5, lambda z: z[:, 3:4], 4, 0),
        images,
        torch.ones(N, dtype=torch.long),
        maps,
        FOLLOWING,
        mean=GREY,
        output="sigmoid",
    )
    assert several.per_image["value"].equals(alone.per_image["value"])
    by_softmax = score_all(weights, images, torch.full((N,), 3), maps, FOLLOWING, mean=GREY)
    assert not by_softmax.per_image["value"].equals(several.per_image["value"])
    ended = score_all(Net(5, torch.sigmoid, 4, 0), images, torch.full((N,), 3), maps, FOLLOWING, mean=GREY)
    assert ended.quality.outputs == "sigmoid of each label"  # recognised
    torch.testing.assert_close(
        torch.tensor(ended.per_image["value"]),
        torch.tensor(several.per_image["value"]),
        atol=1e-5,
        rtol=1e-4,
        equal_nan=True,
    )
    assert several.table["note"].str.contains("sigmoid outputs").all()


class Linear(nn.Module):
    """Values that are sums over the image with known weights."""

    def __init__(self, outputs: int, bias: float = 3.0) -> None:
        super().__init__()
        self.layer = nn.Linear(SIZE * SIZE, outputs)
        with torch.no_grad():
            self.layer.weight.copy_(torch.randn(outputs, SIZE * SIZE, generator=torch.Generator().manual_seed(3)))
            self.layer.bias.fill_(bias)

    def forward(self, x):
        return self.layer(x.flatten(1))


def test_gradients_of_a_linear_model_with_many_outputs_are_its_weights(images):
    model = Linear(4)
    for kind in (*KINDS, "auto"):
        for k in range(4):
            grad = uproar.explain(model, images, "grad", target=k, output=kind, raw=True)
            assert torch.equal(grad, model.layer.weight[k].view(1, 1, SIZE, SIZE).expand_as(grad))
    attributed = uproar.explain(
        model, images, "occlusion(window=1, stride=1, fill=black)", target=2, output="regression"
    )
    torch.testing.assert_close(attributed, model.layer.weight[2].view(SIZE, SIZE) * images[:, 0], atol=2e-5, rtol=1e-4)


def test_values_of_a_regression_are_followed_from_the_whole_image_to_the_removed_one(images, maps):
    """Of a linear model the value without some pixels is known, so the curve is, whatever its bias."""
    for bias in (0.0, 50.0):
        model = Linear(2, bias)
        curve = uproar.curve(
            model,
            images,
            maps,
            "deletion(steps=4, fill=zero)",
            target=torch.ones(N, dtype=torch.long),
            output="regression",
        )
        shares = images[:, 0] * model.layer.weight[1].view(SIZE, SIZE)
        order = maps.flatten(1).argsort(1, descending=True)
        left = 1 - shares.flatten(1).gather(1, order).cumsum(1)[:, [35, 71, 107, 143]] / shares.sum((1, 2))[:, None]
        expected = torch.cat([torch.ones(N, 1), left], 1).double()
        torch.testing.assert_close(curve.values, expected, atol=1e-4, rtol=1e-3)


def test_average_drop_of_a_regression_is_the_lost_share_of_the_change(images, maps):
    model, black = Linear(1), torch.zeros(1)
    scores = score_all(
        model, images, torch.zeros(N, dtype=torch.long), maps, ["average_drop"], mean=black, output="regression"
    )
    kept = (maps / maps.flatten(1).amax(1).view(-1, 1, 1)) * images[:, 0]
    weights = model.layer.weight[0].view(SIZE, SIZE)
    share = (kept * weights).sum((1, 2)) / (images[:, 0] * weights).sum((1, 2))
    expected = (1 - share).clamp_min(0).double()
    torch.testing.assert_close(torch.tensor(scores.per_image["value"]), expected.detach(), atol=1e-4, rtol=1e-3)


def test_a_value_that_removal_does_not_change_has_no_curve(images, maps):
    flat = Linear(1)
    with torch.no_grad():
        flat.layer.weight.zero_()
    scores = score_all(
        flat, images, torch.zeros(N, dtype=torch.long), maps, ["deletion(steps=3)"], mean=GREY, output="regression"
    )
    assert scores.per_image["value"].isna().all() and not scores.table["ranked"].item()


def test_what_means_nothing_for_a_regression_is_left_out_by_name(images, maps):
    y = torch.zeros(N, dtype=torch.long)
    scores = score_all(
        Net(1), images, y, maps, ["deletion(steps=3)", "road", "deletion:rise"], mean=GREY, output="regression"
    )
    assert list(scores.table["metric"]) == ["deletion(steps=3)"]
    assert any("road is left out" in n and "no accuracy" in n for n in scores.notices)
    assert any("deletion:rise serves softmax and sigmoid outputs, not regression" in n for n in scores.notices)
    for name in ("iba", "tame", "sise", "ada_sise", "input_iba"):
        with pytest.raises(NotApplicable, match=f"{name} serves softmax and sigmoid outputs, not regression"):
            uproar.explain(Net(1), images, name, output="regression", train=images)


def test_one_output_is_not_guessed(images, maps):
    for model in (Net(1), Net(1, lambda z: z[:, 0])):
        with pytest.raises(BadInput, match="over which a softmax is always 1"):
            uproar.score(model, images, LABELS, maps, mean=GREY)
        with pytest.raises(BadInput, match="over which a softmax is always 1"):
            uproar.score(model, images, LABELS, maps, mean=GREY, output="softmax")
    ended = score_all(Net(1, torch.sigmoid), images, LABELS, maps, ["deletion(steps=3)"], mean=GREY)
    assert "sigmoid of one logit" in ended.quality.outputs


def test_a_target_may_be_a_function_of_the_answer(images, maps):
    def contrast(answer):
        return answer.logits[:, 2] - answer.logits[:, 0]

    model = Net(4, lambda z: SimpleNamespace(logits=z, more=(z, z)))
    picked = uproar.explain(model, images, "grad", target=contrast, raw=True)
    grads = [uproar.explain(Net(4), images, "grad", target=k, raw=True) for k in (2, 0)]
    torch.testing.assert_close(picked, grads[0] - grads[1])
    for kind, y in (("sigmoid", 1), ("regression", 0)):
        scores = score_all(model, images, contrast, maps, ["deletion(steps=4)"], mean=GREY, output=kind)
        same = score_all(
            Net(4, lambda z: z[:, 2:3] - z[:, :1]),
            images,
            torch.full((N,), y),
            maps,
            ["deletion(steps=4)"],
            mean=GREY,
            output=kind,
        )
        assert scores.per_image["value"].equals(same.per_image["value"])
    with pytest.raises(BadInput, match="one number per image"):
        uproar.score(model, images, contrast, maps, output="softmax")
    with pytest.raises(BadShape, match="must return one float per image"):
        uproar.explain(model, images, "grad", target=lambda answer: answer.logits)
    with pytest.raises(BadInput, match="cannot read the model's answer"):
        uproar.explain(model, images, "grad", target=lambda answer: answer.nothing)


def test_targets_out_of_range_are_named_after_their_kind(images):
    with pytest.raises(BadInput, match="target labels run from 7 to 7, but the model has 5 labels"):
        uproar.explain(Net(5), images, "grad", target=7, output="sigmoid")
    with pytest.raises(BadInput, match="The regression has 3 components: say with target="):
        uproar.explain(Net(3), images, "grad", output="regression")
    with pytest.raises(BadInput, match="output is auto, softmax, sigmoid"):
        check_output("relu")


def test_everything_says_which_kinds_it_serves():
    for name in metrics:
        kinds = metrics[name].facts["kinds"]
        assert kinds and set(kinds) <= set(KINDS), name
    for name in estimators:
        entry = estimators[name]
        if entry.facts["role"] == "estimator":
            assert set(entry.facts["kinds"]) <= set(KINDS) and entry.facts["kinds"], name


def test_a_metric_of_the_user_that_asks_the_model_serves_a_softmax_unless_it_says_more(images, maps):
    from uproar.metrics.changes import removed

    facts = {"higher_is_better": True, "low": 0, "high": 1, "chance": "0"}
    declared = metric(**facts, asks=lambda shape: [removed("most", 3, SIZE * SIZE, "mean")], name="kept_of_mine")
    declared(lambda batch, outputs: {"value": next(iter(outputs.values())).softmax(1)[:, 0]})
    assert metrics["kept_of_mine"].facts["kinds"] == ("softmax",)
    with pytest.raises(NotApplicable, match="kept_of_mine serves softmax outputs, not sigmoid"):
        uproar.score(Net(3), images, LABELS, maps, ["kept_of_mine"], mean=GREY, output="sigmoid")


def test_an_estimator_of_the_user_finds_the_scores_of_one_logit(images):
    def finite_difference_of_mine(model, x, target):
        return model(x).gather(1, target[:, None])[:, :, None, None] * torch.ones_like(x)

    z = uproar.predict(Net(1), images)
    for k, sign in ((0, -1), (1, 1)):
        maps = uproar.explain(Net(1), images, finite_difference_of_mine, target=k, output="sigmoid")
        torch.testing.assert_close(maps[:, 0, 0], sign * z[:, 0])


def test_probabilities_and_losses_follow_the_kind():
    z = torch.tensor([[1.5, -2.0], [0.0, 30.0]])
    y = torch.tensor([0, 1])
    with assuming_output(OutputKind("sigmoid")):
        torch.testing.assert_close(probabilities(z), z.double().sigmoid())
        expected = nn.functional.binary_cross_entropy_with_logits(z, torch.ones_like(z), reduction="none")
        torch.testing.assert_close(target_loss(z, y), expected[[0, 1], y])
    with assuming_output(OutputKind("sigmoid", bounded=True)):
        assert torch.equal(probabilities(z.sigmoid()), z.sigmoid().double())
        torch.testing.assert_close(target_loss(z[:1].sigmoid(), y[:1]), expected[:1, 0])
    with assuming_output(OutputKind("regression")), pytest.raises(NotApplicable):
        probabilities(z)
