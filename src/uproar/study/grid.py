"""What a study asks for: its settings, and the results that each of them names.

for setting in settings_of(study):            # every task with every model
    for cell in cells_of(study, setting):     # every number: by which metric, of which method, in which replicate
        cell.result                           # the result that has it (study/graph.py), made or not
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from uproar.errors import BadInput
from uproar.estimators import Chain
from uproar.metrics.evaluator import TARGETS, begins_explained, default_architecture, evaluator_epochs, stacks
from uproar.metrics.mask_assignment import other_replicate
from uproar.metrics.registry import CHECK_IMAGES, fine_tuning_of, read_metric
from uproar.metrics.retraining import Masks, Retraining
from uproar.models import ModelSpec, build
from uproar.removal.order import count
from uproar.statistics.design import BASELINE
from uproar.study import steps
from uproar.study.graph import Result
from uproar.study.inputs import Data, Estimator, Fill, Metric, Network, Prepared, Removal, Weights
from uproar.study.ranking import shards_of
from uproar.study.spec import Study
from uproar.training import FineTuning, stackable
from uproar.training.stack import LARGEST

RankingName = tuple[Result, ...] | Estimator
"""The parts of a ranking, or a control that removes without ranking."""


class Setting:
    """One task and model of a study, which names their results; each is named once."""

    def __init__(self, study: Study, task: str, model: str) -> None:
        self.study, self.task_name, self.model_name = study, task, model
        self.data, self.network = Data(task, study.limit, study.output), Network(model)
        self.fill = Fill(study.fill)
        self.weights = None if study.weights is None else Weights(study.weights)
        pretrained = study.pretrained if study.recipe.init == "pretrained" else None
        self.pretrained = None if pretrained is None else Weights(pretrained)
        self._rankings: dict[tuple[str, int, str], RankingName] = {}
        self._models: dict[int, Result] = {}
        self._evaluators: dict[int, Result] = {}

    @property
    def names(self) -> tuple[str, str]:
        """The names of task and model, as tables have them."""
        return self.task_name, self.network.spec.name

    @functools.cached_property
    def features(self) -> tuple[int, ...]:
        """The shape of what is ranked in an image."""
        return steps.ranked_shape(self.data, self.study.features)

    @functools.cached_property
    def stacked(self) -> bool:
        """Whether the networks of several trainings are trained at once."""
        held = not self.data.task.train.streams and self.study.recipe.plain
        return held and stackable(self.network.build(self.data.task, 0), self.data.task.shape)

    def estimator(self, chain: Chain) -> Estimator:
        """A chain as results name it."""
        return Estimator(chain.name, self.study.sign, self.study.channels)

    def base_model(self, seed: int) -> Result:
        """The network that is explained in a replicate."""
        if seed not in self._models:
            fixed = {"recipe": None, "seed": None, "weights": self.weights}
            trained = {"recipe": self.study.recipe, "seed": seed, "pretrained": self.pretrained}
            how = trained if self.weights is None else fixed
            self._models[seed] = steps.base_model(data=self.data, network=self.network, **how)
        return self._models[seed]

    def prepared(self, chain: Chain, seed: int) -> tuple[tuple[str, Result], ...]:
        """What the estimators inside a chain make once for a network: their call, the result."""
        calls = [str(chain.leaf)] if chain.facts.get("prepare") else []
        about = {"data": self.data, "network": self.network, "explained": self.base_model(seed), "seed": seed}
        return tuple((call, steps.prepared_state(call=Prepared(call), **about)) for call in calls)

    def ranking(self, chain: Chain, seed: int, split: str) -> RankingName:
        """The order in which a chain removes the pixels of a split's images."""
        if chain.is_direct:
            return self.estimator(chain)
        name = (chain.name, seed, split)
        if name not in self._rankings:
            shards = shards_of(self.data.task, math.prod(self.features)).get(split, (None,))
            self._rankings[name] = tuple(
                steps.ranking(
                    data=self.data.with_annotations,
                    network=self.network if chain.needs_model else None,
                    explained=self.base_model(seed) if chain.needs_model else None,
                    estimator=self.estimator(chain),
                    prepared=self.prepared(chain, seed),
                    split=split,
                    rows=rows,
                    target=self.study.target if chain.needs_model else "label",
                    features=self.study.features,
                    seed=seed,
                    fractions=self.study.fractions_of(chain),
                )
                for rows in shards
            )
        return self._rankings[name]

    def accuracy(self, chain: Chain, metric: Retraining, fraction: float, seed: int) -> Result:
        """The test scores of a retrained network, or of the explained one, on changed images."""

        def ranking(masks: Masks, split: str) -> RankingName:
            return self.ranking(chain, other_replicate(seed) if masks.by == "other" else seed, split)

        train, test = ranking(metric.train, "train"), ranking(metric.test, "test")
        common = {
            "data": self.data,
            "network": self.network,
            "removal": Removal(metric.name),
            "fill": self.fill if metric.sees != "mask" else Fill("mean"),
            "features": self.study.features,
            "fraction": fraction,
            "test": test,
            "seed": seed,
        }
        if not metric.retrains:
            return steps.without_retraining(explained=self.base_model(seed), **common)
        return steps.retrained(
            recipe=self.study.recipe, pretrained=self.pretrained, train=train, stacked=self.stacked, **common
        )

    def evaluator_network(self, seed: int) -> Network:
        """The architecture of a replicate's evaluator: seeds take them in turn, so that more seeds change none."""
        named = self.study.evaluator_models or (default_architecture(self.model_name, self.data.task.shape),)
        return Network(named[seed % len(named)])

    @property
    def evaluator_targets(self) -> tuple[str, ...]:
        """What evaluators learn: both targets, or the explained network's answer alone where nobody asks for labels."""
        return TARGETS if "label" in self.study.evaluator_targets else ("answer",)

    def evaluator(self, seed: int) -> Result:
        """The evaluator of a replicate: no estimator is part of it."""
        if seed not in self._evaluators:
            task, network, recipe = self.data.task, self.evaluator_network(seed), self.study.recipe
            begins = begins_explained(task.shape) and network.identity == self.network.identity
            small = task.shape[1] * task.shape[2] <= LARGEST and not recipe.augment
            targets = self.evaluator_targets
            untrained = (
                steps.untrained_evaluator(self.data, network, self.study.features, seed, targets) if small else None
            )
            self._evaluators[seed] = steps.evaluator(
                data=self.data,
                network=network,
                explained_by=self.network,
                explained=self.base_model(seed),
                recipe=recipe,
                epochs=evaluator_epochs(recipe, len(task.train), begins),
                begins_explained=begins,
                fill=self.fill,
                features=self.study.features,
                stacked=untrained is not None and stacks(untrained, task.shape, recipe),
                targets=targets,
                seed=seed,
            )
        return self._evaluators[seed]

    def evaluation(self, chain: Chain, seed: int) -> Result:
        """What a replicate's evaluator says of a chain's masks."""
        images = min(self.study.evaluator_images, len(self.data.task.test))
        return steps.evaluation(
            data=self.data,
            network=self.evaluator_network(seed),
            evaluator=self.evaluator(seed),
            explained=self.base_model(seed),
            fill=self.fill,
            features=self.study.features,
            test=self.ranking(chain, seed, "test"),
            fractions=self.study.evaluator_fractions,
            images=images,
            targets=self.evaluator_targets,
            seed=seed,
        )

    def fine_tuned(self, tuning: FineTuning, seed: int) -> Result:
        """A fine-tuned copy of a replicate's base model."""
        explained = self.base_model(seed)
        return steps.fine_tuned(data=self.data, network=self.network, explained=explained, tuning=tuning, seed=seed)

    def score(self, chain: Chain, metric: str, seed: int, images: int | None = None) -> Result:
        """One metric of one chain's maps of test images, or of training images where it says so."""
        split = "train" if dict(read_metric(metric).options).get("split") == "train" else "test"
        tuning = fine_tuning_of(metric)
        return steps.metric_of_maps(
            data=self.data.with_annotations,
            network=self.network,
            explained=self.base_model(seed),
            estimator=self.estimator(chain),
            prepared=self.prepared(chain, seed),
            metric=Metric(metric),
            tuned=() if tuning is None else (tuning, self.fine_tuned(tuning, seed)),
            split=split,
            images=images if images is None or images < len(self.data.split(split)) else None,
            target=self.study.target,
            seed=seed,
        )


