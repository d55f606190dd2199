"""Method against method: a slow re-derivation, how often it errs, and what it refuses to say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reference.anova_slow import contrast, curve_areas, holm, pair, pair_between_bounds, t_test
from uproar.errors import BadInput
from uproar.statistics.comparisons import (
    COLUMNS,
    compare_methods,
    compare_pairs,
    compare_rows,
    comparisons_with,
    gains,
    method_differences,
    pairs_sentence,
)
from uproar.statistics.intervals import Measurements, t_interval
from uproar.statistics.twoway import components, pair_variance


def curves(methods, replicates, seed, shift=(), spread=(), gaps=()):
    """Rows of curves over three fractions; `gaps` are (method, replicate) that lack a point."""
    rng = np.random.default_rng(seed)
    luck = rng.normal(0, 0.05, replicates)
    rows = []
    for m, s, t in itertools.product(range(methods), range(replicates), (0.1, 0.5, 0.9)):
        wide = dict(spread).get(m, 0.01)
        value = 0.7 - 0.3 * t + dict(shift).get(m, 0.0) + luck[s] + rng.normal(0, wide)
        rows.append((f"m{m}", s, t, float("nan") if (m, s) in gaps and t == 0.5 else value))
    return rows


def frame(rows):
    return pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])


def slow(rows, higher):
    """{(better, worse): (difference, low, high, p, n)} and Holm's p, by loops."""
    areas = curve_areas(rows, sorted({t for _, _, t, _ in rows}))
    names = list(dict.fromkeys(e for e, *_ in rows))
    differences = {}
    for a, b in itertools.combinations(names, 2):
        difference, se, df = pair(areas, a, b)
        if (difference > 0) != higher:
            a, b, difference = b, a, -difference
        half = stats.t.isf(0.025, df) * se
        n = len({s for e, s in areas if e == a} & {s for e, s in areas if e == b})
        p = 2 * stats.t.sf(abs(difference) / se, df)
        differences[a, b] = (difference, difference - half, difference + half, p, n)
    return differences, holm({names: row[3] for names, row in differences.items()})


@pytest.mark.parametrize("higher", [False, True])
def test_the_pairs_are_those_of_a_slow_re_derivation(higher):
    rows = curves(4, 5, seed=3, shift={1: -0.08, 2: 0.02}, gaps={(2, 4), (3, 0)})
    expected, adjusted = slow(rows, higher)
    pairs = compare_pairs(frame(rows), higher)
    assert list(pairs.columns) == list(COLUMNS)
    assert {(r.better, r.worse) for r in pairs.itertuples()} == set(expected)
    for r in pairs.itertuples():
        difference, low, high, p, n = expected[r.better, r.worse]
        assert (r.difference, r.low, r.high, r.p) == pytest.approx((difference, low, high, p))
        assert r.p_holm == pytest.approx(adjusted[r.better, r.worse])
        assert r.n == r.replicates == n
        decided = f"{r.better} better" if r.p_holm < 0.05 else f"cannot tell with {n} replicates"
        assert r.verdict == decided
    assert len(set(pairs["verdict"])) > 1, "the case must hold both kinds of verdict"


def test_a_noisy_method_does_not_borrow_the_calm_of_the_others():
    """Five calm methods and one that varies twenty times as much: with a pooled error and its many degrees of
    freedom the noisy one would be told from the others in most studies."""
    wrong = 0
    for seed in range(60):
        areas = np.random.default_rng(seed).normal(0, [[1], [1], [1], [1], [1], [20]], (6, 3))
        rows = [(f"m{m}", s, 0.5, areas[m, s]) for m in range(6) for s in range(3)]
        wrong += (compare_pairs(frame(rows))["p_holm"] < 0.05).any()
    assert wrong / 60 < 0.15


