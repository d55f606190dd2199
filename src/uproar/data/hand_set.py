"""Images of parts at fixed places for networks whose weights are set by hand: which parts each uses is known exactly.

The image is a grid of 4×4 squares of four cells each. Part A lies in the left square of the second row, B in its right
one, C and D elsewhere. A rule is a function of some parts; the others come and go by chance and tell nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from uproar.data.registry import tasks
from uproar.data.scenes import Canvas, scene_and_counts
from uproar.data.task import Task
from uproar.registry import options_of

GRID = 4
"""Squares of a side of the image."""
PLACES = (4, 7, 13, 2)
"""The squares of the parts A, B, C, D, counted row by row."""

RuleName = Literal["linear", "and", "or", "not", "xor", "saturating", "shattered"]


@dataclass(frozen=True)
class Rule:
    """How the class follows from the parts that a network uses, the first ones of PLACES."""

    uses: int
    holds: Callable[..., bool]
    """Class 1, from the presence of each used part."""

    @property
    def answers(self) -> dict[int, list[tuple[bool, ...]]]:
        """By class, what can be there of the used parts."""
        every = list(itertools.product((False, True), repeat=self.uses))
        return {k: [parts for parts in every if self.holds(*parts) == bool(k)] for k in (0, 1)}


RULES: dict[str, Rule] = {
    "linear": Rule(3, lambda a, b, c: 2 * a + b - 2 * c > 0.5),
    "and": Rule(2, lambda a, b: a and b),
    "or": Rule(2, lambda a, b: a or b),
    "not": Rule(1, lambda a: not a),
    "xor": Rule(2, lambda a, b: a != b),
    "saturating": Rule(1, lambda a: a),
    "shattered": Rule(1, lambda a: a),
}


@tasks.declare(
    "hand-set", images="made up: bright squares on noise", truth="masks and boxes of the parts that the rule uses"
)
@options_of(scene_and_counts, train=64)
def hand_set(*, rule: RuleName = "and", **options: Any) -> Task:
    """Parts that are there or not, and a class that is a rule of some of them: for the model `hand-set` of that rule.

    `linear` is 2A + B − 2C > ½; `not` is class 1 where A is missing; `saturating` and `shattered` are A, which the
    network reads in a way that gradients do not show.
    """
    scene, counts = scene_and_counts(**options)
    side = GRID * scene.cell
    corners = [(side * (place // GRID), side * (place % GRID)) for place in PLACES]

    def paint(canvas: Canvas) -> Canvas:
        present = _presence(canvas, RULES[rule])
        square = torch.ones(len(canvas), side, side, dtype=torch.bool)
        for number, corner in enumerate(corners):
            at = torch.tensor([corner]).repeat(len(canvas), 1)
            canvas = canvas.painted(square & present[number][:, None, None], at)
            canvas = canvas.marked(square, at) if number < RULES[rule].uses else canvas
        return canvas

    return scene.task(f"hand-set({rule})", counts, ("no", "yes"), paint)


def _presence(canvas: Canvas, rule: Rule) -> list[Tensor]:
    """Which images show each part: what the rule uses fits the class, the rest is drawn."""
    answers = rule.answers
    drawn = {k: canvas.choice(f"hand-set parts of class {k}", len(answers[k])).tolist() for k in (0, 1)}
    used: Sequence[tuple[bool, ...]] = [answers[k][drawn[k][row]] for row, k in enumerate(canvas.labels.tolist())]
    others = range(rule.uses, len(PLACES))
    more = [canvas.choice(f"hand-set other part {number}", 2).bool() for number in others]
    return [*torch.tensor(used).T, *more]
