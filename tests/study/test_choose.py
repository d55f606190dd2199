"""Choosing a method: known answers, networks that are not ours, methods that misbehave, little time."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import uproar
from uproar.errors import BadInput, BadShape
from uproar.estimators import Context
from uproar.estimators.registry import estimator, estimators
from uproar.report import read_scores, write_report
from uproar.seeds import Draws
from uproar.statistics.comparisons import decide
from uproar.statistics.design import ALPHA
from uproar.store import Store
from uproar.study import choose as choose_module
from uproar.study.choose import TIMES, Chooser, interim_image_counts
from uproar.study.subjects import Subject, images_of_files, subject_of_images

PATCH = (slice(4, 7), slice(1, 4))
"""The pixels that the network uses, off the centre and as bright as the others."""


class PatchNetwork(nn.Module):
    """Two classes: whether nine pixels are bright; nothing else counts."""

    def __init__(self) -> None:
        super().__init__()
        weights = torch.zeros(2, 64)
        inside = torch.zeros(8, 8)
        inside[PATCH] = 1
        weights[1], weights[0] = 2 * inside.flatten(), -2 * inside.flatten()
        self.flat, self.linear = nn.Flatten(), nn.Linear(64, 2)
        self.linear.weight.data, self.linear.bias.data = weights, torch.tensor([18.0, 0.0])

    def forward(self, x):
        return self.linear(self.flat(x))


class Answers(nn.Module):
    """A network that returns an object with logits."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x):
        return SimpleNamespace(logits=self.net(x))