def test_one_replicate_and_copies_of_one_run_tell_nothing():
    one = compare_pairs(frame([("a", 0, 0.5, 0.3), ("b", 0, 0.5, 0.4)]))
    assert one["verdict"].tolist() == ["cannot tell with 1 replicate"]
    rows = [(e, s, 0.5, v + s * 0.1) for e, v in (("a", 0.3), ("b", 0.4)) for s in range(5)]
    copies = compare_pairs(frame(rows))
    assert math.isnan(copies["p"].item())
    assert copies["verdict"].item() == "cannot tell with 5 replicates"


def test_a_pair_with_the_baseline_is_tested_as_the_verdicts_are():
    rng = np.random.default_rng(5)
    rows = {name: rng.normal(0, 1, 4) for name in ("random", "a", "b", "c")}
    areas = {(name, s): value for name, values in rows.items() for s, value in enumerate(values)}
    pairs = compare_rows(rows, [("a", "random"), ("random", "b"), ("a", "c")])
    expected = {
        ("a", "random"): contrast(areas, "a", "random"),
        ("random", "b"): contrast(areas, "b", "random"),
        ("a", "c"): pair({cell: value for cell, value in areas.items() if cell[0] != "random"}, "a", "c"),
    }
    for names, (difference, se, df) in expected.items():
        sign = -1 if names[0] == "random" else 1
        reference = t_interval(sign * difference, se, df, 4)
        for field in ("value", "low", "high", "df", "p", "n"):
            assert getattr(pairs[names], field) == pytest.approx(getattr(reference, field)), (names, field)
    table = gains(pd.DataFrame(rows).T, [("a", "random"), ("a", "c")], -1)
    assert table["gain"].tolist() == pytest.approx([-pairs["a", "random"].value, -pairs["a", "c"].value])
    assert table["p"].tolist() == pytest.approx([pairs["a", "random"].p, pairs["a", "c"].p])


PAIR_NULLS = {
    "equal": np.ones(6),
    "one 3x": np.r_[3.0, np.ones(5)],
    "one 5.6x": np.r_[5.6, np.ones(5)],
    "half 3x": np.r_[np.full(3, 3.0), np.ones(3)],
    "1 to 5.6": np.geomspace(1, 5.6, 6),
    "two rows, one 5.6x": np.array([5.6, 1.0]),
}


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("tails", [None, 3])
@pytest.mark.parametrize("name", PAIR_NULLS)
def test_false_verdicts_of_pairs_stay_within_bounds(name, tails, n):
    sims, spread = 4000, PAIR_NULLS[name][:, None]
    rng = np.random.default_rng(8)
    shape = (sims, len(spread), n)
    areas = spread * (rng.standard_normal(shape) if tails is None else rng.standard_t(tails, shape))
    parts = components(areas)
    p = []
    for i, j in itertools.combinations(range(len(spread)), 2):
        gap = areas[:, i] - areas[:, j]
        variance, df = pair_variance(parts, gap, (i, j))
        p.append(2 * stats.t.sf(np.abs(gap.mean(1)) / np.sqrt(variance), df))
    limit = 3 * math.sqrt(0.05 * 0.95 / sims)
    assert (np.min(p, axis=0) <= 0.05 / len(p)).mean() < 0.06 + limit
    assert max((one <= 0.05).mean() for one in p) < 0.06 + limit


KINDS = {
    "normal": lambda x: x,
    "heavy tails": lambda x: np.sinh(1.5 * x),
    "bounded": lambda x: 1 / (1 + np.exp(-4 - 3 * x)),
    "ties": lambda x: (x > 1).astype(float),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("methods", "n", "images"), [(5, 3, 20), (5, 5, 60), (2, 3, 20)])
def test_false_verdicts_of_metrics_over_replicates_and_images_stay_within_bounds(methods, n, images, kind):
    """Methods that differ in how much replicates vary; nothing differs in expectation."""
    sims, wrong = 150, 0
    rng = np.random.default_rng(9)
    spread = np.geomspace(0.3, 1, methods)[:, None, None]
    for _ in range(sims):
        between, noise = rng.normal(0, spread, (methods, n, 1)), rng.normal(0, 0.4, (methods, n, images))
        total = np.sqrt(spread**2 + 0.5**2 + 0.4**2)
        values = KINDS[kind]((between + rng.normal(0, 0.5, (methods, 1, images)) + noise) / total)
        table = compare_methods({f"m{k}": Measurements(v) for k, v in enumerate(values)}, True)
        wrong += bool((table["side"] == 1).any())
    assert wrong <= stats.binom.ppf(0.999, sims, 0.06)


