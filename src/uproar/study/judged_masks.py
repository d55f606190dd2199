"""What is removed from the test images that an evaluator judges, for many cells at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from uproar.protocols import Masks, protocol_named
from uproar.protocols.mask_assignment import RandomBlocks, mask_donors
from uproar.study.cell import Cell
from uproar.study.inputs import Inputs
from uproar.study.rankings import Rankings
from uproar.study.settings import ImageRanking

Cut = tuple[ImageRanking, float]
"""A ranking, and the fraction of it that masks are made of."""


class JudgedMasks:
    """The masks of all judged images under some cells; what several cells need is made once.

    Those of the last cuts are held: the next cells may be other tests of them.
    """

    def __init__(self, inputs: Inputs, rankings: Rankings) -> None:
        self.inputs, self.rankings = inputs, rankings
        self._blocks: tuple[int, RandomBlocks] | None = None
        self._own: dict[Cut, Tensor] = {}
        self._shifted: dict[Cut, Tensor] = {}

    def removed(self, cells: Sequence[Cell]) -> list[Tensor]:
        """The mask of removed pixels under each of some cells of a replicate, as bool images."""
        seed, protocols = cells[0].seed, [protocol_named(cell.protocol) for cell in cells]
        cuts = [(self.inputs.rankings_of(cell)[1], cell.fraction) for cell in cells]
        tests = list(zip(cuts, protocols, strict=True))
        self._hold(dict.fromkeys(cuts))
        self._shift(dict.fromkeys(cut for cut, protocol in tests if protocol.test.of == "shifted"), seed)
        return [protocol.removed(self._assigned(cut, protocol.test, seed)) for cut, protocol in tests]

    def _hold(self, cuts: Collection[Cut]) -> None:
        """Make the images' own masks at some cuts, the most important pixels, and forget those at others."""
        rows = self.inputs.judged_rows
        self._shifted = {cut: masks for cut, masks in self._shifted.items() if cut in cuts}
        self._own = {cut: self._own[cut] if cut in self._own else self._important(cut, rows) for cut in cuts}

    def _important(self, cut: Cut, rows: Tensor) -> Tensor:
        return self.rankings.important(*cut, self.inputs.task.test, rows)

    def _shift(self, cuts: Collection[Cut], seed: int) -> None:
        """Move the masks at some cuts to other places, all together."""
        missing = [cut for cut in cuts if cut not in self._shifted]
        if missing:
            rows = self.inputs.judged_rows
            together = torch.cat([self._own[cut] for cut in missing])
            moved = self._random_blocks(seed).moved(together, rows.repeat(len(missing)))
            self._shifted.update(zip(missing, moved.split(len(rows)), strict=True))

    def _random_blocks(self, seed: int) -> RandomBlocks:
        """The blocks to which masks are moved; those of the last replicate are held."""
        if self._blocks is None or self._blocks[0] != seed:
            self._blocks = seed, RandomBlocks(self.inputs.task.test, seed)
        return self._blocks[1]

    def _assigned(self, cut: Cut, masks: Masks, seed: int) -> Tensor:
        """The masks at a cut as they are assigned to the images."""
        if masks.of == "shifted":
            return self._shifted[cut]
        donors = mask_donors(self.inputs.task.test, masks, seed)
        return self._own[cut] if donors is None else self._important(cut, donors[self.inputs.judged_rows])
