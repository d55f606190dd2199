"""What every estimator must satisfy, checked for one of them on a small trained network: `uproar check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from uproar.data import Task, load
from uproar.errors import CODE_ERRORS, NotApplicable, SideEffect, one_line
from uproar.estimators.chain import Chain, read_chain, require_maps
from uproar.estimators.explain import explain_chains, prepare_states, raw_maps
from uproar.estimators.registry import Context, estimators
from uproar.guard import ModelState, is_builtin, seeded_with
from uproar.models import ModelSpec, borrowed, build
from uproar.plugins import describe_error
from uproar.seeds import Draws
from uproar.training import Recipe, fit
from uproar.types import Images, Labels

UNCHANGED = "leaves the model as it was"
NOT_TESTED = "not tested: "

IMAGES = 9
"""Images explained: an odd number, so that batches do not divide it."""
FEW_IMAGES = 4
"""Images explained at the start of a study."""
ROUNDING = 1e-3
"""The largest difference between two maps of an image that counts as rounding, as a share of the map's size."""


@dataclass(frozen=True)
class Check:
    """One clause of the contract: whether it holds, and what was seen if it does not."""

    clause: str
    holds: bool
    message: str = ""
    tested: bool = True
    """False where it cannot be tested, or does not apply: the message says why, and nothing is broken."""


class Trial:
    """An expression on trial: its maps on planted images under varying circumstances."""

    def __init__(self, expression: str, model: str = "cnn-small") -> None:
        (self.chain,) = require_maps([read_chain(expression)])
        self.task: Task = load("planted(size=12, channels=3, train=128, test=32)")
        self.spec = ModelSpec.of(model)
        self.model = self._trained(0)
        self.before = ModelState(self.model)
        self.seconds = 0.0

    def _trained(self, seed: int) -> nn.Module:
        net = build(self.spec, self.task, seed)
        images = self.task.train.read(slice(None))
        return fit(net, images, self.task.train.labels, Recipe(epochs=2), seed)

    def maps(
        self,
        rows: list[int] | None = None,
        model: nn.Module | None = None,
        batch: int = IMAGES,
        target: int | None = None,
        seed: int = 0,
    ) -> Tensor:
        """The signed maps of some images; `seed` is where the global random generators start."""
        model = self.model if model is None else model
        index = list(range(IMAGES)) if rows is None else rows
        test = self.task.test
        classes = test.labels[index] if target is None else torch.full((len(index),), target)
        context = Context(Draws.of(0, index), self.task.mean, self.task.train, test.truth(index))
        with seeded_with(seed):
            with borrowed(model), torch.no_grad():
                context = replace(context, states=prepare_states(model, context, [self.chain]))
            began = time.perf_counter()
            maps = raw_maps(model, test.read(index), classes, context, [self.chain.raw], batch)
            self.seconds = time.perf_counter() - began
        return maps[self.chain.raw]


def try_contract(
    expression: str, model: str = "cnn-small", listen: Callable[[int, int], None] = lambda *_: None
) -> tuple[list[Check], float]:
    """The clauses of the contract with their outcomes, and seconds per image.

    After a clause about the map itself fails, or the model was changed, the others cannot be checked and are left out.
    `listen(done, clauses)` hears of every clause.
    """
    trial = Trial(expression, model)
    maps, order = trial.maps, [7, 2, 5, 0]
    clauses: dict[str, Callable[[], str]] = {
        "runs and gives a map of the image's size": lambda: "" if len(maps()) else "no map",
        "is finite everywhere": lambda: _not_finite(maps()),
        "is the same for a seed": lambda: _difference(maps(), maps(seed=1)),
        "does not depend on the batch size": lambda: _difference(maps(), maps(batch=2)),
        "is the same for one image alone": lambda: _difference(maps()[4:5], maps([4])),
        "does not depend on the other images": lambda: _difference(maps()[order], maps(order)),
        UNCHANGED: lambda: _unchanged(trial),
        "responds to the model": lambda: _responds(trial),
        "responds to the class explained": lambda: _responds(trial, to_class=True),
    }
    checks: list[Check] = []
    seconds = 0.0
    for number, (clause, judge) in enumerate(clauses.items()):
        listen(number, len(clauses))
        try:
            seen = judge()
        except SideEffect as error:
            checks.append(Check(UNCHANGED, False, one_line(error)))
            break
        except NotApplicable as reason:
            seen = f"not applicable here: {one_line(reason)}"
        except CODE_ERRORS as error:
            seen = describe_error(error)
        tested = not seen.startswith(NOT_TESTED)
        checks.append(Check(clause, not (seen and tested), seen, tested))
        seconds = seconds or trial.seconds / IMAGES
        if not checks[0].holds:
            break
    return checks, seconds


