"""Coarse maps: metrics that reward blurring, metrics that do not, and too little to say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audits.handmade import Handed, Handmade
from uproar import Study
from uproar.audits.registry import read_audit, studies_of
from uproar.audits.sparsity import BLURRED, GRAIN, densities, sparsity
from uproar.errors import NotApplicable

PAIRS = ("ig", "coarse(ig)", "sg(grad)", "coarse(sg(grad))")


def _made_up(gain: float, n: int = 50) -> Handmade:
    """Deletion, where lower is better, changes by so much when maps are blurred."""
    draws = np.random.default_rng(4)
    return Handmade(
        {
            ("deletion", chain, seed): {"value": 0.5 - gain * chain.startswith("coarse") + 0.02 * draws.normal(size=n)}
            for chain in PAIRS
            for seed in (0, 1)
        }
    )


def _grain(n: int = 50) -> Handmade:
    densities = {"random": (0.5, np.ones(100)), "ig": (0.1, np.linspace(2, 0, 100))}
    return Handmade(
        {
            ("value_density", chain, 0): {"value": np.full(n, mean), "density": np.tile(d, (n, 1))}
            for chain, (mean, d) in densities.items()
        }
    )


def test_a_metric_that_improves_by_blurring_misleads_and_one_that_worsens_does_not():
    finding = sparsity(Handed(**{GRAIN: _grain(), BLURRED: _made_up(0.2)}))
    assert finding.state == "misleads"
    assert "improves 2 and worsens 0 of 2 scores" in finding.sentence
    assert "from 0.10 (ig) to 0.50 (random)" in finding.sentence
    assert finding.plots[1].title == "Blurring improves deletion"
    table = finding.tables["effect of blurring, positive = better"]
    assert table["gain"].tolist() == pytest.approx([0.2, 0.2], abs=0.02)
    assert sparsity(Handed(**{GRAIN: _grain(), BLURRED: _made_up(-0.2)})).state == "holds"
    assert sparsity(Handed(**{GRAIN: _grain(), BLURRED: _made_up(0.0)})).state == "cannot tell"


def test_densities_are_means_over_images_and_images_without_one_do_not_count():
    part = _grain(3)
    response = dict(part.responses("value_density", "ig", 0))
    response["density"] = np.array([np.ones(100), 3 * np.ones(100), np.full(100, np.nan)])
    part._responses["value_density", "ig", 0] = response
    table = densities(part)
    assert set(table.loc[table["estimator"] == "ig", "density"]) == {2.0}


def test_too_little_is_refused():
    with pytest.raises(NotApplicable, match="5 test images .* at least 10"):
        sparsity(Handed(**{GRAIN: _grain(), BLURRED: _made_up(0.2, n=5)}))
    with pytest.raises(NotApplicable, match=r"no metric of ig or sg\(grad\)"):
        sparsity(Handed(**{GRAIN: _grain(), BLURRED: Handmade()}))


def test_it_asks_for_the_grain_of_all_maps_and_for_fine_maps_plain_and_blurred():
    study = Study(tasks=("planted(size=8)",), estimators=("grad", "ig"), seeds=5)
    parts = studies_of(read_audit("sparsity(replicates=2)"), study)
    assert parts[GRAIN].estimators == ("random", "grad", "ig", "sg(grad)", "coarse(ig)", "coarse(sg(grad))")
    assert parts[BLURRED].estimators == PAIRS
    assert parts[BLURRED].metrics[-1] == "pointing_game"  # the glyph is known
    assert parts[BLURRED].seeds == (0, 1)
