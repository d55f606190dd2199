"""Estimators by name, and chains of them: `(model, x, target) -> map`."""

from uproar.estimators.adapters import StoredMaps, captum_entry, maps_entry
from uproar.estimators.chain import Chain, families, read_chain, require_maps
from uproar.estimators.explain import explain_chains, prepare_states, raw_maps
from uproar.estimators.registry import Context, direct, estimator, estimators, register_function

__all__ = [
    "Chain",
    "Context",
    "StoredMaps",
    "direct",
    "estimator",
    "estimators",
    "explain_chains",
    "families",
    "prepare_states",
    "raw_maps",
    "read_chain",
    "register_function",
    "require_maps",
]

estimators.makers["captum:"] = captum_entry
estimators.makers["maps:"] = maps_entry
