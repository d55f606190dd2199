"""Mask readers: what the masks of an estimator tell beyond the pixels they show, found by networks that learn it.

Readers learn from the masks of test images, which are there anyway, and are asked about those they have not seen: one
for each half of the images, classes divided evenly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from uproar.batches import in_batches
from uproar.errors import NotApplicable
from uproar.models.borrow import borrowed, device_of
from uproar.protocols.mask_assignment import fold_of
from uproar.protocols.mask_reader import OwnMasks, ReadMask, added_share, build_reader, reader_recipe
from uproar.storage.store import Item
from uproar.study.base_models import kept_weights
from uproar.study.cell import Cell
from uproar.study.evaluators import FACTORS, Evaluators, evaluation_items, halves
from uproar.study.inputs import Inputs
from uproar.study.keys import Keys
from uproar.study.rankings import Rankings
from uproar.study.settings import ImageRanking
from uproar.training import fit
from uproar.training.evaluate import BATCH

QUARTERS = 4
"""Parts of the test images: two are learned from, one tells how much of the reader is added, for the last."""


class MaskReaders:
    """The mask readers of a setting, from the store or trained."""

    def __init__(self, inputs: Inputs, keys: Keys, rankings: Rankings, evaluators: Evaluators) -> None:
        self.inputs, self.keys, self.rankings, self.evaluators = inputs, keys, rankings, evaluators
        self._last: tuple[str, list[ReadMask]] | None = None

    def evaluate(self, cell: Cell, images: Tensor) -> Item:
        """What the evaluator says of the test images of a cell, helped by readers that have not seen them."""
        test = self.inputs.task.test
        if test.streams:
            raise NotApplicable(f"{cell.protocol} needs test images that fit in memory; give limit=")
        half, quarter = halves(test, cell.seed), fold_of(test, cell.seed, QUARTERS) // 2
        known, more = self._parts(cell, images, half)
        share = _shares(known, more, test.labels, 2 * half + quarter)
        scores = (known + share[:, None] * more)[:, :, None]
        factors = self.evaluators.get(cell.seed)[1].arrays[FACTORS][:, :1]
        return evaluation_items(scores[None], test.labels[:, None], factors, half)[0]

    def _parts(self, cell: Cell, images: Tensor, half: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the evaluator and of the readers, each of images that it has not seen."""
        ranking = self.inputs.rankings_of(cell)[1]
        networks = self._get(ranking, cell.fraction)
        columns = [in_batches(lambda x, n=network: _asked(n, x), images, size=BATCH) for network in networks]
        known, more = columns[0][0], torch.where(half[:, None] == 0, columns[0][1], columns[1][1])
        return known.double(), more.double()

    def _get(self, ranking: ImageRanking, fraction: float) -> list[ReadMask]:
        """The reader for each half of the test images, trained on the other half."""
        key = self.keys.reader(ranking)
        if self._last is None or self._last[0] != key:
            item = self.inputs.store.once("reader", key, lambda: self._train(ranking, fraction))
            networks = [self._fresh(ranking.seed) for _ in (0, 1)]
            for part, network in enumerate(networks):
                weights = {n[2:]: torch.from_numpy(a.copy()) for n, a in item.arrays.items() if n[0] == str(part)}
                network.reader.load_state_dict(weights)
            self._last = (key, [network.to(self.inputs.device).eval() for network in networks])
        return self._last[1]

    def _fresh(self, seed: int) -> ReadMask:
        evaluator = self.evaluators.get(seed)[0]
        reader = build_reader(self.inputs.spec, self.inputs.task, seed)
        return ReadMask(evaluator, reader, self.inputs.task.shape, self.evaluators.sees_mask(evaluator))

    def _train(self, ranking: ImageRanking, fraction: float) -> Item:
        test, seed = self.inputs.task.test, ranking.seed
        places, half = self.rankings.test_places(ranking, fraction), halves(test, seed)
        shown, arrays = self._shown(seed), dict[str, np.ndarray]()
        for part in (0, 1):
            network = self._fresh(seed).to(self.inputs.device)
            masks = OwnMasks((half != part).nonzero()[:, 0], places, seed, part, shown)
            fit(network, masks, test.labels[masks.images], reader_recipe(self.inputs.setting.recipe), seed)
            arrays |= {f"{part} {name}": value for name, value in kept_weights(network.reader).items()}
        return Item(arrays)

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


def _asked(network: ReadMask, x: Tensor) -> tuple[Tensor, Tensor]:
    with borrowed(network), torch.inference_mode():
        known, more = network.parts(x.to(device_of(network)))
    return known.float().cpu().clone(), more.float().cpu().clone()
