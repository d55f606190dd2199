"""Scenes and networks of the board: images with two cues, and networks that by construction can use only one of them.

Nothing is declared here: `board_suite.py` and `board_heldout.py` make tasks and models of these parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.data.task import Split, Task
from uproar.errors import NotApplicable
from uproar.seeds import generator

SIZE, CELL = 16, 4
"""Pixels of the side of an image, and of one of its 4×4 cells."""
AGREE = 0.9
"""The share of images in which both cues tell the same class."""
CLASSES = ("lying", "standing")

Painter = Callable[[Tensor, Tensor, torch.Generator], Tensor]
"""Paints a cue of each image's class into images (n, c, h, w), in place; the pixels that it took, (n, h, w) bool."""


def two_cues(name: str, channels: int, cues: Sequence[Painter], used: int, train: int, test: int) -> Task:
    """A task of two cues; the label is that of the first, and the known pixels are those of the cue `used`."""
    splits = []
    for split, n in (("train", train), ("test", test)):
        draw = generator("board", name, split)
        x = 0.25 + 0.1 * torch.rand(n, channels, SIZE, SIZE, generator=draw)
        labels = torch.arange(n) % 2
        agrees = torch.rand(n, generator=draw) < AGREE
        classes = (labels, torch.where(agrees, labels, 1 - labels))
        masks = [paint(x, class_of_cue, draw) for paint, class_of_cue in zip(cues, classes, strict=True)]
        splits.append(Split(split, x.clamp(0, 1), labels, masks[used]))
    return Task(name, splits[0], splits[1], CLASSES)


def bar(channel: int | slice, top: int, length: int = 6, width: int = 2) -> Painter:
    """A bar that lies or stands anywhere from the row `top` on, bright or dark by chance."""

    def paint(x: Tensor, classes: Tensor, draw: torch.Generator) -> Tensor:
        mask = torch.zeros(len(x), SIZE, SIZE, dtype=torch.bool)
        for i, standing in enumerate(classes.tolist()):
            height, wide = (length, width) if standing else (width, length)
            row = top + int(torch.randint(SIZE - top - height + 1, (), generator=draw))
            column = int(torch.randint(SIZE - wide + 1, (), generator=draw))
            level = 0.9 if torch.rand((), generator=draw) < 0.5 else 0.0
            x[i, channel, row : row + height, column : column + wide] = level
            mask[i, row : row + height, column : column + wide] = True
        return mask

    return paint


