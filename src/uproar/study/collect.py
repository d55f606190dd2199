"""The results of a study as the store has them: tables and pictures. Nothing is computed that needs a model."""

from __future__ import annotations

import contextlib
import datetime
import functools
import math
import os
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
import scipy
import torch

from uproar.data import Split, Task
from uproar.errors import CODE_ERRORS, Absent, Damaged
from uproar.estimators import Chain
from uproar.expression import Call
from uproar.metrics import metrics
from uproar.metrics.evaluation import Evaluation
from uproar.metrics.evaluator import judged_rows
from uproar.metrics.registry import read_metric
from uproar.metrics.retraining import RETRAININGS, Retraining
from uproar.models.output_kind import assuming_output, logits_of
from uproar.removal.fill import filled
from uproar.results.evaluator import EvaluatorBits, leaked_share
from uproar.results.quality import NetworkQuality, network_quality, over_replicates, predictions_of
from uproar.results.scores import Scores, combined_scores, is_ranked, replicate_interval
from uproar.results.study import COLUMNS, IMAGE_SCORE_COLUMNS, SCORE_COLUMNS, Picture, Results
from uproar.seeds import Draws
from uproar.statistics.design import BASELINE
from uproar.store import Item, Store, key_of
from uproar.study.graph import NO_BASE, Failed, Outcome, Result, Skipped, reachable, stored
from uproar.study.grid import Cell, Setting, accuracies_of, cells_of, evaluations_of, refusal, scores_of, settings_of
from uproar.study.inputs import Estimator, output_of_task
from uproar.study.ranking import DirectRemoval, StoredRanking
from uproar.study.spec import Study
from uproar.study.steps import ANSWERS, around_fill, evaluator_classes
from uproar.study.subjects import title_of
from uproar.training.fit import LOSS_NAMES, SCORE_NAMES

PACKAGES = ("uproar", "torch", "numpy", "scipy", "pandas")


