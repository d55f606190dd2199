"""Options of every estimator: maps under them do not depend on the batch, and impossible ones are refused at once."""

from __future__ import annotations

import pytest
import torch

from tests.estimators.perturbing import same_for_any_batch, small
from uproar.errors import BadOption
from uproar.estimators import read_chain
from uproar.models.small import cnn_small, resnet_small

INPUT_IBA = "input_iba(steps=3, feature_steps=2, epochs=1, pool=12, batch=4, critic_steps=2, samples=3"
COMPOSITES = ("epsilon-plus", "epsilon", "z-plus", "coherency")
DECOMPOSED = (
    *(f"lrp(composite={composite})" for composite in COMPOSITES),
    *("deep_lift", "deep_shap(samples=3)", "grad_shap(samples=3)", "deconv"),
)
MASKED = (
    *("rise(masks=37)", "rise(masks=300, boundary=mirror, fill=image-mean)"),
    *("occlusion", "occlusion(overlap=last, score=logit, window=4)"),
    *("lime(samples=70)", "lime(samples=33)"),
    *("kernel_shap(samples=90)", "kernel_shap(patches=2, score=probability)"),
    *("sise", "sise(fusion=soft)", "ada_sise", "extremal_perturbation(iterations=6)"),
    "extremal_perturbation(iterations=6, areas=[0.3], perturbation=fade, ties=torch, flip=true)",
    *("oracle", "random_blurred", "random_blurred(sigma=0.7)"),
)
CAMS = ("grad_cam", "grad_cam_pp", "grad_cam(variant=per-channel)")
TRAINED = ("iba(steps=4)", f"{INPUT_IBA}, guide=capacity)", "tame(epochs=1, images=64)")


@pytest.mark.parametrize("name", [*MASKED, *TRAINED, f"{INPUT_IBA}, guide=share)"])
def test_a_map_of_a_chain_of_layers_does_not_depend_on_the_batch(name):
    torch.manual_seed(0)
    shape = (3, 13, 11)  # odd: vector kernels treat the last numbers of a batch differently
    assert same_for_any_batch(name, small(cnn_small, shape, width=8), shape)


@pytest.mark.parametrize("name", [*DECOMPOSED, *CAMS])
def test_a_map_of_a_residual_network_does_not_depend_on_the_batch(name):
    torch.manual_seed(1)
    shape = (3, 13, 11)
    assert same_for_any_batch(name, small(resnet_small, shape, width=4), shape)


@pytest.mark.parametrize("name", DECOMPOSED)
def test_images_of_one_pixel_can_be_decomposed(name):
    torch.manual_seed(1)
    assert same_for_any_batch(name, small(resnet_small, (3, 1, 1), width=4), (3, 1, 1))


REFUSED = {
    "iba": ("beta=0", "steps=0", "samples=0", "sigma=-1", "images=1", "gamma=1"),
    "input_iba": ("beta=0", "epochs=-1", "pool=1", "clip=0", "guide=both", "gan=1"),
    "tame": ("epochs=0", "lr=0", "batch=1", "momentum=1", "area=-1", "layer=x"),
    "extremal_perturbation": ("areas=[]", "areas=[1.0]", "areas=[0]", "iterations=0", "sigma=0", "step=0"),
    "occlusion": ("window=0", "fill=pink", "overlap=first", "score=loss"),
    "rise": ("masks=0", "p=0", "p=1", "grid=0", "boundary=wrap"),
    "lime": ("patches=1", "samples=0", "fill=grey"),
    "kernel_shap": ("patches=1", "samples=0", "fill=grey"),
    "sise": ("fusion=mean",),
    "grad_cam": ("variant=max",),
    "deep_shap": ("samples=0",),
    "grad_shap": ("sigma=-1",),
    "deep_lift": ("baseline=noise",),
    "lrp": ("composite=gamma",),
}


@pytest.mark.parametrize("text", [f"{name}({option})" for name, options in REFUSED.items() for option in options])
def test_impossible_options_are_refused_when_planned(text):
    with pytest.raises(BadOption, match=text.partition("(")[2].partition("=")[0]):
        read_chain(text)
