"""What a study amounts to, counted from declared facts: nothing is loaded but what is part of the package.

Passes are counted from the study alone, and turned into hours with the operations of one pass of the network and the
speed of a GPU that is written here.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from uproar.data.task_facts import TaskFacts, limit_facts, task_facts
from uproar.errors import CODE_ERRORS, BadInput, UproarError, one_line
from uproar.estimators import families, read_chain
from uproar.metrics.probe import fractions_of, has_curve, images_shown
from uproar.metrics.registry import fine_tuning_of, metrics, read_metric
from uproar.models import ModelSpec
from uproar.models.registry import make
from uproar.plugins.loading import describe_error
from uproar.protocols import protocol_named
from uproar.removal.levels import bits_for
from uproar.statistics.bootstrap import DRAWS
from uproar.study.cell import Cell, ScoreCell
from uproar.study.grid import cells_of, scores_of
from uproar.study.settings import Setting
from uproar.study.shards import PACKED_BYTES, needs_shards
from uproar.study.spec import Study

SPEED = 10e12
"""Operations a second in training: what an A100 sustains on a ResNet-50 in float32 without TF32."""


@dataclass(frozen=True)
class Outline:
    """Cells, trainings and passes of a study with its audits."""

    cells: int = 0
    trainings: int = 0
    trained: float = 0.0
    """Images passed forward and backward in training."""
    explained: float = 0.0
    """The same for maps."""
    shown: float = 0.0
    """Images passed forward to judge maps and networks."""
    operations: float = 0.0
    bytes: float = 0.0
    missing: tuple[str, ...] = ()
    """What must be there before it can run."""
    notes: tuple[str, ...] = field(default=())

    @property
    def gpu_hours(self) -> float:
        """Time of one GPU, the making of changed images left out."""
        return self.operations / SPEED / 3600

    def __add__(self, other: Outline) -> Outline:
        total: dict[str, Any] = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("cells", "trainings", "trained", "explained", "shown", "operations", "bytes")
        }
        both: dict[str, Any] = {
            name: tuple(dict.fromkeys(getattr(self, name) + getattr(other, name))) for name in ("missing", "notes")
        }
        return Outline(**total, **both)


def outline(study: Study) -> Outline:
    """What a study and its audits amount to, as if nothing of it were done."""
    total = replace(Outline(), missing=study.missing_files)
    parts, unknown = _parts(study)
    done: set[tuple[Setting, Cell | ScoreCell]] = set()
    models: set[tuple[Setting, int]] = set()
    for part in parts:
        for setting in Setting.all_of(part):
            cells = [c for c in cells_of(part, setting) if (setting, c) not in done]
            scores = [s for s in scores_of(part, setting) if (setting, s) not in done]
            done |= {(setting, c) for c in cells} | {(setting, s) for s in scores}
            seeds = [s for s in part.seeds if (setting, s) not in models]
            models |= {(setting, seed) for seed in seeds}
            total += _of_setting(part, setting, cells, scores, len(seeds))
    return replace(total, notes=(*total.notes, *unknown))


def _parts(study: Study) -> tuple[list[Study], tuple[str, ...]]:
    """The study and what its audits need; audits that have to see the data first are named."""
    if not study.audits:
        return [study], ()
    from uproar.study.audit import audit_requests, needed_studies

    parts, notes = [study], []
    for name in study.audits:
        try:
            requests = audit_requests(study, [name])
        except UproarError as error:
            notes.append(f"The audit {name} is not counted: {one_line(error)}")
            continue
        refused = dict.fromkeys(one.refused for one in requests if one.refused)
        notes += [f"The audit {name} is not counted: {reason}." for reason in refused]
        parts += needed_studies(requests).values()
    return parts, tuple(notes)


def _of_setting(study: Study, setting: Setting, cells: list[Cell], scores: list[ScoreCell], replicates: int) -> Outline:
    size = limit_facts(task_facts(setting.task), setting.limit)
    learned = {
        (c.estimator, c.fraction, c.seed, protocol_named(c.protocol).network)
        for c in cells
        if protocol_named(c.protocol).retrains
    }
    judges = {c.seed for c in cells if protocol_named(c.protocol).evaluator}
    plain = 0 if setting.weights is not None else replicates
    tuned = {(s.seed, tuning) for s in scores if (tuning := fine_tuning_of(s.metric)) is not None}
    trainings = plain + len(learned)
    epochs = trainings * setting.recipe.epochs + sum(tuning.recipe.epochs for _, tuning in tuned)
    judging = {seed: size.train * setting.evaluator_epochs(seed, size.shape, size.train) for seed in judges}
    trained = float(size.train * epochs + sum(judging.values()))
    explained, stored = _maps(study, size, cells, scores)
    shown = _asked(cells, size.test, setting.evaluator_images) + _judged(study, size, scores)
    forward = _forward(setting.model, size)
    passes = 3 * (trained + explained) + shown
    others = sum(3 * judging[s] * (_forward(setting.evaluator_model(s, size.shape), size) - forward) for s in judges)
    return Outline(
        len(cells) + len(scores),
        trainings + len(tuned) + len(judges),
        trained,
        explained,
        float(shown),
        forward * passes + others,
        stored + _answers(cells, size, setting.evaluator_images) + _values(scores, size),
        (size.missing,) if size.missing else (),
    )


def _asked(cells: list[Cell], images: int, most: int) -> int:
    """Changed images that networks are asked about: an evaluator answers for both targets at once, of some images."""
    protocols = [(cell, protocol_named(cell.protocol)) for cell in cells]
    judged = {(c.estimator, p.keeps, p.test, c.fraction, c.seed) for c, p in protocols if p.evaluator}
    return min(images, most) * len(judged) + images * sum(not protocol.evaluator for _, protocol in protocols)


def _answers(cells: list[Cell], size: TaskFacts, most: int) -> float:
    """Bytes of what networks said of the test images: all class scores, of an evaluator bits and class."""
    judged = sum(protocol_named(cell.protocol).evaluator for cell in cells)
    return float(16 * min(size.test, most) * judged + 2 * size.test * size.classes * (len(cells) - judged))


def _maps(study: Study, size: TaskFacts, cells: list[Cell], scores: list[ScoreCell]) -> tuple[float, float]:
    """Passes for the maps that cells and metrics need, and bytes of what the store keeps of those of cells.

    Cells need the maps of both splits, those of an evaluator of the test images alone; metrics those of the test
    images, which are not kept.
    """
    passes, stored = 0.0, 0.0
    kept = {size.train + size.test: _kept(study, size), size.test: _kept(study, replace(size, train=0))}
    for seed in study.seeds:
        evaluated = {x.estimator for x in cells if x.seed == seed}
        removed = {x.estimator for x in cells if x.seed == seed and not protocol_named(x.protocol).evaluator}
        scored = {x.estimator for x in scores if x.seed == seed and x.images is None} - evaluated
        parts = ((removed, size.train + size.test), (evaluated - removed, size.test), (scored, size.test))
        for names, images in parts:
            chains = [read_chain(n, study.sign, study.channels) for n in sorted(names)]
            for family in families([chain for chain in chains if not chain.is_direct]):
                passes += images * max(chain.passes_for(size.classes) for chain in family)
                stored += 0.0 if names is scored else len(family) * kept[images]
    return passes + _checking(study, size, scores), stored


def _checking(study: Study, size: TaskFacts, scores: list[ScoreCell]) -> float:
    """Passes of the checks: two maps of each of their images, as it is and changed."""
    checks = [(_asked_images(unit, size), unit.estimator) for unit in scores if unit.images is not None]
    chains = {name: read_chain(name, study.sign, study.channels) for _, name in checks}
    return float(sum(2 * images * chains[name].passes_for(size.classes) for images, name in checks))


def _asked_images(unit: ScoreCell, size: TaskFacts) -> int:
    """Test images that a metric or a check is asked about."""
    return size.test if unit.images is None else min(unit.images, size.test)


def _kept(study: Study, size: TaskFacts) -> float:
    """Bytes of one estimator's levels of both splits and maps of test images."""
    c, h, w = size.shape
    features = h * w * (c if study.features == "channel" else 1)
    images = size.train + size.test
    if needs_shards(size.train, size.test, features):
        return features * (images * PACKED_BYTES + 2 * size.test)
    return features * (images * bits_for(len(study.all_fractions)) / 8 + 2 * size.test)


