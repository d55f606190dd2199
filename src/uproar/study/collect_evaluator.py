"""What the evaluators of a study said of every test image, read from the store."""

from __future__ import annotations

import numpy as np

from uproar.protocols import Protocol
from uproar.results.evaluator import EvaluatorBits
from uproar.statistics.student_t import Numbers
from uproar.study.bench import Bench
from uproar.study.cell import Cell
from uproar.study.evaluators import target_index
from uproar.study.spec import Study


def evaluator_bits(study: Study, bench: Bench) -> dict[str, EvaluatorBits]:
    """Bits of log-loss per image by target, where the study asks an evaluator."""
    asked = [protocol for protocol in study.protocol_list if protocol.evaluator]
    by_target: dict[str, EvaluatorBits] = {}
    for target in dict.fromkeys(protocol.target for protocol in asked):
        protocols = [protocol for protocol in asked if protocol.target == target]
        chains = {c.name: c for p in protocols for c in study.chains_for(p)}
        own, shifted = (
            {(n, p.keeps): _bits(study, bench, p, n) for p in protocols if p.test.of == masks for n in chains}
            for masks in ("own", "shifted")
        )
        by_target[target] = EvaluatorBits(
            own,
            shifted,
            {name: chain.role for name, chain in chains.items()},
            tuple(dict.fromkeys(bench.setting.evaluator_model(seed, bench.task.shape) for seed in study.seeds)),
            bench.inputs.judged_rows.numpy(),
        )
    return by_target


def _bits(study: Study, bench: Bench, protocol: Protocol, name: str) -> Numbers:
    """Mean over the evaluator's fractions, (replicates, images); NaN for a replicate that lacks one."""
    unknown = np.full(len(bench.inputs.judged_rows), np.nan)

    def of_cell(fraction: float, seed: int) -> Numbers:
        item = bench.cells.find(Cell(bench.setting.task, bench.setting.model, name, protocol.name, fraction, seed))
        return unknown if item is None else np.asarray(item.arrays["bits"][:, target_index(protocol)], dtype=float)

    return np.stack([np.mean([of_cell(t, seed) for t in study.fractions], 0) for seed in study.seeds])
