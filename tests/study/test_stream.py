"""Large data sets: streamed images give the numbers of images in memory, shards those of one piece."""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import uproar
from tests.data.layouts import write_lines, write_picture
from tests.readings import base_network, ranked, reading_of
from uproar import backends
from uproar.data import Source, Split, load, tasks
from uproar.errors import StoreError
from uproar.removal import ranks, removed_at
from uproar.seeds import Draws
from uproar.store import Store
from uproar.study import ranking as shards_module
from uproar.study.collect import collect
from uproar.study.grid import accuracies_of
from uproar.study.run import plan, run_study
from uproar.study.steps import ChangedImages

HELD = "planted(size=8, classes=2, train=40, test=14)"
READ = "read_planted"


class Rows(Source):
    """Images of a tensor that are never given all at once (14 test images make one batch)."""

    def __init__(self, pixels: torch.Tensor) -> None:
        self.pixels = pixels

    @property
    def shape(self):
        return tuple(self.pixels.shape)

    def read(self, rows):
        assert len(rows) <= 16, "more than a few were read at once"
        return self.pixels[rows]

    def digest(self):
        return "rows"


@pytest.fixture(scope="module", autouse=True)
def _registered():
    def read(split: Split) -> Split:
        return replace(split, images=Rows(split.images))

    def read_planted():
        """Planted images, read."""
        task = load(HELD)
        return replace(task, name=READ, train=read(task.train), test=read(task.test))

    tasks.declare()(read_planted)


@pytest.fixture
def ask(small, monkeypatch):
    """A small study of a task; shards of 9 training and 4 test images for those that are read."""
    monkeypatch.setattr("uproar.data.task.READ", 5 * 64)

    def make(task, **changes):
        monkeypatch.setattr(shards_module, "SHARD", 2**27 if task == HELD else 9 * 64)
        monkeypatch.setattr(shards_module, "MAPS", 2)
        given = {"task": task, "seeds": 1, "estimators": ["random", "sg(grad, samples=2)", "grad"]}
        return small(**{**given, **changes})

    return make


def scores_of(study, root):
    reading = reading_of(study, root)
    cells = accuracies_of(study, reading.setting)
    return {(c.estimator, c.metric, c.fraction): reading.find(c.result).arrays["own"] for c in cells}


def test_streamed_and_sharded_numbers_are_those_of_memory_bit_for_bit(ask, tmp_path):
    changes = {
        "metrics": ["roar", "kar:no-retrain"],
        "fill": "uniform",
        "recipe": {"epochs": 1, "batch": 8, "augment": ["flip", "shift"]},
    }
    held = ask(HELD, **changes)
    run_study(held, tmp_path / "held", jobs=1)
    expected = scores_of(held, tmp_path / "held")
    read = ask(READ, **changes)
    assert run_study(read, tmp_path / "read", jobs=1).outcomes == {}
    facts = {
        name: [Store(tmp_path / name).facts("ranking", key) for key in Store(tmp_path / name).keys("ranking")]
        for name in ("held", "read")
    }
    assert all("shard" in known for known in facts["read"]) and not any("shard" in known for known in facts["held"])
    actual = scores_of(read, tmp_path / "read")
    assert expected.keys() == actual.keys() and len(actual) == 3 * 2 * 2
    for cell, scores in expected.items():
        assert np.array_equal(scores, actual[cell]), cell


@pytest.fixture
def explained(ask, tmp_path, monkeypatch):
    """A store that has the sharded rankings of `grad`, and the same ranks in one piece."""
    monkeypatch.setattr("uproar.store.CHUNK", 32)
    study = ask(READ, estimators=["random", "grad"], metrics=["roar"])
    run_study(study, tmp_path, jobs=1)
    reading = reading_of(study, tmp_path)
    x, seed = reading.task.train.images.pixels, study.seeds[0]
    maps = uproar.explain(base_network(reading, seed), x.float(), "grad", seed=seed, split="train")
    places = ranks(maps.flatten(1), Draws.of(seed, len(x), "train"))
    return study, reading, places


def test_one_sample_is_read_without_the_others(explained, monkeypatch):
    study, reading, places = explained
    seed, asked = study.seeds[0], []
    ranking = ranked(reading, "grad", seed, "train")
    spans = backends.LocalFolder.spans
    monkeypatch.setattr(backends.LocalFolder, "spans", lambda *a: [asked.extend(a[2]), spans(*a)][1])
    for t in study.fractions:
        image = ranking.important(t, slice(23, 24))
        assert torch.equal(image, removed_at(places, t, (8, 8))[23:24])
    # where images end, and the image twice, in whole chunks
    assert sum(b - a for a, b in asked) < 8 * 10 + 2 * 64 + 2 * 64
    mixed = torch.tensor([39, 0, 9, 8, 0, 26])
    assert torch.equal(ranking.important(0.2, mixed), removed_at(places, 0.2, (8, 8))[mixed])
    a = ranked(reading, "grad", seed).maps(slice(9, 10))[0]
    x = reading.task.test.images.pixels[9:10].float()
    raw = uproar.explain(base_network(reading, seed), x, "grad", seed=seed)[0]
    assert np.allclose(a, raw / raw.abs().max(), atol=1e-3)


