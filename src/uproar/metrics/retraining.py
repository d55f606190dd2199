"""ROAR, KAR and their variants: what is removed under a ranking of pixels, and whether networks are retrained.

What distinguishes them is a fact of `Retraining` (`family`, `retrains`, `plain`, `direction`, `label`, …), so that
nobody has to read it out of a name. `study/steps.py` (`retrained`) trains the networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor

from uproar.errors import unknown
from uproar.metrics.registry import TrueTo, metric
from uproar.removal.fill import FillContext, filled
from uproar.types import KINDS, Images, Kind


@dataclass(frozen=True)
class Masks:
    """Which masks are assigned to the images of a split."""

    of: Literal["own", "permuted", "class", "none"] = "own"
    """The donor: the image itself; another image; one of the same class; none: nothing is removed."""
    by: Literal["replicate", "other"] = "replicate"
    """The base model explained: the replicate's, or that of another replicate."""


OWN = Masks()


@dataclass(frozen=True)
class Retraining:
    """What is removed at a fraction, whether a fresh network learns the changed images, what is good."""

    family: str
    """The metric of which this is a variant; of one that is no variant, its name."""
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
    judges: bool = True
    """Whether estimators may be ranked by it. False: a diagnosis, or a control of another metric."""
    without_retraining: str | None = None
    """The metric that tests the original network with the same images, where there is one."""

    @property
    def name(self) -> str:
        """The family, and the variant behind a colon."""
        return f"{self.family}:{self.variant}" if self.variant else self.family

    @property
    def label(self) -> str:
        """The name in a sentence: ROAR, KAR without retraining, ROAR (mask)."""
        base = self.family.upper()
        if not self.retrains:
            return f"{base} without retraining"
        return f"{base} ({self.variant})" if self.variant else base

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of tasks that it serves: those with one class per image, where it gives masks by class."""
        return ("softmax",) if "class" in (self.train.of, self.test.of) else KINDS

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
    def plain(self) -> float | None:
        """The fraction at which the network is trained and tested as the base model is; None: there is none.

        There nothing is removed and all estimators share one result; at every other fraction each has its own.
        """
        nothing_removed = 1.0 if self.keeps else 0.0
        return nothing_removed if self.sees == "pixels" else None

    @property
    def true_to(self) -> TrueTo:
        """Which question it answers: what can still be known of the class (data), or what the original network uses."""
        return "data" if self.retrains else "model"

    @property
    def training(self) -> dict[str, Any]:
        """What the training depends on beside the ranking of pixels; empty for ROAR and KAR."""
        parts = {"masks": (self.train.of, "own"), "sees": (self.sees, "pixels")}
        return {name: value for name, (value, usual) in parts.items() if value != usual}

    @property
    def network(self) -> tuple[Any, ...]:
        """Equal for metrics that test the same retrained networks."""
        return self.keeps, self.train, *self.training.items()

    @property
    def tests(self) -> list[str]:
        """Whose masks the test images have: one training, and one set of maps, serve every metric of its networks.

        >>> RETRAININGS["roar"].tests, RETRAININGS["decoupled"].tests
        (['own', 'none'], ['own', 'permuted', 'class'])
        """
        if not self.retrains:
            return [self.test.of]
        alike = (metric for metric in RETRAININGS.values() if metric.retrains and metric.network == self.network)
        return list(dict.fromkeys(metric.test.of for metric in alike if metric.test.by == self.test.by))

    def removed(self, important: Tensor) -> Tensor:
        """The mask of removed pixels; `important` is the first share t of the ranking."""
        return ~important if self.keeps else important

    def network_input(self, x: Images, important: Tensor, fill: str, around: FillContext) -> Tensor:
        """What the network sees. A mask is 1 where a pixel is removed; alone, it has as many channels as the image."""
        removed = self.removed(important)
        if self.sees == "mask":
            mask = removed.to(x.dtype)
            return mask if mask.dim() == 4 else mask[:, None].expand_as(x).contiguous()
        changed = filled(x, removed, fill, around)
        return changed if self.sees == "pixels" else beside_mask(changed, removed.to(x.dtype))


def beside_mask(x: Images, removed: Tensor) -> Tensor:
    """Images with the mask of what is removed behind their channels: 1 where a pixel, or a channel value, is gone.

    They are laid out channels last, as networks take them.
    """
    mask = removed if removed.dim() == 4 else removed[:, None]
    (n, c, h, w), more = x.shape, mask.shape[1]
    out = x.new_empty(n, h, w, c + more).permute(0, 3, 1, 2)
    out[:, :c], out[:, c:] = x, mask
    return out


_PERMUTED = Masks("permuted")
_ROAR = partial(Retraining, "roar", False, True)
_KAR = partial(Retraining, "kar", True, True)
_DECOUPLED = partial(Retraining, "decoupled", False, True, train=_PERMUTED)

RETRAININGS: dict[str, Retraining] = {
    declared.name: declared
    for declared in (
        _ROAR("Remove the most important pixels in train and test, retrain.", without_retraining="roar:no-retrain"),
        _KAR("Keep only the most important pixels in train and test, retrain.", without_retraining="kar:no-retrain"),
        _ROAR(
            "The network of roar, tested with whole images: did it learn from what was left, or from the holes?",
            "train-only",
            test=Masks("none"),
            judges=False,
        ),
        Retraining("roar", False, False, "Remove in test only, ask the original network.", "no-retrain"),
        Retraining("kar", True, False, "Keep in test only, ask the original network.", "no-retrain"),
        _DECOUPLED(
            "ROAR with masks permuted across training images, so that masks cannot leak the label; tested with each "
            "image's own."
        ),
        _DECOUPLED(
            "The network of decoupled, tested with permuted masks: a random ranking of the same geometry.",
            "permuted",
            test=_PERMUTED,
            judges=False,
        ),
        _DECOUPLED(
            "The network of decoupled, tested with masks of other images of the same class.",
            "class",
            test=Masks("class"),
            judges=False,
        ),
        _ROAR("A network that sees the removed-masks of roar and no pixel.", "mask", sees="mask", judges=False),
        _ROAR(
            "The network of roar:mask, tested with masks of another replicate's base model.",
            "mask-other",
            sees="mask",
            test=Masks(by="other"),
            judges=False,
        ),
        _ROAR("ROAR with the removed-mask as one more channel.", "mask-pixels", sees="both", judges=False),
    )
}
"""By name, in the order in which they are listed."""


def retraining_named(name: str) -> Retraining:
    """The retraining metric with a name; unknown names answer with near ones."""
    if name not in RETRAININGS:
        raise unknown("metric", name, RETRAININGS)
    return RETRAININGS[name]


def _declare(each: Retraining) -> None:
    def retraining() -> Retraining:
        return each

    retraining.__doc__ = each.summary
    metric(
        name=each.name,
        higher_is_better=each.higher_is_better,
        low=0.0,
        high=1.0,
        chance="the accuracy of guessing" if each.keeps else "the accuracy with random pixels removed",
        needs="a study, which trains networks" if each.retrains else "a study",
        true_to=each.true_to,
        kinds=each.kinds,
        kind="retraining",
    )(retraining)


for _each in RETRAININGS.values():
    _declare(_each)
