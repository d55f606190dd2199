"""The sets that are held in memory: IDX, CIFAR and SVHN in their official layouts."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
import torch

from tests.data.layouts import pixels, write_cifar10, write_cifar100, write_idx, write_mnist, write_svhn
from uproar.data import load
from uproar.data.small_sets import pickled_table
from uproar.errors import BadInput, BadOption


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty place without the user's own data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UPROAR_DATA", raising=False)
    return tmp_path


def test_idx_files_are_read_packed_or_not_in_every_usual_place(here, monkeypatch):
    write_mnist(here / "data" / "MNIST" / "raw")
    write_mnist(here / "own" / "fashion-mnist", end=".gz")
    monkeypatch.setenv("UPROAR_DATA", f"{here / 'nothing'}{os.pathsep}{here / 'own'}")
    plain, packed = load("mnist"), load("fashion-mnist")
    assert torch.equal(plain.train.images[:, 0], torch.from_numpy(pixels(30, 28, 28, seed=1)))
    assert torch.equal(plain.test.images, packed.test.images)
    assert plain.test.labels.tolist() == [*range(10)] * 2
    assert (packed.classes[0], packed.classes[-1]) == ("T-shirt/top", "ankle boot")
    assert plain.fingerprint != packed.fingerprint, "equal bytes are another set under another name"


def test_where_a_set_lies_is_no_part_of_its_identity(here):
    write_mnist(here / "a")
    write_mnist(here / "b" / "MNIST" / "raw", end=".gz")
    assert load("mnist(root=a)").fingerprint == load('mnist(root="b")').fingerprint


def test_a_bare_folder_of_idx_files_is_not_taken_for_a_set_it_may_not_be(here):
    write_mnist(here / "data")
    with pytest.raises(BadInput, match="was not found"):
        load("mnist")


def test_counts_choose_as_many_of_each_class(here):
    write_mnist(here / "MNIST", train=60)
    task = load("mnist(root=., train=20, test=10)")
    assert torch.bincount(task.train.labels).tolist() == [2] * 10
    assert torch.bincount(task.test.labels).tolist() == [1] * 10
    with pytest.raises(BadOption, match="train=61 asks for more than the 60 train images"):
        load("mnist(root=., train=61)")
    with pytest.raises(BadOption, match="test=9 is fewer than one image for each of the 10 classes"):
        load("mnist(root=., test=9)")


def test_a_missing_set_says_what_to_download_where_it_looked_and_the_command(here):
    with pytest.raises(BadInput) as caught:
        load("cifar10")
    said = str(caught.value)
    for part in (
        "cifar-10-batches-bin",
        "data, ",
        str(here / "cache" / "uproar" / "data"),
        "`uproar data get cifar10`",
        "170 MB",
        "--data-root",
        "UPROAR_DATA",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
    ):
        assert part in said


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_both_layouts_of_cifar10_give_the_same_task(here, protocol):
    write_cifar10(here / "a" / "cifar-10-batches-bin", "binary")
    write_cifar10(here / "b" / "cifar-10-batches-py", "pickle", protocol)
    binary, pickled = load("cifar10(root=a)"), load("cifar10(root=b)")
    assert binary.fingerprint == pickled.fingerprint
    assert torch.equal(binary.train.images[10:20], torch.from_numpy(pixels(10, 3, 32, 32, seed=1)))
    assert len(binary.train) == 50 and len(binary.test) == 10


def test_both_layouts_of_cifar100_have_fine_and_coarse_labels(here):
    write_cifar100(here / "a" / "cifar-100-binary", "binary")
    write_cifar100(here / "b" / "cifar-100-python", "pickle")
    fine, coarse = load("cifar100(root=a)"), load("cifar100(root=a, labels=coarse)")
    assert fine.test.labels.tolist() == list(range(100)) and fine.classes[99] == "fine 99"
    assert coarse.test.labels.tolist() == [i % 20 for i in range(100)]
    assert fine.fingerprint == load("cifar100(root=b)").fingerprint
    assert coarse.fingerprint == load("cifar100(root=b, labels=coarse)").fingerprint


class _Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(here, protocol):
    (here / "evil").write_bytes(pickle.dumps({"data": _Trap()}, protocol))
    with pytest.raises(BadInput, match=r"asks for (posix|nt)\.mkdir, which is not run"):
        pickled_table(here / "evil")
    assert not (here / "trapped").exists()


def test_a_pickle_that_is_cut_or_names_other_classes_is_refused(here):
    whole = pickle.dumps({"data": list(range(1000))})
    for content, said in ((whole[:-20], "not a pickle of plain data"), (pickle.dumps({"a": here}), "pathlib")):
        (here / "odd").write_bytes(content)
        with pytest.raises(BadInput, match=said):
            pickled_table(here / "odd")


def test_plain_values_come_out_of_a_pickle_as_they_went_in(here):
    held = {
        "a": [1, -2, 2**70, 1.5, None, True],
        "b": (b"x", "ü", ()),
        "c": np.arange(6.0).reshape(2, 3).T,
        "d": np.int64(7),
        "e": np.arange(3, dtype=">i4"),
    }
    for protocol in range(6):
        (here / "plain").write_bytes(pickle.dumps(held, protocol))
        result = pickled_table(here / "plain")
        assert result["a"] == held["a"] and result["b"] == held["b"] and result["d"] == 7
        for name in ("c", "e"):
            np.testing.assert_array_equal(result[name], held[name])


def test_svhn_labels_from_1_to_10_become_digits(here):
    write_svhn(here / "data" / "svhn")
    task = load("svhn")
    assert task.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0] * 2
    assert torch.equal(task.test.images, torch.from_numpy(pixels(20, 32, 32, 3, seed=1)).permute(0, 3, 1, 2))


def _cut_idx(folder):
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-5])


def _not_idx(folder):
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"<html>not found</html>")


def _cut_gz(folder):
    file = folder / "train-labels-idx1-ubyte"
    packed = folder / "train-labels-idx1-ubyte.gz"
    write_idx(packed, np.zeros(30, np.uint8))
    file.unlink()
    packed.write_bytes(packed.read_bytes()[:-12])


def _label_off_by_one(folder):
    write_idx(folder / "train-labels-idx1-ubyte", (np.arange(30) % 10 + 1).astype(np.uint8))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_cut_idx, "announces 30 × 28 × 28 bytes, but has others"),
        (_not_idx, "is not an IDX file of bytes with 1 axes: it begins with 3c 68 74 6d"),
        (_cut_gz, "cannot be unpacked"),
        (_label_off_by_one, "train labels run from 1 to 10, but there are 10 classes"),
        (
            lambda f: write_idx(f / "t10k-labels-idx1-ubyte", np.zeros(7, np.uint8)),
            "test split has 20 images but 7 labels",
        ),
        (lambda f: (f / "t10k-labels-idx1-ubyte").unlink(), "There is no t10k-labels-idx1-ubyte"),
    ],
)
def test_damaged_idx_files_get_one_sentence(here, spoil, said):
    write_mnist(here / "MNIST")
    spoil(here / "MNIST")
    with pytest.raises(BadInput, match=said):
        load("mnist(root=.)")


def test_damaged_cifar_files_get_one_sentence(here):
    folder = here / "cifar-10-batches-bin"
    write_cifar10(folder, "binary")
    whole = (folder / "data_batch_2.bin").read_bytes()
    for content, said in (
        (whole[:-1], "which is no multiple of 3073"),
        (b"", "has 0 bytes"),
        (bytes([10]) + whole[1:], "labels run from 0 to 10"),
    ):
        (folder / "data_batch_2.bin").write_bytes(content)
        with pytest.raises(BadInput, match=said):
            load("cifar10(root=.)")
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(BadInput, match="There is no data_batch_2.bin in cifar-10-batches-bin"):
        load("cifar10(root=.)")


def test_damaged_cifar_pickles_get_one_sentence(here):
    folder = here / "cifar-10-batches-py"
    write_cifar10(folder, "pickle")
    for held, said in (
        ([1], "holds a list, not a dict"),
        ({"labels": [1]}, "is no batch of images"),
        ({"data": np.zeros((2, 4)), "labels": [0, 0]}, r"'data' must be bytes of shape \(n, 3072\)"),
        ({"data": pixels(2, 3072), "labels": [0]}, "'labels' one whole number for each"),
    ):
        (folder / "data_batch_3").write_bytes(pickle.dumps(held))
        with pytest.raises(BadInput, match=said):
            load("cifar10(root=.)")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"y": None}, "is no file of cropped digits"),
        ({"X": None}, "is no file of cropped digits"),
        ({"y": np.arange(20) % 10}, "labels run from 0 to 9, but the official files have 1 to 10"),
        ({"y": np.ones((3, 1))}, "y their labels"),
        ({"X": np.zeros((32, 32, 20))}, r"X must be bytes of shape \(32, 32, 3, n\)"),
    ],
)
def test_damaged_mat_files_get_one_sentence(here, variables, said):
    write_svhn(here / "svhn", **variables)
    with pytest.raises(BadInput, match=said):
        load("svhn(root=.)")


def test_a_file_that_is_no_mat_file_gets_one_sentence(here):
    write_svhn(here / "svhn")
    (here / "svhn" / "train_32x32.mat").write_bytes(b"<html>" + b"x" * 500)
    with pytest.raises(BadInput, match="cannot be read as a MATLAB file"):
        load("svhn(root=.)")
    (here / "svhn" / "train_32x32.mat").unlink()
    with pytest.raises(BadInput, match="There is no train_32x32.mat"):
        load("svhn(root=.)")
