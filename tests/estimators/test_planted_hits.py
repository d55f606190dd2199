"""Where the pixels that count are known: how often each estimator finds them (`pytest -s` shows the table)."""

from __future__ import annotations

import gc

import pytest
import torch
from scipy.stats import binom, rankdata

from tests.estimators.test_contract import CHEAP
from uproar import Recipe, build, explain, fit, load, predict
from uproar.estimators import estimators

IMAGES = 40
KNOWING_NOTHING = {"block_random", "constant", "random", "random_blurred"}
SHARP = {  # nearly always on the glyph
    "grad",
    "grad_input",
    "guided_backprop",
    "ig",
    "deep_lift",
    "deep_shap",
    "grad_shap",
    "lrp",
    "occlusion",
    "blur_ig",
    "fullgrad",
    "guided_grad_cam",
    "guided_ig",
}
COARSE = {  # blurred by their pieces, masks or layers, but around the glyph
    "ada_sise",
    "extremal_perturbation",
    "grad_cam",
    "grad_cam_pp",
    "iba",
    "input_iba",
    "kernel_shap",
    "lime",
    "rise",
    "sise",
    "ablation_cam",
    "eigen_cam",
    "hires_cam",
    "layer_cam",
    "score_cam",
    "xgrad_cam",
}
MORE = {  # enough for the glyph to be found, less than the defaults
    "extremal_perturbation": "extremal_perturbation(iterations=30, areas=[0.05, 0.2])",
    "input_iba": "input_iba(epochs=1, steps=20)",
    "kernel_shap": "kernel_shap(samples=200)",
    "lime": "lime(samples=200)",
    "rise": "rise(masks=400)",
    "iba": "iba",
    "tame": "tame",
}
ATTENTION = {"attention_rollout", "grad_attention", "legrad"}
"""Those of transformers: tests/estimators/test_attention.py has known answers for them."""
NAMES = {
    entry.name: MORE.get(entry.name, CHEAP.get(entry.name, entry.name))
    for entry in estimators.values()
    if entry.facts["role"] == "estimator"
    and entry.function.__module__.startswith("uproar.")
    and entry.name not in ATTENTION
}


@pytest.fixture(scope="module")
def task():
    return load(f"planted(train=2048, test={IMAGES})")


@pytest.fixture(scope="module")
def model(task):
    return fit(build("cnn-small", task), task.train.images, task.train.labels, Recipe(), 0)


@pytest.fixture(scope="module")
def scores(task, model):
    """Share of hits and mean area under the ROC curve, by name."""
    test = task.test
    around = {"target": test.labels, "train": task.train.images, "truth": test.masks}
    table = {}
    print(f"\n{'':56} hits  area")
    for name, expression in NAMES.items():
        maps = explain(model, test.images, expression, **around).double().numpy()
        table[name] = hits(maps, test.masks.numpy()), area(maps, test.masks.numpy())
        print(f"{expression:56} {table[name][0]:.2f}  {table[name][1]:.2f}")
    return table


def hits(maps, masks):
    """Share of images whose largest value is on the mask; where several are largest, the share of these."""
    shares = [mask[a == a.max()].mean() for a, mask in zip(maps, masks, strict=True)]
    return sum(shares) / len(shares)


def area(maps, masks):
    """Mean chance that a pixel on the mask has a larger value than one beside it; ties count half."""
    total = 0.0
    for a, mask in zip(maps.reshape(len(maps), -1), masks.reshape(len(masks), -1), strict=True):
        yes = mask.sum()
        total += (rankdata(a)[mask].sum() - yes * (yes + 1) / 2) / (yes * (len(a) - yes))
    return total / len(maps)


def test_the_network_has_learned_the_task(task, model):
    right = (predict(model, task.test.images).argmax(1) == task.test.labels).double().mean()
    assert right > 0.95


def test_the_oracle_is_always_right(scores):
    assert scores["oracle"] == (1.0, 1.0)


def test_a_constant_is_as_good_as_chance_exactly(scores):
    hit, area = scores["constant"]
    assert hit == pytest.approx(9 / 256)
    assert area == pytest.approx(0.5)


@pytest.mark.parametrize("name", sorted(KNOWING_NOTHING - {"constant"}))
def test_what_knows_nothing_hits_as_often_as_chance(scores, name):
    low, high = binom.interval(0.9999, IMAGES, 9 / 256)
    assert low <= round(scores[name][0] * IMAGES) <= high


def test_the_area_of_random_maps_is_a_half(scores):
    # variance of a rank statistic with 9 of 256 pixels, over the images
    error = ((256 + 1) / (12 * 9 * 247) / IMAGES) ** 0.5
    assert abs(scores["random"][1] - 0.5) < 4 * error


@pytest.mark.parametrize("name", sorted(SHARP))
def test_sharp_estimators_hit_in_most_images(scores, name):
    hit, area = scores[name]
    assert hit > 0.6
    assert area > 0.75


@pytest.mark.parametrize("name", sorted(COARSE))
def test_coarse_estimators_hit_far_above_chance_and_rank_the_glyph_high(scores, name):
    hit, area = scores[name]
    assert hit > binom.ppf(0.999, IMAGES, 9 / 256) / IMAGES
    assert area > 0.75


def test_every_estimator_is_accounted_for(scores):
    """Those left: the image and a filter of it, places, what ignores the ReLUs, what must be trained longer, what is made
    worse on purpose, and regions that are larger than the glyph."""
    rest = set(scores) - SHARP - COARSE - KNOWING_NOTHING - {"oracle"}
    assert rest == {"brightness", "centre", "deconv", "degraded", "label_cue", "sobel", "tame", "xrai"}


@pytest.fixture(scope="module")
def frozen():
    """All that lives already is no longer looked at: the collector has half a million objects to go through else."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", sorted(CHEAP.get(name, name) for name in NAMES))
def test_nothing_stays_in_memory_once_the_maps_are_gone(name, model, task, frozen):
    """Ways back of changed operations may know each other in circles, which the collector cannot always see."""
    around = {"target": 0, "train": task.train.images[:64], "truth": task.test.masks[:4]}

    def living():
        gc.collect()
        # by type: asking objects for their class wakes up deprecated ones
        return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

    explain(model, task.test.images[:4], name, **around)
    before = living()
    explain(model, task.test.images[:4], name, **around)
    assert living() <= before
