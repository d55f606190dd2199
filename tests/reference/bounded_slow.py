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
    total = images + spread  # every image, and half an image at 0 and at 1
    plain, replicate = replicate, [(images * v + spread / 2) / total for v in replicate]
    middle = sum(replicate) / n
    slope = middle * (1 - middle)
    own = sum((v - mean) ** 2 for v in image) / (total - 1) / total / slope**2
    most = half_images(0.0, images, 1 / math.sqrt(n))  # of values that are 0 or 1 where none of them is 1
    half = stats.t.ppf((1 + level) / 2, images - 1) ** 2 * (own + min(half_images(mean, images, spread), most))
    if n > 1:
        logits = [math.log(v / (1 - v)) for v in replicate]
        delta = np.var(replicate, ddof=1) / n / slope**2
        variance = np.var(logits, ddof=1)
        unseen, silent = 0.0, 0.0  # how much replicates without a hit may differ on average, and how many they are
        for before, logit in zip(plain, logits, strict=True):
            added = min(half_images(before, images, spread), most * min(1.0, spread * math.sqrt(n)))
            unseen += added * logit**2 / 16 / n
            silent += min(added / 2, 1) / n
        skewed = skewed_half(math.log(middle / (1 - middle)), variance + unseen, n, level)
        t = stats.t.ppf((1 + level) / 2, n - 1)
        half += max(t**2 * delta, t**2 * variance / n, skewed**2)
        nearer = min(middle, 1 - middle)
        end = nearer + (1 - nearer) * (1 - (1 - level) ** (1 / n)) * silent  # a part of all replicates that none is of
        half = max(half, (math.log(end / (1 - end)) - math.log(nearer / (1 - nearer))) ** 2)
    centre = math.log(middle / (1 - middle))
    ends = [1 / (1 + math.exp(-centre - side * math.sqrt(half))) for side in (-1, 1)]
    return min(ends[0], mean), max(ends[1], mean)


def half_images(mean, images, weight):
    """What weighted half images at 0 and at 1 add to the variance of the logit of a mean."""
    total = images + weight
    after = (images * mean + weight / 2) / total
    squares = images * (mean - after) ** 2 + weight / 2 * after**2 + weight / 2 * (1 - after) ** 2
    return squares / total / (total - 1) / (after * (1 - after)) ** 2


def skewed_half(centre, variance, n, level):
    """How far the mean of logistic-normal shares may be, on the logit scale, if the spread of logits was drawn small."""
    largest = variance * (n - 1) / stats.chi2.ppf(1 - level, n - 1)
    mu = centre * math.sqrt(1 + math.pi * variance / 8)
    to_the_middle = centre - mu / math.sqrt(1 + math.pi * largest / 8)
    return math.sqrt(stats.norm.ppf((1 + level) / 2) ** 2 * variance / n + to_the_middle**2)
