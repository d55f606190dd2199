"""Whatever happens to files of a finished run, the same command gives the same numbers again."""

from __future__ import annotations

import pytest

import faulty


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished store, in small shards, and its tables."""
    store = tmp_path_factory.mktemp("whole") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uproar.study.shards.SHARD", faulty.SMALL_SHARDS)
        found = faulty.run(store)
        assert set(found.table["status"]) == {"done"} and found.lost == 0
        yield store, faulty.tables(found)


@pytest.mark.parametrize("seed", range(6))
def test_any_faults_are_repaired_within_one_run(whole, tmp_path, seed):
    store, expected = whole
    copy = faulty.copied(store, tmp_path / "copy")
    done = faulty.Faults(copy, seed).some(1 + seed)
    found = faulty.run(copy)
    assert faulty.tables(found) == expected, done
    assert found.lost == 0, done
