"""The results of a study as the store has them: tables and pictures. Nothing is computed that needs a model."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import platform
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch

from uproar.data import Split, Task
from uproar.errors import CODE_ERRORS, UproarError
from uproar.estimators import Chain
from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.evaluation import Evaluation, average_evaluations
from uproar.metrics.registry import CHECK_IMAGES, read_metric
from uproar.models.output_kind import assuming_output, logits_of
from uproar.protocols import PROTOCOLS, Protocol, protocol_named
from uproar.results import scores as replicated_metric
from uproar.results.evaluator import EvaluatorBits
from uproar.results.quality import NetworkQuality, network_quality, over_replicates, predictions_of
from uproar.results.scores import ReplicatedMetric, Scores, is_ranked, replicate_interval
from uproar.results.study import COLUMNS, IMAGE_SCORE_COLUMNS, SCORE_COLUMNS, Picture, Results
from uproar.seeds import Draws
from uproar.statistics.design import BASELINE
from uproar.statistics.intervals import Numbers
from uproar.store import Item, Store, key_of
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import NO_BASE, Cell, Failed, Outcome, ScoreCell, Skipped, Unit
from uproar.study.evaluators import numbers_of, target_index
from uproar.study.grid import cells_of, refusal, scores_of
from uproar.study.settings import ImageRanking, Setting, output_of_task
from uproar.study.spec import Study
from uproar.study.subjects import title_of
from uproar.training.fit import LOSS_NAMES, SCORE_NAMES, nll_bits

PACKAGES = ("uproar", "torch", "numpy", "scipy", "pandas")


def environment() -> dict[str, Any]:
    """Versions and machine as they are now."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": f"{system}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


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


def evaluation(bench: Bench, unit: ScoreCell) -> Evaluation | None:
    """A metric of an estimator in one replicate, if the store has it."""
    item = bench.store.find("score", bench.keys.score(unit))
    return None if item is None else Evaluation(item.arrays, item.facts)


def score_row(unit: ScoreCell, model: str, one: Evaluation | None) -> dict[str, Any]:
    """A metric of an estimator in one replicate; None where it was not made."""
    call = read_metric(unit.metric)
    row = {
        "task": unit.task,
        "model": model,
        "estimator": unit.estimator,
        "metric": unit.metric,
        "check": unit.images is not None,
        "seed": unit.seed,
        "higher_is_better": metrics[call.name].facts["higher_is_better"],
        "value": np.nan,
        "low": np.nan,
        "high": np.nan,
        "images": 0,
        "undefined": 0,
        "ranked": False,
        "reason": "",
    }
    if one is None:
        return row
    interval = replicate_interval(call, one)
    return row | {
        "status": "done",
        "value": one.value,
        "low": interval.low,
        "high": interval.high,
        "images": one.facts["n"],
        "undefined": one.facts["nan"],
        "ranked": is_ranked(one.facts["n"], one.facts["nan"]),
    }


def image_rows(study: Study, bench: Bench) -> pd.DataFrame:
    """The metrics' values of single test images."""
    rows = [
        (unit, one.arrays["value"])
        for unit in scores_of(study, bench.setting)
        if unit.images is None and (one := evaluation(bench, unit)) is not None
    ]
    sizes = [len(values) for _, values in rows]
    columns: dict[str, Any] = {
        "task": pd.Categorical([bench.setting.task] * sum(sizes)),
        "model": pd.Categorical([bench.spec.name] * sum(sizes)),
        "estimator": _repeated([unit.estimator for unit, _ in rows], sizes),
        "metric": _repeated([unit.metric for unit, _ in rows], sizes),
        "seed": np.repeat([unit.seed for unit, _ in rows], sizes).astype(int),
        "image": np.concatenate([np.arange(n) for n in sizes]) if sizes else np.zeros(0, int),
        "value": np.concatenate([v for _, v in rows]).astype(float) if rows else np.zeros(0),
    }
    return pd.DataFrame(columns)[list(IMAGE_SCORE_COLUMNS)]


