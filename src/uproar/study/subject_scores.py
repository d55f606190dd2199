"""Scores of the maps of a subject: images with their network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from uproar.estimators import Chain, explain_chains
from uproar.estimators.layer_candidates import chosen_layers
from uproar.models.output_kind import assuming_output
from uproar.results.scores import Scores
from uproar.scoring import score_all
from uproar.seeds import Draws
from uproar.study.maps import Subject


def subject_scores(
    subject: Subject, maps: dict[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str], **options: Any
) -> Scores:
    """The scores of the first images of a subject: of all that have maps."""
    n = min(len(a) for a in maps.values()) if maps else 0
    truth, samples = subject.context.truth, subject.context.samples
    boxes = None if samples is None else samples.boxes
    scores = score_all(
        subject.model,
        subject.x[:n],
        subject.target[:n],
        {name: a[:n] for name, a in maps.items()},
        metrics,
        mean=subject.context.mean,
        truth=None if truth is None else truth[:n],
        boxes=None if boxes is None else boxes[:n],
        explain={chain.name: _explainer(chain, subject) for chain in chains if not chain.files},
        roles={chain.name: chain.role for chain in chains},
        **options,
    )
    with assuming_output(subject.output):
        layers = chosen_layers(subject.model, subject.x, [chain for chain in chains if chain.name in maps])
    return replace(scores, layers={name: ", ".join(layer) for name, layer in layers.items()})


def _explainer(chain: Chain, subject: Subject) -> Any:
    """What explains other models or images as the chain explains those of the subject."""

    def again(model: torch.nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
        context = replace(subject.context, draws=draws, truth=None, samples=None)
        return explain_chains(model, x, target, context, [chain])[0]

    return again
