"""One tiny run, made once, and one browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from uproar.runs.execute import run
from uproar.runs.folder import write_run
from uproar.runs.open import open_folder
from uproar.study.spec import Study
from uproar.viewer.live import content_of
from webdriver import CHROMIUM, DRIVER, MISSING, Browser

STUDY = Study(
    name="tiny",
    tasks=["planted(size=8, classes=3, train=60, test=24)"],
    models=["cnn-small(width=4)"],
    estimators=["random", "grad", "sobel"],
    protocols=["roar", "kar:no-retrain"],
    metrics=["deletion(steps=4)"],
    fractions=[0.3, 0.7],
    seeds=2,
    recipe={"epochs": 1},
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """The folder of a finished run."""
    place = tmp_path_factory.mktemp("viewed") / "run"
    run(STUDY, store=place / "store", jobs=1)
    write_run(place, STUDY, str(place / "store"), {})
    progress(place, 4, 4)
    return place


def progress(place: Path, done: int, total: int) -> None:
    """Say in a folder how far its run is."""
    content = {"total": total, "cached": 0, "done": done, "left": 8.0, "notices": [], "machines": {}, "outcomes": []}
    (place / "progress.json").write_text(json.dumps(content))


@pytest.fixture(scope="session")
def opened(folder):
    return open_folder(folder)


@pytest.fixture(scope="session")
def content(opened):
    return content_of(opened)


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None or DRIVER is None:
        pytest.skip(MISSING)
    with Browser() as one:
        yield one
