"""Marked images: priors that win where they were made for, sets that agree, and networks that learned nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.audits.handmade import Handed, Handmade
from uproar import Study
from uproar.audits.registry import read_audit, studies_of
from uproar.audits.semi_natural import NUMBER, REAL, STRIPES, SYNTHETIC, bands_of, semi_natural
from uproar.data import load
from uproar.errors import NotApplicable

MAPS = {"Rect": "rect(ig)", "Pooling": "pooling(ig, bands=4)", "ig": "ig"}


def _set(road: dict[str, float], attr: dict[str, float] | None = None, learned: float = 0.9) -> Handmade:
    draws = np.random.default_rng(6)
    responses = {}
    for seed in (0, 1, 2):
        for name, chain in MAPS.items():
            curve = np.stack([np.full(40, learned), road[name] + 0.02 * draws.normal(size=40)], 1)
            responses["road", chain, seed] = {"value": curve[:, 1], "curve": curve}
            if attr:
                value = attr[name] + 0.02 * draws.normal(size=40)
                responses["attr_percent", chain, seed] = {"value": value}
    return Handmade(responses)


def _judged(real, number, stripes, attr_number, attr_stripes, learned=0.9):
    return semi_natural(
        Handed(
            **{
                REAL: _set(real),
                NUMBER: _set(number, attr_number, learned),
                STRIPES: _set(stripes, attr_stripes),
                SYNTHETIC: _set(number, attr_number),
            }
        )
    )


ALIKE = {"Rect": 0.6, "Pooling": 0.4, "ig": 0.2}


def test_priors_that_win_on_their_own_marks_only_mislead():
    judgement = _judged(
        {"Rect": 0.7, "Pooling": 0.6, "ig": 0.4},
        {"Rect": 0.1, "Pooling": 0.3, "ig": 0.2},
        ALIKE,
        {"Rect": 0.92, "Pooling": 0.6, "ig": 0.7},
        {"Rect": 0.31, "Pooling": 0.93, "ig": 0.5},
    )
    assert judgement.state == "misleads"
    assert "Attr % of Rect and Pooling is 0.92 and 0.60 on number marks, 0.31 and 0.93 on stripes" in judgement.sentence
    assert "the best map is Rect on number marks, Rect on empty images with them and ig on real" in judgement.sentence
    flips = judgement.tables["pairs that change places"]
    assert {("attr_percent", "Rect", "Pooling"), ("road", "Rect", "ig")} <= set(
        zip(flips["metric"], flips["map"], flips["other"], strict=True)
    )
    assert judgement.plots[0].title == "Rect finds number marks best, Pooling finds stripes best"


def test_sets_that_agree_hold():
    attr = {"Rect": 0.2, "Pooling": 0.4, "ig": 0.6}
    judgement = _judged(ALIKE, ALIKE, ALIKE, attr, attr)
    assert judgement.state == "holds"
    assert "no two maps clearly change places" in judgement.sentence


def test_a_network_that_did_not_learn_the_marks_says_nothing():
    with pytest.raises(NotApplicable, match=r"learned the number marks to 0\.20 only.*more epochs"):
        _judged(ALIKE, ALIKE, ALIKE, ALIKE, ALIKE, learned=0.2)


def test_it_asks_for_marked_empty_and_real_images_with_bands_as_the_stripes_have():
    parts = studies_of(read_audit("semi_natural(replicates=1)"), Study(tasks=("digits",)))
    assert parts[NUMBER].tasks == ("semi-natural(digits, kind=number, place=corner)",)
    assert parts[SYNTHETIC].tasks == ("semi-natural(blank(digits), kind=number, place=corner)",)
    assert parts[REAL].metrics == ("road",)
    assert parts[STRIPES].estimators == ("rect(ig)", "pooling(ig, bands=4)", "ig", "grad_cam")
    assert bands_of("digits") == 4


def test_where_marks_do_not_fit_it_says_so(tmp_path):
    with pytest.raises(NotApplicable, match="marked images cannot be made: A number of 1 digits needs"):
        studies_of(read_audit("semi_natural"), Study(tasks=("planted(size=5)",)))
    file = tmp_path / "weights.npz"
    file.write_bytes(b"")
    with pytest.raises(NotApplicable, match="leave `weights` out"):
        studies_of(read_audit("semi_natural"), Study(weights=str(file)))


def test_a_blank_task_keeps_labels_and_shows_nothing():
    task = load("blank(planted(size=6, channels=3, train=8, test=4), level=0.25)")
    assert task.train.images.unique().tolist() == [0.25]
    assert torch.equal(task.test.labels, load("planted(size=6, channels=3, train=8, test=4)").test.labels)
    assert task.test.truth(slice(None)) is None
