"""Pages of results: complete, the same each time."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from uproar.papers.claims import judge
from uproar.report import write_results
from uproar.results.finding import Finding, Plot

TOLD = ("A study made by hand.", '# A study made by hand.\n\nclaims = ["hooker2019"]\n')


@pytest.fixture
def run(make_cells, make_results, make_picture):
    """Gradient is far worse than random: `single` holds, `sg-sq` does not."""
    roar = {"random": 0.50, "grad": 0.85, "sg_sq(grad)": 0.80}
    rows = make_cells({"roar": roar, "kar": {"random": 0.50, "grad": 0.70, "sg_sq(grad)": 0.65}})
    provenance = {
        "classes": {"digits": 10},
        "command": "uproar run mine --out /tmp/mine --store /tmp/s",
        "executor": "2 processes",
        "wall": {"seconds": 65.1, "begun": 2, "ended": 1},
        "versions": {"uproar": "0.1.0"},
        "python": "3.11.7",
        "machine": "Linux",
        "data": {"digits": "ab" * 20},
    }
    study = {"name": "mine-laptop", "weights": None}
    results = make_results(rows, study=study, provenance=provenance, pictures=(make_picture(list(roar)),))
    return replace(results, claims=tuple(judge(results, ["hooker2019"])), work={"cells": 100.0})


def cells(page: str, name: str) -> list[str]:
    line = next(line for line in page.splitlines() if name in line and line.startswith("|"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_a_page_has_the_file_the_claims_and_the_figures(run, tmp_path):
    path = write_results(run, tmp_path, *TOLD)
    page = path.read_text()
    assert path == tmp_path / "mine-laptop.md"
    assert "| wall time | 1 min 05 s |" in page
    assert 'claims = ["hooker2019"]' in page
    claim = cells(page, "`hooker2019:sg-sq`")  # the study has one of the three forms
    assert claim[1] == "does not hold in part"
    assert claim[2].startswith("−0.300 (") and claim[4] == "5 replicates"
    assert cells(page, "`hooker2019:random-99`")[1:3] == ["not tested", "the study has no roar of random at 0.99"]
    assert cells(page.partition("Methods and baselines by metric")[2], "| grad |")[1:3] == [
        r"−25.3 \[−25.7, −24.9\]",
        r"▲ +18.0 \[+17.5, +18.5\]",
    ]
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (tmp_path / link).stat().st_size > 0, link
    assert not list(tmp_path.rglob("*.html"))
    pairs = pd.read_csv(tmp_path / "mine-laptop" / "comparisons.csv")
    again = run.comparisons.reset_index(drop=True)
    assert len(pairs) and pairs["p_holm"].to_numpy() == pytest.approx(again["p_holm"].to_numpy())
    assert "](mine-laptop/comparisons.csv)" in page


def test_audits_are_on_the_page_with_their_figures(run, tmp_path):
    task, model = run.settings[0]
    data = pd.DataFrame({"fraction": [0.1, 0.5], "repeated": [0.9, 0.8], "estimator": ["grad"] * 2})
    plot = Plot(
        "again",
        "lines",
        "Grad hands its answers on",
        "Higher: more of them.",
        data,
        "fraction",
        "repeated",
        "share removed",
        "repeated",
        "estimator",
    )
    finding = Finding(
        "misleads",
        "They come again.",
        plots=(plot,),
        audit="leakage",
        title="Whose",
        question="Whose?",
        task=task,
        model=model,
    )
    page = write_results(replace(run, findings=(finding,)), tmp_path, *TOLD).read_text()
    assert "| Whose | Whose? | misleads here | They come again. |" in page
    (link,) = re.findall(r"!\[Grad hands its answers on\]\(([^)]+)\)", page)
    assert b"<svg" in (tmp_path / link).read_bytes() and "Higher: more of them." in page


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    def written(folder: Path) -> dict[str, bytes]:
        write_results(run, folder, *TOLD)
        files = (p for p in folder.rglob("*") if p.is_file())
        return {str(p.relative_to(folder)): p.read_bytes() for p in files}

    assert written(tmp_path / "a") == written(tmp_path / "b")


def test_facts_are_read_by_programs(run, tmp_path):
    write_results(run, tmp_path, *TOLD)
    facts = json.loads((tmp_path / "mine-laptop" / "facts.json").read_text())
    assert facts["cells"] == {"done": 60}
    assert (facts["replicates"], facts["estimators"], facts["test_images"]) == (5, 3, [100])
