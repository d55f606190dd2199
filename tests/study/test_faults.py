"""Whatever happens to files of a finished run, the same command gives the same numbers again."""

from __future__ import annotations

import contextlib
import shutil
import threading

import pytest

import faulty
import uproar
from tests.readings import forget
from uproar.store import Store
from uproar.study.collected import collect_run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished store, in small shards, and its tables."""
    store = tmp_path_factory.mktemp("whole") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uproar.study.ranking.SHARD", faulty.SMALL_SHARDS)
        results = faulty.run(store)
        assert set(results.cells["status"]) == {"done"} and results.lost == 0
        assert all(finding.state != "skipped" for finding in results.findings)
        kinds = {path.parts[-3] for path in faulty.Faults(store, 0).files()}
        assert kinds == {"cell", "model", "ranking", "score"}
        yield store, faulty.tables(results)


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of the finished store, to be damaged."""
    return faulty.copied(whole[0], tmp_path / "copy")


@pytest.mark.parametrize("seed", range(3))
def test_any_faults_are_repaired_within_one_run(whole, copy, seed):
    done = faulty.Faults(copy, seed).some(2 + seed)
    results = faulty.run(copy)
    assert faulty.tables(results) == whole[1], done
    assert results.lost == 0, done


@pytest.mark.parametrize("kind", ["model", "cell", "score"])
def test_what_was_deleted_is_made_again_and_nothing_else(whole, copy, kind):
    """All files of a kind at once."""
    files = [path for path in faulty.Faults(copy, 0).files() if path.parts[-3] == kind]
    others = {p: p.stat().st_mtime_ns for p in faulty.Faults(copy, 0).files() if p not in files}
    for path in files:
        path.unlink()
    results = faulty.run(copy)
    assert faulty.tables(results) == whole[1]
    assert all(path.exists() for path in files)
    assert not [p for p, then in others.items() if p.stat().st_mtime_ns != then]


def test_files_that_vanish_while_a_run_goes_on_are_made_again(whole, copy):
    faults = faulty.Faults(copy, 3)
    for _ in range(3):
        faults.delete()
    taken = []

    def take_away(state) -> None:
        """At every sign of life, until four more are gone."""
        if len(taken) < 4:
            with contextlib.suppress(IndexError, OSError):
                taken.append(faults.delete())

    forget()
    results = uproar.run(faulty.STUDY, store=copy, jobs=1, listen=take_away)
    assert len(taken) == 4
    assert faulty.tables(results) == whole[1] and results.lost == 0, taken


def test_what_vanishes_before_it_is_collected_is_made_again(whole, copy, monkeypatch):
    """Files that are there when a run is planned and gone when its results are read."""
    calls, faults = [], faulty.Faults(copy, 8)

    def collect(*arguments, **options):
        calls.append(threading.get_ident())
        if len(calls) == 1:
            for kind in ("model", "cell", "score", "ranking"):
                next(p for p in faults.files() if p.parts[-3] == kind).unlink()
        return collect_run(*arguments, **options)

    monkeypatch.setattr("uproar.study.collected.collect_run", collect)
    results = faulty.run(copy)
    assert len(calls) == 2
    assert faulty.tables(results) == whole[1] and results.lost == 0


def test_what_an_estimator_prepared_is_made_again_when_damaged(tmp_path):
    """It is read only by whoever makes maps anew."""
    changes = {**faulty.EVERY_KIND, "metrics": ["roar"], "fractions": [0.5], "seeds": 1, "audits": []}
    expected = faulty.tables(faulty.run(tmp_path / "store", **changes))
    (state,) = (tmp_path / "store" / "state").rglob("*.safetensors")
    sound = state.read_bytes()
    state.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    for kind in ("ranking", "cell"):
        shutil.rmtree(tmp_path / "store" / kind)
    results = faulty.run(tmp_path / "store", **changes)
    assert faulty.tables(results) == expected and results.lost == 0
    Store(tmp_path / "store").read("state", state.stem)


def test_a_report_computes_nothing_and_shows_what_is_missing(whole, copy):
    study = uproar.study_of(faulty.STUDY)
    model, cell = (next((copy / kind).rglob("*.safetensors")) for kind in ("model", "cell"))
    model.write_bytes(model.read_bytes()[:-1])
    cell.unlink()
    forget()
    actual = collect_run(study, copy)
    expected = collect_run(study, whole[0])
    assert len(actual.cells) == len(expected.cells)
    status = actual.cells["status"].value_counts()
    assert status["missing"] >= 1 and set(status.index) <= {"done", "missing"}
    assert actual.lost >= 1 and not model.exists() and not cell.exists()
    assert any("set aside" in notice for notice in actual.notices)


def test_a_failed_cell_is_not_tried_again_with_what_is_repaired(copy, tmp_path):
    (tmp_path / "bad.py").write_text(
        "def bad(model, x, target):\n    with open(COUNT, 'a') as file:\n        file.write('x')\n"
        "    raise ValueError('no')\n"
        f"COUNT = {str(tmp_path / 'count')!r}\n"
    )
    changes = {
        "estimators": ["random", "grad", "bad"],
        "plugins": [str(tmp_path / "bad.py")],
        "audits": [],
        "metrics": ["roar", "kar"],
    }
    faulty.run(copy, **changes)
    once = len((tmp_path / "count").read_text())
    (tmp_path / "count").write_text("")
    next((copy / "model").rglob("*.safetensors")).write_bytes(b"")
    results = faulty.run(copy, **changes)
    assert 0 < len((tmp_path / "count").read_text()) <= once
    assert set(results.cells["status"]) == {"done", "failed"} and results.lost == 0
