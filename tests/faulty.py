"""Faults put into the files of a store, and a tiny study that uses every kind of file; for tests and benchmarks/faults.py."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pandas as pd

import uproar
from tests.readings import forget
from uproar.study import ranking as shards

STUDY = {
    "name": "faults",
    "task": "planted(size=8, classes=3, train=24, test=18)",
    "model": "cnn-small(width=2)",
    "estimators": ["random", "grad"],
    "metrics": ["roar", "kar", "deletion"],
    "fractions": [0.3, 0.7],
    "seeds": 2,
    "recipe": {"epochs": 1, "batch": 12},
    "audits": ["sanity"],
}
"""Retraining, metrics and an audit that compares stored maps of two networks, on 42 images."""

EVERY_KIND = {
    **STUDY,
    "estimators": ["random", "iba(steps=1, samples=1)"],
    "audits": ["sanity", 'values(estimators=["grad"])'],
}
"""Also an estimator that prepares something for its network, and an audit that changes the values of maps."""

SMALL_SHARDS = 64 * 10
"""Features in a shard, so that even these images lie in several."""


def small_shards(size: int = SMALL_SHARDS) -> None:
    """Explain in shards of a few images in this process."""
    shards.SHARD = size


def run(store: Path, **changes) -> uproar.Run:
    """The study on a store, as a new process would run it."""
    forget()
    return uproar.run({**STUDY, **changes}, store=store, jobs=1)


def tables(run: uproar.Run) -> dict[str, str]:
    """All numbers of a run as text, to the last bit; times and what depends on them left out."""
    result = {
        "cells": run.cells.drop(columns="seconds"),
        "scores": run.scores,
        "image_scores": run.image_scores,
        "verdicts": run.verdicts,
        "intervals": run.intervals,
    }
    texts = {name: frame.to_json(double_precision=15) for name, frame in result.items()}
    for finding in run.findings:
        texts[f"audit {finding.audit}"] = repr((finding.state, finding.sentence, finding.marks))
        for name, frame in finding.tables.items():
            texts[f"audit {finding.audit} {name}"] = pd.DataFrame(frame).to_json(orient="split", double_precision=15)
    return texts


class Faults:
    """Random faults, the same for the same seed; each says what it did."""

    def __init__(self, store: Path, seed: int) -> None:
        self.store, self.draw = store, random.Random(seed)

    def files(self) -> list[Path]:
        """The files of results, sorted."""
        return sorted(self.store.glob("*/??/*.safetensors"))

    def some(self, count: int) -> list[str]:
        """That many faults of any kind."""
        kinds = (
            self.flip,
            self.flip_header,
            self.truncate,
            self.delete,
            self.swap,
            self.swap_kinds,
            self.edit_facts,
            self.mark,
        )
        return [self.draw.choice(kinds)() for _ in range(count)]

    def _pick(self) -> Path:
        """A file of any kind: kinds are equally likely, however many files they have."""
        kind = self.draw.choice(sorted({path.parts[-3] for path in self.files()}))
        return self.draw.choice([path for path in self.files() if path.parts[-3] == kind])

    def _say(self, what: str, *paths: Path) -> str:
        return f"{what} {', '.join(str(path.relative_to(self.store)) for path in paths)}"

    def _flip(self, path: Path, below: int | None = None) -> str:
        content = bytearray(path.read_bytes())
        if not content:
            return self._say("left empty", path)
        place = self.draw.randrange(min(below or len(content), len(content)))
        content[place] ^= 1 << self.draw.randrange(8)
        path.write_bytes(content)
        return self._say(f"flipped a bit of byte {place} of", path)

    def flip(self) -> str:
        return self._flip(self._pick())

    def flip_header(self) -> str:
        path = self._pick()
        return self._flip(path, 8 + int.from_bytes(path.read_bytes()[:8], "little") % 2**20)

    def truncate(self) -> str:
        path = self._pick()
        size = self.draw.choice([0, self.draw.randrange(path.stat().st_size + 1)])
        path.write_bytes(path.read_bytes()[:size])
        return self._say(f"cut after {size} bytes", path)

    def delete(self) -> str:
        path = self._pick()
        path.unlink()
        return self._say("deleted", path)

    def swap(self) -> str:
        a = self._pick()
        others = [p for p in self.files() if p.parts[-3] == a.parts[-3] and p != a]
        return self._swap(a, self.draw.choice(others or [a]))

    def swap_kinds(self) -> str:
        a = self._pick()
        others = [p for p in self.files() if p.parts[-3] != a.parts[-3]]
        return self._swap(a, self.draw.choice(others or [a]))

    def _swap(self, a: Path, b: Path) -> str:
        first, second = a.read_bytes(), b.read_bytes()
        a.write_bytes(second)
        b.write_bytes(first)
        return self._say("swapped", a, b)

    def edit_facts(self) -> str:
        """Another digit in the header, as a careless editor would leave it."""
        path = self._pick()
        content = bytearray(path.read_bytes())
        end = min(len(content), 8 + int.from_bytes(content[:8], "little") % 2**20)
        digits = [i for i in range(8, end) if 48 <= content[i] <= 57]
        if not digits:
            return self._flip(path)
        place = self.draw.choice(digits)
        content[place] = 48 + (content[place] - 48 + self.draw.randrange(1, 10)) % 10
        path.write_bytes(content)
        return self._say(f"another digit at byte {place} of", path)

    def mark(self) -> str:
        """Damage the store's marker."""
        marker = self.store / "FORMAT.json"
        if self.draw.random() < 0.5:
            return self._flip(marker)
        marker.write_text(self.draw.choice(["", "{", json.dumps({"format": "x"}), "null"]))
        return self._say("overwrote", marker)


def copied(store: Path, to: Path) -> Path:
    """A store of the same content."""
    shutil.copytree(store, to)
    return to


def removed(store: Path) -> None:
    """Take a store away."""
    shutil.rmtree(store, ignore_errors=True)