def settings_of(study: Study) -> tuple[Setting, ...]:
    """Every task of a study with every model."""
    return tuple(Setting(study, task, model) for task in study.tasks for model in study.models)


# the numbers of a study


@dataclass(frozen=True)
class Cell:
    """One number of a study, or one for every image: by which metric, of which method, in which replicate."""

    metric: str
    estimator: str
    seed: int
    fraction: float = math.nan
    result: Result | None = None
    """What has it, made or not; None where it is refused."""
    refused: str = ""
    """Why it does not apply here."""
    check: bool = False
    """Whether it is a check of some test images, which raises flags."""


def cells_of(study: Study, setting: Setting) -> list[Cell]:
    """All numbers of one task and model; what the recommendation needs comes first."""
    return [*evaluations_of(study, setting), *accuracies_of(study, setting), *scores_of(study, setting)]


def evaluations_of(study: Study, setting: Setting) -> list[Cell]:
    """What evaluators say, where the study asks them."""
    if not study.evaluator_targets:
        return []
    kind = setting.data.task.kind
    cells = []
    for seed in study.seeds:
        for chain in study.judged_chains:
            why = refusal(study, setting, chain) or ("" if kind == "softmax" else _NEEDS_CLASSES.format(kind))
            result = None if why else setting.evaluation(chain, seed)
            cells.append(Cell("evaluator", chain.name, seed, result=result, refused=why))
    return cells


