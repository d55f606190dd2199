"""What the store has of every single test image: its maps, what is removed of it, what every network said of it.

Nothing is computed that needs a model: what is not in the store is None, or NaN and `NO_CLASS` in columns.
"""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import torch

from uproar.errors import CODE_ERRORS
from uproar.estimators import Chain
from uproar.protocols import Protocol
from uproar.removal.fill import filled, read_fill, replacement
from uproar.seeds import Draws
from uproar.storage.store import Item
from uproar.study.bench import Bench
from uproar.study.cell import Cell, ScoreCell
from uproar.study.collect_scores import evaluation
from uproar.study.evaluators import target_index
from uproar.study.settings import ImageRanking
from uproar.study.spec import Study
from uproar.study.subjects import title_of
from uproar.training.calibrate import nll_bits

NO_CLASS = 65535
"""In columns of classes: no network said anything."""
CONSTANT = ("mean", "zero")
"""Fills that put one colour everywhere."""


class ImageEvidence:
    """The test images of one task and model, the first `most` of them, with all that is known of each."""

    def __init__(self, study: Study, bench: Bench, most: int | None = None) -> None:
        self.study, self.bench = study, bench
        self.count = min(len(bench.task.test), most or len(bench.task.test))

    @property
    def labels(self) -> np.ndarray:
        """The class of every image, (n,); `NO_CLASS` where there is no single one."""
        if not self.has_classes:
            return np.full(self.count, NO_CLASS, np.uint16)
        return self.bench.task.test.labels[: self.count].numpy().astype(np.uint16)

    @property
    def titles(self) -> list[str]:
        """What the labels of images say, where they are not one class each."""
        labels = () if self.has_classes else self.bench.task.test.labels[: self.count]
        return [title_of(self.bench.task, label) for label in labels]

    @property
    def has_classes(self) -> bool:
        """Whether one class is right for every image."""
        return self.bench.task.kind == "softmax"

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols whose networks say a class."""
        return [p for p in self.study.protocol_list if p.learns == "class"] if self.has_classes else []

    @property
    def methods(self) -> list[Chain]:
        """The estimators under all protocols, without the further random rankings of the baseline."""
        further = {chain.name for chain in self.study.baseline_chains[1:]}
        return [chain for chain in self.study.every_chain if chain.name not in further]

    # pictures

    def pixels(self, rows: slice) -> np.ndarray:
        """Images as bytes, (n, h, w, channels)."""
        return _bytes(self.bench.task.test.read(rows))

    def maps(self, chain: Chain, seed: int, rows: slice) -> np.ndarray | None:
        """Maps, (n, h, w), each scaled to [-1, 1] and its channels summed; None where the store has none."""
        maps = None if chain.is_direct else self.bench.rankings.test_maps(chain, seed, rows)
        return maps.mean(1) if maps is not None and maps.ndim == 4 else maps

    def levels(self, chain: Chain, seed: int, rows: slice) -> np.ndarray | None:
        """For each feature the number of fractions that leave it, (n, h, w, channels or 1): 0 goes first.

        At the fraction with number k exactly those features are important whose level is at most k. None where the
        store has no ranking, or where a method without a ranking removes at one fraction what it leaves at a larger.
        """
        left = []
        for fraction in self.study.fractions:
            try:
                left.append(~self._important(chain, seed, fraction, rows).numpy())
            except CODE_ERRORS:
                return None
        nested = all((later <= earlier).all() for earlier, later in itertools.pairwise(left))
        levels = np.sum(left, 0).astype(np.uint8)
        if not nested:
            return None
        return levels.transpose(0, 2, 3, 1) if levels.ndim == 4 else levels[..., None]

    def _important(self, chain: Chain, seed: int, fraction: float, rows: slice) -> torch.Tensor:
        ranking = ImageRanking(chain, seed)
        return self.bench.rankings.important(ranking, fraction, self.bench.task.test, rows, make=False)

    @property
    def constant_fill(self) -> list[int] | None:
        """The colour of removed pixels as bytes; None where it depends on the image or is drawn."""
        changed = any(p.changes is not None or p.noise is not None for p in self.study.protocol_list)
        if changed or read_fill(self.study.fill)[0].name not in CONSTANT:
            return None
        nothing, everywhere = torch.zeros(1, *self.bench.task.shape), torch.ones(1, *self.bench.inputs.features).bool()
        around = self.bench.cells.around(Draws.of(self.study.seeds[0], [0], "test"))
        return _bytes(replacement(nothing, everywhere, self.study.fill, around))[0, 0, 0].tolist()

    def changed(self, chain: Chain, fraction: float, keeps: bool, rows: slice) -> np.ndarray | None:
        """Images as the first protocol that removes (or keeps) shows them in the first replicate, as bytes."""
        protocol = next((p for p in self.study.protocol_list if p.keeps == keeps), None)
        seed, numbers = self.study.seeds[0], list(range(*rows.indices(self.count)))
        around = self.bench.cells.around(Draws.of(seed, numbers, "test"))
        with contextlib.suppress(*CODE_ERRORS):  # a fill of the user: its cells say why
            x, important = self.bench.task.test.read(rows), self._important(chain, seed, fraction, rows)
            if protocol is not None:
                return _bytes(protocol.change(x, important, self.study.fill, around))
            return _bytes(filled(x, ~important if keeps else important, self.study.fill, around))
        return None

    # what networks said

    def base_answers(self) -> tuple[np.ndarray, np.ndarray]:
        """The class that the explained network of each replicate says, and the bits it lacks: (replicates, n)."""
        pairs = [self._said(self.bench.store.find("model", self.bench.keys.model(seed))) for seed in self.study.seeds]
        return np.stack([said for said, _ in pairs]), np.stack([bits for _, bits in pairs])

    def answers(self, protocol: Protocol, chain: Chain) -> tuple[np.ndarray, np.ndarray]:
        """The same of the networks that judge a method under a protocol: (replicates, fractions, n)."""
        judge = protocol if protocol.evaluator else None
        pairs = [
            [self._said(self._cell(protocol, chain, fraction, seed), judge) for fraction in self.study.fractions]
            for seed in self.study.seeds
        ]
        said = np.stack([np.stack([one for one, _ in row]) for row in pairs])
        return said, np.stack([np.stack([bits for _, bits in row]) for row in pairs])

    def _cell(self, protocol: Protocol, chain: Chain, fraction: float, seed: int) -> Item | None:
        setting = self.bench.setting
        cell = Cell(setting.task, setting.model, chain.name, protocol.name, fraction, seed)
        return self.bench.cells.find(cell)

    def _said(self, item: Item | None, evaluator: Protocol | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Classes and bits of every image in an item of predictions; an evaluator was asked about some alone."""
        images = len(self.bench.task.test)
        said, bits = np.full(images, NO_CLASS, np.uint16), np.full(images, np.nan, np.float32)
        if item is None or not self.has_classes:
            return said[: self.count], bits[: self.count]
        if evaluator is not None:
            rows, target = self.bench.inputs.rows_asked(evaluator), target_index(evaluator)
            said[rows], bits[rows] = (item.arrays[name][:, target] for name in ("answers", "bits"))
        else:
            scores = item.arrays["test_scores"]
            said[:] = scores.argmax(1)
            bits[:] = nll_bits(torch.from_numpy(scores), self.bench.task.test.labels).numpy()
        return said[: self.count], bits[: self.count]

    def values(self, chain: Chain) -> np.ndarray:
        """The values of a method under every metric, (metrics, replicates, n); NaN where there is none."""
        return np.stack([[self._values(chain, m, s) for s in self.study.seeds] for m in self.study.metric_names])

    def _values(self, chain: Chain, metric: str, seed: int) -> np.ndarray:
        setting = self.bench.setting
        one = evaluation(self.bench, ScoreCell(setting.task, setting.model, chain.name, metric, seed))
        if one is None or len(one.arrays["value"]) < self.count:
            return np.full(self.count, np.nan, np.float32)
        return one.arrays["value"][: self.count].astype(np.float32)


def _bytes(images: torch.Tensor) -> np.ndarray:
    """Images (n, c, h, w) in [0, 1] as bytes, (n, h, w, 3 or 1)."""
    pixels = (images.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    return pixels if pixels.shape[3] == 3 else pixels[..., :1]
