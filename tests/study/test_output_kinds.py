"""Studies of tasks without classes of which one is right: losses, scores, verdicts, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import uproar
from uproar.audits import audits
from uproar.data import tasks
from uproar.data.derived_tasks import as_one_label
from uproar.errors import BadInput, BadShape
from uproar.metrics.retraining import RETRAININGS
from uproar.models.output_kind import SOFTMAX, OutputKind
from uproar.study.subjects import _targets
from uproar.training.fit import average_precision, mean_average_precision, r_squared, training_loss
from uproar.types import KINDS

SMALL = {
    "models": "cnn-small(width=16)",
    "estimators": ["random", "grad", "iba(steps=2, samples=2)"],
    "metrics": ["roar", "deletion(steps=4)", "road", "relevance_mass"],
    "fractions": [0.5],
    "random_rankings": 1,
    "seeds": 1,
    "limit": 250,
    "recipe": {"epochs": 10},
}


def test_average_precision_equals_its_definition():
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=40).round(1), rng.integers(0, 2, 40)
    total = 0.0
    for threshold in sorted(set(scores), reverse=True):
        chosen = scores >= threshold
        new = (scores == threshold) & (truth == 1)
        total += new.sum() * truth[chosen].mean()
    assert average_precision(scores, truth) == pytest.approx(total / truth.sum())
    assert mean_average_precision(np.stack([scores, truth], 1), np.stack([truth, truth], 1)) == pytest.approx(
        (total / truth.sum() + 1) / 2
    )


def test_losses_are_those_of_their_kind():
    z, y = torch.randn(6, 3), torch.randint(0, 2, (6, 3))
    p = z.sigmoid()
    expected = -(y * p.log() + (1 - y) * (1 - p).log()).mean()
    torch.testing.assert_close(training_loss(z, y, "sigmoid"), expected)
    torch.testing.assert_close(training_loss(z, y.float(), "regression"), (z - y).square().mean())
    torch.testing.assert_close(
        training_loss(z[:, :1], y[:, 0].float(), "regression"), (z[:, 0] - y[:, 0]).square().mean()
    )
    assert r_squared(np.ones((4, 1)), np.array([[0.0], [1.0], [2.0], [1.0]])) == 0


def label_bits() -> uproar.Task:
    """The digits with several labels per image: the binary digits of their class, the lowest first."""
    task = uproar.load("digits")
    parts = [replace(split, labels=(split.labels[:, None] >> torch.arange(4)) & 1) for split in (task.train, task.test)]
    return replace(task, name="label-bits", train=parts[0], test=parts[1], classes=tuple(f"bit {i}" for i in range(4)))


def half_brightness() -> uproar.Task:
    """The digits with a value per image: how bright its left half is, and all pixels there count alike."""
    task = uproar.load("digits")
    values = [split.images[..., :4].mean((1, 2, 3)) for split in (task.train, task.test)]
    mean, std = values[0].mean(), values[0].std()
    parts = []
    for split, value in zip((task.train, task.test), values, strict=True):
        masks = (torch.arange(8) < 4).expand(len(split), 8, 8)
        parts.append(replace(split, labels=(value - mean) / std, masks=masks))
    return replace(task, name="half-brightness", train=parts[0], test=parts[1], classes=("brightness",))


@pytest.fixture(scope="module", autouse=True)
def _declared():
    """The two tasks are known while these tests run."""
    tasks.add("label-bits", label_bits)
    tasks.add("half-brightness", half_brightness)
    yield
    for name in ("label-bits", "half-brightness"):
        del tasks._entries[name]


def test_tasks_have_the_kinds_that_their_labels_are():
    digits = uproar.load("digits")
    bits = uproar.load("label-bits")
    assert bits.kind == "sigmoid" and bits.classes == ("bit 0", "bit 1", "bit 2", "bit 3")
    assert torch.equal((bits.test.labels * torch.tensor([1, 2, 4, 8])).sum(1), digits.test.labels)
    value = uproar.load("half-brightness")
    assert value.kind == "regression" and float(value.train.labels.mean()) == pytest.approx(0, abs=1e-4)
    assert digits.fingerprint != bits.fingerprint and bits.limited(50).train.labels.shape == (50, 4)


def test_labels_that_do_not_fit_are_one_sentence():
    x = torch.rand(4, 1, 4, 4)

    def task(labels, names=("a", "b")):
        splits = [uproar.Split(name, x, labels) for name in ("train", "test")]
        return uproar.Task("mine", *splits, names)

    assert task(torch.tensor([[0, 1], [1, 0], [1, 1], [0, 0]])).kind == "sigmoid"
    assert task(torch.rand(4), ("a",)).kind == "regression"
    with pytest.raises(BadShape, match="train labels have 3 columns, but 2 names"):
        task(torch.randint(0, 2, (4, 3)))
    with pytest.raises(BadInput, match="several labels per image are 0 and 1"):
        task(torch.tensor([[0, 2], [1, 0], [1, 1], [0, 0]]))
    with pytest.raises(BadInput, match="NaN or infinite"):
        task(torch.tensor([0.0, 1.0, torch.nan, 2.0]), ("a",))
    with pytest.raises(BadInput, match="'b' is the same in all train images"):
        task(torch.tensor([[0, 1], [1, 1], [1, 1], [0, 1]]))
    with pytest.raises(BadShape, match=r"labels must be \(n,\) or \(n, k\)"):
        uproar.Split("train", x, torch.zeros(4, 2, 2))


@pytest.mark.parametrize(("task", "score"), [("label-bits", "mean average precision"), ("half-brightness", "R²")])
def test_a_study_of_labels_or_values_uses_their_loss_and_score(tmp_path, task, score):
    slow = {"recipe": {"epochs": 10, "lr": 0.02}} if score == "R²" else {}  # an unbounded loss wants a lower rate
    run = uproar.run({**SMALL, **slow, "tasks": task, "name": "kinds"}, store=tmp_path / "store", jobs=1)
    cells = run.cells
    base = cells[(cells["estimator"] == "random") & (cells["metric"] == "roar")]
    assert set(base["status"]) == {"done"}
    (quality,) = run.quality.values()
    assert quality.score > 0.5 and score in quality.sentence and score in " ".join(run.notices)
    assert quality.sentence.endswith(("outputs: sigmoid of each label.", "outputs: regression, values."))
    iba = cells[(cells["estimator"].str.startswith("iba")) & (cells["fraction"] > 0)]
    scores = run.scores.set_index(["metric", "estimator", "seed"])
    deletion = scores.xs("deletion(steps=4)", level="metric")
    if score == "R²":
        assert (iba["status"] == "skipped").all() and iba["reason"].str.contains("iba serves softmax and sigmoid").all()
        assert (scores.xs("road", level="metric")["status"] == "skipped").all()
        mass = scores.xs("relevance_mass", level="metric")["value"].groupby("estimator").mean()
        assert mass["grad"] > 0.6 > mass["random"]  # the left half is what the value is made of
    else:
        assert (iba["status"] == "done").all()
        assert (scores.xs("road", level="metric")["status"] == "done").all()
    done = deletion[deletion["status"] == "done"]["value"]
    assert done.nunique() == len(done)
    page = run.report(tmp_path / "page").read_text()
    assert score in page


def test_two_classes_and_one_logit_go_together(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(
        "from torch import nn\n\n\ndef build(shape):\n    return nn.Sequential(nn.Conv2d(shape[0], 8, 3, padding=1), "
        "nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 1))\n"
    )
    asked = {
        **SMALL,
        "tasks": "planted(size=8, classes=2, train=200, test=60)",
        "models": f"{file}:build",
        "estimators": ["random", "grad"],
        "metrics": ["roar"],
        "output": "sigmoid",
    }
    run = uproar.run({**asked, "name": "one"}, store=tmp_path / "store", jobs=1)
    assert set(run.cells["status"]) == {"done"}
    (quality,) = run.quality.values()
    assert "sigmoid of one logit" in quality.sentence
    values = run.scores.query("metric == 'deletion(steps=4)'")["value"]
    assert values.notna().all() and values.nunique() == len(values)
    with pytest.raises(BadInput, match="has 10 classes of which one is right"):
        as_one_label(uproar.load("digits"))


def test_metrics_and_audits_say_which_kinds_they_serve(tmp_path):
    assert set(RETRAININGS["roar"].kinds) == set(KINDS)
    by_class = [p for p in RETRAININGS.values() if "class" in (p.train.of, p.test.of)]
    assert by_class and all(p.kinds == ("softmax",) for p in by_class)
    assert all(set(audits[name].facts["kinds"]) <= set(KINDS) for name in audits)
    asked = {
        **SMALL,
        "recipe": {"epochs": 2, "lr": 0.02},
        "tasks": "half-brightness",
        "estimators": ["random", "grad"],
        "metrics": [],
    }
    asked |= {"metrics": ["roar", by_class[0].name], "audits": ["leakage"], "fractions": [0.5]}
    run = uproar.run({**asked, "name": "refused"}, store=tmp_path / "store", jobs=1)
    cells = run.cells
    skipped = cells[(cells["metric"] == by_class[0].name) & (cells["fraction"] > 0)]
    assert (skipped["status"] == "skipped").all() and skipped["reason"].str.contains("serves softmax outputs").all()
    (finding,) = run.findings
    assert finding.state == "skipped" and "leakage serves softmax outputs, not regression" in finding.reason


@pytest.mark.parametrize(
    ("kind", "labels", "target", "followed"),
    [
        (OutputKind("regression"), [5, 7], "label", [0, 0]),  # labels of a regression are values, not components
        (OutputKind("sigmoid", single=True), [1, 0], "label", [1, 0]),
        (OutputKind("sigmoid"), [[1, 0], [1, 1]], "label", [0, 1]),  # the likeliest of those that are there
        (OutputKind("sigmoid"), [1, 1], "label", [1, 1]),
        (OutputKind("sigmoid"), [[1, 0], [1, 1]], "1", [1, 1]),
        (SOFTMAX, [1, 0], "label", [1, 0]),
    ],
)
def test_what_files_of_images_call_labels_is_read_by_the_kind_of_output(kind, labels, target, followed):
    one = kind.single or kind.kind == "regression"
    answers = torch.tensor([[0.3], [0.9]]) if one else torch.tensor([[0.1, 0.3], [0.2, 0.9]])
    assert _targets(answers, kind, torch.tensor(labels), target).tolist() == followed
