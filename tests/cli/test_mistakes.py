"""Every option of every command with a value that cannot be: one sentence at once, before any work is begun."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from uproar.cli.app import _exit_code

TINY = ["--task", "planted(size=8, classes=3, train=60, test=30)", "--model", "cnn-small(width=4)"]
STUDY = {"--estimators": "random,grad", "--epochs": "1", "--seeds": "2", "--fractions": "0.5", "--jobs": "1"}
MAPS = {"--limit": "4", "--estimators": "grad"}
OWN = ["pictures.safetensors", "--classes", "3", "--estimators", "grad"]

OF_STUDIES = [
    ("--task", "nonsense", "No task is called 'nonsense'"),
    ("--task", "folder(root=nowhere)", "There is no folder nowhere"),
    ("--task", "planted(size=0)", "planted: size must be at least 5, not 0"),
    ("--model", "nonsense", "No model is called 'nonsense'"),
    ("--model", "nowhere.py:build", "There is no file nowhere.py"),
    ("--model", "empty.py:build", "empty.py has no function called 'build'"),
    ("--model", "cnn-small(depth=3)", "cnn-small takes no option 'depth'; it takes width"),
    ("--estimators", "nonsense", "No estimator is called 'nonsense'"),
    ("--estimators", "grad,grad", "The estimator grad is listed twice"),
    ("--metrics", "nonsense", "No metric is called 'nonsense'"),
    ("--metrics", "nonsense", "No metric is called 'nonsense'"),
    ("--audits", "nonsense", "No audit is called 'nonsense'"),
    ("--fractions", "x", "--fractions takes numbers such as"),
    ("--fractions", "1.5", "A fraction lies between 0 and 1, not 1.5"),
    ("--seeds", "0", "seeds must be at least 1, not 0"),
    ("--seeds", "x", "--seeds must be a whole number. See uproar run --help"),
    ("--recipe", "nonsense", "No recipe is called 'nonsense'"),
    ("--epochs", "0", "epochs must be at least 1, not 0"),
    ("--device", "gpu", "device must be auto, cpu, cuda"),
    ("--device", "cuda:77", "This machine has no device 'cuda:77'; it has cpu"),
    ("--fill", "nonsense", "No fill is called 'nonsense'"),
    ("--limit", "0", "limit must be at least 1, not 0"),
    ("--plugin", "nowhere.py", "There is no file nowhere.py"),
    ("--plugin", "empty.py", "empty.py declares nothing"),
    ("--weights", "bad.safetensors", "Cannot read the weights in bad.safetensors"),
    ("--weights", "other.safetensors", "The weights in other.safetensors do not fit the model"),
    ("--jobs", "0", "--jobs must be at least 1, not 0"),
    ("--out", "file", "Cannot"),
    ("--store", "file", "Cannot use file as a store"),
    ("--store", "nope://x", "No file system is known for nope://"),
    ("--data-root", "file", "--data-root must be a folder; file is a file"),
]
OF_RUN = [
    ("--weights", "nowhere.safetensors", "there is no file nowhere.safetensors"),
    ("--budget", "soon", "--budget takes a time such as"),
    ("--out", "file/x", "is a file; choose another folder"),
    ("--ray", "nowhere:1", "Give --jobs for this machine, --ray or --slurm for a cluster; not more than one of them"),
]
OF_MAPS = [
    ("--task", "nonsense", "No task is called 'nonsense'"),
    ("--model", "nonsense", "No model is called 'nonsense'"),
    ("--model", "nowhere.py:build", "There is no file nowhere.py"),
    ("--estimators", "nonsense", "No estimator is called 'nonsense'"),
    ("--estimators", ",", "--estimators takes one name or more"),
    ("--weights", "nowhere.safetensors", "there is no file nowhere.safetensors"),
    ("--limit", "0", "--limit must be at least 1, not 0"),
    ("--seed", "x", "--seed must be a whole number. See uproar"),
    ("--plugin", "nowhere.py", "There is no file nowhere.py"),
    ("--classes", "0", "--classes must be at least 1, not 0"),
    ("--classes", "3", "--classes goes with images of your own"),
    ("--size", "8", "--size"),
    ("--out", "file/x.png", "is a file; choose another folder"),
    ("--data-root", "file", "--data-root must be a folder; file is a file"),
]
OF_EXPLAIN = [
    ("--target", "best", "--target is predicted, label or the number of a class, not 'best'"),
    ("--target", "99", "--target 99: there are 3 classes, 0 to 2"),
    ("--out", "maps.jpg", "A picture ends in .png or .svg, not 'maps.jpg'"),
    ("--out", "folder.png", "Cannot write folder.png: it is a folder"),
    ("--save", "maps.txt", "--save writes .npz or .safetensors, not 'maps.txt'"),
    ("--save", "file/maps.npz", "Cannot write into file: file is a file"),
]
OF_SCORE = [
    ("--metrics", "nonsense", "No metric is called 'nonsense'"),
    ("--maps", "nowhere.npz", "There is no file nowhere.npz"),
    ("--maps", "file", "Arrays are read from .npz, .npy, .safetensors, not 'file'"),
    ("--maps", "three_maps.npz", "The maps 'mine' are (3, 8, 8); for 4 images they must be"),
    ("--maps", "small_maps.npz", "The maps 'mine' are 5x5 but the images 8x8"),
    ("--labels", "nowhere.npy", "There is no file nowhere.npy"),
    ("--labels", "three.npy", "three.npy has 3 labels, but there are 30 images, of which 4 are used"),
    ("--labels", "floats.npy", "The labels in floats.npy are whole numbers"),
    ("--labels", "sevens.npy", "The labels in sevens.npy run from 7 to 7, but classes from 0 to 2"),
    ("--output", "x", "--output: 'x' is not one of 'auto', 'softmax', 'sigmoid', 'regression', 'logit', 'probability'"),
    ("--train", "pictures.safetensors", "--train is for images of your own: the task planted"),
    ("--metrics", "idsds(grid=1)", "idsds: grid must be at least 2, not 1"),
]
TRAINED = ["score", *OWN, "--metrics", "idsds"]
OTHERS = [
    (["run", "--estimators", "sg(grad, smaples=3)"], "it takes samples, sigma, unit"),
    (["run", "--estimators", "sg(grad"], "Cannot read"),
    (["run", "--estimators", "SmoothGrad"], "Did you mean 'smoothgrad'"),
    (["run", "--fractions", "0.1,0.1"], "listed twice"),
    (["run", "--ray", "nobody"], "--ray takes 'auto' or HOST:PORT"),
    (["run", "--model", "mine.py"], "mine.py is a file: name the function in it"),
    (["run", "--task", "cifar10"], "The data set cifar10 was not found"),
    (["run", "."], ". is a folder, not a study file"),
    (["run", "--weights", "empty.pt"], "Cannot read the weights in empty.pt"),
    (["run", "--store", "/proc/nope"], "choose another place"),
    (["run", "--dry-run", "--jobs", "0"], "--jobs must be at least 1, not 0"),
    (["explain", "nan.npz", "--classes", "3"], "images in nan.npz have NaN or infinite"),
    (["score", "--metrics", "insertoin"], "Did you mean 'insertion'"),
    (["score", "--maps", "grey.npz"], "There are no maps in grey.npz"),
    (["score", "--maps", "words.npz"], "The maps 'mine' are no array of numbers"),
    (["run", "nowhere.toml"], "Cannot read the study nowhere.toml"),
    (["run", "nonsense"], "No study is called 'nonsense'"),
    (
        ["run", *TINY, "--until-decided", "--seeds", "2"],
        "until_decided needs 5 replicates for its first interim analysis",
    ),
    (["explain", "nowhere"], "There is no file or folder nowhere"),
    (["explain", "file"], "file is neither a folder of pictures nor"),
    (["explain", "pictures.safetensors"], "needs the number of classes: give --classes"),
    (["explain", *OWN, "--weights", "nowhere.safetensors"], "There is no weights file nowhere.safetensors"),
    (["explain", *OWN, "--target", "label"], "--target label needs labels"),
    (["explain", *OWN, "--target", "9"], "--target 9: there are 3 classes, 0 to 2"),
    (["score", *OWN, "--labels", "three.npy"], "three.npy has 3 labels, but there are 6 images"),
    (["score", *OWN, "--labels", "three.npy", "--limit", "4"], "there are 6 images, of which 4 are used"),
    (TRAINED, "idsds uses a fine-tuned copy of the network: give --train, a folder with one folder of pictures per"),
    ([*TRAINED, "--train", "nowhere"], "nowhere, for the training images, is not there: give a folder with one folder"),
    ([*TRAINED, "--train", "file"], "file, for the training images, is neither a folder nor an array file"),
    ([*TRAINED, "--train", "folder.png"], "folder.png has 0 class folders: give a folder with one folder of pictures"),
    ([*TRAINED, "--train", "pictures.safetensors"], "pictures.safetensors holds no 'labels'"),
    ([*TRAINED, "--train", "sevens.npz"], "The labels of the training images run from 7 to 7, but the model has 3"),
    ([*TRAINED, "--train", "large.npz"], "The training images in large.npz are (1, 9, 9) (channels, rows, columns)"),
    (["choose", "--methods", "grad,gradd"], "No estimator is called 'gradd'. Did you mean 'grad"),
    (["check", "deletion", "--out", "file"], "Cannot write into file: file is a file; choose another folder."),
    (["audit", "nowhere"], "nowhere is not the folder of a run"),
    (["compare", "nowhere", "grad"], "nowhere is not the folder of a run"),
    (["report", "nowhere"], "nowhere is not the folder of a run"),
    (["check", "nonsense"], "No estimator is called 'nonsense'"),
    (["check", "nowhere.py"], "There is no file nowhere.py"),
    (["check", "grad", "--model", "nonsense"], "No model is called 'nonsense'"),
    (["ls", "nonsense"], "KIND: 'nonsense' is not one of 'estimators', 'tasks'"),
    (["ls", "--plugin", "nowhere.py"], "There is no file nowhere.py"),
    (["data", "get", "nonsense"], "No public data set is called 'nonsense'"),
    (["data", "verify", "nonsense"], "No task is called 'nonsense'"),
    (["store", "verify", "nowhere"], "nowhere"),
    (["nonsense"], "No such command 'nonsense'. See uproar --help"),
    (["run", "--nonsense", "3"], "No such option: --nonsense. See uproar run --help"),
    (["audit"], "See uproar audit --help"),
    (["report", "runs", "--latex"], "'--latex' requires an argument. See uproar report --help"),
    (["store", "verify", "x", "--nonsense"], "--nonsense. See uproar store verify --help"),
]


PLACE = re.compile(r"Cannot (write into|use) |Cannot write|choose another|^Cannot$")
"""What is said of places that cannot be written to, with another exit code."""


def _with(options: dict[str, str], name: str, value: str) -> list[str]:
    return [word for pair in {**options, name: value}.items() for word in pair]


def _walk():
    """Every command line with the sentence it must lead to."""
    for name, value, said in OF_STUDIES:
        yield ["run", *TINY, *_with(STUDY, name, value)], said
    for name, value, said in OF_RUN:
        yield ["run", *TINY, *_with(STUDY, name, value)], said
    for command, own in (("explain", OF_EXPLAIN), ("score", OF_SCORE)):
        for name, value, said in (*OF_MAPS, *own):
            yield [command, *TINY, *_with(MAPS, name, value)], said
    yield from OTHERS


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with files that cannot be used for what they are given."""
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "file").write_text("x")
    (folder / "empty.py").write_text("x = 1\n")
    (folder / "bad.safetensors").write_text("nothing")
    (folder / "folder.png").mkdir()
    (folder / "empty.pt").touch()
    np.savez(folder / "nan.npz", images=np.full((2, 1, 8, 8), np.nan))
    np.savez(folder / "grey.npz", images=np.full((2, 1, 8, 8), 0.5))
    np.savez(folder / "words.npz", mine=np.array(["a", "b"]))
    np.save(folder / "three.npy", np.arange(3))
    np.save(folder / "floats.npy", np.ones(30))
    np.save(folder / "sevens.npy", np.full(30, 7))
    np.savez(folder / "three_maps.npz", mine=np.zeros((3, 8, 8)))
    np.savez(folder / "sevens.npz", images=np.zeros((6, 1, 8, 8)), labels=np.full(6, 7))
    np.savez(folder / "large.npz", images=np.zeros((6, 1, 9, 9)), labels=np.arange(6) % 3)
    np.savez(folder / "small_maps.npz", mine=np.zeros((30, 5, 5)))
    save_file({"images": torch.rand(6, 1, 8, 8)}, folder / "pictures.safetensors")
    save_file({"w": torch.rand(2, 2)}, folder / "other.safetensors")
    return folder


