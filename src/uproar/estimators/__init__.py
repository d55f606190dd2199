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
    ground_truth,
    input_bottleneck,
    lrp,
    occlusion,
    perturbed_maps,
    postprocess,
    rise,
    sise,
    smooth,
    surrogate,
    tame,
)
from uproar.estimators.base import Context, direct, estimator, estimators
from uproar.estimators.captum import captum_entry
from uproar.estimators.chain import Chain, families, read_chain, require_maps
from uproar.estimators.evaluate import explain_chains, prepare_states, raw_maps
from uproar.estimators.map_files import StoredMaps, maps_entry
from uproar.estimators.plugin import adopt

__all__ = [
    "Chain",
    "Context",
    "StoredMaps",
    "adopt",
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
    "ground_truth",
    "input_bottleneck",
    "lrp",
    "occlusion",
    "perturbed_maps",
    "postprocess",
    "prepare_states",
    "raw_maps",
    "read_chain",
    "require_maps",
    "rise",
    "sise",
    "smooth",
    "surrogate",
    "tame",
]

estimators.makers["captum:"] = captum_entry
estimators.makers["maps:"] = maps_entry
