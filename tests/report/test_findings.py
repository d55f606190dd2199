"""The sentences on top of the page and of the figures are true for cases made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from uproar.report.findings import leak_facts, summary
from uproar.report.section import sections_of
from uproar.report.titles import cost_title, gallery_title, picture_title, retraining_title, ties_title, verdict_title


@pytest.fixture
def section(make_cells, make_results):
    """`section({"roar": {...}})`: the only section of such results."""

    def make(levels, **options):
        return sections_of(make_results(make_cells(levels, **options)))[0]

    return make


def test_a_method_that_wins_everywhere_is_the_one_to_trust(section):
    made = section({"roar": {"random": 0.8, "grad": 0.6, "ig": 0.8}, "kar": {"random": 0.5, "grad": 0.7, "ig": 0.5}})
    assert summary(made).headline == ("Trust grad here: better than a random ranking under both ROAR and KAR.")


def test_a_control_is_never_recommended_and_spoils_the_recommendation_of_others(section):
    made = section({"roar": {"random": 0.8, "grad": 0.6, "sobel": 0.5}})
    assert summary(made).headline == (
        "grad beats a random ranking under ROAR, but so does sobel, which never looks at the network."
    )
    assert any("gains no more" in line for line in summary(made).details)
    alone = section({"roar": {"random": 0.8, "sobel": 0.5}})
    assert "only controls" in summary(alone).headline


def test_a_win_under_one_protocol_is_not_sold_as_a_win_under_both(section):
    made = section({"roar": {"random": 0.8, "grad": 0.6}, "kar": {"random": 0.5, "grad": 0.5}})
    assert summary(made).headline == "grad beats a random ranking under ROAR only."


def test_a_win_under_two_of_three_protocols_is_said_once_and_contradicted_methods_are_counted(section):
    """Not that it wins under each of them only; and a table in which more methods win does not say otherwise."""
    levels = {"random": 0.5, "grad": 0.7, "ig": 0.7, "sg(grad)": 0.5}
    made = section(
        {
            "roar": {"random": 0.5, "grad": 0.5, "ig": 0.8, "sg(grad)": 0.5},
            "kar": levels,
            "decoupled": {name: 1 - level for name, level in levels.items()},
        }
    )
    assert verdict_title(made, "kar").startswith("grad leads the 2 of 3 estimators")
    assert summary(made).headline == (
        "grad beats a random ranking under KAR and DECOUPLED only; 1 other is better under one protocol and worse "
        "under another."
    )


def test_worse_when_removed_and_better_when_kept_is_called_a_leak(section):
    made = section({"roar": {"random": 0.5, "grad": 0.9, "ig": 0.8}, "kar": {"random": 0.5, "grad": 0.9, "ig": 0.8}})
    result = summary(made)
    assert result.headline == (
        "The protocols contradict each other: both attribution methods are worse than a random "
        "ranking under ROAR and better under KAR."
    )
    assert "leaking mask" in result.details[0]
    assert "90\u00a0% of the pixels removed in the order of grad" in result.details[0]
    assert "90.0\u00a0%; in random order, 50.0\u00a0%" in result.details[0]
    assert leak_facts(made)[0].startswith("2 estimators are worse")


def test_the_opposite_contradiction_is_not_called_a_leak(section):
    made = section({"roar": {"random": 0.8, "grad": 0.6}, "kar": {"random": 0.5, "grad": 0.3}})
    result = summary(made)
    assert "worse than a random ranking under KAR and better under ROAR" in result.headline
    assert not any("leak" in line for line in result.details)
    assert leak_facts(made) == []


def test_the_leak_of_one_estimator_is_not_blamed_for_the_contradiction_of_others(section):
    made = section(
        {
            "roar": {"random": 0.7, "grad": 0.6, "ig": 0.6, "sobel": 0.9},
            "kar": {"random": 0.5, "grad": 0.3, "ig": 0.3, "sobel": 0.9},
        }
    )
    assert leak_facts(made)[0].startswith("1 estimator is worse")
    assert "both attribution methods are worse than a random ranking under KAR" in summary(made).headline
    assert not any("leaking mask" in line for line in summary(made).details)


def test_no_winner_is_said_with_the_number_of_losers(section):
    made = section({"roar": {"random": 0.5, "grad": 0.9, "ig": 0.5}})
    assert summary(made).headline == ("No attribution method beats a random ranking here; 1 of 2 is worse.")
    assert verdict_title(made, "roar") == "No estimator beats random under ROAR; 1 of 2 is worse"


def test_nothing_decided_names_the_number_of_replicates(section):
    made = section({"roar": {"random": 0.8, "grad": 0.8, "ig": 0.8}})
    assert summary(made).headline == (
        "No attribution method can be told apart from a random ranking with 3 replicates."
    )
    assert verdict_title(made, "roar") == ("No estimator can be told apart from random under ROAR with 3 replicates")
    one = section({"roar": {"random": 0.8, "grad": 0.2}}, seeds=1)
    assert summary(one).headline.endswith("with 1 replicate.")


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"roar": {"grad": 0.8, "ig": 0.7}}, "no random ranking"),
        ({"roar": {"random": 0.8}}, "only the random ranking"),
        ({"roar:no-retrain": {"random": 0.8, "grad": 0.7}}, "nothing was retrained"),
    ],
)
def test_a_missing_answer_says_what_is_missing(section, levels, words):
    assert summary(section(levels)).headline.startswith("No answer")
    assert words in summary(section(levels)).headline


def test_without_any_finished_cell_there_is_no_answer_yet(make_cells, make_results):
    rows = [r | {"status": "failed", "accuracy": np.nan} for r in make_cells({"roar": {"random": 0.8}})]
    made = sections_of(make_results(rows))[0]
    assert summary(made).headline == "No answer yet: no cell is done."


def test_the_title_names_the_best_and_counts_better_and_worse(section):
    made = section({"roar": {"random": 0.8, "grad": 0.7, "ig": 0.5, "sobel": 0.9}})
    assert verdict_title(made, "roar") == ("ig leads the 2 of 3 estimators that beat random under ROAR; 1 is worse")
    kept = section({"kar": {"random": 0.5, "grad": 0.7, "ig": 0.5, "sobel": 0.3}})
    assert verdict_title(kept, "kar") == "Only grad of 3 estimators beats random under KAR; 1 is worse"
    every = section({"kar": {"random": 0.5, "grad": 0.7, "ig": 0.8}})
    assert verdict_title(every, "kar") == "All 2 estimators beat random under KAR; ig leads"


def test_a_skipped_estimator_does_not_take_the_verdicts_of_the_others(make_cells, make_results, make_row):
    rows = make_cells({"roar": {"random": 0.8, "grad": 0.6}})
    for seed in range(3):
        rows.append(make_row("digits", "cnn", "cam", "roar", 0.0, seed, 0.95))
        skipped = {"status": "skipped", "reason": "no convolution"}
        rows += [make_row("digits", "cnn", "cam", "roar", t, seed, np.nan, **skipped) for t in (0.5, 0.9)]
    made = sections_of(make_results(rows))[0]
    assert list(made.verdicts["roar"]["estimator"]) == ["grad"]
    assert made.verdicts["roar"].attrs["fractions"] == [0.0, 0.5, 0.9]
    assert made.with_verdict("roar", "better") == ["grad"]
    assert "cam" not in made.estimators


def test_the_title_on_retraining_compares_the_two_counts(section):
    made = section(
        {"roar": {"random": 0.8, "grad": 0.8, "ig": 0.6}, "roar:no-retrain": {"random": 0.8, "grad": 0.2, "ig": 0.2}}
    )
    assert retraining_title(made, "roar", "roar:no-retrain") == (
        "Without retraining 2 of 2 estimators seem to beat random under ROAR; with retraining 1 of 2"
    )


def test_the_picture_title_quotes_the_largest_gap_to_random(section):
    made = section({"roar": {"random": 0.5, "grad": 0.45, "ig": 0.9}})
    title = picture_title(made, "roar", [0.5, 0.9])
    assert "90.0\u00a0% if ig chooses them and 50.0\u00a0% if chance does" in title


def test_titles_of_ties_costs_and_maps_follow_the_numbers():
    assert ties_title({("grad", 0.5): 0.0, ("ig", 0.5): 0.0}).startswith("No cut")
    assert ties_title({("grad", 0.5): 0.1, ("ig", 0.9): 0.25}).startswith("ig leaves most to chance: 25.0")
    assert ties_title({("grad", 0.5): float("nan")}) == "No ties have been counted yet"
    costs = pd.DataFrame({"estimator": ["a", "b"], "passes": [1.0, 9.0], "milliseconds_per_image": [2.0, 8.0]})
    assert cost_title(costs) == "b takes longest, 8 ms per image, 4 times as long as a"
    assert gallery_title(["a"], 3).startswith("1 of 3 estimators shown has negative values")