@pytest.mark.parametrize(
    ("line", "said"), list(_walk()), ids=lambda part: " ".join(part) if isinstance(part, list) else ""
)
def test_a_mistake_is_one_sentence_before_any_work(line, said, files, monkeypatch, capsys):
    def work(*args, **options):
        raise AssertionError("work was begun before the mistake was found")

    for begun in ("run._drive", "steps.fit", "subjects.stored_maps"):
        monkeypatch.setattr(f"uproar.study.{begun}", work)
    monkeypatch.chdir(files)
    monkeypatch.setenv("UPROAR_DATA", "no-data")
    monkeypatch.setenv("XDG_CACHE_HOME", "no-cache")
    before = set(files.rglob("*"))
    assert _exit_code(line) == (3 if PLACE.search(said) else 2)
    assert set(files.rglob("*")) == before, "a mistake leaves nothing behind"
    shown = capsys.readouterr()
    told = [part for part in shown.err.splitlines() if part.startswith("Error: ")]
    assert len(told) == 1, shown.err
    assert said in told[0]
    assert told[0].endswith((".", "…", "?")) or "SafetensorError" in told[0]
    assert "Traceback" not in shown.err


def test_a_run_of_the_wrong_labels_does_not_train(files, monkeypatch, capsys):
    """The case that took 42 seconds: labels for other images, on a network that would first be trained."""
    monkeypatch.chdir(files)
    monkeypatch.setattr("uproar.study.graph.run_job", lambda *a, **k: pytest.fail("the network was trained first"))
    assert _exit_code(["score", *TINY, "--estimators", "grad", "--labels", "three.npy"]) == 2
    assert "three.npy has 3 labels, but there are 30 images: give one for each." in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["data"], ["store"]])
