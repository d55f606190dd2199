"""Images in [0, 1] become what a network was made for, as its first step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.errors import BadInput, BadOption

Normalisation = Literal["auto", "task", "imagenet", "half", "caffe", "none"]
"""auto       the task's; for weights from a file that does not say, what such weights are published for
task       mean and standard deviation of the training images
imagenet   those of ImageNet, as torchvision's weights expect
half       to [-1, 1]
caffe      blue first, 0 to 255 less ImageNet's mean, as weights from Caffe expect
none       as they are"""

Colours = tuple[tuple[float, ...], tuple[float, ...]]

IMAGENET: Colours = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
FIXED: dict[str, Colours] = {
    "imagenet": IMAGENET,
    "half": ((0.5,), (0.5,)),
    "caffe": ((123.68 / 255, 116.779 / 255, 103.939 / 255), (1 / 255,)),
    "none": ((0.0,), (1.0,)),
}


class Normalise(nn.Module):
    """Pixels in [0, 1] to zero mean and unit variance of the training images."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.view(1, -1, 1, 1).clone())
        # a channel that never varies is left as it is instead of blown up
        self.register_buffer("std", torch.where(std > 1e-6, std, 1.0).view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        if x.requires_grad or x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
            return (x - self.mean) / self.std
        # channels last, one colour after the other would be a loop over very few: whole images are faster
        n, c, h, w = x.shape
        mean, std = (colours.flatten().repeat(h * w) for colours in (self.mean, self.std))
        pixels = x.permute(0, 2, 3, 1).reshape(n, -1)
        return (pixels - mean).div_(std).view(n, h, w, c).permute(0, 3, 1, 2)


class NetworkNormalise(Normalise):
    """The normalisation of a network that may get published weights, which do not carry theirs.

    `published` is what such weights were trained with.
    """

    def __init__(self, choice: Normalisation, mean: Tensor, std: Tensor, published: Colours = IMAGENET) -> None:
        of_task = choice in ("auto", "task")
        super().__init__(*((mean, std) if of_task else _colours(FIXED[choice], choice, len(mean))))
        self.blue_first = choice == "caffe"
        self.published = published if choice == "auto" else None

    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        return x.flip(1) if self.blue_first else x

    def use_published(self) -> None:
        """Be what published weights expect, when a file of weights does not say and nobody else did."""
        channels = self.mean.shape[1]
        if self.published is not None and len(self.published[0]) in (1, channels):
            mean, std = _colours(self.published, "auto", channels)
            self.mean.copy_(mean.view(1, -1, 1, 1))
            self.std.copy_(std.view(1, -1, 1, 1))


def _colours(pair: Colours, choice: str, channels: int) -> tuple[Tensor, Tensor]:
    mean, std = pair
    if len(mean) not in (1, channels):
        raise BadOption(
            f"normalise={choice} is for images with {len(mean)} channels, but these have {channels}; "
            "take normalise=task."
        )
    return torch.tensor(mean).expand(channels).clone(), torch.tensor(std).expand(channels).clone()


# preprocessing that a network brings along, found and applied inside it, so that images stay in [0, 1] outside
# Hugging Face keeps it in an image processor, timm in the `pretrained_cfg` of the network.


class Preprocess(nn.Module):
    """Images in [0, 1] become what a network was trained with."""

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        mean: tuple[float, ...] = (0.0,),
        std: tuple[float, ...] = (1.0,),
        size: tuple[int, int] | None = None,
        scale: float = 1.0,
    ) -> None:
        """`size` are the rows and columns that the network is made for, where it takes no others; `scale` is what
        pixels in [0, 1] are multiplied with first: 255 where the network was trained on bytes.
        """
        super().__init__()
        self.size, self.scale = size, scale
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def state(self) -> tuple[list[float], list[float], tuple[int, int] | None, float]:
        """What two that do the same share."""
        return self.mean.flatten().tolist(), self.std.flatten().tolist(), self.size, self.scale

    @classmethod
    def of_processor(cls, processor: Any) -> Preprocess:
        """That of a Hugging Face image processor, or of the dictionary in its preprocessor_config.json."""
        facts = processor if isinstance(processor, Mapping) else processor.to_dict()
        normal = facts.get("do_normalize", True) and facts.get("image_mean") is not None
        mean, std = (_numbers(facts[name]) for name in ("image_mean", "image_std")) if normal else ((0.0,), (1.0,))
        # a processor multiplies bytes with its factor
        factor = facts.get("rescale_factor") or 1 / 255
        scale = 255 * factor if facts.get("do_rescale", True) else 255.0
        return cls(mean, std, _size(facts) if facts.get("do_resize", True) else None, scale)

    @classmethod
    def of_timm(cls, network: nn.Module) -> Preprocess:
        """That of a network of timm; it is resized to only where the network takes no other size."""
        facts = getattr(network, "pretrained_cfg", None) or {}
        size = facts.get("input_size", (3, 0, 0))[1:] if facts.get("fixed_input_size") else None
        return cls(_numbers(facts.get("mean", 0.0)), _numbers(facts.get("std", 1.0)), size and (size[0], size[1]))

    def forward(self, x: Tensor) -> Tensor:
        if self.size is not None and x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", align_corners=False, antialias=True)
        return (x * self.scale - self.mean) / self.std


