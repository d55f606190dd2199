"""Base models: the networks that are explained, trained once per replicate, with what estimators prepare for them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from uproar.errors import BadInput, BadMap
from uproar.estimators import Chain, Context, estimators, prepare_states
from uproar.models import build
from uproar.models.forward import device_of, read_by
from uproar.models.output_kind import last_operation, output_kind, sum_tolerance, sums_to_one
from uproar.models.weights import load_weights
from uproar.protocols.mask_assignment import fold_of
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.changed_images import changed_images
from uproar.study.settings import Inputs, Keys
from uproar.training import FineTuning, channels_last, fit, predict
from uproar.training.finetune import FineTunedCopies
from uproar.training.fit import SCORE_NAMES, loss_bits, nll_bits, task_score
from uproar.types import Kind

FINE_TUNED = "fine-tuned"
"""The kind of the items that hold fine-tuned copies of base models."""
DIVERGED = 100.0
"""Times the variance of the values that a network's squared error may have."""


class BaseModels:
    """The base models of a setting, from the store or trained; the last one is held."""

    def __init__(self, inputs: Inputs, keys: Keys) -> None:
        self.inputs, self.keys = inputs, keys
        self._last: tuple[str, tuple[nn.Module, Item]] | None = None

    def get(
        self, seed: int, fold: int | None = None, listen: Callable[[int, int], None] | None = None
    ) -> tuple[nn.Module, Item]:
        """The base model of a replicate, with its test scores; `fold` is a part of the data it was not trained on.

        `listen(done, epochs)` is called during its training, if it is not in the store.
        """
        key, store = self.keys.model(seed, fold), self.inputs.store
        if self._last is not None and self._last[0] == key:
            if not store.has("model", key):  # it was taken away since
                store.write("model", key, self._last[1][1])
            return self._last[1]
        item = store.once("model", key, lambda: self._train(seed, fold, listen))
        model = build(self.inputs.spec, self.inputs.task, seed)
        model.load_state_dict(weights_of(item))
        self._last = (key, (channels_last(model.to(self.inputs.device)).eval(), item))
        return self._last[1]

    def _train(self, seed: int, fold: int | None, listen: Callable[[int, int], None] | None = None) -> Item:
        started = time.perf_counter()
        task, setting, device = self.inputs.task, self.inputs.setting, self.inputs.device
        model = build(self.inputs.spec, task, seed)
        if setting.weights is not None:
            load_weights(model, setting.weights).to(device)
        else:
            self.initialised(model)
            train = task.train
            if fold is not None:
                train = train.take((fold_of(train, seed) != fold).nonzero()[:, 0])
            fit(model.to(device), changed_images(train), train.labels, setting.recipe, seed, listen, kind=task.kind)
        with read_by(None):
            answers = predict(model, changed_images(task.test))
        scores = kept_scores(answers, task.kind)
        check_logits(model, task.test.read(slice(0, 2)), answers, task.kind)
        arrays = kept_weights(model)
        facts = answer_facts(scores, task.test.labels, time.perf_counter() - started, task.kind)
        return Item({**arrays, "test_scores": scores}, {**facts, "device": str(device)})

    def initialised(self, model: nn.Module) -> nn.Module:
        """A network at the start of its training: as it is, or with the pretrained weights."""
        setting = self.inputs.setting
        if setting.recipe.init == "pretrained" and setting.pretrained is not None:
            load_weights(model, setting.pretrained, new_head=True)
        return model

    def fine_tuned(self, seed: int, listen: Callable[[int, int], None] | None = None) -> FineTunedCopies:
        """The fine-tuned copies of a replicate's base model, from the store or made; `listen` counts epochs."""
        model, task = self.get(seed)[0], self.inputs.task

        def keep(tuning: FineTuning, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
            item = self.inputs.store.once(FINE_TUNED, self.keys.fine_tuned(tuning, seed), lambda: weights_item(make()))
            return weights_of(item)

        return FineTunedCopies(model, changed_images(task.train), task.train.labels, task.mean, seed, keep, listen)

    def states(self, model: nn.Module, chains: Sequence[Chain], seed: int, fold: int | None = None) -> dict[str, Any]:
        """What the estimators of some chains prepare for a base model, by call; from the store or made."""
        context = Context(Draws.of(seed, (), "train"), self.inputs.task.mean, self.inputs.task.train)
        states: dict[str, Any] = {}
        for chain in chains:
            for leaf in chain.leaves:
                if estimators[leaf.name].facts.get("prepare") and str(leaf) not in states:
                    key = self.keys.state(leaf, seed, fold)
                    make = functools.partial(_state_item, model, context, chain, str(leaf))
                    item = self.inputs.store.once("state", key, make)
                    states[str(leaf)] = {name: torch.from_numpy(array.copy()) for name, array in item.arrays.items()}
        return states


def _state_item(model: nn.Module, context: Context, chain: Chain, leaf: str) -> Item:
    state = prepare_states(model, context, [chain])[leaf]
    return Item({name: value.detach().cpu().contiguous().numpy() for name, value in state.items()})


def kept_weights(model: nn.Module) -> dict[str, np.ndarray]:
    """The weights of a network as the store keeps them."""
    return {name: _array(value) for name, value in model.state_dict().items()}


def weights_item(weights: Mapping[str, Tensor]) -> Item:
    """The same for weights that were taken from a network."""
    return Item({name: _array(value) for name, value in weights.items()})


def weights_of(item: Item) -> dict[str, Tensor]:
    """The weights that an item keeps, without the answers to test images beside them."""
    return {name: torch.from_numpy(array.copy()) for name, array in item.arrays.items() if name != "test_scores"}


def _array(value: Tensor) -> np.ndarray:
    """Weights as they are kept: NumPy has no bfloat16, whose values float32 holds exactly."""
    value = value.detach().cpu().contiguous()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def check_logits(model: nn.Module, x: Tensor, answers: Tensor, kind: Kind = "softmax") -> None:
    """Refuse a base network that answers with anything but class scores, of which a softmax is taken.

    `x` are a few of the images of the answers. Of other tasks, one that answers with probabilities is refused.
    """
    if kind != "softmax":
        if kind == "sigmoid" and last_operation(model, x.to(device_of(model))) == "Sigmoid":
            raise BadInput("The model ends in a sigmoid, and a study takes the sigmoid itself: leave it out.")
        return
    output_kind(answers, "logit")
    if sums_to_one(answers, sum_tolerance(model)):
        raise BadInput(
            "The model ends in a softmax (its rows sum to 1), and a study takes the softmax itself: leave it out."
        )
    if last_operation(model, x.to(device_of(model))) == "Sigmoid":
        raise BadInput(
            "The model ends in a sigmoid (one probability per label), and a study takes the softmax over classes, of "
            "which one is right: leave the sigmoid out if one is."
        )


def kept_scores(scores: Tensor, kind: Kind = "softmax") -> np.ndarray:
    """Class scores as they are kept: minus the row's largest, in float16.

    The difference is all that probabilities and decisions need, and it is exact where it matters, near the top. Logits
    of labels and values are kept as they are.
    """
    lost = ~torch.isfinite(scores).all(1)
    if bool(lost.any()):
        raise BadMap(
            f"the training diverged: {int(lost.sum())} of {len(scores)} test images have NaN or "
            "infinite scores; lower the recipe's lr"
        )
    if kind != "softmax":
        return scores.float().numpy()
    differences = scores - scores.amax(1, keepdim=True)
    return differences.clamp_min(-6e4).half().numpy()


def answer_facts(scores: np.ndarray, labels: Tensor, seconds: float, kind: Kind = "softmax") -> dict[str, Any]:
    """What is kept beside the scores of test images: accuracy, and the mean negative log-likelihood in bits.

    Other tasks have their own score in the place of accuracy.
    """
    if kind != "softmax":
        score = task_score(scores, labels, kind)
        if score < -DIVERGED:
            raise BadMap("the training diverged: the error is far larger than the values; lower the recipe's lr")
        spent = loss_bits(scores, labels) if kind == "sigmoid" else None
        return {"bits": spent, "images": len(labels), "accuracy": score, "score": SCORE_NAMES[kind], "seconds": seconds}
    correct = int((scores.argmax(1) == labels.numpy()).sum())
    bits = nll_bits(torch.from_numpy(scores), labels)
    return {
        "bits": float(bits.mean()),
        "correct": correct,
        "images": len(labels),
        "accuracy": correct / len(labels),
        "seconds": seconds,
    }