def environment() -> dict[str, Any]:
    """Versions and machine as they are now."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": f"{system}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }


class Reading:
    """What the store has of the results of one task and model of a study."""

    def __init__(self, study: Study, setting: Setting, store: Store) -> None:
        self.study, self.setting, self.store, self.task = study, setting, store, setting.data.task

    def find(self, result: Result | None) -> Item | None:
        """A result, if the store has it, undamaged."""
        return None if result is None else self.store.find(result.folder, result.key)

    def base_model(self, seed: int) -> Item | None:
        """The network explained in a replicate, with its scores of the test images."""
        return self.find(self.setting.base_model(seed))

    def ranking(self, chain: Chain, seed: int, split: str = "test") -> StoredRanking | DirectRemoval | None:
        """The order of the pixels of all images of a split; None where it is not there as a whole."""
        name = self.setting.ranking(chain, seed, split)
        if isinstance(name, Estimator):
            return DirectRemoval(name, self.setting.data, self.setting.data.split(split), seed)
        if any(not self.store.facts(shard.folder, shard.key) for shard in name):
            self.store.faults.absent |= {(shard.folder, shard.key) for shard in name}
            return None
        return StoredRanking([stored(shard, self.store) for shard in name], self.setting.features)

    def seconds(self, results: Collection[Result]) -> float:
        """What some results took, each counted once."""
        facts = (self.store.facts(r.folder, r.key) for r in set(results) if self.store.has(r.folder, r.key))
        return float(sum(each.get("seconds", 0.0) for each in facts))

    @functools.cached_property
    def work(self) -> dict[str, float]:
        """Seconds by what was done."""
        kinds = {
            "base networks": "base_model",
            "evaluators": "evaluator",
            "maps": "ranking",
            "metrics": "metric_of_maps",
            "evaluations": "evaluation",
        }
        cells = [cell.result for cell in cells_of(self.study, self.setting) if cell.result is not None]
        results = reachable(cells)
        return {name: self.seconds([r for r in results if r.step == step]) for name, step in kinds.items()}


def evaluator_bits(reading: Reading) -> dict[str, EvaluatorBits]:
    """Bits of log-loss per image by target, where the study asks an evaluator."""
    study, setting, seeds = reading.study, reading.setting, reading.study.seeds
    kept: dict[str, list[Item | None]] = {}
    for cell in evaluations_of(study, setting):
        kept.setdefault(cell.estimator, []).append(reading.find(cell.result))
    images = judged_rows(reading.task.test, study.evaluator_images).numpy()
    targets = setting.evaluator_targets
    unknown = np.full((2, 2, len(study.evaluator_fractions), len(images), len(targets)), np.nan)
    losses = {
        name: np.stack([unknown if item is None else np.asarray(item.arrays["bits"], float) for item in items])
        for name, items in kept.items()
    }
    above_chance = {
        name: [leaks for leaks in (item.arrays["leaks"] for item in items if item is not None) if leaks.shape[2]]
        for name, items in kept.items()
    }  # a replicate whose images nearly all have one class has no masks of other classes
    roles = {chain.name: chain.role for chain in study.judged_chains}
    models = tuple(dict.fromkeys(setting.evaluator_network(seed).name for seed in seeds)) if kept else ()
    by_target: dict[str, EvaluatorBits] = {}
    for target in study.evaluator_targets:
        column = targets.index(target)
        means = {
            (name, masks, keeps): bits[:, masks, int(keeps), :, :, column].mean(1)
            for name, bits in losses.items()
            for masks in (0, 1)
            for keeps in (False, True)
        }
        leaks = {name: leaked_share(np.stack(items)[..., column]) for name, items in above_chance.items() if items}
        by_target[target] = EvaluatorBits(
            {(name, keeps): bits for (name, masks, keeps), bits in means.items() if masks == 0},
            {(name, keeps): bits for (name, masks, keeps), bits in means.items() if masks == 1},
            roles,
            models,
            images,
            {name: share for name, share in leaks.items() if share > 0},
            entropy(reading, target),
        )
    return by_target


def entropy(reading: Reading, target: str) -> float:
    """The entropy in bits of what evaluators are asked for, over all test images: the largest of the replicates.

    Who knows how frequent the classes are and nothing else needs so many bits. NaN where no base model is there.
    """
    if reading.task.kind != "softmax":
        return math.nan
    models = [reading.base_model(seed) for seed in reading.study.seeds]
    classes = [evaluator_classes(reading.task, item, [target])[:, 0] for item in models if item is not None]
    return max((float(scipy.stats.entropy(np.bincount(each), base=2)) for each in classes), default=math.nan)


def evaluation(reading: Reading, cell: Cell) -> Evaluation | None:
    """A metric of an estimator in one replicate, if the store has it."""
    item = reading.find(cell.result)
    return None if item is None else Evaluation(item.arrays, item.facts)


def score_row(reading: Reading, cell: Cell, evaluation: Evaluation | None) -> dict[str, Any]:
    """A metric of an estimator in one replicate; None where it was not made."""
    call, (task, model) = read_metric(cell.metric), reading.setting.names
    row = {
        "task": task,
        "model": model,
        "estimator": cell.estimator,
        "metric": cell.metric,
        "check": cell.check,
        "seed": cell.seed,
        "higher_is_better": metrics[call.name].facts["higher_is_better"],
        "value": np.nan,
        "low": np.nan,
        "high": np.nan,
        "images": 0,
        "undefined": 0,
        "ranked": False,
        "reason": "",
    }
    if evaluation is None:
        return row
    interval = replicate_interval(call, evaluation)
    return row | {
        "status": "done",
        "value": evaluation.value,
        "low": interval.low,
        "high": interval.high,
        "images": evaluation.facts["n"],
        "undefined": evaluation.facts["nan"],
        "ranked": is_ranked(evaluation.facts["n"], evaluation.facts["nan"]),
    }


def image_rows(reading: Reading) -> pd.DataFrame:
    """The metrics' values of single test images."""
    rows = [
        (cell, kept.arrays["value"])
        for cell in scores_of(reading.study, reading.setting)
        if not cell.check and (kept := evaluation(reading, cell)) is not None
    ]
    sizes, (task, model) = [len(values) for _, values in rows], reading.setting.names
    columns: dict[str, Any] = {
        "task": pd.Categorical([task] * sum(sizes)),
        "model": pd.Categorical([model] * sum(sizes)),
        "estimator": _repeated([cell.estimator for cell, _ in rows], sizes),
        "metric": _repeated([cell.metric for cell, _ in rows], sizes),
        "seed": np.repeat([cell.seed for cell, _ in rows], sizes).astype(int),
        "image": np.concatenate([np.arange(n) for n in sizes]) if sizes else np.zeros(0, int),
        "value": np.concatenate([v for _, v in rows]).astype(float) if rows else np.zeros(0),
    }
    return pd.DataFrame(columns)[list(IMAGE_SCORE_COLUMNS)]


