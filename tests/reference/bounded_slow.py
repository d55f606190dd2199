"""The interval of a mean of values between 0 and 1, written out: lists, loops, no shortcuts."""

import math

import numpy as np
from scipy import stats


def bounded_mean(values, level=0.95):
    """(low, high) for (replicates, images) values."""
    n, images = len(values), len(values[0])
    replicate = [sum(row) / images for row in values]
    image = [sum(column) / n for column in zip(*values, strict=True)]
    mean = sum(replicate) / n
    s2 = sum((v - mean) ** 2 for v in image) / (images - 1)
    spread = 1.0
    if 0 < mean < 1:
        varies = s2 + sum((v - mean) ** 2 for v in replicate) / n
        spread = min(1.0, math.sqrt(varies / (mean * (1 - mean))))
    weights = [*[1.0] * images, spread / 2, spread / 2]  # every image, and half an image at 0 and at 1
    total = sum(weights)
    plain, replicate = replicate, [(images * v + spread / 2) / total for v in replicate]
    middle = sum(replicate) / n
    squares = sum(w * (v - middle) ** 2 for w, v in zip(weights, [*image, 0.0, 1.0], strict=True))
    slope = middle * (1 - middle)
    half = stats.t.ppf((1 + level) / 2, images - 1) ** 2 * squares / (total - 1) / total / slope**2
    if n > 1:
        logits = [math.log(v / (1 - v)) for v in replicate]
        delta = np.var(replicate, ddof=1) / n / slope**2
        variance = np.var(logits, ddof=1)
        unseen = 0.0  # how much replicates without a hit may differ, on average
        for before, after, logit in zip(plain, replicate, logits, strict=True):
            squares = images * (before - after) ** 2 + spread / 2 * (after**2 + (1 - after) ** 2)
            unseen += squares / total / (total - 1) / (after * (1 - after)) ** 2 * logit**2 / 20 / n
        skewed = skewed_half(math.log(middle / (1 - middle)), variance + unseen, n, level)
        t = stats.t.ppf((1 + level) / 2, n - 1)
        half += max(t**2 * delta, t**2 * variance / n, skewed**2)
    centre = math.log(middle / (1 - middle))
    ends = [1 / (1 + math.exp(-centre - side * math.sqrt(half))) for side in (-1, 1)]
    return min(ends[0], mean), max(ends[1], mean)


def skewed_half(centre, variance, n, level):
    """How far the mean of logistic-normal shares may be, on the logit scale, if the spread of logits was drawn small."""
    largest = variance * (n - 1) / stats.chi2.ppf(1 - level, n - 1)
    mu = centre * math.sqrt(1 + math.pi * variance / 8)
    to_the_middle = centre - mu / math.sqrt(1 + math.pi * largest / 8)
    return math.sqrt(stats.norm.ppf((1 + level) / 2) ** 2 * variance / n + to_the_middle**2)
