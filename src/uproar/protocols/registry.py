"""The registry of protocols that users declare: a function that says what the network sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from uproar.errors import BadInput
from uproar.protocols.catalogue import PROTOCOLS
from uproar.protocols.protocol import OWN, Change, Masks, Protocol
from uproar.registry import Entry, Registry

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