_NEEDS_CLASSES = "evaluator needs one class per image, and this is a task of kind {}"


def accuracies_of(study: Study, setting: Setting) -> list[Cell]:
    """The grid of retrained networks, and of the explained one on changed images, plain trainings included."""
    cells = []
    for seed in study.seeds:
        for metric in study.retrainings:
            for chain in study.all_chains:
                for fraction in curve_fractions(study, metric, chain):
                    if fraction == metric.plain:
                        continue
                    why = refusal(study, setting, chain, metric)
                    result = None if why else setting.accuracy(chain, metric, fraction, seed)
                    cells.append(Cell(metric.name, chain.name, seed, fraction, result, why))
    return cells


def curve_fractions(study: Study, metric: Retraining, chain: Chain) -> tuple[float, ...]:
    """Where a curve is measured; random removal, by rank or by coin flips, may go on where no other does."""
    at_random = chain.name == BASELINE or chain.raw.name == "bernoulli"
    return study.fractions + (study.random_fractions if at_random and not metric.keeps else ())


def scores_of(study: Study, setting: Setting) -> list[Cell]:
    """The metrics of maps, and the checks: of estimators that look at the network and can be asked for other maps."""
    scored = [
        Cell(metric, chain.name, seed, result=setting.score(chain, metric, seed))
        for seed in study.seeds
        for chain in (*study.judged_chains, *study.baseline_chains[1:])
        for metric in study.metric_names
    ]
    chains = [chain for chain in study.chains if chain.role == "method" and not chain.is_direct and not chain.files]
    return scored + [
        Cell(check, chain.name, seed, result=setting.score(chain, check, seed, CHECK_IMAGES), check=True)
        for check in study.check_names
        for chain in chains
        for seed in study.seeds
    ]


def shown_of(study: Study, setting: Setting) -> list[Result]:
    """What a report shows beside the numbers: base networks, and maps of test images where pixels are ranked."""
    results = [setting.base_model(seed) for seed in study.seeds]
    if study.evaluator_targets or study.retrainings:
        for chain in study.every_chain:
            if not chain.is_direct and not refusal(study, setting, chain):
                for seed in study.seeds:
                    parts = setting.ranking(chain, seed, "test")
                    results += () if isinstance(parts, Estimator) else parts
    return results


def refusal(study: Study, setting: Setting, chain: Chain, metric: Retraining | None = None) -> str:
    """Why a chain does not apply in this setting, under a retraining metric; nothing where it does."""
    if study.features == "channel" and not chain.facts.get("channels", True):
        return f"{chain.name} knows no colour channels, so it cannot rank channel values"
    if metric is not None and "other" in (metric.train.by, metric.test.by):
        if study.weights is not None and chain.needs_model:
            return f"{metric.name} needs other base models, but the base model is given (weights=)"
        if chain.files:
            return f"{metric.name} needs maps of several base models, but {chain.name} has one set"
    return mismatch(setting, chain) or ""


def mismatch(setting: Setting, chain: Chain, train: bool = True) -> str | None:
    """Why stored maps in a chain are not those of a task's images, if they are not."""
    task = setting.data.task
    splits = (task.train, task.test) if train else (task.test,)
    reasons = (stored.mismatch(split) for stored in chain.files for split in splits)
    return next((reason for reason in reasons if reason), None)


# what could only fail later


def check_study(study: Study) -> None:
    """Refuse a study that fits none of its tasks or models; where it fits some, the cells of the others end."""
    settings = settings_of(study)
    both = bool(study.retrainings)  # other metrics use test images alone
    for chain in study.chains:
        reasons = [mismatch(setting, chain, both) for setting in settings] if chain.files else []
        if reasons and all(reasons):
            raise BadInput(f"{reasons[0]}.")
    if study.weights is not None:
        errors = []
        for setting in settings:
            try:
                assert setting.weights is not None
                setting.weights.load(build(ModelSpec.of(setting.model_name), setting.data.task, 0))
                break
            except BadInput as error:
                errors.append(error)
        else:
            raise errors[0]
    for setting in settings if study.retrainings else ():
        what = "channel values" if study.features == "channel" else "pixels"
        fractions = (*study.fractions, *study.random_fractions)
        check_fractions(fractions, math.prod(setting.features), what, setting.task_name)


def check_fractions(fractions: tuple[float, ...], features: int, what: str, task: str) -> None:
    """Refuse fractions that mean the same number of features as another one, or as nothing, or as everything.

    >>> check_fractions((0.1, 0.5), 64, "pixels", "digits")
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
