"""Which attribution method can you trust on your model and data, and can the benchmark itself be trusted?

>>> import torch, uproar
>>> task = uproar.load("digits")
>>> model = uproar.build("cnn-small", task)
>>> x = task.test.read(slice(0, 4))
>>> maps = uproar.explain(model, x, "sg_sq(grad)")
>>> gone = uproar.removed(maps, 0.3)
>>> changed = uproar.fill(x, gone, "mean", value=task.mean)
>>> maps.shape, gone.sum((1, 2)).tolist()
(torch.Size([4, 8, 8]), [19, 19, 19, 19])

A whole study, resumable: `uproar.run("study.toml").verdicts`.
"""

from importlib.metadata import version

from torch import nn as _nn

from uproar import models as _models
from uproar.api import Run, explain, fill, removed, run
from uproar.data import Split, Task, load
from uproar.errors import BadInput, NotApplicable, UproarError
from uproar.estimators import direct, estimator
from uproar.study.spec import Study, study_of
from uproar.training import Recipe, fit, predict

__version__ = version("uproar")


def build(name: str, task: Task, seed: int = 0) -> _nn.Module:
    """A fresh network for a task, by name or `file.py:factory`."""
    return _models.build(_models.ModelSpec.of(name), task, seed)


__all__ = [
    "BadInput",
    "NotApplicable",
    "Recipe",
    "Run",
    "Split",
    "Study",
    "Task",
    "UproarError",
    "build",
    "direct",
    "estimator",
    "explain",
    "fill",
    "fit",
    "load",
    "predict",
    "removed",
    "run",
    "study_of",
]