def preprocessed(network: nn.Module, processor: Any = None) -> nn.Module:
    """The network as one that takes images in [0, 1] of any size that it can be given; its layers keep their names.

    `processor` is the network's Hugging Face image processor; without one, the preprocessing is that in timm's
    `pretrained_cfg`. The network itself is changed, and given back: a step named `normalise` comes first.
    """
    if processor is not None:
        step = Preprocess.of_processor(processor)
    elif getattr(network, "pretrained_cfg", None):
        step = Preprocess.of_timm(network)
    else:
        raise BadInput(
            f"{type(network).__name__} does not say how its images are preprocessed: give its image processor, "
            "processor=AutoImageProcessor.from_pretrained(…)."
        )
    if "normalise" in dict(network.named_children()):
        raise BadInput(f"{type(network).__name__} has a step named normalise already: it preprocesses its images.")
    return with_first_step(network, step)


def with_first_step(network: nn.Module, step: nn.Module) -> nn.Module:
    """The network with a step named `normalise` before it; its weights keep their names."""
    if isinstance(network, nn.Sequential):
        return nn.Sequential(OrderedDict(normalise=step, **dict(network.named_children())))
    network.add_module("normalise", step)
    network.register_forward_pre_hook(_normalised, with_kwargs=True)
    return network


def _normalised(network: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    first: Any = network.get_submodule("normalise")
    return (first(inputs[0]), *inputs[1:]), named


@contextmanager
def normalised_input(network: nn.Module, step: nn.Module) -> Iterator[nn.Module]:
    """Inside, the network with a first step, which is taken off again."""
    if "normalise" in dict(network.named_children()):
        raise BadInput(f"{type(network).__name__} has a step named normalise already: give no normalise=.")
    hooks = set(network._forward_pre_hooks)
    stepped = with_first_step(network, step)
    try:
        yield stepped
    finally:
        if stepped is network:
            del network._modules["normalise"]
            for hook in set(network._forward_pre_hooks) - hooks:
                del network._forward_pre_hooks[hook]
                network._forward_pre_hooks_with_kwargs.pop(hook, None)


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(float(number) for number in value) if isinstance(value, Sequence) else (float(value),)


def _size(facts: Mapping[str, Any]) -> tuple[int, int] | None:
    """The size that a processor crops or resizes to."""
    size = (facts.get("crop_size") if facts.get("do_center_crop") else None) or facts.get("size") or {}
    if isinstance(size, int):
        return size, size
    if "height" in size and "width" in size:
        return int(size["height"]), int(size["width"])
    return (int(size["shortest_edge"]),) * 2 if "shortest_edge" in size else None
