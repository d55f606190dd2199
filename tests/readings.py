"""What tests read of a store beside tables: results by name, networks, rankings."""

from __future__ import annotations

import torch
from torch import nn

from uproar.estimators import read_chain
from uproar.store import Store
from uproar.study.collect import Reading
from uproar.study.graph import FORGET, obtain
from uproar.study.grid import settings_of
from uproar.study.ranking import StoredRanking
from uproar.study.spec import study_of
from uproar.study.steps import network_of


def reading_of(study, store) -> Reading:
    """What a store has of a study of one task and model."""
    study = study_of(study)
    (setting,) = settings_of(study)
    return Reading(study, setting, Store(store))


def base_network(reading: Reading, seed: int = 0) -> nn.Module:
    """The network that is explained in a replicate."""
    setting = reading.setting
    return network_of(obtain(setting.base_model(seed), reading.store), setting.network, setting.data)


def ranked(reading: Reading, name: str, seed: int = 0, split: str = "test") -> StoredRanking:
    """The order of the pixels of a split's images under an estimator."""
    ranking = reading.ranking(read_chain(name), seed, split)
    assert isinstance(ranking, StoredRanking), name
    return ranking


def removed(reading: Reading, name: str, fraction: float, seed: int = 0, split: str = "test") -> torch.Tensor:
    """What is removed of all images of a split, as bool images."""
    return ranked(reading, name, seed, split).important(fraction)


def forget() -> None:
    """Drop what this process holds of data and networks, as a new one would begin."""
    for drop in FORGET:
        drop()
