"""A short version of the contract of estimators, for those of the user at the start of a study.

A few images are explained three times: all together, with other states of the global random generators, and in two
halves. A map that follows the batch or an unseeded generator differs by far more than the last digits
in which libraries may differ for other batch sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uproar.containment import is_builtin, seeded_with
from uproar.estimators.base import Context, estimators
from uproar.estimators.chain import Chain
from uproar.estimators.evaluate import explain_chains
from uproar.types import Images, Labels

IMAGES = 4
"""Images explained."""
DIFFERENCE = 1e-3
"""The largest difference between two maps of an image that counts as rounding, as a share of the map's size."""


def user_chains(chain: Chain) -> list[Chain]:
    """What is to be checked in a chain: its estimators of the user, or all of it if it has other parts of the user."""
    calls = [*chain.raw.walk(), *chain.filters]
    own = [call for call in calls if not is_builtin(estimators[call.name].function)]
    if chain.is_direct or not own:
        return []
    if all(call in chain.leaves for call in own):
        return [Chain(call.name, call) for call in dict.fromkeys(own)]
    return [chain]


def contract_violation(model: nn.Module, x: Images, target: Labels, context: Context, chain: Chain) -> str | None:
    """Which rule the maps of a chain break on some images, in words; SideEffect where the model is changed."""

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
    """Whether the maps of some image differ by more than rounding; what is not finite is judged elsewhere."""
    both = (torch.isfinite(a) & torch.isfinite(b)).flatten(1)
    a, b = (torch.where(both, each.flatten(1).double(), 0.0) for each in (a, b))
    size = torch.maximum(a.abs().sum(1), b.abs().sum(1))
    return bool(((a - b).abs().sum(1) > DIFFERENCE * size).any())
