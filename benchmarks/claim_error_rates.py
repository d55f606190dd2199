"""How often a claim of several parts is decided wrongly, by simulation.

    python benchmarks/claim_error_rates.py

The tables stand in docs/claims.md. In every study each part has one number per replicate, normal with standard deviation 1;
`shared` is the correlation of the parts. Claimed is "above 0" of every part. Two worst cases: all parts exactly at 0, where
"does not hold" is wrong in the limit, and so many at 0 that the claim just fails while the others are far above, where
"holds" is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uproar.claims import every, most
from uproar.results.claim_outcome import Decision, Measure
from uproar.statistics.intervals import mean_interval

FAR = 50.0
"""Where parts lie that are surely inside, in standard deviations."""
STUDIES = 500


def wrong_decisions(
    decide: Callable[..., Decision], parts: int, replicates: int, shared: float, studies: int
) -> dict[str, float]:
    """Percent of studies that are called "does not hold here" or "holds" in the worst case for each."""
    draws = np.random.default_rng([parts, replicates, round(100 * shared)])
    outside = 1 if decide is every else (parts + 1) // 2  # the fewest at the edge with which the claim can fail
    levels = {"does not hold here": np.zeros(parts), "holds": np.where(np.arange(parts) < outside, 0.0, FAR)}
    return {
        outcome: 100
        * float(np.mean([_decision(decide, level, replicates, shared, draws) == outcome for _ in range(studies)]))
        for outcome, level in levels.items()
    }


def _decision(
    decide: Callable[..., Decision], levels: np.ndarray, replicates: int, shared: float, draws: np.random.Generator
) -> str:
    own = draws.normal(size=(len(levels), replicates))
    values = levels[:, None] + np.sqrt(1 - shared) * own + np.sqrt(shared) * draws.normal(size=replicates)
    return decide(*(Measure("", mean_interval(row), above=0.0) for row in values)).outcome


def main() -> None:
    """Print the table."""
    print(
        "| parts | replicates | correlation of parts | every: does not hold | every: holds | most: does not hold | most: holds |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for parts in (2, 5, 15):
        for replicates, shared in ((3, 0.0), (5, 0.8)):
            cells = [
                wrong_decisions(decide, parts, replicates, shared, STUDIES)[outcome]
                for decide in (every, most)
                for outcome in ("does not hold here", "holds")
            ]
            print(f"| {parts} | {replicates} | {shared:g} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
