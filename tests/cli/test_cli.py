"""The program as a person uses it: one sentence for a mistake, an exit code for a script."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import save_file

import uproar
from tests.cli.conftest import MODEL, NETWORK, STUDY, TASK
from uproar.cli.app import _exit_code
from uproar.statistics.design import BASELINES

STUDY_WITHOUT_ESTIMATORS = [*STUDY[:4], *STUDY[6:8], *STUDY[10:]]


def test_run_writes_the_report_the_tables_and_how_it_was_run(tiny_run, here, capsys):
    assert tiny_run.code == 0
    assert "too few replicates" in tiny_run.out or "needs 5" in tiny_run.out
    assert "report.html" in tiny_run.out.replace("\n", "")
    (total,) = re.findall(r"(\d+)/\1 results", tiny_run.err)
    for name in ("report.html", "results.csv", "verdicts.csv", "run.json"):
        assert (tiny_run.folder / name).stat().st_size > 0
    assert list((tiny_run.folder / "figures").glob("*.svg"))
    record = json.loads((tiny_run.folder / "run.json").read_text())
    assert record["study"]["seeds"] == [0, 1]
    assert record["facts"]["wall"]["ended"] == record["facts"]["wall"]["begun"] == 1
    assert record["facts"]["wall"]["seconds"] == record["facts"]["seconds"] > 0

    folder = tiny_run.copy(here / "mine")
    page = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    assert _exit_code(["run", *STUDY, "--out", "mine"]) == 0  # nothing new: the record of who did the work stays
    assert f"{total} results, 0 of them new" in capsys.readouterr().out
    assert json.loads((folder / "run.json").read_text())["facts"] == record["facts"]
    assert len((folder / "report.html").read_text()) == pytest.approx(len(page), rel=0.01)
    assert _exit_code(["run", "mine", "--jobs", "1", "--seeds", "3"]) == 0
    more = int(total) * 3 // 2
    assert f"{more} results, {more - int(total)} of them new" in capsys.readouterr().out


def test_a_study_in_a_file_becomes_a_page_of_results(here, capsys):
    (here / "mine.toml").write_text(
        f'# Mine, small.\n\ntask = "{TASK}"\nmodel = "{MODEL}"\nestimators = ["random", "grad"]\n'
        'metrics = ["roar"]\nfractions = [0.5]\nseeds = 2\nclaims = ["hooker2019"]\n\n[recipe]\nepochs = 1\n'
    )
    assert _exit_code(["run", "mine.toml", "--jobs", "1"]) == 0
    assert _exit_code(["report", "runs/mine", "--markdown", "kept"]) == 0
    page = (here / "kept" / "mine.md").read_text()
    assert page.startswith("# mine\n\nMine, small.\n")
    assert 'estimators = ["random", "grad"]' in page
    assert not (here / "kept" / "report.html").exists()


@pytest.mark.slow
def test_what_is_finished_is_reported_from_another_terminal_while_the_study_runs(here, capsys):
    (here / "own.py").write_text(
        "import pathlib, time\n"
        "def fails(model, x, target):\n    raise KeyError('oops')\n"
        "def held_up(model, x, target):\n"
        "    pathlib.Path('waiting').touch()\n"
        "    while not pathlib.Path('go').exists():\n        time.sleep(0.05)\n"
        "    return x.sum(1)\n"
    )
    options = [*STUDY_WITHOUT_ESTIMATORS, "--estimators", "random,fails,held_up", "--plugin", "own.py", "--out", "mine"]
    running = subprocess.Popen([sys.executable, "-m", "uproar", "run", *options], stderr=subprocess.PIPE)
    try:
        while not (here / "waiting").exists():
            assert running.poll() is None
            time.sleep(0.05)
        assert _exit_code(["report", "mine", "--trust"]) == 1
        shown = capsys.readouterr()
        assert re.search(r"missing \d+ results are not there yet", shown.err)
        assert "failed fails" in shown.err and "oops" in shown.err
        assert "not run yet" in (here / "mine" / "report.html").read_text()
    finally:
        (here / "go").touch()
        running.communicate(timeout=300)
    assert running.returncode == 1
    assert "not run yet" not in (here / "mine" / "report.html").read_text()


def test_a_failed_cell_is_told_and_gives_exit_code_1(here, capsys):
    (here / "bad.py").write_text("def bad(model, x, target):\n    raise KeyError('oops')\n")
    options = [*STUDY_WITHOUT_ESTIMATORS, "--estimators", "bad", "--plugin", "bad.py", "--out", "mine"]
    assert _exit_code(["run", *options, "--store", f"memory://{here.name}"]) == 1
    shown = capsys.readouterr()
    assert "failed bad" in shown.err
    assert " failed, in " in shown.out and "of them new" not in shown.out
    assert "oops" in (here / "mine" / "report.html").read_text()


def test_an_estimator_of_ones_own_that_raises_or_gives_nan_is_told(here, capsys):
    (here / "mine.py").write_text(
        "def stumbles(model, x, target):\n    raise RuntimeError('no map')\n"
        "def vague(model, x, target):\n    return x * float('nan')\n"
    )
    np.savez(here / "grey.npz", images=np.full((2, 1, 8, 8), 0.5))
    given = ["explain", "grey.npz", "--classes", "3", "--plugin", "mine.py", "--estimators"]
    assert _exit_code([*given, "stumbles"]) == 2
    assert "mine.py, line 2, raised RuntimeError: no map." in capsys.readouterr().err
    assert _exit_code([*given, "vague"]) == 0
    shown = capsys.readouterr().err
    assert "vague has NaN or infinite values in 2 of 2 maps" in shown
    assert "cnn-small has random weights" in shown


def test_a_run_whose_store_is_gone_is_not_reported_as_empty(here, capsys):
    (here / "mine").mkdir()
    told = {"study": {"seeds": 1}, "store": str(here / "gone"), "facts": {}}
    (here / "mine" / "run.json").write_text(json.dumps(told))
    assert _exit_code(["report", "mine"]) == 2
    assert "which is not there" in capsys.readouterr().err
    assert [p.name for p in (here / "mine").iterdir()] == ["run.json"]


def test_a_dry_run_says_what_would_run_and_leaves_nothing(here, capsys):
    (here / "s.toml").write_text(
        'task = "planted(size=8, train=60, test=30)"\nseeds = 2\nestimators = ["grad"]\nmetrics = ["roar"]\n'
    )
    assert _exit_code(["run", "s.toml", "--jobs", "1", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "20 results: 0 in the store, 0 do not apply, 20 to do." in shown
    assert re.search(r"About \d+ s with 1 process\.|Less than a second with 1 process\.", shown)
    assert not (here / "runs").exists()


def test_a_run_finds_its_weights_where_they_lie_now(here, capsys):
    values = uproar.build(MODEL, uproar.load(TASK), 0).state_dict()
    save_file(values, here / "given.safetensors")
    options = [*STUDY_WITHOUT_ESTIMATORS, "--estimators", "random,grad", "--out", "r"]
    assert _exit_code(["run", *options, "--weights", "given.safetensors"]) == 0
    (here / "given.safetensors").rename(here / "moved.safetensors")
    capsys.readouterr()
    assert _exit_code(["report", "r"]) == 2
    assert "give it as --weights FILE" in re.sub(r"\s+", " ", capsys.readouterr().err)
    assert _exit_code(["report", "r", "--weights", "moved.safetensors"]) == 0
    save_file({name: 2 * value for name, value in values.items()}, here / "other.safetensors")
    assert _exit_code(["report", "r", "--weights", "other.safetensors"]) == 2
    assert "The run had other weights" in capsys.readouterr().err


def test_explain_writes_a_picture_and_arrays_and_reads_its_own_arrays(here, capsys):
    small = ["--task", "planted(size=8, classes=3, train=60, test=30)", "--model", "cnn-small(width=4)"]
    names = ["--estimators", "grad,sg(grad, samples=3)"]
    assert _exit_code(["explain", *small, *names, "--limit", "5", "--out", "m.svg", "--save", "m.npz"]) == 0
    with np.load("m.npz") as file:
        assert set(file.files) == {"grad", "sg(grad, samples=3)", "images", "labels", "targets"}
        assert file["grad"].shape == (5, 8, 8)
        first = file["grad"].copy()
    assert (here / "m.svg").stat().st_size > 1000
    # the same again reads the store
    before = {p: p.stat().st_mtime_ns for p in here.rglob("*.safetensors")}
    assert _exit_code(["explain", *small, *names, "--limit", "5", "--out", "m.png", "--save", "m.safetensors"]) == 0
    assert before == {p: p.stat().st_mtime_ns for p in here.rglob("*.safetensors") if p.name != "m.safetensors"}
    from safetensors.numpy import load_file

    np.testing.assert_array_equal(load_file("m.safetensors")["grad"], first)
    assert (
        _exit_code(
            [
                "explain",
                "m.npz",
                "--model",
                "cnn-small(width=4)",
                "--classes",
                "3",
                "--estimators",
                "grad",
                "--target",
                "label",
                "--out",
                "own.svg",
            ]
        )
        == 0
    )
    assert "<svg" in (here / "own.svg").read_text()


def test_explain_reads_a_folder_of_pictures(here, capsys):
    from PIL import Image

    folder = here / "photos"
    folder.mkdir()
    for i in range(3):
        Image.fromarray(np.full((12, 10, 3), 40 * i, np.uint8)).save(folder / f"{i}.png")
    arguments = ["explain", "photos", "--classes", "2", "--estimators", "grad", "--out", "m.png", "--save", "m.npz"]
    assert _exit_code(arguments) == 0
    with np.load("m.npz") as file:
        assert file["images"].shape == (3, 3, 12, 10)
    Image.fromarray(np.zeros((5, 5), np.uint8)).save(folder / "z.png")
    assert _exit_code(arguments) == 2
    assert "(2.png is 10x12, z.png is 5x5)" in capsys.readouterr().err
    (folder / "z.png").write_bytes(b"junk")
    assert _exit_code(arguments) == 2
    assert "cannot be decoded" in capsys.readouterr().err


TRIED = """
import torch
def good(model, x, target):
    return x.sum(1) * model(x).gather(1, target[:, None])[:, :, None]