def metric_scores(study: Study, bench: Bench) -> Scores | None:
    """What the metrics say of the estimators over all replicates; None where nothing is finished."""
    return _over_replicates(study, bench, study.metric_names, None)


def check_scores(study: Study, bench: Bench) -> Scores | None:
    """What the checks say of the estimators over all replicates; None where nothing is finished."""
    return _over_replicates(study, bench, study.check_names, CHECK_IMAGES)


def _over_replicates(study: Study, bench: Bench, names: Sequence[str], images: int | None) -> Scores | None:
    calls = [read_metric(name) for name in names]
    scores = replicated_metric.scores_of(
        ((call, dict(_methods(study, bench, call, images))) for call in calls),
        bench.task.shape,
        {chain.name: chain.role for chain in study.judged_chains},
    )
    return None if scores is None else replace(scores, replicates=len(study.seeds))


def _methods(study: Study, bench: Bench, call: Call, images: int | None) -> Iterator[tuple[str, ReplicatedMetric]]:
    """The estimators for which a metric is defined in any replicate; `random` is the mean of its rankings."""
    for chain in study.judged_chains:
        names = [one.name for one in study.baseline_chains] if chain.name == BASELINE else [chain.name]
        made = [_evaluations(bench, names, str(call), seed, images) for seed in study.seeds]
        every = [average_evaluations(group) for group in made]
        defined = [
            group for group, one in zip(made, every, strict=True) if one is not None and math.isfinite(one.value)
        ]
        if defined:
            yield chain.name, ReplicatedMetric.of(call, every, traced=defined)


def _evaluations(bench: Bench, names: list[str], metric: str, seed: int, images: int | None) -> list[Evaluation]:
    """What a metric says of some rankings of one replicate, those that the store has."""
    units = [ScoreCell(bench.setting.task, bench.setting.model, name, metric, seed, images) for name in names]
    return [one for unit in units if (one := evaluation(bench, unit)) is not None]


def _repeated(names: list[str], sizes: list[int]) -> pd.Categorical:
    known = list(dict.fromkeys(names))
    codes = np.repeat([known.index(name) for name in names], sizes).astype(int)
    return pd.Categorical.from_codes(codes, known)


PICTURES = 4
"""Test images shown in a report, each of another class."""


def collect(
    study: Study,
    store: Store,
    outcomes: Mapping[Unit, Outcome] | None = None,
    notices: tuple[str, ...] = (),
    facts: Mapping[str, Any] | None = None,
    with_pictures: bool = True,
    asked: Collection[Unit] = (),
) -> Results:
    """The results of a study so far; cells nobody has made yet are `missing`.

    A study that runs until it is decided misses only what was `asked` for.
    """
    benches = [bench_for(setting, store.root) for setting in Setting.all_of(study)]
    parts = [_Setting(study, bench, outcomes or {}, asked) for bench in benches]
    table = pd.DataFrame([row for part in parts for row in part.cell_rows], columns=list(COLUMNS))
    quality = {part.place: known for part in parts if (known := part.quality) is not None}
    metric_tables = {part.place: scores for part in parts if (scores := metric_scores(study, part.bench)) is not None}
    return Results(
        study={**study.model_dump(mode="json"), "random_rankings": len(study.baseline_chains)},
        cells=table,
        costs=pd.DataFrame([part.cost_row(chain) for part in parts for chain in study.every_chain]),
        protocols={p.name: p for p in (*PROTOCOLS.values(), *study.protocol_list)},
        pictures=tuple(p for bench in benches for p in _pictures(study, bench)) if with_pictures else (),
        provenance={
            **provenance(study, {bench.setting.task: bench.task.fingerprint for bench in benches}),
            "classes": {bench.setting.task: len(bench.task.classes) for bench in benches},
            "test_images": {bench.setting.task: _whole_size(bench.task.test) for bench in benches},
            **_score_names(benches),
            **(facts or {}),
        },
        scores=pd.DataFrame([row for part in parts for row in part.score_rows], columns=list(SCORE_COLUMNS)),
        image_scores=pd.concat([image_rows(study, bench) for bench in benches], ignore_index=True),
        metric_scores={place: replace(one, quality=quality.get(place)) for place, one in metric_tables.items()},
        check_scores={part.place: checks for part in parts if (checks := check_scores(study, part.bench)) is not None},
        quality=quality,
        evaluations={
            (*part.place, target): bits for part in parts for target, bits in evaluator_bits(study, part.bench).items()
        },
        roles={chain.name: chain.role for chain in study.every_chain},
        work=seconds_by_work(study, benches, float(table["seconds"].sum())),
        # last: reading all of the above is what finds faults
        notices=(*study.deviations, *_task_notes(benches), *notices, *_weak(quality), *store.faults.notices),
    )


