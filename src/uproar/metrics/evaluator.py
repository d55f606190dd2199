"""The evaluator: one network that tells the class from any part of an image, and cannot be told it by the mask.

It is trained with masks that are independent of the image, so that which pixels are shown says nothing of the class
(EVAL-X, Jethani et al. 2021). Every mask comes from a fixed set of families (`families_for`): random pixels, random
blocks, random blobs of several sizes, and the edges and bright pixels of *other* images; moved to a random place, any
share of it, from the top or from the bottom. No estimator of a study is among them, so that the evaluator is the same
whichever estimators it scores: more of them cost forward passes alone and change no number that is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.data import Split, Task
from uproar.data.stream import Rows, row_numbers
from uproar.errors import BadInput
from uproar.estimators import Chain, Context, explain_chains, read_chain
from uproar.metrics.mask_assignment import moved
from uproar.metrics.registry import TrueTo, metric
from uproar.models import ModelSpec
from uproar.models.forward import device_of, raw_output
from uproar.models.registry import make
from uproar.removal.order import ranks
from uproar.seeds import Draws, generator
from uproar.training import Recipe, fit, stackable
from uproar.training import Rows as ReadByRows
from uproar.training.stack import fit_stack
from uproar.types import Images

PASSES = 2
"""Epochs of an evaluator, as a multiple of the recipe's, at most: it has more to learn than one network of ROAR."""
MANY = 2**12
"""Training images from which the recipe's epochs are enough. On Fashion-MNIST (4,000 images) evaluators of 12 and of 24
epochs agree as well with larger ones; on digits (1,437 images) 12 are too few."""

TINY = 10 * 10
"""Pixels of an image up to which a step of training is nearly all overhead."""
LARGER = 4
"""How many times as many images a batch of theirs has: fewer steps, and evaluators that are as good."""

LARGE = 64 * 64
"""Pixels of an image above which an evaluator begins as the explained network."""

ARCHITECTURES = ("resnet-half", "vgg-small")
"""Those of evaluators for images that are neither tiny nor large: the first that is not the explained network's."""
SHARE = 1 / 2
"""Epochs of an evaluator that begins as the explained network, as a multiple of the recipe's."""

POOL = 512
"""Rankings of each family that masks are made from."""
TINY_POOL = 128
"""The same of tiny images, whose rankings are moved to places enough."""
POOL_FEATURES = 2**25
"""Features of all those rankings together at most; large images have fewer rankings."""

JUDGED = 1000
"""Test images that evaluators score at most, unless a study says how many. On Fashion-MNIST intervals are about
a tenth wider with 1,000 than with 2,000, for half of the work: more replicates are worth more."""

