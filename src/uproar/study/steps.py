"""The steps of a study, functions from values to arrays: train, explain, rank, retrain, evaluate, fine-tune, score.

A step gets what its result is made from as the store has it (`Stored`), loads data and networks by name
(`study/inputs.py`), and knows neither study nor executor.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from uproar.data import Split, Task
from uproar.data.stream import Rows, row_numbers
from uproar.errors import CODE_ERRORS, BadInput, BadMap, BrokenRule, NotApplicable, SideEffect, one_line
from uproar.estimators import Chain, Context, estimators, explain_chains, families, prepare_states
from uproar.estimators.contract import FEW_IMAGES, contract_violation, user_chains
from uproar.estimators.explain import BATCH
from uproar.estimators.layers import chosen_layers
from uproar.metrics import Batch
from uproar.metrics.evaluation import Evaluation, evaluate_methods
from uproar.metrics.evaluator import (
    EvaluatorNetwork,
    MaskedImages,
    begin_as,
    build_evaluator,
    calibrate,
    evaluator_scores,
    fit_evaluators,
    judged_rows,
    leak,
    mask_pool,
    other_class_donors,
    stacks,
)
from uproar.metrics.mask_assignment import RandomBlocks, half_of, mask_donors
from uproar.metrics.probe import images_shown
from uproar.metrics.retraining import Masks, beside_mask
from uproar.models import MemoryBudget, build_for_input
from uproar.models.copies import folded
from uproar.models.forward import callable_from_cpu, device_of, explain_on_device, read_by
from uproar.models.output_kind import (
    assumed_output,
    last_operation,
    output_kind,
    predicted_target,
    require_kind,
    sum_tolerance,
    sums_to_one,
)
from uproar.removal import FillContext
from uproar.removal.fill import filled, read_fill, sample_colour
from uproar.removal.order import count
from uproar.seeds import Draws
from uproar.store import Item
from uproar.study.devices import current_device
from uproar.study.graph import FORGET, Result, Stored, identity_of, in_chunks, step
from uproar.study.inputs import Data, Estimator, Fill, Metric, Network, Prepared, Removal, Weights, marginals
from uproar.study.ranking import DirectRemoval, RankingBuilder, StoredRanking
from uproar.study.ranking import Rows as ShardRows
from uproar.tensors import in_batches, spans
from uproar.training import FineTuning, Recipe, channels_last, fit, fit_all, predict
from uproar.training.finetune import FineTunedCopies
from uproar.training.finetune import fine_tuned as fine_tuned_copy
from uproar.training.fit import BATCH as TEST_BATCH
from uproar.training.fit import SCORE_NAMES, loss_bits, nll_bits, task_score
from uproar.types import Images, Kind, Labels

STACK = 8
"""Networks trained at once at most."""
CHUNK = 512
"""Images explained and ranked at a time: bounds memory, whatever the size of the data set."""
BATCH_VALUES = 2**15
"""Values of the images that estimators are given at a time, at least: of tiny images many."""
DIVERGED = 100.0
"""Times the variance of the values that a network's squared error may have."""

Target = str | int
"""`predicted`, `label`, or the number of a class, label or component."""
RankingParts = tuple[Stored, ...] | Estimator
"""The stored parts of a ranking, or a control that removes without ranking."""


# images, changed or not, and fills


class ChangedImages:
    """The images of a split, changed row by row: `change(rows)` gives those of some rows.

    Without a change they are the images themselves. A row does not depend on which rows are read with it.
    """

    def __init__(self, split: Split, change: Callable[[Tensor], Images] | None = None) -> None:
        self.split = split
        self.change = split.read if change is None else change

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, rows: Rows) -> Images:
        return self.change(row_numbers(rows, len(self)))


def changed_images(split: Split, change: Callable[[Tensor], Images] | None = None) -> Images | ChangedImages:
    """The images of a split, changed: all at once if they are held in memory, else when they are read."""
    lazy = ChangedImages(split, change)
    return lazy if split.streams else lazy[:]


class ReadImages:
    """Images of which `read` gives those of some rows."""

    def __init__(self, total: int, read: Callable[[Any], Tensor]) -> None:
        self.total, self.read = total, read

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, rows: Rows) -> Tensor:
        return self.read(row_numbers(rows, self.total))


def around_fill(data: Data, fill: Fill, draws: Draws) -> FillContext:
    """What a fill may know besides the images."""
    return FillContext(draws, data.task.mean, marginals(data, fill.name), _colour(data, fill.name))


@functools.lru_cache(maxsize=4)
def _colour(data: Data, fill: str) -> Tensor | None:
    """The mean colour of some training images, for the fill that wants no more of them."""
    entry, options = read_fill(fill)
    if entry.name != "mean" or options["images"] is None:
        return None
    return sample_colour(data.task.train.read, len(data.task.train), options["images"])


# networks and what is kept of them


def kept_weights(model: nn.Module) -> dict[str, np.ndarray]:
    """The weights of a network as the store keeps them."""
    return {name: _array(value) for name, value in model.state_dict().items()}


