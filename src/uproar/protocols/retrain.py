"""ROAR and KAR, with and without retraining: one body, the side that is removed is an argument."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from uproar.errors import unknown
from uproar.removal.fill import Around, filled
from uproar.types import Images


@dataclass(frozen=True)
class Protocol:
    """What is removed at a fraction, whether a fresh network learns the changed images, what is good."""

    name: str
    keeps: bool
    """False: the most important share t is removed. True: it is kept and all else removed."""
    retrains: bool
    summary: str

    @property
    def higher_is_better(self) -> bool:
        """Keeping the important pixels should keep the accuracy; removing them should lower it."""
        return self.keeps

    @property
    def plain(self) -> float:
        """The fraction at which nothing is removed: plain training, run once for all estimators."""
        return 1.0 if self.keeps else 0.0

    def change(self, x: Images, important: Tensor, fill: str, around: Around) -> Images:
        """The images as this protocol shows them, `important` being the first share t of the order."""
        return filled(x, ~important if self.keeps else important, fill, around)


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "roar", False, True, "remove the most important pixels in train and test, retrain"
        ),
        Protocol(
            "kar", True, True, "keep only the most important pixels in train and test, retrain"
        ),
        Protocol("roar:no-retrain", False, False, "remove in test only, ask the original network"),
        Protocol("kar:no-retrain", True, False, "keep in test only, ask the original network"),
    )
}


def protocol_named(name: str) -> Protocol:
    """The protocol with a name; unknown names answer with near ones."""
    if name not in PROTOCOLS:
        raise unknown("protocol", name, PROTOCOLS)
    return PROTOCOLS[name]
