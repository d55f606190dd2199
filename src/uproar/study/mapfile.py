"""The maps of all images of a task, train and test, as one file that a study takes as `maps:FILE`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from uproar.arrays import stream_arrays
from uproar.batches import spans
from uproar.data import Split
from uproar.devices import deterministic
from uproar.errors import BadInput
from uproar.estimators import Chain, families
from uproar.storage.store import Item, key_of
from uproar.study.bench import Bench
from uproar.study.maps import CHUNK
from uproar.study.settings import ImageRanking


def write_maps(
    bench: Bench,
    chains: Sequence[Chain],
    seed: int,
    files: Sequence[Path],
    listen: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """The maps of every chain into its file; pieces are kept in the store, so that the same call again goes on.

    They are the signed maps, (n, c, h, w), or (n, 1, h, w) where an estimator knows no channels, bit for bit as a
    study makes them on the same base model; sign, channels and filters are the business of the study that takes them.
    """
    for chain in chains:
        if chain.is_direct:
            raise BadInput(f"{chain.name} removes without ranking, so it has no maps.")
        if chain.filters:
            raise BadInput(
                f"A file keeps signed maps, and {chain.filters[-1].name} filters finished ones: write those of "
                f"{chain.raw.name}, and use {chain.filters[-1].name}(maps:FILE) in the study."
            )
    with deterministic(bench.device):
        _make(bench, chains, seed, listen)
        for chain, file in zip(chains, files, strict=True):
            _join(bench, chain, seed, file)


def _make(bench: Bench, chains: Sequence[Chain], seed: int, listen: Callable[[int, int], None]) -> None:
    """All pieces that the store lacks; chains that share passes are made together."""
    groups = families(chains)
    total, done = len(groups) * sum(len(split) for split in _splits(bench)), 0
    for group in groups:
        for split in _splits(bench):
            made = None
            for rows in spans(len(split), CHUNK):
                keys = [_key(bench, chain, seed, split, rows) for chain in group]
                if not all(bench.store.has("maps", key) for key in keys):
                    made = made or bench.explainer.signed_maps(group, seed, split)
                    for key, maps in zip(keys, made(_numbers(rows)), strict=True):
                        bench.store.write("maps", key, Item({"maps": maps.numpy()}))
                done += rows.stop - rows.start
                listen(done, total)


def _join(bench: Bench, chain: Chain, seed: int, file: Path) -> None:
    """The pieces of a chain as one file, without holding more than one."""
    shapes: dict[str, tuple[Literal["F32", "I64"], tuple[int, ...]]] = {}
    for split in _splits(bench):
        first = next(_pieces(bench, chain, seed, split))
        shapes[split.name] = ("F32", (len(split), *first.shape[1:]))
        shapes[f"{split.name}_labels"] = ("I64", (len(split),))

    def parts() -> Iterator[np.ndarray]:
        for split in _splits(bench):
            yield from _pieces(bench, chain, seed, split)
            yield split.labels.numpy()

    stream_arrays(file, shapes, parts())


def _pieces(bench: Bench, chain: Chain, seed: int, split: Split) -> Iterator[np.ndarray]:
    """The maps of a split from the store, piece by piece; one that was lost or damaged is made again."""
    for rows in spans(len(split), CHUNK):
        key = _key(bench, chain, seed, split, rows)

        def again(rows: slice = rows) -> Item:
            (maps,) = bench.explainer.signed_maps([chain], seed, split)(_numbers(rows))
            return Item({"maps": maps.numpy()})

        yield bench.store.once("maps", key, again).arrays["maps"]


def _splits(bench: Bench) -> tuple[Split, Split]:
    return bench.task.train, bench.task.test


def _numbers(rows: slice) -> torch.Tensor:
    return torch.arange(rows.start, rows.stop)


def _key(bench: Bench, chain: Chain, seed: int, split: Split, rows: slice) -> str:
    inputs = {"order": bench.keys.ranking(ImageRanking(chain, seed)), "split": split.name}
    return key_of("maps", {**inputs, "rows": [rows.start, rows.stop], "form": "signed"})
