"""What makes fine-tuned copies of the network of `uproar score`, from the training images of its task or the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from uproar.checks import check_training_labels
from uproar.data.task import Split, split_digest
from uproar.models.remote_device import callable_from_cpu
from uproar.storage.store import Store, key_of
from uproar.study.base_models import FINE_TUNED, BaseModels, weights_item, weights_of
from uproar.study.changed_images import changed_images
from uproar.study.maps import Subject
from uproar.study.subjects import ImageSet
from uproar.training import FineTuning, predict
from uproar.training.finetune import FineTunedCopies

FineTuner = Callable[[nn.Module], Callable[[FineTuning], nn.Module]]
Epochs = Callable[[int, int], None]


def fine_tuner_of(
    subject: Subject, images: ImageSet, seed: int, store: Store, listen: Epochs | None = None
) -> FineTuner | None:
    """What fine-tunes a copy of the subject's network, or finds it in the store; None without training images.

    The labels of training images of the user are checked here. `listen` counts epochs.
    """
    bench = images.bench
    if bench is not None:
        return lambda _: _of_base_model(bench.base_models, seed, listen)
    train, mean = images.train, subject.context.mean
    if train is None or mean is None:
        return None
    check_training_labels(train.labels, predict(subject.model, subject.x[:2]).shape[1])
    return lambda model: FineTunedCopies(
        model, changed_images(train), train.labels, mean, seed, _Kept(subject, train, model, seed, store), listen
    )


def _of_base_model(base_models: BaseModels, seed: int, listen: Epochs | None) -> Callable[[FineTuning], nn.Module]:
    """The copies that a study of the task would make and keep."""
    copies = base_models.fine_tuned(seed, listen)
    return lambda tuning: callable_from_cpu(copies(tuning))


class _Kept:
    """Fine-tuned weights in the store, by everything they depend on."""

    def __init__(self, subject: Subject, train: Split, model: nn.Module, seed: int, store: Store) -> None:
        answers = type(model).__name__
        self.facts = {"subject": subject.identity(), "data": split_digest(train), "seed": seed, "answers": answers}
        self.store = store

    def __call__(self, tuning: FineTuning, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
        """The weights, made now if they are not there."""
        return weights_of(self.store.once(FINE_TUNED, self._key(tuning), lambda: weights_item(make())))

    def _key(self, tuning: FineTuning) -> str:
        return key_of(FINE_TUNED, {**self.facts, **tuning.identity})
