"""Blur: a filter's gain is found where images are made of blocks, and not where every pixel stands for itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import uproar
from tests.audits.handmade import Handmade
from uproar.audits.blur import Count, Filters, control_gains, filter_gains, marks, state
from uproar.errors import NotApplicable
from uproar.study.audit import audit_requests

STUDY = {
    "estimators": ["block_random"],
    "metrics": ["roar"],
    "fractions": [0.9],
    "seeds": 3,
    "recipe": {"epochs": 6},
    "audits": ["blur(sigma=2, road=false)"],
}


def table(**rows):
    """Areas with a little spread that is the same for nobody."""
    wobble = np.array([[0.001, -0.002, 0.001], [-0.002, 0.001, 0.001], [0.0015, 0.0005, -0.002]])
    names = {n.replace("max_", "max(").replace("gaussian_", "gaussian("): v for n, v in rows.items()}
    values = [v + wobble[i % 3] * (1 + i / 10) for i, v in enumerate(names.values())]
    index = [n + ")" if "(" in n else n for n in names]
    return pd.DataFrame(values, index=index)


@pytest.mark.parametrize(("grain", "expected"), [("blocks", True), ("noise", False)])
def test_blurred_random_gains_on_blocks_and_not_on_white_noise(grain, expected, made_up_tasks, tmp_path):
    study = {**STUDY, "tasks": f"textured(grain={grain})"}
    (actual,) = uproar.run(study, store=tmp_path, jobs=1).findings
    controls = actual.tables["controls"].set_index("first")
    assert (actual.state == "misleads") is expected
    assert controls["better"].any() == expected
    (heat,) = actual.plots
    assert set(heat.data["estimator"]) == {"random", "block_random"}


def test_differences_are_those_of_the_cells_for_roar_and_for_road(tmp_path):
    small = {
        "tasks": "planted(size=8, classes=2, train=40, test=20)",
        "estimators": ["sobel", "gaussian(sobel)"],
        "metrics": ["roar"],
        "fractions": [0.3, 0.7],
        "seeds": 2,
        "recipe": {"epochs": 1},
        "audits": ["blur"],
    }
    run = uproar.run({**small, "metrics": ["roar", "road"]}, store=tmp_path, jobs=1)
    (actual,) = run.findings
    roar, road = (plot.data.set_index(["estimator", "filter at share"])["difference"] for plot in actual.plots)
    cells = run.cells.groupby(["estimator", "fraction"])["accuracy"].mean()
    for t in (0.3, 0.7):
        expected = cells["gaussian(sobel)", t] - cells["sobel", t]
        assert roar["sobel", f"gaussian {100 * t:g} %"] == pytest.approx(expected)
    values = run.scores.groupby("estimator")["value"].mean()
    gained = actual.tables["gain by filtering, road (area)"].set_index("filtered")
    gain = values["sobel"] - values["gaussian(sobel)"]
    assert gained.loc["gaussian(sobel)", "gain"] == pytest.approx(gain)
    assert set(road.index.get_level_values(1)) == {"max 30 %", "gaussian 30 %", "max 70 %", "gaussian 70 %"}
    assert "gaussian(sobel) was left out: it is smooth already." in actual.notes


def test_gains_are_counted_by_estimator_and_decided_together():
    areas = table(
        random=0.8,
        max_random=0.8,
        gaussian_random=0.8,
        random_blurred=0.8,
        grad=0.7,
        max_grad=0.6,
        gaussian_grad=0.8,
        ig=0.7,
        max_ig=0.7,
        gaussian_ig=0.7,
    )
    gained = filter_gains(areas, ["random", "grad", "ig"], Filters(), sign=-1)
    result = gained.set_index("filtered")
    assert result["gain"].round(2).to_dict() == {
        "max(grad)": 0.1,
        "gaussian(grad)": -0.1,
        "max(ig)": 0.0,
        "gaussian(ig)": 0.0,
    }
    assert result.index[result["better"]].tolist() == ["max(grad)"]
    assert result.index[result["worse"]].tolist() == ["gaussian(grad)"]
    assert str(Count.of(gained)) == "1 of 2 estimators (0 get worse, 1 cannot be told)"
    controls = control_gains(areas, Filters(), sign=-1)
    assert state(gained, controls, 0.01) == "misleads"
    ig = gained[gained["estimator"] == "ig"]
    largest = max(ig["high"].max(), controls["high"].max())  # the audit is sound for margins above, and only there
    assert largest < 0.05
    assert state(ig, controls, largest + 1e-6) == "holds"
    assert state(ig, controls, largest - 1e-6) == "cannot tell"
    flipped = filter_gains(areas, ["grad"], Filters(), sign=1).set_index("filtered")
    assert flipped["better"].to_dict() == {"max(grad)": False, "gaussian(grad)": True}


def test_verdicts_that_smoothness_explains_are_marked():
    areas = table(
        random=0.8, max_random=0.8, gaussian_random=0.7, random_blurred=0.72, grad=0.7, ig=0.5, sobel=0.9, max_sobel=0.6
    )
    own = pd.DataFrame(
        {"side": [1, 1, -1], "advantage": [0.1, 0.3, -0.1], "low": [0.09, 0.29, -0.11], "high": [0.11, 0.31, -0.09]},
        index=["grad", "ig", "sobel"],
    )
    controls = control_gains(areas, Filters(), -1)
    result = marks(own, areas, Filters(), controls, "roar", -1)
    assert [(m.estimator, m.text) for m in result] == [("grad", "explained by blur"), ("sobel", "explained by blur")]
    assert result[0].why.startswith("10.0 ± 1.0 points better than random, but")
    assert "gaussian(random)" in result[0].why
    assert "max(sobel) is" in result[1].why


def test_what_cannot_be_filtered_is_refused_with_the_way_out(tmp_path):
    (one,) = audit_requests(uproar.Study(estimators=("gaussian(grad)", "bernoulli"), audits=("blur",)))
    assert "is a plain map that can be filtered; add one, e.g. grad" in one.refused
    small = {
        "tasks": "planted(size=8, classes=3, train=30, test=10)",
        "estimators": ["gaussian(grad)", "sobel"],
        "metrics": ["roar"],
        "fractions": [0.5],
        "seeds": 1,
        "recipe": {"epochs": 1},
        "audits": ["blur"],
    }
    (result,) = uproar.run(small, store=tmp_path, jobs=1).findings
    assert result.state == "skipped"
    assert "run at least 2 seeds" in result.sentence
    with pytest.raises(NotApplicable, match="no estimator has finished cells"):
        Handmade(accuracies={("roar", "grad"): {0.0: [0.9, 0.9]}}).areas("roar")
