"""The known truth made worse on purpose, step by step: maps whose order of quality is known.

Every kind starts from the map that is 1 on the important pixels and 0 elsewhere, and all levels of a kind share their
random draws, so that what is wrong at one level is wrong at all higher ones. A metric or protocol that judges maps must
put lower levels above higher ones; `uproar check` asks which do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, get_args

import torch
from pydantic import Field
from torch import Tensor, nn

from uproar.errors import NotApplicable
from uproar.estimators.control import distance_from_class_place, sobel
from uproar.estimators.postprocess import gaussian
from uproar.estimators.registry import Context, estimator
from uproar.seeds import Draws
from uproar.types import Images, Labels, RawMaps

Kind = Literal["noise", "shift", "blur", "missing", "extra", "sign", "encoder", "edges", "contrast", "leak"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELS = (0.25, 0.5, 0.75)
"""The levels that are asked about, after the truth itself."""


@estimator(
    passes=0,
    model=False,
    channels=False,
    informed=True,
    formula="1 on the important pixels, 0 elsewhere, made worse by `level`",
    paper="after Hedström et al. 2023 and Zheng et al. 2025",
    needs="a task whose important pixels are known",
    fails="on purpose: worse with every level",
)
def degraded(
    model: nn.Module,
    x: Images,
    target: Labels,
    context: Context,
    *,
    kind: Kind = "noise",
    level: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> RawMaps:
    """The known important pixels, degraded: level 0 is the truth, higher levels of a kind are worse.

    noise: Gaussian noise, 2·level standard deviations. blur: Gaussian filter, σ = level·side/4. missing: a share
    `level` of the pixels lacks. extra: a share level² of all others is marked too. sign: a share of the pixels has −1.
    shift, encoder, edges: a share is replaced by as many others: a quarter of the side away, at a place that tells the
    class, on the strongest edges. contrast: all others get the value `level`; the order stays right. leak: nothing is
    missing, but a share of as many others is marked too, at a place that tells the class.
    """
    if context.truth is None:
        raise NotApplicable("the important pixels of this task are not known")
    truth = context.truth.float().cpu()  # as the draws are
    if level == 0:
        return truth[:, None].to(x)
    return _DEGRADE[kind](truth, level, context.draws, x, target.cpu())[:, None].to(x)


def _noise(truth: Tensor, level: float, draws: Draws, *_: Tensor) -> Tensor:
    return truth + 2 * level * draws.normal("degraded noise", *truth.shape[1:])


def _shift(truth: Tensor, level: float, draws: Draws, *_: Tensor) -> Tensor:
    """As many pixels as are dropped, from a copy moved on the torus: up, down, left or right by chance."""
    direction = (draws.uniform("degraded direction") * 4).long().tolist()
    moved = []
    for one, way in zip(truth, direction, strict=True):
        axis, sign = way // 2, 1 - 2 * (way % 2)
        moved.append(one.roll(sign * max(1, round(one.shape[axis] / 4)), axis))
    return _replaced(truth, level, draws, draws.uniform("degraded moved", *truth.shape[1:]) - torch.stack(moved))


def _blur(truth: Tensor, level: float, *_: object) -> Tensor:
    return gaussian(truth, sigma=level * min(truth.shape[1:]) / 4)


def _missing(truth: Tensor, level: float, draws: Draws, *_: Tensor) -> Tensor:
    return truth * ~_chosen(truth, level, draws)


def _extra(truth: Tensor, level: float, draws: Draws, *_: Tensor) -> Tensor:
    others = draws.uniform("degraded extra", *truth.shape[1:]).masked_fill(truth > 0, torch.inf)
    return truth + _first(others, (level**2 * (1 - truth).sum((1, 2))).round().long())


def _sign(truth: Tensor, level: float, draws: Draws, *_: Tensor) -> Tensor:
    return torch.where(_chosen(truth, level, draws), -truth, truth)


def _encoder(truth: Tensor, level: float, draws: Draws, x: Tensor, target: Tensor) -> Tensor:
    """As many pixels as are dropped, nearest to the place of the class on the edge."""
    h, w = truth.shape[1:]
    distance = distance_from_class_place(h, w, target).view_as(truth)
    return _replaced(truth, level, draws, distance)


def _leak(truth: Tensor, level: float, draws: Draws, x: Tensor, target: Tensor) -> Tensor:
    """All of the truth, and others nearest to the place of the class on the edge."""
    h, w = truth.shape[1:]
    others = distance_from_class_place(h, w, target).view_as(truth).to(truth).masked_fill(truth > 0, torch.inf)
    return truth + _first(others, (level * truth.sum((1, 2))).round().long())


def _edges(truth: Tensor, level: float, draws: Draws, x: Tensor, target: Tensor) -> Tensor:
    """As many pixels as are dropped, with the strongest edges."""
    return _replaced(truth, level, draws, -sobel(nn.Identity(), x, target)[:, 0].cpu())


def _contrast(truth: Tensor, level: float, *_: object) -> Tensor:
    return truth + level * (1 - truth)


_DEGRADE: dict[str, Callable[..., Tensor]] = {
    "noise": _noise,
    "shift": _shift,
    "blur": _blur,
    "missing": _missing,
    "extra": _extra,
    "sign": _sign,
    "encoder": _encoder,
    "edges": _edges,
    "contrast": _contrast,
    "leak": _leak,
}


def _replaced(truth: Tensor, level: float, draws: Draws, order: Tensor) -> Tensor:
    """A share of the important pixels dropped, and as many others marked, those with the lowest `order`."""
    dropped = _chosen(truth, level, draws)
    others = order.to(truth).masked_fill(truth > 0, torch.inf)
    return truth * ~dropped + _first(others, dropped.sum((1, 2)))


def _chosen(truth: Tensor, level: float, draws: Draws) -> Tensor:
    """A share of the important pixels by chance, bool; higher levels contain lower ones."""
    order = draws.uniform("degraded pixels", *truth.shape[1:]).masked_fill(truth == 0, torch.inf)
    return _first(order, (level * truth.sum((1, 2))).round().long()).bool()


def _first(order: Tensor, counts: Tensor) -> Tensor:
    """1 on the pixels of each image with the `counts` lowest numbers, (n, h, w)."""
    places = order.flatten(1).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    return (places < counts[:, None]).float().view_as(order)
