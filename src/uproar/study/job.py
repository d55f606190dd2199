"""A piece of a study that is done at once, by one process."""

from __future__ import annotations

from dataclasses import dataclass

from uproar.study.cell import TrialBatch, Unit
from uproar.study.levels import Shard
from uproar.study.settings import Setting
from uproar.training import FineTuning

_EVALUATOR = "evaluator "


@dataclass(frozen=True)
class Job:
    """A piece of work for one process: a training, a fine-tuning, maps of a family, some evaluations or trials."""

    id: str
    kind: str
    setting: Setting
    seed: int
    names: tuple[str, ...] = ()
    """The chains to explain."""
    fractions: tuple[float, ...] = ()
    cells: tuple[Unit, ...] = ()
    needs: tuple[str, ...] = ()
    """Jobs that must have ended before."""
    fold: int | None = None
    """Train: the part of the data that is left out."""
    crossed: bool = False
    """Explain: each image by a base model that has not seen it."""
    shard: Shard | None = None
    """Explain: the images, if not all."""
    test_only: bool = False
    """Explain: test images alone, of which nobody is trained."""
    tuning: FineTuning | None = None
    """Fine-tune: how."""
    seeds: tuple[int, ...] = ()
    """Evaluator: the replicates whose evaluators are trained at once, `seed` the first of them."""
    plugin: str = ""
    """The plug-ins whose functions it calls: it runs in a process that does no other jobs."""
    cost: float = 1.0
    """Expected work, in images passed forward and backward."""

    @property
    def like(self) -> tuple[str, ...]:
        """What decides how long a unit of its work takes."""
        return (self.setting.model, self.setting.task, self.kind)

    def __str__(self) -> str:
        if self.kind == "train":
            return f"train {self.setting.model} seed {self.seed}"
        if self.kind == "evaluator":
            whose = f"seed {self.seed}" if len(self.seeds) == 1 else f"seeds {', '.join(map(str, self.seeds))}"
            return f"train the evaluator of {self.setting.model} {whose}"
        if self.kind == "fine-tune":
            return f"fine-tune {self.setting.model} seed {self.seed}"
        if self.kind == "explain":
            crossed = " cross-fitted" * self.crossed
            part = "" if self.shard is None else f", {self.shard}"
            part = " (test images)" if self.test_only and not part else part
            return f"explain {', '.join(self.names)}{crossed} seed {self.seed}{part}"
        first = self.cells[0]
        if self.kind == "retrain" or isinstance(first, TrialBatch):
            more = f" and {len(self.cells) - 1} more" if len(self.cells) > 1 else ""
            return f"{first}{more}"
        names = dict.fromkeys(cell.estimator for cell in self.cells)  # type: ignore[union-attr]
        return f"{'score' if self.kind == 'judge' else self.kind} {', '.join(names)} seed {self.seed}"


def evaluator_of(seed: int) -> str:
    """What a report calls the evaluator of a replicate."""
    return f"{_EVALUATOR}{seed}"


def is_evaluator(unit: str | Unit) -> bool:
    """Whether something that a report speaks of is an evaluator.

    >>> is_evaluator(evaluator_of(3)), is_evaluator("base")
    (True, False)
    """
    return isinstance(unit, str) and unit.startswith(_EVALUATOR)


def place(setting: Setting, seed: int) -> str:
    """Where a job belongs, as its name begins."""
    return f"{setting.task}/{setting.model}/{seed}"
