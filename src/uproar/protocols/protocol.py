"""What a protocol is: which masks images wear in training and in the test, and what the network gets to see."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from uproar.containment import guarded_call
from uproar.errors import BadShape
from uproar.removal.fill import Around, filled
from uproar.types import Images


@dataclass(frozen=True)
class Masks:
    """Which masks the images of a split wear."""

    of: Literal["own", "permuted", "class", "none"] = "own"
    """Each image its own; that of another image; that of one of the same class; none: nothing is removed."""
    by: Literal["replicate", "other", "cross-fitted"] = "replicate"
    """The base model explained: the replicate's; that of another replicate; one that has not seen the image."""


OWN = Masks()

Change = Callable[..., Images]
"""What a protocol of the user does with images: `(x, removed, filled, [around]) -> images`."""


@dataclass(frozen=True)
class Protocol:
    """What is removed at a fraction, whether a fresh network learns the changed images, what is good."""

    name: str
    keeps: bool
    """False: the most important share t is removed. True: it is kept and all else removed."""
    retrains: bool
    summary: str
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
    changes: Change | None = None
    """What a protocol of the user shows of images whose removed pixels are filled; None: just that."""
    code: str = ""
    """A hash of the user's code behind `changes`."""

    @property
    def higher_is_better(self) -> bool:
        """Keeping the important pixels should keep the accuracy; removing them should lower it."""
        return self.keeps

    @property
    def plain(self) -> float | None:
        """The fraction at which this is plain training, run once for all estimators; None: at no fraction."""
        other = self.noise is not None or self.changes is not None
        if self.sees != "pixels" or self.learns != "class" or other:
            return None
        return 1.0 if self.keeps else 0.0

    @property
    def chance(self) -> Literal["classes", "half"]:
        """What guessing reaches: one class in all, or half, for an area under a ROC curve."""
        return "classes" if self.learns == "class" else "half"

    @property
    def training(self) -> dict[str, Any]:
        """What the training depends on beside the masks' maps; empty for plain ROAR and KAR."""
        parts = {
            "worn": self.train.of,
            "sees": self.sees,
            "learns": self.learns,
            "noise": self.noise,
            "code": (self.name, self.code) if self.changes else None,
        }
        usual = {"worn": "own", "sees": "pixels", "learns": "class", "noise": None, "code": None}
        return {name: value for name, value in parts.items() if value != usual[name]}

    @property
    def network(self) -> tuple[Any, ...]:
        """What protocols have in common that test the same networks."""
        return self.keeps, self.train, *self.training.items()

    def removed(self, important: Tensor) -> Tensor:
        """What goes, `important` being the first share t of the order."""
        return ~important if self.keeps else important

    def change(self, x: Images, important: Tensor, fill: str, around: Around) -> Images:
        """The pixels of the images as this protocol leaves them."""
        removed = self.removed(important)
        if self.changes is not None:
            return self._changed(x, removed, filled(x, removed, fill, around), around)
        if self.noise is None:
            return filled(x, removed, fill, around)
        smooth = filled(x, removed, "linear(noise=0)", around)
        return smooth + self.noise * around.draws.normal("hidden", *x.shape[1:]).to(x)

    def _changed(self, x: Images, removed: Tensor, full: Images, around: Around) -> Images:
        """The images as the user's function leaves them, if they are still images of that shape."""
        assert self.changes is not None
        more = {"around": around} if "around" in inspect.signature(self.changes).parameters else {}
        given = [x, removed, full]
        found: Any = guarded_call(f"The protocol {self.name}", self.changes, given, more)
        if not isinstance(found, Tensor) or found.shape != x.shape:
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise BadShape(
                f"The protocol {self.name} returned {got} for images {tuple(x.shape)}; it must return images "
                "of that shape."
            )
        return found.to(x)

    def shown(self, x: Images, important: Tensor, fill: str, around: Around) -> Tensor:
        """What the network gets. A mask is 1 where a pixel is gone; alone, it has as many channels as the image."""
        if self.sees == "pixels":
            return self.change(x, important, fill, around)
        mask = self.removed(important).to(x.dtype)
        if self.sees == "mask":
            return mask if mask.dim() == 4 else mask[:, None].expand_as(x).contiguous()
        beside = mask if mask.dim() == 4 else mask[:, None]
        return torch.cat([self.change(x, important, fill, around), beside], 1)
