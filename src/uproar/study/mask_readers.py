"""Mask readers: what the masks of an estimator tell beyond the pixels they show, found by networks that learn it.

Readers learn from the masks of test images, which are there anyway, and are asked about those they have not seen: one
for each half of the images, classes divided evenly.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from uproar.models.folding import folded
from uproar.models.forward import read_by
from uproar.protocols.mask_assignment import fold_of
from uproar.protocols.mask_reader import OwnMasks, ReadMask, added_share, build_reader, mask_alone, reader_recipe
from uproar.storage.store import Item
from uproar.study.base_models import kept_weights
from uproar.study.cell import Cell
from uproar.study.evaluators import FACTORS, Evaluators, evaluation_items, halves
from uproar.study.inputs import Inputs
from uproar.study.keys import Keys
from uproar.study.rankings import Rankings
from uproar.study.settings import ImageRanking
from uproar.training import channels_last, fit, predict, stackable
from uproar.training.stack import fit_stack

QUARTERS = 4
"""Parts of the test images: two are learned from, one tells how much of the reader is added, for the last."""


class MaskReaders:
    """The mask readers of a setting, from the store or trained."""

    def __init__(self, inputs: Inputs, keys: Keys, rankings: Rankings, evaluators: Evaluators) -> None:
        self.inputs, self.keys, self.rankings, self.evaluators = inputs, keys, rankings, evaluators
        self._first: tuple[int, nn.Module] | None = None
        self._last: tuple[str, list[nn.Module]] | None = None

    @property
    def cells_at_once(self) -> int:
        """Cells of an estimator whose test images are asked about together."""
        return max(1, self.evaluators.at_once // len(self.inputs.task.test))

    def train(self, cells: Sequence[Cell]) -> None:
        """Train the readers that some cells of a replicate need and the store lacks, all together."""
        needed = {self.inputs.rankings_of(cell)[1]: cell.fraction for cell in cells}
        keys = {ranking: self.keys.reader(ranking) for ranking in needed}
        lacking = {r: fraction for r, fraction in needed.items() if not self.inputs.store.has("reader", keys[r])}
        for ranking, item in zip(lacking, self._trained(lacking) if lacking else (), strict=True):
            self.inputs.store.write("reader", keys[ranking], item)

    def evaluate(self, cells: Sequence[Cell], images: Sequence[Tensor]) -> list[Item]:
        """What the evaluator says of the test images of some cells, helped by readers that have not seen them.

        The cells are of one ranking; `images` are what each of them shows.
        """
        test, cell = self.inputs.task.test, cells[0]
        half, quarter = halves(test, cell.seed), fold_of(test, cell.seed, QUARTERS) // 2
        known, more = self._parts(cell, torch.cat([*images]), half)
        quarters = 2 * half + quarter
        shares = torch.stack([_shares(*own, test.labels, quarters) for own in zip(known, more, strict=True)])
        scores = (known + shares[:, :, None] * more)[..., None]
        factors = self.evaluators.get(cell.seed)[1].arrays[FACTORS][:, :1]
        return evaluation_items(scores, test.labels[:, None], factors, half)

    def _parts(self, cell: Cell, images: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the evaluator and of the readers, (cells, n, classes), each of images that it has not seen."""
        readers = self._get(self.inputs.rankings_of(cell)[1], cell.fraction)
        known = self.evaluators.scores(self.evaluators.get(cell.seed)[0], images)[:, :, 0]
        masks, part = mask_alone(images, self.inputs.task.shape[0]), half.repeat(len(images) // len(half))
        more = torch.zeros_like(known)
        for own, reader in enumerate(readers):
            asked = part == own
            if bool(asked.any()):
                with read_by(None):
                    more[asked] = predict(reader, masks[asked], self.evaluators.at_once)
        by_cell = (-1, len(half))
        return known.double().unflatten(0, by_cell), more.double().unflatten(0, by_cell)

    def _get(self, ranking: ImageRanking, fraction: float) -> list[nn.Module]:
        """The reader for each half of the test images, trained on the other half."""
        key = self.keys.reader(ranking)
        if self._last is None or self._last[0] != key:
            item = self.inputs.store.once("reader", key, lambda: self._trained({ranking: fraction})[0])
            readers = self._fresh(ranking.seed)
            for part, reader in enumerate(readers):
                weights = {n[2:]: torch.from_numpy(a.copy()) for n, a in item.arrays.items() if n[0] == str(part)}
                reader.load_state_dict(weights)
            self._last = (key, [channels_last(folded(reader)) for reader in readers])
        return self._last[1]

    def _fresh(self, seed: int) -> list[nn.Module]:
        """Two untrained readers that are alike, where the networks of this process are."""
        if self._first is None or self._first[0] != seed:
            self._first = seed, build_reader(self.inputs.spec, self.inputs.task, seed).to(self.inputs.device)
        return [copy.deepcopy(self._first[1]) for _ in (0, 1)]

    def _trained(self, rankings: Mapping[ImageRanking, float]) -> list[Item]:
        """What is kept of the readers of some rankings of a replicate, each given with a fraction that it serves."""
        (seed,) = {ranking.seed for ranking in rankings}
        half, shown = halves(self.inputs.task.test, seed), self._shown(seed)
        pairs, masks = [self._fresh(seed) for _ in rankings], list[OwnMasks]()
        for ranking, fraction in rankings.items():
            places = self.rankings.test_places(ranking, fraction)
            masks += [OwnMasks((half != part).nonzero()[:, 0], places, seed, part, shown) for part in (0, 1)]
        self._fit([reader for pair in pairs for reader in pair], masks, seed)
        return [Item({f"{i} {n}": a for i in (0, 1) for n, a in kept_weights(pair[i]).items()}) for pair in pairs]

    def _fit(self, readers: Sequence[nn.Module], masks: Sequence[OwnMasks], seed: int) -> None:
        """Train each reader on its masks, in place: small ones as a stack, which asks the evaluator all at once."""
        recipe, shape = reader_recipe(self.inputs.setting.recipe), self.inputs.task.shape
        labels = [self.inputs.task.test.labels[own.images] for own in masks]
        evaluator = self.evaluators.get(seed)[0]
        if recipe.plain and stackable(readers[0], shape):
            known, seen = list[Tensor](), list[Tensor]()
            for own in masks:
                x = own[:]
                known.append(self.evaluators.scores(evaluator, x)[:, :, 0])
                seen.append(mask_alone(x, shape[0]))
            fit_stack(readers, seen, labels, recipe, seed, known=known)  # type: ignore[arg-type]
            return
        for reader, own, wanted in zip(readers, masks, labels, strict=True):
            both = ReadMask(evaluator, reader, shape, self.evaluators.sees_mask(evaluator))
            fit(both, own, wanted, recipe, seed)

    def _shown(self, seed: int) -> Callable[[Tensor, Tensor], Tensor]:
        change = self.evaluators.shown(seed, "mask reader")
        return lambda rows, removed: change(self.inputs.task.test.read(rows), removed, rows)


def _shares(known: Tensor, more: Tensor, labels: Tensor, quarter: Tensor) -> Tensor:
    """How much of the reader's scores is added to each image's: fitted on the other quarter of its half."""
    shares = torch.zeros(len(known), dtype=torch.float64)
    for own in range(QUARTERS):
        other = quarter == own ^ 1
        if bool(other.any()):
            shares[quarter == own] = added_share(known[other], more[other], labels[other])
    return shares
