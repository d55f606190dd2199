"""Input changed at random, and what reads it: for tests and benchmarks/faults.py.

A reader takes what it was given or refuses it with an error of uproar in one line; anything else is a fault.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from uproar.data.arrays import Rows, read_arrays
from uproar.data.small_sets import _pickled_batch
from uproar.errors import UproarError
from uproar.estimators import read_chain
from uproar.metrics.registry import read_metric
from uproar.models.weights import read_weights
from uproar.report.content import flat_facts
from uproar.report.markdown import facts_of
from uproar.study.record import earlier_facts, read_run, write_run
from uproar.study.sessions import run_in
from uproar.study.spec import Study, shipped_studies, study_of

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**9,
    10**20,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "a\0b",
    "ü" * 300,
    "9" * 5000,
    [],
    {},
    [[]],
    [None],
    {"": {}},
    "../..",
    "~nobody/x",
    "s3://u:p@b",
    "[" * 500,
    "sq(" * 60,
    ["x"] * 50,
)
EXPRESSIONS = (
    "gaussian(sg_sq(ig(steps=8), samples=20, sigma=0.1), sigma=2)",
    "captum:Saliency(abs=true)",
    'maps:"my maps.npz"',
    "soundness(level=[0.2, 0.5, 0.8])",
    "cnn-small(width=8)",
)


class Mutations:
    """Random changes, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def text(self, text: str) -> str:
        """Some letters taken away, doubled or put in."""
        for _ in range(self.draw.randrange(1, 6)):
            first = self.draw.randrange(len(text) + 1)
            last = min(len(text), first + self.draw.choice((0, 1, 1, 3, 20)))
            put = self.draw.choice(
                [
                    "",
                    text[first:last] * 2,
                    self.draw.choice("()[]{}=,.:\"'#\n\0-9eE~\\/ü\U0001f600"),
                    "9" * 400,
                    "[" * 99,
                ]
            )
            text = text[:first] + put + text[last:]
        return text

    def content(self, content: bytes) -> bytes:
        """Some bytes changed, the file cut, or a piece of it repeated."""
        changed = bytearray(content)
        for _ in range(self.draw.choice((1, 1, 2, 8))):
            if not changed:
                break
            place = self.draw.randrange(len(changed))
            kind = self.draw.randrange(4)
            if kind < 2:
                changed[place] = self.draw.randrange(256)
            elif kind == 2:
                del changed[place : place + self.draw.choice((1, 8, 10**6))]
            else:
                changed[place:place] = changed[place : place + self.draw.choice((1, 8, 64))]
        return bytes(changed)

    def value(self, value: Any) -> Any:
        """A JSON value of which one part, anywhere, is replaced, taken away or doubled."""
        value = copy.deepcopy(value)
        places = list(_places(value))
        holder, key = self.draw.choice(places)
        kind = self.draw.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = [copy.deepcopy(holder[key])]
        elif kind == 2 and isinstance(holder, dict):
            holder[self.draw.choice(("x", "", "self", "study", "unit"))] = holder.pop(key)
        else:
            holder[key] = self.draw.choice(ODD)
        return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def refused_or_read(read: Callable[[], object]) -> str:
    """Empty if something was read, or refused as it should be; else what went wrong."""
    try:
        read()
    except UproarError as error:
        text = str(error)
        return "" if len(text) < 5000 and text.strip() else f"a message of {len(text)} characters"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


