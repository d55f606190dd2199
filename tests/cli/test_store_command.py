"""`uproar store` as a person uses it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import STUDY
from uproar.cli.app import _exit_code
from uproar.store import Item, Store


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of a finished run, with its store beside it."""
    return tiny_run.copy(tmp_path / "mine")


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_verify_says_what_is_there_and_what_is_damaged(run, capsys):
    assert _exit_code(["store", "verify", str(run)]) == 0
    said = capsys.readouterr()
    assert "cell" in said.out and "model" in said.out and "Nothing is damaged." in said.out
    model, *_ = (run / "store" / "model").rglob("*.safetensors")
    flip(model)
    for address in (run, run / "store", f"file://{run}/store"):
        assert _exit_code(["store", "verify", str(address)]) == 1
        said = capsys.readouterr()
        assert f"{model.name}: does not match its digest" in said.err.replace("\n", "")
    assert model.exists(), "looking changes nothing"
    assert _exit_code(["store", "verify", str(run.parent)]) == 2
    assert "neither the folder of a run nor a store" in capsys.readouterr().err.replace("\n", " ")


def test_what_is_damaged_is_set_aside_and_a_run_by_its_folder_makes_it_again(run, capsys):
    damaged = [path for kind in ("levels", "cell") for path in (run / "store" / kind).rglob("*.safetensors")]
    for path in damaged:
        flip(path)
    assert _exit_code(["store", "verify", str(run), "--fix"]) == 1
    assert not any(path.exists() for path in damaged)
    assert _exit_code(["run", str(run), "--jobs", "1"]) == 0
    assert _exit_code(["store", "verify", str(run)]) == 0
    assert all(path.exists() and path.with_suffix(".damaged").exists() for path in damaged)


def test_a_report_of_a_damaged_run_says_so_and_a_run_repairs_it(run, capsys):
    model, *_ = (run / "store" / "model").rglob("*.safetensors")
    before = (run / "results.csv").read_text()
    flip(model)
    assert _exit_code(["report", str(run)]) == 1
    said = capsys.readouterr()
    assert "missing" in said.err and "results are not there yet" in said.err
    assert "missing" in (run / "results.csv").read_text()
    assert _exit_code(["run", *STUDY, "--out", str(run)]) == 0
    again = (run / "results.csv").read_text()
    assert [line.split(",")[:10] for line in again.splitlines()] == [
        line.split(",")[:10] for line in before.splitlines()
    ]


def test_clean_lists_first_and_removes_only_what_the_run_does_not_need(run, capsys):
    place = run / "store"
    needed = set(place.rglob("*.safetensors"))
    Store(place).write("cell", "f" * 40, Item({}, {"other": "study"}))
    aside = next(iter(needed)).with_suffix(".damaged")
    begun = place / "unfinished" / "cell-ab.1"
    own = place / "cell" / "notes.txt"
    for path in (aside, begun, own):
        path.write_text("x")
    assert _exit_code(["store", "clean", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ffff" in said and begun.name in said and "Nothing was removed; --yes" in said
    assert aside.exists() and begun.exists()
    assert _exit_code(["store", "clean", str(place), "--yes"]) == 0  # without a study: no result goes
    assert "Removed 2 files" in " ".join(capsys.readouterr().out.split())
    assert _exit_code(["store", "clean", str(run), "--yes"]) == 0
    assert "Removed 1 files" in " ".join(capsys.readouterr().out.split())
    assert set(place.rglob("*.safetensors")) == needed, "companions of trainings stay too"
    assert own.exists() and not aside.exists() and not begun.exists()
    assert _exit_code(["store", "clean", str(run)]) == 0
    assert "0.0 kB are not needed" in " ".join(capsys.readouterr().out.split())


def test_a_report_after_cleaning_is_whole_and_a_run_that_cannot_be_read_is_left_alone(run, capsys):
    Store(run / "store").write("cell", "f" * 40, Item({}, {}))
    assert _exit_code(["store", "clean", str(run), "--yes"]) == 0
    assert "Removed 1 files" in capsys.readouterr().out
    assert _exit_code(["report", str(run)]) == 0
    (run / "run.json").write_text("{}")
    before = {path for path in run.rglob("*") if path.is_file()}
    assert _exit_code(["store", "clean", str(run), "--yes"]) == 2
    assert {path for path in run.rglob("*") if path.is_file()} == before
    assert _exit_code(["store", "clean", str(run / "nowhere")]) == 2
