"""Tiny sets in official layouts, written the slow and plain way, so that the readers have something to agree with."""

from __future__ import annotations

import gzip
import pickle
import struct
from collections.abc import Sequence
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
            records = [bytes([label]) + row.tobytes() for label, row in zip(labels, images, strict=True)]
            (folder / f"{name}.bin").write_bytes(b"".join(records))
        else:
            held = {b"batch_label": name.encode(), b"labels": labels, b"data": images, b"filenames": [b"x.png"] * 10}
            (folder / name).write_bytes(pickle.dumps(held, protocol))


def write_cifar100(folder: Path, layout: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = {"fine": [f"fine {i}" for i in range(100)], "coarse": [f"coarse {i}" for i in range(20)]}
    for seed, name in enumerate(("train", "test")):
        images, fine = pixels(100, 3072, seed=seed), np.arange(100)
        coarse = fine % 20
        if layout == "binary":
            records = [bytes([c, f]) + row.tobytes() for c, f, row in zip(coarse, fine, images, strict=True)]
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
        held = {
            "X": pixels(20, 32, 32, 3, seed=seed).transpose(1, 2, 3, 0),
            "y": (np.arange(20) % 10 + 1).astype(np.uint8)[:, None],
        }
        held = {k: v for k, v in (held | variables).items() if v is not None}
        savemat(folder / f"{name}_32x32.mat", held)


BOX = (20, 8, 33, 19)
"""Where `write_picture` puts its bright rectangle, last column and row included."""


def write_picture(file: Path, level: int = 40, box: tuple[int, ...] | None = BOX, size=(48, 36)) -> None:
    """A grey picture with a white rectangle, without loss whatever the name says."""
    from PIL import Image

    pixels = np.full((size[1], size[0], 3), level, np.uint8)
    if box is not None:
        x0, y0, x1, y1 = box
        pixels[y0 : y1 + 1, x0 : x1 + 1] = 255
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file, "PNG")


def write_lines(file: Path, *lines: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line}\n" for line in lines))


def write_cub(folder: Path) -> None:
    """Two classes, two training images and one test image of each."""
    classes = ("001.Black_footed_Albatross", "002.Laysan_Albatross")
    names = [(c, f"{name}/{name[4:]}_{i}.jpg") for c, name in enumerate(classes, 1) for i in range(3)]
    write_lines(folder / "classes.txt", *(f"{i} {name}" for i, name in enumerate(classes, 1)))
    write_lines(folder / "images.txt", *(f"{n} {name}" for n, (_, name) in enumerate(names, 1)))
    write_lines(folder / "image_class_labels.txt", *(f"{n} {c}" for n, (c, _) in enumerate(names, 1)))
    write_lines(folder / "train_test_split.txt", *(f"{n} {int(n % 3 != 0)}" for n in range(1, 7)))
    x0, y0, x1, y1 = BOX
    box = f"{x0}.0 {y0}.0 {x1 - x0 + 1}.0 {y1 - y0 + 1}.0"
    write_lines(folder / "bounding_boxes.txt", *(f"{n} {box}" for n in range(1, 7)))
    for n, (_, name) in enumerate(names, 1):
        write_picture(folder / "images" / name, 10 * n)


def write_food(folder: Path) -> None:
    classes = ("apple_pie", "paella")
    write_lines(folder / "meta" / "classes.txt", *classes)
    for split, numbers in (("train", (1, 2)), ("test", (3,))):
        names = [f"{name}/{n}" for name in classes for n in numbers]
        write_lines(folder / "meta" / f"{split}.txt", *names)
        for name in names:
            write_picture(folder / "images" / f"{name}.jpg", 20 * len(name))


def write_birdsnap(folder: Path, urls: str = "http://127.0.0.1:9") -> None:
    """Lists of six photos of two species; the photos themselves are for the caller."""
    import hashlib

    write_picture(folder.parent / "one.jpg")
    md5 = hashlib.md5((folder.parent / "one.jpg").read_bytes()).hexdigest()
    write_lines(
        folder / "species.txt",
        "id\tcommon\tscientific\tdir",
        "1\tAcadian Flycatcher\tE. v.\tacadian_flycatcher",
        "2\tAcorn Woodpecker\tM. f.\tacorn_woodpecker",
    )
    paths = [f"{name}/{i}.jpg" for name in ("Acadian_Flycatcher", "Acorn_Woodpecker") for i in range(3)]
    box = "\t".join(map(str, BOX))
    write_lines(
        folder / "images.txt",
        "url\tmd5\tpath\tspecies_id\tbb_x1\tbb_y1\tbb_x2\tbb_y2",
        *(f"{urls}/{p}\t{md5}\t{p}\t{1 + (i > 2)}\t{box}" for i, p in enumerate(paths)),
    )
    write_lines(folder / "test_images.txt", "path", paths[0], paths[3])


