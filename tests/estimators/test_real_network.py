"""Every estimator on a real ResNet-20 with its published CIFAR-10 weights, where these are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.closeness import alike
from tests.estimators.test_contract import MAPS
from uproar import explain
from uproar.errors import NotApplicable
from uproar.models.weights import load_weights

WEIGHTS = sorted((Path(__file__).parents[3] / "shared" / "data" / "cifar10-resnets").glob("*20*"))
pytestmark = pytest.mark.skipif(not WEIGHTS, reason="no ResNet-20 weights beside this checkout")


class Basic(nn.Module):
    """Two convolutions and a shortcut that skips every other pixel and pads channels with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.stride > 1:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(out + x)


class ResNet20(nn.Module):
    """Three stages of three blocks; normalises inside."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        sizes = [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(Basic(a, b, s), Basic(b, b, 1), Basic(b, b, 1)) for a, b, s in sizes
        )
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        mean, std = x.new_tensor([0.485, 0.456, 0.406]), x.new_tensor([0.229, 0.224, 0.225])
        x = (x - mean.view(1, 3, 1, 1)) / std.view(1, 3, 1, 1)
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        x = F.avg_pool2d(x, x.shape[3])
        return self.linear(x.view(len(x), -1))


@pytest.fixture(scope="module")
def net():
    return load_weights(ResNet20(), WEIGHTS[0]).eval()


@pytest.fixture(scope="module")
def images():
    noise = torch.rand(12, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    return F.interpolate(noise, (16, 16), mode="bicubic").clamp(0, 1)


@pytest.mark.parametrize("name", MAPS)
def test_a_real_network_gets_finite_maps_that_do_not_depend_on_the_batch(name, net, images):
    around = {"train": images[4:], "truth": torch.ones(3, 16, 16).bool()}
    try:
        maps = explain(net, images[:3], name, **around)
    except NotApplicable as reason:
        assert name.startswith("lrp") or "attention is needed" in str(reason), (
            f"{name} should work on a ResNet: {reason}"
        )
        return
    assert torch.isfinite(maps).all()
    order = [2, 0, 1]
    again = explain(net, images[order], name, index=order, batch_size=1, **around)
    assert alike(maps[order], again, 5e-5)  # small differences of large scores lose digits
