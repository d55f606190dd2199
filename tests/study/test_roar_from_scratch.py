"""The example that writes ROAR out in plain torch gives the accuracies that a study gives."""

import runpy
from pathlib import Path

import pytest

import uproar

EXAMPLE = Path(__file__).parents[2] / "examples" / "roar_from_scratch.py"


def test_roar_written_out_gives_the_accuracies_of_a_study(tmp_path):
    study = uproar.Study(
        tasks=("digits",),
        models=("cnn-small",),
        estimators=("grad", "random"),
        baselines=(),
        metrics=("roar",),
        fractions=(0.5,),
        seeds=(0,),
        random_rankings=1,
    )
    table = uproar.run(study, store=tmp_path, jobs=1).cells
    of_study = {(row.estimator, row.fraction): row.accuracy for row in table.itertuples()}
    written_out = runpy.run_path(str(EXAMPLE))["roar"](fraction=0.5, seed=0)
    assert written_out["all pixels"] == pytest.approx(of_study["grad", 0.0], abs=1e-9)
    assert written_out["gradient"] == pytest.approx(of_study["grad", 0.5], abs=1e-9)
    assert written_out["random"] == pytest.approx(of_study["random", 0.5], abs=1e-9)
