"""How often the tests of `uproar.statistics` err, and what they find: simulated studies without and with differences.

    python benchmarks/error_rates.py            # the tables of docs/statistics.md, about half an hour of one core
    python benchmarks/error_rates.py single     # some of them: against, power, interim, pairs, metrics, bounds, single, pipeline
    python benchmarks/error_rates.py --quick    # a tenth of the simulations

Every table has our test beside the paired t-test of each row alone, both with Holm's procedure. "Any" is the share of
studies with at least one wrong verdict, nominally 5 %; "miss" is how often the 95 % interval of one row misses the
truth, of the row where it does so most often.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from uproar.protocols import PROTOCOLS
from uproar.results.study import Results
from uproar.statistics.bounded_pairs import VARY_ALIKE
from uproar.statistics.comparisons import compare_methods, method_differences
from uproar.statistics.design import ALPHA, INTERIM_ANALYSES, random_ranking
from uproar.statistics.intervals import UNLIMITED, Measurements, half_width, standard_error
from uproar.statistics.logit_scale import logit_half_width, logit_mean, logit_spread
from uproar.statistics.multiple_testing import holm, interim_alpha
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
) -> Array:
    """Areas (studies, 1 + rows, n) without a difference, the baseline (a mean of random rankings) first."""
    sd = np.ones(ROWS) if spread is None else spread

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape) if tails is None else rng.standard_t(tails, shape) / math.sqrt(3)

    rows = math.sqrt(correlation) * draw(studies, 1, n) + math.sqrt(1 - correlation) * draw(studies, len(sd), n)
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


def metrics(rng: np.random.Generator, studies: int) -> None:
    """Metrics over replicates and images; the methods differ in how much replicates vary, by a factor of three."""
    rows = []
    for methods, n, images in ((6, 3, 20), (6, 3, 200), (6, 5, 20), (2, 3, 20), (6, 1, 20)):
        cells = []
        for kind in KINDS.values():
            spread = np.geomspace(0.3, 1, methods)[:, None, None]
            wrong, miss = 0, np.zeros(math.comb(methods, 2))
            for _ in range(studies):
                table = _metric_table(rng, spread, n, images, kind)
                wrong += bool((table["side"] == 1).any())
                miss += (table["p"] <= ALPHA).to_numpy()
            cells.append(f"{100 * wrong / studies:.1f} / {100 * miss.mean() / studies:.1f}")
        rows.append([str(methods), str(n), str(images), *cells])
    heads = ["methods", "replicates", "images", *KINDS]
    print_table("Metrics: any wrong verdict / miss of a pair on average, %", heads, rows)


BOUNDED = ("bounded at 0 and 1", "ties (0 or 1)")
RARE: Mapping[str, Callable[[Array], Array]] = {
    "bounded, mean .04": lambda x: 1 / (1 + np.exp(6 - 3 * x)),
    "0 or 1, mean .05": lambda x: (x > 1.6).astype(float),
}
"""Values between 0 and 1, near 0 but for a few images."""
VALUES: Mapping[str, Callable[[Array], Array]] = {**KINDS, **RARE}


CORNERS: Mapping[str, Callable[[Array], Array]] = {
    **{name: VALUES[name] for name in (*BOUNDED, *RARE)},
    "bounded, mean .96, calm": lambda x: 1 / (1 + np.exp(-3.57 - x)),
    "0 or 1, mean .3": lambda x: (x > 0.5244).astype(float),
    "0 or 1, mean .5": lambda x: (x > 0).astype(float),
    "bounded, two peaks": lambda x: 1 / (1 + np.exp(-6 * x)),
}
"""Values between 0 and 1: next to a bound, next to one and alike in all images, in the middle, at both ends."""
SHARED_LUCK = (0.0, 0.9, 1.0)
"""Which share of the luck of a replicate all methods have in common."""


def near_a_bound(rng: np.random.Generator, studies: int) -> None:
    """Pairs of methods with equal means whose replicates vary differently; then what is found."""
    for methods in (6, 2):
        rows = []
        for least, shared, n in itertools.product((0.1, 0.3), SHARED_LUCK, REPLICATES):
            cells = []
            for kind in CORNERS.values():
                tests = [wrong_pairs(rng, kind, methods, least, shared, n, images, studies) for images in (20, 200)]
                new, old = np.max(tests, 0)
                cells.append(" / ".join(f"{100 * one:.1f}" for one in new) + f" ({100 * old[-1]:.1f})")
            rows.append([f"{least:g} to 1", f"{100 * shared:.0f} %", str(n), *cells])
        heads = ["replicates vary by", "shared", "replicates", *CORNERS]
        title = f"{methods} methods with equal means, the worse of 20 and 200 images: any wrong verdict / worst miss, %"
        print_table(f"{title} (worst miss of Student's t)", heads, rows)
    found_near_a_bound(rng, studies)


def wrong_pairs(
    rng: np.random.Generator,
    kind: Callable[[Array], Array],
    methods: int,
    least: float,
    shared: float,
    n: int,
    images: int,
    studies: int,
) -> Array:
    """Of pairs without a difference, ours and by Student's t: studies with any wrong verdict, misses of the worst."""
    spread, p = np.geomspace(least, 1, methods)[:, None, None], []
    for start in range(0, studies, 200):
        values = _values(rng, spread, n, images, shared, (min(200, studies - start),))
        p.append(pairs_at_once(kind(values)))
    new, old = (np.concatenate(one) for one in zip(*p, strict=True))
    return np.array([[(holm(p) <= ALPHA).any(-1).mean(), (p <= ALPHA).mean(0).max()] for p in (new, old)])


