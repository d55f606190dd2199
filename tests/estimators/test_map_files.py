"""Maps made elsewhere: read by rows, checked against the images, known by their content."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from uproar.data import load
from uproar.errors import BadInput, BadMap, NotApplicable
from uproar.estimators import Context, explain_chains, read_chain
from uproar.seeds import Draws

TASK = "planted(size=8, classes=3, channels=3, train=30, test=12)"


@pytest.fixture(scope="module")
def task():
    return load(TASK)


@pytest.fixture
def arrays():
    random = np.random.default_rng(0)
    return {
        "train": random.normal(size=(30, 3, 8, 8)).astype(np.float32),
        "test": random.normal(size=(12, 3, 8, 8)).astype(np.float32),
    }


@pytest.fixture
def file(tmp_path, monkeypatch):
    """`file(arrays)` writes m.safetensors in the working directory, or another name."""
    monkeypatch.chdir(tmp_path)

    def write(arrays, name="m.safetensors"):
        if name.endswith(".npz"):
            np.savez(name, **arrays)
        else:
            save_file(arrays, name)
        return f"maps:{name}"

    return write


def maps_of(expression, split, rows, batch_size=64, sign="none"):
    x = split.read(torch.tensor(rows))
    context = Context(Draws.of(0, rows, split.name), samples=split)
    chain = read_chain(expression, sign)
    return explain_chains(torch.nn.Identity(), x, split.labels[rows], context, [chain], batch_size)[0]


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz"])
def test_each_image_gets_its_own_map_in_any_order_and_batch(task, arrays, file, name):
    expression = file(arrays, name)
    rows = [7, 8, 9, 2, 2, 29, 0]
    wanted = arrays["train"][rows].sum(1)
    for size in (1, 3, 64):
        maps = maps_of(expression, task.train, rows, size)
        np.testing.assert_allclose(maps.numpy(), wanted, rtol=0, atol=1e-6)
    squared = (arrays["test"][[3]] ** 2).sum(1)
    np.testing.assert_allclose(maps_of(f"sq({expression})", task.test, [3]), squared, rtol=1e-6)


def test_filters_and_signs_apply_to_stored_maps_as_to_any(task, arrays, file):
    from uproar.estimators.transforms import gaussian

    expression = file({"test": arrays["test"]})
    rows = [0, 5]
    wanted = gaussian(torch.from_numpy(arrays["test"][rows]).abs().sum(1), sigma=2.0)
    maps = maps_of(f"gaussian({expression}, sigma=2)", task.test, rows, sign="abs")
    assert torch.allclose(maps, wanted, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float16, np.float64, np.int16, np.uint8])
def test_maps_of_any_kind_of_number_and_without_channels(task, file, kind):
    maps = (np.arange(12 * 64).reshape(12, 8, 8) % 100).astype(kind)
    for name in ("k.safetensors", "k.npz"):
        result = maps_of(file({"test": maps}, name), task.test, [4, 1])
        np.testing.assert_array_equal(result.numpy(), maps[[4, 1]].astype(np.float32))


def test_a_limited_task_finds_its_rows_in_a_file_for_the_whole_one(task, arrays, file):
    expression = file(arrays)
    few = task.limited(7)
    assert few.train.subset is not None
    rows = few.train.subset.rows
    assert torch.equal(task.train.read(rows), few.train.read(slice(None)))
    maps = maps_of(expression, few.train, list(range(7)))
    np.testing.assert_allclose(maps.numpy(), arrays["train"][rows].sum(1), rtol=0, atol=1e-6)
    # or a file for the limited task alone
    own = file({"train": arrays["train"][rows]}, "few.safetensors")
    assert torch.equal(maps_of(own, few.train, list(range(7))), maps)


def test_the_content_of_the_file_is_its_identity_not_its_name(arrays, file):
    first = read_chain(f"sq({file(arrays)})")
    shutil.copy("m.safetensors", "my copy.safetensors")
    second = read_chain('sq(maps:"my copy.safetensors")')
    assert first.identity == second.identity
    assert first.name != second.name
    before = first.identity
    arrays["train"][29, 2, 7, 7] += 1
    assert read_chain(f"sq({file(arrays)})").identity != before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: {"other": a["train"]}, "must hold arrays 'train' and 'test'; it holds 'other'"),
        (lambda a: {"train": a["train"][0, 0]}, r"must be \(n, h, w\) or \(n, c, h, w\), not"),
    ],
)
def test_a_file_that_is_no_file_of_maps_is_refused_when_it_is_named(arrays, file, change, sentence):
    with pytest.raises(BadInput, match=sentence):
        read_chain(file(change(arrays)))


def test_files_that_cannot_be_read_are_refused_in_one_sentence(arrays, file, tmp_path):
    file(arrays)
    for name in ("broken.safetensors", "broken.npz"):
        (tmp_path / name).write_bytes(b"no arrays at all")
        with pytest.raises(BadInput, match=f"Cannot read arrays from {name}"):
            read_chain(f"maps:{name}")
    with pytest.raises(BadInput, match=r"There is no file gone\.npz"):
        read_chain("maps:gone.npz")
    np.save("one.npy", arrays["train"])
    with pytest.raises(BadInput, match=r"from \.npz or \.safetensors, not one\.npy"):
        read_chain("maps:one.npy")
    np.savez("words.npz", train=np.array(["a", "b"]))
    with pytest.raises(BadInput, match=r"'train' of words\.npz has <U1, not numbers"):
        read_chain("maps:words.npz")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: {"train": a["train"]}, "holds no maps of the test images"),
        (lambda a: {"test": a["test"][:-1]}, "has 11 test maps for 12 test images"),
        (lambda a: {"test": a["test"][..., :-1]}, r"the test maps are \(3, 8, 7\), but the images"),
        (lambda a: {"test": a["test"][:, :2]}, r"the test maps are \(2, 8, 8\), but the images"),
    ],
)
def test_maps_of_other_images_are_refused(task, arrays, file, change, sentence):
    expression = file({k: np.ascontiguousarray(v) for k, v in change(arrays).items()})
    with pytest.raises(NotApplicable, match=sentence):
        maps_of(expression, task.test, [0])


def test_labels_in_the_file_show_another_order(task, arrays, file):
    labels = task.test.labels.numpy()
    right = file({**arrays, "test_labels": labels})
    assert len(maps_of(right, task.test, [0])) == 1
    wrong = file({**arrays, "test_labels": np.roll(labels, 1)}, "wrong.safetensors")
    with pytest.raises(NotApplicable, match="test labels are not the task's"):
        maps_of(wrong, task.test, [0])
    short = file({**arrays, "test_labels": labels[:5].copy()}, "short.safetensors")
    with pytest.raises(NotApplicable, match=r"test_labels is \(5,\), but there are 12 maps"):
        maps_of(short, task.test, [0])


def test_nan_is_named_with_its_image(task, arrays, file):
    arrays["test"][9, 1, 2, 3] = np.nan
    expression = file(arrays)
    assert len(maps_of(expression, task.test, [0, 1])) == 2
    with pytest.raises(BadMap, match="the map of test image 9 has NaN or infinite values"):
        maps_of(expression, task.test, [4, 9, 10])


def test_what_needs_other_maps_refuses_finished_ones(task, arrays, file):
    expression = file(arrays)
    for outer in ("sg", "sg_sq", "var"):
        with pytest.raises(BadInput, match=f"{outer} needs maps of noisy images, but maps:m"):
            read_chain(f"{outer}({expression})")
    with pytest.raises(NotApplicable, match="none of changed images, other images or other models"):
        context = Context(Draws.of(0, 2))
        x, y = task.test.read(slice(0, 2)), task.test.labels[:2]
        explain_chains(torch.nn.Identity(), x, y, context, [read_chain(expression)])
