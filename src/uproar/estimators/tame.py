"""TAME: an attention branch trained on the features of a frozen network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from uproar.batches import spans
from uproar.data.task import Split
from uproar.estimators.class_scores import class_scores
from uproar.estimators.layers import (
    FeatureMap,
    LayerName,
    captured,
    channels_last,
    named_feature_map,
    pyramid,
    pyramid_layers,
)
from uproar.estimators.registry import Context, estimator
from uproar.models.forward import borrowed, device_of, forward
from uproar.models.output_kind import predicted_target, target_loss
from uproar.seeds import generator, key
from uproar.types import WITH_PROBABILITIES, Images, Labels, RawMaps

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=2)]

LARGEST = 56
"""Side of the largest attention map; finer feature maps are brought down to it."""


class Branch(nn.Module):
    """Attention maps before the sigmoid, one per class, from feature maps of one to three layers."""

    def __init__(self, channels: list[int], classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, c, 1) for c in channels)
        self.bns = nn.ModuleList(nn.BatchNorm2d(c) for c in channels)
        self.fuser = nn.Conv2d(sum(channels), classes, 1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        size = [min(side, LARGEST) for side in maps[0].shape[2:]]
        layers = zip(maps, self.convs, self.bns, strict=True)
        seen = [F.relu(norm(conv(a)) + a) for a, conv, norm in layers]
        seen = [F.interpolate(a, size=size, mode="bilinear", align_corners=False) for a in seen]
        fused: Tensor = self.fuser(torch.cat(seen, 1))
        return fused


def prepare_tame(
    model: nn.Module, context: Context, *, layers: tuple[str, ...] | None = None, **options: Any
) -> dict[str, Tensor]:
    """The places of the layers among the model's modules, and the weights of the trained branch."""
    train = context.training_images("tame")
    with borrowed(model):
        probe = train.read(slice(0, 2)).to(device_of(model))
        maps = [named_feature_map(model, probe, name) for name in layers or ()] or pyramid(model, probe, 3)
        maps.sort(key=lambda each: -each.shape[1] * each.shape[2])  # finest first
        branch = train_branch(model, maps, train, context.draws.seed, **options)
    names = [name for name, _ in model.named_modules()]
    places = torch.tensor([names.index(each.name) for each in maps])
    return {"places": places, **branch.state_dict()}


@estimator(
    passes=0.5,
    channels=False,
    softmax=True,
    kinds=WITH_PROBABILITIES,
    prepare=prepare_tame,
    default_layers=pyramid_layers,
    needs="convolutions; training images",
    paper="Ntrougkas et al. 2022",
    formula="attention map of the class, before the sigmoid",
    fails="shows what a trained branch learned; the class predicted for black needs no pixels",
)
def tame(
    model: nn.Module,
    x: Images,
    target: Labels,
    state: Mapping[str, Tensor],
    *,
    layers: tuple[LayerName, ...] | None = None,
    epochs: Annotated[int, Field(ge=1)] = 4,
    lr: Positive = 0.005,
    batch: Count = 32,
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9,
    weight_decay: NonNegative = 5e-4,
    ce: NonNegative = 1.5,
    area: NonNegative = 2.0,
    variation: NonNegative = 0.01,
    images: Count = 4096,
) -> RawMaps:
    """Attention of a branch that learned, on training images, which pixels keep the network's prediction.

    Up to three layers are used, unless named: the deepest feature map of each of the three coarsest resolutions. The
    branch learns to mask images so that the frozen network still predicts the same (`ce`), with small (`area`) and
    smooth (`variation`) masks. The authors train on 1.3 million images with `epochs=8, lr=5e-5` (VGG-16) or `epochs=4,
    lr=1e-4` (ResNet-50); the default rate is larger because small data sets give few steps. The losses of an image see
    the mask of its own class; the released code mixes in those of all classes in the batch.
    """
    modules = list(model.modules())
    with captured(*[modules[i] for i in state["places"].tolist()]) as features:
        class_scores(model, channels_last(x), target)
    attention = select_class(_restored(state).to(x.device)(features()), target)
    return F.interpolate(attention, size=x.shape[2:], mode="bilinear", align_corners=False)


def select_class(maps: Tensor, target: Labels) -> Tensor:
    """Each image's map of its own class, (n, 1, h, w)."""
    return maps[torch.arange(len(maps)), target][:, None]


def train_branch(
    model: nn.Module,
    maps: list[FeatureMap],
    train: Split,
    seed: int,
    *,
    epochs: int,
    lr: float,
    batch: int,
    momentum: float,
    weight_decay: float,
    ce: float,
    area: float,
    variation: float,
    images: int,
) -> Branch:
    """A branch trained to keep the frozen model's own predictions, in evaluation mode."""
    modules = [each.module for each in maps]
    with torch.no_grad():
        classes = forward(model, train.read(slice(0, 2)).to(device_of(model))).shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "tame initialisation"))
        branch = Branch([each.shape[0] for each in maps], classes).train().to(device_of(model))
    used = torch.linspace(0, len(train) - 1, min(images, len(train))).long()
    batches = list(_batches(len(used), batch, epochs, seed))
    # Nesterov momentum on one cycle; biases learn twice as fast and do not decay
    named = list(branch.named_parameters())
    groups = [
        {"params": [p for name, p in named if not name.endswith("bias")], "weight_decay": weight_decay},
        {"params": [p for name, p in named if name.endswith("bias")], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=True)
    rates = [lr, 2 * lr]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rates, total_steps=len(batches), cycle_momentum=False)
    for rows in batches:
        x = train.read(used[rows]).to(device_of(model))
        with torch.no_grad(), captured(*modules) as features:
            labels = predicted_target(forward(model, x))
        with torch.enable_grad():
            masks = select_class(branch(features()), labels).sigmoid()
            fine = F.interpolate(masks, size=x.shape[2:], mode="bilinear", align_corners=False)
            parts = losses(forward(model, x * fine), labels, masks)
            loss = ce * parts[0] + area * parts[1] + variation * parts[2]
            optimiser.zero_grad()
            loss.backward()
        optimiser.step()
        schedule.step()
    return branch.eval().requires_grad_(False)


def losses(scores: Tensor, labels: Labels, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of the masked images, size of the masks, and their unevenness (border pixels count as edges)."""
    area = (masks + 0.0005).pow(0.3).mean()
    steps = masks.diff(dim=2).square().sum() + masks.diff(dim=3).square().sum()
    border = masks[:, :, [0, -1]].square().sum() + masks[..., [0, -1]].square().sum()
    return target_loss(scores, labels, "mean"), area, (steps + 0.3 * border) / (2 * len(masks))


def _restored(state: Mapping[str, Tensor]) -> Branch:
    weights = {name: value for name, value in state.items() if name != "places"}
    channels = [len(weights[f"convs.{i}.weight"]) for i in range(len(state["places"]))]
    with torch.device("meta"):
        branch = Branch(channels, len(weights["fuser.weight"]))
    branch.load_state_dict(weights, assign=True)
    return branch.eval().requires_grad_(False)


def _batches(n: int, size: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Full batches in a new random order in every epoch; one batch of all where there are fewer images."""
    order = generator(seed, "tame batches")
    for _ in range(epochs):
        rows = torch.randperm(n, generator=order)
        yield from (rows[part] for part in spans(max(n - n % size, min(n, size)), size))
