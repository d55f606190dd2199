"""Maps of many images, piece by piece, each kept as soon as it is made: the same call again goes on."""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from uproar.batches import spans
from uproar.estimators import Chain, Context, explain_chains, families, prepare_states
from uproar.estimators.explain import check_kind
from uproar.models import MemoryBudget, borrowed
from uproar.models.output_kind import SOFTMAX, OutputKind, assuming_output
from uproar.seeds import Draws
from uproar.storage.store import Item, Store, key_of

CHUNK = 64
"""Images per stored piece, at most."""
PIECE = CHUNK * 64 * 64 * 25
"""Pixels times passes of a piece, about: large images and expensive estimators come in smaller pieces."""


@dataclass(frozen=True)
class Subject:
    """A model with the images it is to be explained on."""

    model: nn.Module
    x: Tensor
    target: Tensor
    context: Context
    made: Mapping[str, Any] = field(default_factory=dict)
    """How the model and its data came about: what its weights do not say, such as the text of a user's file."""
    output: OutputKind = SOFTMAX
    """What the model's answers are."""

    def identity(self) -> str:
        """A hash of the weights, of how the model was made and of the colour that stands for nothing."""
        total = hashlib.sha256(repr(sorted(self.made.items())).encode())
        for name, value in self.model.state_dict().items():
            total.update(name.encode())
            total.update(_bytes(value))
        if self.context.mean is not None:
            total.update(_bytes(self.context.mean))
        return total.hexdigest()[:40]

    def pixels(self, rows: slice) -> str:
        """A hash of some images and their classes."""
        total = hashlib.sha256()
        for part in (self.x[rows], self.target[rows]):
            total.update(str(tuple(part.shape)).encode())
            total.update(_bytes(part))
        return total.hexdigest()[:40]


def _bytes(value: Tensor) -> memoryview:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


@dataclass(frozen=True)
class Piece:
    """Maps of some images by chains that share passes."""

    group: tuple[Chain, ...]
    rows: slice
    keys: tuple[str, ...]
    there: bool
    """Whether the store has it."""
    passes: float
    """Forward and backward per image."""

    @property
    def work(self) -> float:
        """Passes to be made; reading, ranking and writing count as a third of one."""
        return 0.0 if self.there else (self.rows.stop - self.rows.start) * (0.3 + self.passes)


Listener = Callable[[Piece, float, int], None]
"""A piece that is there now, the seconds it took, and how many images have all their maps."""


def pieces_of(subject: Subject, chains: Sequence[Chain], store: Store, classes: int = 10) -> list[Piece]:
    """The pieces of all maps in the order they are made: images one after the other, each by all chains."""
    name, kind = subject.identity(), subject.output.kind
    other = {} if kind == "softmax" else {"output": kind}
    pixels: dict[tuple[int, int], str] = {}
    pieces = []
    for group in map(tuple, families(chains)):
        passes = max(chain.passes_for(classes) for chain in group)
        h, w = subject.x.shape[2:]
        size = int(max(1, min(CHUNK, PIECE // (h * w * max(passes, 25)))))
        for rows in spans(len(subject.x), size):
            span = rows.start, rows.stop
            if span not in pixels:
                pixels[span] = subject.pixels(rows)
            facts = {"model": name, "pixels": pixels[span], "rows": [rows.start, rows.stop], **other}
            keys = tuple(_key(chain, facts, subject.context.draws) for chain in group)
            there = all(store.has("maps", key) for key in keys)
            pieces.append(Piece(group, rows, keys, there, passes))
    return sorted(pieces, key=lambda piece: piece.rows.start)


def _key(chain: Chain, facts: Mapping[str, object], draws: Draws) -> str:
    inputs = {"chain": chain.identity, "seed": draws.seed, "split": draws.split}
    return key_of("maps", {**facts, **inputs})


def stored_maps(
    subject: Subject,
    chains: Sequence[Chain],
    store: Store,
    listen: Listener = lambda *_: None,
    pieces: Sequence[Piece] | None = None,
) -> dict[str, Tensor]:
    """The maps of every chain for all images; pieces that the store has are read, the others made and kept.

    `pieces` are those of `pieces_of`, where the caller has them already.
    """
    if not chains:
        return {}
    pieces = pieces_of(subject, chains, store) if pieces is None else pieces
    maker = MapMaker(subject, chains)
    maps_by_chain: dict[str, list[Tensor]] = {chain.name: [] for chain in chains}
    done = dict.fromkeys((piece.group for piece in pieces), 0)
    for piece in pieces:
        began = time.perf_counter()
        for chain, maps in zip(piece.group, _maps_of(piece, maker, store), strict=True):
            maps_by_chain[chain.name].append(maps)
        done[piece.group] = piece.rows.stop
        listen(piece, time.perf_counter() - began, min(done.values()))
    return {name: torch.cat(parts) for name, parts in maps_by_chain.items()}


class MapMaker:
    """Makes pieces; what all of them need is prepared before the first."""

    def __init__(self, subject: Subject, chains: Sequence[Chain]) -> None:
        self.subject, self.chains = subject, chains

    @functools.cached_property
    def output(self) -> OutputKind:
        """What the model's answers are; refused where a chain needs probabilities and there are none."""
        check_kind(self.chains, self.subject.output)
        return self.subject.output

    @functools.cached_property
    def context(self) -> Context:
        """The context with what estimators prepare."""
        with assuming_output(self.output), borrowed(self.subject.model), torch.no_grad():
            states = prepare_states(self.subject.model, self.subject.context, self.chains)
        return replace(self.subject.context, states=states)

    @functools.cached_property
    def budget(self) -> MemoryBudget:
        """How many images go through the model at once."""
        needs_model = any(chain.needs_model for chain in self.chains)
        return MemoryBudget.of(self.subject.model, self.subject.x) if needs_model else MemoryBudget(CHUNK)

    def make(self, piece: Piece) -> list[Tensor]:
        """The maps of a piece, by chain."""
        model, rows, context = self.subject.model, piece.rows, self.context[piece.rows]
        x, target = self.subject.x[rows], self.subject.target[rows]
        with assuming_output(self.output):
            return self.budget.run(
                lambda some: explain_chains(model, x, target, context, piece.group, min(CHUNK, some))
            )


def _maps_of(piece: Piece, maker: MapMaker, store: Store) -> list[Tensor]:
    """A piece from the store, or made and kept there."""
    items = [item for key in piece.keys if (item := store.find("maps", key)) is not None]
    if len(items) < len(piece.keys):
        items = [Item({"maps": maps.numpy()}) for maps in maker.make(piece)]
        for key, item in zip(piece.keys, items, strict=True):
            store.write("maps", key, item)
    return [torch.from_numpy(item.arrays["maps"].copy()) for item in items]
