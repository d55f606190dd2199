"""A network and images that a user has: what `score`, `explain` and `choose` are asked about, its maps and scores."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from uproar.data import load
from uproar.data.task import Split, Task, channel_moments, split_digest
from uproar.data.user_images import classes_in, count_images, labels_in_table, read_images, read_training_images
from uproar.errors import BadInput, BadOption, NotApplicable, one_line
from uproar.estimators import Chain, Context, explain_chains, families, prepare_states
from uproar.estimators.explain import check_kind
from uproar.estimators.layers import chosen_layers
from uproar.models import MemoryBudget, ModelSpec, borrowed, make
from uproar.models.given import normalisation, pixels_of
from uproar.models.normalise import with_first_step
from uproar.models.output_kind import (
    SOFTMAX,
    Output,
    OutputKind,
    assuming_output,
    predicted_target,
    recognise_output,
    sum_tolerance,
)
from uproar.models.registry import needs_classes
from uproar.models.weights import load_weights
from uproar.plugins import file_at
from uproar.results.scores import Scores
from uproar.scoring import score_all
from uproar.seeds import Draws
from uproar.store import Item, Store, key_of
from uproar.study.graph import obtain
from uproar.study.grid import Setting, settings_of
from uproar.study.spec import study_of
from uproar.study.steps import changed_images, counting_epochs, followed_targets, network_of, weights_of
from uproar.tensors import check_training_labels, spans, unusual_pixels
from uproar.training import FineTuning, predict
from uproar.training.finetune import FineTunedCopies

CHUNK, PIXELS = 64, 2**18
"""Images that are explained and stored together at most, and their pixels."""


@dataclass(frozen=True)
class Subject:
    """A model with the images it is to be explained on."""

    model: nn.Module
    x: Tensor
    target: Tensor
    context: Context
    origin: Mapping[str, Any] = field(default_factory=dict)
    """How the model and its data came about: what its weights do not say, such as the text of a user's file."""
    output: OutputKind = SOFTMAX
    """What the model's answers are."""

    def identity(self) -> str:
        """A hash of the weights, of how the model was made and of the colour that stands for nothing."""
        total = hashlib.sha256(repr(sorted(self.origin.items())).encode())
        for name, value in self.model.state_dict().items():
            total.update(name.encode())
            total.update(_bytes(value))
        if self.context.mean is not None:
            total.update(_bytes(self.context.mean))
        return total.hexdigest()[:40]

    def pixels(self, rows: slice) -> str:
        """A hash of some images and their classes."""
        total = hashlib.sha256()
        for tensor in (self.x[rows], self.target[rows]):
            total.update(str(tuple(tensor.shape)).encode())
            total.update(_bytes(tensor))
        return total.hexdigest()[:40]


def _bytes(value: Tensor) -> memoryview:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


Listener = Callable[[float, Sequence[Chain]], None]
"""How many images have been explained, counted by passes, and which methods come next."""