def stripes(rows: int, columns: int, row: int | None = None, column: int | None = None, size: float = 0.15) -> Painter:
    """Fine stripes along or across on so many pixels, in cells of the grid; at a random cell unless one is named.

    They change no mean of a 4×4 cell.
    """

    def paint(x: Tensor, classes: Tensor, draw: torch.Generator) -> Tensor:
        mask = torch.zeros(len(x), SIZE, SIZE, dtype=torch.bool)
        signs = 1.0 - 2 * (torch.arange(SIZE) % 2)
        for i, standing in enumerate(classes.tolist()):
            drawn = torch.randint(SIZE // CELL, (2,), generator=draw).tolist()
            first = CELL * drawn[0] if row is None else row
            left = CELL * drawn[1] if column is None else column
            cell = slice(first, first + rows), slice(left, left + columns)
            pattern = signs[None, :columns] if standing else signs[:rows, None]
            x[i, :, cell[0], cell[1]] += size * pattern
            mask[i, cell[0], cell[1]] = True
        return mask

    return paint


def blocks(x: Tensor, classes: Tensor, draw: torch.Generator) -> Tensor:
    """Two whole cells side by side or one above the other, brighter or darker by chance."""
    mask = torch.zeros(len(x), SIZE, SIZE, dtype=torch.bool)
    for i, standing in enumerate(classes.tolist()):
        height, wide = (2 * CELL, CELL) if standing else (CELL, 2 * CELL)
        row, column = (
            CELL * int(torch.randint((SIZE - side) // CELL + 1, (), generator=draw)) for side in (height, wide)
        )
        level = 0.35 if torch.rand((), generator=draw) < 0.5 else -0.2
        x[i, :, row : row + height, column : column + wide] += level
        mask[i, row : row + height, column : column + wide] = True
    return mask


# what a network is shown


class Region(nn.Module):
    """The pixels of a region; all others are one grey."""

    def __init__(self, seen: Tensor) -> None:
        super().__init__()
        self.seen: Tensor
        self.register_buffer("seen", seen.float())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.seen + 0.3 * (1 - self.seen)


class Channel(nn.Module):
    """One colour channel."""

    def __init__(self, channel: int) -> None:
        super().__init__()
        self.channel = channel

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.channel : self.channel + 1]


class Band(nn.Module):
    """The means of 4×4 cells, or what deviates from them: low or high spatial frequencies."""

    def __init__(self, fine: bool) -> None:
        super().__init__()
        self.fine = fine

    def forward(self, x: Tensor) -> Tensor:
        means = F.interpolate(F.avg_pool2d(x, CELL), scale_factor=CELL)
        return x - means if self.fine else means


def seeing(view: nn.Module, channels: int = 1, classes: int = 2, size: Sequence[int] = (SIZE, SIZE)) -> nn.Module:
    """A small network behind a view of the images: what the view does not let through changes no output."""
    layers: list[nn.Module] = [view, nn.BatchNorm2d(channels)]
    for inputs, outputs in ((channels, 16), (16, 32)):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * (size[0] // 4) * (size[1] // 4), classes))


# a network that adds up known shares

PLACES = (5, 2, 11, 12)
"""The cells that an additive network reads, in the order of its weights."""
GAIN = 6.0
BENDS = ((0.0, 1.0), (0.5, -0.7))
"""Where the answer to a cell bends, and by how much its slope changes: it rises by 1, beyond ½ by 0.3."""


def additive_network(weights: Sequence[float], size: float) -> nn.Sequential:
    """Adds up how far the stripes of each cell of PLACES stand rather than lie, with these weights.

    `size` is that of the stripes: with it the answer to a cell is ±0.65 times its weight.
    """
    signs = 1.0 - 2 * (torch.arange(CELL) % 2)
    pattern = (signs[None, :].expand(CELL, CELL) - signs[:, None].expand(CELL, CELL)) / CELL**2 / size
    convolution = nn.Conv2d(1, 2 * len(BENDS), CELL, CELL)
    convolution.weight.data = torch.stack([side * pattern for side in (1, -1) for _ in BENDS])[:, None]
    convolution.bias.data = torch.tensor([-bend for _ in (1, -1) for bend, _ in BENDS])  # type: ignore[union-attr]
    grid = (SIZE // CELL) ** 2
    linear = nn.Linear(2 * len(BENDS) * grid, 2)
    linear.weight.data.zero_()
    linear.bias.data.zero_()
    for cell, weight in zip(PLACES, weights, strict=False):
        for unit, (side, slope) in enumerate((side, slope) for side in (1, -1) for _, slope in BENDS):
            linear.weight.data[1, unit * grid + cell] = GAIN * weight * side * slope
    return nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), linear).requires_grad_(False)


def striped_cells(name: str, parts: int, vary: bool, size: float, train: int, test: int) -> Task:
    """Stripes in the first cells of PLACES tell the class, all the same one; those of half of the others tell nothing.

    Where they `vary`, each is between a third and all as strong.
    """
    splits = []
    for split, n in (("train", train), ("test", test)):
        draw = generator("board", name, split)
        x = 0.45 + 0.1 * torch.rand(n, 1, SIZE, SIZE, generator=draw)
        labels, mask = torch.arange(n) % 2, torch.zeros(n, SIZE, SIZE, dtype=torch.bool)
        for cell in range((SIZE // CELL) ** 2):
            tells = cell in PLACES[:parts]
            classes = labels if tells else torch.randint(2, (n,), generator=draw)
            strength = 1 / 3 + 2 / 3 * torch.rand(n, generator=draw) if vary else torch.ones(n)
            if not tells:
                strength = strength * (torch.rand(n, generator=draw) < 0.5)
            row, column = CELL * (cell // 4), CELL * (cell % 4)
            painted = torch.zeros_like(x)
            marked = stripes(CELL, CELL, row, column, size)(painted, classes, draw)
            x += strength[:, None, None, None] * painted
            mask |= marked & torch.tensor(tells)
        splits.append(Split(split, x.clamp(0, 1), labels, mask))
    return Task(name, splits[0], splits[1], CLASSES)


def shares_of_use(x: Tensor, truth: Tensor | None, weights: Sequence[float], size: float = 0.25) -> Tensor:
    """The known share of use of every pixel, (n, h, w); those of an image sum to 1.

    Without weights all known pixels are used alike; with weights, a cell as much as it adds to the network's answer.
    """
    if truth is None:
        raise NotApplicable("the pixels that the network can use are not known")
    use = truth.to(x).clone()
    if weights:
        network = additive_network((1.0,) * len(PLACES), size)
        hidden = network[1](network[0](x)).flatten(2)
        slopes = torch.tensor([side * slope for side in (1, -1) for _, slope in BENDS]).to(x)
        added = (hidden * slopes[:, None]).sum(1).abs()
        for cell, weight in zip(PLACES, weights, strict=False):
            row, column = CELL * (cell // 4), CELL * (cell % 4)
            use[:, row : row + CELL, column : column + CELL] *= weight * added[:, cell, None, None]
    return use / use.sum((1, 2), keepdim=True)
