"""Values of maps: metrics that see them, and metrics that do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from tests.audits.handmade import Handmade, handed
from uproar import Study
from uproar.audits.registry import read_audit, studies_of
from uproar.audits.values import (
    ALL,
    ALTERED,
    CUT,
    RESAMPLES,
    ChangedCurves,
    changed_chains,
    hausdorff,
    least_distance,
    mean_distance,
    values,
    variants,
)
from uproar.errors import NotApplicable

AXIS = (0.0, 0.5, 1.0)


def _made_up(shift: float, noise: float = 0.001) -> Handmade:
    """ROAD curves that move by so much where values are removed, and as far the other way where introduced."""
    draws = np.random.default_rng(5)
    responses = {}
    for scheme, clip in (
        ("constant", True),
        ("constant", False),
        ("random", True),
        ("random", False),
        ("partial", True),
    ):
        for how, sign in (("removed", -1), ("introduced", 1)):
            curve = 0.5 + sign * shift + noise * draws.normal(size=(6, 3))
            responses["road", changed_chains("ig", scheme, clip)[how], 0] = {"value": curve.mean(1), "curve": curve}
    responses["road", "ig", 0] = {"value": np.full(6, 0.5), "curve": np.full((6, 3), 0.5)}
    return Handmade(responses, axes={"road": AXIS})


def test_a_metric_whose_curves_do_not_move_misleads_and_one_whose_curves_do_holds():
    blind = values(handed(**{ALTERED: _made_up(0.0)}), estimators=("ig",))
    assert blind.state == "misleads"
    assert blind.sentence.startswith("road cannot distinguish maps that differ in values and not in order")
    sees = values(handed(**{ALTERED: _made_up(0.2)}), estimators=("ig",))
    assert sees.state == "holds"
    table = sees.tables["smallest Hausdorff distance by metric"]
    assert table["distance"].tolist() == pytest.approx([0.2, 0.2], abs=0.01)
    assert table["changes"].tolist() == [ALL, CUT]
    assert table["n"].tolist() == [6, 6]  # images: the cells of one metric share them
    assert "road distinguish maps" in sees.sentence
    assert len(sees.tables["by estimator and scheme"]) == 5
    assert sees.plots[1].data["map"].tolist() == ["plain"] * 3 + ["removed"] * 3 + ["introduced"] * 3


def test_the_distance_is_hausdorffs_and_the_smallest_of_three():
    draws = np.random.default_rng(0)
    a, b = draws.random((9, 2)), draws.random((7, 2))
    between = cdist(a, b)
    assert hausdorff(a, b) == pytest.approx(max(between.min(0).max(), between.min(1).max()))
    curves = {"x": np.array([[0, 0.0]]), "y": np.array([[0, 0.3]]), "z": np.array([[0, 0.4]])}
    assert least_distance(curves) == pytest.approx(0.1)


def _cells(distances: np.ndarray, drawn: np.ndarray, images: int) -> pd.DataFrame:
    """Rows of one metric, (cells, replicates) distances and (cells, replicates, resamples) resampled ones."""
    return pd.DataFrame(
        [
            {"seed": s, "distance": distances[c, s], "resampled": drawn[c, s], "images": images}
            for c, s in np.ndindex(distances.shape)
        ]
    )


def test_more_cells_of_the_same_images_do_not_make_a_distance_more_certain():
    """Six cells that share their images and networks are one measurement, not six."""
    draws = np.random.default_rng(3)
    one, again = 0.1 + 0.02 * draws.normal(size=(1, 3)), 0.1 + 0.02 * draws.normal(size=(1, 3, RESAMPLES))
    alone = mean_distance(_cells(one, again, 50))
    six = mean_distance(_cells(np.repeat(one, 6, 0), np.repeat(again, 6, 0), 50))
    assert (six.low, six.high) == pytest.approx((alone.low, alone.high))
    assert (six.n, six.replicates) == (50, 3)


def test_the_interval_of_a_distance_covers_what_all_images_have():
    """Curves of 400 images and samples of 40 of them: about 19 in 20 intervals hold the distance of all."""
    draws, hit = np.random.default_rng(8), 0
    plain, moved = 0.5 + 0.2 * draws.normal(size=(400, 3)), 0.2 + 0.3 * draws.normal(size=(400, 3))
    world = {"ig": plain, "down": plain - moved, "up": plain + 2 * moved}

    def curves(rows: np.ndarray) -> ChangedCurves:
        responses = {("road", "ig", 0): {"value": plain[rows].mean(1), "curve": plain[rows]}}
        for how, name in (("removed", "down"), ("introduced", "up")):
            curve = world[name][rows]
            for scheme, clip in variants():
                responses["road", changed_chains("ig", scheme, clip)[how], 0] = {"value": curve.mean(1), "curve": curve}
        return ChangedCurves(Handmade(responses, axes={"road": AXIS}))

    truth = least_distance(curves(np.arange(400)).three("road", "ig", "constant", True, 0))
    for _ in range(60):
        interval = mean_distance(curves(draws.integers(400, size=40)).table(["ig"]))
        hit += interval.low < truth < interval.high
    assert 52 <= hit <= 60


def test_soundness_is_drawn_against_accuracy():
    score = np.array([[0, 1, 1], [0, 0, 1]], dtype=float)
    response = {"value": np.ones(2), "curve": score, "included": np.array([[1, 2, 3]] * 2), "defined": np.ones(2)}
    part = Handmade({("soundness(steps=3)", "ig", 0): response})
    points = ChangedCurves(part).points("soundness(steps=3)", "ig", 0)
    # the first step's attribution brings nothing and is false: 0, 1/2 and 2/3 of what is included are true
    assert points.tolist() == [[0, 0], [0.5, 0.5], [1.0, pytest.approx(2 / 3)]]


def test_what_it_asks_for_is_plain_removed_and_introduced_maps():
    chains = studies_of(read_audit("values(estimators=[ig])"), Study(seeds=2))[ALTERED].estimators
    assert len(chains) == 11
    assert chains[:3] == ("ig", "remove_values(ig)", "introduce_values(ig)")
    assert "remove_values(ig, clip=false, scheme=random)" in chains


def test_nothing_finished_is_refused():
    with pytest.raises(NotApplicable, match="no metric of ig .* is finished"):
        values(handed(**{ALTERED: Handmade()}), estimators=("ig",))