def _not_finite(maps: Tensor) -> str:
    bad = ~torch.isfinite(maps).flatten(1).all(1)
    return f"{int(bad.sum())} of {IMAGES} maps have NaN or infinite values" if bool(bad.any()) else ""


def _difference(a: Tensor, b: Tensor) -> str:
    """How maps differ where they are finite, or in where they are, in words; nothing where they agree."""
    finite, other = torch.isfinite(a), torch.isfinite(b)
    if not bool((finite | other).any()):
        return f"{NOT_TESTED}no value is finite"
    if torch.equal(finite, other) and not _differ(a, b):
        return ""
    both = finite & other
    if not bool(both.any()):
        return "values are finite in one run and not in another"
    return f"values differ by up to {float((a - b)[both].abs().max()):.2g}"


def _unchanged(trial: Trial) -> str:
    """Compared with the network before it was first explained, and with one that arrives in training mode."""
    changes = trial.before.restore()
    trial.model.train()
    training = ModelState(trial.model)
    trial.maps()
    changes += training.restore()
    trial.model.eval()
    return ", ".join(dict.fromkeys(changes))


def _responds(trial: Trial, to_class: bool = False) -> str:
    if not trial.chain.needs_model:
        return f"{NOT_TESTED}a control, which looks at no network"
    if to_class and not trial.chain.facts.get("by_class", True):
        return f"{NOT_TESTED}it is declared to explain no single class"
    if to_class:
        seen, same = _difference(trial.maps(target=0), trial.maps(target=1)), "two classes have the same maps"
    else:
        seen = _difference(trial.maps(), trial.maps(model=trial._trained(1)))
        same = "another network gives the same maps (declare model=False for a control)"
    return seen if seen.startswith(NOT_TESTED) else "" if seen else same


def user_chains(chain: Chain) -> list[Chain]:
    """What is to be checked in a chain: its estimators of the user, or all of it if it has other parts of the user."""
    calls = [*chain.raw.walk(), *chain.filters]
    user_calls = [call for call in calls if not is_builtin(estimators[call.name].function)]
    if chain.is_direct or not user_calls:
        return []
    return [Chain(chain.leaf.name, chain.leaf)] if user_calls == [chain.leaf] else [chain]


def contract_violation(model: nn.Module, x: Images, target: Labels, context: Context, chain: Chain) -> str | None:
    """Which rule the maps of a chain break on some images, in words; SideEffect where the model is changed.

    The short version of the contract, for estimators of the user at the start of a study: images are explained all
    together, with other states of the global random generators, and in two halves. A map that follows the batch or an
    unseeded generator differs by far more than the last digits in which libraries may differ for other batch sizes.
    """

    def maps(rows: Sequence[int], seed: int = 0) -> Tensor:
        with seeded_with(seed):
            return explain_chains(model, x[rows], target[rows], context[rows], [chain])[0]

    every = list(range(len(x)))
    halves = every[: len(x) // 2], every[: len(x) // 2 - 1 : -1] if len(x) > 1 else []
    first = maps(every)
    if _differ(first, maps(every, seed=1)):
        return (
            f"{chain.name} gives other maps when it is run again: "
            "take random numbers from context.draws, not from a global generator"
        )
    if any(_differ(first[half], maps(half)) for half in halves if half):
        return (
            f"{chain.name} depends on the other images of the batch: "
            "a map must be the same whatever images are explained with it"
        )
    return None


def _differ(a: Tensor, b: Tensor) -> bool:
    """Whether the maps of some image differ by more than rounding; what is not finite is checked elsewhere."""
    both = (torch.isfinite(a) & torch.isfinite(b)).flatten(1)
    a, b = (torch.where(both, each.flatten(1).double(), 0.0) for each in (a, b))
    size = torch.maximum(a.abs().sum(1), b.abs().sum(1))
    return bool(((a - b).abs().sum(1) > ROUNDING * size).any())
