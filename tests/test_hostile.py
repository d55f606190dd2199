"""A few of the hostile files of benchmarks/faults.py: nothing runs, nothing is written outside, markup stays text."""

from __future__ import annotations

import warnings

import pytest

import hostile


@pytest.mark.parametrize(("trials", "section"), [(60, hostile.weights), (15, hostile.archives), (2, hostile.pages)])
def test_hostile_files_do_no_harm(trials, section, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about files that are broken
        wrong = [(kind, what) for kind, what in section(trials, 0, tmp_path) if what]
    assert wrong == []