def _array(value: Tensor) -> np.ndarray:
    """Weights as they are kept: NumPy has no bfloat16, whose values float32 holds exactly."""
    value = value.detach().cpu().contiguous()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def weights_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Weights as a network takes them, without what is kept beside them."""
    return {name: torch.from_numpy(a.copy()) for name, a in arrays.items() if name != ANSWERS}


ANSWERS = "test_scores"
"""The array of a base model that holds its scores of the test images."""
_networks: dict[tuple[str, ...], nn.Module] = {}
HELD = 2
"""Networks that a process holds: its next job most often asks one of the last."""


def network_of(kept: Stored, network: Network, data: Data) -> nn.Module:
    """A base model as the store has it, in evaluation mode, where the job runs."""
    device = current_device()
    name = (kept.store.root, kept.key, str(device))
    if name not in _networks:
        model = network.build(data.task, 0)
        model.load_state_dict(weights_of(kept.arrays))
        while len(_networks) >= HELD:
            _networks.pop(next(iter(_networks)))
        _networks[name] = channels_last(model.to(device)).eval()
    return _networks[name]


FORGET.append(_networks.clear)


def kept_scores(scores: Tensor, kind: Kind = "softmax") -> np.ndarray:
    """Class scores as they are kept: minus the row's largest, in float16.

    The difference is all that probabilities and decisions need, and it is exact where it matters, near the top. Logits
    of labels and values are kept as they are.
    """
    lost = ~torch.isfinite(scores).all(1)
    if bool(lost.any()):
        raise BadMap(
            f"the training diverged: {int(lost.sum())} of {len(scores)} test images have NaN or "
            "infinite scores; lower the recipe's lr"
        )
    if kind != "softmax":
        return scores.float().numpy()
    differences = scores - scores.amax(1, keepdim=True)
    return differences.clamp_min(-6e4).half().numpy()


def answer_facts(scores: np.ndarray, labels: Tensor, kind: Kind = "softmax") -> dict[str, Any]:
    """What is kept beside the scores of test images: accuracy, and the mean negative log-likelihood in bits.

    Other tasks have their own score in the place of accuracy.
    """
    if kind != "softmax":
        score = task_score(scores, labels, kind)
        if score < -DIVERGED:
            raise BadMap("the training diverged: the error is far larger than the values; lower the recipe's lr")
        bits = loss_bits(scores, labels) if kind == "sigmoid" else None
        return {"bits": bits, "images": len(labels), "accuracy": score, "score": SCORE_NAMES[kind]}
    correct = int((scores.argmax(1) == labels.numpy()).sum())
    bits = float(nll_bits(torch.from_numpy(scores), labels).mean())
    return {"bits": bits, "images": len(labels), "accuracy": correct / len(labels)}


def check_logits(model: nn.Module, x: Tensor, answers: Tensor, kind: Kind = "softmax") -> None:
    """Refuse a base network that answers with anything but class scores, of which a softmax is taken.

    `x` are a few of the images of the answers. Of other tasks, one that answers with probabilities is refused.
    """
    if kind != "softmax":
        if kind == "sigmoid" and last_operation(model, x.to(device_of(model))) == "Sigmoid":
            raise BadInput("The model ends in a sigmoid, and a study takes the sigmoid itself: leave it out.")
        return
    output_kind(answers, "logit")
    if sums_to_one(answers, sum_tolerance(model)):
        raise BadInput(
            "The model ends in a softmax (its rows sum to 1), and a study takes the softmax itself: leave it out."
        )
    if last_operation(model, x.to(device_of(model))) == "Sigmoid":
        raise BadInput(
            "The model ends in a sigmoid (one probability per label), and a study takes the softmax over classes, of "
            "which one is right: leave the sigmoid out if one is."
        )


# train: the networks that are explained

_epochs: ContextVar[Callable[[int, int], None] | None] = ContextVar("epochs", default=None)


@contextmanager
def counting_epochs(listen: Callable[[int, int], None] | None) -> Iterator[None]:
    """Inside, `listen(done, epochs)` is called during trainings of this process."""
    token = _epochs.set(listen)
    try:
        yield
    finally:
        _epochs.reset(token)


def _training_cost(results: Sequence[Result]) -> float:
    """Of networks from their start to their test."""
    task, recipe = results[0]["data"].task, results[0]["recipe"]
    epochs = 0 if recipe is None else recipe.epochs
    return len(results) * (len(task.train) * epochs + len(task.test) / 3)


@step(
    "model", title=lambda results: f"train {results[0]['network'].name} seed {results[0]['seed']}", cost=_training_cost
)
def base_model(
    data: Data,
    network: Network,
    recipe: Recipe | None,
    seed: int | None,
    weights: Weights | None = None,
    pretrained: Weights | None = None,
) -> Item:
    """The network that is explained, trained or given, with its scores of the test images."""
    task, device = data.task, current_device()
    model = network.build(task, seed or 0)
    if recipe is None or seed is None:
        assert weights is not None
        weights.load(model).to(device)
    else:
        model = _initialised(model, pretrained).to(device)
        fit(model, changed_images(task.train), task.train.labels, recipe, seed, _epochs.get(), kind=task.kind)
    with read_by(None):
        answers = predict(model, changed_images(task.test))
    scores = kept_scores(answers, task.kind)
    check_logits(model, task.test.read(slice(0, 2)), answers, task.kind)
    facts = answer_facts(scores, task.test.labels, task.kind)
    return Item({**kept_weights(model), ANSWERS: scores}, {**facts, "device": str(device)})


def _initialised(model: nn.Module, pretrained: Weights | None) -> nn.Module:
    """A network at the start of its training: as it is, or with the pretrained weights."""
    return model if pretrained is None else pretrained.load(model, new_head=True)


@step("state", title=lambda results: f"prepare {results[0]['call'].call}", cost=lambda _: 1.0)
def prepared_state(data: Data, network: Network, explained: Stored, call: Prepared, seed: int) -> Item:
    """What an estimator inside a chain makes once for a network before images are explained."""
    context = Context(Draws.of(seed, (), "train"), data.task.mean, data.task.train)
    state = prepare_states(network_of(explained, network, data), context, [Estimator(call.call).chain])[call.call]
    return Item({name: value.detach().cpu().contiguous().numpy() for name, value in state.items()})


def _states(prepared: Iterable[tuple[str, Stored]]) -> dict[str, Any]:
    """What estimators prepared, by call, as they take it."""
    return {
        call: {name: torch.from_numpy(array.copy()) for name, array in kept.arrays.items()} for call, kept in prepared
    }


# explain and rank


def explained_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What is explained in images with these outputs (n, k) and labels."""
    if target == "predicted":
        return predicted_target(outputs)
    return followed_targets(target, outputs, labels)


