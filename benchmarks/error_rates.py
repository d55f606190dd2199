"""How often the tests of `uproar.statistics` err where nothing differs: simulated studies, by the package's own functions.

    python benchmarks/error_rates.py                # a few minutes
    python benchmarks/error_rates.py --studies 200  # a quick look

Every row is a situation without any true difference, and the share of studies with any significant difference after
Holm's procedure: the family-wise error, which should be about 5 % or less.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from uproar.statistics.comparisons import compare, sequential
from uproar.statistics.design import ALPHA, INTERIM_ANALYSES

METHODS = tuple(f"method{k}" for k in range(9))
Values = dict[str, np.ndarray]


def areas(rng: np.random.Generator, n: int, noisy: float = 1.0) -> Values:
    """One area per replicate, with what the replicates share; the first method varies `noisy` times as much."""
    shared = rng.normal(0, 2, n)
    spread = {name: noisy if name == METHODS[0] else 1.0 for name in METHODS}
    return {name: shared + spread.get(name, 1.0) * rng.normal(size=n) for name in ("random", *METHODS)}


def crossed(rng: np.random.Generator, n: int, images: int, between: float, among: float) -> Values:
    """Values of n networks on the same images; a method has effects of its own on networks, on images, and noise."""

    def own() -> np.ndarray:
        return between * rng.normal(size=(n, 1)) + among * rng.normal(size=(1, images)) + rng.normal(size=(n, images))

    shared = rng.normal(size=(n, 1)) + 2 * rng.normal(size=(1, images))
    return {name: shared + own() for name in ("random", *METHODS)}


def shares(rng: np.random.Generator, images: int) -> Values:
    """Values of one network between 0 and 1 with many near 1, as insertion has them."""
    easy = rng.normal(3, 2, (1, images))
    return {name: 1 / (1 + np.exp(-easy - rng.normal(0, 1, (1, images)))) for name in ("random", *METHODS)}


def any_difference(values: Values) -> list[bool]:
    """Whether anything is significant in each family: methods against random, and pairs of methods."""
    table = compare(values, ["random"])
    return [bool(table.loc[table["against"] == family, "side"].any()) for family in ("random", "")]


def any_early_difference(values: Values) -> bool:
    """Whether any interim analysis decides anything."""
    rows = [(name, s, 0.5, value) for name, row in values.items() for s, value in enumerate(row)]
    table = pd.DataFrame(rows, columns=["estimator", "replicate", "fraction", "value"])
    return bool(sequential(table)["side"].any())


def situations() -> Iterator[tuple[str, Callable[[np.random.Generator], Values], bool]]:
    """By name: what makes the values of a study, and whether it is analysed several times."""
    for n in (5, 8):
        yield f"areas, {n} replicates", lambda rng, n=n: areas(rng, n), False
        yield f"areas, {n} replicates, one method 5 times as noisy", lambda rng, n=n: areas(rng, n, 5.0), False
    for n in (5, 8):
        for name, between, among in (
            ("networks", 0.3, 0.0),
            ("images", 0.0, 1.0),
            ("both", 0.15, 1.0),
            ("noise", 0, 0),
        ):
            label = f"{n} replicates x 100 images, methods differ by {name}"
            yield label, lambda rng, n=n, b=between, a=among: crossed(rng, n, 100, b, a), False
    for images in (64, 256):
        yield f"one network, {images} images, bounded values", lambda rng, n=images: shares(rng, n), False
    looks = ", ".join(map(str, INTERIM_ANALYSES))
    yield f"areas, analysed at {looks} replicates", lambda rng: areas(rng, INTERIM_ANALYSES[-1]), True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    studies = parser.parse_args().studies
    print(
        f"{studies} studies each, {len(METHODS)} methods and random; % of studies with any wrong verdict at {ALPHA:.0%}"
    )
    for name, make, looks in situations():
        rng = np.random.default_rng(0)
        drawn = [make(rng) for _ in range(studies)]
        if looks:
            print(
                f"{name:65} against random {100 * np.mean([any_early_difference(v) for v in drawn]):4.1f}", flush=True
            )
            continue
        against, pairs = 100 * np.mean([any_difference(v) for v in drawn], axis=0)
        print(f"{name:65} against random {against:4.1f}   pairs {pairs:4.1f}", flush=True)


if __name__ == "__main__":
    main()