def stored_maps(
    subject: Subject, chains: Sequence[Chain], store: Store, listen: Listener = lambda *_: None
) -> dict[str, Tensor]:
    """The maps of every chain for all images: some images after the other, each by all chains.

    Maps that the store has are read, the others are made and kept there.
    """
    explainer, images = Explainer(subject, chains), len(subject.x)
    name, kind, draws = subject.identity(), subject.output.kind, subject.context.draws
    facts = {"model": name, "seed": draws.seed, "split": draws.split, **({} if kind == "softmax" else {"output": kind})}
    groups = {tuple(group): max(chain.passes for chain in group) + 0.3 for group in families(chains)}
    parts: dict[str, list[Tensor]] = {chain.name: [] for chain in chains}
    done = 0.0
    for rows in spans(images, max(1, min(CHUNK, PIXELS // math.prod(subject.x.shape[2:])))):
        pixels = subject.pixels(rows)
        numbers = [draws.rows[rows.start][0], draws.rows[rows.stop - 1][0] + 1]
        for group, passes in groups.items():
            listen(done, group)
            keys = [key_of("maps", {**facts, "pixels": pixels, "rows": numbers, "chain": c.identity}) for c in group]
            items = [item for key in keys if (item := store.find("maps", key)) is not None]
            if len(items) < len(keys):
                items = [Item({"maps": maps.numpy()}) for maps in explainer(group, rows)]
                for key, item in zip(keys, items, strict=True):
                    store.write("maps", key, item)
            for chain, item in zip(group, items, strict=True):
                parts[chain.name].append(torch.from_numpy(item.arrays["maps"].copy()))
            done += (rows.stop - rows.start) * passes / sum(groups.values())
    return {name: torch.cat(maps) for name, maps in parts.items()}


class Explainer:
    """Explains images of a subject; what all of them need is prepared before the first."""

    def __init__(self, subject: Subject, chains: Sequence[Chain]) -> None:
        self.subject, self.chains = subject, chains

    @functools.cached_property
    def context(self) -> Context:
        """The context with what estimators prepare; refused where one needs probabilities and there are none."""
        check_kind([chain.raw for chain in self.chains], self.subject.output)
        with assuming_output(self.subject.output), borrowed(self.subject.model), torch.no_grad():
            states = prepare_states(self.subject.model, self.subject.context, self.chains)
        return replace(self.subject.context, states=states)

    @functools.cached_property
    def budget(self) -> MemoryBudget:
        """How many images go through the model at once."""
        needs_model = any(chain.needs_model for chain in self.chains)
        return MemoryBudget.of(self.subject.model, self.subject.x) if needs_model else MemoryBudget(CHUNK)

    def __call__(self, group: Sequence[Chain], rows: slice) -> list[Tensor]:
        """The maps of some images by chains that share passes."""
        model, context = self.subject.model, self.context[rows]
        x, target = self.subject.x[rows], self.subject.target[rows]
        with assuming_output(self.subject.output):
            return self.budget.run(lambda some: explain_chains(model, x, target, context, group, min(CHUNK, some)))


Made = TypeVar("Made")


def with_applicable(
    subject: Subject, chains: Sequence[Chain], make: Callable[[list[Chain]], Made], controls: Collection[str] = ()
) -> tuple[Made, list[str]]:
    """What `make` gives for all chains, or for those that apply, and a sentence on each that does not.

    Refused where nothing is left but `controls`, which are no answer alone. Chains are tried only after `make` failed:
    what some of them learn from training images takes long.
    """
    try:
        return make(list(chains)), []
    except NotApplicable:
        reasons = {}
        for chain in chains:
            try:
                Explainer(subject, [chain])([chain], slice(0, 1))
            except NotApplicable as error:
                reasons[chain.name] = one_line(error).rstrip(".")
        if not reasons:
            raise
    kept = [chain for chain in chains if chain.name not in reasons]
    if all(chain.name in controls for chain in kept):
        listed = "; ".join(f"{name} ({why})" for name, why in reasons.items())
        raise BadInput(f"No estimator applies to this network: {listed}; choose another, see uproar ls estimators.")
    return make(kept), [f"{name} is left out: {why}." for name, why in reasons.items()]


def subject_scores(
    subject: Subject, maps: dict[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str], **options: Any
) -> Scores:
    """The scores of the first images of a subject: of all that have maps."""
    n = min(len(a) for a in maps.values()) if maps else 0
    truth, samples = subject.context.truth, subject.context.samples
    boxes = None if samples is None else samples.boxes
    scores = score_all(
        subject.model,
        subject.x[:n],
        subject.target[:n],
        {name: a[:n] for name, a in maps.items()},
        metrics,
        mean=subject.context.mean,
        truth=None if truth is None else truth[:n],
        boxes=None if boxes is None else boxes[:n],
        explain={chain.name: _explainer(chain, subject) for chain in chains if not chain.files},
        roles={chain.name: chain.role for chain in chains},
        **options,
    )
    with assuming_output(subject.output):
        layers = chosen_layers(subject.model, subject.x, [chain for chain in chains if chain.name in maps])
    return replace(scores, layers={name: ", ".join(layer) for name, layer in layers.items()})


def _explainer(chain: Chain, subject: Subject) -> Any:
    """What explains other models or images as the chain explains those of the subject."""

    def again(model: torch.nn.Module, x: Tensor, target: Tensor, draws: Draws) -> Tensor:
        context = replace(subject.context, draws=draws, truth=None, samples=None)
        return explain_chains(model, x, target, context, [chain])[0]

    return again


@dataclass(frozen=True)
class ImageSet:
    """Images that are explained or scored, read before any network is made or trained for them."""

    x: Tensor
    titles: list[str]
    labels: Tensor | None
    source: str
    """What they are: the name of a task, or a file or folder."""
    classes: int | None = None
    """Number of classes, where it is known without the network."""
    folders: tuple[str, ...] = ()
    """What the labels stand for, by number, where they come from folders or a table."""
    names: tuple[str, ...] = ()
    """The names of all classes of the network, in order, where they were given."""
    train: Split | None = None
    """Training images of the user's own, where they were given."""
    setting: Setting | None = None
    """The task that they are from, with its network."""
    store: Store | None = None
    """Where results of that are kept."""
    notes: tuple[str, ...] = ()
    """What to keep in mind of them and of the network."""

    @property
    def count(self) -> int:
        """How many there are, of which `x` may have only some."""
        return count_images(self.source) if self.setting is None else len(self.setting.data.task.test)


def images_of_task(task: str, model: str, weights: str | None, limit: int, seed: int, store: Store) -> ImageSet:
    """The test images of a task."""
    study = study_of({"tasks": task, "models": model, "weights": weights, "seeds": (seed,)})
    study.check_files()
    (setting,) = settings_of(study)
    known_task, single = setting.data.task, setting.data.output_kind.single
    test, classes = known_task.test, known_task.classes
    x, y = test.read(slice(0, limit)), test.labels[:limit]
    titles = [title_of(known_task, label) for label in y]
    known = y if known_task.kind == "softmax" else y[:, 0].long() if single else None
    count, notes = 2 if single else len(classes), tuple(known_task.notes)
    return ImageSet(x, titles, known, task, count, setting=setting, store=store, notes=notes)


def title_of(task: Task, label: Tensor) -> str:
    """What the label of an image says: its class, the labels it has, or its values."""
    if task.kind == "softmax":
        return task.classes[int(label)]
    values = label.reshape(-1).tolist()
    if task.kind == "regression":
        return ", ".join(f"{name} {value:.3g}" for name, value in zip(task.classes, values, strict=True))
    return ", ".join(name for name, present in zip(task.classes, values, strict=True) if present) or "no label"


def images_of_files(
    images: str,
    model: str,
    weights: str | None,
    classes: int | Sequence[str] | None,
    limit: int,
    size: int | None = None,
    train: str | None = None,
    mixed: int | None = None,
    normalise: Any = None,
    table: str | None = None,
    train_labels: bool = True,
) -> ImageSet:
    """Images of the user's own, with those that the network was trained on where they are given (`train`).

    `classes` is how many there are, or their names; `mixed` a seed by which images come in a random order (see
    `read_images`); `normalise` how arrays were normalised, which is undone; `table` a CSV file with their labels.
    """
    spec = ModelSpec.of(model)
    if weights is not None and not file_at(weights).is_file():
        raise BadInput(f"There is no weights file {weights}.")
    x, titles, labels = read_images(images, limit, size, mixed)
    notes = [untrained_note(model)] if weights is None and not spec.from_file else []
    x = pixels_of(x, normalisation(normalise))
    notes += unusual_pixels(x)
    c, h, w = x.shape[1:]
    known = None if train is None else read_training_images(train, (c, h, w), train_labels)
    names = () if classes is None or isinstance(classes, int) else tuple(classes)
    folders = classes_in(images)
    if table is not None:
        rows, labels = labels_in_table(table, titles)
        folders = tuple(rows)
    count = len(names) or (classes if isinstance(classes, int) else None)
    count = count or (len(folders) if table is None else None) or None
    return ImageSet(x, titles, labels, images, count, folders, names, known, notes=tuple(notes))


def untrained_note(model: str) -> str:
    """What to keep in mind of a network that nobody has trained."""
    return f"{ModelSpec.of(model).name} has random weights: give --weights to explain a trained network."


def draws_weights(net: torch.nn.Module, images: ImageSet, model: str, seed: int) -> bool:
    """Whether a network of the user's own file, made with `seed`, has random weights: another seed gives others."""
    other, _ = _network(images, model, None, seed + 1)
    pairs = zip(net.parameters(), other.parameters(), strict=False)
    return any(a.shape == b.shape and not torch.equal(a.detach().cpu(), b.detach().cpu()) for a, b in pairs)


def example_images(
    images: str | None,
    task: str,
    model: str,
    weights: str | None,
    classes: int | Sequence[str] | None,
    size: int | None,
) -> tuple[torch.nn.Module, Tensor]:
    """A network, not trained here and with outputs of any number, and two images that it may be shown."""
    if images is not None:
        chosen = images_of_files(images, model, weights, classes, 2, size)
        return _network(chosen, model, weights, 0)[0], chosen.x
    known = load(task)
    net = make(ModelSpec.of(model), 0, known.shape, len(known.classes), known.mean, known.std)
    return net if weights is None else load_weights(net, weights), known.test.read(slice(0, 2))


def check_target(target: str, images: ImageSet) -> None:
    """Refuse a class to explain that the images or their task do not have."""
    if target == "label" and images.labels is None:
        raise BadInput("--target label needs labels: give an array file with 'labels', or a task.")
    if target.isdigit() and images.classes is not None and int(target) >= images.classes:
        raise BadOption(f"--target {target}: there are {images.classes} classes, 0 to {images.classes - 1}.")


def subject_of_images(
    images: ImageSet,
    model: str,
    weights: str | None,
    target: str,
    seed: int,
    listen: Callable[[int, int], None] | None = None,
    output: Output = "auto",
    normalise: Any = None,
) -> Subject:
    """The images with the network: for a task its base model, which is trained if need be; `listen` counts epochs.

    `output` says what the network answers with, `normalise` what its images go through first.
    """
    check_target(target, images)
    x, setting = images.x, images.setting
    if setting is None or images.store is None:
        net, origin = _network(images, model, weights, seed)
        train = images.train
        if x.shape[1] == 3 and channels_of(net) == 1:
            x = grey(x)
            train = None if train is None else Split("train", grey(train.read(slice(0, len(train)))), train.labels)
        step = normalisation(normalise)
        if step is not None:
            net, origin = with_first_step(net, step), {**origin, "normalise": str(step.state())}
        mean = x.mean((0, 2, 3)) if train is None else channel_moments(train)[0]
        context = Context(Draws.of(seed, len(x)), mean, train)
    else:
        task = setting.data.task
        with counting_epochs(listen):
            base = obtain(setting.base_model(seed), images.store)
        net = network_of(base, setting.network, setting.data)
        truth = task.test.truth(slice(0, len(x)))
        context = Context(Draws.of(seed, len(x)), task.mean, task.train, truth, samples=task.test)
        origin = {**setting.network.spec.identity, "data": task.fingerprint}
    answers = predict(net.eval(), x)
    if setting is not None and setting.data.task.kind != "softmax":
        kind = setting.data.output_kind
    else:
        kind = recognise_output(net, x, answers, output, sum_tolerance(net))
    labels = images.labels
    if images.folders and labels is not None:
        names = images.names or tuple(getattr(getattr(net, "config", None), "id2label", {}).values())
        outputs = 2 if kind.single else answers.shape[1]
        labels = torch.tensor(outputs_of_names(images.source, images.folders, outputs, names))[labels]
    return Subject(net, x, _targets(answers, kind, labels, target), context, origin, kind)


def outputs_of_names(source: str, folders: Sequence[str], outputs: int, names: Sequence[str]) -> list[int]:
    """The number of the network's output that each folder or label of a table stands for.

    >>> outputs_of_names("photos", ["cat", "dog"], 3, ["bird", "cat", "dog"])
    [1, 2]
    >>> outputs_of_names("photos", ["7", "10"], 11, ())
    [7, 10]
    """
    if set(folders) <= set(names):
        return [names.index(name) for name in folders]
    if not names and all(name.isdigit() and int(name) < outputs for name in folders):
        return [int(name) for name in folders]
    if not names and len(folders) == outputs:
        return list(range(outputs))
    shown = f"{len(folders)} classes ({', '.join(folders[:4])}{', …' * (len(folders) > 4)})"
    raise BadInput(
        f"{source} has {shown}, and the network {outputs} outputs: give the names of all {outputs} classes in order "
        "(--classes names.txt, a line for each, or --classes a,b,c,…), or call the folders by the numbers of the "
        "outputs (0, 1, …), or put all pictures into one folder to do without labels."
    )


def grey(x: Tensor) -> Tensor:
    """Images of three colours as grey ones, weighted as pictures are read in grey."""
    return (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def channels_of(network: nn.Module) -> int | None:
    """The channels that a network's first convolution takes; None without any."""
    return next((module.in_channels for module in network.modules() if isinstance(module, nn.Conv2d)), None)


def _network(images: ImageSet, model: str, weights: str | None, seed: int) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network for images of the user's own, and what it is made of."""
    x, spec = images.x, ModelSpec.of(model)
    c, h, w = x.shape[1:]
    net = make(spec, seed, (c, h, w), _classes(images, spec), x.mean((0, 2, 3)), x.std((0, 2, 3)))
    if weights is not None:
        load_weights(net, weights)
    return net, spec.identity


def _classes(images: ImageSet, spec: ModelSpec) -> int | None:
    """How many classes a network is made for: as given; for one that must be told, as many as training images have."""
    if images.classes is None and images.train is not None and images.train.labels.dim() == 1 and needs_classes(spec):
        return int(images.train.labels.max()) + 1
    return images.classes


def _targets(answers: Tensor, kind: OutputKind, labels: Tensor | None, target: str) -> Tensor:
    if target not in ("predicted", "label"):
        return torch.full((len(answers),), int(target))
    with assuming_output(kind):
        outputs = kind.read(answers, len(answers))
        if target == "label" and labels is not None:
            return followed_targets(target, outputs, labels)
        return predicted_target(outputs)


def fine_tuner_of(
    subject: Subject, seed: int, store: Store, listen: Callable[[int, int], None] | None = None
) -> Callable[[nn.Module], FineTunedCopies] | None:
    """What fine-tunes a copy of the subject's network, or finds it in the store; None without training images.

    `listen` counts epochs.
    """
    train, mean = subject.context.train, subject.context.mean
    if train is None or mean is None:
        return None
    if train.kind == "softmax":
        check_training_labels(train.labels, predict(subject.model, subject.x[:2]).shape[1])

    def copies_of(model: nn.Module) -> FineTunedCopies:
        facts = {"subject": subject.identity(), "data": split_digest(train), "seed": seed}

        def kept(tuning: FineTuning, make: Callable[[], Mapping[str, Tensor]]) -> Mapping[str, Tensor]:
            key = key_of("fine-tuned", {**facts, "answers": type(model).__name__, **tuning.identity})
            return weights_of(store.once("fine-tuned", key, lambda: _item(make())).arrays)

        return FineTunedCopies(model, changed_images(train), train.labels, mean, seed, kept, listen)

    return copies_of


def _item(weights: Mapping[str, Tensor]) -> Item:
    return Item({name: value.detach().cpu().contiguous().numpy() for name, value in weights.items()})
