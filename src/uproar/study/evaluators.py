"""Evaluators: one network per replicate that judges every estimator, trained with masks independent of the image."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data import Split
from uproar.errors import BadInput
from uproar.models.copies import folded
from uproar.protocols import Protocol
from uproar.protocols.catalogue import scored_together
from uproar.protocols.evaluator import (
    TARGETS,
    EvaluatorNetwork,
    MaskedImages,
    begin_as,
    build_evaluator,
    evaluator_scores,
    fit_evaluators,
    mask_pool,
    stacks,
)
from uproar.protocols.mask_assignment import fold_of
from uproar.protocols.protocol import beside_mask
from uproar.removal.fill import filled
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.base_models import BaseModels, kept_weights
from uproar.study.changed_images import ChangedImages, FillContexts, changed_images
from uproar.study.settings import Inputs, Keys
from uproar.tensors import in_batches, spans
from uproar.training import channels_last, predict
from uproar.training.fit import BATCH, inverse_temperature
from uproar.training.stack import LARGEST

FACTORS = "inverse_temperatures"
"""The array of an evaluator's item that holds what its scores are multiplied with, by half of the images and target."""
BATCH_PIXELS = 2**18
"""Pixels of the images that an evaluator is asked about at a time, at least."""
MASK_PIXELS = 2**19
"""Pixels of the masks of test images that are made at a time, at least."""
HELD = 2**24
"""Numbers of all masked training images up to which they are made at once, not batch by batch; a stack reads ahead."""
MASKS = 2
"""Masks of each test image that the temperature is fitted with."""


class _Untrained(NamedTuple):
    """An evaluator before its training."""

    network: EvaluatorNetwork
    shown: Any
    """The masked images, by row."""
    labels: Tensor
    pool: Tensor
    """The rankings that masks are made from."""


