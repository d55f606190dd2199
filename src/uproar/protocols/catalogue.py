"""The protocols by name: ROAR and KAR, with and without retraining, and what shows whether they can be trusted."""

from __future__ import annotations

from dataclasses import replace

from uproar.errors import BadInput, BadOption, unknown
from uproar.expression import parse
from uproar.protocols.protocol import Masks, Protocol

_PERMUTED, _CLASS = Masks("permuted"), Masks("class")
_CROSSED = Masks(by="cross-fitted")
NOISE = 0.2
"""Spread of the noise of `roar:hidden`."""

PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol("roar", False, True, "remove the most important pixels in train and test, retrain"),
        Protocol("kar", True, True, "keep only the most important pixels in train and test, retrain"),
        Protocol(
            "roar:train-only",
            False,
            True,
            "the network of roar, tested with whole images: did it learn from what was left, or from the holes?",
            test=Masks("none"),
            judges=False,
        ),
        Protocol("roar:no-retrain", False, False, "remove in test only, ask the original network"),
        Protocol("kar:no-retrain", True, False, "keep in test only, ask the original network"),
        Protocol(
            "decoupled",
            False,
            True,
            "as roar, but trained with masks permuted across images, so that a mask says nothing of the class; "
            "tested with each image's own",
            train=_PERMUTED,
        ),
        Protocol(
            "decoupled:permuted",
            False,
            True,
            "the network of decoupled, tested with permuted masks: a random ranking of the same geometry",
            train=_PERMUTED,
            test=_PERMUTED,
            judges=False,
        ),
        Protocol(
            "decoupled:class",
            False,
            True,
            "the network of decoupled, tested with masks of other images of the same class",
            train=_PERMUTED,
            test=_CLASS,
            judges=False,
        ),
        Protocol(
            "roar:mask",
            False,
            True,
            "a network that sees the removed-masks of roar and no pixel",
            sees="mask",
            judges=False,
        ),
        Protocol(
            "kar:mask",
            True,
            True,
            "a network that sees the removed-masks of kar and no pixel",
            sees="mask",
            judges=False,
        ),
        Protocol(
            "roar:mask-other",
            False,
            True,
            "the network of roar:mask, tested with masks of another replicate's base model",
            sees="mask",
            test=Masks(by="other"),
            judges=False,
        ),
        Protocol(
            "roar:mask+pixels",
            False,
            True,
            "as roar, with the removed-mask as one more channel",
            sees="both",
            judges=False,
        ),
        Protocol(
            "roar:cross-fitted",
            False,
            True,
            "as roar, every image explained by a base model that has not seen it",
            train=_CROSSED,
            test=_CROSSED,
        ),
        Protocol(
            "roar:hidden",
            False,
            True,
            "as roar, with linear fill and the same noise on kept and removed pixels, so that the mask is hard to see",
            noise=NOISE,
        ),
        Protocol(
            "roar:find-mask",
            False,
            True,
            "a small network learns from the images of roar which pixels are removed (area under the ROC curve)",
            learns="mask",
            judges=False,
        ),
        Protocol(
            "roar:hidden:find-mask",
            False,
            True,
            "a small network learns from the images of roar:hidden which pixels are removed",
            learns="mask",
            noise=NOISE,
            judges=False,
        ),
    )
}


def protocol_named(name: str) -> Protocol:
    """The protocol with a name; unknown names answer with near ones. `roar:hidden(noise=0.1)` sets the noise."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    call = parse(name)
    if call.name not in PROTOCOLS:
        from uproar.protocols.declare import protocols  # whose declarations end up in PROTOCOLS

        protocols.load_entry_points()
    if call.name not in PROTOCOLS:
        raise unknown("protocol", call.name, PROTOCOLS)
    protocol, options = PROTOCOLS[call.name], dict(call.options)
    if call.args or set(options) - ({"noise"} if protocol.noise is not None else set()):
        takes = "noise" if protocol.noise is not None else "no options"
        raise BadOption(f"The protocol {call.name} takes {takes}, not {name!r}.")
    noise = options.get("noise", protocol.noise)
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 <= noise < 100:
        raise BadInput(f"The noise of {call.name} is a number from 0 to 100, not {noise!r}.")
    if noise == protocol.noise:
        return protocol
    return replace(protocol, name=str(call), noise=float(noise))