def inputs(trials: int, seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Trials of all kinds: which kind it was, and what went wrong (nothing, if all is well)."""
    kinds = [_studies, _expressions, _records, _progress, _arrays, _weights, _batches]
    readers = [kind(folder / kind.__name__) for kind in kinds]
    for number in range(trials):
        place = number % len(kinds)
        change = Mutations(seed + number)
        name = kinds[place].__name__.strip("_")
        yield name, refused_or_read(lambda read=readers[place], change=change: read(change))


Reader = Callable[[Mutations], object]


def _studies(folder: Path) -> Reader:
    folder.mkdir()
    texts = [file.read_text() for file in shipped_studies().values()]

    def read(change: Mutations) -> object:
        file = folder / "study.toml"
        file.write_text(change.text(change.draw.choice(texts)))
        return study_of(file)

    return read


def _expressions(_: Path) -> Reader:
    def read(change: Mutations) -> object:
        text = change.text(change.draw.choice(EXPRESSIONS))
        return (read_metric if "soundness" in text else read_chain)(text)

    return read


TINY = {
    "tasks": "planted(size=8, classes=3, train=12, test=6)",
    "estimators": ["grad"],
    "seeds": 1,
    "metrics": ["roar"],
    "fractions": [0.5],
    "recipe": {"epochs": 1},
}


def _run(folder: Path) -> None:
    facts = {
        "command": "uproar run",
        "versions": {"uproar": "1"},
        "python": "3",
        "machine": "m",
        "executor": "serial",
        "seconds": 1.5,
        "wall": {"seconds": 1.5, "begun": 1, "ended": 1},
    }
    (folder / "store").mkdir(parents=True)
    write_run(folder, study_of(TINY), str(folder / "store"), facts)


def _reported(folder: Path, study: Study | None = None) -> object:
    """What a report does with the record and the progress of a run, without drawing."""
    record, place, facts = read_run(folder, trust=True)
    earlier_facts(folder)
    results = run_in(folder, study or record, place, facts)
    return flat_facts(results.provenance), facts_of(results)


def _records(folder: Path) -> Reader:
    _run(folder)
    file = folder / "run.json"
    content = json.loads(file.read_text())

    def read(change: Mutations) -> object:
        if change.draw.random() < 0.2:
            file.write_bytes(change.content(json.dumps(content).encode()))
        else:
            file.write_text(json.dumps(change.value(content)))
        return _reported(folder, study_of(TINY))

    return read


def _progress(folder: Path) -> Reader:
    _run(folder)
    content = {
        "total": 9,
        "cached": 1,
        "done": 3,
        "left": 2.5,
        "notices": ["a"],
        "machines": {"n": {"done": 1, "doing": ["x"]}},
        "skipped": {},
        "failed": {"key": "r"},
    }

    def read(change: Mutations) -> object:
        if change.draw.random() < 0.2:
            (folder / "progress.json").write_bytes(change.content(json.dumps(content).encode()))
        else:
            (folder / "progress.json").write_text(json.dumps(change.value(content)))
        return _reported(folder)

    return read


def _arrays(folder: Path) -> Reader:
    folder.mkdir()
    x = np.arange(96, dtype=np.float32).reshape(2, 3, 4, 4)
    np.savez(folder / "a.npz", images=x, labels=np.arange(2))
    np.savez_compressed(folder / "b.npz", images=x)
    np.save(folder / "c.npy", x)
    short = {"images": torch.from_numpy(x).bfloat16()}
    safetensors.torch.save_file(short, folder / "d.safetensors")
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}

    def read(change: Mutations) -> object:
        name = change.draw.choice(sorted(contents))
        file = folder / f"changed{Path(name).suffix}"
        file.write_bytes(change.content(contents[name]))
        read_arrays(file)
        return None if file.suffix == ".npy" else Rows(file).shapes

    return read


def _weights(folder: Path) -> Reader:
    folder.mkdir()
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(3), "b": torch.zeros(2, 2)}, buffer)
    contents = {".pth": buffer.getvalue(), ".safetensors": safetensors.torch.save({"a": torch.ones(3)})}

    def read(change: Mutations) -> object:
        suffix = change.draw.choice(sorted(contents))
        file = folder / f"changed{suffix}"
        file.write_bytes(change.content(contents[suffix]))
        return read_weights(file)

    return read


def _batches(folder: Path) -> Reader:
    folder.mkdir()
    held = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1], "filenames": ["a", "b"]}
    contents = [pickle.dumps(held, protocol) for protocol in range(6)]

    def read(change: Mutations) -> object:
        (folder / "batch").write_bytes(change.content(change.draw.choice(contents)))
        return _pickled_batch(folder / "batch", "labels")

    return read
