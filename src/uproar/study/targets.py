"""What is explained in the images of a study, and what metrics follow: a class, a label, or a component."""

from __future__ import annotations

import torch
from torch import Tensor

from uproar.data import Task
from uproar.models.output_kind import SOFTMAX, OutputKind, assumed_output, predicted_target
from uproar.types import Labels

Target = str | int
"""`predicted`, `label`, or the number of a class, label or component."""


def output_of_task(task: Task) -> OutputKind:
    """What the networks of a task answer with: logits or values."""
    if task.kind == "softmax":
        return SOFTMAX
    return OutputKind(task.kind, single=task.kind == "sigmoid" and len(task.classes) == 1)


def explained_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What is explained in images with these outputs (n, k) and labels."""
    if target == "predicted":
        return predicted_target(outputs)
    return followed_targets(target, outputs, labels)


def followed_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What a metric follows: the class; of several labels the likeliest of those that the image has, or of all.

    Labels (n,) beside outputs of several labels say themselves which one is followed. Of a regression it is the
    component, of which there is one unless `target` says which.
    """
    if isinstance(target, int):
        return torch.full((len(outputs),), target, device=outputs.device)
    assumed = assumed_output()
    if assumed.kind == "softmax":
        return labels.to(outputs.device)
    if assumed.kind == "regression":
        return predicted_target(outputs)
    if assumed.single or labels.dim() == 1:
        return labels.reshape(len(labels), -1)[:, 0].long().to(outputs.device)
    there = labels.to(outputs.device).bool()
    there = there | ~there.any(1, keepdim=True)
    return outputs.masked_fill(~there, -torch.inf).argmax(1)
