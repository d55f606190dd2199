"""The comparison of two files of reference numbers finds what differs, and nothing else."""

import numpy as np
from tools import reference_numbers


def write(path, **leaves):
    np.savez(path, **leaves)
    return str(path)


def test_a_changed_a_missing_and_a_new_leaf_are_listed(tmp_path, capsys):
    ones, gap = np.ones(3), np.array([1.0, np.nan])
    before = write(tmp_path / "before.npz", same=ones, nan=gap, maps=ones, gone=ones, wide=ones, lost=gap)
    changed = ones + np.array([0, 0.5, 2e-7])
    after = write(tmp_path / "after.npz", same=ones, nan=gap, maps=changed, more=ones, wide=np.ones(4), lost=np.ones(2))
    assert reference_numbers.main(["compare", before, after]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines[:-1]) == [
        "differs   lost: 1 of 2 values, NaN on one side",
        "differs   maps: 1 of 3 values, largest difference 0.5",
        "missing   gone",
        "new       more",
        "shape     wide: (3,) before, (4,) after",
    ]
    assert reference_numbers.main(["compare", before, after, "--tolerance", "1"]) == 1  # those are still missing


def test_files_within_the_tolerance_are_the_same(tmp_path):
    before = write(tmp_path / "before.npz", small=np.zeros(2), large=np.array([1e6]))
    after = write(tmp_path / "after.npz", small=np.full(2, 5e-7), large=np.array([1e6 + 0.5]))
    assert reference_numbers.main(["compare", before, after]) == 0
    assert reference_numbers.main(["compare", before, after, "--tolerance", "1e-8"]) == 1