@pytest.fixture(scope="module")
def images():
    x = torch.rand(120, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    bright = torch.arange(120) % 2
    x[:, 0, PATCH[0], PATCH[1]] = 0.3 * x[:, 0, PATCH[0], PATCH[1]] + 0.7 * bright[:, None, None]
    return x, bright


@pytest.fixture
def own_methods():
    """A method that raises, and one that points away from what counts."""

    @estimator(passes=1)
    def breaks(model, x, target):
        """Raises."""
        raise ValueError("no such layer")

    @estimator(passes=1)
    def points_away(model, x, target):
        """Marks everything but what counts."""
        maps = torch.rand(len(x), 1, 8, 8, generator=torch.Generator().manual_seed(1)).to(x) + 1
        maps[:, :, PATCH[0], PATCH[1]] = 0
        return maps

    yield
    for name in ("breaks", "points_away"):
        del estimators._entries[name]


def test_ready_maps_and_functions_are_methods_whatever_they_are_called(images):
    def rows_from_above(model, x, target):
        return torch.linspace(1, 0, x.shape[2])[None, None, :, None].expand_as(x)

    x, y = images
    right = torch.zeros(len(x), *x.shape[2:])
    right[:, *PATCH] = 1
    maps = {"oracle": right, "brightness": x.mean(1), "random": torch.rand(right.shape)}
    answer = uproar.choose(PatchNetwork(), x, y, methods=[rows_from_above, maps])
    assert set(answer.methods) == {"oracle", "brightness", "random", "rows_from_above"}
    assert answer.recommended == ("oracle",), answer.sentence
    with pytest.raises(BadShape, match="'mine'"):
        uproar.choose(PatchNetwork(), x, y, methods={"mine": right[:1]})


def test_the_method_that_finds_what_the_network_uses_is_recommended_and_random_never(images, own_methods):
    x, y = images
    answer = uproar.choose(PatchNetwork(), x, y, methods=["sq(grad)", "points_away", "breaks"])
    assert answer.recommended == ("sq(grad)",), answer.sentence
    assert set(answer.methods) == {"sq(grad)", "points_away"}
    assert "Not significantly better than" in answer.sentence and "`points_away`" in answer.sentence
    assert "no such layer" in answer.left_out["breaks"]
    assert "No value: `breaks` (" in " ".join(answer.details)
    assert answer.costs["sq(grad)"].passes == 1 and answer.costs["sq(grad)"].seconds > 0


@pytest.mark.parametrize("kind", ["double", "logits"])
def test_a_network_that_is_not_ours_gets_the_same_answer(images, kind):
    x, _ = images
    net = PatchNetwork().double() if kind == "double" else Answers(PatchNetwork())
    answer = uproar.choose(net, x, methods=["sq(grad)"])
    assert answer.recommended == ("sq(grad)",)
    assert next(net.parameters()).dtype == (torch.float64 if kind == "double" else torch.float32)


@pytest.mark.parametrize("labelled", [True, False])
def test_training_images_add_evaluators_and_those_without_labels_one_of_the_answers(images, labelled):
    x, y = images
    labels = y if labelled else None
    answer = uproar.choose(PatchNetwork(), x[:60], methods=["sq(grad)"], train=x, train_labels=labels, budget=None)
    evaluators = {metric.name for metric in answer.metrics if "evaluator" in (metric.kind or "")}
    assert evaluators == ({"evaluator", "evaluator:model"} if labelled else {"evaluator:model"})
    assert answer.recommended == ("sq(grad)",), answer.sentence


def test_page_python_and_a_folder_opened_again_have_one_sentence(images, tmp_path):
    x, y = images
    subject = Subject(PatchNetwork(), x, y, Context(Draws.of(0, len(x)), x.mean((0, 2, 3))))
    scores = Chooser(subject, ["sq(grad)"], Store(tmp_path / "store")).scores()
    page = write_report(scores, tmp_path).read_text()
    sentence = scores.answer.sentence
    (lead,) = re.findall(r"<h1>(.*?)</h1>", page)
    assert sentence.startswith(re.sub("</?code>", "`", lead)) and "<code>sq(grad)</code>" in lead
    assert uproar.open(tmp_path).answer.sentence == read_scores(tmp_path).answer.sentence == sentence


def test_every_planned_look_spends_an_equal_share_of_the_error_rate(images, tmp_path):
    x, y = images
    subject = Subject(PatchNetwork(), x, y, Context(Draws.of(0, len(x)), x.mean((0, 2, 3))))
    counts = interim_image_counts(len(x), 16)
    assert counts == (16, 64, 120) and all(b <= TIMES * a for a, b in zip(counts, counts[1:], strict=False))
    scores = Chooser(subject, ["sq(grad)", "grad"], Store(tmp_path)).scores()
    pairs = scores.comparisons[scores.comparisons["ranked"]]
    assert (pairs["side"].eq(1) == (pairs["p_holm"] <= ALPHA)).all() and pairs["side"].any(), "words and p agree"
    assert set(pairs["analyses"]) == {3}
    for _, own in pairs.groupby("metric"):
        assert np.allclose(own["p_holm"], np.minimum(1, 3 * decide(own)["p_holm"]))
    assert {metric.alpha for metric in scores.answer.metrics} == {ALPHA / 3}


def test_looking_often_at_methods_that_are_equal_errs_no_more_often_than_once():
    """Two methods whose scores are the same noise: how often any look, at its share, calls one of them better."""
    rng, counts = np.random.default_rng(0), interim_image_counts(500, 64)
    wrong = {"whole": 0, "shares": 0}
    for _ in range(400):
        gains = rng.normal(size=500)
        p = [stats.ttest_1samp(gains[:n], 0).pvalue for n in counts]
        wrong["whole"] += min(p) <= ALPHA
        wrong["shares"] += min(p) <= ALPHA / len(counts)
    assert wrong["shares"] <= 400 * ALPHA < wrong["whole"]


class FakeClock:
    """Time that goes on only when something says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def slow(monkeypatch):
    """A clock by which judging a map takes .1 s, a check 2 s, and three methods .02, .2 and 4 s per image.

    `slow.load` makes all of it slower.
    """
    clock = FakeClock()
    clock.load = 1.0
    seconds = {"quick": (1, 0.02), "middling": (10, 0.2), "endless": (200, 4.0)}

    def declare(name: str, passes: int, each: float) -> None:
        def explain(model, x, target):
            """Squared weights, slowly."""
            clock.now += clock.load * each * len(x)
            return (PatchNetwork().linear.weight[1] ** 2).view(1, 1, 8, 8).expand(len(x), 1, 8, 8).clone()

        explain.__name__ = name
        estimator(passes=passes)(explain)

    for name, (passes, each) in seconds.items():
        declare(name, passes, each)
    scored = choose_module.subject_scores

    def judged(part, maps, chains, metrics, **options):
        if "sensitivity" in " ".join(metrics):
            clock.now += clock.load * 2.0
            return scored(part, maps, chains, ["sparseness"], **options)
        clock.now += clock.load * 0.1 * len(part.x) * len(maps)
        return scored(part, maps, chains, metrics, **options)

    monkeypatch.setattr(choose_module, "subject_scores", judged)
    yield clock
    for name in seconds:
        del estimators._entries[name]


def chosen_within(seconds, images, tmp_path, clock, methods=("quick", "middling", "endless")):
    """A chooser that has ended, with its scores."""
    x, y = (torch.cat([part] * 2) for part in images)
    subject = Subject(PatchNetwork(), x, y, Context(Draws.of(0, len(x)), x.mean((0, 2, 3))))
    chooser = Chooser(subject, methods, Store(tmp_path), budget=seconds, clock=clock)
    return chooser, chooser.scores()


@pytest.mark.parametrize("budget", [30.0, 120.0, 600.0])
@pytest.mark.parametrize("load", [1.0, 2.0])
def test_a_budget_is_kept_and_only_what_does_not_fit_into_it_is_left_out(images, tmp_path, slow, budget, load):
    """Maps of a first round may take half of the time; those of `endless` take 64 s."""
    slow.load = load
    chooser, scores = chosen_within(budget, images, tmp_path, slow)
    assert chooser.spent <= 1.1 * budget
    assert "quick" in scores.maps
    assert ("endless" in scores.left_out) == (budget < 150 * load)
    if "endless" in scores.left_out:
        assert "s per image are too many for what was left of" in scores.left_out["endless"]


def test_more_time_judges_more_images(images, tmp_path, slow):
    counts = [
        chosen_within(budget, images, tmp_path / str(budget), slow, ["quick"])[1].answer.metrics[0].images
        for budget in (40.0, 200.0)
    ]
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_the_whole_budget_is_used_and_a_round_that_does_not_fit_is_cut(images, tmp_path, slow):
    chooser, scores = chosen_within(300.0, images, tmp_path, slow, ["middling", "endless"])
    assert 16 < scores.answer.metrics[0].images < 64
    assert not scores.left_out and 180 < chooser.spent < 330


@pytest.mark.parametrize("budget", [3.0, 9.0])
def test_an_answer_that_comes_late_is_better_than_none(images, tmp_path, slow, budget):
    chooser, scores = chosen_within(budget, images, tmp_path, slow)
    assert scores.answer.metrics[0].images == 8 and [*chooser.left_out] == ["middling", "endless"]


def test_methods_that_there_is_no_time_to_check_are_named(images, tmp_path, slow):
    x, y = images
    subject = Subject(PatchNetwork(), x, y, Context(Draws.of(0, len(x)), x.mean((0, 2, 3))))

    def tell(text, left):
        slow.now += 1000.0 if text.startswith("checking") else 0.0

    methods = ["quick", "middling"]
    scores = Chooser(subject, methods, Store(tmp_path), budget=300.0, clock=slow, tell=tell).scores()
    (said,) = [text for text in scores.notices if "before these methods were checked: " in text]
    assert said.removesuffix(".").split(": ")[1] in methods, "one was begun, the other not"


def test_labels_without_training_images_are_refused(images):
    with pytest.raises(BadInput, match="train_labels are the labels of train"):
        uproar.choose(PatchNetwork(), *images, train_labels=images[1])


def test_loaders_of_normalised_images_functions_maps_and_captum_are_taken_together(images):
    """The same pixels, given as a loader of normalised ones, give the same answer."""
    from captum.attr import InputXGradient

    x, y = images
    network = PatchNetwork()
    network.linear.bias.data += network.linear.weight.data.sum(1) * 0.5
    network.linear.weight.data *= 0.25
    shifted = torch.utils.data.TensorDataset((x - 0.5) / 0.25, y)

    def upside_down(model, x, target):
        return -(model.linear.weight[target] ** 2).view(-1, 1, 8, 8)

    methods = ["sq(grad)", upside_down, InputXGradient(network), {"mine": (x[:, 0] > 2).float()}]
    loader = torch.utils.data.DataLoader(shifted, 32)
    answer = uproar.choose(network, loader, methods=methods, normalise=(0.5, 0.25))
    assert set(answer.methods) == {"sq(grad)", "upside_down", "InputXGradient", "mine"}
    assert "sq(grad)" in answer.recommended and "upside_down" not in answer.recommended
    assert not network._forward_pre_hooks and "normalise" not in dict(network.named_children())


def test_an_answer_is_drawn_saved_and_shown_in_a_notebook(images, tmp_path):
    x, y = images
    answer = uproar.choose(PatchNetwork(), x, y, methods=["sq(grad)", "grad"])
    assert str(answer) == "\n".join(answer.lines) and 1 <= len(answer.lines) <= 4
    assert answer.save(tmp_path).is_file()
    assert [text.get_text() for text in answer.plot().get_yticklabels()]
    assert {line.get_label() for line in answer.plot_curves("insertion").lines} >= {"sq(grad)", "baselines"}
    html = answer._repr_html_()
    assert "data:image/png" in html and "<table" in html


def test_two_methods_are_one_row(images):
    x, y = images
    row = uproar.compare(PatchNetwork(), x, "sq(grad)", "random", y).iloc[0]
    assert row["better"] == "sq(grad)" and 0 < row["low"] < row["difference"] < row["high"] and row["p"] < 0.05
    turned = uproar.compare(PatchNetwork(), x, "random", "sq(grad)", y).iloc[0]
    assert turned["better"] == "sq(grad)" and turned["difference"] == pytest.approx(-row["difference"])


def test_a_network_that_must_be_told_the_classes_has_as_many_as_the_training_images(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\ndef build(shape, classes):\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
    )
    x = np.random.default_rng(0).random((6, 1, 8, 8), dtype=np.float32)
    np.savez(tmp_path / "images.npz", images=x)
    np.savez(tmp_path / "train.npz", images=x, labels=np.array([0, 1, 4, 2, 3, 0]))
    model = f"{tmp_path}/net.py:build"
    own = images_of_files(str(tmp_path / "images.npz"), model, None, None, 6, train=str(tmp_path / "train.npz"))
    subject = subject_of_images(own, model, None, "predicted", 0)
    assert subject.model(subject.x).shape == (6, 5)


def test_nothing_to_choose_from_is_one_sentence(images, own_methods):
    with pytest.raises(BadInput, match="No method explains this network: breaks: .*no such layer"):
        uproar.choose(PatchNetwork(), images[0], methods=["breaks"])


def test_the_best_of_all_layers_is_picked_on_some_images_and_judged_on_the_others():
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(3, 3, 3),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    x = torch.rand(48, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    answer = uproar.choose(network, x, methods=["grad_cam(layer=all)", "grad"])
    (said,) = [notice for notice in answer.details if "is the best of 4 for grad_cam(layer=all)" in notice]
    assert "picked on 12 images; the other 36 score it" in said
    assert len(answer.methods) == 2 and answer.scores.table["n"].max() == 36
    with pytest.raises(BadInput, match="Did you mean 'smoothgrad'"):
        uproar.choose(network, x, methods=["SmoothGrad"])