def followed_targets(target: Target, outputs: Tensor, labels: Tensor) -> Labels:
    """What a metric follows: the class; of several labels the likeliest of those that the image has, or of all.

    Labels (n,) beside outputs of several labels say themselves which one is followed. Of a regression it is the
    component, of which there is one unless `target` says which.
    """
    if isinstance(target, int):
        return torch.full((len(outputs),), target, device=outputs.device)
    assumed = assumed_output()
    if assumed.kind == "softmax":
        return labels.to(outputs.device)
    if assumed.kind == "regression":
        return predicted_target(outputs)
    if assumed.single or labels.dim() == 1:
        return labels.reshape(len(labels), -1)[:, 0].long().to(outputs.device)
    present = labels.to(outputs.device).bool()
    present = present | ~present.any(1, keepdim=True)
    return outputs.masked_fill(~present, -torch.inf).argmax(1)


def _families(results: Sequence[Result]) -> list[list[Result]]:
    """Results of chains that share passes are made in one job."""
    by_chain = {result["estimator"].chain: result for result in results}
    return [[by_chain[chain] for chain in family] for family in families(list(by_chain))]


def _explaining(results: Sequence[Result]) -> float:
    """Passes forward and backward for the maps of an image under chains that share them."""
    return max(0.0 if result["estimator"].chain.is_direct else result["estimator"].chain.passes for result in results)


def _ranking_cost(results: Sequence[Result]) -> float:
    rows, data = results[0]["rows"], results[0]["data"]
    images = len(data.split(results[0]["split"])) if rows is None else rows[1] - rows[0]
    return images * (0.3 + _explaining(results))


def _ranking_title(results: Sequence[Result]) -> str:
    names, first = ", ".join(result["estimator"].chain.name for result in results), results[0]
    shard = "" if first["rows"] is None else f" {first['rows'][0]}-{first['rows'][1] - 1}"
    return f"explain {first['split']} images{shard} by {names} seed {first['seed']}"


