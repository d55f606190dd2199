"""Images in [0, 1] become what a network was made for, as its first step."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from uproar.errors import BadOption

Normalisation = Literal["auto", "task", "imagenet", "half", "caffe", "none"]
"""auto       the task's; for weights from a file that does not say, what such weights are published for
task       mean and standard deviation of the training images
imagenet   those of ImageNet, as torchvision's weights expect
half       to [-1, 1]
caffe      blue first, 0 to 255 less ImageNet's mean, as weights from Caffe expect
none       as they are"""

Colours = tuple[tuple[float, ...], tuple[float, ...]]

IMAGENET: Colours = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_FIXED: dict[str, Colours] = {
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
        return self._by_image(x)

    def _by_image(self, x: Tensor) -> Tensor:
        """The same for images laid out channels last: one colour after the other would be a loop over very few."""
        n, c, h, w = x.shape
        mean, std = (colours.flatten().repeat(h * w) for colours in (self.mean, self.std))
        pixels = x.permute(0, 2, 3, 1).reshape(n, -1)
        return (pixels - mean).div_(std).view(n, h, w, c).permute(0, 3, 1, 2)


class NetworkNormalise(Normalise):
    """The normalisation of a network that may get published weights, which do not carry theirs.

    `published` is what such weights were trained with.
    """

    def __init__(self, choice: Normalisation, mean: Tensor, std: Tensor, published: Colours = IMAGENET) -> None:
        own = choice in ("auto", "task")
        super().__init__(*((mean, std) if own else _colours(_FIXED[choice], choice, len(mean))))
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
