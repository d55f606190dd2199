"""Retrained networks that repeat the explained one's mistakes, that make their own, and what the store has of both."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import uproar
from tests.audits.handmade import Handed, Handmade
from uproar.audits.mistakes import mistakes
from uproar.audits.registry import read_audit, studies_of
from uproar.errors import NotApplicable
from uproar.storage.store import Store
from uproar.study.bench import Bench
from uproar.study.cell import Cell
from uproar.study.settings import Setting
from uproar.study.spec import study_of
from uproar.training import predict

CLASSES, IMAGES = 5, 400
DRAW = np.random.default_rng(0)
LABELS = DRAW.integers(CLASSES, size=IMAGES)


def mistaken(rate: float, seed: int) -> np.ndarray:
    """The labels with some of them replaced by another class."""
    draw = np.random.default_rng(seed)
    wrong = draw.random(IMAGES) < rate
    return np.where(wrong, (LABELS + draw.integers(1, CLASSES, IMAGES)) % CLASSES, LABELS)


class Said(Handmade):
    """A part whose networks say given classes: by (protocol, estimator, fraction, seed), the explained ones by seed."""

    def __init__(self, base: list[np.ndarray], said: dict) -> None:
        held = SimpleNamespace(test=SimpleNamespace(labels=torch.from_numpy(LABELS)))
        right: dict = {}
        for (protocol, name, t, _), classes in said.items():
            curve = right.setdefault((protocol, name), {}).setdefault(t, [])
            curve.append(float((classes == LABELS).mean()))
        super().__init__(accuracies=right, fractions=sorted({key[2] for key in said}), task=held)
        self.study.seeds = tuple(range(len(base)))
        self._base, self._said = base, said

    def answers(self, protocol, estimator, fraction, seed):
        return np.eye(CLASSES)[self._said[protocol, estimator, fraction, seed]]

    def base_answers(self, seed):
        return np.eye(CLASSES)[self._base[seed]]


def finding_of(base, networks, also=None, **options):
    """The finding, where every ranking's networks are given by a function of replicate and fraction."""
    said = {
        ("roar", name, t, seed): say(seed, t)
        for name, say in networks.items()
        for t in (0.3, 0.7)
        for seed in range(len(base))
    }
    part = Said(base, said)
    if also is not None:  # a fraction of the study that has no cells
        part.study.fractions = [also, *part.study.fractions]
    return mistakes(Handed(retrained=part), **options)


BASE = [mistaken(0.2, seed) for seed in (1, 2, 3)]


def own(seed, fraction):
    return mistaken(0.3, hash((seed, fraction)) % 1000 + 10)


def copied(seed, fraction):
    """The explained network's answers, but for every tenth image."""
    return np.where(np.arange(IMAGES) % 10 == 0, LABELS, BASE[seed])


def test_maps_of_a_file_are_tested_and_no_yardstick(tmp_path):
    """They may come from the explained network: what they repeat is no share that rankings without it repeat too."""
    file = tmp_path / "maps.npz"
    np.savez(file, test=np.zeros((IMAGES, 4, 4), dtype=np.float32))
    result = finding_of(BASE, {"random": own, "grad": own, f"maps:{file}": copied})
    assert result.state == "misleads"
    assert "maps.npz" in result.sentence


def test_copied_answers_are_found_and_own_mistakes_are_not():
    result = finding_of(BASE, {"random": own, "ig": own, "grad": copied})
    assert result.state == "misleads", result.sentence
    assert [(m.protocol, m.estimator, m.text) for m in result.marks] == [("roar", "grad", "repeats mistakes")]
    rows = result.tables["mean over fractions"].set_index("estimator")
    counts = [[((b != LABELS) & (copied(k, 0) == b)).sum(), (b != LABELS).sum()] for k, b in enumerate(BASE)]
    again, all_of = np.sum(counts, axis=0)
    assert rows.loc["grad", "repeated"] == pytest.approx(again / all_of)
    assert rows.loc["grad", "put right"] == pytest.approx(1 - again / all_of)
    assert rows.loc["grad", "low"] < again / all_of < rows.loc["grad", "high"] <= 1
    # by chance a network that is wrong on 30 % gives the same wrong class on 30 % / 4
    assert rows.loc["ig", "repeated"] == pytest.approx(0.3 / 4, abs=0.05)
    assert rows.loc["ig", "beyond, high"] < 0.05 < rows.loc["grad", "beyond, low"]
    assert set(rows.index) == {"ig", "grad"}, "what asks no network was judged"
    assert all(plot.title and plot.reading and len(plot.data) for plot in result.plots)
    title = next(name for name in result.tables if name.startswith("over rankings"))
    assert result.tables[title].empty, "two rankings that ask the network are not enough"