@step(
    "ranking",
    title=_ranking_title,
    cost=_ranking_cost,
    version=2,
    together=("estimator", "prepared"),
    split=_families,
    extent=("fractions",),
)
def ranking(
    data: Data,
    network: Network | None,
    explained: Stored | None,
    estimator: list[Estimator],
    prepared: list[tuple[tuple[str, Stored], ...]],
    split: str,
    rows: ShardRows | None,
    target: Target,
    features: str,
    seed: int,
    fractions: tuple[float, ...],
) -> list[Item]:
    """The order in which chains that share passes remove the pixels of a split's images, or of some rows of it."""
    chains = [each.chain for each in estimator]
    if features == "channel" and not all(chain.facts.get("channels", True) for chain in chains):
        raise NotApplicable(f"{chains[0].name} knows no colour channels, so it cannot rank channel values")
    model = nn.Identity() if explained is None else network_of(explained, cast(Network, network), data)
    states, images = _states(itertools.chain.from_iterable(prepared)), data.split(split)
    _check_rules(data, model, states, chains, target, seed)
    layers = chosen_layers(model, data.task.test.read(slice(0, 2)).to(current_device()), chains)
    first, last = (0, len(images)) if rows is None else rows
    builders = [RankingBuilder(split, fractions, rows is not None) for _ in chains]
    together = max(BATCH, BATCH_VALUES // math.prod(data.task.shape))
    for chunk in spans(last - first, min(CHUNK, images.rows_at_once)):
        numbers = torch.arange(first + chunk.start, first + chunk.stop)
        x, classes, context = _explained_images(data, model, chains, images, numbers, states, target, seed)
        maps = explain_chains(model, x, classes, context, chains, together, features)
        draws = Draws.of(seed, numbers, split)
        for builder, chain, values in zip(builders, chains, maps, strict=True):
            builder.add(values.cpu(), draws, chain.name)
    return [
        builder.item(layers.get(chain.name, ()), chain=chain.name, passes=chain.passes)
        for builder, chain in zip(builders, chains, strict=True)
    ]


def _explained_images(
    data: Data,
    model: nn.Module,
    chains: Sequence[Chain],
    split: Split,
    rows: Tensor,
    states: dict[str, Any],
    target: Target,
    seed: int,
) -> tuple[Tensor, Tensor, Context]:
    """Some images, the classes they are explained for, and their context."""
    task, device = data.task, current_device()
    x, labels = split.read(rows).to(device), split.labels[rows].to(device)
    context = Context(Draws.of(seed, rows, split.name), task.mean, task.train, split.truth(rows), states, split)
    if not any(chain.needs_model for chain in chains):
        return x, labels if task.kind == "softmax" else torch.zeros_like(rows, device=device), context
    if task.kind == "softmax" and target == "label":
        return x, labels, context
    return x, explained_targets(target, predict(model, x), labels), context


_RULES: dict[Hashable, str | None] = {}
"""What is known in this process of the rules that estimators of the user keep."""


def _check_rules(
    data: Data, model: nn.Module, states: dict[str, Any], chains: Sequence[Chain], target: Target, seed: int
) -> None:
    """Refuse chains whose estimators of the user break the rules on a few test images; asked once in a process."""
    test = data.task.test
    for chain in itertools.chain.from_iterable(map(user_chains, chains)):
        functions = tuple(estimators[call.name].function for call in chain.raw.walk())
        known = (data, str(chain.identity), functions, type(model))
        if known not in _RULES:
            rows = torch.arange(min(FEW_IMAGES, len(test)))
            images = _explained_images(data, model, [chain], test, rows, states, target, seed)
            try:
                _RULES[known] = contract_violation(model, *images, chain)
            except SideEffect as error:
                _RULES[known] = one_line(error)
                raise
            except CODE_ERRORS:
                _RULES[known] = None  # its own job says what is wrong with it
        broken = _RULES[known]
        if broken is not None:
            raise BrokenRule(broken)


# retrain: ROAR, KAR and their variants


class Changes:
    """How the images of a task are changed under one metric, ranking and fraction."""

    def __init__(self, data: Data, removal: Removal, fill: Fill, features: str, fraction: float, seed: int) -> None:
        self.data, self.fill, self.fraction, self.seed = data, fill, fraction, seed
        self.metric = removal.retraining
        self.features = ranked_shape(data, features)

    def source(self, ranking: RankingParts, split: Split) -> StoredRanking | DirectRemoval:
        """What says which pixels are important."""
        if isinstance(ranking, Estimator):
            return DirectRemoval(ranking, self.data, split, self.seed)
        return StoredRanking(ranking, self.features)

    def important(self, masks: Masks, ranking: RankingParts, split: Split) -> Callable[[Tensor], Tensor]:
        """The most important pixels under the mask assigned to images of a split, by rows, as bool images."""
        if masks.of == "none":
            return lambda rows: torch.zeros(len(rows), *self.features, dtype=torch.bool)
        donors, source = mask_donors(split, masks, self.seed), self.source(ranking, split)
        return lambda rows: source.important(self.fraction, rows if donors is None else donors[rows])

    def images(self, masks: Masks, ranking: RankingParts, split: Split) -> Images | ChangedImages:
        """What the network sees of a split."""
        important = self.important(masks, ranking, split)

        def change(rows: Tensor) -> Tensor:
            around = around_fill(self.data, self.fill, Draws.of(self.seed, rows, split.name))
            return self.metric.network_input(split.read(rows), important(rows), self.fill.name, around)

        return changed_images(split, change)

    @property
    def tests(self) -> list[Masks]:
        """The assignments of masks that the test images have."""
        kind = self.data.task.kind
        return [
            replace(self.metric.test, of=of)  # type: ignore[arg-type]
            for of in self.metric.tests
            if of != "class" or kind == "softmax"
        ]

    def training(self, ranking: RankingParts) -> Hashable:
        """Equal for changes that one network is trained on."""
        parts = str(ranking.identity) if isinstance(ranking, Estimator) else tuple(shard.key for shard in ranking)
        return str(self.metric.network), self.fraction, parts


def ranked_shape(data: Data, features: str) -> tuple[int, ...]:
    """The shape of what is ranked in an image."""
    return data.task.shape if features == "channel" else data.task.shape[1:]


def _ranked_by(parts: Any) -> str:
    """The chain behind a ranking, named or not yet made."""
    return parts.chain.name if isinstance(parts, Estimator) else parts[0]["estimator"].chain.name


def _cells_title(results: Sequence[Result]) -> str:
    first, more = results[0], len(results) - 1
    title = f"{first['removal'].name} {_ranked_by(first['test'])} t={first['fraction']:g} seed {first['seed']}"
    return f"{title} and {more} more" if more else title


def _trainings_in_chunks(results: Sequence[Result]) -> list[list[Result]]:
    """At most STACK trainings of a chain in a job, with all their tests; where networks are no stack, one."""
    trainings: dict[str, dict[Hashable, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        network, train = str(result["removal"].retraining.network), str(identity_of(result["train"]))
        same = trainings[f"{_ranked_by(result['train'])} {network}"][result["fraction"], train]
        same.append(result)
    size, jobs = STACK if results[0]["stacked"] else 1, []
    for group in trainings.values():
        for chunk in in_chunks(list(group.values()), size):
            jobs.append([result for same in chunk for result in same])
    return jobs


@step(
    "cell",
    title=_cells_title,
    cost=_training_cost,
    together=("removal", "fraction", "train", "test"),
    split=_trainings_in_chunks,
)
def retrained(
    data: Data,
    network: Network,
    recipe: Recipe,
    pretrained: Weights | None,
    removal: list[Removal],
    fill: Fill,
    features: str,
    fraction: list[float],
    train: list[RankingParts],
    test: list[RankingParts],
    stacked: bool,
    seed: int,
) -> list[Item]:
    """Test scores of fresh networks, each trained on changed images and tested with every assignment of test masks."""
    task, device = data.task, current_device()
    changes = [Changes(data, each, fill, features, t, seed) for each, t in zip(removal, fraction, strict=True)]
    for each in removal:
        require_kind(each.name, each.retraining.kinds, task.kind, "it needs one class per image")

    began, models = time.perf_counter(), dict[Hashable, nn.Module]()
    trainings: dict[str, dict[Hashable, tuple[Changes, Images | ChangedImages]]] = defaultdict(dict)
    for change, parts in zip(changes, train, strict=True):
        group = trainings[change.metric.sees]  # networks of one shape
        if change.training(parts) not in group:
            group[change.training(parts)] = change, change.images(change.metric.train, parts, task.train)
    for group in trainings.values():
        fresh = [_fresh(change, network, pretrained, images).to(device) for change, images in group.values()]
        fit_all(fresh, [images for _, images in group.values()], task.train.labels, recipe, seed, task.kind)
        models |= dict(zip(group, fresh, strict=True))
    training = (time.perf_counter() - began) / len(changes)

    items = []
    for change, parts, tested in zip(changes, train, test, strict=True):
        item = _tested(models[change.training(parts)], change, tested)
        facts = {**item.facts, "training_seconds": training, "init": recipe.init, "device": str(device)}
        items.append(Item(item.arrays, facts))
    return items


def _fresh(change: Changes, network: Network, pretrained: Weights | None, images: Images | ChangedImages) -> nn.Module:
    """An untrained network for what a training shows."""
    metric, task, seed = change.metric, change.data.task, change.seed
    if metric.sees == "pixels":
        return _initialised(network.build(task, seed), pretrained)
    # mean and standard deviation of a mask follow from the fraction
    size = math.prod(change.features)
    share = count(change.fraction, size) / size
    share = 1 - share if metric.keeps else share
    channels = task.shape[0] if metric.sees == "mask" or len(change.features) == 3 else 1
    mean = torch.full((channels,), share)
    std = (mean * (1 - mean)).sqrt()
    if metric.sees == "both":
        mean, std = torch.cat([task.mean, mean]), torch.cat([task.std, std])
    return build_for_input(network.spec, task, seed, images[:2], mean, std)


def _tested(model: nn.Module, change: Changes, parts: RankingParts) -> Item:
    """A network's scores of changed test images, for every assignment of masks; what is known of each."""
    test, kind = change.data.task.test, change.data.task.kind
    ties = change.source(parts, test).ties(change.fraction)
    facts: dict[str, Any] = {"ties": None if math.isnan(ties) else ties, "tests": {}}
    arrays: dict[str, np.ndarray] = {}
    for masks in change.tests:
        images = change.images(masks, parts, test)
        with read_by(None):
            arrays[masks.of] = kept_scores(predict(model, images), kind)
        facts["tests"][masks.of] = answer_facts(arrays[masks.of], test.labels, kind)
    return Item(arrays, facts)


@step(
    "cell",
    title=_cells_title,
    cost=lambda results: len(results) * len(results[0]["data"].task.test) / 3,
    together=("removal", "fraction", "test"),
    split=2 * STACK,
)
def without_retraining(
    data: Data,
    network: Network,
    explained: Stored,
    removal: list[Removal],
    fill: Fill,
    features: str,
    fraction: list[float],
    test: list[RankingParts],
    seed: int,
) -> list[Item]:
    """Scores that the explained network gives changed test images."""
    model = network_of(explained, network, data)
    items = []
    for each, share, parts in zip(removal, fraction, test, strict=True):
        item = _tested(model, Changes(data, each, fill, features, share, seed), parts)
        items.append(Item(item.arrays, {**item.facts, "training_seconds": 0.0, "device": str(current_device())}))
    return items


# evaluate: one network per replicate that answers for any part of an image

BATCH_PIXELS = 2**18
"""Pixels of the images that an evaluator is asked about at a time, at least."""
MASK_PIXELS = 2**24
"""Pixels of the masks of test images that are held at a time, about."""
HELD_VALUES = 2**24
"""Numbers of all masked training images up to which they are made at once, not batch by batch; a stack reads ahead."""
LEAK_IMAGES = 128
"""Images on which masks of other classes are laid, at most."""


def _evaluators_together(results: Sequence[Result]) -> list[list[Result]]:
    """Alike evaluators of small networks on tiny images are trained as a stack, others alone."""
    first = results[0]
    return in_chunks(results, STACK if first["stacked"] else 1)


def _evaluator_title(results: Sequence[Result]) -> str:
    seeds = [str(result["seed"]) for result in results]
    return f"train the evaluator of {results[0]['explained_by'].name} seed{'s' * (len(seeds) > 1)} {', '.join(seeds)}"


@step(
    "evaluator",
    title=_evaluator_title,
    cost=lambda results: float(len(results) * len(results[0]["data"].task.train) * results[0]["epochs"]),
    version=8,
    together=("explained", "seed"),
    split=_evaluators_together,
)
def evaluator(
    data: Data,
    network: Network,
    explained_by: Network,
    explained: list[Stored],
    recipe: Recipe,
    epochs: int,
    begins_explained: bool,
    fill: Fill,
    features: str,
    stacked: bool,
    targets: tuple[str, ...],
    seed: list[int],
) -> list[Item]:
    """Networks that tell the targets from any part of an image, one per replicate.

    They are the label, which is not looked at unless it is one, and the explained network's class.
    """
    task, shape = data.task, ranked_shape(data, features)
    networks, shown, wanted = [], [], []
    for kept, number in zip(explained, seed, strict=True):
        base = network_of(kept, explained_by, data)
        untrained = untrained_evaluator(data, network, features, number, targets)
        if begins_explained:
            begin_as(untrained, base)
        pool = mask_pool(task, shape, number)
        answers = predict(base, changed_images(task.train)).argmax(1)
        masked = MaskedImages(task.train, pool, epochs, number, _masked(data, fill, number, "evaluator training"))
        images = _fitting(untrained.to(current_device()), masked, task)
        few = len(masked) * math.prod(task.shape) <= HELD_VALUES and not task.train.streams
        if few and not stacks(untrained, task.shape, recipe):
            images = torch.cat([images[chunk] for chunk in spans(len(masked), _images_at_once(task))])
        networks.append(untrained)
        shown.append(images)
        classes = [task.train.labels if target == "label" else answers for target in targets]
        wanted.append(torch.stack(classes, 1).repeat(epochs, 1))
    fit_evaluators(networks, shown, wanted, recipe, seed)
    return [Item(kept_weights(trained), {"device": str(current_device())}) for trained in networks]


def untrained_evaluator(
    data: Data, network: Network, features: str, seed: int, targets: Sequence[str]
) -> EvaluatorNetwork:
    """An evaluator that sees the mask; where the network takes no more channels, the pixels alone."""
    channels = data.task.shape[0] if features == "channel" else 1
    try:
        return build_evaluator(network.spec, data.task, channels, seed, len(targets))
    except BadInput:
        return build_evaluator(network.spec, data.task, 0, seed, len(targets))


def evaluator_classes(task: Task, base: Stored | Item, targets: Sequence[str]) -> Tensor:
    """The classes that an evaluator is asked for of every test image, (n, targets)."""
    answers = torch.from_numpy(base.arrays[ANSWERS].argmax(1))
    return torch.stack([task.test.labels if target == "label" else answers for target in targets], 1)


def _masked(data: Data, fill: Fill, seed: int, split: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """What an evaluator sees of images whose pixels are removed; random fills are drawn by row."""

    def shown(x: Tensor, removed: Tensor, rows: Tensor) -> Tensor:
        around = around_fill(data, fill, Draws.of(seed, rows, split))
        return beside_mask(filled(x, removed, fill.name, around), removed)

    return shown


def _fitting(network: nn.Module, images: Any, task: Task) -> Any:
    """Images as the network takes them: without the mask where it has no channels for it."""
    channels = task.shape[0]
    sees_mask = bool(getattr(network, "mask_channels", 0))
    return images if sees_mask else ReadImages(len(images), lambda rows: images[rows][:, :channels])


def _images_at_once(task: Task) -> int:
    """Images that an evaluator is asked about at a time: many where they are small."""
    return max(TEST_BATCH, BATCH_PIXELS // math.prod(task.shape[1:]))


def _evaluator_scores(network: nn.Module, images: Any, task: Task) -> Tensor:
    """An evaluator's scores of images, (n, classes, targets)."""
    source = ReadImages(len(images), _fitting(network, images, task).__getitem__)
    return in_batches(lambda batch: evaluator_scores(network, batch), source, size=_images_at_once(task))


@step(
    "evaluation",
    title=lambda results: (
        "evaluate " + ", ".join(_ranked_by(result["test"]) for result in results) + f" seed {results[0]['seed']}"
    ),
    cost=lambda results: len(results) * 9 * len(results[0]["fractions"]) * results[0]["images"] / 3,
    version=8,
    together=("test",),
    split=4,
)
def evaluation(
    data: Data,
    network: Network,
    evaluator: Stored,
    explained: Stored,
    fill: Fill,
    features: str,
    test: list[RankingParts],
    fractions: tuple[float, ...],
    images: int,
    targets: tuple[str, ...],
    seed: int,
) -> list[Item]:
    """Log-loss in bits of an evaluator on test images whose pixels are removed or kept, under own and moved masks.

    `bits` is (masks, keeps, fractions, images, targets): masks are each image's own, or its own moved to another place;
    the most important pixels are removed, or kept. `leaks` is (keeps, fractions, images, targets): how much more often
    than by chance some of the images are said to be of the class whose mask they wear.
    """
    task, split, shape = data.task, data.task.test, ranked_shape(data, features)
    untrained = untrained_evaluator(data, network, features, seed, targets)
    untrained.load_state_dict(weights_of(evaluator.arrays))
    model = channels_last(folded(untrained).to(current_device()))
    rows = judged_rows(split, images)
    wanted, half = evaluator_classes(task, explained, targets)[rows], half_of(split, seed)[rows]
    tested = torch.arange(0, len(rows), -(-len(rows) // LEAK_IMAGES))
    classes = wanted[tested]
    donors = other_class_donors(classes[:, -1], seed)
    blocks, shown = RandomBlocks(split, seed), _masked(data, fill, seed, split.name)
    at_once = max(1, MASK_PIXELS // (4 * len(rows) * math.prod(shape)))

    def answers(removed: Tensor, rows: Tensor) -> Tensor:
        def read(numbers: Tensor) -> Tensor:
            image = rows[numbers % len(rows)]
            return shown(split.read(image), removed[numbers], image)

        return _evaluator_scores(model, ReadImages(len(removed), read), task)

    items = []
    for parts in test:
        source = (
            DirectRemoval(parts, data, split, seed) if isinstance(parts, Estimator) else StoredRanking(parts, shape)
        )
        bits, leaks = [], []
        for some in in_chunks(list(fractions), at_once):
            masks = torch.stack([source.important(fraction, rows) for fraction in some])
            if masks[0, 0].numel() != math.prod(shape):
                raise NotApplicable("it removes single values of a pixel's channels, and evaluators see whole pixels")
            moved = blocks.moved(masks.flatten(0, 1), rows.repeat(len(some))).view_as(masks)
            removed = torch.stack([masks, ~masks, moved, ~moved]).flatten(0, 2)
            scores = answers(removed, rows).unflatten(0, (4, len(some), len(rows)))
            bits.append(torch.stack([calibrate(scores[..., i], c, half) for i, c in enumerate(wanted.unbind(1))], -1))
            if len(donors):
                worn = masks[:, tested[donors]]
                named = answers(torch.stack([worn, ~worn]).flatten(0, 2), rows[tested]).argmax(1)
                named = named.unflatten(0, (2, len(some), len(donors)))
                above = torch.stack([leak(named[..., i], classes[donors, i]) for i in range(len(targets))], -1)
                leaks.append(above.masked_fill(classes[donors] == classes, math.nan))
        nowhere = torch.zeros(2, len(fractions), 0, len(targets))
        arrays = {"bits": torch.cat(bits, 1).unflatten(0, (2, 2)), "leaks": torch.cat(leaks, 1) if leaks else nowhere}
        items.append(Item({name: array.float().numpy() for name, array in arrays.items()}, {"images": len(rows)}))
    return items


# fine-tune, and score maps without retraining


@step(
    "fine-tuned",
    title=lambda results: f"fine-tune {results[0]['network'].name} seed {results[0]['seed']}",
    cost=lambda results: float(len(results[0]["data"].task.train) * results[0]["tuning"].recipe.epochs),
)
def fine_tuned(data: Data, network: Network, explained: Stored, tuning: FineTuning, seed: int) -> Item:
    """A copy of the explained network, fine-tuned on images that lack parts, which scores all maps of the replicate."""
    task, model = data.task, network_of(explained, network, data)
    images, labels = changed_images(task.train), task.train.labels
    return Item(kept_weights(fine_tuned_copy(model, images, labels, task.mean, tuning, seed, _epochs.get())))


def _score_jobs(results: Sequence[Result]) -> list[list[Result]]:
    """One job per estimator, whose metrics share the changed images; several if maps cost more and share passes."""
    by_chain: dict[Chain, list[Result]] = defaultdict(list)
    for result in results:
        by_chain[result["estimator"].chain].append(result)
    jobs = [group for chain, group in by_chain.items() if chain.is_direct]
    for family in families([chain for chain in by_chain if not chain.is_direct]):
        groups = [by_chain[chain] for chain in family]
        expensive = _explaining([group[0] for group in groups]) >= sum(map(_metric_passes, groups))
        jobs += [[result for group in groups for result in group]] if expensive else groups
    return jobs


def _metric_passes(results: Sequence[Result]) -> float:
    """The images that metrics show for one, in passes forward and backward; a guess where one does not fit them."""
    try:
        return images_shown(tuple(result["metric"].name for result in results), results[0]["data"].task.shape) / 3
    except CODE_ERRORS:  # the job itself will say why; the others go on
        return 20.0 * len(results)


def _score_cost(results: Sequence[Result]) -> float:
    by_chain: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_chain[result["estimator"].name].append(result)
    passes = _explaining(results) + sum(map(_metric_passes, by_chain.values()))
    return float(_images_scored(results[0]["data"], results[0]["split"], results[0]["images"]) * passes)


def _images_scored(data: Data, split: str, images: int | None) -> int:
    total = len(data.split(split))
    return total if images is None else min(images, total)


def _score_title(results: Sequence[Result]) -> str:
    first, names = results[0], dict.fromkeys(result["estimator"].chain.name for result in results)
    return f"score {', '.join(names)} seed {first['seed']}"


@step(
    "score",
    title=_score_title,
    cost=_score_cost,
    together=("estimator", "prepared", "metric", "tuned"),
    split=_score_jobs,
)
def metric_of_maps(
    data: Data,
    network: Network,
    explained: Stored,
    estimator: list[Estimator],
    prepared: list[tuple[tuple[str, Stored], ...]],
    metric: list[Metric],
    tuned: list[tuple[FineTuning, Stored] | tuple[()]],
    split: str,
    images: int | None,
    target: Target,
    seed: int,
) -> list[Item]:
    """Metrics of the maps of some images; each changed image is shown to the network once."""
    chains = {each.chain.name: each.chain for each in estimator}
    for chain in chains.values():
        if chain.is_direct:
            raise NotApplicable(f"{chain.name} removes without ranking, so there is no map to score")
    model, task, samples = network_of(explained, network, data), data.task, data.split(split)
    states = _states(itertools.chain.from_iterable(prepared))
    _check_rules(data, model, states, list(chains.values()), target, seed)
    rows = judged_rows(samples, images or len(samples))
    copies = dict(pair for pair in tuned if pair)

    @functools.cache
    def fine_tuned_network(tuning: FineTuning) -> nn.Module:
        kept = FineTunedCopies(model, task.train, task.train.labels, task.mean, seed, _read_copies(copies))  # type: ignore[arg-type]
        return callable_from_cpu(kept(tuning))

    calls: dict[str, list[Any]] = defaultdict(list)
    for each, wanted in zip(estimator, metric, strict=True):
        calls[each.chain.name].append(wanted.call)

    def batches(_: Sequence[str], span: slice) -> list[Batch]:
        explained_batches = _batches(data, model, list(chains.values()), samples, rows[span], states, target, seed)
        return [replace(batch, fine_tuned=fine_tuned_network) for batch in explained_batches]

    budget = MemoryBudget.of(model, task.test.read(slice(0, 2)))
    methods = evaluate_methods(calls, [list(calls)], batches, len(rows), budget)
    items = []
    for each, wanted in zip(estimator, metric, strict=True):
        responses = methods[each.chain.name]
        evaluated = Evaluation.of(wanted.call, responses.responses[str(wanted.call)], responses.tied)
        items.append(Item(evaluated.arrays, {**jsonable(evaluated.facts), "forwards": responses.shown}))
    return items


def _read_copies(copies: Mapping[FineTuning, Stored]) -> Callable[..., Mapping[str, Tensor]]:
    """Gives the weights of fine-tuned copies, which the store has."""
    return lambda tuning, _: weights_of(copies[tuning].arrays)


def _batches(
    data: Data,
    model: nn.Module,
    chains: Sequence[Chain],
    split: Split,
    rows: Tensor,
    states: dict[str, Any],
    target: Target,
    seed: int,
) -> list[Batch]:
    """Some images with their maps under each chain; the maps share passes."""
    task, device = data.task, device_of(model)
    x, labels, truth = split.read(rows), split.labels[rows], split.truth(rows)
    draws, clean = Draws.of(seed, rows, split.name), predict(model, x)
    context = Context(draws, task.mean, task.train, truth, states, split)
    classes, followed = explained_targets(target, clean, labels), followed_targets(target, clean, labels)

    def explains(chain: Chain) -> Callable[..., Tensor]:
        @explain_on_device
        def explain(other: nn.Module, images: Tensor, wanted: Tensor, drawn: Draws) -> Tensor:
            around = Context(drawn, task.mean, task.train, None, states)
            return explain_chains(other, images, wanted, around, [chain])[0]

        return explain

    maps = explain_chains(model, x.to(device), classes.to(device), context, list(chains))
    return [
        Batch(
            callable_from_cpu(model),
            x,
            followed,
            values.to(x.device),
            clean,
            draws,
            task.mean,
            truth,
            explain=None if chain.files else explains(chain),
            boxed=split.boxed(rows),
        )
        for chain, values in zip(chains, maps, strict=True)
    ]


def jsonable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON can hold them: a number that is not defined becomes null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}
