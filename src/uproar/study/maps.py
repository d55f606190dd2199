"""Maps of many images, chunk by chunk, each chunk kept as soon as it is made: the same call again goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from uproar.batches import spans
from uproar.estimators import Chain, Context, explain_chains, families, prepare_states
from uproar.models import Room, borrowed
from uproar.seeds import Draws
from uproar.store import Item, Store, key_of

CHUNK = 64
"""Images per stored piece."""


@dataclass(frozen=True)
class Subject:
    """A model with the images it is to be explained on."""

    model: nn.Module
    x: Tensor
    target: Tensor
    context: Context
    made: Mapping[str, Any] = field(default_factory=dict)
    """How the model and its data came about: what its weights do not say, such as the text of a user's file."""

    def identity(self) -> str:
        """A hash of the weights, pixels and classes, and of how the model was made."""
        total = hashlib.sha256(repr(sorted(self.made.items())).encode())
        for name, value in self.model.state_dict().items():
            total.update(name.encode())
            total.update(value.contiguous().numpy().reshape(-1).view("uint8").data)
        for part in (self.x, self.target):
            total.update(part.contiguous().numpy().reshape(-1).view("uint8").data)
        return total.hexdigest()[:40]


def stored_maps(
    subject: Subject,
    chains: Sequence[Chain],
    store: Store,
    listen: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Tensor]:
    """The maps of every chain for all images; pieces that the store has are read, the others made and kept."""
    with borrowed(subject.model), torch.no_grad():
        states = prepare_states(subject.model, subject.context, chains)
    context = replace(subject.context, states=states)
    name = subject.identity()
    pieces: dict[str, list[Tensor]] = {chain.name: [] for chain in chains}
    groups = families(chains)
    total = len(groups) * len(subject.x)
    looks = any(chain.needs_model for chain in chains)
    room = Room.of(subject.model, subject.x) if looks else Room(CHUNK)
    done = 0
    for rows in spans(len(subject.x), CHUNK):
        for group in groups:
            found = _piece(subject, context[rows], rows, group, name, store, room)
            for chain, maps in zip(group, found, strict=True):
                pieces[chain.name].append(maps)
            done += rows.stop - rows.start
            listen(done, total)
    return {name: torch.cat(parts) for name, parts in pieces.items()}


def _piece(
    subject: Subject, context: Context, rows: slice, group: Sequence[Chain], name: str, store: Store,
    room: Room,
) -> list[Tensor]:  # fmt: skip
    keys = [_key(chain, name, context.draws, rows) for chain in group]
    items = [item for key in keys if (item := store.find("maps", key)) is not None]
    if len(items) < len(keys):
        x, target = subject.x[rows], subject.target[rows]
        made = room.run(
            lambda rows: explain_chains(subject.model, x, target, context, group, min(CHUNK, rows))
        )
        items = [Item({"maps": maps.numpy()}) for maps in made]
        for key, item in zip(keys, items, strict=True):
            store.write("maps", key, item)
    return [torch.from_numpy(item.arrays["maps"].copy()) for item in items]


def _key(chain: Chain, name: str, draws: Draws, rows: slice) -> str:
    inputs = {"subject": name, "chain": chain.identity, "seed": draws.seed, "split": draws.split}
    return key_of("maps", {**inputs, "rows": [rows.start, rows.stop]})
