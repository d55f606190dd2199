"""Studies of maps made elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file
from safetensors.torch import save_file as torch_file

import uproar
from uproar.errors import BadInput
from uproar.study.grid import accuracies_of, settings_of

STUDY = """
task = "planted(size=8, classes=3, channels=3, train=45, test=20)"
model = "cnn-small(width=4)"
estimators = ["grad", "sq(grad)", "gaussian(grad)"]
metrics = ["roar", "roar:no-retrain"]
fractions = [0.5]
seeds = 1
recipe = {epochs = 1, batch = 16}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a study, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(STUDY)
    return tmp_path


def given(text: str, name: str = "m.safetensors") -> str:
    """The study with the maps of a file where it has gradients."""
    return text.replace("(grad)", f"(maps:{name})").replace('"grad"', f'"maps:{name}"')


def write_maps(file: str = "m.safetensors") -> None:
    """Weights of a network and its signed gradients of all images of the task, by a loop of one's own."""
    task = uproar.load("planted(size=8, classes=3, channels=3, train=45, test=20)")
    model = uproar.build("cnn-small(width=4)", task)
    torch_file(model.state_dict(), "net.safetensors")
    maps = {
        split.name: uproar.explain(model, split.read(slice(0, len(split))), "grad", raw=True, split=split.name).numpy()
        for split in (task.train, task.test)
    }
    save_file(maps, file)


def same_numbers(results) -> bool:
    """Whether the estimators of a run and those that take their maps from a file have the same numbers."""
    table = results.cells
    assert set(table.status) == {"done"}
    given = table.estimator.str.contains("maps:")
    table = table.assign(estimator=table.estimator.str.replace("maps:m.safetensors", "grad"))
    parts = [
        part[part.estimator.isin(table[given].estimator)]
        .sort_values(["metric", "estimator", "fraction"])
        .reset_index(drop=True)[["metric", "estimator", "fraction", "accuracy", "bits", "ties"]]
        for part in (table[~given], table[given])
    ]
    assert parts[1].bits.nunique() > 2
    return parts[0].equals(parts[1])


def test_maps_of_a_file_give_the_numbers_of_the_estimator_itself_in_worker_processes(here):
    write_maps()
    names = ("grad", "gaussian(grad)", "maps:m.safetensors", "gaussian(maps:m.safetensors)")
    study = uproar.study_of("s.toml", estimators=names, weights="net.safetensors")
    assert same_numbers(uproar.run(study, store="st", jobs=2))


def test_with_a_limit_each_image_finds_its_row(here):
    write_maps()
    names = ("grad", "sq(grad)", "maps:m.safetensors", "sq(maps:m.safetensors)")
    changes = {"limit": 15, "metrics": ("roar:no-retrain",), "fractions": (0.3, 0.7), "weights": "net.safetensors"}
    study = uproar.study_of("s.toml", estimators=names, **changes)
    assert same_numbers(uproar.run(study, store="st", jobs=1))


def test_maps_lie_beside_the_study_even_where_names_have_spaces(here):
    folder = here / "my studies"
    folder.mkdir()
    save_file({"test": np.zeros((20, 8, 8), np.float32)}, folder / "m.safetensors")
    (folder / "t.toml").write_text(given(STUDY))
    study = uproar.study_of("my studies/t.toml")
    assert study.estimators[1] == 'sq(maps:"my studies/m.safetensors")'
    assert [len(chain.files) for chain in study.chains] == [0, 1, 1, 1]


def test_maps_that_do_not_fit_are_refused_before_anything_is_run(here):
    maps = {"train": np.zeros((45, 8, 8), np.float32), "test": np.zeros((19, 8, 8), np.float32)}
    save_file(maps, "m.safetensors")
    (here / "t.toml").write_text(given(STUDY))
    with pytest.raises(BadInput, match=r"m\.safetensors has 19 test maps for 20 test images\."):
        uproar.run("t.toml", store="st", jobs=1)
    assert not list((here / "st").rglob("*.safetensors"))
    # where they fit one of the tasks, the cells of the other are skipped
    both = uproar.study_of(
        "t.toml",
        tasks=(
            "planted(size=8, classes=3, channels=3, train=45, test=20)",
            "planted(size=8, classes=3, channels=3, train=45, test=19)",
        ),
    )
    reasons = {cell.refused for s in settings_of(both) for cell in accuracies_of(both, s) if cell.refused}
    assert len(reasons) == 1
    assert "has 19 test maps for 20 test images" in reasons.pop()


def test_metrics_that_make_other_maps_are_skipped_with_the_reason(here):
    random = np.random.default_rng(0)
    maps = {s: random.normal(size=(n, 8, 8)).astype("f4") for s, n in (("train", 45), ("test", 20))}
    save_file(maps, "m.safetensors")
    study = uproar.study_of(
        "s.toml",
        estimators=("maps:m.safetensors",),
        metrics=("roar", "roar:mask-other", "deletion(steps=4)", "sensitivity_max"),
        seeds=(0, 1),
    )
    results = uproar.run(study, store="st", jobs=1)
    table = results.cells[results.cells.estimator.str.startswith("maps") & (results.cells.fraction > 0)]
    status = table.groupby("metric").status.unique().map(list).to_dict()
    assert status == {"roar": ["done"], "roar:mask-other": ["skipped"]}
    assert "needs maps of several base models" in table[table.status == "skipped"].reason.iloc[0]
    scores = results.scores[results.scores.estimator == "maps:m.safetensors"]
    by_metric = scores.groupby("metric").status.unique().map(list).to_dict()
    assert by_metric == {"deletion(steps=4)": ["done"], "sensitivity_max": ["skipped"]}
    assert any("Maps made elsewhere are the same in all replicates" in n for n in results.notices)


def test_a_nan_fails_the_cells_of_the_file_alone(here):
    maps = {"train": np.ones((45, 8, 8), np.float32), "test": np.ones((20, 8, 8), np.float32)}
    maps["test"][17, 3, 3] = np.nan
    save_file(maps, "m.safetensors")
    study = uproar.study_of("s.toml", estimators=("maps:m.safetensors", "sobel"), metrics=("roar:no-retrain",))
    table = uproar.run(study, store="st", jobs=1).cells
    assert set(table[table.estimator == "sobel"].status) == {"done"}
    lost = table[table.estimator.str.startswith("maps") & (table.fraction > 0)]
    assert set(lost.status) == {"failed"}
    assert "the map of test image 17 has NaN" in lost.reason.iloc[0]