def test_images_without_both_values_are_left_out_of_a_pair():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 0.1, (2, 40))
    a[:10] = np.nan
    b[35:] = np.nan
    result = (Measurements(a[None]) - Measurements(b[None])).interval()
    reference = stats.ttest_rel(a[10:35], b[10:35])
    assert result.n == 25 and result.df == 24
    assert result.value == pytest.approx((a[10:35] - b[10:35]).mean())
    assert result.p == pytest.approx(reference.pvalue)


def test_images_alone_and_replicates_of_images_are_compared_by_one_test():
    """Twenty images and three methods: the paired t-test with one replicate, Satterthwaite's with copies of it."""
    rng = np.random.default_rng(1)
    easy = rng.normal(0, 1, 20)
    values = {name: shift + easy + rng.normal(0, 0.3, 20) for name, shift in (("a", 0.0), ("b", 0.2), ("c", 0.25))}
    one = compare_methods({name: Measurements(v[None]) for name, v in values.items()}, True)
    for row in one.itertuples():
        reference = stats.ttest_rel(values[row.better], values[row.worse])
        assert (row.p, row.df, row.n, row.replicates) == pytest.approx((reference.pvalue, 19, 20, 1))
    same = compare_methods({name: Measurements(np.stack([v, v, v])) for name, v in values.items()}, True)
    columns = ["better", "worse", "difference", "low", "high", "df", "p", "p_holm"]
    pd.testing.assert_frame_equal(one[columns], same[columns])


def test_a_statistic_of_the_data_set_is_compared_by_its_variance_over_shared_resamples():
    rng = np.random.default_rng(0)
    easy, draws = rng.normal(0, 1, (3, 1)), rng.normal(0, 0.5, (3, 200))

    def method(shift, seed):
        own = np.random.default_rng(seed).normal(0, 0.01, (3, 200))
        return Measurements(np.ones((3, 30)), (easy + shift)[:, 0], easy + shift + draws + own)

    row = compare_methods({"a": method(0.1, 1), "b": method(0.0, 2)}, True).iloc[0]
    assert row["better"] == "a" and row["p"] < 0.01, "what both share is in neither's favour"
    assert (row["n"], row["replicates"], row["df"]) == pytest.approx((30, 3, 29)), "replicates do not vary"


@pytest.mark.parametrize(("n", "images", "between"), [(3, 20, 1.0), (3, 200, 0.3), (5, 200, 0.3)])
def test_false_verdicts_of_two_methods_over_replicates_and_images_stay_within_bounds(n, images, between):
    """Variance between replicates and between images of the same size: Satterthwaite's degrees of freedom are too many."""
    sims, rng = 200, np.random.default_rng(4)
    wrong = 0
    for _ in range(sims):
        spread = np.array([between, 0.3 * between])[:, None, None]
        values = rng.normal(0, spread, (2, n, 1)) + rng.normal(0, 0.5, (2, 1, images))
        values = values + rng.normal(0, 0.4, (2, n, images))
        table = compare_methods({"a": Measurements(values[0]), "b": Measurements(values[1])}, True)
        wrong += int(table["side"].iloc[0])
        assert n - 1 <= table["df"].iloc[0] < images - 1
    assert wrong <= stats.binom.ppf(0.999, sims, 0.05)


