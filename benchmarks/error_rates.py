"""How often the tests of `uproar.statistics` err, and what they find: simulated studies without and with differences.

    python benchmarks/error_rates.py            # the tables of docs/statistics.md, about half an hour of one core
    python benchmarks/error_rates.py single     # some of them: against, power, interim, pairs, metrics, bounds, single, lines, pipeline
    python benchmarks/error_rates.py --quick    # a tenth of the simulations

Every table has our test beside the paired t-test of each row alone, both with Holm's procedure. "Any" is the share of
studies with at least one wrong verdict, nominally 5 %; "miss" is how often the 95 % interval of one row misses the
truth, of the row where it does so most often.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from uproar.protocols import PROTOCOLS
from uproar.results.study import Results
from uproar.statistics.bounded_pairs import VARY_ALIKE
from uproar.statistics.comparisons import method_differences
from uproar.statistics.design import ALPHA, INTERIM_ANALYSES, random_ranking
from uproar.statistics.intervals import UNLIMITED, Measurements, half_width, standard_error
from uproar.statistics.logit_scale import logit_half_width, logit_mean, logit_spread
from uproar.statistics.multiple_testing import holm, interim_alpha
from uproar.statistics.regression import line_interval
from uproar.statistics.sequential import allow_for_stopping
from uproar.statistics.student_t import satterthwaite, t_quantile, two_sided_p
from uproar.statistics.twoway import components, contrasts, pair_variance
from uproar.statistics.verdicts import minimum_detectable

Array = NDArray[np.float64]
ROWS = 10
REPLICATES = (3, 5, 8)


def noisy(*times: float, rows: int = ROWS) -> Array:
    """Standard deviations of the rows, the first ones given."""
    return np.r_[times, np.ones(rows - len(times))]


NULLS: Mapping[str, Mapping[str, object]] = {
    "independent rows": {},
    "rows share their network, correlation .5": {"correlation": 0.5},
    "rows share their network, correlation .9": {"correlation": 0.9},
    "random 3× as noisy": {"baseline": 3.0},
    "random a third as noisy": {"baseline": 1 / 3},
    "one row 3× as noisy": {"spread": noisy(3)},
    "one row 5.6× as noisy": {"spread": noisy(5.6)},
    "one row 5.6× as noisy, correlation .5": {"spread": noisy(5.6), "correlation": 0.5},
    "half of the rows 3× as noisy": {"spread": noisy(3, 3, 3, 3, 3)},
    "spreads from 1 to 5.6": {"spread": np.geomspace(1, 5.6, ROWS)},
    "heavy tails (t with 3 df)": {"tails": 3},
    "heavy tails, correlation .9": {"tails": 3, "correlation": 0.9},
    "2 rows, one 5.6× as noisy": {"spread": noisy(5.6, rows=2)},
    "3 rows, one 5.6× as noisy": {"spread": noisy(5.6, rows=3)},
    "20 rows, spreads from 1 to 5.6": {"spread": np.geomspace(1, 5.6, 20)},
    "one row": {"spread": np.ones(1)},
    "families of 5 and 5, correlation .95": {"families": (5, 5), "correlation": 0.95},
    "families of 8 and 8, correlation .9": {"families": (8, 8), "correlation": 0.9},
    "families of 4, 3 and 3, correlation .95": {"families": (4, 3, 3), "correlation": 0.95},
    "3 random rankings": {"rankings": 3},
    "3 random rankings, correlation .9": {"rankings": 3, "correlation": 0.9},
    "3 random rankings, one row 5.6× as noisy": {"rankings": 3, "spread": noisy(5.6)},
    "3 random rankings, heavy tails": {"rankings": 3, "tails": 3},
}


def null(
    rng: np.random.Generator,
    studies: int,
    n: int,
    spread: Array | None = None,
    baseline: float = 1.0,
    correlation: float = 0.0,
    tails: int | None = None,
    rankings: int = 1,
    families: tuple[int, ...] = (),
) -> Array:
    """Areas (studies, 1 + rows, n) without a difference, the baseline (a mean of random rankings) first.

    What rows share, the `correlation`, is that of all, or of each of some `families` of so many rows.
    """
    families = families or (ROWS if spread is None else len(spread),)
    sd = np.ones(sum(families)) if spread is None else spread

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape) if tails is None else rng.standard_t(tails, shape) / math.sqrt(3)

    shared = np.repeat(draw(studies, len(families), n), families, 1)
    rows = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * draw(studies, len(sd), n)
    return np.concatenate([baseline * draw(studies, rankings, n).mean(1, keepdims=True), rows * sd[:, None]], 1)


def rates(p: Array) -> str:
    """Share of studies with any wrong verdict, and how often the interval of the worst row misses."""
    return f"{100 * (holm(p) <= ALPHA).any(-1).mean():.1f} / {100 * (p <= ALPHA).mean(0).max():.1f}"


def print_table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """A table in Markdown."""
    print(f"\n**{title}**\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def against_random(rng: np.random.Generator, studies: int) -> None:
    """Nulls of the verdicts."""
    rows = []
    for name, options in NULLS.items():
        ours, paired = [], []
        for n in REPLICATES:
            fit = contrasts(null(rng, studies, n, **options), 0)  # type: ignore[arg-type]
            ours.append(rates(fit.p[:, 1:]))
            paired.append(rates(fit.p_own[:, 1:]))
        rows.append([name, *ours, *paired])
    heads = [
        "10 rows without a difference",
        *(f"n = {n}" for n in REPLICATES),
        *(f"paired, n = {n}" for n in REPLICATES),
    ]
    print_table("Against random: any wrong verdict / worst miss, %", heads, rows)


def power(rng: np.random.Generator, studies: int) -> None:
    """One of ten rows differs."""
    rows = []
    for shift, rankings, correlation in itertools.product((1, 2, 3, 4), (1, 3), (0.0, 0.5)):
        ours, paired = [], []
        for n in (*REPLICATES, 13):
            areas = null(rng, studies, n, correlation=correlation, rankings=rankings)
            areas[:, 1] += shift
            fit = contrasts(areas, 0)
            ours.append(f"{100 * (holm(fit.p[:, 1:])[:, 0] <= ALPHA).mean():.0f}")
            paired.append(f"{100 * (holm(fit.p_own[:, 1:])[:, 0] <= ALPHA).mean():.0f}")
        rows.append(
            [
                f"{shift} sd",
                str(rankings),
                f"{correlation:g}",
                *(f"{a} ({b})" for a, b in zip(ours, paired, strict=True)),
            ]
        )
    smallest = [f"{minimum_detectable(1, n, ROWS):.1f} sd" for n in (*REPLICATES, 13)]
    rows.append(["80 % of", "1", "0", *smallest])
    heads = ["difference", "random rankings", "correlation", *(f"n = {n}" for n in (*REPLICATES, 13))]
    print_table("Power: one of ten rows differs, % found (paired t-test alone)", heads, rows)


def interim(rng: np.random.Generator, studies: int) -> None:
    """All planned analyses of two sequential designs, and the effects that they print."""
    designs = (INTERIM_ANALYSES[:2], INTERIM_ANALYSES)
    rows = []
    for name in list(NULLS)[:8]:
        cells = []
        for design in designs:
            areas = null(rng, studies, design[-1], **NULLS[name])  # type: ignore[arg-type]
            wrong = np.zeros(studies, bool)
            for n in design:
                level = interim_alpha(n, analyses=design)
                wrong |= holm(contrasts(areas[..., :n], 0).p[:, 1:]).min(-1) <= level
            cells.append(f"{100 * wrong.mean():.1f}")
        rows.append([name, *cells])
    heads = ["10 rows without a difference", *(f"analyses at {', '.join(map(str, d))}" for d in designs)]
    print_table("All interim analyses together, any wrong verdict, %", heads, rows)
    for design in designs:
        stopping(rng, studies, design)


def stopping(rng: np.random.Generator, studies: int, design: tuple[int, ...]) -> None:
    """Where a design stops, with the median of the effect that it finds, plain and with the allowance for stopping."""
    rows = []
    for shift in (1, 2, 3, 5):
        areas = null(rng, studies, design[-1], correlation=0.3, rankings=3)
        areas[:, 1] += shift
        waiting, row = np.ones(studies, bool), []
        for n in design:
            fit, level = contrasts(areas[..., :n], 0), interim_alpha(n, analyses=design)
            stops = waiting & (holm(fit.p[:, 1:])[:, 0] <= level)
            waiting &= ~stops
            critical = scipy.stats.t.isf(level / ROWS / 2, fit.df[stops, 1])
            result, se = fit.difference[stops, 1], fit.se[stops, 1]
            adjusted = allow_for_stopping(result, se, np.minimum(critical, np.abs(result) / se))
            several = stops.sum() >= 20
            shown = f"{np.median(result):.1f} → {np.median(adjusted):.1f}" if several else "–"
            row.append(f"{100 * stops.mean():.0f} %: {shown}")
        rows.append([f"{shift} sd", *row])
    heads = ["true difference", *(f"stops at {n}" for n in design)]
    title = "Where a sequential design stops: share, median advantage in sd → median with the allowance"
    print_table(title, heads, rows)


def pairs(rng: np.random.Generator, studies: int) -> None:
    """Every pair of ten rows, none of them the baseline."""
    names = [name for name in NULLS if "random" not in name and name != "one row"]
    rows = []
    for name in names:
        cells = []
        for n in REPLICATES[:2]:
            areas = null(rng, studies, n, **NULLS[name])[:, 1:]  # type: ignore[arg-type]
            cells += [rates(p) for p in _pair_tests(areas)]
        rows.append([name, *cells])
    heads = ["no difference", *(f"{kind}n = {n}" for n in REPLICATES[:2] for kind in ("", "paired, "))]
    print_table("Pairs of methods under a protocol: any wrong verdict / worst miss, %", heads, rows)


def _pair_tests(areas: Array) -> tuple[Array, Array]:
    """(studies, pairs) p values: ours, and of the paired t-test."""
    parts, ours, paired = components(areas), [], []
    for i, j in itertools.combinations(range(areas.shape[1]), 2):
        gap = areas[:, i] - areas[:, j]
        variance, df = pair_variance(parts, gap, (i, j))
        ours.append(two_sided_p(gap.mean(1), np.sqrt(variance), df))
        paired.append(scipy.stats.ttest_1samp(gap, 0, axis=1).pvalue)
    return np.stack(ours, 1), np.stack(paired, 1)


KINDS: Mapping[str, Callable[[Array], Array]] = {
    "normal": lambda x: x,
    "heavy tails": lambda x: np.sinh(1.5 * x),
    "bounded at 0 and 1": lambda x: 1 / (1 + np.exp(-4 - 3 * x)),
    "ties (0 or 1)": lambda x: (x > 1).astype(float),
}
BOUNDED = ("bounded at 0 and 1", "ties (0 or 1)")


def metrics(rng: np.random.Generator, studies: int) -> None:
    """Metrics over replicates and images; the methods differ in how much replicates vary, by a factor of three."""
    rows = []
    for methods, n, images in ((6, 3, 20), (6, 3, 200), (6, 5, 20), (2, 3, 20), (6, 1, 20)):
        cells = []
        for name, kind in KINDS.items():
            spread, p = np.geomspace(0.3, 1, methods)[:, None, None], []
            for many in _chunks(studies, methods * n * images):
                new, old = pairs_at_once(kind(_values(rng, spread, n, images, many=many)))
                p.append(new if name in BOUNDED else old)
            any_wrong, _, miss = _wrong(np.concatenate(p))
            cells.append(f"{100 * any_wrong:.1f} / {100 * miss:.1f}")
        rows.append([str(methods), str(n), str(images), *cells])
    heads = ["methods", "replicates", "images", *KINDS]
    print_table("Metrics: any wrong verdict / miss of a pair on average, %", heads, rows)


def _wrong(p: Array) -> tuple[float, float, float]:
    """Of (studies, pairs) p values without a difference: studies with any wrong verdict, misses of the worst pair, of all."""
    return (holm(p) <= ALPHA).any(-1).mean(), (p <= ALPHA).mean(0).max(), (p <= ALPHA).mean()


def _chunks(studies: int, size: int) -> Iterator[tuple[int]]:
    """How many studies of some values each to hold at a time."""
    most = max(AT_ONCE // size, 1)
    for start in range(0, studies, most):
        yield (min(most, studies - start),)


AT_ONCE = 1_000_000
"""How many values are held at a time."""
RARE: Mapping[str, Callable[[Array], Array]] = {
    "bounded, mean .04": lambda x: 1 / (1 + np.exp(6 - 3 * x)),
    "0 or 1, mean .05": lambda x: (x > 1.6).astype(float),
}
"""Values between 0 and 1, near 0 but for a few images."""
VALUES: Mapping[str, Callable[[Array], Array]] = {**KINDS, **RARE}


CORNERS: Mapping[str, Callable[[Array], Array]] = {
    "bounded, mean .87": KINDS["bounded at 0 and 1"],
    "0 or 1, mean .16": KINDS["ties (0 or 1)"],
    **RARE,
    "bounded, mean .96": lambda x: 1 / (1 + np.exp(-6 - 3 * x)),
    "bounded, mean .96, images alike": lambda x: 1 / (1 + np.exp(-3.57 - x)),
    "0 or 1, mean .3": lambda x: (x > 0.5244).astype(float),
    "0 or 1, mean .5": lambda x: (x > 0).astype(float),
    "bounded, two peaks": lambda x: 1 / (1 + np.exp(-6 * x)),
}
"""Values between 0 and 1: next to a bound, next to one and alike in all images, in the middle, at both ends."""
SHARED_LUCK = (0.0, 0.9, 1.0)
"""Which share of the luck of a replicate all methods have in common."""
MOST = 0.06
"""What no situation is to exceed; numbers above it are simulated again with `AGAIN` times as many studies."""
AGAIN = 6


def near_a_bound(rng: np.random.Generator, studies: int) -> None:
    """Pairs of methods with equal means whose replicates vary differently; then situations of no table, and power."""
    worst = {methods: _worst_situations(rng, methods, studies) for methods in (6, 2)}
    for methods, title in (
        (6, "Six methods: any wrong verdict / worst pair misses, %"),
        (2, "Two methods alone: misses, %"),
    ):
        first = 0 if methods > 2 else 1  # two methods have one pair: any wrong verdict is its miss
        rows = []
        for name in CORNERS:
            cells = [np.max(list(worst[methods][name, n].values()), 0) for n in REPLICATES]
            rows.append([name, *(f"{_percent(new[first:], 1)} ({_percent(old[first:], 0)})" for new, old in cells)])
        print_table(title, ["values", *(f"n = {n}" for n in REPLICATES)], rows)
        _simulate_again(rng, methods, worst[methods], studies, first)
        two = np.max([rates for (_, n), all_of in worst[methods].items() if n == 2 for rates in all_of.values()], 0)
        print(
            f"\nTwo replicates, the worst of all values: {_percent(two[0][first:], 1)} ({_percent(two[1][first:], 0)})."
        )
    held_out(rng, studies)
    found_near_a_bound(rng, studies)


def _percent(rates: Array, digits: int) -> str:
    return " / ".join(f"{100 * one:.{digits}f}" for one in rates)


Situation = tuple[float, float, int]
"""How much the calmest method's replicates vary, the share of luck in common, and images."""


