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

A whole study, resumable: `uproar.run("study.toml").verdicts`; one that ran before: `uproar.open("runs/x").verdicts`.
"""

from typing import TYPE_CHECKING as _CHECKING
from typing import Any as _Any

from uproar.lazy import lazy_names as _lazy_names

if _CHECKING:
    from uproar.api import build, explain, fill, layers, removed
    from uproar.data.registry import load
    from uproar.data.task import Split, Task
    from uproar.errors import BadInput, NotApplicable, UproarError
    from uproar.estimators.registry import direct, estimator
    from uproar.extend import task
    from uproar.metrics.registry import metric
    from uproar.models.normalise import preprocessed
    from uproar.report.mapsheet import show
    from uproar.scoring import Curve, curve, score
    from uproar.study.check import check
    from uproar.study.choose import choose, compare
    from uproar.study.collected import Run
    from uproar.study.sessions import (
        audit,
        open,  # noqa: A004
        run,
    )
    from uproar.study.spec import Study, study_of
    from uproar.training import Recipe, fit, predict

    __version__: str

_load = _lazy_names(
    __name__,
    {
        "BadInput": "uproar.errors",
        "Curve": "uproar.scoring",
        "NotApplicable": "uproar.errors",
        "Recipe": "uproar.training",
        "Run": "uproar.study.collected",
        "Split": "uproar.data.task",
        "Study": "uproar.study.spec",
        "Task": "uproar.data.task",
        "UproarError": "uproar.errors",
        "audit": "uproar.study.sessions",
        "build": "uproar.api",
        "check": "uproar.study.check",
        "choose": "uproar.study.choose",
        "compare": "uproar.study.choose",
        "curve": "uproar.scoring",
        "direct": "uproar.estimators",
        "estimator": "uproar.estimators",
        "explain": "uproar.api",
        "fill": "uproar.api",
        "fit": "uproar.training",
        "layers": "uproar.api",
        "load": "uproar.data.registry",
        "metric": "uproar.metrics",
        "open": "uproar.study.sessions",
        "predict": "uproar.training",
        "preprocessed": "uproar.models.normalise",
        "removed": "uproar.api",
        "run": "uproar.study.sessions",
        "score": "uproar.scoring",
        "show": "uproar.report.mapsheet",
        "study_of": "uproar.study.spec",
        "task": "uproar.extend",
    },
)


def __getattr__(name: str) -> _Any:
    """Everything is imported when it is first used: torch takes seconds, and much needs none of it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("uproar")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
    "check",
    "choose",
    "compare",
    "curve",
    "direct",
    "estimator",
    "explain",
    "fill",
    "fit",
    "layers",
    "load",
    "metric",
    "open",
    "predict",
    "preprocessed",
    "removed",
    "run",
    "score",
    "show",
    "study_of",
    "task",
]