def metric_scores(reading: Reading, checks: bool = False) -> Scores | None:
    """What the metrics, or the checks, say of the estimators over all replicates; None where nothing is finished."""
    study = reading.study
    by_metric: dict[str, dict[str, dict[int, Evaluation]]] = {}
    for cell in scores_of(study, reading.setting):
        kept = evaluation(reading, cell) if cell.check == checks else None
        if kept is not None:
            by_metric.setdefault(cell.metric, {}).setdefault(cell.estimator, {})[cell.seed] = kept

    evaluations: dict[Call, dict[str, list[list[Evaluation]]]] = {}
    for name in study.check_names if checks else study.metric_names:
        call = read_metric(name)
        known, methods = by_metric.get(str(call), {}), evaluations.setdefault(call, {})
        for chain in study.judged_chains:  # `random` is the mean of its rankings
            names = [each.name for each in study.baseline_chains] if chain.name == BASELINE else [chain.name]
            groups = [[known[n][seed] for n in names if seed in known.get(n, {})] for seed in study.seeds]
            if any(math.isfinite(each.value) for group in groups for each in group):
                methods[chain.name] = groups
    roles = {chain.name: chain.role for chain in study.judged_chains}
    scores = combined_scores(evaluations, reading.task.shape, roles, traced=True)
    return None if scores is None else replace(scores, replicates=len(study.seeds))


def _repeated(names: list[str], sizes: list[int]) -> pd.Categorical:
    known = list(dict.fromkeys(names))
    codes = np.repeat([known.index(name) for name in names], sizes).astype(int)
    return pd.Categorical.from_codes(codes, known)


PICTURES, CHANGED = 12, 4
"""Test images shown in a report, first one of each class, then wrong ones; and how many of them as they are changed."""


def collect(
    study: Study,
    store: Store,
    outcomes: Mapping[str, Outcome] | None = None,
    notices: tuple[str, ...] = (),
    facts: Mapping[str, Any] | None = None,
    with_pictures: bool = True,
    promised: Collection[str] = (),
) -> Results:
    """The results of a study so far; what nobody has made yet is `missing`.

    `outcomes` say by key why results are not there. A study that runs until it is decided misses only what was
    `promised`.
    """
    parts = [_Rows(Reading(study, setting, store), outcomes or {}, promised) for setting in settings_of(study)]
    readings = [rows.reading for rows in parts]
    table = pd.DataFrame([row for rows in parts for row in rows.cell_rows], columns=list(COLUMNS))
    quality = {rows.names: known for rows in parts if (known := rows.quality) is not None}
    metric_tables = {r.setting.names: scores for r in readings if (scores := metric_scores(r)) is not None}
    checks = {r.setting.names: scores for r in readings if (scores := metric_scores(r, checks=True)) is not None}
    return Results(
        study={**study.model_dump(mode="json"), "random_rankings": len(study.baseline_chains)},
        cells=table,
        costs=pd.DataFrame([rows.cost_row(chain) for rows in parts for chain in study.every_chain]),
        pictures=tuple(p for reading in readings for p in _pictures(reading)) if with_pictures else (),
        provenance={
            **provenance(study, {r.setting.task_name: r.task.fingerprint for r in readings}),
            "classes": {r.setting.task_name: len(r.task.classes) for r in readings},
            "test_images": {r.setting.task_name: _whole_size(r.task.test) for r in readings},
            **_score_names(readings),
            **(facts or {}),
        },
        scores=pd.DataFrame([row for rows in parts for row in rows.score_rows], columns=list(SCORE_COLUMNS)),
        image_scores=pd.concat([image_rows(reading) for reading in readings], ignore_index=True),
        metric_scores={key: replace(scores, quality=quality.get(key)) for key, scores in metric_tables.items()},
        check_scores=checks,
        quality=quality,
        evaluations={
            (*reading.setting.names, target): bits
            for reading in readings
            for target, bits in evaluator_bits(reading).items()
        },
        roles={chain.name: chain.role for chain in study.every_chain},
        work=_work(readings, float(table["seconds"].sum())),
        # last: reading all of the above is what finds faults
        notices=(*study.deviations, *_task_notes(readings), *notices, *_weak(quality), *store.faults.notices),
    )


