"""Numbers are never cut: names wrap, and where that is not enough, a table becomes a list."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.cli.printed import terminal_of
from uproar.cli.ls import Kind, ls
from uproar.cli.options import LISTINGS
from uproar.cli.report import print_pairs
from uproar.cli.results import print_findings, print_metric_tables, print_verdicts
from uproar.cli.screen import print_table, styled
from uproar.results.finding import Finding

LONG = "gaussian(sg_sq(integrated_gradients, samples=20, noise=0.15), sigma=2.5)"
WIDTHS = (40, 60, 80, 200)


@pytest.fixture
def drawn(monkeypatch):
    """A table on a terminal of some width."""

    def draw(width, title, columns, row) -> str:
        console = terminal_of(monkeypatch, width)
        print_table(title, columns, [row])
        return console.file.getvalue()

    return draw


def words(text: str) -> set[str]:
    """Everything between spaces and borders."""
    return set(re.split(r"[\s│┃]+", text))


def scores() -> pd.DataFrame:
    rows = [
        {
            "method": name,
            "metric": "insertion",
            "value": value,
            "low": value - 0.0213,
            "high": value + 0.0213,
            "n": 71800,
            "nan": nan,
            "higher_is_better": True,
            "ranked": not nan,
            "note": note,
        }
        for name, value, nan, note in (
            ("random", 0.12345, 0, ""),
            (LONG, 0.98765, 31900, "not ranked: undefined for 31900 of 71800 images"),
        )
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("kind", ["metrics", "claims", "studies"])
def test_names_that_are_listed_are_never_broken(kind, monkeypatch):
    """They are copied into commands."""
    console = terminal_of(monkeypatch, 80)
    ls(Kind(kind))
    shown = console.file.getvalue()
    names = {row[0] for listing in json.loads(LISTINGS.read_text(encoding="utf-8"))[kind] for row in listing["rows"]}
    assert names <= words(shown)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("width", WIDTHS)
def test_scores_keep_their_numbers(width, monkeypatch):
    console = terminal_of(monkeypatch, width)
    print_metric_tables(type("Scores", (), {"table": scores(), "replicates": 1, "negative_controls": {}}))
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert {"0.123", "0.102…0.145", "71800", "31900", "(0.988)", "0.966…1.009"} <= words(shown)
    first = "".join(row.split("│")[1] if row.startswith("│") else row for row in shown.splitlines())
    assert LONG.replace(" ", "") in first.replace(" ", ""), "the name wraps, and is there in full"


@pytest.mark.parametrize("width", WIDTHS)
def test_verdicts_keep_their_numbers(width, monkeypatch):
    verdicts = pd.DataFrame(
        {
            "task": "digits",
            "model": "cnn-small",
            "metric": "roar",
            "estimator": ["grad", LONG],
            "advantage": [-0.2361, 0.1234],
            "low": [-0.31, 0.1],
            "high": [-0.11, 0.15],
            "df": [2.0, 17.1],
            "p": [0.0161, 0.00001],
            "p_holm": [0.0321, 0.00001],
            "verdict": ["not significantly different (3 replicates)", "better than random"],
            "side": [0, 1],
            "n": 3,
            "images": 71800,
            "random_rankings": 5,
            "control": "passed",
            "note": ["", "the spread of random is 0"],
        }
    )
    trust = pd.DataFrame(columns=["task", "model", "metric", "estimator", "trust", "why"])
    console = terminal_of(monkeypatch, width)
    results = {"verdicts": verdicts, "trust": trust, "score_names": {}}
    print_verdicts(type("Results", (), results))
    shown = console.file.getvalue()
    assert {"-23.6", "-31.0…-11.0", "0.032", "+12.3", "+10.0…+15.0", "<0.001"} <= words(shown)
    assert "3 seeds." in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_any_table_of_numbers_is_whole_and_inside_the_terminal(width, drawn):
    columns = ("against", ">lead, points", ">95 % interval", ">p (Holm)", ">n", "verdict")
    row = (LONG, "+0.1234", "-12.3456…+12.3456", "<0.001", "1234567", styled(("not significant", "yellow")))
    text = drawn(width, "How far mine leads", columns, row)
    assert {"+0.1234", "-12.3456…+12.3456", "<0.001", "1234567", "significant"} <= words(text)
    assert max(map(len, text.splitlines())) <= width


def test_what_fits_is_a_table_with_its_names_on_one_line(drawn):
    columns = ("estimator", ">advantage", ">95 % interval", ">p (Holm)", "verdict")
    text = drawn(80, "Areas", columns, ("guided_backprop", "-23.6", "-31.0…-11.0", "0.032", "worse than random"))
    assert "┃" in text and "│ guided_backprop │" in text and "│ worse than random │" in text


def test_a_number_of_several_lines_stays_readable_in_a_list(drawn):
    text = drawn(30, "Claims", ("claim", ">effect, 95 % interval", "outcome"), ("one", "+0.1\n-0.1 to +0.4", "holds"))
    assert "effect, 95 % interval +0.1 -0.1 to +0.4" in " ".join(text.split())


def test_the_state_of_a_finding_is_told_apart_from_its_sentence_without_colours(capsys):
    finding = Finding("cannot tell", "1 of 3 is.", title="Stability", question="Does it last?")
    print_findings([finding])
    assert "cannot tell: 1 of 3 is." in capsys.readouterr().out


def test_a_pair_without_a_test_is_not_called_not_significant(monkeypatch):
    pairs = pd.DataFrame(
        {
            "measure": "road",
            "better": "ig",
            "worse": ["grad", "lrp"],
            "against": "",
            "difference": 0.1,
            "low": 0.05,
            "high": 0.15,
            "se": 0.02,
            "df": 199.0,
            "p": [0.4, np.nan],
            "p_holm": np.nan,
            "verdict": "",
            "n": 200,
            "replicates": 1,
            "ranked": True,
            "side": 0,
        }
    )
    console = terminal_of(monkeypatch, 80)
    print_pairs(pairs, {}, "ig", None)
    verdicts = {
        row.split("│")[1].strip(): row.split("│")[-2].strip()
        for row in console.file.getvalue().splitlines()
        if "│" in row
    }
    assert verdicts == {"grad": "not significant", "lrp": "not tested"}
