"""Input changed at random is read or refused in a sentence; `benchmarks/faults.py --sections input` does it thousands of times."""

from __future__ import annotations

import warnings

from tests.mutations import inputs


def test_changed_input_is_read_or_refused_in_a_sentence(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about files that are broken
        result = [(kind, wrong) for kind, wrong in inputs(100, 0, tmp_path) if wrong]
    assert not result