def _whole_size(split: Split) -> int:
    """How many images a split has, those that a limit leaves out included."""
    return len(split) if split.part is None else split.part.whole


def provenance(study: Study, data: Mapping[str, str]) -> dict[str, Any]:
    """How the numbers were obtained: versions, machine, hashes."""
    return {
        **environment(),
        "data": dict(data),
        "study": key_of("study", study.model_dump(mode="json", exclude={"resources"})),
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class _Setting:
    """The rows of one task and model."""

    study: Study
    bench: Bench
    outcomes: Mapping[Unit, Outcome]
    requested: Collection[Unit]

    @property
    def place(self) -> tuple[str, str]:
        """The names of task and model."""
        return self.bench.setting.task, self.bench.spec.name

    @property
    def cell_rows(self) -> list[dict[str, Any]]:
        """The plain training of every curve, then the cells of the study's grid."""
        return [*self._plain_rows(), *self._grid_rows()]

    def _grid_rows(self) -> Iterator[dict[str, Any]]:
        bench = self.bench
        ties = {
            (chain.name, seed, fraction): share
            for chain in self.study.every_chain
            for seed in self.study.seeds
            for facts in bench.rankings.facts(chain, seed)
            for fraction, share in zip(facts["fractions"], facts["ties_test"], strict=True)
        }
        for cell in cells_of(self.study, bench.setting):
            ranked = (cell.estimator, cell.seed, cell.fraction)
            row = self._row(cell.estimator, cell.protocol, cell.fraction, cell.seed)
            row |= {"ties": ties.get(ranked, np.nan), **self._measured(cell)}
            if ranked not in ties:
                order = bench.keys.ranking(ImageRanking(bench.chain(cell.estimator), cell.seed))
                bench.store.faults.absent.add(("levels", order))
            if row["status"] != "missing" or self._expected(cell):
                yield row

    def _measured(self, cell: Cell) -> dict[str, Any]:
        if (reason := refusal(self.bench, cell)) is not None:
            return {"status": "skipped", "reason": reason}
        item = self.bench.cells.find(cell)
        if item is None:
            return _not_done(self.outcomes.get(cell))
        protocol = protocol_named(cell.protocol)
        known = numbers_of(item, protocol) if protocol.evaluator else _numbers(item, self.bench.task.test.labels)
        return {"status": "done", "seconds": item.facts["seconds"], **known}

    def _plain_rows(self) -> Iterator[dict[str, Any]]:
        """The plain training as the first point of every curve: one network per replicate, shared by all."""
        for seed in self.study.seeds:
            item = self.bench.store.find("model", self.bench.keys.model(seed))
            if item is not None:
                known = {"status": "done", "ties": 0.0, **_numbers(item, self.bench.task.test.labels)}
            else:
                units = [unit for unit in self._units() if unit.seed == seed]
                if not any(self._expected(unit) for unit in units):
                    continue
                known = _not_done(self._base_outcome(units))
            for protocol in self.study.protocol_list:
                if protocol.plain is not None:
                    for chain in self.study.all_chains:
                        yield self._row(chain.name, protocol.name, protocol.plain, seed) | known

    def _units(self) -> list[Cell | ScoreCell]:
        return [*cells_of(self.study, self.bench.setting), *scores_of(self.study, self.bench.setting)]

    def _base_outcome(self, units: Sequence[Unit]) -> Outcome | None:
        """How the training of a replicate's base network ended, as those say who needed it."""
        ends = (self.outcomes.get(unit) for unit in units)
        failed = (end for end in ends if isinstance(end, Failed) and end.reason.startswith(NO_BASE))
        return next(failed, None)

    def _expected(self, unit: Unit) -> bool:
        """Whether something that is not there is missing: what no interim analysis requested is not."""
        return not self.study.until_decided or unit in self.requested

    def _row(self, estimator: str, protocol: str, fraction: float, seed: int) -> dict[str, Any]:
        task, model = self.place
        about = {"task": task, "model": model, "estimator": estimator, "protocol": protocol}
        empty = {"accuracy": np.nan, "bits": np.nan, "images": 0, "ties": np.nan, "seconds": 0.0, "reason": ""}
        return {**about, "fraction": fraction, "seed": seed, **empty}

    @property
    def score_rows(self) -> Iterator[dict[str, Any]]:
        """One row per metric, estimator and replicate."""
        for unit in scores_of(self.study, self.bench.setting):
            one = evaluation(self.bench, unit)
            row = score_row(unit, self.bench.spec.name, one)
            row = row if one is not None else row | _not_done(self.outcomes.get(unit))
            if row["status"] != "missing" or self._expected(unit):
                yield row

    @property
    def quality(self) -> NetworkQuality | None:
        """How good the base networks are on the test images; None where none is finished."""
        items = [self.bench.store.find("model", self.bench.keys.model(seed)) for seed in self.study.seeds]
        networks = [_network_quality(item, self.bench.task) for item in items if item is not None]
        return over_replicates(networks) if networks else None

    def cost_row(self, chain: Chain) -> dict[str, Any]:
        """What the maps of an estimator cost."""
        task, model = self.place
        facts = [f for seed in self.study.seeds for f in self.bench.rankings.facts(chain, seed)]
        splits = {True: len(self.bench.task.train) + len(self.bench.task.test), False: len(self.bench.task.test)}
        images = [splits["ties_train" in f] for f in facts]
        seconds = [f["seconds"] / n for f, n in zip(facts, images, strict=True)]
        return {
            "task": task,
            "model": model,
            "estimator": chain.name,
            "passes": chain.passes,
            "milliseconds_per_image": 1e3 * float(np.median(seconds)) if seconds else np.nan,
            "constant_maps": sum(f["constant"] for f in facts),
            "explained_images": sum(images),
            "layers": ", ".join(dict.fromkeys(layer for f in facts for layer in f.get("layers", ()))),
        }


def _not_done(outcome: Outcome | None) -> dict[str, Any]:
    if isinstance(outcome, Skipped):
        return {"status": "skipped", "reason": outcome.reason}
    if isinstance(outcome, Failed):
        return {"status": "failed", "reason": outcome.reason}
    return {"status": "missing", "reason": "not run yet"}


def _network_quality(item: Item, task: Task) -> NetworkQuality:
    """How good a base network is on the test images, by what its task counts."""
    if task.kind == "softmax":
        labels, words = task.test.labels.numpy(), f"softmax over {len(task.classes)} classes"
        return network_quality(item.arrays["test_scores"], labels, outputs=words)
    words, score = output_of_task(task).words, float(item.facts["accuracy"])
    return NetworkQuality(
        len(task.test), len(task.classes), float("nan"), None, kind=task.kind, outputs=words, score=score
    )


def _numbers(item: Item, labels: torch.Tensor) -> dict[str, float]:
    """The columns `images`, `accuracy` and `bits` of a network that was tested."""
    images = item.facts["images"]
    if "score" in item.facts:  # no classes of which one is right
        bits = item.facts["bits"]
        return {"images": images, "accuracy": item.facts["accuracy"], "bits": np.nan if bits is None else bits}
    if "areas" in item.arrays:
        areas = item.arrays["areas"]
        return {"images": images, "accuracy": float(np.nanmean(areas)) if np.isfinite(areas).any() else np.nan}
    scores = item.arrays["test_scores"]
    right = scores.argmax(1) == labels.numpy()
    bits = item.facts.get("bits")
    if bits is None:  # made before this was kept
        bits = float(nll_bits(torch.from_numpy(scores), labels).mean())
    return {"images": images, "accuracy": float(right.mean()), "bits": bits}


def _weak(quality: Mapping[tuple[str, str], NetworkQuality]) -> list[str]:
    """A warning for every task and model whose networks are hardly better than chance."""
    several = len(quality) > 1
    return [
        f"{model} on {task}: {known.warning}" if several else known.warning
        for (task, model), known in quality.items()
        if known.warning is not None
    ]


def _task_notes(benches: Sequence[Bench]) -> list[str]:
    """What tasks decided that nobody asked for, and what stands in the place of accuracy; each once."""
    return list(dict.fromkeys(note for bench in benches for note in (*bench.task.notes, *_score_note(bench.task))))


def _score_names(benches: Sequence[Bench]) -> dict[str, dict[str, str]]:
    """What stands in the place of accuracy, by task, where something does."""
    tasks = {bench.setting.task: bench.task.kind for bench in benches if bench.task.kind != "softmax"}
    return {"score_names": {name: SCORE_NAMES[kind] for name, kind in tasks.items()}} if tasks else {}


def _score_note(task: Task) -> list[str]:
    if task.kind == "softmax":
        return []
    return [
        f"{task.name} has no classes of which one is right: networks learn by {LOSS_NAMES[task.kind]} and are judged "
        f"by {SCORE_NAMES[task.kind]} on the test images, which is what the column accuracy holds in tables."
    ]


def _pictures(study: Study, bench: Bench) -> list[Picture]:
    """The first test images of different classes, as every estimator and fraction of seed one leaves them."""
    labels = bench.task.test.labels.tolist()
    softmax = bench.task.kind == "softmax"
    firsts = [labels.index(k) for k in sorted(set(labels))[:PICTURES]] if softmax else range(min(PICTURES, len(labels)))
    return [picture for row in firsts if (picture := _picture(study, bench, row)) is not None]


def _picture(study: Study, bench: Bench, row: int) -> Picture | None:
    seed, test = study.seeds[0], bench.task.test
    x = test.read(slice(row, row + 1))
    around = bench.cells.around(Draws.of(seed, [row], "test"))
    maps: dict[str, np.ndarray] = {}
    changed: dict[tuple[str, str, float], np.ndarray] = {}
    families: dict[bool, Protocol] = {p.keeps: p for p in reversed(study.protocol_list)}
    for chain in study.chains:
        facts = bench.rankings.facts(chain, seed)
        if not facts and not chain.is_direct:
            continue
        for fraction in study.all_fractions:
            try:
                important = bench.rankings.important(
                    ImageRanking(chain, seed), fraction, test, slice(row, row + 1), make=False
                )
            except (UproarError, KeyError):
                continue
            for protocol in (p for p in families.values() if fraction in study.fractions_for(p)):
                with contextlib.suppress(*CODE_ERRORS):  # a fill of the user: its cells say why
                    shown = protocol.change(x, important, study.fill, around)[0]
                    changed[protocol.name, chain.name, fraction] = _bytes(shown)
        if not chain.is_direct:
            a = bench.rankings.test_map(chain, seed, row)
            if a is not None:
                maps[chain.name] = a
    if not changed and not maps:
        return None
    title = f"test image {row}: {title_of(bench.task, test.labels[row])}"
    item = bench.store.find("model", bench.keys.model(seed))
    scores = np.zeros((0, 1)) if item is None else item.arrays["test_scores"][row : row + 1]
    with assuming_output(bench.inputs.output):
        read = logits_of(torch.from_numpy(scores.astype(np.float32)), bench.inputs.output).numpy()
        names = bench.task.classes if not bench.inputs.output.single else ("no", *bench.task.classes)
        predicted = next(iter(predictions_of(read, np.zeros(len(read), int), bench.inputs.output, names)), None)
    return Picture(bench.setting.task, bench.spec.name, title, _bytes(x[0]), maps, changed, predicted)


def _bytes(image: torch.Tensor) -> np.ndarray:
    """An image as bytes: grey (h, w) or colour (h, w, 3)."""
    pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    return pixels if pixels.shape[2] == 3 else pixels[:, :, 0]
