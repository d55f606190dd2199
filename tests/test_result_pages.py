"""The pages on what papers claim: every number of a table is that of the file beside it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.papers.made import results
from uproar.papers.claims import judge
from uproar.results.claim_outcome import claims_table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAPERS = ("hooker2019", "song2023", "li2024", "vandersmissen2023")
ROW = re.compile(
    r"\| `(?P<claim>[\w-]+)` \|.*\| (?P<here>\S+ \(\S+ to \S+\)) \| (?P<outcome>[^|]+) \| (?P<size>[^|]+) \|"
)


def _claims(paper: str) -> set[tuple[str, str, str, str]]:
    """What the files say of the number that decides each claim: name, number with interval, outcome, size."""
    rows = set()
    for file in RESULTS.glob(f"{paper}*/claims.csv"):
        table = pd.read_csv(file)
        for row in table[table["decides"].astype(bool)].itertuples():
            ends = [f"{value:+.3f}".replace("-", "−") if value == value else "–" for value in (row.low, row.high)]
            here = f"{row.effect:+.3f} ({ends[0]} to {ends[1]})".replace("-", "−")
            size = row.as_published if isinstance(row.as_published, str) else "–"
            rows.add((row.claim.partition(":")[2], here, row.outcome, size))
    return rows


@pytest.mark.parametrize("paper", PAPERS)
def test_the_claims_of_a_page_are_those_of_the_files(paper):
    page = (RESULTS / f"{paper}.md").read_text(encoding="utf-8")
    shown = [match.groups() for match in map(ROW.match, page.splitlines()) if match]
    assert len(shown) >= 15
    assert set(shown) <= _claims(paper)
    assert len(shown) == sum(line.startswith("| `") and line.count("|") == 7 for line in page.splitlines())


@pytest.mark.parametrize("paper", ["hooker2019", "song2023"])
def test_claims_about_retraining_follow_from_the_accuracies(paper):
    """Claims are tested by this version, on the accuracies of the file beside them."""
    folder = RESULTS / f"{paper}-laptop"
    cells = pd.read_csv(folder / "results.csv")
    task, model = cells[["task", "model"]].iloc[0]
    given = replace(results(cells), provenance={"classes": {task: 10}})
    here = claims_table([one for one in judge(given, [paper]) if one.outcome != "not tested"])
    file = pd.read_csv(folder / "claims.csv")
    file = file[file["claim"].isin(here["claim"]) & (file["model"] == model)]
    for column in ("claim", "outcome", "what"):
        assert list(here[column]) == list(file[column])
    for column in ("effect", "low", "high"):
        assert here[column].to_numpy(float) == pytest.approx(file[column].to_numpy(float), abs=1e-6, nan_ok=True)


def _cells(page: str, head: str) -> dict[str, list[str]]:
    """The rows of the table with this head, by their first cell."""
    lines = page[page.index(head) :].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines[: next(i for i, line in enumerate(lines) if not line)]]
    return {row[0].strip("` "): row[1:] for row in rows}


def test_tables_of_values_are_those_of_the_files():
    accuracy = pd.read_csv(RESULTS / "hooker2019-laptop" / "results.csv")
    means = accuracy.groupby(["estimator", "metric", "fraction"])["accuracy"].mean()
    rows = _cells((RESULTS / "hooker2019.md").read_text(encoding="utf-8"), "| accuracy | 10 % |")
    for name, cells in rows.items():
        estimator, _, kind = name.partition("`, ")
        metric = "roar" if kind == "ROAR" else "roar:mask"
        here = [f"{means[estimator, metric, t]:.3f}".lstrip("0") for t in (0.1, 0.5, 0.9, 0.99)]
        assert cells == here, name
    assert len(rows) == 4

    values = pd.read_csv(RESULTS / "li2024-laptop" / "metric_values.csv").set_index(["method", "metric"])["value"]
    methods = values.index.get_level_values("method").unique()
    metrics = values.index.get_level_values("metric").unique()
    rows = _cells((RESULTS / "li2024.md").read_text(encoding="utf-8"), "| | soundness | completeness |")
    assert len(rows) == len(methods) == 9
    for cells, method in zip(rows.values(), methods, strict=True):
        assert cells == [f"{values[method, metric]:.3f}".removeprefix("0") for metric in metrics], method

    points = pd.read_csv(RESULTS / "vandersmissen2023-pointing-laptop" / "metric_values.csv")
    hits = {f"{100 * value:.1f} %" for value in points[points["metric"] == "pointing_game"]["value"]}
    rows = _cells(
        (RESULTS / "vandersmissen2023.md").read_text(encoding="utf-8"),
        "| | published | here |\n|---|--:|--:|\n| adaSISE",
    )
    assert len(rows) == 7 and {here for _, here in rows.values()} <= hits


def test_pages_are_short_and_their_links_lead_somewhere():
    words = 0
    for page in [*RESULTS.glob("*.md"), RESULTS.parent / "reproduce.md"]:
        text = page.read_text(encoding="utf-8")
        count = len(re.sub(r"\||-{3,}:?", " ", text).split())
        assert count <= (1_200 if page.parent == RESULTS else 2_500), page.name
        words += count
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert (page.parent / link).exists(), (page.name, link)
    assert words <= 8_000