class Evaluators:
    """The evaluators of a setting, from the store or trained; the last one is held."""

    def __init__(self, inputs: Inputs, keys: Keys, base_models: BaseModels, fill_contexts: FillContexts) -> None:
        self.inputs, self.keys, self.base_models, self.fill_contexts = inputs, keys, base_models, fill_contexts
        self._last: tuple[str, tuple[nn.Module, Item]] | None = None
        self._asked: tuple[str, tuple[Tensor, Tensor]] | None = None

    def get(self, seed: int) -> tuple[nn.Module, Item]:
        """The evaluator of a replicate, and what is kept of it."""
        key, store = self.keys.evaluator(seed), self.inputs.store
        if self._last is not None and self._last[0] == key:
            return self._last[1]
        item = store.once("evaluator", key, lambda: self._trained([seed])[0])
        network = self._fresh(seed)
        weights = {n: torch.from_numpy(a.copy()) for n, a in item.arrays.items() if n != FACTORS}
        network.load_state_dict(weights)
        self._last = (key, (self._for_judging(network), item))
        return self._last[1]

    def _for_judging(self, network: nn.Module) -> nn.Module:
        return channels_last(folded(network).to(self.inputs.device))

    def _fresh(self, seed: int) -> EvaluatorNetwork:
        """An untrained evaluator that sees the mask; where the network takes no more channels, the pixels alone."""
        mask = self.inputs.task.shape[0] if self.inputs.setting.features == "channel" else 1
        spec = self.inputs.evaluator_spec(seed)
        try:
            return build_evaluator(spec, self.inputs.task, mask, seed)
        except BadInput:
            return build_evaluator(spec, self.inputs.task, 0, seed)

    def groups(self, seeds: Sequence[int], most: int) -> list[tuple[int, ...]]:
        """Replicates by which of their evaluators are trained at once: alike ones as a stack, others alone."""
        setting, shape = self.inputs.setting, self.inputs.task.shape
        if shape[1] * shape[2] > LARGEST or len({setting.evaluator_model(seed, shape) for seed in seeds}) > 1:
            return [(seed,) for seed in seeds]
        alike = not setting.recipe.augment and stacks(self._fresh(seeds[0]), shape, setting.recipe)
        together = most if alike else 1
        return [tuple(seeds[part]) for part in spans(len(seeds), together)]

    def train(self, seeds: Sequence[int]) -> None:
        """Train the evaluators of some replicates that the store lacks, all at once."""
        lacking = [seed for seed in seeds if not self.inputs.store.has("evaluator", self.keys.evaluator(seed))]
        for seed, item in zip(lacking, self._trained(lacking) if lacking else (), strict=True):
            self.inputs.store.write("evaluator", self.keys.evaluator(seed), item)

    def _trained(self, seeds: Sequence[int]) -> list[Item]:
        """What is kept of the evaluators of some replicates."""
        started = time.perf_counter()
        every = [self._prepared(seed) for seed in seeds]
        networks, labels = [one.network for one in every], [one.labels for one in every]
        fit_evaluators(networks, [one.shown for one in every], labels, self.inputs.setting.recipe, seeds)
        factors = [
            self._calibrated(self._for_judging(one.network), one.pool, self.base_models.get(seed)[1], seed)
            for seed, one in zip(seeds, every, strict=True)
        ]
        facts = {"seconds": (time.perf_counter() - started) / len(seeds), "device": str(self.inputs.device)}
        both = zip(networks, factors, strict=True)
        return [Item({**kept_weights(network), FACTORS: own}, facts) for network, own in both]

    def _prepared(self, seed: int) -> _Untrained:
        """A replicate's evaluator before its training, and what it is trained on."""
        task, setting = self.inputs.task, self.inputs.setting
        base = self.base_models.get(seed)[0]
        network = self._fresh(seed)
        if setting.evaluator_begins_explained(seed, task.shape):
            begin_as(network, base)
        pool = mask_pool(task, self.inputs.features, seed)
        times = setting.evaluator_epochs(seed, task.shape, len(task.train))
        answers = predict(base, changed_images(task.train)).argmax(1)
        labels = torch.stack([task.train.labels, answers], 1)
        images = MaskedImages(task.train, pool, times, seed, self.shown(seed, "evaluator training"))
        shown = self._fitting(network.to(self.inputs.device), images)
        few = len(images) * math.prod(task.shape) <= HELD and not task.train.streams
        if few and not stacks(network, task.shape, setting.recipe):
            shown = torch.cat([shown[part] for part in spans(len(images), self.at_once)])
        return _Untrained(network, shown, labels.repeat(times, 1), pool)

    def shown(self, seed: int, split: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """What an evaluator sees of images whose pixels are removed; random fills are drawn by row."""

        return lambda x, removed, rows: self._filled(x, removed, Draws.of(seed, rows, split))

    def _filled(self, x: Tensor, removed: Tensor, draws: Draws) -> Tensor:
        around = self.fill_contexts.around(draws)
        return beside_mask(filled(x, removed, self.inputs.setting.fill, around), removed)

    def _fitting(self, network: nn.Module, images: Any) -> Any:
        """Images as the network takes them: without the mask where it has no channels for it."""
        channels = self.inputs.task.shape[0]
        return images if self.sees_mask(network) else _Read(len(images), lambda rows: images[rows][:, :channels])

    def sees_mask(self, network: nn.Module) -> bool:
        """Whether an evaluator has channels for the mask."""
        return bool(getattr(network, "mask_channels", 0))

    def _calibrated(self, network: nn.Module, pool: Tensor, base_item: Item, seed: int) -> np.ndarray:
        """What scores of each half of the test images are multiplied with, (2, targets): fitted on the other half.

        The masks are drawn as in training, so that no estimator has a say in it.
        """
        test = self.inputs.task.test
        images = MaskedImages(test, pool, MASKS, seed, self.shown(seed, "evaluator test"))
        scores = self.scores(network, images).double()
        targets = torch.from_numpy(self.targets(base_item)).repeat(MASKS, 1)
        half = halves(test, seed).repeat(MASKS)
        factors = np.ones((2, TARGETS))
        for own in (0, 1):
            for target in range(TARGETS):
                other = half != own
                if int(other.sum()):
                    factors[own, target] = inverse_temperature(scores[other][:, :, target], targets[other, target])
        return factors

    def targets(self, base_item: Item) -> np.ndarray:
        """What an evaluator is asked for of every test image, (n, targets): its label, and the base model's class."""
        labels = self.inputs.task.test.labels.numpy()
        return np.stack([labels, base_item.arrays["test_scores"].argmax(1)], 1)

    @property
    def at_once(self) -> int:
        """Images that an evaluator is asked about at a time: many where they are small."""
        return max(BATCH, BATCH_PIXELS // math.prod(self.inputs.task.shape[1:]))

    @property
    def masks_at_once(self) -> int:
        """Masks of all judged images that are made at a time: many where these are few and small."""
        return max(1, MASK_PIXELS // (len(self.inputs.judged_rows) * math.prod(self.inputs.task.shape[1:])))

    def scores(self, network: nn.Module, images: Any) -> Tensor:
        """An evaluator's scores of images, (n, classes, targets)."""
        source = _Read(len(images), self._fitting(network, images).__getitem__)
        return in_batches(lambda part: evaluator_scores(network, part), source, size=self.at_once)

    def evaluate(self, seed: int, removed: Sequence[Tensor]) -> list[Item]:
        """What the evaluator of a replicate says of the judged images, once for each mask of what is removed from them.

        Bits and class for each target, (n, 2). As many masks as it takes images for are one pass.
        """
        (network, _), test, rows = self.get(seed), self.inputs.task.test, self.inputs.judged_rows
        x, draws = test.read(rows), Draws.of(seed, rows, test.name)

        def scores(removed: Sequence[Tensor]) -> Tensor:
            times = len(removed)
            images = self._filled(x.repeat(times, 1, 1, 1), torch.cat([*removed]), draws.repeated(times))
            return self.scores(network, images)

        parts = spans(len(removed), max(1, self.at_once // len(rows)))
        return self._items(seed, torch.cat([scores(removed[part]) for part in parts]))

    def evaluate_alone(self, seed: int, images: Tensor | ChangedImages) -> Item:
        """What it says of the judged ones of test images that are changed already, or when they are read."""
        rows = self.inputs.judged_rows
        chosen = _Read(len(rows), lambda part: images[rows[part]])
        return self._items(seed, self.scores(self.get(seed)[0], chosen))[0]

    def _items(self, seed: int, scores: Tensor) -> list[Item]:
        """What is kept of scores of all judged images, once or several times."""
        targets, half = self._targets_of(seed)
        by_set = scores.unflatten(0, (-1, len(targets)))
        return evaluation_items(by_set, targets, self.get(seed)[1].arrays[FACTORS], half)

    def _targets_of(self, seed: int) -> tuple[Tensor, Tensor]:
        """What is asked of every judged image, and its half of them; held for the last replicate."""
        key = self.keys.model(seed)
        if self._asked is None or self._asked[0] != key:
            targets, rows = torch.from_numpy(self.targets(self.base_models.get(seed)[1])), self.inputs.judged_rows
            self._asked = key, (targets[rows], halves(self.inputs.task.test, seed)[rows])
        return self._asked[1]


def halves(split: Split, seed: int) -> Tensor:
    """For each image its half of a split, (n,): classes divided evenly."""
    return fold_of(split, seed)


def evaluation_items(scores: Tensor, targets: Tensor, factors: np.ndarray, half: Tensor) -> list[Item]:
    """Negative log-likelihood in bits, calibrated, and the class with the highest score, of every image and target.

    One item for each set of scores, (sets, images, classes, targets).
    """
    by_target = scores.transpose(2, 3).contiguous()
    scaled = by_target.double().mul_(torch.from_numpy(factors)[half][None, :, :, None])
    logs = scaled.log_softmax(3).gather(3, targets.expand(len(scores), -1, -1)[..., None])[..., 0]
    bits, answers = -logs / math.log(2), by_target.argmax(3)
    right = (answers == targets).double().mean(1)
    arrays = zip(bits.float().numpy(), answers.int().numpy(), strict=True)
    facts = zip(bits.mean(1).tolist(), right.tolist(), strict=True)
    return [
        Item({"bits": own, "answers": classes}, {"images": scores.shape[1], "bits": mean, "accuracy": share})
        for (own, classes), (mean, share) in zip(arrays, facts, strict=True)
    ]


def join_tests(items: Sequence[Item]) -> Item:
    """What an evaluator says under all tests of one score, in the order of `scored_together`, as it is kept."""
    arrays = {name: np.stack([item.arrays[name] for item in items]) for name in items[0].arrays}
    facts = {name: [item.facts[name] for item in items] for name in ("bits", "accuracy")}
    return Item(arrays, {"images": items[0].facts["images"], **facts})


def one_test(item: Item, protocol: Protocol) -> Item:
    """What an evaluator says under one protocol, from what is kept: alone, or joined with others."""
    together = scored_together(protocol)
    if not together:
        return item
    place = together.index(protocol)
    one = {name: item.facts[name][place] for name in ("bits", "accuracy")}
    return Item({name: values[place] for name, values in item.arrays.items()}, {**item.facts, **one})


def numbers_of(item: Item, protocol: Protocol) -> Mapping[str, float]:
    """The columns `images`, `accuracy` and `bits` of a cell that an evaluator judged."""
    target = target_index(protocol)
    return {
        "images": item.facts["images"],
        "accuracy": item.facts["accuracy"][target],
        "bits": item.facts["bits"][target],
    }


def target_index(protocol: Protocol) -> int:
    """Which answer of an evaluator a protocol asks for."""
    return 0 if protocol.target == "label" else 1


class _Read:
    """Some images, of which `read` gives those of some rows; rows are a slice, a list or a tensor."""

    def __init__(self, count: int, read: Callable[[Any], Tensor]) -> None:
        self.count, self.read = count, read

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Any) -> Tensor:
        return self.read(torch.tensor(rows) if isinstance(rows, list) else rows)
