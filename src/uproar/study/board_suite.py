"""The board: its development networks, what is right about maps, and maps that should not win.

"Right" (docs/board.md): the share of the known use that lies in the first pixels of a map, over the whole order
(`whole_order`) and within as many pixels as the network can use (`top_k`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar import extend
from uproar.api import fill
from uproar.data.task import Task
from uproar.errors import NotApplicable
from uproar.estimators.registry import Context
from uproar.metrics.changes import BY_VALUE, Batch
from uproar.metrics.registry import Responses
from uproar.study.board_scenes import (
    SIZE,
    Channel,
    Region,
    additive_network,
    bar,
    seeing,
    shares_of_use,
    striped_cells,
    stripes,
    two_cues,
)
from uproar.training.finetune import grid_cells
from uproar.types import Images, Labels, RawMaps

MARK = 5
"""Pixels of the side of the mark in the corner."""
Weights = tuple[float, ...]


def corner() -> Tensor:
    """The pixels of the mark."""
    inside = torch.arange(SIZE) < MARK
    return inside[:, None] & inside


@extend.task()
def board_mark(*, used: Literal["bar", "mark"] = "bar", train: int = 512, test: int = 48) -> Task:
    """A bar below, and stripes in the upper left corner."""
    cues = (bar(slice(None), MARK + 1), stripes(MARK, MARK, 0, 0))
    return two_cues("board_mark", 1, cues, ("bar", "mark").index(used), train, test)


@extend.task()
def board_colour(*, used: Literal["red", "blue"] = "red", train: int = 512, test: int = 48) -> Task:
    """A red bar and a blue bar, each anywhere."""
    cues = (bar(0, 0), bar(2, 0))
    return two_cues("board_colour", 3, cues, ("red", "blue").index(used), train, test)


@extend.task()
def board_stripes(*, parts: int = 3, vary: bool = False, size: float = 0.25, train: int = 512, test: int = 48) -> Task:
    """Stripes in all cells; those of some cells tell the class."""
    return striped_cells("board_stripes", parts, vary, size, train, test)


@extend.model()
def sees_mark() -> nn.Module:
    """Sees nothing but the corner."""
    return seeing(Region(corner()))


@extend.model()
def sees_all_but_mark() -> nn.Module:
    """Sees everything but the corner."""
    return seeing(Region(~corner()))


@extend.model()
def sees_channel(*, channel: int = 0) -> nn.Module:
    """Sees one colour channel."""
    return seeing(Channel(channel))


@extend.model()
def additive(*, weights: Weights = (0.5, 0.3, 0.2), size: float = 0.25) -> nn.Module:
    """Adds up what some cells say, with known weights."""
    return additive_network(weights, size)


# what is right


def captured(order: Tensor, shares: Tensor) -> Tensor:
    """The share of use in the first 1, 2, … pixels of an order, (n, pixels)."""
    return shares.flatten(1).double().gather(1, order).cumsum(1)


def area(curve: Tensor) -> Tensor:
    """The area under a curve over the share of pixels, from 0 pixels on."""
    return (curve.sum(1) - curve[:, -1] / 2) / curve.shape[1]


@extend.metric(higher_is_better=True, low=-1, high=1, chance="0", needs="known shares of use")
def whole_order(batch: Batch, *, weights: Weights = ()) -> Responses:
    """How near a map is to the known shares over all pixels: 1 as near as can be, 0 as a random order."""
    shares = shares_of_use(batch.x, batch.truth, weights)
    reached = area(captured(batch.places(BY_VALUE).argsort(1), shares))
    best = area(captured(shares.flatten(1).argsort(1, descending=True), shares))
    return {"value": (reached - 0.5) / (best - 0.5)}


@extend.metric(higher_is_better=True, low=0, high=1, chance="the used share of the image", needs="known shares of use")
def top_k(batch: Batch, *, weights: Weights = ()) -> Responses:
    """The share of the known use in as many first pixels as the network can use."""
    shares = shares_of_use(batch.x, batch.truth, weights)
    curve = captured(batch.places(BY_VALUE).argsort(1), shares)
    used = (shares > 0).flatten(1).sum(1, keepdim=True)
    return {"value": curve.gather(1, used - 1)[:, 0]}


@extend.estimator(model=False, channels=False, passes=0, informed=True)
def known_use(model: nn.Module, x: Images, target: Labels, context: Context, *, weights: Weights = ()) -> RawMaps:
    """The known shares of use."""
    return shares_of_use(x, context.truth, weights)[:, None]


# maps that should not win


@extend.estimator(model=False, channels=False, passes=0, informed=True)
def other_image(model: nn.Module, x: Images, target: Labels, context: Context) -> RawMaps:
    """The known pixels of another image: of the training image of the same number."""
    train = context.training_images("other_image")
    truth = train.truth(torch.tensor([row[0] for row in context.draws.rows]) % len(train))
    if truth is None:
        raise NotApplicable("the important pixels of this task are not known")
    return truth[:, None].to(x)


Against = Literal["deletion", "insertion", "road", "evaluator"]
CELLS = 4
"""Cells of a side of the image that a greedy map removes or shows whole."""
STEPS = 300
"""Of the training of the network that stands for an evaluator."""


def pixels_of(cells: Tensor, size: Sequence[int]) -> Tensor:
    """1 on the pixels of some cells, (n, h, w), from (n, cells)."""
    return cells.float()[:, grid_cells(size[0], size[1], CELLS)]


def stand_in(channels: int, classes: int, size: Sequence[int]) -> nn.Module:
    """A small network of images and masks."""
    return seeing(nn.Identity(), channels + 1, classes, size)


def prepare_greedy(model: nn.Module, context: Context, *, against: Against = "deletion", **_: Any) -> dict[str, Tensor]:
    """Against evaluators: the weights of a network that gives the answers of the model for any part of an image."""
    if against != "evaluator":
        return {}
    images, draw = context.training_images("greedy").read(slice(None)), torch.Generator().manual_seed(0)
    with torch.no_grad():
        answers = model(images).softmax(1)
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(0)
        network = stand_in(images.shape[1], answers.shape[1], images.shape[2:])
        optimiser = torch.optim.Adam(network.parameters(), 3e-3)
        for _step in range(STEPS):
            rows = torch.randint(len(images), (64,), generator=draw)
            cells = torch.rand(64, CELLS**2, generator=draw) < torch.rand(64, 1, generator=draw)
            removed = pixels_of(cells, images.shape[2:])
            shown = torch.where(removed[:, None] > 0, context.colour(images), images[rows])
            loss = F.cross_entropy(network(torch.cat([shown, removed[:, None]], 1)), answers[rows].clone())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return {name: value.detach() for name, value in network.state_dict().items()}


@extend.estimator(passes=136, channels=False, prepare=prepare_greedy, needs="training images")
def greedy(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    state: Mapping[str, Tensor],
    *,
    against: Against = "deletion",
) -> RawMaps:
    """In each step the cell of a 4×4 grid whose removal lowers the probability most, or whose showing raises it most.

    Removed pixels have the mean colour; against `road` its fill, without noise. Against evaluators the probability is
    that of a network of its own, trained with random masks to give the answers of the model.
    """
    size = x.shape[2:]
    if against == "evaluator":
        network = stand_in(x.shape[1], len(state["9.bias"]), size).eval()
        network.load_state_dict(dict(state))

    def probability(removed: Tensor) -> Tensor:
        if against == "road":
            scores = model(fill(x, removed > 0, "linear(noise=0)", value=context.mean))
        else:
            shown = torch.where(removed[:, None] > 0, context.colour(x), x)
            scores = network(torch.cat([shown, removed[:, None]], 1)) if against == "evaluator" else model(shown)
        return scores.softmax(1).gather(1, target[:, None])[:, 0].detach()

    shows, rows = against == "insertion", torch.arange(len(x))
    chosen, maps = torch.zeros(len(x), CELLS**2, dtype=torch.bool), torch.zeros(len(x), *size)
    for step in range(CELLS**2):
        gain = torch.full(chosen.shape, -torch.inf)
        for cell in range(CELLS**2):
            changed = chosen.clone()
            changed[:, cell] = True
            pixels = pixels_of(changed, size)
            value = probability(1 - pixels) if shows else -probability(pixels)
            gain[:, cell] = torch.where(chosen[:, cell], -torch.inf, value)
        best = gain.argmax(1)
        chosen[rows, best] = True
        maps += (CELLS**2 - step) * pixels_of(F.one_hot(best, CELLS**2), size)
    return maps[:, None]


DEVELOPMENT = (
    ("board_mark(used=mark)", "sees_mark", ()),
    ("board_mark(used=bar)", "sees_all_but_mark", ()),
    ("board_colour(used=red)", "sees_channel", ()),
    ("board_stripes", "additive", (0.5, 0.3, 0.2)),
    ("hand-set(rule=and, train=512, test=48)", "hand-set(rule=and)", ()),
)
"""Task, model, and the weights of its parts where they are not alike."""
