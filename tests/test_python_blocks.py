"""Every Python block of README and docs runs, page by page from top to bottom, on a small network and small images.

The pages that describe one file (`tests/test_pages.py`) are run there as plug-ins. A text that would need
more than there is here is replaced by `SMALLER`.
"""

from __future__ import annotations

import functools
import re
import shutil
from pathlib import Path

import pytest
import torch

import uproar
from uproar.estimators import estimators
from uproar.metrics import metrics
from uproar.report.files import write_files
from uproar.report.score_archive import archive_files
from uproar.report.tables import table_files
from uproar.scoring import score_all
from uproar.study.record import write_run
from uproar.training.recipe import recipes

from .test_pages import PAGES as FILES

ROOT = Path(__file__).parents[1]
REGISTRIES = (estimators, metrics, recipes)
SMALLER = {'metrics=["deletion", "road"]': 'metrics=["deletion(steps=2)", "road"]'}
STUDY = """
name = "digits"
task = "planted(size=8, classes=3, train=48, test=16)"
model = "cnn-small(width=2)"
estimators = ["random", "grad"]
metrics = ["roar:no-retrain", "evaluator"]
fractions = [0.5]
seeds = 2
[recipe]
epochs = 1
"""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)


ALL = [ROOT / "README.md", ROOT / "src/uproar/for-assistants.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = [page for page in ALL if blocks(page) and page.stem not in FILES]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the study files, the run and the scores that pages speak of."""
    folder = tmp_path_factory.mktemp("blocks")
    for name in ("study.toml", "mine.toml"):
        (folder / name).write_text(STUDY)
    runs = folder / "runs"
    uproar.run(folder / "study.toml", store=runs / "digits/store", jobs=1)
    write_run(runs / "digits", uproar.study_of(folder / "study.toml"), str(runs / "digits/store"), {}, STUDY)
    task, model, x, y, maps = small()
    scores = score_all(model, x, y, maps, ["deletion(steps=2)"], mean=task.mean)
    write_files({**table_files(scores), **archive_files(scores)}, runs / "score")
    return folder


def small():
    """A task, a network for it, images with labels, and maps of them."""
    task = uproar.load("planted(size=8, classes=3, train=48, test=16)")
    model = uproar.build("cnn-small(width=2)", task)
    x, y = task.test.read(slice(0, 12)), task.test.labels[:12]
    return task, model, x, y, {"random": torch.rand(12, 8, 8), "grad": uproar.explain(model, x, "grad", target=y)}


@pytest.fixture
def names(place):
    """What pages take for granted: a network, images with labels, maps, training images."""
    task, model, x, y, maps = small()
    return {
        "__name__": "page",
        "__file__": str(place / "page.py"),
        "uproar": uproar,
        "torch": torch,
        "task": task,
        "model": model,
        "images": x,
        "x": x,
        "labels": y,
        "y": y,
        "maps": maps,
        "colour": task.mean,
        "study": "study.toml",
    }


@pytest.fixture(autouse=True)
def _as_before():
    """What a page declares is gone afterwards."""
    before = [(registry, dict(registry._entries), dict(registry._by_module)) for registry in REGISTRIES]
    yield
    for registry, entries, by_module in before:
        registry._entries, registry._by_module = entries, by_module


@pytest.mark.filterwarnings("ignore:The tables are written as CSV")
@pytest.mark.filterwarnings("ignore:mean= was not given")
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(page, place, names, tmp_path, monkeypatch):
    folder = shutil.copytree(place, tmp_path / "place")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(uproar, "choose", functools.partial(uproar.choose, methods=["grad"]))
    monkeypatch.setattr(uproar.report, "missing_libraries", lambda: ["plotly"])  # pages are drawn in tests/report
    uproar.estimators.estimators._entries.pop("contrast_gradient", None)  # an example of the same process has it too
    for number, text in enumerate(blocks(page)):
        for large, small in SMALLER.items():
            text = text.replace(large, small)
        exec(compile(text, f"{page.name}, block {number}", "exec"), names)


def test_what_is_made_smaller_is_on_some_page():
    for large in SMALLER:
        assert any(large in text for page in ALL for text in blocks(page)), large
