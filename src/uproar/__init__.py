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

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING as _CHECKING
from typing import Any as _Any

from torch import nn as _nn

from uproar import models as _models
from uproar.api import explain, fill, removed
from uproar.data import Split, Task, load
from uproar.errors import BadInput, NotApplicable, UproarError
from uproar.estimators import direct, estimator
from uproar.metrics import metric
from uproar.running import audit, run
from uproar.study.spec import Study, study_of
from uproar.training import Recipe, fit, predict

if _CHECKING:
    from uproar.runs import Run
    from uproar.scoring import Curve, curve, score

_LATE = {
    "Run": "uproar.runs",
    "Curve": "uproar.scoring",
    "curve": "uproar.scoring",
    "score": "uproar.scoring",
}
__version__ = _version("uproar")


def __getattr__(name: str) -> _Any:
    """Names that need tables or plots, loaded when first asked for: that takes longer than all the rest."""
    if name in _LATE:
        return getattr(_import_module(_LATE[name]), name)
    raise AttributeError(f"module 'uproar' has no attribute {name!r}")


def build(name: str, task: Task, seed: int = 0) -> _nn.Module:
    """A fresh network for a task, by name or `file.py:factory`."""
    return _models.build(_models.ModelSpec.of(name), task, seed)


__all__ = [
    "BadInput",
    "Curve",
    "NotApplicable",
    "Recipe",
    "Run",
    "Split",
    "Study",
    "Task",
    "UproarError",
    "audit",
    "build",
    "curve",
    "direct",
    "estimator",
    "explain",
    "fill",
    "fit",
    "load",
    "metric",
    "predict",
    "removed",
    "run",
    "score",
    "study_of",
]
