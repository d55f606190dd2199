"""Networks folded for evaluation: the same scores, without batch norms; what cannot be folded stays."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uproar.models.copies import folded
from uproar.models.normalise import Normalise
from uproar.models.small import cnn_small, resnet_small

MEAN, STD = torch.tensor([0.3, 0.5]), torch.tensor([0.2, 0.4])


def trained(network: nn.Module) -> nn.Module:
    """A network whose batch norms have seen images."""
    draw = torch.Generator().manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 2, generator=draw)
            nn.init.normal_(part.bias, generator=draw)
    network.train()(torch.rand(16, 2, 8, 8, generator=draw))
    return network


@pytest.mark.parametrize("make", [cnn_small, resnet_small])
def test_a_folded_network_has_the_same_scores_and_no_batch_norms(make):
    network = trained(make((2, 8, 8), 3, MEAN, STD))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    fold, x = folded(network), torch.rand(5, 2, 8, 8)
    assert not fold.training and network.training
    assert not any(isinstance(part, nn.BatchNorm2d) for part in fold.modules())
    with torch.no_grad():
        torch.testing.assert_close(fold(x), network.eval()(x), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_batch_norm_is_left_where_nothing_says_what_comes_before_it():
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.first = nn.BatchNorm2d(4), nn.Conv2d(2, 4, 3)

        def forward(self, x):
            return self.norm(self.first(x).relu()).mean((2, 3))

    network, x = trained(Apart()).eval(), torch.rand(3, 2, 8, 8)
    with torch.no_grad():
        assert torch.equal(folded(network)(x), network(x))


def test_normalising_has_the_same_bits_in_either_layout():
    normalise, x = Normalise(MEAN, STD), torch.rand(5, 2, 6, 8)
    last = normalise(x.contiguous(memory_format=torch.channels_last))
    assert torch.equal(normalise(x), last) and last.is_contiguous(memory_format=torch.channels_last)
