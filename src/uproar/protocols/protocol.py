"""What a protocol is: the masks that images are changed with in training and test, what networks see, what is good.

What distinguishes protocols is a fact of `Protocol` (`family`, `retrains`, `plain`, `direction`, `label`, …),
so that nobody has to read it out of a name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from uproar.errors import BadShape
from uproar.guard import guarded_call
from uproar.removal.fill import FillContext, filled
from uproar.types import KINDS, Images, Kind


@dataclass(frozen=True)
class Masks:
    """Which masks are assigned to the images of a split."""

    of: Literal["own", "permuted", "class", "none"] = "own"
    """The donor: the image itself; another image; one of the same class; none: nothing is removed."""
    by: Literal["replicate", "other", "cross-fitted"] = "replicate"
    """The base model explained: the replicate's; that of another replicate; one that was not trained on the image."""


OWN = Masks()

Change = Callable[..., Images]
"""What a protocol of the user does with images: `(x, removed, filled, [around]) -> images`."""


@dataclass(frozen=True)
class Protocol:
    """What is removed at a fraction, whether a fresh network learns the changed images, what is good."""

    family: str
    """The protocol of which this is a variant; of one that is no variant, its name."""
    keeps: bool
    """False: the most important share t is removed. True: it is kept and all else removed."""
    retrains: bool
    """Whether a fresh network is trained on changed images; False: the original network is tested with them."""
    summary: str
    variant: str = ""
    """What tells it from the first of its family."""
    train: Masks = OWN
    test: Masks = OWN
    sees: Literal["pixels", "mask", "both"] = "pixels"
    """What the network gets: the changed pixels; the removed-mask alone; both, the mask as one more channel."""
    learns: Literal["class", "mask"] = "class"
    """What it learns: the image's class, or which pixels were removed."""
    noise: float | None = None
    """Normal noise of this spread on every pixel, kept or removed, over a linear fill: it hides where the mask is."""
    judges: bool = True
    """Whether estimators may be ranked by it. False: a diagnosis, a control or a baseline of another protocol."""
    without_retraining: str | None = None
    """The protocol that tests the original network with the same images, where there is one."""
    changes: Change | None = None
    """What a protocol of the user shows of images whose removed pixels are filled; None: just that."""
    code: str = ""
    """A hash of the user's code behind `changes`."""

    @property
    def name(self) -> str:
        """The family, and the variant behind a colon."""
        return f"{self.family}:{self.variant}" if self.variant else self.family

    @property
    def label(self) -> str:
        """The name in a sentence: ROAR, KAR without retraining, ROAR (mask); that of a user's protocol as it is."""
        if self.changes is not None:
            return self.name
        base = self.family.upper()
        if not self.retrains:
            return f"{base} without retraining"
        return f"{base} ({self.variant})" if self.variant else base

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of tasks that it serves: those with one class per image, where it compares or predicts classes."""
        by_class = "class" in (self.train.of, self.test.of)
        return ("softmax",) if by_class else KINDS

    @property
    def higher_is_better(self) -> bool:
        """Keeping the important pixels should keep the accuracy; removing them should lower it."""
        return self.keeps

    @property
    def direction(self) -> int:
        """1 where a higher value is better, -1 where a lower one is."""
        return 1 if self.higher_is_better else -1

    @property
    def fraction_means(self) -> Literal["kept", "removed"]:
        """What a fraction is the share of: pixels kept, or removed."""
        return "kept" if self.keeps else "removed"

    @property
    def nothing_removed(self) -> float:
        """The fraction at which nothing is removed."""
        return 1.0 if self.keeps else 0.0

    @property
    def plain(self) -> float | None:
        """The fraction at which the network is trained and tested as the base model is; None: there is none.

        It is `nothing_removed`, unless something else than removal changes what the network sees or learns. The result
        is that of the base model, one for all estimators; at every other fraction each estimator has its own.
        """
        other = self.noise is not None or self.changes is not None
        return None if self.sees != "pixels" or self.learns != "class" or other else self.nothing_removed

    @property
    def chance(self) -> Literal["classes", "half"]:
        """What guessing reaches: one over the number of classes; for an area under a ROC curve one half."""
        return "classes" if self.learns == "class" else "half"

    @property
    def true_to(self) -> Literal["data", "model"]:
        """Which question it answers: what can still be known of the class (data), or what the original network uses."""
        return "data" if self.retrains else "model"

    @property
    def training(self) -> dict[str, Any]:
        """What the training depends on beside the ranking of pixels; empty for ROAR and KAR."""
        parts = {
            "masks": self.train.of,
            "sees": self.sees,
            "learns": self.learns,
            "noise": self.noise,
            "code": (self.name, self.code) if self.changes else None,
        }
        usual = {"masks": "own", "sees": "pixels", "learns": "class", "noise": None, "code": None}
        return {name: value for name, value in parts.items() if value != usual[name]}

    @property
    def network(self) -> tuple[Any, ...]:
        """Equal for protocols that test the same retrained networks."""
        return self.keeps, self.train, *self.training.items()

    def removed(self, important: Tensor) -> Tensor:
        """The mask of removed pixels; `important` is the first share t of the ranking."""
        return ~important if self.keeps else important

    def change(self, x: Images, important: Tensor, fill: str, around: FillContext) -> Images:
        """The pixels of the images as this protocol leaves them."""
        removed = self.removed(important)
        if self.changes is not None:
            return self._changed(x, removed, filled(x, removed, fill, around), around)
        if self.noise is None:
            return filled(x, removed, fill, around)
        smooth = filled(x, removed, "linear(noise=0)", around)
        return smooth + self.noise * around.draws.normal("hidden", *x.shape[1:]).to(x)

    def _changed(self, x: Images, removed: Tensor, full: Images, around: FillContext) -> Images:
        """The images as the user's function leaves them, if they are still images of that shape."""
        assert self.changes is not None
        more = {"around": around} if "around" in inspect.signature(self.changes).parameters else {}
        images: Any = guarded_call(f"The protocol {self.name}", self.changes, [x, removed, full], more)
        if not isinstance(images, Tensor) or images.shape != x.shape:
            got = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise BadShape(
                f"The protocol {self.name} returned {got} for images {tuple(x.shape)}; it must return images "
                "of that shape."
            )
        return images.to(x)

    def network_input(self, x: Images, important: Tensor, fill: str, around: FillContext) -> Tensor:
        """What the network sees. A mask is 1 where a pixel is removed; alone, it has as many channels as the image."""
        if self.sees == "pixels":
            return self.change(x, important, fill, around)
        mask = self.removed(important).to(x.dtype)
        if self.sees == "mask":
            return mask if mask.dim() == 4 else mask[:, None].expand_as(x).contiguous()
        return beside_mask(self.change(x, important, fill, around), mask)


def beside_mask(x: Images, removed: Tensor) -> Tensor:
    """Images with the mask of what is removed behind their channels: 1 where a pixel, or a channel value, is gone.

    They are laid out channels last, as networks take them.
    """
    mask = removed if removed.dim() == 4 else removed[:, None]
    (n, c, h, w), more = x.shape, mask.shape[1]
    out = x.new_empty(n, h, w, c + more).permute(0, 3, 1, 2)
    out[:, :c], out[:, c:] = x, mask
    return out
