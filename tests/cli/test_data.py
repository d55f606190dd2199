"""`uproar data`, `uproar ls tasks` and `--data-root` as a person uses them."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from tests.data.layouts import write_mnist, write_picture
from tests.data.serving import serving
from uproar.cli.app import _exit_code
from uproar.cli.screen import output
from uproar.data import load
from uproar.data.locations import CATALOGUE, RemoteFile, environment_roots, use_root
from uproar.errors import BadInput
from uproar.study.record import read_run, write_run
from uproar.study.run import run_study
from uproar.study.spec import study_of


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty place without the user's own data; what a command puts into the environment is taken out again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UPROAR_CACHE", "off")
    monkeypatch.setenv("UPROAR_DATA", "")
    return tmp_path


def test_tasks_are_listed_with_where_they_were_found(here, capsys, monkeypatch):
    monkeypatch.setattr(output, "width", 240)  # a long path must not be folded into other columns
    write_mnist(here / "sets" / "MNIST" / "raw")
    assert _exit_code(["ls", "tasks", "--data-root", "sets"]) == 0
    shown = capsys.readouterr().out
    flat = "".join(shown.replace("│", "").split())
    assert "MNIST/raw" in flat and "notfound" in flat and "uproardatagetNAME" in flat
    for name in (
        "birdsnap",
        "cifar10",
        "cifar100",
        "cub200",
        "fashion-mnist",
        "folder",
        "food101",
        "imagenet",
        "semi-natural",
        "svhn",
        "tiny-imagenet",
        "hf:NAME",
    ):
        assert name in shown


@pytest.mark.slow
def test_worker_processes_find_the_data_and_its_place_is_no_part_of_a_result(here):
    write_mnist(here / "sets" / "MNIST" / "raw")
    study = study_of(
        {
            "tasks": "mnist(train=20, test=10)",
            "models": "cnn-small(width=4)",
            "estimators": ["random", "sobel"],
            "fractions": 0.5,
            "seeds": 1,
            "recipe": {"epochs": 1},
            "metrics": "roar",
        }
    )
    use_root("sets")
    first = run_study(study, here / "store", jobs=2)
    assert (first.cached, first.done) == (0, 2) and all_done(first)
    (here / "sets").rename(here / "elsewhere")
    use_root("elsewhere")
    again = run_study(study, here / "store", jobs=1)
    assert (again.cached, again.done) == (2, 2) and all_done(again)


def all_done(progress) -> bool:
    """No cell was skipped or failed."""
    return not progress.outcomes


def test_a_missing_set_or_root_is_one_sentence(here, capsys):
    (here / "file").write_text("x")
    for arguments, said in (
        (["run", "--task", "mnist", "--jobs", "1"], "`uproar data get mnist` downloads it"),
        (["run", "--task", "mnist", "--data-root", "file"], "--data-root must be a folder; file is a file."),
        (["data", "get", "imagenet"], "cannot be downloaded without a login. Ask for access"),
        (["data", "get", "cifar1"], "No public data set is called 'cifar1'. Did you mean 'cifar10'"),
        (["data", "verify", "cub200"], "The data set cub200 was not found"),
    ):
        assert _exit_code(arguments) == 2
        shown = " ".join(capsys.readouterr().err.split())
        assert said in shown and "Traceback" not in shown


def test_a_set_is_downloaded_and_then_found(here, monkeypatch, capsys):
    write_mnist(here / "made", end=".gz")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as server:
        server.files = {file.name: file.read_bytes() for file in (here / "made").iterdir()}
        files = tuple(
            RemoteFile(f"{server.url}/{name}", hashlib.md5(content).hexdigest(), "MNIST/raw")
            for name, content in server.files.items()
        )
        monkeypatch.setitem(CATALOGUE, "mnist", replace(CATALOGUE["mnist"], files=files))
        assert _exit_code(["data", "get", "mnist", "--data-root", "sets"]) == 0
        shown = capsys.readouterr()
        assert "mnist is in" in shown.out and "train-images-idx3-ubyte.gz" in shown.err
        assert _exit_code(["data", "get", "mnist", "--data-root", "sets"]) == 0
        assert len(server.asked) == 4, "what is there is not downloaded again"
    assert len(load("mnist").train) == 30


def test_files_that_are_not_the_published_ones_are_told(here, capsys):
    write_mnist(here / "MNIST" / "raw", end=".gz")
    assert _exit_code(["data", "verify", "mnist", "--data-root", "."]) == 1
    shown = capsys.readouterr()
    assert (
        "30 training and 20 test images of 10 classes; a part of the published set, which has 60,000 + 10,000"
        in shown.out
    )
    assert shown.err.count("is not the published file: its checksum is") == 4


def test_unreadable_pictures_are_named(here, capsys):
    for kind in ("cat", "dog"):
        for i in range(16):
            write_picture(here / "pets" / kind / f"{i}.png", i)
    for i in range(12):
        (here / "pets" / "cat" / f"{i}.png").write_bytes(b"<html>")
    name = "folder(root=pets, size=16)"
    assert _exit_code(["data", "verify", name]) == 1
    shown = capsys.readouterr().err
    assert shown.count("cannot be decoded") == 10 and "and 2 more" in shown
    for i in range(12):
        (here / "pets" / "cat" / f"{i}.png").unlink()
    assert _exit_code(["data", "verify", name]) == 0
    assert "every picture can be decoded" in capsys.readouterr().out


def test_a_report_remembers_where_its_run_found_the_data(here, monkeypatch):
    write_mnist(here / "sets" / "MNIST" / "raw")
    use_root("sets")
    study = study_of({"tasks": "mnist(train=20, test=10)"})
    write_run(here / "mine", study, "store", {})
    (here / "store").mkdir()
    monkeypatch.setenv("UPROAR_DATA", str(here / "first"))
    with pytest.raises(BadInput, match="was not found"):
        load("mnist")
    assert read_run(here / "mine")[0] == study
    assert len(load("mnist").train) == 30
    assert environment_roots() == [str(here / "first"), str(here / "sets")]
