"""Cells: images are changed, networks trained on them from scratch, and their predictions for the test images kept."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from uproar.data import Split
from uproar.errors import NotApplicable
from uproar.models import build, build_for_input
from uproar.models.forward import read_by
from uproar.models.output_kind import require_kind
from uproar.protocols import PROTOCOLS, Protocol, protocol_named
from uproar.protocols.catalogue import scored_together
from uproar.protocols.mask_assignment import RandomBlocks, mask_donors
from uproar.protocols.mask_detector import detection_auc, detector_recipe, mask_detector, pixel_scores
from uproar.removal import FillContext
from uproar.removal.order import count
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.base_models import BaseModels, answer_facts, kept_scores
from uproar.study.cell import Cell
from uproar.study.changed_images import ChangedImages, changed_images
from uproar.study.evaluators import Evaluators, join_tests, one_test
from uproar.study.rankings import Rankings
from uproar.study.settings import Inputs, Keys
from uproar.tensors import spans
from uproar.training import fit, fit_all, predict


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


class Cells:
    """The cells of a setting: each the accuracy of a retrained network, or of the base model, on changed images."""

    def __init__(
        self, inputs: Inputs, keys: Keys, base_models: BaseModels, rankings: Rankings, evaluators: Evaluators
    ) -> None:
        self.inputs, self.keys, self.base_models, self.rankings = inputs, keys, base_models, rankings
        self.evaluators, self.fill_contexts = evaluators, evaluators.fill_contexts
        self.setting, self.store = inputs.setting, inputs.store
        self.judged_masks = JudgedMasks(inputs, rankings)

    def around(self, draws: Draws) -> FillContext:
        """What the study's fill may know besides the images."""
        return self.fill_contexts.around(draws)

    def changed_images(self, cell: Cell, split: Split) -> Tensor | ChangedImages:
        """What the network of a cell sees of a split; of a split that streams, made when it is read."""
        protocol = protocol_named(cell.protocol)
        masks = self._assigned_masks(cell, split)

        def change(rows: Tensor) -> Tensor:
            around = self.around(Draws.of(cell.seed, rows, split.name))
            return protocol.network_input(split.read(rows), masks(rows), self.setting.fill, around)

        return changed_images(split, change)

    def _assigned_masks(self, cell: Cell, split: Split) -> Callable[[Tensor], Tensor]:
        """The most important pixels under the mask assigned to images of a split, by rows, as bool images."""
        protocol, (of_train, of_test) = protocol_named(cell.protocol), self.inputs.rankings_of(cell)
        training = split.name == self.inputs.task.train.name
        masks, ranking = (protocol.train, of_train) if training else (protocol.test, of_test)
        if masks.of == "none":
            return lambda rows: torch.zeros(len(rows), *self.inputs.features, dtype=torch.bool)
        donors = mask_donors(split, masks, cell.seed)

        def important(rows: Tensor) -> Tensor:
            return self.rankings.important(ranking, cell.fraction, split, rows if donors is None else donors[rows])

        if masks.of != "shifted":
            return important
        blocks = RandomBlocks(split, cell.seed)
        return lambda rows: blocks.moved(important(rows), rows)

    def removed(self, cell: Cell, split: Split) -> Tensor:
        """The mask of removed pixels for every image of a split, as bool images."""
        important = self._assigned_masks(cell, split)(torch.arange(len(split)))
        return protocol_named(cell.protocol).removed(important)

    def measure(self, cells: Sequence[Cell]) -> None:
        """Keep the test scores of some cells of one replicate: of fresh networks, or of the base model.

        A network is trained once for all cells that test it. Tests that need no further maps come along, asked for or
        not: they are next to free, and would cost a training later.
        """
        missing = [c for c in cells if not self._there(c)]
        for name in dict.fromkeys(cell.protocol for cell in missing):
            require_kind(name, protocol_named(name).kinds, self.inputs.task.kind, "it needs one class per image")
        for name in dict.fromkeys(cell.estimator for cell in missing):
            self.rankings.explainer.check_features(self.inputs.chain(name))
        fresh = {self.keys.training(c): c for c in missing if protocol_named(c.protocol).retrains}
        networks, training = self._retrained(fresh)
        judged = [c for c in missing if protocol_named(c.protocol).evaluator]
        self._judge(sorted(judged, key=lambda c: (c.estimator, c.fraction)))
        for cell in dict.fromkeys([*missing, *self._companions(fresh)]):
            if protocol_named(cell.protocol).evaluator:
                continue
            started = time.perf_counter()
            again = protocol_named(cell.protocol).retrains
            item = self._tested(networks[self.keys.training(cell)] if again else None, cell)
            # the training counts once
            spent = training if again and fresh[self.keys.training(cell)] == cell else 0.0
            self._keep(cell, item, time.perf_counter() - started + spent, spent)

    def find(self, cell: Cell) -> Item | None:
        """The result of a cell, if the store has it, undamaged."""
        item = self.store.find("cell", self.keys.cell(cell))
        return None if item is None else one_test(item, protocol_named(cell.protocol))

    def _there(self, cell: Cell) -> bool:
        """Whether the store has the result of a cell, undamaged."""
        return self.store.has("cell", self.keys.cell(cell)) and self.find(cell) is not None

    def _keep(self, cell: Cell, item: Item, seconds: float, training: float = 0.0) -> None:
        protocol = protocol_named(cell.protocol)
        how: dict[str, Any] = {"seconds": seconds, "training_seconds": training}
        how |= {"init": self.setting.recipe.init} if protocol.retrains else {}
        facts = {**item.facts, **how, "device": str(self.inputs.device)}
        self.store.write("cell", self.keys.cell(cell), Item(item.arrays, facts), flush=not protocol.evaluator)

    def _judge(self, cells: Sequence[Cell]) -> None:
        """Ask the replicate's evaluator about cells: in one pass about as many as it takes at a time.

        The tests of one score are asked and kept together, whichever of them is missing: one file instead of four.
        """
        first = {self.keys.cell(cell): cell for cell in cells}.values()
        groups = [[replace(c, protocol=p.name) for p in scored_together(protocol_named(c.protocol))] for c in first]
        test = self.inputs.task.test
        whole = not test.streams
        most = max(1, self.evaluators.masks_at_once // max(map(len, groups), default=1)) if whole else 1
        for part in spans(len(groups), most):
            asked, started = [cell for group in groups[part] for cell in group], time.perf_counter()
            if whole:
                items = self.evaluators.evaluate(asked[0].seed, self.judged_masks.removed(asked))
            else:
                items = [self.evaluators.evaluate_alone(one.seed, self.changed_images(one, test)) for one in asked]
            seconds, left = (time.perf_counter() - started) / len(asked), iter(items)
            for group in groups[part]:
                own = [*itertools.islice(left, len(group))]
                self._keep(group[0], join_tests(own), seconds)

    def _companions(self, fresh: Mapping[str, Cell]) -> list[Cell]:
        """Other tests of the trainings that can be made from the same maps and are not there yet."""
        return [test for test in self.companions(fresh) if not self.store.has("cell", self.keys.cell(test))]

    def companions(self, fresh: Mapping[str, Cell]) -> list[Cell]:
        """All tests of some trainings, each given by its key and a cell, that need no further maps."""
        retraining = [name for name, protocol in PROTOCOLS.items() if protocol.retrains]
        tests = []
        for key, cell in fresh.items():
            trained = self.inputs.rankings_of(cell)[0]
            for test in (replace(cell, protocol=name) for name in retraining):
                if self.inputs.task.kind not in protocol_named(test.protocol).kinds:
                    continue
                if self.inputs.rankings_of(test)[1] == trained and self.keys.training(test) == key:
                    tests.append(test)
        return tests

    def _retrained(self, fresh: Mapping[str, Cell]) -> tuple[dict[str, nn.Module], float]:
        """A fresh network per training, by its key, that has learned what the training images show; seconds each."""
        networks: dict[str, nn.Module] = {}
        train, spent = self.inputs.task.train, 0.0
        for _, group in itertools.groupby(fresh.items(), lambda named: _network(named[1])):
            keys, cells = zip(*group, strict=True)
            (seed,) = {cell.seed for cell in cells}
            images = [self.changed_images(cell, train) for cell in cells]
            models = [self._fresh(cell, x).to(self.inputs.device) for cell, x in zip(cells, images, strict=True)]
            began = time.perf_counter()
            if protocol_named(cells[0].protocol).learns == "mask":
                for cell, model, x in zip(cells, models, images, strict=True):
                    gone = self.removed(cell, train).long()
                    fit(model, x, gone, detector_recipe(self.setting.recipe), seed)
            else:
                fit_all(models, images, train.labels, self.setting.recipe, seed, self.inputs.task.kind)
            spent += time.perf_counter() - began
            networks |= dict(zip(keys, models, strict=True))
        return networks, spent / max(1, len(fresh))

    def _fresh(self, cell: Cell, images: Tensor | ChangedImages) -> nn.Module:
        """An untrained network for what a cell shows."""
        protocol = protocol_named(cell.protocol)
        if protocol.learns == "mask":
            if self.setting.features == "channel":
                raise NotApplicable(f"{protocol.name} finds removed pixels, not channel values")
            if not isinstance(images, Tensor):
                raise NotApplicable(f"{protocol.name} needs images that fit in memory; give limit=")
            return mask_detector(images.shape[1], self.inputs.task.mean, self.inputs.task.std, cell.seed)
        if protocol.sees == "pixels":
            return self.base_models.initialised(build(self.inputs.spec, self.inputs.task, cell.seed))
        moments = self._moments(cell, protocol)
        return build_for_input(self.inputs.spec, self.inputs.task, cell.seed, images[:2], *moments)

    def _moments(self, cell: Cell, protocol: Protocol) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of what a network sees: those of a mask follow from the fraction."""
        c, features = self.inputs.task.shape[0], math.prod(self.inputs.features)
        share = count(cell.fraction, features) / features
        share = 1 - share if protocol.keeps else share
        per_image = c if protocol.sees == "mask" or self.setting.features == "channel" else 1
        mean = torch.full((per_image,), share)
        std = (mean * (1 - mean)).sqrt()
        if protocol.sees == "mask":
            return mean, std
        return torch.cat([self.inputs.task.mean, mean]), torch.cat([self.inputs.task.std, std])

    def _tested(self, retrained: nn.Module | None, cell: Cell) -> Item:
        """The predictions for the test images of a cell: of a retrained network or the base model."""
        test, protocol = self.inputs.task.test, protocol_named(cell.protocol)
        images = self.changed_images(cell, test)
        model = self.base_models.get(cell.seed)[0] if retrained is None else retrained
        if protocol.learns == "mask":
            areas = detection_auc(pixel_scores(model, images[:]), self.removed(cell, test))
            return Item({"areas": areas.float().numpy()}, {"images": len(test)})
        kind = self.inputs.task.kind
        with read_by(None):
            scores = kept_scores(predict(model, images), kind)
        return Item({"test_scores": scores}, answer_facts(scores, test.labels, 0.0, kind))


def _network(cell: Cell) -> tuple[str, str]:
    """What kind of network a cell trains: those of a kind start alike."""
    protocol = protocol_named(cell.protocol)
    return protocol.sees, protocol.learns
