"""What the evaluators of a study said of every test image, read from the store."""

from __future__ import annotations

import numpy as np
import torch

from uproar.protocols import Protocol
from uproar.protocols.protocol import OWN, Masks
from uproar.results.evaluator import EvaluatorBits
from uproar.statistics.design import BASELINE
from uproar.statistics.student_t import Numbers
from uproar.study.bench import Bench
from uproar.study.cell import Cell
from uproar.study.evaluators import target_index
from uproar.study.spec import Study
from uproar.training.calibrate import nll_bits


def evaluator_bits(study: Study, bench: Bench) -> dict[str, EvaluatorBits]:
    """Bits of log-loss per image by target, where the study asks an evaluator."""
    asked = [protocol for protocol in study.protocol_list if protocol.evaluator]
    judged = {chain.name for chain in study.chains}
    by_target: dict[str, EvaluatorBits] = {}
    for target in dict.fromkeys(protocol.target for protocol in asked):
        protocols = [protocol for protocol in asked if protocol.target == target]
        chains = {c.name: c for p in protocols for c in study.chains_for(p)}
        own, shifted, read = (
            {
                (name, protocol.keeps): _bits(study, bench, protocol, name)
                for protocol in protocols
                if (protocol.test.of, protocol.reads_mask) == asked_about
                for name in chains
                if not protocol.reads_mask or name in judged
            }
            for asked_about in (("own", False), ("shifted", False), ("own", True))
        )
        kinds = {name: chain.role for name, chain in chains.items()}
        retrained, decoupled = (
            _retrained(study, bench, list(chains), masks) if target == "label" else {} for masks in _TRAINED
        )
        by_target[target] = EvaluatorBits(
            own,
            shifted,
            kinds,
            read,
            retrained,
            decoupled,
            _architectures(study, bench),
            bench.inputs.judged_rows.numpy(),
        )
    return by_target


def _architectures(study: Study, bench: Bench) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bench.setting.evaluator_model(seed, bench.task.shape) for seed in study.seeds))


_TRAINED: tuple[Masks, Masks] = (OWN, Masks("permuted"))
"""The masks that two kinds of retrained networks have learned from: those of ROAR, and those of `decoupled`."""


def _retrained(study: Study, bench: Bench, names: list[str], masks: Masks) -> dict[tuple[str, bool], Numbers]:
    """The same of networks that differ in the masks they were retrained with, where the study has both kinds."""
    alike = [p for p in study.protocol_list if p.retrains and p.judges and p.test == OWN]
    plain = [p for p in alike if not set(p.training) - {"masks"} and p.train in _TRAINED]
    shared = set.intersection(*({p.keeps for p in plain if p.train == each} for each in _TRAINED))
    asked = [chain.name for chain in study.chains if chain.name in names]
    known = [p for p in plain if p.train == masks and p.keeps in shared]
    return {(name, p.keeps): _bits(study, bench, p, name) for p in known for name in asked}


def _bits(study: Study, bench: Bench, protocol: Protocol, name: str) -> Numbers:
    """Mean over the study's fractions, (replicates, images); NaN for a replicate that lacks one.

    Under protocols that retrain `random` is the mean of the study's random rankings; an evaluator asks one.
    """
    several = name == BASELINE and not protocol.evaluator
    rankings = [chain.name for chain in study.baseline_chains] if several else [name]
    place = bench.setting.task, bench.setting.model

    def of_replicate(seed: int) -> Numbers:
        cells = (Cell(*place, each, protocol.name, t, seed) for each in rankings for t in study.fractions)
        return np.mean([_of_cell(bench, protocol, cell) for cell in cells], 0)

    return np.stack([of_replicate(seed) for seed in study.seeds])


def _of_cell(bench: Bench, protocol: Protocol, cell: Cell) -> Numbers:
    """Bits of the judged images, also where a protocol asks about all test images."""
    item, judged = bench.cells.find(cell), bench.inputs.judged_rows
    if item is None:
        return np.full(len(judged), np.nan)
    bits = np.full(len(bench.task.test), np.nan)
    if protocol.evaluator:
        bits[bench.inputs.rows_asked(protocol)] = item.arrays["bits"][:, target_index(protocol)]
    else:
        bits[:] = nll_bits(torch.from_numpy(item.arrays["test_scores"]), bench.task.test.labels).numpy()
    return bits[judged]