def _worst_situations(
    rng: np.random.Generator, methods: int, studies: int
) -> dict[tuple[str, int], dict[Situation, Array]]:
    """`wrong_pairs` by values and replicates, then by situation; all values are made of the same draws."""
    result: dict[tuple[str, int], dict[Situation, Array]] = {
        (name, n): {} for name in CORNERS for n in (2, *REPLICATES)
    }
    for least, shared, n, images in itertools.product((0.1, 0.3), SHARED_LUCK, (2, *REPLICATES), (20, 200)):
        rates = wrong_pairs(rng, CORNERS, np.geomspace(least, 1, methods), shared, n, images, studies)
        for name, one in rates.items():
            result[name, n][least, shared, images] = one
    return result


def _simulate_again(
    rng: np.random.Generator,
    methods: int,
    worst: Mapping[tuple[str, int], Mapping[Situation, Array]],
    studies: int,
    first: int,
) -> None:
    """Situations above `MOST`, which may be so by chance, in more studies of their own."""
    for (name, n), situations in worst.items():
        for (least, shared, images), rates in situations.items():
            if n > 2 and rates[0].max() > MOST:
                spreads, again = np.geomspace(least, 1, methods), AGAIN * studies
                new, _ = wrong_pairs(rng, {name: CORNERS[name]}, spreads, shared, n, images, again)[name]
                where = f"replicates vary by {least:g} to 1, {100 * shared:.0f} % shared, {images} images"
                seen, now = (_percent(one[first:], 1) for one in (rates[0], new))
                print(f"\n{name}, n = {n} ({where}): {seen} %, in {again} studies {now} %.")


