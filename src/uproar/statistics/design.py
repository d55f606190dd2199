"""What every analysis fixes beforehand: the baseline, the error rate, the level of intervals, the interim analyses."""

import math

BASELINE = "random"
"""The estimator that every other is compared with: a random ranking of the pixels."""

MODEL_FREE = ("centre", "brightness", "sobel", "block_random")
"""Rankings that never look at the network, and that a method must beat to be worth its cost."""
BASELINES = (BASELINE, *MODEL_FREE)
"""What evaluators and metrics score beside the methods, unless told not to."""


def random_ranking(draw: int) -> str:
    """The name of one of the independent random rankings of a replicate, whose mean is the baseline.

    >>> random_ranking(0), random_ranking(2)
    ('random', 'random(draw=2)')
    """
    return f"{BASELINE}(draw={draw})" if draw else BASELINE


def random_rankings_for(estimators: int) -> int:
    """How many random rankings per replicate suit so many estimators: the square root of their number.

    The baseline is in every comparison, so that its noise is worth reducing more than that of any other; with k
    comparisons the variances are smallest for the same work where the control is measured √k times as often
    (Dunnett 1955).

    >>> [random_rankings_for(k) for k in (1, 2, 3, 9, 16)]
    [1, 1, 2, 3, 4]
    """
    return max(1, round(math.sqrt(estimators)))


ALPHA = 0.05
"""Family-wise error rate of the verdicts of one metric."""

LEAST_REPLICATES = 5
"""Replicates that a verdict needs; fewer are shown with intervals and without one."""

LEVEL = 0.95
"""Confidence level of an interval."""

INTERIM_ANALYSES = (5, 8, 13, 20)
"""Numbers of replicates at which a sequential study is analysed, fixed before the first analysis."""


def planned_analyses(replicates: int) -> tuple[int, ...]:
    """The interim analyses of a sequential study that has so many replicates at most; the last is its end.

    >>> planned_analyses(5), planned_analyses(20)
    ((5,), (5, 8, 13, 20))
    """
    return tuple(n for n in INTERIM_ANALYSES if n <= replicates)