def write_tiny_imagenet(folder: Path, wnids: Sequence[str] = ("n02", "n01"), kept: Sequence[str] | None = None) -> None:
    """Two training images and one for validation of each class, as grey as its number; or only those of some classes."""
    box = "\t".join(map(str, BOX))
    rows = [(i, wnid) for i, wnid in enumerate(wnids) if kept is None or wnid in kept]
    write_lines(folder / "wnids.txt", *(wnid for _, wnid in rows))
    write_lines(folder / "words.txt", "n01\tcrane, a bird", "n02\tfrog", "n03\tcrane, a machine")
    for number, wnid in rows:
        level, names = 10 * int(wnid[1:]), [f"{wnid}_{i}.JPEG" for i in range(2)]
        for name in names:
            write_picture(folder / "train" / wnid / "images" / name, level, size=(64, 64))
        write_lines(folder / "train" / wnid / f"{wnid}_boxes.txt", *(f"{name}\t{box}" for name in names))
        write_picture(folder / "val" / "images" / f"val_{number}.JPEG", level, size=(64, 64))
    table = (f"val_{number}.JPEG\t{wnid}\t{box}" for number, wnid in rows)
    write_lines(folder / "val" / "val_annotations.txt", *table)


WNIDS = ("n01440764", "n01443537")


def write_imagenet(folder: Path, labels: str) -> None:
    """Two classes; the four validation photos are of the classes 1, 0, 1, 0, said in one of three ways."""
    from scipy.io import savemat

    data = folder / "ILSVRC" / "Data" / "CLS-LOC" if labels == "solution" else folder
    for wnid in WNIDS:
        for i in range(2):
            write_picture(data / "train" / wnid / f"{wnid}_{i}.JPEG")
    truth = [WNIDS[1], WNIDS[0], WNIDS[1], WNIDS[0]]
    names = [f"ILSVRC2012_val_{i:08d}" for i in range(1, 5)]
    for name, wnid in zip(names, truth, strict=True):
        place = data / "val" / wnid if labels == "folders" else data / "val"
        write_picture(place / f"{name}.JPEG")
    if labels == "solution":
        rows = [f"{name},{wnid} 1 2 3 4 " for name, wnid in zip(names, truth, strict=True)]
        write_lines(folder / "LOC_val_solution.csv", "ImageId,PredictionString", *rows)
        write_lines(folder / "LOC_synset_mapping.txt", f"{WNIDS[0]} tench, Tinca tinca", f"{WNIDS[1]} goldfish")
    if labels == "kit":  # the kit numbers classes in an order of its own, inner nodes last
        kit = folder / "ILSVRC2012_devkit_t12" / "data"
        write_lines(kit / "ILSVRC2012_validation_ground_truth.txt", "1", "2", "1", "2")
        kind = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("num_children", "O")]
        rows = [(1, WNIDS[1], 0), (2, WNIDS[0], 0), (3, "n00000001", 2)]
        savemat(kit / "meta.mat", {"synsets": np.array(rows, dtype=kind)})
    if labels == "kit":
        for name, wnid in zip(names, truth, strict=True):
            write_box_file(folder / "bbox" / "val" / f"{name}.xml", [(wnid, BOX)])


def write_box_file(file: Path, objects: list[tuple[str, tuple[int, ...]]]) -> None:
    def edge(name: str, value: int) -> str:
        return f"<{name}>{value}</{name}>"

    parts = [
        f"<object><name>{wnid}</name><bndbox>"
        + "".join(edge(n, v) for n, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
        + "</bndbox></object>"
        for wnid, box in objects
    ]
    size = "<size><width>48</width><height>36</height><depth>3</depth></size>"
    write_lines(file, f"<annotation>{size}{''.join(parts)}</annotation>")