FRACTIONS = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Shares of the pixels that are removed, or kept: with more, a mask and the same mask elsewhere nearly coincide."""

TARGETS = ("label", "answer")
"""What an evaluator may be asked for, in this order: the label, and the class that the explained network answers."""
EVALUATORS = {"evaluator": "label", "evaluator:model": "answer"}
"""The target of each metric that asks evaluators."""


def _declare(name: str, what: str, question: TrueTo) -> None:
    def target() -> str:
        return EVALUATORS[name]

    target.__doc__ = f"Bits about {what} that a map's own mask removes, beyond the same mask at another place."
    metric(
        name=name,
        kind="evaluator",
        higher_is_better=True,
        low=-math.inf,
        high=math.inf,
        chance="0 bits",
        needs="a study, or choose with training images",
        true_to=question,
    )(target)


_declare("evaluator", "the label", "data")
_declare("evaluator:model", "the network's own answer", "model")


def families_for(h: int, w: int) -> list[Chain]:
    """The rankings that training masks are made from; none looks at a network."""
    side = min(h, w)
    sigmas = sorted({max(0.7, side / parts) for parts in (16, 8, 4)})
    blobs = [f"random_blurred(sigma={sigma:g})" for sigma in sigmas]
    return [read_chain(name) for name in ("random", "block_random", *blobs, "sobel", "brightness")]


def mask_pool(task: Task, features: tuple[int, ...], seed: int) -> Tensor:
    """Rankings of training images under every family, (rankings, *features): the place of each feature."""
    chains = families_for(*features[-2:])
    most = max(1, POOL_FEATURES // (len(chains) * math.prod(features)))
    size = min(TINY_POOL if math.prod(features[-2:]) <= TINY else POOL, most, len(task.train))
    rows = torch.randperm(len(task.train), generator=generator(seed, "evaluator pool"))[:size].sort().values
    return torch.cat([_places(task, features, chains, some, seed) for some in rows.split(128)])


def _places(task: Task, features: tuple[int, ...], chains: list[Chain], rows: Tensor, seed: int) -> Tensor:
    draws = Draws.of(seed, rows, "evaluator pool")
    context = Context(draws, task.mean, task.train)
    maps = explain_chains(nn.Identity(), task.train.read(rows), task.train.labels[rows], context, chains, len(rows))
    shape = (len(rows), *features)
    # where channels are removed one by one, those of a pixel are equal: their order is random
    whole = [a if a.shape == shape else a[:, None].expand(shape) for a in maps]
    return torch.cat([ranks(a.flatten(1), draws, "a mask of the evaluator").view(shape) for a in whole])


def judged_rows(split: Split, most: int) -> Tensor:
    """The rows of the images that evaluators score: all, or so many drawn at random, the same in every replicate."""
    if len(split) <= most:
        return torch.arange(len(split))
    return torch.randperm(len(split), generator=generator("judged images", split.name))[:most].sort().values


class MaskedImages:
    """The training images of an evaluator: every image several times, each time with another mask.

    Row r is image r mod n. What is removed from a row depends on the seed and the row alone.
    """

    def __init__(
        self, split: Split, pool: Tensor, times: int, seed: int, change: Callable[[Images, Tensor, Tensor], Tensor]
    ) -> None:
        self.split, self.pool, self.change = split, pool, change
        draw = generator(seed, "evaluator masks", split.name)
        n, (h, w), features = times * len(split), pool.shape[-2:], pool[0].numel()
        self.donors = torch.randint(len(pool), (n,), generator=draw)
        self.shifts = torch.stack([torch.randint(size, (n,), generator=draw) for size in (h, w)], 1)
        counts = torch.randint(features + 1, (n,), generator=draw)
        self.from_bottom = torch.rand(n, generator=draw) < 0.5
        self.above = torch.where(self.from_bottom, features - counts, counts)
        """Features above the cut: those that are removed, or kept where the bottom of a ranking is removed."""

    def __len__(self) -> int:
        return len(self.donors)

    def __getitem__(self, rows: Rows) -> Tensor:
        rows = row_numbers(rows, len(self))
        return self.change(self.split.read(rows % len(self.split)), self.removed(rows), rows)

    def removed(self, rows: Tensor) -> Tensor:
        """The masks of some rows, bool."""
        places = moved(self.pool[self.donors[rows]], self.shifts[rows])
        shape = (-1, *[1] * (places.dim() - 1))
        return (places < self.above[rows].view(shape)) ^ self.from_bottom[rows].view(shape)


class EvaluatorNetwork(nn.Module):
    """A network with an answer per image and target, (n, classes, targets): the label, the explained network's answer.

    Its last layer has an output for each class and target. The second answer as a linear function of the first knew
    less of both where they differ: on digits with a mark, of which the network sees the mark alone, .17 instead of .09
    bits were lacking with 5 % of the pixels removed.
    """

    def __init__(self, body: nn.Module, classes: int, mask_channels: int = 1, targets: int = len(TARGETS)) -> None:
        super().__init__()
        layers = (m for m in body.modules() if isinstance(m, nn.Linear | nn.Conv2d) and len(m.weight) == classes)
        *_, last = [None, *layers]
        if last is None:
            raise BadInput("An evaluator needs a network whose last layer has an output for each class.")
        last.weight = nn.Parameter(torch.cat([last.weight.detach()] * targets))
        if last.bias is not None:
            last.bias = nn.Parameter(torch.cat([last.bias.detach()] * targets))
        self.body, self.targets, self.outputs, self.mask_channels = body, targets, targets * classes, mask_channels

    def forward(self, x: Tensor) -> Tensor:
        scores = raw_output(self.body, x)
        if scores.shape[1] != self.outputs:
            raise BadInput(f"An evaluator must give {self.outputs} scores per image, not {scores.shape[1]}.")
        return self.by_target(scores)

    def by_target(self, scores: Tensor) -> Tensor:
        """The outputs of the last layer as (n, classes, targets)."""
        return scores.unflatten(1, (self.targets, -1)).transpose(1, 2)


def build_evaluator(
    spec: ModelSpec, task: Task, channels: int, seed: int, targets: int = len(TARGETS)
) -> EvaluatorNetwork:
    """An untrained evaluator of some architecture, with `channels` more for the mask."""
    c, h, w = task.shape
    half = torch.full((channels,), 0.5)
    body = make(
        spec, seed, (c + channels, h, w), len(task.classes), torch.cat([task.mean, half]), torch.cat([task.std, half])
    )
    network = EvaluatorNetwork(body, len(task.classes), channels, targets)
    evaluator_scores(network, torch.zeros(2, c + channels, h, w))  # refuses what cannot take the mask
    return network


def evaluator_scores(network: nn.Module, x: Tensor) -> Tensor:
    """The scores of some images, (n, classes, targets), asked where the network is, which is put in evaluation."""
    if network.training:
        network.eval()
    with torch.inference_mode():
        batch = x.to(device_of(network)).contiguous(memory_format=torch.channels_last)
        scores: Tensor = raw_output(network, batch).float().cpu()
    if scores.dim() != 3:
        raise BadInput(f"The evaluator must give scores (images, classes, targets), not {tuple(scores.shape)}.")
    return scores.clone()


def default_architecture(explained: str, shape: tuple[int, int, int]) -> str:
    """The architecture of an evaluator where a study names none: another than the explained network's.

    An evaluator of the explained architecture shares its habits, such as which pixels its strides see most often, and
    favours methods that point at them. On tiny images architectures agree, unless one of the user's own does not see
    all of an image; large networks are not trained twice; rows of a table are no images.
    """
    spec = ModelSpec.of(explained)
    tiny = shape[1] * shape[2] <= TINY and not spec.from_file
    if tiny or min(shape[1:]) == 1 or begins_explained(shape):
        return explained
    return next(name for name in ARCHITECTURES if name != spec.call.name)


def begins_explained(shape: tuple[int, int, int]) -> bool:
    """Whether an evaluator begins with the explained network's weights: for large images alone.

    A network that took days to train is not trained twice. On ten classes of Tiny-ImageNet (64×64, one network) the
    orders of eight methods agree with those by random weights with τ = .75 (.71 to .79), two of the latter with .79; on
    Fashion-MNIST with .67.
    """
    return shape[1] * shape[2] > LARGE


def evaluator_epochs(recipe: Recipe, images: int, explained: bool = False) -> int:
    """How often an evaluator sees each of some training images, each time with another mask.

    Less often where there are many images, or where it begins with the weights of the explained network.
    """
    if explained:
        return math.ceil(SHARE * recipe.epochs)
    return round(recipe.epochs * min(PASSES, max(1.0, MANY / max(1, images))))


def begin_as(network: EvaluatorNetwork, explained: nn.Module) -> None:
    """Give an evaluator the weights of the explained network; those for the mask begin as zero.

    What cannot be taken over stays as it was drawn.
    """
    weights, other = network.body.state_dict(), explained.state_dict()
    learned = dict(network.body.named_parameters())
    for name in weights.keys() & other.keys():
        value, source = weights[name], other[name].detach().cpu()
        if source.shape == value.shape:
            weights[name] = source.clone()
        elif source.shape[1:] == value.shape[1:] and len(value) == network.targets * len(source):
            weights[name] = torch.cat([source] * network.targets)
        elif name in learned and value.dim() == 4 and source.shape[1] < value.shape[1]:
            weights[name] = torch.cat([source, torch.zeros_like(value[:, source.shape[1] :])], 1)
    network.body.load_state_dict(weights)


def evaluator_recipe(recipe: Recipe) -> Recipe:
    """One pass over all masked images, without label smoothing, which would bend the probabilities."""
    return recipe.model_copy(update={"epochs": 1, "label_smoothing": 0.0})


def fit_evaluators(
    networks: Sequence[EvaluatorNetwork],
    images: Sequence[Tensor | ReadByRows],
    labels: Sequence[Tensor],
    recipe: Recipe,
    seeds: Sequence[int],
) -> None:
    """Train evaluators in place, each on its own images; `labels` are those of every image and target.

    Small networks on tiny images are trained as a stack, which is quicker, in larger batches: what each becomes does
    not depend on the others.
    """
    if stacks(networks[0], images[0][:2].shape[1:], recipe):
        bodies, larger = [network.body for network in networks], _in_larger_batches(evaluator_recipe(recipe))
        fit_stack(bodies, images, labels, larger, seeds, answers=networks[0].by_target)  # type: ignore[arg-type]
        return
    for network, masked, wanted, seed in zip(networks, images, labels, seeds, strict=True):
        fit(network, masked, wanted, evaluator_recipe(recipe), seed)


def stacks(network: EvaluatorNetwork, shape: Sequence[int], recipe: Recipe) -> bool:
    """Whether evaluators of images of this shape are trained as a stack, which reads many images at a time."""
    return recipe.plain and stackable(network.body, shape)


def _in_larger_batches(recipe: Recipe) -> Recipe:
    """Momentum fades twice as fast, and all steps together move the weights as far as those of small batches."""
    momentum = recipe.momentum**2
    rate = LARGER * recipe.lr * (1 - momentum) / (1 - recipe.momentum)
    return recipe.model_copy(update={"batch": LARGER * recipe.batch, "momentum": momentum, "lr": rate})


# how far an evaluator is to be believed

TEMPERATURES = (1.0, 0.6, 0.35, 0.2, 0.1)
"""What scores are multiplied with. None is above 1: an evaluator may be made less sure, never surer, so that what it
happens to guess under some mask cannot be turned into knowledge."""
PRIOR_SHARES = (0.01, 0.05, 0.2, 0.5, 1.0)
"""How much of an answer are the frequencies of the classes: never nothing, so that no single image decides a mean."""


def calibrate(scores: Tensor, classes: Tensor, half: Tensor) -> Tensor:
    """Log-loss in bits of every image, (..., images), of scores (..., images, classes): each set by itself.

    `classes` are those that are asked for, (images,), and `half` (0 or 1) is the half of the images that each lies in.
    Answers of one half are softened by a temperature and mixed with the frequencies of the classes, as is best for the
    other half. So the mean loss exceeds the entropy of the classes by sampling alone, however sure the evaluator is
    where nothing is left. Two numbers for a whole set cannot read a class from a mask.
    """
    other = F.one_hot(1 - half, 2).to(scores.dtype)  # the images that each half is calibrated on
    other /= other.sum(0)
    frequent = (torch.bincount(classes) / len(classes)).to(scores.dtype)[classes]
    wanted = classes[:, None].expand(*scores.shape[:-1], 1)
    answers = torch.stack([(t * scores).softmax(-1).gather(-1, wanted)[..., 0] for t in TEMPERATURES])
    bits = torch.cat([-answers.lerp(frequent, share).log2() for share in PRIOR_SHARES])
    best = (bits @ other).argmin(0)  # (..., halves)
    return bits.gather(0, best[..., half][None])[0]


def other_class_donors(classes: Tensor, seed: int) -> Tensor:
    """For each image another one of another class, at random; where there is one class alone, none."""
    draw = generator(seed, "donors of another class")
    donors = torch.arange(len(classes))
    for k in classes.unique():
        same, others = (classes == k).nonzero()[:, 0], (classes != k).nonzero()[:, 0]
        if not len(others):
            return donors[:0]
        donors[same] = others[torch.randint(len(others), same.shape, generator=draw)]
    return donors


def leak(named: Tensor, worn: Tensor) -> Tensor:
    """How much more often than by chance an evaluator names the class that a mask comes from, (..., images).

    `named` are the classes it names, (..., images), `worn` those of the images whose masks are laid on these. Chance is
    how frequent the named class is among `worn`. The mean is 0 where masks say nothing, below where the image does.

    >>> leak(torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 0, 1])).tolist()
    [0.5, 0.5, 0.5, 0.5]
    """
    frequencies = torch.bincount(worn, minlength=int(named.max()) + 1).double() / len(worn)
    return (named == worn).double() - frequencies[named]