def test_between_bounds_the_interval_allows_for_who_varies_more_and_what_varies_alike_is_as_without_bounds():
    rng = np.random.default_rng(0)
    logits = {"wide": np.array([4.0, 2.0, 6.0]), "calm": np.array([2.5, 2.4, 2.6]), "alike": np.array([2.1, 2.2, 2.3])}
    values = {k: 1 / (1 + np.exp(-v[:, None] - rng.normal(0, 0.1, (3, 50)))) for k, v in logits.items()}
    methods = {name: Measurements(v) for name, v in values.items()}
    pairs = [("wide", "calm"), ("calm", "alike"), ("calm", "wide")]
    plain = method_differences(methods, pairs)
    bounded = method_differences(methods, pairs, (0.0, 1.0))
    wide, before = bounded["wide", "calm"], plain["wide", "calm"]
    assert wide.value > 0 and wide.p > before.p and wide.low < before.low
    assert before.high < wide.high < before.high + (before.low - wide.low) / 2, "the tail is on the other side"
    assert "varies more between the bounds" in wide.note
    assert bounded["calm", "wide"].high == pytest.approx(-wide.low) and bounded["calm", "wide"].p == wide.p
    assert bounded["calm", "alike"] == plain["calm", "alike"]
    scaled = {name: Measurements(2 * v - 1) for name, v in values.items()}
    assert method_differences(scaled, pairs, (-1.0, 1.0))["wide", "calm"].low == pytest.approx(2 * wide.low)
    one = {name: Measurements(v[:1]) for name, v in values.items()}
    assert method_differences(one, pairs, (0.0, 1.0)) == method_differences(one, pairs), "images alone as before"


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("kind", ["next to a bound", "0 or 1"])
def test_pairs_between_bounds_by_hand(n, kind):
    """Written out a second time, with the ratio of variances found by trying: two replicates have none."""
    rng = np.random.default_rng(n)
    logits = 2.0 + rng.normal(0, 1, (3, n, 1)) * np.array([0.1, 0.5, 2.0])[:, None, None] + rng.normal(0, 1, (3, n, 20))
    tables = 1 / (1 + np.exp(-logits)) if kind == "next to a bound" else (logits > 0).astype(float)
    values = dict(zip("abc", tables, strict=True))
    found = method_differences({k: Measurements(v) for k, v in values.items()}, [("a", "c"), ("b", "a")], (0.0, 1.0))
    for (first, second), one in found.items():
        expected = t_test(*pair_between_bounds(values, first, second))
        assert (one.low, one.high, one.p) == pytest.approx(expected, abs=1e-9)


def test_a_question_about_one_method_is_corrected_over_its_pairs_alone():
    pairs = compare_pairs(frame(curves(4, 5, seed=3, shift={1: -0.08})))
    own = comparisons_with(pairs, "m1", "replicates")
    assert len(own) == 3
    whole = pairs.set_index(["better", "worse"])["p_holm"]
    for r in own.itertuples():
        assert r.p_holm <= whole[r.better, r.worse]
    with pytest.raises(BadInput, match="no 'other' to compare with; there are m1, m2, m3, m0"):
        comparisons_with(pairs, "other", "replicates")


def test_the_sentence_names_who_beats_most_and_how_much_is_decided():
    pairs = compare_pairs(frame(curves(4, 5, seed=3, shift={1: -0.08})))
    assert pairs_sentence(pairs, "replicates") == (
        "m1 beats 3 of 3 other methods; 3 of 6 pairs decided with 5 replicates (Holm over the pairs)"
    )
    open_ones = pairs.assign(verdict="cannot tell with 5 replicates", side=0)
    assert pairs_sentence(open_ones, "replicates") == (
        "no two of 4 methods can be told apart with 5 replicates (Holm over 6 pairs)"
    )


def test_pairs_that_are_not_ranked_are_neither_compared_nor_counted():
    rows = {"better": ["a", "a", "b"], "worse": ["b", "c", "c"], "n": 10, "replicates": 1, "side": 0}
    frame = pd.DataFrame(rows | {"ranked": [True, False, False]})
    assert pairs_sentence(frame, "images") == "no two of 2 methods can be told apart with 10 images (one pair)"
    assert pairs_sentence(frame.assign(ranked=False), "images") == "no two methods could be compared"
