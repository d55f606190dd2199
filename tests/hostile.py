"""Files made to do harm, and what reads them: for tests and benchmarks/faults.py.

Weights and archives that would run code, write outside their folder or claim more than they hold are read as what they
are or refused in one line; a page shows markup in names as text.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import re
import struct
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mutations import Mutations, refused_or_read
from uproar.data.arrays import read_arrays
from uproar.data.download import unpack
from uproar.data.small_sets import pickled_table
from uproar.models.weights import read_weights

SLOW = 20.0
"""Seconds after which a file counts as one that hangs its reader."""

Write = Callable[[random.Random, Path, Path], Path]
"""Writes a hostile file into a folder; the other path is a file that nothing may create."""


# weights


class Runs:
    """Pickled, it calls a function with arguments when it is read."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def _code(draw: random.Random, canary: Path) -> Runs:
    """One of the usual ways to run code while something is unpickled."""
    return draw.choice(
        [
            Runs(os.system, f"touch {canary}"),
            Runs(eval, f"open({str(canary)!r}, 'w')"),
            Runs(exec, f"open({str(canary)!r}, 'w').close()"),
            Runs(subprocess.check_output, ["touch", str(canary)]),
            Runs(open, str(canary), "w"),
            Runs(os.mkdir, str(canary)),
            Runs(getattr, Runs(__import__, "os"), "abort"),
            Runs(map, print, [Runs(os.system, f"touch {canary}")]),
        ]
    )


def _hidden(draw: random.Random, code: Runs) -> Any:
    """Code at some place of what looks like a checkpoint."""
    tensors: dict[Any, Any] = {"weight": torch.ones(2, 2), "bias": torch.ones(2)}
    return draw.choice(
        [code, {**tensors, "extra": code}, {"state_dict": {**tensors, "x": code}}, [tensors, code], {code: 1}]
    )


def pickled_weights(draw: random.Random, folder: Path, canary: Path) -> Path:
    """A checkpoint with code in it, in either format of torch.save or as a plain pickle."""
    file = folder / f"weights{draw.choice(['.pth', '.pt', '.bin', '.ckpt', '.safetensors'])}"
    content = _hidden(draw, _code(draw, canary))
    if draw.random() < 0.3:
        file.write_bytes(pickle.dumps(content, draw.randrange(6)))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=draw.random() < 0.5)
    return file


def safetensors_headers(draw: random.Random, folder: Path, canary: Path) -> Path:
    """A safetensors file whose header is cut, huge, overlapping or not JSON."""
    shape = draw.choice([[2, 2], [-1], [10**12], [2**31, 2**31], [], [0], ["2"], 4])
    span = draw.choice([[0, 16], [16, 0], [0, 10**15], [-8, 8], [8, 24], [0], None])
    kind = draw.choice(["F32", "F64", "BF16", "F8_E4M3", "Q9", 3, None])
    entry = {"dtype": kind, "shape": shape, "data_offsets": span}
    header = json.dumps({"a": entry, **({"b": entry} if draw.random() < 0.5 else {})}).encode()
    header = draw.choice(
        [header, header[: draw.randrange(len(header))], b"[" * 50_000, b"{}", b"\0" * 40, b'{"a":NaN}']
    )
    length = draw.choice([len(header), len(header) + 1, 0, 2**31, 2**63, 2**64 - 1])
    file = folder / "weights.safetensors"
    file.write_bytes(struct.pack("<Q", length) + header + bytes(draw.choice([0, 1, 16, 32])))
    return file


def damaged_checkpoints(draw: random.Random, folder: Path, canary: Path) -> Path:
    """A checkpoint with code in it that is changed at random as well."""
    file = pickled_weights(draw, folder, canary)
    file.write_bytes(Mutations(draw.randrange(2**30)).content(file.read_bytes()))
    return file


def pickled_arrays(draw: random.Random, folder: Path, canary: Path) -> Path:
    """Arrays of objects, which numpy would unpickle, alone or in an archive."""
    held = np.array([_code(draw, canary), 1], dtype=object)
    file = folder / draw.choice(["maps.npy", "maps.npz"])
    if file.suffix == ".npy":
        np.save(file, held, allow_pickle=True)
    else:
        np.savez(file, images=np.zeros((2, 1, 4, 4), np.float32), maps=held)
    return file


def pickled_batches(draw: random.Random, folder: Path, canary: Path) -> Path:
    """A batch in the layout of CIFAR with code in it."""
    file = folder / "batch"
    held = {"data": np.zeros((2, 3072), np.uint8), "labels": draw.choice([[0, 1], _code(draw, canary)])}
    file.write_bytes(pickle.dumps({**held, "x": _code(draw, canary)}, draw.randrange(6)))
    return file


