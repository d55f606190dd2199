"""Array, weight and data files that are unusual, broken or malicious: read where they mean something, else refused."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch

from uproar.data.arrays import Rows, read_arrays
from uproar.data.small_sets import _pickled_batch, pickled_table
from uproar.data.user_images import read_images
from uproar.errors import BadInput
from uproar.models.weights import read_weights


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_short_floats_are_read_as_what_they_are(tmp_path, kind):
    x = torch.rand(5, 1, 4, 4).to(getattr(torch, kind))
    file = tmp_path / "images.safetensors"
    safetensors.torch.save_file({"images": x}, file)
    np.testing.assert_array_equal(read_arrays(file)["images"].astype(np.float32), x.float().numpy())
    assert torch.equal(read_images(file)[0], x.float())
    assert torch.equal(Rows(file).read("images", [1, 2, 4]).float(), x[[1, 2, 4]].float())


def npy(shape: tuple, kind: str = "<f4", content: bytes = b"1234") -> bytes:
    buffer = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + content


@pytest.mark.parametrize(
    "content",
    [
        npy((10**12,)),
        npy((10**6,) * 4),
        npy((-1,)),
        npy((2,)),
        npy((1,), "|O"),
        b"",
        b"\x93NUMPY",
        b"PK\3\4",
        b"x" * 99,
    ],
    ids=["10^12", "10^24", "negative", "short", "objects", "empty", "cut", "zip", "noise"],
)
def test_arrays_that_are_not_what_their_header_says_are_one_sentence(tmp_path, content):
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("images.npy", content)
        archive.writestr("notes.txt", "not an array")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(BadInput, match=rf"Cannot read arrays from .*{name}"):
            read_arrays(tmp_path / name)
    with pytest.raises(BadInput, match="Cannot read arrays from"):
        Rows(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(content)
    with pytest.raises(BadInput, match="Cannot read arrays from"):
        read_arrays(tmp_path / "b.npz")


def test_arrays_beside_other_files_in_a_zip_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 3), np.float32), none=np.zeros((0, 3)))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("notes.txt", "not an array")
    assert {name: a.shape for name, a in read_arrays(tmp_path / "a.npz").items()} == {"images": (2, 3), "none": (0, 3)}


def test_weights_under_numbers_are_one_sentence(tmp_path):
    torch.save({0: torch.ones(1)}, tmp_path / "w.pth")
    with pytest.raises(BadInput, match="must hold a table of named tensors"):
        read_weights(tmp_path / "w.pth")


@pytest.mark.parametrize(
    "content",
    [b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", b"\x80\x02\x87.", b"\x80\x02t.", b"I" + b"9" * 5000 + b"\n."],
    ids=["deep", "short", "no mark", "digits"],
)
def test_damaged_pickles_are_one_sentence(tmp_path, content):
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(BadInput, match="not a pickle of plain data|not a dict"):
        pickled_table(tmp_path / "batch")


@pytest.mark.parametrize("labels", [[1, [2]], "text", 3, [0.5, 1.5], None])
def test_labels_that_are_no_numbers_are_one_sentence(tmp_path, labels):
    held = {"data": np.zeros((2, 3072), np.uint8), "labels": labels}
    (tmp_path / "batch").write_bytes(pickle.dumps(held, protocol=2))
    with pytest.raises(BadInput, match="labels"):
        _pickled_batch(tmp_path / "batch", "labels")


@pytest.mark.parametrize("read", [read_arrays, Rows, read_images, read_weights])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, read):
    for name in ("a.npz", "a.safetensors"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(BadInput):
            read(tmp_path / name)
