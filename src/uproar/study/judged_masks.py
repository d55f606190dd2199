"""What is removed from the test images that an evaluator judges, for many cells at a time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from uproar.protocols import protocol_named
from uproar.protocols.mask_assignment import RandomBlocks
from uproar.study.cell import Cell
from uproar.study.inputs import Inputs
from uproar.study.rankings import Rankings


class JudgedMasks:
    """The masks of all judged images under some cells; what several cells need is made once."""

    def __init__(self, inputs: Inputs, rankings: Rankings) -> None:
        self.inputs, self.rankings = inputs, rankings
        self._blocks: tuple[int, RandomBlocks] | None = None

    def removed(self, cells: Sequence[Cell]) -> list[Tensor]:
        """The mask of removed pixels under each of some cells of a replicate, as bool images."""
        test, rows, seed = self.inputs.task.test, self.inputs.judged_rows, cells[0].seed
        cuts = [(self.inputs.rankings_of(cell)[1], cell.fraction) for cell in cells]
        own = {cut: self.rankings.important(*cut, test, rows) for cut in dict.fromkeys(cuts)}
        if self._blocks is None or self._blocks[0] != seed:
            self._blocks = seed, RandomBlocks(test, seed)
        moved = self._blocks[1].moved(torch.cat([*own.values()]), rows.repeat(len(own)))
        shifted = dict(zip(own, moved.split(len(rows)), strict=True))
        protocols = [protocol_named(cell.protocol) for cell in cells]
        return [
            p.removed((own if p.test.of == "own" else shifted)[cut]) for p, cut in zip(protocols, cuts, strict=True)
        ]
