"""The table of protocols: ROAR and KAR, with and without retraining, and the controls that show their weaknesses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from uproar.errors import BadInput, BadOption, unknown
from uproar.expression import Call, parse
from uproar.protocols.protocol import OWN, Change, Masks, Protocol
from uproar.registry import Entry, Registry

NOISE = 0.2
"""Standard deviation of the noise of `roar:hidden`."""

_PERMUTED, _CROSS_FITTED = Masks("permuted"), Masks(by="cross-fitted")
_ROAR = partial(Protocol, "roar", False, True)
_KAR = partial(Protocol, "kar", True, True)
_DECOUPLED = partial(Protocol, "decoupled", False, True, train=_PERMUTED)


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        _ROAR("remove the most important pixels in train and test, retrain", without_retraining="roar:no-retrain"),
        _KAR("keep only the most important pixels in train and test, retrain", without_retraining="kar:no-retrain"),
        _ROAR(
            "the network of roar, tested with whole images: did it learn from what was left, or from the holes?",
            "train-only",
            test=Masks("none"),
            judges=False,
        ),
        Protocol("roar", False, False, "remove in test only, ask the original network", "no-retrain"),
        Protocol("kar", True, False, "keep in test only, ask the original network", "no-retrain"),
        _DECOUPLED(
            "as roar, but trained with masks permuted across images, so that a mask says nothing of the class; "
            "tested with each image's own"
        ),
        _DECOUPLED(
            "the network of decoupled, tested with permuted masks: a random ranking of the same geometry",
            "permuted",
            test=_PERMUTED,
            judges=False,
        ),
        _DECOUPLED(
            "the network of decoupled, tested with masks of other images of the same class",
            "class",
            test=Masks("class"),
            judges=False,
        ),
        _ROAR("a network that sees the removed-masks of roar and no pixel", "mask", sees="mask", judges=False),
        _KAR("a network that sees the removed-masks of kar and no pixel", "mask", sees="mask", judges=False),
        _ROAR(
            "the network of roar:mask, tested with masks of another replicate's base model",
            "mask-other",
            sees="mask",
            test=Masks(by="other"),
            judges=False,
        ),
        _ROAR("as roar, with the removed-mask as one more channel", "mask+pixels", sees="both", judges=False),
        _ROAR(
            "as roar, every image explained by a base model that has not seen it",
            "cross-fitted",
            train=_CROSS_FITTED,
            test=_CROSS_FITTED,
        ),
        _ROAR(
            "as roar, with linear fill and the same noise on kept and removed pixels, so that the mask is hard to see",
            "hidden",
            noise=NOISE,
        ),
        _ROAR(
            "a small network learns from the images of roar which pixels are removed (area under the ROC curve)",
            "find-mask",
            learns="mask",
            judges=False,
        ),
        _ROAR(
            "a small network learns from the images of roar:hidden which pixels are removed",
            "hidden:find-mask",
            learns="mask",
            noise=NOISE,
            judges=False,
        ),
    )
}


def tests_of(protocol: Protocol) -> list[str]:
    """Whose masks test images may have, so that one training, and one set of maps, serve several protocols.

    >>> tests_of(PROTOCOLS["roar"]), tests_of(PROTOCOLS["decoupled"])
    (['own', 'none'], ['own', 'permuted', 'class'])
    """
    if not protocol.retrains:
        return [protocol.test.of]
    alike = (p for p in (*PROTOCOLS.values(), protocol) if p.retrains and p.network == protocol.network)
    return list(dict.fromkeys(p.test.of for p in alike if p.test.by == protocol.test.by))


def without_model(protocol: Protocol) -> Protocol:
    """The protocol for maps that no network changes: cross-fitted ones are those of any network.

    >>> without_model(PROTOCOLS["roar:cross-fitted"]).name
    'roar'
    """
    if "cross-fitted" not in (protocol.train.by, protocol.test.by):
        return protocol
    train, test = (replace(masks, by="replicate") for masks in (protocol.train, protocol.test))
    plain = replace(protocol, train=train, test=test).network
    return next((p for p in PROTOCOLS.values() if p.network == plain and p.test == test), protocol)


def protocol_named(name: str) -> Protocol:
    """The protocol with a name; unknown names answer with near ones. `roar:hidden(noise=0.1)` sets the noise."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    call = parse(name)
    if call.name not in PROTOCOLS:
        protocols.load_entry_points()  # whose declarations end up in PROTOCOLS
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
    return replace(protocol, variant=str(Call(protocol.variant, (), call.options)), noise=float(noise))


# protocols that users declare: a function that says what the network sees

INPUTS = ("x", "removed", "filled", "around")

protocols = Registry("protocol", "uproar.protocols")
"""The protocols of users and of installed packages; those of uproar are in `PROTOCOLS`, as these are once declared."""


def protocol(
    *,
    keeps: bool,
    retrains: bool = True,
    train: Masks = OWN,
    test: Masks = OWN,
    judges: bool = True,
    name: str | None = None,
) -> Callable[[Change], Change]:
    """Declare `(x, removed, filled, [around]) -> images` under the function's name; its docstring says what it does.

    `filled` are the images `x` with the pixels `removed` (n, h, w) replaced by the study's fill; what is returned is
    what the network sees. `keeps=False` removes the most important share of the pixels, so that a lower accuracy is
    better; `keeps=True` keeps it and removes all else. `retrains=False` changes test images only and asks the network
    that was explained. `train` and `test` say whose masks are assigned to images; `judges=False` marks a control.
    """

    def declare(function: Change) -> Change:
        own_name = name or function.__name__
        known = PROTOCOLS.get(own_name)
        if known is not None and known.changes is None:
            raise BadInput(
                f"The protocol {own_name!r} of {function.__module__} would replace one of uproar's; "
                "choose another name."
            )
        entry = Entry("protocol", own_name, function)
        for given in (*entry.inputs, *entry.options):
            if given not in INPUTS or given in entry.options:
                raise BadInput(f"{own_name}: a protocol takes {', '.join(INPUTS)} and no options, not {given!r}.")
        summary = entry.summary or own_name
        own = Protocol(own_name, keeps, retrains, summary, train=train, test=test, judges=judges, changes=function)
        protocols.add(own_name, function, protocol=own)
        redeclare([own_name])
        return function

    return declare


def redeclare(names: Iterable[str]) -> None:
    """Have the protocols of these names be what their registry holds."""
    for name in names:
        entry = protocols[name]
        PROTOCOLS[name] = replace(entry.facts["protocol"], code=entry.code)
