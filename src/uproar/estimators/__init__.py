"""Estimators by name, and chains of them: `(model, x, target) -> map`."""

from uproar.estimators import (
    bottleneck,
    cam,
    classes,
    control,
    cue,
    decomposition,
    extremal,
    gradient,
    input_bottleneck,
    lrp,
    occlusion,
    postprocess,
    rise,
    sise,
    smooth,
    surrogate,
    tame,
)
from uproar.estimators import ground_truth as truth
from uproar.estimators import perturbed_maps as altered
from uproar.estimators.base import Context, direct, estimator, estimators
from uproar.estimators.captum import captum_entry
from uproar.estimators.chain import Chain, families, read_chain, with_maps
from uproar.estimators.evaluate import explain_chains, prepare_states, raw_maps
from uproar.estimators.map_files import StoredMaps, maps_entry
from uproar.estimators.plugin import adopt

__all__ = [
    "Chain",
    "Context",
    "StoredMaps",
    "adopt",
    "altered",
    "bottleneck",
    "cam",
    "classes",
    "control",
    "cue",
    "decomposition",
    "direct",
    "estimator",
    "estimators",
    "explain_chains",
    "extremal",
    "families",
    "gradient",
    "input_bottleneck",
    "lrp",
    "occlusion",
    "postprocess",
    "prepare_states",
    "raw_maps",
    "read_chain",
    "rise",
    "sise",
    "smooth",
    "surrogate",
    "tame",
    "truth",
    "with_maps",
]

estimators.makers["captum:"] = captum_entry
estimators.makers["maps:"] = maps_entry