def claimed_arrays(draw: random.Random, folder: Path, canary: Path) -> Path:
    """An array, alone or compressed in an archive, whose header claims far more than there is."""
    buffer = io.BytesIO()
    shape = tuple(draw.choice([10**3, 10**6, 10**9, 2**40, -1, 0]) for _ in range(draw.randrange(1, 5)))
    kind = draw.choice(["<f4", "<f8", "|O", "<U99999", "|V1"])
    np.lib.format.write_array_header_1_0(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    content = buffer.getvalue() + bytes(draw.choice([0, 7, 4096]))
    file = folder / draw.choice(["maps.npy", "maps.npz"])
    if file.suffix == ".npy":
        file.write_bytes(content)
    else:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("images.npy", content)
    return file


READERS: dict[Write, Callable[[Path], object]] = {
    pickled_weights: read_weights,
    safetensors_headers: read_weights,
    damaged_checkpoints: read_weights,
    pickled_arrays: read_arrays,
    claimed_arrays: read_arrays,
    pickled_batches: pickled_table,
}


def weights(trials: int, seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Weight and array files that would run code or exhaust memory: which kind, and what went wrong."""
    canary = folder / "canary"
    kinds = list(READERS)
    for number in range(trials):
        write = kinds[number % len(kinds)]
        file = write(random.Random(seed + number), folder, canary)
        began = time.monotonic()
        wrong = refused_or_read(lambda file=file, write=write: READERS[write](file))
        yield _name(write), wrong or _harm(canary, began)
        file.unlink()


def _name(write: Callable[..., object]) -> str:
    return write.__name__.replace("_", " ")


def _harm(canary: Path, began: float) -> str:
    if canary.exists():
        canary.rmdir() if canary.is_dir() else canary.unlink()
        return "code in the file was run, or a file was written outside"
    return f"took {time.monotonic() - began:.0f} s" if time.monotonic() - began > SLOW else ""


# archives


def climbing(draw: random.Random, folder: Path, canary: Path) -> Path:
    """Members whose names lead outside, by dots or from the root."""
    up = "../" * draw.randrange(1, 6)
    name = draw.choice([f"{up}canary", f"set/{up}../canary", str(canary), f"set/./{up}canary", f"..\\{canary.name}"])
    return _archive(draw, folder, [("set/a.txt", b"a"), (name, b"x")])


def links(draw: random.Random, folder: Path, canary: Path) -> Path:
    """Links that lead outside, and a member that is written through one."""
    file = folder / draw.choice(["a.tar.gz", "a.tar", "a.tgz"])
    target = draw.choice([str(canary.parent), "../..", "../../canary", "/etc/passwd", "/"])
    with tarfile.open(file, "w:gz" if file.suffix != ".tar" else "w") as pack:
        link = tarfile.TarInfo("set/link")
        link.type, link.linkname = draw.choice([tarfile.SYMTYPE, tarfile.LNKTYPE]), target
        pack.addfile(link)
        through = tarfile.TarInfo("set/link/canary")
        through.size = 1
        pack.addfile(through, io.BytesIO(b"x"))
    return file


def devices(draw: random.Random, folder: Path, canary: Path) -> Path:
    """Devices, pipes and strange modes and owners."""
    file = folder / "a.tar"
    with tarfile.open(file, "w") as pack:
        member = tarfile.TarInfo("set/device")
        member.type = draw.choice([tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.REGTYPE, b"?"])
        member.mode, member.uid = draw.choice([0, 0o4777, 0o777]), draw.choice([0, 2**31])
        pack.addfile(member)
    return file


def damaged_archives(draw: random.Random, folder: Path, canary: Path) -> Path:
    """Archives of all these kinds that are cut or changed at random."""
    file = draw.choice([climbing, links, devices])(draw, folder, canary)
    file.write_bytes(Mutations(draw.randrange(2**30)).content(file.read_bytes()))
    return file


def _archive(draw: random.Random, folder: Path, members: list[tuple[str, bytes]]) -> Path:
    file = folder / draw.choice(["a.zip", "a.tar.gz", "a.tar"])
    if file.suffix == ".zip":
        with zipfile.ZipFile(file, "w") as held:
            for name, content in members:
                held.writestr(name, content)
        return file
    with tarfile.open(file, "w:gz" if file.suffix == ".gz" else "w") as pack:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            pack.addfile(member, io.BytesIO(content))
    return file


ARCHIVES: tuple[Write, ...] = (climbing, links, devices, damaged_archives)


def archives(trials: int, seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Archives that would write outside their folder or fill the disk: which kind, and what went wrong."""
    inside = folder / "deep" / "er" / "root"
    for number in range(trials):
        write = ARCHIVES[number % len(ARCHIVES)]
        inside.mkdir(parents=True)
        file = write(random.Random(seed + number), folder, folder / "canary")
        began = time.monotonic()
        wrong = refused_or_read(lambda file=file: unpack(file, inside))
        yield _name(write), wrong or _harm(folder / "canary", began) or _escaped(folder, inside, file)
        file.unlink()
        _remove(folder / "deep")


def _escaped(folder: Path, inside: Path, archive: Path) -> str:
    """What lies outside the folder of an archive, or leads there."""
    for path in folder.rglob("*"):
        if path.is_symlink() and not path.resolve().is_relative_to(inside):
            return f"a link to {path.resolve()}"
        if path.is_file() and path != archive and not path.is_relative_to(inside):
            return f"{path.relative_to(folder)} was written"
        if path.exists() and not (path.is_file() or path.is_dir()):
            return f"{path.relative_to(folder)} is no plain file"
    size = sum(path.stat().st_size for path in inside.rglob("*") if path.is_file())
    return f"{size} bytes were written" if size > 2**27 else ""


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


# pages

MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "</script><b>bold</b>",
    "\"onmouseover='alert(3)' x=\"",
    "</style><iframe src=//evil.example></iframe>",
    "<svg/onload=alert(4)>",
    "{{ 7 * 7 }}{% raw %}",
    "]]><x:y/>&#60;u&#62;",
    "javascript:alert(5)",
    "<!-- comment --><u>t</u>",
    "$\\frac{1}{2}$_^ %{y}<extra>",
    "<a href='http://evil.example'>a</a>",
)


class Elements(HTMLParser):
    """The elements of a page with their attributes, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: dict[str, int] = {}
        self.attributes: set[tuple[str, str]] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes |= {(tag, name) for name, _ in attrs}
        for name, value in attrs:
            if name in ("href", "src", "xlink:href") and re.match(r"\s*(javascript|https?|//)", value or "", re.I):
                self.attributes.add((tag, f"{name}={value}"))


def pages(trials: int, seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Reports and score pages whose names, labels, reasons and notes are markup: which page, and what went wrong."""
    for number in range(trials):
        kind = ("report of a run", "page of scores")[number % 2]
        draw = random.Random(seed + number)
        write = _report if kind == "report of a run" else _scores
        plain = Elements(write(folder / "plain", lambda i: f"name{i}"))
        chosen = draw.sample(MARKUP, len(MARKUP))
        hostile = Elements(write(folder / "hostile", lambda i, names=chosen: f"{names[i % len(names)]}{i}"))
        yield kind, _added(plain, hostile)


def _added(plain: Elements, hostile: Elements) -> str:
    """Elements and attributes that a page has only because of the names on it."""
    if plain.tags.get("script") != hostile.tags.get("script"):
        return f"{hostile.tags.get('script')} scripts, not {plain.tags.get('script')}"
    tags = set(hostile.tags) - set(plain.tags) - {"wbr"}  # where a long name may be broken
    attributes = hostile.attributes - plain.attributes
    return f"new elements {sorted(tags)}, attributes {sorted(attributes)}" if tags or attributes else ""


def _report(folder: Path, name: Callable[[int], str]) -> str:
    """The page of a run whose every text is made by `name`."""
    from tests.report.conftest import cells, picture, results_of
    from uproar.report import write_report

    levels = {"random": 0.8, name(0): 0.6, name(1): 0.7, name(2): 0.9}
    rows = cells({"roar": levels, "kar": levels}, task=name(3), model=name(4))
    rows[-1] |= {"status": "failed", "reason": name(5), "accuracy": np.nan}
    results = results_of(
        rows,
        pictures=(picture(list(levels), task=name(3), model=name(4)),),
        notices=(name(6),),
        provenance={"command": name(7), "note": {"k": name(8)}},
        study={"name": name(9), "weights": None},
    )
    return write_report(results, folder).read_text()


def _scores(folder: Path, name: Callable[[int], str]) -> str:
    """The page of scores whose every text is made by `name`."""
    from tests.report.test_score_report import scores_of
    from uproar.report import write_report

    levels = {m: {"random": 0.3, name(0): 0.8, name(1): 0.5} for m in ("insertion", name(2))}
    settings = {
        "titles": tuple(name(3 + i) for i in range(4)),
        "notices": (name(7),),
        "provenance": {"model": name(8), "versions": {"uproar": name(9)}},
    }
    return write_report(scores_of(levels, curves=["insertion"], **settings), folder).read_text()
