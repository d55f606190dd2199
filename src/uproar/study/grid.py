"""The grid of a study: the cells and metrics it asks for, and which of them a task and model allow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uproar.errors import BadInput
from uproar.estimators import Chain
from uproar.metrics.registry import CHECK_IMAGES
from uproar.models import build
from uproar.models.weights import load_weights
from uproar.protocols import Protocol, protocol_named
from uproar.protocols.evaluator import FRACTIONS
from uproar.removal.order import count
from uproar.statistics.design import BASELINE
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, ScoreCell, Unit
from uproar.study.settings import Setting
from uproar.study.spec import Study


def cells_of(study: Study, setting: Setting) -> list[Cell]:
    """The grid of one task and model, without the plain trainings that all estimators share."""
    return [
        Cell(setting.task, setting.model, chain.name, protocol.name, fraction, seed)
        for seed in study.seeds
        for protocol in study.protocol_list
        for chain in study.chains_for(protocol)
        for fraction in _fractions(study, protocol, chain)
        if fraction != protocol.plain
    ]


def _fractions(study: Study, protocol: Protocol, chain: Chain) -> tuple[float, ...]:
    """Where a curve is measured; random removal, by rank or by coin flips, may go on where no other does."""
    at_random = chain.name == BASELINE or chain.raw.name == "bernoulli"
    further = at_random and not protocol.keeps and not protocol.evaluator
    return study.fractions_for(protocol) + (study.random_fractions if further else ())


def scores_of(study: Study, setting: Setting) -> list[ScoreCell]:
    """The metrics of one task and model, and the checks."""
    asked = [
        ScoreCell(setting.task, setting.model, chain.name, metric, seed)
        for seed in study.seeds
        for chain in (*study.judged_chains, *study.baseline_chains[1:])
        for metric in study.metric_names
    ]
    return asked + checks_of(study, setting)


def checks_of(study: Study, setting: Setting) -> list[ScoreCell]:
    """The checks of one task and model: of estimators that look at the network and can be asked for other maps."""
    chains = [chain for chain in study.chains if chain.role == "method" and not chain.is_direct and not chain.files]
    return [
        ScoreCell(setting.task, setting.model, chain.name, check, seed, CHECK_IMAGES)
        for check in study.check_names
        for chain in chains
        for seed in study.seeds
    ]


def units_of(study: Study) -> list[Unit]:
    """Everything a study asks for."""
    settings = Setting.all_of(study)
    cells: list[Unit] = [cell for setting in settings for cell in cells_of(study, setting)]
    return cells + [unit for setting in settings for unit in scores_of(study, setting)]


def refusal(bench: Bench, cell: Cell) -> str | None:
    """Why a cell does not apply in this setting, if it does not."""
    chain, protocol = bench.chain(cell.estimator), protocol_named(cell.protocol)
    if bench.setting.features == "channel" and not chain.knows_channels:
        return f"{chain.name} knows no colour channels, so it cannot rank channel values"
    others = {protocol.train.by, protocol.test.by} - {"replicate"}
    if others and bench.setting.weights is not None and chain.needs_model:
        return f"{protocol.name} needs other base models, but the base model is given (weights=)"
    if others and chain.files:
        return f"{protocol.name} needs maps of several base models, but {chain.name} has one set"
    return mismatch(chain, bench)


def mismatch(chain: Chain, bench: Bench, train: bool = True) -> str | None:
    """Why stored maps in a chain are not those of a task's images, if they are not."""
    splits = (bench.task.train, bench.task.test) if train else (bench.task.test,)
    reasons = (stored.mismatch(split) for stored in chain.files for split in splits)
    return next((reason for reason in reasons if reason), None)


def check_files(study: Study, benches: Sequence[Bench]) -> None:
    """Refuse stored maps that fit none of the tasks; where they fit some, the cells of the others are skipped."""
    both = bool(study.protocols)  # metrics use test images alone
    for chain in study.chains:
        reasons = [mismatch(chain, bench, both) for bench in benches] if chain.files else []
        if reasons and all(reasons):
            raise BadInput(f"{reasons[0]}.")


def check_weights(study: Study, benches: Sequence[Bench]) -> None:
    """Refuse weights that fit none of the models; where they fit some, the cells of the others fail."""
    reasons = []
    for bench in benches if study.weights is not None else ():
        try:
            load_weights(build(bench.spec, bench.task, 0), study.weights or "")
            return
        except BadInput as error:
            reasons.append(error)
    if reasons:
        raise reasons[0]


def check_fractions(study: Study, root: str) -> None:
    """Refuse fractions that an image of some task has too few pixels to tell apart."""
    if not study.protocols:
        return
    for setting in Setting.all_of(study):
        features = math.prod(bench_for(setting, root).inputs.features)
        what = "channel values" if setting.features == "channel" else "pixels"
        for protocol in study.protocol_list:
            if study.fractions_for(protocol) != FRACTIONS:  # the evaluator's own do on any image
                check_grid((*study.fractions_for(protocol), *study.random_fractions), features, what, setting.task)


def check_grid(fractions: tuple[float, ...], features: int, what: str, task: str) -> None:
    """Refuse fractions that mean the same number of features as another one, or as nothing, or as everything.

    >>> check_grid((0.1, 0.5), 64, "pixels", "digits")
    """
    meant = {0: 0.0, features: 1.0}
    for fraction in fractions:
        removed = count(fraction, features)
        other = meant.setdefault(removed, fraction)
        if other != fraction:
            raise BadInput(
                f"The fraction {fraction!r} means {removed} of the {features} {what} of an image of {task}, as "
                f"{other!r} does: choose fractions that are further apart."
            )
