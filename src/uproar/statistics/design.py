"""What every analysis fixes beforehand: the baseline, the error rate, the level of intervals, the interim analyses."""

BASELINE = "random"
"""The estimator that every other is compared with: a random ranking of the pixels."""

ALPHA = 0.05
"""Family-wise error rate of the verdicts of one protocol or metric."""

LEVEL = 0.95
"""Confidence level of an interval."""

INTERIM_ANALYSES = (3, 5, 8, 13, 20)
"""Numbers of replicates at which a sequential study is analysed, fixed before the first analysis."""