def test_over_rankings_accuracy_goes_with_what_is_handed_on():
    """Four rankings that copy more and more: the more they copy, the more accurate."""

    def copies(share):
        def say(seed, fraction):
            draw = np.random.default_rng(hash((seed, fraction, share)) % 1000)
            return np.where(draw.random(IMAGES) < share, BASE[seed], own(seed, fraction))

        return say

    names = {"grad": 0.2, "ig": 0.4, "sg(grad)": 0.6, "grad_input": 0.8}
    result = finding_of(BASE, {"random": own, "sobel": own, **{n: copies(s) for n, s in names.items()}})
    title = next(name for name in result.tables if name.startswith("over rankings"))
    table = result.tables[title]
    assert table["rankings"].tolist() == [4, 4], "random and sobel know no network"
    assert (table["correlation"] > 0.9).all()


def test_where_nothing_is_handed_on_it_holds_and_a_few_images_cannot_tell():
    assert finding_of(BASE, {"random": own, "grad": own}).state == "holds"
    few = [np.where(np.arange(IMAGES) < 110, b, LABELS) for b in BASE]
    assert finding_of(few, {"random": own, "grad": own}, margin=0.01).state == "cannot tell"


def test_images_that_every_network_gets_wrong_are_no_sign():
    """The other replicates' networks, and a random ranking's, repeat them too: the larger share is the yardstick."""
    hard = np.arange(IMAGES) % 4 == 0
    always = [np.where(hard, (LABELS + 1) % CLASSES, b) for b in BASE]

    def misled(seed, fraction):
        return np.where(hard, (LABELS + 1) % CLASSES, own(seed, fraction))

    result = finding_of(always, {"random": own, "grad": misled})
    assert result.state != "misleads", result.sentence
    assert result.tables["mean over fractions"]["which"].tolist() == ["another replicate"]
    one = finding_of(always[:1], {"random": misled, "grad": misled})
    assert one.tables["mean over fractions"]["which"].tolist() in (["random at 30%"], ["random at 70%"])
    assert one.state != "misleads", one.sentence
    blind = finding_of(always[:1], {"random": own, "sobel": misled, "grad": misled})
    assert blind.tables["mean over fractions"]["which"].iloc[0].startswith("sobel at")
    assert blind.state != "misleads", "a ranking that asks no network repeats as much"
    same = finding_of([always[0]] * 3, {"random": misled, "grad": misled})
    assert "random at" in same.tables["mean over fractions"]["which"].iloc[0], (
        "networks from one file of weights were compared with each other"
    )


def test_without_mistakes_or_retrainings_there_is_nothing_to_ask():
    one = np.where(np.arange(IMAGES) < 1, (LABELS + 1) % CLASSES, LABELS)
    for few in (LABELS, one):
        with pytest.raises(NotApplicable, match=r"makes [01] mistakes .*fewer than 20"):
            finding_of([few], {"random": own, "grad": lambda *_: few})  # noqa: B023
    with pytest.raises(NotApplicable, match="no attribution method has all its retrainings"):
        finding_of(BASE, {"random": own, "sobel": own})


def test_a_fraction_that_removes_nothing_is_left_out_and_masks_need_pixels_beside_them():
    whole = finding_of(BASE, {"random": own, "grad": copied}, also=0.0)
    assert whole.state == "misleads"
    study = study_of({**STUDY, "protocols": ["roar:mask"]})
    assert studies_of(read_audit("mistakes"), study)["retrained"].protocols == ("roar", "roar:mask")


STUDY = {
    "name": "mistaken",
    "task": "planted(size=8, classes=3, train=120, test=200, noise=0.5)",
    "fractions": [0.3],
    "protocols": ["roar"],
    "estimators": ["grad"],
    "seeds": 2,
    "recipe": {"epochs": 3, "batch": 32},
    "audits": ["mistakes"],
}


def test_what_the_store_has_is_what_networks_said(tmp_path):
    """A study without a random ranking gets one; the numbers are those of the networks, asked again."""
    run = uproar.run(STUDY, store=tmp_path, jobs=1)
    rows = run.findings[0].tables["mistakes of the explained network, shares that come again"]
    rows = rows.set_index("estimator")
    assert set(rows.index) == {"random", "grad"}
    setting = Setting.all_of(study_of(STUDY))[0]
    bench = Bench(setting, Store(tmp_path))
    task = bench.task
    again = all_of = 0
    for seed in (0, 1):
        base = predict(bench.base_models.get(seed)[0], task.test.images).argmax(1)
        cell = Cell(setting.task, setting.model, "grad", "roar", 0.3, seed)
        said = bench.store.read("cell", bench.keys.cell(cell)).arrays["test_scores"].argmax(1)
        for label, first, second in zip(task.test.labels, base, said, strict=True):
            all_of += int(first != label)
            again += int(first != label and first == second)
    assert all_of > 10 and rows.loc["grad", "repeated"] == pytest.approx(again / all_of)
    assert rows.loc["grad", "mistakes"] == pytest.approx(all_of / 2)