def wrong_pairs(
    rng: np.random.Generator,
    kinds: Mapping[str, Callable[[Array], Array]],
    spreads: Array,
    shared: float,
    n: int,
    images: int,
    studies: int,
) -> dict[str, Array]:
    """Of pairs without a difference, ours and by Student's t: studies with any wrong verdict, misses of the worst."""
    p: dict[str, list[tuple[Array, Array]]] = {name: [] for name in kinds}
    for many in _chunks(studies, len(spreads) * n * images):
        values = _values(rng, spreads[:, None, None], n, images, shared, many)
        for name, kind in kinds.items():
            p[name].append(pairs_at_once(kind(values)))
    return {
        name: np.array([_wrong(np.concatenate(one))[:2] for one in zip(*parts, strict=True)])
        for name, parts in p.items()
    }


def _above(mean: float) -> Callable[[Array], Array]:
    return lambda x: (x > -scipy.special.ndtri(mean)).astype(float)


def _logistic(level: float, steep: float) -> Callable[[Array], Array]:
    return lambda x: scipy.special.expit(level + steep * x)


def _beta(a: float, b: float) -> Callable[[Array], Array]:
    grid = np.linspace(-6, 6, 2001)
    values = scipy.special.betaincinv(a, b, scipy.special.ndtr(grid))
    return lambda x: np.interp(x, grid, values)