def _work(readings: Sequence[Reading], cells: float) -> dict[str, float]:
    """Seconds by what was done, each result once, however often it is used; `cells` are those of retrained networks."""
    total = {name: sum(reading.work[name] for reading in readings) for name in readings[0].work}
    return {**total, "cells": cells}


def _whole_size(split: Split) -> int:
    """How many images a split has, those that a limit leaves out included."""
    return len(split) if split.subset is None else split.subset.whole


def provenance(study: Study, data: Mapping[str, str]) -> dict[str, Any]:
    """How the numbers were obtained: versions, machine, hashes."""
    return {
        **environment(),
        "data": dict(data),
        "study": key_of("study", study.model_dump(mode="json", exclude={"resources"})),
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class _Rows:
    """The rows of one task and model."""

    reading: Reading
    outcomes: Mapping[str, Outcome]
    promised: Collection[str]

    @property
    def names(self) -> tuple[str, str]:
        """The names of task and model."""
        return self.reading.setting.names

    @property
    def cell_rows(self) -> Iterator[dict[str, Any]]:
        """The plain training of every curve, the cells of retrained networks, and evaluations that are not there."""
        study, setting = self.reading.study, self.reading.setting
        yield from self._plain_rows()
        for cell in accuracies_of(study, setting):
            item = self.reading.find(cell.result)
            if item is None:
                yield from self._not_done(cell, self._row(cell.estimator, cell.metric, cell.fraction, cell.seed))
                continue
            known = {"status": "done", "seconds": item.facts["seconds"]}
            ties = item.facts["ties"]
            known |= {
                "ties": np.nan if ties is None else ties,
                **_numbers(item.facts["tests"][RETRAININGS[cell.metric].test.of]),
            }
            yield self._row(cell.estimator, cell.metric, cell.fraction, cell.seed) | known
        for cell in evaluations_of(study, setting):
            if self.reading.find(cell.result) is None:
                yield from self._not_done(cell, self._row(cell.estimator, cell.metric, np.nan, cell.seed))

    def _plain_rows(self) -> Iterator[dict[str, Any]]:
        """The plain training as the first point of every curve: one network per replicate, shared by all."""
        study = self.reading.study
        curves = [metric for metric in study.retrainings if metric.plain is not None]
        for seed in study.seeds if curves else ():
            item, result = self.reading.base_model(seed), self.reading.setting.base_model(seed)
            for metric in curves:
                for chain in study.all_chains:
                    row = self._row(chain.name, metric.name, metric.plain, seed)
                    if item is None:
                        yield from self._not_done(Cell(metric.name, chain.name, seed, result=result), row)
                    else:
                        yield row | {"status": "done", "ties": 0.0, **_numbers(item.facts)}

    def _not_done(self, cell: Cell, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The row of what has no result, with the reason; nothing where no interim analysis asked for it."""
        outcome = None if cell.result is None else self.outcomes.get(cell.result.key)
        if cell.refused:
            yield row | {"status": "skipped", "reason": cell.refused}
        elif isinstance(outcome, Skipped):
            yield row | {"status": "skipped", "reason": outcome.reason}
        elif isinstance(outcome, Failed):
            base = f"{NO_BASE}: " if cell.result is not None and cell.result.step == "base_model" else ""
            yield row | {"status": "failed", "reason": f"{base}{outcome.reason}"}
        elif not self.reading.study.until_decided or (cell.result is not None and cell.result.key in self.promised):
            yield row | {"status": "missing", "reason": "not run yet"}

    def _row(self, estimator: str, metric: str, fraction: float | None, seed: int) -> dict[str, Any]:
        task, model = self.names
        about = {"task": task, "model": model, "estimator": estimator, "metric": metric}
        empty = {"accuracy": np.nan, "bits": np.nan, "images": 0, "ties": np.nan, "seconds": 0.0, "reason": ""}
        return {**about, "fraction": fraction, "seed": seed, **empty}

    @property
    def score_rows(self) -> Iterator[dict[str, Any]]:
        """One row per metric, estimator and replicate."""
        for cell in scores_of(self.reading.study, self.reading.setting):
            kept = evaluation(self.reading, cell)
            row = score_row(self.reading, cell, kept)
            if kept is None:
                yield from self._not_done(cell, row)
            else:
                yield row

    @property
    def quality(self) -> NetworkQuality | None:
        """How good the base networks are on the test images; None where none is finished."""
        items = [self.reading.base_model(seed) for seed in self.reading.study.seeds]
        networks = [_network_quality(item, self.reading.task) for item in items if item is not None]
        return over_replicates(networks) if networks else None

    def cost_row(self, chain: Chain) -> dict[str, Any]:
        """What the maps of an estimator cost."""
        study, (task, model), facts = self.reading.study, self.names, []
        for seed in study.seeds:
            name = self.reading.setting.ranking(chain, seed, "test")
            parts = () if isinstance(name, Estimator) or refusal(study, self.reading.setting, chain) else name
            facts += [known for shard in parts if (known := self.reading.store.facts(shard.folder, shard.key))]
        seconds = [known["seconds"] / known["images"] for known in facts]
        return {
            "task": task,
            "model": model,
            "estimator": chain.name,
            "passes": chain.passes,
            "milliseconds_per_image": 1e3 * float(np.median(seconds)) if seconds else np.nan,
            "constant_maps": sum(known["constant"] for known in facts),
            "explained_images": sum(known["images"] for known in facts),
            "layers": ", ".join(dict.fromkeys(layer for known in facts for layer in known["layers"])),
        }


def _network_quality(item: Item, task: Task) -> NetworkQuality:
    """How good a base network is on the test images, by what its task counts."""
    if task.kind == "softmax":
        labels, words = task.test.labels.numpy(), f"softmax over {len(task.classes)} classes"
        return network_quality(item.arrays[ANSWERS], labels, words=words)
    words, score = output_of_task(task).words, float(item.facts["accuracy"])
    return NetworkQuality(
        len(task.test), len(task.classes), float("nan"), None, kind=task.kind, outputs=words, score=score
    )


def _numbers(facts: Mapping[str, Any]) -> dict[str, float]:
    """The columns `images`, `accuracy` and `bits` of what is known of a network's scores of test images."""
    bits = facts["bits"]
    return {"images": facts["images"], "accuracy": facts["accuracy"], "bits": np.nan if bits is None else bits}


def _weak(quality: Mapping[tuple[str, str], NetworkQuality]) -> list[str]:
    """A warning for every task and model whose networks are hardly better than chance."""
    several = len(quality) > 1
    return [
        f"{model} on {task}: {known.warning}" if several else known.warning
        for (task, model), known in quality.items()
        if known.warning is not None
    ]


def _task_notes(readings: Sequence[Reading]) -> list[str]:
    """What tasks decided that nobody asked for, and what stands in the place of accuracy; each once."""
    return list(dict.fromkeys(note for r in readings for note in (*r.task.notes, *_score_note(r.task))))


def _score_names(readings: Sequence[Reading]) -> dict[str, dict[str, str]]:
    """What stands in the place of accuracy, by task, where something does."""
    tasks = {r.setting.task_name: r.task.kind for r in readings if r.task.kind != "softmax"}
    return {"score_names": {name: SCORE_NAMES[kind] for name, kind in tasks.items()}} if tasks else {}


def _score_note(task: Task) -> list[str]:
    if task.kind == "softmax":
        return []
    return [
        f"{task.name} has no classes of which one is right: networks learn by {LOSS_NAMES[task.kind]} and are scored "
        f"by {SCORE_NAMES[task.kind]} on the test images, which is what the column accuracy holds in tables."
    ]


def _pictures(reading: Reading) -> list[Picture]:
    """Test images of the first seed with all maps; the first of them as every estimator and fraction leaves them."""
    study, seed = reading.study, reading.study.seeds[0]
    chains = study.judged_chains if study.metric_names or study.evaluator_targets else study.chains
    rankings = {chain.name: reading.ranking(chain, seed) for chain in chains if _applies(reading, chain)}
    if not any(isinstance(ranking, StoredRanking) for ranking in rankings.values()):
        return []  # nothing was explained: perhaps the images cannot be read
    labels, item = reading.task.test.labels, reading.base_model(seed)
    rows = list(range(len(labels)))
    if reading.task.kind == "softmax":
        answers = np.zeros((0, 0)) if item is None else item.arrays[ANSWERS]
        wrong = np.flatnonzero(answers.argmax(1) != labels.numpy()).tolist() if answers.shape[1] > 1 else []
        firsts = [labels.tolist().index(k) for k in sorted(set(labels.tolist()))]
        rows = list(dict.fromkeys([*firsts[: PICTURES - 2], *wrong, *firsts]))
    pictures = (_picture(reading, row, rankings, number < CHANGED) for number, row in enumerate(rows[:PICTURES]))
    return [picture for picture in pictures if picture is not None]


def _applies(reading: Reading, chain: Chain) -> bool:
    return not refusal(reading.study, reading.setting, chain)


def _picture(
    reading: Reading, row: int, rankings: Mapping[str, StoredRanking | DirectRemoval | None], with_changes: bool
) -> Picture | None:
    study, setting, test, seed = reading.study, reading.setting, reading.task.test, reading.study.seeds[0]
    x, number = test.read(slice(row, row + 1)), torch.tensor([row])
    around = around_fill(setting.data, setting.fill, Draws.of(seed, [row], "test"))
    maps: dict[str, np.ndarray] = {}
    changed: dict[tuple[str, str, float], np.ndarray] = {}
    families: dict[bool, Retraining] = {metric.keeps: metric for metric in reversed(study.retrainings)}
    for name, ranking in rankings.items():
        if ranking is None:
            continue
        with contextlib.suppress(Absent, Damaged, *CODE_ERRORS):  # a fill of the user: its cells say why
            for metric, fraction in ((m, t) for m in families.values() for t in study.fractions if with_changes):
                removed = metric.removed(ranking.important(fraction, number))
                changed[metric.name, name, fraction] = _bytes(filled(x, removed, study.fill, around)[0])
        if isinstance(ranking, StoredRanking):
            with contextlib.suppress(Absent, Damaged):
                values = ranking.maps(number)[0]
                maps[name] = values.sum(0) / len(values) if values.ndim == 3 else values
    if not changed and not maps:
        return None
    title = f"test image {row}: {title_of(reading.task, test.labels[row])}"
    item, output = reading.base_model(seed), setting.data.output_kind
    scores = np.zeros((0, 1)) if item is None else item.arrays[ANSWERS][row : row + 1]
    with assuming_output(output):
        read = logits_of(torch.from_numpy(scores.astype(np.float32)), output).numpy()
        names = reading.task.classes if not output.single else ("no", *reading.task.classes)
        predicted = next(iter(predictions_of(read, np.zeros(len(read), int), output, names)), None)
    label = title_of(reading.task, test.labels[row]) if reading.task.kind == "softmax" else ""
    return Picture(*setting.names, title, _bytes(x[0]), maps, changed, predicted, row, label)


def _bytes(image: torch.Tensor) -> np.ndarray:
    """An image as bytes: grey (h, w) or colour (h, w, 3)."""
    pixels = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    return pixels if pixels.shape[2] == 3 else pixels[:, :, 0]
