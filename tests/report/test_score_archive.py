"""What scores leave in their folder is what is read again."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from tests.results.test_evaluator import GAINS, KINDS, scores_of
from uproar.report.score_archive import _packed, _unpacked


def test_what_an_evaluator_says_is_read_again_as_it_was_written():
    bits = replace(scores_of(GAINS, KINDS).bits, leaks={"good": 0.25}, entropy=2.5)
    arrays: dict[str, np.ndarray] = {}
    again = _unpacked(json.loads(json.dumps(_packed(bits, arrays))), arrays)
    assert again.kinds == dict(bits.kinds) and again.models == bits.models
    assert (again.leaks, again.entropy) == (bits.leaks, bits.entropy)
    for name in ("unmoved", "shifted"):
        before, after = getattr(bits, name), getattr(again, name)
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[cell], after[cell], equal_nan=True) for cell in before)
