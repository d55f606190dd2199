"""Settings of insertion and deletion: alike, unlike, and too small for regions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.audits.handmade import Handed, Handmade
from uproar import Study
from uproar.audits.agreement import KINDS, SETTINGS, consistency, settings, window_of
from uproar.audits.registry import read_audit, studies_of
from uproar.errors import NotApplicable


def _made_up(noise: float, n: int = 80, window: int | None = 3) -> Handmade:
    """Every setting sees the same goodness, and noise of its own."""
    draws = np.random.default_rng(3)
    good = {chain: draws.normal(size=n) for chain in ("random", "a", "b")}
    return Handmade(
        {
            (metric, chain, 0): {"value": good[chain] + noise * draws.normal(size=n)}
            for kind in KINDS
            for metric in settings(kind, window, 20).values()
            for chain in good
        }
    )


def test_settings_that_say_the_same_hold_and_others_do_not():
    alike = consistency(Handed(**{SETTINGS: _made_up(0.1)}))
    assert alike.state == "holds"
    unlike = consistency(Handed(**{SETTINGS: _made_up(3.0)}))
    assert unlike.state == "misleads"
    assert "0.7 is the usual bar" in unlike.sentence
    assert consistency(Handed(**{SETTINGS: _made_up(0.6, n=12)})).state == "cannot tell"


def test_the_numbers_are_scipys_averaged_over_estimators():
    part = _made_up(0.5)
    finding = consistency(Handed(**{SETTINGS: part}))
    table = finding.tables["insertion: every two settings"].set_index(["metric", "other"])
    assert len(table) == 15
    names = settings("insertion", 3, 20)
    a, b = names["mean+pixel"], names["blur+region"]
    by_chain = {
        chain: stats.spearmanr(*(part.responses(m, chain, 0)["value"] for m in (a, b))).statistic
        for chain in ("a", "b")
    }
    assert table.loc[("mean+pixel", "blur+region"), "over_images"] == pytest.approx(np.mean(list(by_chain.values())))
    single = finding.tables["insertion: per estimator"].set_index(["metric", "other"])
    assert single.loc[("mean+pixel", "blur+region"), ["a", "b"]].to_dict() == pytest.approx(by_chain)


def test_regions_fit_the_images_or_are_left_out_with_a_note():
    assert [window_of(s, s) for s in (5, 6, 8, 12, 28, 32, 224)] == [None, 3, 3, 5, 9, 9, 9]
    call = read_audit("consistency")
    for task, many in (("digits", 6), ("planted(size=5)", 3)):
        names = studies_of(call, Study(tasks=(task,)))[SETTINGS].metrics
        assert len(names) == 2 * many
    assert (
        "insertion(fill=blur, steps=20, unit=region, window=3)"
        in studies_of(call, Study(tasks=("digits",)))[SETTINGS].metrics
    )
    finding = consistency(Handed(**{SETTINGS: _made_up(0.1, window=None)}))
    assert any("too small for regions" in note for note in finding.notes)


def test_too_little_is_refused():
    with pytest.raises(NotApplicable, match="6 test images cannot show .* at least 10"):
        consistency(Handed(**{SETTINGS: _made_up(0.1, n=6)}))
