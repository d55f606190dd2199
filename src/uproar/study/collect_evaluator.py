"""What the evaluators of a study said of every test image, read from the store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy

from uproar.protocols import Protocol
from uproar.results.evaluator import EvaluatorBits
from uproar.statistics.intervals import Numbers
from uproar.study.bench import Bench
from uproar.study.cell import Cell
from uproar.study.evaluators import target_index
from uproar.study.spec import Study


def evaluator_bits(study: Study, bench: Bench) -> dict[str, EvaluatorBits]:
    """Bits of log-loss per image by target, where the study asks an evaluator."""
    asked = [protocol for protocol in study.protocol_list if protocol.evaluator]
    fractions, seeds = study.evaluator_fractions, study.seeds
    by_target: dict[str, EvaluatorBits] = {}
    for target in dict.fromkeys(protocol.target for protocol in asked):
        protocols = [protocol for protocol in asked if protocol.target == target]
        chains = {c.name: c for p in protocols for c in study.chains_for(p)}
        own, shifted = (
            {(n, p.keeps): losses(bench, p, n, fractions, seeds) for p in protocols if p.test.of == of for n in chains}
            for of in ("own", "shifted")
        )
        most = entropies(bench, protocols[0], seeds)
        over: dict[str, float] = {}
        for (name, _), bits in own.items():
            above = (bits - most).mean(2)  # by replicate and fraction
            finished = above[np.isfinite(above).all(1)]
            if len(finished):
                over[name] = max(over.get(name, -np.inf), float(finished.mean(0).max()))
        by_target[target] = EvaluatorBits(
            {key: np.minimum(bits, most).mean(1) for key, bits in own.items()},
            {key: np.minimum(bits, most).mean(1) for key, bits in shifted.items()},
            {name: chain.role for name, chain in chains.items()},
            tuple(dict.fromkeys(bench.setting.evaluator_model(seed, bench.task.shape) for seed in seeds)),
            bench.inputs.judged_rows.numpy(),
            over,
            float(np.fmax.reduce(most.ravel())),
        )
    return by_target


def losses(bench: Bench, protocol: Protocol, name: str, fractions: Sequence[float], seeds: Sequence[int]) -> Numbers:
    """Log-loss of the judged images in bits, (replicates, fractions, images); NaN where it is missing."""
    unknown = np.full(len(bench.inputs.judged_rows), np.nan)

    def of_cell(fraction: float, seed: int) -> Numbers:
        item = bench.cells.find(Cell(bench.setting.task, bench.setting.model, name, protocol.name, fraction, seed))
        return unknown if item is None else np.asarray(item.arrays["bits"][:, target_index(protocol)], dtype=float)

    return np.array([[of_cell(fraction, seed) for fraction in fractions] for seed in seeds])


def entropies(bench: Bench, protocol: Protocol, seeds: Sequence[int]) -> Numbers:
    """The entropy in bits of what an evaluator is asked for, over all test images, (replicates, 1, 1).

    It is the most that an image counts: who knows how frequent the classes are and nothing else needs so much on
    average. NaN where no base model is there, or no classes.
    """
    bits = np.full((len(seeds), 1, 1), np.nan)
    for replicate, seed in enumerate(seeds if bench.task.kind in protocol.kinds else ()):
        item = bench.store.find("model", bench.keys.model(seed))
        if item is not None:
            wanted = bench.evaluators.targets(item)[:, target_index(protocol)]
            bits[replicate] = scipy.stats.entropy(np.bincount(wanted), base=2)
    return bits
