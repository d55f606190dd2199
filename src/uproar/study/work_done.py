"""Seconds inside the work of a study, from what the store has: what audits add to the same store is not counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from uproar.protocols import protocol_named
from uproar.study.bench import Bench
from uproar.study.grid import cells_of, refusal, scores_of
from uproar.study.settings import ImageRanking
from uproar.study.spec import Study


def seconds_by_work(study: Study, benches: Sequence[Bench], cells: float) -> dict[str, float]:
    """Seconds by what was done, each step once, however often it is used; `cells` are those of the study's grid."""
    judged = any(protocol.evaluator for protocol in study.protocol_list)
    base, evaluators, maps, metrics = 0.0, 0.0, 0.0, 0.0
    for bench in benches:
        base += _seconds(bench, "model", [bench.keys.model(seed) for seed in study.seeds])
        if judged:
            evaluators += _seconds(bench, "evaluator", [bench.keys.evaluator(seed) for seed in study.seeds])
        maps += _of_maps(study, bench)
        metrics += _seconds(bench, "score", [bench.keys.score(unit) for unit in scores_of(study, bench.setting)])
    return {"base networks": base, "evaluators": evaluators, "maps": maps, "cells": cells, "metrics": metrics}


def _of_maps(study: Study, bench: Bench) -> float:
    """Those of the maps that the cells of a study need: of test images alone where an evaluator alone asks for them."""
    fractions: dict[ImageRanking, set[float]] = defaultdict(set)
    whole: set[ImageRanking] = set()
    for cell in cells_of(study, bench.setting):
        if refusal(bench, cell) is not None:
            continue
        protocol, rankings = protocol_named(cell.protocol), bench.inputs.rankings_of(cell)
        for ranking in rankings[0 if protocol.retrains else 1 :]:
            fractions[ranking].add(cell.fraction)
        whole.update(() if protocol.evaluator else rankings)
    return sum(bench.rankings.seconds(ranking, own, ranking not in whole) for ranking, own in fractions.items())


def _seconds(bench: Bench, kind: str, keys: Sequence[str]) -> float:
    there = [key for key in keys if bench.store.has(kind, key)]
    return float(sum(bench.store.facts(kind, key).get("seconds", 0.0) for key in there))