def test_lost_and_damaged_shards_are_made_again_and_no_others(explained, tmp_path):
    study, reading, places = explained
    store, expected = reading.store, collect(study, reading.store).cells
    files = {
        (key, store.facts("ranking", key)["chain"]): tmp_path / store.name("ranking", key)
        for key in store.keys("ranking")
    }
    test = [path for (_, chain), path in files.items() if chain == "grad"][:2]
    test[0].unlink()
    content = test[1].read_bytes()
    test[1].write_bytes(content[:-40] + bytes(40))
    others = {path: path.stat().st_mtime_ns for path in files.values() if path not in test}
    for cell in (tmp_path / "cell").rglob("*.safetensors"):
        cell.unlink()
    assert run_study(study, tmp_path, jobs=1).outcomes == {}
    assert all(path.stat().st_mtime_ns == then for path, then in others.items())
    again = ranked(reading_of(study, tmp_path), "grad", study.seeds[0], "train").important(0.6)
    assert torch.equal(again, removed_at(places, 0.6, (8, 8)))
    columns = ["estimator", "metric", "fraction", "seed", "accuracy", "ties"]
    assert collect(study, store).cells[columns].equals(expected[columns])
    assert plan(study, store).jobs == []


def test_a_disk_that_fills_between_shards_loses_nothing(ask, tmp_path, monkeypatch):
    study = ask(READ, estimators=["random", "grad"], metrics=["roar:no-retrain"])
    write, budget = backends.write_file, [6]

    def full(path, content, *apart):
        if "ranking" in Path(path).parts:
            budget[0] -= 1
            if budget[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content, *apart)

    monkeypatch.setattr(backends, "write_file", full)
    with pytest.raises(StoreError, match=r"No space left on device; what is finished is kept") as told:
        run_study(study, tmp_path, jobs=1)
    assert "\n" not in str(told.value)
    assert len(list(Store(tmp_path).keys("ranking"))) == 6
    assert list((tmp_path / backends.UNFINISHED).iterdir()) == []
    monkeypatch.setattr(backends, "write_file", write)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("ranking/*/*")}
    assert run_study(study, tmp_path, jobs=1).outcomes == {}
    assert {p: p.stat().st_mtime_ns for p in before} == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc to know which file is written")
def test_a_run_killed_while_a_shard_is_written_loses_only_that_shard(ask, tmp_path, monkeypatch):
    study = ask(READ, estimators=["random", "grad"], metrics=["roar:no-retrain"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons on forks
        child = os.fork()
    if not child:
        try:
            sync, seen = os.fsync, []

            def die(handle):
                if "ranking" in os.readlink(f"/proc/self/fd/{handle}"):
                    seen.append(handle)
                    if len(seen) == 7:
                        os.ftruncate(handle, os.fstat(handle).st_size // 2)
                        os.kill(os.getpid(), signal.SIGKILL)
                sync(handle)

            os.fsync = die
            run_study(study, tmp_path / "killed", jobs=1)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    made = {p: p.stat().st_mtime_ns for p in (tmp_path / "killed").rglob("ranking/*/*") if p.is_file()}
    assert len(list(Store(tmp_path / "killed").keys("ranking"))) == 6
    assert len(made) == 6
    (half,) = (tmp_path / "killed" / backends.UNFINISHED).iterdir()
    os.utime(half, (0, 0))  # killed long ago
    assert run_study(study, tmp_path / "killed", jobs=1).outcomes == {}
    assert {p: p.stat().st_mtime_ns for p in made} == made
    assert not half.exists()
    run_study(study, tmp_path / "whole", jobs=1)
    expected, actual = (scores_of(study, tmp_path / name) for name in ("whole", "killed"))
    assert all(np.array_equal(scores, actual[cell]) for cell, scores in expected.items())


def test_shown_images_are_made_row_by_row():
    split = load(HELD).train
    made = []

    def change(rows):
        made.append(len(rows))
        return split.read(rows) * 0.5

    lazy = ChangedImages(split, change)
    assert len(lazy) == 40 and torch.equal(lazy[3:5], split.read(slice(3, 5)) * 0.5) and made == [2]


def test_photos_of_few_of_the_classes_are_judged_and_pictured(tmp_path, monkeypatch):
    """A network of many classes and a rows_at_once of photos: none of the first classes has an image."""
    monkeypatch.chdir(tmp_path)
    rows = ["image,label"]
    for i in range(12):
        write_picture(tmp_path / "photos" / f"{i}.png", 20 * i, box=(2 + i, 2, 20, 20))
        rows.append(f"{i}.png,{5 + 2 * (i % 2)}")
    write_lines(tmp_path / "photos" / "list.csv", *rows)
    study = {
        "task": "folder(root=photos, csv=list.csv, classes=9, share=0.5, size=16)",
        "model": "cnn-small",
        "estimators": ["random", "grad"],
        "metrics": ["roar", "road"],
        "fractions": [0.5],
        "seeds": 1,
        "recipe": {"epochs": 1},
    }
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    assert set(results.cells["status"]) == {"done"}
    labels = [picture.label for picture in results.pictures]
    assert len(set(labels)) == len(set(labels[:2])) == 2  # first one of each class that is there