def _values(scores: list[ScoreCell], size: TaskFacts) -> float:
    """Bytes of the metrics' values and curves by image, and of their resamples."""
    calls = [read_metric(unit.metric) for unit in scores]
    images = [_asked_images(unit, size) for unit in scores]
    points = [len(fractions_of(c, size.shape)) if has_curve(c) else 0 for c in calls]
    draws = [0 if metrics[c.name].facts["statistic"] is None else DRAWS for c in calls]
    return sum(8.0 * (own * (1 + n) + m) for own, n, m in zip(images, points, draws, strict=True))


def _judged(study: Study, size: TaskFacts, scores: list[ScoreCell]) -> float:
    """Images shown to the network by the metrics; those of an estimator share changed images."""
    by_map: dict[tuple[str, int, int], list[str]] = {}
    for unit in scores:
        by_map.setdefault((unit.estimator, unit.seed, _asked_images(unit, size)), []).append(unit.metric)
    return sum(images * images_shown(tuple(names), size.shape) for (_, _, images), names in by_map.items())


def _forward(model: str, size: TaskFacts) -> float:
    """Operations of one image through the network, forward."""
    return _operations(model, ModelSpec.of(model).identity.get("source", ""), size)


@functools.lru_cache(maxsize=16)
def _operations(model: str, source: str, size: TaskFacts) -> float:
    mean, std = torch.full((size.shape[0],), 0.5), torch.full((size.shape[0],), 0.25)
    network = make(ModelSpec.of(model), 0, size.shape, size.classes, mean, std).eval()
    try:
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            network(torch.zeros(1, *size.shape))
    except CODE_ERRORS as error:
        raise BadInput(
            f"The model {model} cannot take images of shape {size.shape}: {describe_error(error)}"
        ) from error
    return float(counter.get_total_flops())