OTHERS: Mapping[str, Callable[[Array], Array]] = {
    **{f"0 or 1, mean {mean:g}": _above(mean) for mean in (0.1, 0.7, 0.9, 0.98)},
    **{f"Beta({a:g}, {b:g})": _beta(a, b) for a, b in ((0.2, 1.8), (0.5, 0.5), (9, 1), (2.91, 0.09), (20, 20))},
    **{f"logistic({level:g}, {k:g})": _logistic(level, k) for level, k in ((0.5, 1), (2, 2), (4, 1), (7, 2))},
}
"""Thirteen distributions that no rule was chosen on."""


def held_out(rng: np.random.Generator, studies: int) -> None:
    """Situations drawn at random that no rule was chosen on."""
    rows = []
    for number in range(150):
        name = list(OTHERS)[number % len(OTHERS)]
        least, most = ((0.1, 1.0), (0.2, 0.7), (0.5, 1.5), (0.15, 0.15))[rng.integers(4)]
        methods, n, images = (int(rng.choice(some)) for some in ((2, 4, 10), (3, 4, 6, 13), (50, 500)))
        shared, spreads = float(rng.choice((0, 0.5, 0.95, 1))), np.geomspace(least, most, methods)
        rates = wrong_pairs(rng, {name: OTHERS[name]}, spreads, shared, n, images, 2 * studies // 5)[name]
        rows.append((rates, f"{name}, {least} to {most}, {100 * shared:.0f} %, {n} × {images}, {methods} methods"))
    rates = np.array([one for one, _ in rows])
    new, old = rates.max(0)
    print(
        f"\n{len(rows)} situations drawn at random, {2 * studies // 5} studies each, any wrong verdict / worst pair misses:"
    )
    print(f"no more than {_percent(new, 1)} % (by Student's t {_percent(old, 0)} %); those above {100 * MOST:.0f} %:")
    print("\n".join(f"* {where}: {_percent(one[0], 1)} %" for one, where in rows if one[0].max() > MOST) or "none.")


def found_near_a_bound(rng: np.random.Generator, studies: int) -> None:
    """One of six methods that vary alike differs: which share of its five pairs is decided."""
    rows, lowest = [], (0.0, 0.0, "")
    designs = [*itertools.product(REPLICATES[:2], (20, 200), (1, 2)), (8, 200, 1), (13, 200, 1)]
    for n, images, sd in designs:
        found = []
        for mean, name, spread, shared in itertools.product((0.04, 0.2, 0.5), SHIFTED, (0.1, 0.3, 0.6), (0.0, 0.9)):
            levels = _levels(rng, SHIFTED[name], mean, sd, spread, images)
            values = _values(rng, np.full((6, 1, 1), spread), n, images, shared, (max(studies // 5, 1),))
            p = pairs_at_once(SHIFTED[name](values, levels))
            new, old = ((holm(one)[:, [4, 8, 11, 13, 14]] <= ALPHA).mean() for one in p)
            found.append((new, old))
            where = f"{name}, mean {mean:g}, {n} × {images} images, {sd} sd, {100 * shared:.0f} % shared"
            lowest = min(lowest, (new - old, new, f"{where}: {100 * new:.0f} instead of {100 * old:.0f} %"))
        rows.append((n, images, sd, *100 * np.mean(found, 0)))
    heads = ["replicates", "images", "difference", "pairs found, %", "by Student's t, %"]
    cells = [[str(n), str(images), f"{sd} sd", f"{new:.1f}", f"{old:.1f}"] for n, images, sd, new, old in rows]
    mean_new, mean_old = (float(np.mean([row[k] for row in rows[:8]])) for k in (3, 4))
    cells.insert(8, ["3 and 5", "both", "both", f"{mean_new:.1f}", f"{mean_old:.1f}"])
    print_table("Methods that vary alike, one of six differs", heads, cells)
    print(f"\nThe situation that loses most: {lowest[2]}.")


def pairs_at_once(values: Array) -> tuple[Array, Array]:
    """(studies, pairs) p values of (studies, methods, replicates, images) values: ours, and by Student's t alone.

    The formulas of `method_differences` of a metric between 0 and 1, for all studies at once; with one replicate, and
    for values without bounds, that is Student's t.
    """
    _, methods, n, images = values.shape
    by_replicate, by_image = values.mean(3), values.mean(2)
    parts = components(by_replicate) if methods > 2 and n > 1 else None
    bounded = n > 1 and values.min() >= 0 and values.max() <= 1
    if bounded:
        shares = np.moveaxis(by_replicate, 2, 0)
        means, variances, logits = logit_spread(shares, by_image.var(2, ddof=1) / images, images)
    new, old = [], []
    for i, j in itertools.combinations(range(methods), 2):
        gap, within = by_replicate[:, i] - by_replicate[:, j], (by_image[:, i] - by_image[:, j]).var(1, ddof=1) / images
        if parts is None:
            error, df = standard_error(gap.T, within, images)
        else:
            variance, df = satterthwaite(pair_variance(parts, gap, (i, j)), (within, images - 1))
            error = np.sqrt(variance)
        difference = gap.mean(1)
        old.append(two_sided_p(difference, error, df))
        if not bounded:
            continue
        calm, wide = (pick(variances[:, i], variances[:, j]) for pick in (np.minimum, np.maximum))
        calm = np.minimum(wide, calm * _alike(logits[..., i], logits[..., j]))
        centre = scipy.special.logit((means[:, i] + means[:, j]) / 2)
        halves = np.stack([logit_half_width(centre, one, n) for one in (wide, calm)])
        further = np.where((difference > 0) == (variances[:, i] >= variances[:, j]), -1, 1) * halves
        surplus = np.abs(np.subtract(*scipy.special.expit(centre + further)))
        new.append(two_sided_p(difference, np.hypot(error, surplus / t_quantile(df)), df))
    return np.stack(new or old, 1), np.stack(old, 1)


def _alike(logits: Array, others: Array) -> Array:
    """The ratio of variances of (replicates, studies) logits that Pitman's and Morgan's test takes for one."""
    n, one, two = len(logits), logits - logits.mean(0), others - others.mean(0)
    if n < 3:
        return np.ones(logits.shape[1])
    squares = (one**2).sum(0) * (two**2).sum(0)
    unshared = 1 - np.divide((one * two).sum(0) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)
    odds = scipy.special.stdtrit(n - 2, VARY_ALIKE) ** 2 / (n - 2) * np.maximum(unshared, 0)
    return np.asarray(1 + 2 * odds + 2 * np.sqrt(odds * (odds + 1)))


SHIFTED: Mapping[str, Callable[[Array, Array], Array]] = {
    "bounded": lambda x, level: 1 / (1 + np.exp(-level - 3 * x)),
    "bounded, calm": lambda x, level: 1 / (1 + np.exp(-level - x)),
    "0 or 1": lambda x, level: (x + level > 0).astype(float),
}
"""Values between 0 and 1 of a level."""


def _levels(
    rng: np.random.Generator, kind: Callable[[Array, Array], Array], mean: float, sd: float, spread: float, images: int
) -> Array:
    """The levels of six methods with this mean but for the last, which is `sd` replicates' deviations above it."""
    normal = scipy.special.ndtri((np.arange(4001) + 0.5) / 4001)

    def level(wanted: float) -> float:
        return float(scipy.optimize.brentq(lambda one: kind(normal, one).mean() - wanted, -15, 15))

    first = level(mean)
    draws = kind(_values(rng, np.full((600, 1, 1), spread), 2, images), np.asarray(first))[:, 0].mean(1)
    return np.array([*[first] * 5, level(min(mean + sd * float(draws.std()), 0.97))])[:, None, None]


def _pair_p(values: Array) -> tuple[Array, Array]:
    """The p values of all pairs of a metric between 0 and 1, and those of Student's t alone."""
    methods = {f"m{k}": Measurements(v) for k, v in enumerate(values)}
    pairs = list(itertools.combinations(methods, 2))
    tests = (method_differences(methods, pairs, limits).values() for limits in ((0.0, 1.0), UNLIMITED))
    new, old = (np.array([one.p for one in test]) for test in tests)
    return new, old


def single_values(rng: np.random.Generator, studies: int) -> None:
    """Intervals of single metric values: how often they miss the truth, by how much the replicates vary."""
    spreads, rows = (0.1, 0.2, 0.3, 0.5), []
    for n, images in ((3, 20), (3, 200), (5, 20), (5, 200), (8, 20), (8, 200), (1, 20), (1, 200)):
        for name in VALUES:
            seen = [_missed_text(rng, name, b, n, images, studies) for b in spreads[: 4 if n > 1 else 1]]
            rows.append([str(n), str(images), name, *seen, *["–"] * (4 - len(seen))])
    heads = ["replicates", "images", "values", *(f"replicates vary by {b}" for b in spreads)]
    print_table("Intervals of single metric values that miss, % (of t-intervals)", heads, rows)
    sizes = ((3, 20), (3, 200), (3, 1000), (5, 200), (8, 200), (8, 1000))
    hard = [
        [f"{b}", name, *(_missed_text(rng, name, b, *size, studies) for size in sizes)]
        for b, name in itertools.product((0.8, 1.2, 2.0, 4.0), filter(_bounded, VALUES))
    ]
    heads = ["replicates vary by", "values", *(f"{n} × {images} images" for n, images in sizes)]
    print_table("Replicates that vary more than images and noise together: miss, % (of t-intervals)", heads, hard)
    all_or_nothing(rng, studies)


def all_or_nothing(rng: np.random.Generator, studies: int) -> None:
    """Values of 0 or 1 in replicates that nearly have all hits or none: of which n may hold none that has them."""
    sizes, means = ((3, 1000), (5, 200), (5, 1000), (8, 1000), (13, 1000), (13, 3000)), (0.005, 0.02, 0.1, 0.3, 0.9)
    rows = []
    for spread, mean in itertools.product((2.0, 4.0, 8.0), means):
        seen = [missed(rng, _above(mean), spread, *size, studies // 4) for size in sizes]
        rows.append([f"{spread:g}", f"{mean:g}", *(f"{100 * ours:.1f} ({100 * plain:.0f})" for ours, plain in seen)])
    heads = ["replicates vary by", "mean", *(f"{n} × {images} images" for n, images in sizes)]
    print_table("Values of 0 or 1 that replicates have all or none of: miss, % (of t-intervals)", heads, rows)


def _bounded(name: str) -> bool:
    return name in (*BOUNDED, *RARE)


def _missed_text(rng: np.random.Generator, name: str, spread: float, n: int, images: int, studies: int) -> str:
    ours, plain = missed(rng, VALUES[name], spread, n, images, studies)
    return f"{100 * ours:.1f} ({100 * plain:.1f})" if _bounded(name) else f"{100 * plain:.1f}"


def missed(
    rng: np.random.Generator, kind: Callable[[Array], Array], spread: float, n: int, images: int, studies: int
) -> tuple[float, float]:
    """How often the interval of a mean of values between 0 and 1 misses the truth, and how often Student's does."""
    ours, plain = [], []
    truth = float(kind(scipy.special.ndtri((np.arange(200_000) + 0.5) / 200_000)).mean())
    for (many,) in _chunks(studies, n * images):
        values = kind(_values(rng, np.full((many, 1, 1), spread), n, images))
        by_replicate, variance = values.mean(2).T, values.mean(1).var(1, ddof=1) / images
        plain.append(np.abs(by_replicate.mean(0) - truth) > half_width(by_replicate, variance, images))
        if values.min() >= 0 and values.max() <= 1:
            centre, error, df = logit_mean(by_replicate, variance, images)
            ours.append(np.abs(centre - scipy.special.logit(truth)) > t_quantile(df) * error)
    return float(np.concatenate(ours or plain).mean()), float(np.concatenate(plain).mean())


def lines(rng: np.random.Generator, studies: int) -> None:
    """R² of a line through the means of some points over replicates: how often its interval misses the truth."""
    rows, again, kinds = [], [], (("all points vary alike", 1.0), ("one point 5.6× as noisy", 5.6))
    designs = [*itertools.product((7,), kinds, (0.1, 0.3, 1.0, 3.0)), *itertools.product((5, 9), kinds[1:], (0.3, 3.0))]
    for points, (kind, times), noise in designs:
        cells = []
        for n in REPLICATES:
            ours, jackknife, width, before = _missed_at_any(rng, points, n, noise, times, studies)
            cells += [f"{100 * ours:.1f} ({100 * jackknife:.0f})", f"{width:.2f} ({before:.2f})"]
            if ours > MOST:
                more = _missed_at_any(rng, points, n, noise, times, AGAIN * studies)[0]
                where = f"{points} points, {kind}, by {noise:g}, n = {n}: {100 * ours:.1f} %"
                again.append(f"{where}, in {AGAIN * studies} studies {100 * more:.1f} %.")
        rows.append([str(points), kind, f"{noise:g}", *cells])
    heads = ["points", "points vary", "by", *(f"n = {n}: {what}" for n in REPLICATES for what in ("miss", "length"))]
    print_table("R² of a line: worst miss, % / mean of median lengths (of the jackknife)", heads, rows)
    print("\n" + "\n".join(again))


def _missed_at_any(
    rng: np.random.Generator, points: int, n: int, noise: float, times: float, studies: int
) -> tuple[float, float, float, float]:
    """The most misses of six true R², and the mean of the lengths."""
    tests = [_missed_lines(rng, points, r2, n, noise, times, studies) for r2 in (0.0, 0.2, 0.5, 0.8, 0.95, 1.0)]
    ours, jackknife, width, before = np.transpose(tests)
    return float(ours.max()), float(jackknife.max()), float(width.mean()), float(before.mean())


def _missed_lines(
    rng: np.random.Generator, points: int, r2: float, n: int, noise: float, times: float, studies: int
) -> tuple[float, float, float, float]:
    """Misses of our interval and of the jackknife's, then their median lengths.

    The true means of the points have a standard deviation of 1, a replicate of a point one of `noise` on average.
    """
    x, seen = np.arange(float(points)), []
    along = (x - x.mean()) / np.linalg.norm(x - x.mean())
    for _ in range(studies):
        rest = rng.standard_normal(points)
        rest -= rest.mean() + along * (rest @ along)
        truth = math.sqrt(points - 1) * (math.sqrt(r2) * along + math.sqrt(1 - r2) * rest / np.linalg.norm(rest))
        spread = np.ones(points)
        spread[rng.integers(points)] = times
        spread *= noise / math.sqrt((spread**2).mean())
        y = truth + noise * rng.standard_normal((n, 1)) + spread * rng.standard_normal((n, points))
        interval, before = line_interval(x, y), _jackknife(x, y)
        ends = ((interval.low, interval.high), before)
        seen.append([*(not low - 1e-9 <= r2 <= high + 1e-9 for low, high in ends), *(high - low for low, high in ends)])
    table = np.array(seen, dtype=float)
    return (*table[:, :2].mean(0), *np.median(table[:, 2:], 0))


def _jackknife(x: Array, y: Array) -> tuple[float, float]:
    """The interval of earlier versions."""
    n, along = len(y), x - x.mean()
    means = np.r_[[y.mean(0)], (y.sum(0) - y) / (n - 1)]
    means -= means.mean(1, keepdims=True)
    r = means @ along / np.linalg.norm(along) / np.linalg.norm(means, axis=1)
    value, *without = r * np.abs(r)
    half = float(t_quantile(n - 1)) * math.sqrt(n - 1) * float(np.std(without))
    return max(value - half, -1.0), min(value + half, 1.0)


def pipeline(rng: np.random.Generator, studies: int) -> None:
    """The whole way from a tidy table of accuracies of 500 images, with 3 random rankings, to verdicts."""
    rows = []
    for name, spread in (("equal spread", np.ones(6)), ("one row 5.6× as noisy", noisy(5.6, rows=6))):
        cells = []
        for n in REPLICATES[:2]:
            wrong = sum(_any_wrong(rng, spread, n) for _ in range(studies))
            cells.append(f"{100 * wrong / studies:.1f}")
        rows.append([name, *cells])
    heads = ["6 estimators without a difference", *(f"n = {n}" for n in REPLICATES[:2])]
    print_table("From a tidy table of accuracies to verdicts: any wrong verdict, %", heads, rows)


def _any_wrong(rng: np.random.Generator, spread: Array, n: int) -> bool:
    """Whether any estimator of a study without differences gets a verdict; accuracies are counts of right images."""
    names = [*(random_ranking(draw) for draw in range(3)), *(f"e{k}" for k in range(len(spread)))]
    own = 0.02 * np.r_[np.ones(3), spread][:, None, None] * rng.standard_normal((len(names), n, 1))
    chance = np.clip(np.array([0.8, 0.6]) + own + 0.02 * rng.standard_normal((1, n, 1)), 0, 1)
    values = rng.binomial(500, chance) / 500
    rows = [
        ("t", "m", name, "roar", fraction, seed, "done", values[e, seed, f], 500)
        for e, name in enumerate(names)
        for seed in range(n)
        for f, fraction in enumerate((0.3, 0.6))
    ]
    columns = ["task", "model", "estimator", "protocol", "fraction", "seed", "status", "accuracy", "images"]
    table = pd.DataFrame(rows, columns=columns).assign(bits=np.nan, ties=0.0)
    results = Results({"random_rankings": 3}, table, pd.DataFrame(), PROTOCOLS)
    return bool((results.verdicts["side"] != 0).any())


def _values(
    rng: np.random.Generator, spread: Array, n: int, images: int, shared: float = 0.0, many: tuple[int, ...] = ()
) -> Array:
    """Values (methods, replicates, images) with unit variance; replicates vary by `spread`, images by .5, both by .4.

    `shared` is the share of the variance of replicates that is the same for all methods; `many` are axes of studies.
    """
    methods = len(spread)
    luck = math.sqrt(1 - shared) * rng.standard_normal((*many, methods, n, 1))
    luck = luck + math.sqrt(shared) * rng.standard_normal((*many, 1, n, 1)) if shared else luck
    between = spread * luck if n > 1 else np.zeros((methods, 1, 1))
    parts = between + rng.normal(0, 0.5, (*many, methods, 1, images))
    parts = parts + rng.normal(0, 0.4, (*many, methods, n, images))
    return np.asarray(parts / np.sqrt((spread**2 if n > 1 else 0 * spread) + 0.5**2 + 0.4**2))


TABLES: Mapping[str, tuple[Callable[[np.random.Generator, int], None], float]] = {
    "against": (against_random, 1),
    "power": (power, 1),
    "interim": (interim, 1 / 2),
    "pairs": (pairs, 1),
    "metrics": (metrics, 1),
    "bounds": (near_a_bound, 1 / 4),
    "single": (single_values, 2 / 5),
    "lines": (lines, 1 / 25),
    "pipeline": (pipeline, 1 / 200),
}
"""By name: what makes a table, and how many studies it takes of those asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="some of the tables; all unless named")
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulations")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    studies = 1000 if arguments.quick else 10_000
    for name in arguments.tables or TABLES:
        make, share = TABLES[name]
        print(f"\n{name}: {round(studies * share)} simulated studies per number.")
        make(np.random.default_rng(arguments.seed), round(studies * share))


if __name__ == "__main__":
    main()