def test_no_command_shows_the_help_and_no_sentence_about_a_mistake(arguments, capsys):
    assert _exit_code(arguments) == 2
    shown = capsys.readouterr()
    assert "Usage" in shown.out + shown.err
    assert "Error" not in shown.out + shown.err


def test_a_model_without_class_scores_is_refused_before_it_is_explained(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    monkeypatch.setattr(
        "uproar.study.subjects.stored_maps", lambda *a, **k: pytest.fail("the images were explained first")
    )
    assert _exit_code(["score", *OWN[:1], "--classes", "1", *OWN[3:]]) == 2
    assert "The model has one output per image" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "long.toml", "--dry-run"], "is too large"),
        (["run", "--task", "planted(size=1000000)", "--dry-run"], "size must be at most"),
        (["run", "--task", f"planted(size={'9' * 300})", "--dry-run"], "is too large"),
        (["run", "--out", "loop/x"], "leads nowhere"),
        (["run", "--out", ""], "has a name"),
        (["explain", "pictures", "--limit", "1"], "pictures"),
    ],
)
def test_strange_numbers_and_places_are_one_sentence(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long.toml").write_text(f"[recipe]\nepochs = {'9' * 300}\n")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "pictures").mkdir()
    os.mkfifo(tmp_path / "pictures" / "a.png")
    assert _exit_code(words) in (2, 3)
    error = capsys.readouterr().err
    assert said in " ".join(error.split()) and error.count("Error:") == 1 and "Traceback" not in error


def test_codes_for_the_terminal_are_not_printed(capsys):
    from uproar.cli.screen import note, print_table

    print_table("a \x1b[2Jtitle", ["name"], [["red\x1b[31m"]])
    note("study \x1b]0;x\x07")
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err and "\x07" not in said.err