def by_batch(model, x, target):
    return good(model, x, target) / x.sum()
def by_chance(model, x, target):
    return torch.rand_like(x)
def blind(model, x, target):
    return x.sum(1)
def breaks_the_model(model, x, target):
    next(model.parameters()).data.add_(1)
    return good(model, x, target)
"""


def test_check_tells_a_good_estimator_from_bad_ones(here, capsys):
    (here / "mine.py").write_text(TRIED)
    assert _exit_code(["check", "good", "--plugin", "mine.py"]) == 0
    assert "good satisfies the contract" in capsys.readouterr().out
    for name, clause in {
        "by_batch": "does not depend on the batch",
        "by_chance": "is the same for a seed",
        "blind": "responds to the model",
        "breaks_the_model": "leaves the model",
    }.items():
        assert _exit_code(["check", name, "--plugin", "mine.py"]) == 1
        shown = capsys.readouterr().out
        broken = [line for line in shown.splitlines() if "│ no" in line]
        assert any(clause.split()[0] in line and clause.split()[-1][:5] in shown for line in broken), shown


def test_own_maps_are_methods_whatever_they_are_called(here, capsys):
    maps = np.random.default_rng(0).random((2, 12, 8, 8))
    np.savez("m.npz", oracle=maps[0], brightness=maps[1])
    common = ["score", *NETWORK, "--maps", "m.npz", "--metrics", "deletion(steps=3)", "--limit", "12", "--out", "s"]
    assert _exit_code(common) == 0
    table = pd.read_csv("s/scores.csv").set_index("method")
    assert table["role"].to_dict() == {
        "oracle": "method",
        "brightness": "method",
        "random": "random",
        **dict.fromkeys(["centre", "sobel", "block_random"], "baseline"),
    }
    assert set(uproar.open("s").answer.methods) == {"oracle", "brightness"}
    capsys.readouterr()
    assert _exit_code([*common, "--estimators", "brightness"]) == 2
    assert "There are maps called 'brightness' and an estimator of that name" in capsys.readouterr().err


def test_score_takes_own_maps_and_estimators_and_writes_tables_and_a_page(here, capsys):
    small = ["--task", "planted(size=8, classes=3, train=60, test=30)", "--model", "cnn-small(width=4)"]
    assert (
        _exit_code(["explain", *small, "--estimators", "grad", "--limit", "20", "--out", "m.png", "--save", "m.npz"])
        == 0
    )
    capsys.readouterr()
    common = ["score", *small, "--metrics", "deletion(steps=5),pointing_game", "--limit", "20"]
    assert _exit_code([*common, "--maps", "m.npz", "--out", "s"]) == 0
    shown = capsys.readouterr().out
    assert "deletion (lower is better" in " ".join(shown.split())
    assert "images shown to the model" in shown
    for name in ("report.html", "scores.csv", "comparisons.csv", "per_image.parquet"):
        assert (here / "s" / name).stat().st_size > 0
    table = pd.read_csv("s/scores.csv")
    assert set(table["method"]) == {"grad", *BASELINES}, "baselines are scored beside given maps"
    each = pd.read_parquet("s/per_image.parquet")
    assert len(each) == 6 * 2 * 20
    assert _exit_code([*common, "--maps", "m.npz", "--limit", "25"]) == 2
    assert "The maps 'grad' are (20, 8, 8); for 25 images they must be (25, 8, 8)." in capsys.readouterr().err
    assert _exit_code(["score", *small, "--metrics", "deletoin"]) == 2
    assert "Did you mean 'deletion'" in capsys.readouterr().err
    assert (
        _exit_code(
            [
                "score",
                "m.npz",
                "--model",
                "cnn-small(width=4)",
                "--classes",
                "3",
                "--estimators",
                "grad",
                "--metrics",
                "total_variation",
                "--out",
                "own",
            ]
        )
        == 0
    )
    assert set(pd.read_csv("own/scores.csv")["method"]) == {"grad", *BASELINES}
    capsys.readouterr()
    assert _exit_code(["compare", "s", "grad", "random"]) == 0
    assert "pointing_game: lead of grad (1 pair, Holm)" in capsys.readouterr().out
    assert _exit_code(["compare", "s", "mine"]) == 2
    assert "s has no method 'mine' to compare; it has" in capsys.readouterr().err
