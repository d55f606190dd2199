"""Where the important pixels are known, good estimators find them; the table is printed with `pytest -s`."""

import pytest
import torch

import uproar

NAMES = [
    "oracle",
    "random",
    "sobel",
    "grad",
    "sq(grad)",
    "sg_sq(grad)",
    "ig",
    "lrp",
    "deep_lift",
    "occlusion",
    "gaussian(sq(grad))",
]


@pytest.fixture(scope="module")
def hits():
    task = uproar.load("planted(size=12, train=1024, test=128)")
    model = uproar.build("cnn-small", task)
    uproar.fit(model, task.train.images, task.train.labels, uproar.Recipe(), 0)
    x, truth = task.test.images, task.test.masks
    maps = uproar.explain(model, x, NAMES, target=task.test.labels, mean=task.mean, truth=truth)
    found = {}
    for name, a in maps.items():
        top = a.flatten(1).argmax(1, keepdim=True)
        found[name] = float(truth.flatten(1).gather(1, top).double().mean())
        print(f"{name:20} {found[name]:.2f}")
    return found


def test_the_oracle_always_hits_and_random_hits_at_its_share_of_the_image(hits):
    assert hits["oracle"] == 1
    chance = 9 / 144
    assert abs(hits["random"] - chance) < 4 * (chance * (1 - chance) / 128) ** 0.5


@pytest.mark.parametrize(
    "name", ["grad", "sq(grad)", "sg_sq(grad)", "ig", "lrp", "deep_lift", "occlusion"]
)
def test_estimators_that_look_at_the_network_hit_far_above_chance(hits, name):
    assert hits[name] > 0.25


def test_hits_are_not_all_the_same(hits):
    assert len(set(hits.values())) > 5
    assert torch.tensor(list(hits.values())).std() > 0.1