def found_near_a_bound(rng: np.random.Generator, studies: int) -> None:
    """One of six methods that vary alike differs: which share of its five pairs is decided."""
    rows, everything = [], []
    for means, sd, n, images in itertools.product(((0.04, 0.1, 0.2), (0.3, 0.5, 0.7)), (1, 2), REPLICATES, (20, 200)):
        cells = []
        for shared in (0.0, 0.9):
            found = []
            for mean, name, spread in itertools.product(means, SHIFTED, (0.1, 0.3, 0.6)):
                levels = _levels(rng, SHIFTED[name], mean, sd, spread, images)
                many = (max(studies // 27, 1),)
                values = SHIFTED[name](_values(rng, np.full((6, 1, 1), spread), n, images, shared, many), levels)
                found.append([(holm(p)[:, [4, 8, 11, 13, 14]] <= ALPHA).mean() for p in pairs_at_once(values)])
            everything += found
            new, old = 100 * np.mean(found, 0)
            cells.append(f"{new:.1f} ({old:.1f})")
        rows.append([f"{means[0]:g} to {means[-1]:g}", f"{sd} sd", str(n), str(images), *cells])
    heads = ["mean", "difference", "replicates", "images", "nothing shared", "90 % shared"]
    print_table("Methods that vary alike, one of six differs: pairs found, % (by Student's t)", heads, rows)
    new, old = 100 * np.mean(everything, 0)
    print(f"\nOn average {new:.1f} % are found, by Student's t {old:.1f} %.")


def pairs_at_once(values: Array) -> tuple[Array, Array]:
    """(studies, pairs) p values of (studies, methods, replicates, images) values: ours, and by Student's t alone.

    The formulas of `method_differences` of a metric between 0 and 1, for all studies at once.
    """
    _, methods, n, images = values.shape
    by_replicate, by_image = values.mean(3), values.mean(2)
    parts = components(by_replicate) if methods > 2 else None
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
        calm, wide = (pick(variances[:, i], variances[:, j]) for pick in (np.minimum, np.maximum))
        calm = np.minimum(wide, calm * _alike(logits[..., i], logits[..., j]))
        centre = scipy.special.logit((means[:, i] + means[:, j]) / 2)
        halves = np.stack([logit_half_width(centre, one, n) for one in (wide, calm)])
        difference = gap.mean(1)
        further = np.where((difference > 0) == (variances[:, i] >= variances[:, j]), -1, 1) * halves
        surplus = np.abs(np.subtract(*scipy.special.expit(centre + further)))
        wider = np.hypot(error, surplus / t_quantile(df))
        new.append(two_sided_p(difference, wider, df))
        old.append(two_sided_p(difference, error, df))
    return np.stack(new, 1), np.stack(old, 1)


def _alike(logits: Array, others: Array) -> Array:
    """The ratio of variances of (replicates, studies) logits that Pitman's and Morgan's test takes for one."""
    n, one, two = len(logits), logits - logits.mean(0), others - others.mean(0)
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
        for b, name in itertools.product((0.8, 1.2, 2.0), filter(_bounded, VALUES))
    ]
    heads = ["replicates vary by", "values", *(f"{n} × {images} images" for n, images in sizes)]
    print_table("Replicates that vary more than images and noise together: miss, % (of t-intervals)", heads, hard)


def _bounded(name: str) -> bool:
    return name in (*BOUNDED, *RARE)


def _missed_text(rng: np.random.Generator, name: str, spread: float, n: int, images: int, studies: int) -> str:
    ours, plain = missed(rng, name, spread, n, images, studies)
    return f"{100 * ours:.1f} ({100 * plain:.1f})" if _bounded(name) else f"{100 * ours:.1f}"


def missed(
    rng: np.random.Generator, name: str, spread: float, n: int, images: int, studies: int
) -> tuple[float, float]:
    """How often the interval of a mean of such values misses the truth, and how often that of Student's t does."""
    kind, ours, plain = VALUES[name], [], []
    truth = float(kind(scipy.special.ndtri((np.arange(200_000) + 0.5) / 200_000)).mean())
    for start in range(0, studies, 500):
        values = kind(_values(rng, np.full((min(500, studies - start), 1, 1), spread), n, images))
        by_replicate, variance = values.mean(2).T, values.mean(1).var(1, ddof=1) / images
        plain.append(np.abs(by_replicate.mean(0) - truth) > half_width(by_replicate, variance, images))
        if _bounded(name):
            centre, error, df = logit_mean(by_replicate, variance, images)
            ours.append(np.abs(centre - scipy.special.logit(truth)) > t_quantile(df) * error)
    return float(np.mean(ours or plain)), float(np.mean(plain))


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


def _metric_table(
    rng: np.random.Generator, spread: Array, n: int, images: int, kind: Callable[[Array], Array]
) -> pd.DataFrame:
    values = kind(_values(rng, spread, n, images))
    limits = (0.0, 1.0) if kind in map(KINDS.get, BOUNDED) else UNLIMITED
    return compare_methods({f"m{k}": Measurements(v) for k, v in enumerate(values)}, True, limits=limits)


TABLES: Mapping[str, tuple[Callable[[np.random.Generator, int], None], float]] = {
    "against": (against_random, 1),
    "power": (power, 1),
    "interim": (interim, 1 / 2),
    "pairs": (pairs, 1),
    "metrics": (metrics, 1 / 40),
    "bounds": (near_a_bound, 1 / 10),
    "single": (single_values, 2 / 5),
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
