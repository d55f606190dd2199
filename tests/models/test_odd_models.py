"""Models that are not a float32 module from images to a tensor of logits: they work, or are refused in one sentence."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import uproar
from uproar.errors import BadInput, NotApplicable, UproarError
from uproar.estimators import estimators
from uproar.scoring import score_all
from uproar.study.steps import check_logits

SIZE, CLASSES = 12, 3
GREY = torch.tensor([0.5])
FILL = "deletion(steps=2, fill=channel_mean)"


class Net(nn.Module):
    """A small convolutional network; `wrap` is what it does to its class scores."""

    def __init__(self, wrap=lambda scores: scores, classes: int = CLASSES) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act = nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()
        self.pool, self.next, self.head = nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.Linear(8, classes)
        self.wrap = wrap

    def forward(self, x):
        x = self.next(self.pool(self.act(self.conv(x)))).relu().mean((2, 3))
        return self.wrap(4 * self.head(x))


@pytest.fixture
def images():
    return torch.rand(4, 1, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


ANSWERS = {
    "object": lambda scores: SimpleNamespace(logits=scores, hidden=None),
    "dict": lambda scores: {"logits": scores, "loss": scores.mean()},
    "tuple": lambda scores: (scores, scores[:, :, None]),
}
OPTIONS = {
    "rise": "rise(masks=20)",
    "lime": "lime(samples=20)",
    "kernel_shap": "kernel_shap(samples=20)",
    "iba": "iba(steps=1)",
    "input_iba": "input_iba(steps=1, feature_steps=1, epochs=1, pool=4)",
    "extremal_perturbation": "extremal_perturbation(iterations=2)",
    "tame": "tame(epochs=1)",
    "occlusion": "occlusion(window=4)",
}
NAMES = [
    OPTIONS.get(name, name)
    for name in sorted(estimators)
    if estimators[name].facts["role"] == "estimator" and estimators[name].facts["model"]
]


def maps_or_reason(model, x, name):
    """The maps, or the sentence that refuses them; anything else is an error."""
    y = torch.zeros(len(x), dtype=torch.long)
    try:
        return uproar.explain(model, x, name, target=y, train=x, mean=x.mean((0, 2, 3)))
    except UproarError as refusal:
        assert "\n" not in str(refusal) and len(str(refusal)) > 10
        return str(refusal)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_explains_a_model_with_logits_as_it_does_the_plain_one(images, name):
    plain, other = (maps_or_reason(net, images, name) for net in (Net(), Net(ANSWERS["object"])))
    assert type(plain) is type(other)
    if isinstance(plain, torch.Tensor):
        torch.testing.assert_close(other, plain)


@pytest.mark.parametrize("kind", sorted(ANSWERS))
def test_answers_that_hold_logits_are_scored_like_the_logits(images, kind):
    y, maps = torch.tensor([0, 1, 2, 0]), torch.rand(4, SIZE, SIZE)
    plain = score_all(Net(), images, y, maps, [FILL]).per_image
    assert score_all(Net(ANSWERS[kind]), images, y, maps, [FILL]).per_image.equals(plain)
    assert torch.equal(uproar.predict(Net(ANSWERS[kind]), images), uproar.predict(Net(), images))


def test_an_ambiguous_answer_is_refused_alike_everywhere(images):
    model = Net(lambda scores: (scores, 2 * scores))
    for ask in (
        lambda: uproar.predict(model, images),
        lambda: uproar.explain(model, images),
        lambda: uproar.explain(model, images, "sise", target=0),
        lambda: uproar.score(model, images, torch.zeros(4, dtype=torch.long), images[:, 0], [FILL]),
    ):
        with pytest.raises(BadInput, match="not tuple with 2 tensors of one row per image"):
            ask()


@pytest.mark.parametrize("name", ["grad", "grad_cam", "occlusion(window=4)", "sise", "lrp", "ig"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_models_in_another_precision_are_explained_and_scored_in_it(images, name, dtype):
    model = Net().to(dtype)
    for x in (images, images.to(dtype)):
        maps = uproar.explain(model, x, name, target=1, mean=GREY)
        assert maps.shape == (4, SIZE, SIZE) and maps.isfinite().all()
        assert maps.dtype in (torch.float32, torch.float64) and float(maps.std()) > 0
        table = uproar.score(model, x, torch.ones(4, dtype=torch.long), maps, [FILL])
        assert table["value"].notna().all()
    assert next(model.parameters()).dtype == dtype


def test_models_without_values_are_refused(images):
    for ask in (uproar.explain, lambda m, x: uproar.score(m, x, torch.zeros(4).long(), x[:, 0])):
        with pytest.raises(BadInput, match="meta device"):
            ask(Net().to("meta"), images)
        with torch.inference_mode():
            frozen = Net()
        with pytest.raises(BadInput, match="made inside torch.inference_mode"):
            ask(frozen, images)


@pytest.mark.parametrize("name", ["grad", "ig", "grad_cam", "occlusion(window=4)", "sg_sq(grad)"])
def test_inference_mode_changes_nothing(images, name):
    model, y, maps = Net(), torch.tensor([0, 1, 2, 0]), torch.rand(4, SIZE, SIZE)
    expected = uproar.explain(model, images, name, target=y, mean=GREY)
    scores = score_all(model, images, y, maps, [FILL]).per_image
    with torch.inference_mode():
        x, labels, given = images.clone(), y.clone(), maps.clone()
        assert torch.equal(uproar.explain(model, x, name, target=labels, mean=GREY), expected)
        assert score_all(model, x, labels, given, [FILL]).per_image.equals(scores)
    assert torch.equal(uproar.explain(model, x, name, target=labels, mean=GREY), expected)
    assert score_all(model, x, labels, given, [FILL]).per_image.equals(scores)
    assert all(weight.requires_grad for weight in model.parameters())


def odd(kind: str, x: torch.Tensor) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "scripted":
            plain = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, CLASSES))
            return torch.jit.script(plain)
        if kind == "traced":
            return torch.jit.trace(Net(), x)
        if kind == "quantised":
            return torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear})
        return nn.DataParallel(Net())


@pytest.mark.filterwarnings("ignore:quantized")  # torch says that there is no gradient; then it is refused
@pytest.mark.parametrize("kind", ["scripted", "traced", "quantised", "parallel"])
def test_odd_modules_are_scored_and_explained_or_refused_by_name(images, kind):
    model, y = odd(kind, images), torch.tensor([0, 1, 2, 0])
    table = uproar.score(model, images, y, torch.rand(4, SIZE, SIZE), [FILL])
    assert table["value"].notna().all()
    for name in ("grad", "ig", "grad_cam", "lrp", "guided_backprop", "deconvnet", "sise", "occlusion(window=4)"):
        if name in estimators or "(" in name:
            maps = maps_or_reason(model, images, name)
            assert isinstance(maps, str) or maps.shape == (4, SIZE, SIZE)
    assert isinstance(maps_or_reason(model, images, "occlusion(window=4)"), torch.Tensor)


class Falls(Net):
    """Answers NaN for images that start with a white pixel."""

    def forward(self, x):
        return torch.where(x[:, 0, :1, 0] == 1, torch.nan, super().forward(x))


def test_images_without_an_answer_are_named_or_counted(images):
    images[2, 0, 0, 0] = 1
    with pytest.raises(BadInput, match=r"answers to 1 of 4 images are NaN .*first: image 2"):
        uproar.explain(Falls(), images)
    scores = score_all(Falls(), images, torch.zeros(4).long(), images[:, 0], [FILL])
    assert scores.quality.unanswered == 1
    assert scores.per_image["value"].isna().tolist() == [False, False, True, False]
    assert scores.table["nan"].item() == 1 and not scores.table["ranked"].item()


ONE = Net(classes=1)
BOUNDED = Net(lambda scores: scores.sigmoid().clone() ** 1.01)


@pytest.mark.parametrize("metric", ["insertion", "deletion", "road", "average_drop"])
def test_one_output_and_what_looks_like_sigmoids_are_not_scored_by_a_softmax(images, metric):
    y, maps = torch.zeros(4, dtype=torch.long), images[:, 0]
    for model, why in ((ONE, "one output per image"), (BOUNDED, "look like the sigmoids")):
        with pytest.raises(BadInput, match=why):
            uproar.score(model, images, y, maps, [metric], mean=GREY)
    with pytest.raises(BadInput, match="one output per image"):
        uproar.score(ONE, images, y, maps, [metric], mean=GREY, output="logit")
    with pytest.raises(BadInput, match="one output per image"):
        uproar.curve(ONE, images, maps, "deletion", target=y, mean=GREY)
    insisted = uproar.score(BOUNDED, images, y, maps, [metric], mean=GREY, output="logit")
    assert insisted["value"].notna().all()


@pytest.mark.parametrize("name", ["occlusion", "rise(masks=20)", "lime(samples=20)", "sise", "ada_sise", "iba"])
def test_probabilities_of_one_output_or_of_sigmoids_are_not_explained(images, name):
    for model, why in ((ONE, "one output per image"), (BOUNDED, "look like the sigmoids")):
        with pytest.raises(BadInput, match=why):
            uproar.explain(model, images, name, target=0, train=images)


@pytest.mark.parametrize("name", ["grad", "ig", "grad_cam", "occlusion(window=4, score=logit)"])
def test_the_score_of_one_output_is_explained(images, name):
    maps = uproar.explain(ONE, images, name, train=images)
    assert float(maps.flatten(1).std(1).min()) > 0
    with pytest.raises((BadInput, NotApplicable)):
        uproar.explain(ONE, images, name, target=1, train=images)


def test_occlusion_of_a_softmax_follows_its_probability_not_the_softmax_of_it(images):
    once = uproar.explain(Net(), images, "occlusion(window=4)", target=1, mean=GREY)
    ended = Net(lambda scores: scores.softmax(1))
    torch.testing.assert_close(
        uproar.explain(ended, images, "occlusion(window=4)", target=1, mean=GREY), once, atol=1e-6, rtol=1e-4
    )


@pytest.mark.parametrize(
    ("end", "why"), [(torch.sigmoid, "ends in a sigmoid"), (lambda s: s.softmax(1), "ends in a softmax")]
)
def test_a_study_refuses_base_networks_without_logits(images, end, why):
    check_logits(Net(), images, uproar.predict(Net(), images))
    with pytest.raises(BadInput, match=why):
        check_logits(Net(end), images, uproar.predict(Net(end), images))
    half = Net(end).bfloat16()
    with pytest.raises(BadInput, match=why):
        check_logits(half, images, uproar.predict(half, images))


@pytest.mark.parametrize("ready", [torch.float32, torch.bfloat16])
def test_scores_straight_from_a_layer_are_logits_wherever_they_lie(images, ready):
    net = nn.Sequential(nn.Flatten(), nn.Linear(images[0].numel(), 3))
    with torch.no_grad():
        net[1].weight.zero_()
        net[1].bias.copy_(torch.tensor([0.2, 0.4, 0.9]))
    net = net.to(ready)
    table = uproar.score(
        net,
        images,
        torch.ones(len(images), dtype=torch.long),
        torch.rand(len(images), *images.shape[2:]),
        ["deletion(steps=4)"],
        mean=GREY,
    )
    expected = float(torch.tensor([0.2, 0.4, 0.9]).to(ready).double().softmax(0)[1])
    assert table["value"].item() == pytest.approx(expected, abs=1e-6)
    ended = score_all(
        nn.Sequential(net, nn.Sigmoid()),
        images,
        torch.ones(len(images), dtype=torch.long),
        torch.rand(len(images), *images.shape[2:]),
        ["deletion(steps=4)"],
        mean=GREY,
    )
    assert ended.quality.outputs == "sigmoid of each label"
    expected = float(torch.tensor(0.4).to(ready).double().sigmoid())
    assert ended.table["value"].item() == pytest.approx(expected, abs=2e-3)


def test_a_study_takes_class_scores_that_happen_to_lie_between_0_and_1(images):
    """As those of a network that has hardly learned often do."""
    model = Net(lambda scores: 0.4 + 0.01 * scores)
    answers = uproar.predict(model, images)
    assert float(answers.min()) > 0 and float(answers.max()) < 1
    check_logits(model, images, answers)
