"""Tiny sets in official layouts, written the slow and plain way, so that the readers have something to agree with."""

from __future__ import annotations

import gzip
import pickle
import struct
from pathlib import Path

import numpy as np


def pixels(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def write_idx(file: Path, array: np.ndarray) -> None:
    header = struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    content = header + array.tobytes()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)


def write_mnist(folder: Path, train: int = 30, test: int = 20, end: str = "") -> None:
    for stem, n, seed in (("train", train, 1), ("t10k", test, 2)):
        write_idx(folder / f"{stem}-images-idx3-ubyte{end}", pixels(n, 28, 28, seed=seed))
        write_idx(folder / f"{stem}-labels-idx1-ubyte{end}", (np.arange(n) % 10).astype(np.uint8))


def write_cifar10(folder: Path, layout: str, protocol: int = 2) -> None:
    """Five batches of ten images and a test batch, as records or as pickles of a dict with bytes as keys."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        images, labels = pixels(10, 3072, seed=seed), list(range(10))
        if layout == "binary":
            records = [
                bytes([label]) + row.tobytes() for label, row in zip(labels, images, strict=True)
            ]
            (folder / f"{name}.bin").write_bytes(b"".join(records))
        else:
            held = {b"batch_label": name.encode(), b"labels": labels, b"data": images,
                    b"filenames": [b"x.png"] * 10}  # fmt: skip
            (folder / name).write_bytes(pickle.dumps(held, protocol))


def write_cifar100(folder: Path, layout: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "fine": [f"fine {i}" for i in range(100)],
        "coarse": [f"coarse {i}" for i in range(20)],
    }
    for seed, name in enumerate(("train", "test")):
        images, fine = pixels(100, 3072, seed=seed), np.arange(100)
        coarse = fine % 20
        if layout == "binary":
            records = [
                bytes([c, f]) + row.tobytes()
                for c, f, row in zip(coarse, fine, images, strict=True)
            ]
            (folder / f"{name}.bin").write_bytes(b"".join(records))
        else:
            held = {"data": images, "fine_labels": fine.tolist(), "coarse_labels": coarse.tolist()}
            (folder / name).write_bytes(pickle.dumps(held))
    if layout == "binary":
        for kind, values in names.items():
            (folder / f"{kind}_label_names.txt").write_text("\n".join(values) + "\n\n")
    else:
        held = {f"{kind}_label_names": values for kind, values in names.items()}
        (folder / "meta").write_bytes(pickle.dumps(held))


def write_svhn(folder: Path, **variables: np.ndarray) -> None:
    from scipy.io import savemat

    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(("train", "test")):
        held = {"X": pixels(20, 32, 32, 3, seed=seed).transpose(1, 2, 3, 0),
                "y": (np.arange(20) % 10 + 1).astype(np.uint8)[:, None]}  # fmt: skip
        held = {k: v for k, v in (held | variables).items() if v is not None}
        savemat(folder / f"{name}_32x32.mat", held)
