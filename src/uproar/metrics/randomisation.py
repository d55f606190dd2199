"""Does the map depend on what the model has learned, and on the class?

A map that stays the same when the network's weights are drawn anew shows the image, not the model. All values are
similarities between the map and the map of the copy: low is good.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.errors import CODE_ERRORS, BadInput, NotApplicable, one_line
from uproar.metrics.registry import Batch, Responses, Uses, metric
from uproar.models.borrow import device_of
from uproar.models.remote_device import unwrap_remote
from uproar.seeds import key
from uproar.types import Images, Maps

Similarity = Literal["spearman", "ssim", "cosine"]
Sign = Literal["none", "abs"]

_NEEDS = "an estimator, since maps of other models or classes are made"
_IGNORANT = "1 for a map that ignores the model, about 0 for fresh noise"


def _uses(similarity: Similarity, **_: object) -> Uses:
    return "order" if similarity == "spearman" else "values"


@metric(
    higher_is_better=False,
    low=-1,
    high=1,
    needs=_NEEDS,
    uses=_uses,
    chance=_IGNORANT,
    paper="Adebayo et al. 2018",
    formula="mean over layers l of similarity(a, a of a copy with layers from the output to l drawn anew)",
    biases="a noisy estimator passes; maps dominated by the image (edges, grad·x) fail although they use the model",
)
def randomisation(
    batch: Batch,
    *,
    order: Literal["cascading", "independent"] = "cascading",
    similarity: Similarity = "spearman",
    sign: Sign = "none",
) -> Responses:
    """Similarity of the map to maps of copies with re-initialised layers, averaged over the layers.

    `order="cascading"` draws layers anew from the output down and keeps them so: the last copy is a fresh network.
    `order="independent"` draws one layer at a time. `curve` has one similarity per layer, from the output down
    (`layers` names them); `undefined` counts those left out of the mean, where the copy's map is constant. The
    default, Spearman's rank correlation, asks whether the order of the pixels survives; the estimator gets the same
    random numbers each time.
    """
    if batch.explain is None:
        raise NotApplicable("randomisation makes maps of other models; give an estimator, not maps")
    base = _signed(batch.explain(batch.model, batch.x, batch.target, batch.draws), sign)
    curve = torch.stack(
        [
            compare(base, _signed(batch.explain(spoilt, batch.x, batch.target, batch.draws), sign), similarity)
            for spoilt in copies(batch.model, batch.x, batch.draws.seed, cascading=order == "cascading")
        ],
        1,
    )
    undefined = curve.isnan().sum(1)
    value = curve.nanmean(1)
    return {"value": value.float(), "curve": curve.float(), "undefined": undefined.float()}


@metric(
    higher_is_better=False,
    low=-1,
    high=1,
    needs=_NEEDS,
    uses=_uses,
    chance=_IGNORANT,
    paper="Sixt et al. 2020",
    formula="similarity(a of the class, a of another class drawn at random)",
    biases="classes that share evidence rightly share part of their maps",
)
def random_logit(batch: Batch, *, similarity: Similarity = "spearman", sign: Sign = "none") -> Responses:
    """Similarity of the map to the map of another class, drawn at random for each image."""
    if batch.explain is None:
        raise NotApplicable("random_logit makes maps of other classes; give an estimator, not maps")
    classes = batch.clean.shape[1]
    if classes < 2:
        raise NotApplicable("random_logit needs a model with at least two classes")
    u = batch.draws.uniform("random logit", 1)[:, 0]
    step = 1 + (u * (classes - 1)).long()
    other = (batch.target + step) % classes
    base, changed = (
        _signed(batch.explain(batch.model, batch.x, target, batch.draws), sign) for target in (batch.target, other)
    )
    return {"value": compare(base, changed, similarity).float(), "other": other}


def layers(model: nn.Module, x: Images) -> list[str]:
    """The modules that own weights, from the output to the input, in the order of a forward pass.

    A module that is never called itself, because its owner uses its weights, stands where its owner is called.
    """
    owners = [name for name, module in model.named_modules() if list(module.parameters(recurse=False))]
    called = _calls(model, x)

    def place(name: str) -> tuple[int, int]:
        owner = name
        while owner and owner not in called:
            owner = owner.rpartition(".")[0]
        return called.get(owner, 0), owners.index(name)

    return sorted(owners, key=place, reverse=True)


def copies(model: nn.Module, x: Images, seed: int, *, cascading: bool) -> Iterator[nn.Module]:
    """Copies of the model with layers drawn anew, one per layer from the output down; the model stays as it is."""
    model = unwrap_remote(model)
    names = layers(model, x[:1].to(device_of(model)))
    if not names:
        raise NotApplicable("this model has no weights to draw anew")
    spoilt = _copied(model)
    for name in names:
        if not cascading:
            spoilt = _copied(model)
        _draw_anew(spoilt.get_submodule(name), key(seed, "drawn anew", name))
        yield spoilt


def compare(a: Maps, b: Maps, similarity: Similarity) -> Tensor:
    """Similarity of maps image by image, in double precision.

    NaN where a map is not finite, or constant (cosine: all zero).
    """
    a, b = a.double(), b.double()
    known = torch.isfinite(a).flatten(1).all(1) & torch.isfinite(b).flatten(1).all(1)
    a, b = (torch.where(known[:, None, None], maps, 0) for maps in (a, b))
    if similarity == "ssim":
        value = _ssim(a, b)
    elif similarity == "cosine":
        value = _cosine(a.flatten(1), b.flatten(1))
    else:
        value = _cosine(*(_centred(_mid_ranks(maps.flatten(1))) for maps in (a, b)))
    return torch.where(known, value, math.nan)


def _signed(maps: Maps, sign: Sign) -> Tensor:
    return maps.abs() if sign == "abs" else maps


def _cosine(a: Tensor, b: Tensor) -> Tensor:
    sizes = a.square().sum(1).sqrt() * b.square().sum(1).sqrt()
    value = ((a * b).sum(1) / sizes).clamp(-1, 1)
    return torch.where(sizes > 0, value, math.nan)


def _centred(a: Tensor) -> Tensor:
    return a - a.mean(1, keepdim=True)


def _mid_ranks(a: Tensor) -> Tensor:
    """Ranks from 0; equal values share the mean of their ranks."""
    ordered = a.sort(1).values
    first = torch.searchsorted(ordered, a)
    last = torch.searchsorted(ordered, a, right=True)
    return (first + last - 1).double() / 2


def _ssim(a: Tensor, b: Tensor) -> Tensor:
    """Mean structural similarity of min-max scaled maps: 11×11 Gaussian windows (σ 1.5) inside the image.

    On images below 11 pixels the window is the largest odd one that fits.
    """
    size = min(11, *a.shape[1:])
    size -= 1 - size % 2
    steps = torch.arange(size, dtype=a.dtype) - size // 2
    line = torch.exp(-0.5 * (steps / 1.5).square())
    line = (line / line.sum())[None, None]

    def local(maps: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(maps[:, None], line[:, :, None]), line[:, :, :, None])[:, 0]

    (a, whole_a), (b, whole_b) = _unit(a), _unit(b)
    mean_a, mean_b = local(a), local(b)
    var_a, var_b = local(a * a) - mean_a**2, local(b * b) - mean_b**2
    both = local(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    top = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    value = (top / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean((1, 2))
    return torch.where(whole_a & whole_b, value, math.nan)


def _unit(a: Tensor) -> tuple[Tensor, Tensor]:
    """Maps scaled to [0, 1], and which of them are not constant."""
    low, high = a.amin((1, 2), keepdim=True), a.amax((1, 2), keepdim=True)
    varies = high > low
    return (a - low) / torch.where(varies, high - low, 1), varies.flatten()


def _calls(model: nn.Module, x: Images) -> dict[str, int]:
    """When each module is first called in a forward pass, on a copy of the model."""
    watched = _copied(model)
    called: dict[str, int] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            called.setdefault(name, len(called))

        return hook

    for name, module in watched.named_modules():
        module.register_forward_pre_hook(note(name))
    with torch.no_grad():
        watched(x[[0, 0]])
    return called


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model).eval()
    except CODE_ERRORS as error:
        raise BadInput(f"The model cannot be copied, so its weights cannot be drawn anew: {one_line(error)}") from error


def _draw_anew(module: nn.Module, seed: int) -> None:
    """Re-initialise a module's own weights in place: its `reset_parameters`, or normal with their mean and spread.

    Drawn on the CPU, so that they are the same on every device.
    """
    place = device_of(module)
    module.cpu()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
        else:
            for weights in module.parameters(recurse=False):
                spread = weights.std(correction=0) if weights.numel() > 1 else weights.abs().mean()
                weights.copy_(weights.mean() + spread * torch.randn(weights.shape).to(weights))
    module.to(place)
