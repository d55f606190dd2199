"""What a network says of an image does not depend on how many images it is shown with, on one thread."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import uproar
from uproar.models.batch_invariance import BatchInvariant


class Squeezed(nn.Module):
    """A convolution with a squeeze-and-excitation block, SiLU and a sigmoid: tensors whose sizes are not round."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(1, 9, 3), nn.Conv2d(9, 5, 1), nn.Conv2d(5, 9, 1)
        self.head = nn.Linear(9, 3)

    def forward(self, x):
        x = nn.functional.silu(self.conv(x))
        weight = self.up(nn.functional.silu(self.down(x.mean((2, 3), keepdim=True)))).sigmoid()
        return self.head((x * weight).mean((2, 3)))


class Tokens(nn.Module):
    """Rows of an image as tokens that attend to each other: hundreds of rows in a product."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.out, self.head = nn.Linear(11, 39), nn.Linear(13, 11), nn.Linear(11, 3)

    def forward(self, x):
        q, k, v = self.parts(x[:, 0]).chunk(3, -1)
        return self.head(self.out((q @ k.transpose(1, 2)).softmax(-1) @ v).mean(1))


NETWORKS = {
    "tokens": Tokens,
    "wide": lambda: nn.Sequential(nn.Flatten(), nn.Linear(121, 1024), nn.ReLU(), nn.Linear(1024, 3)),
    "squeezed": Squeezed,
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_answers_and_maps_are_the_same_for_any_batch(name):
    torch.manual_seed(0)
    model, x = NETWORKS[name](), torch.rand(66, 1, 11, 11)
    y = torch.arange(66) % 3
    asked = ["grad", "ig(steps=4)"]
    whole, maps = uproar.predict(model, x, 66), uproar.explain(model, x, asked, target=y)
    for size in (1, 2, 7, 17):
        assert torch.equal(uproar.predict(model, x, size), whole)
        result = uproar.explain(model, x, asked, target=y, batch_size=size)
        assert all(torch.equal(result[chain], maps[chain]) for chain in maps)


def test_the_numbers_are_those_of_the_layers_up_to_rounding():
    torch.manual_seed(0)
    x, linear = torch.randn(300, 7, 5), nn.Linear(5, 6)
    pixel, wide = nn.Conv2d(7, 4, 1), torch.randn(3, 7, 1, 1)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tokens = torch.randn(2, 5, 8)
    channels_last = torch.randn(3, 3, 5, 7).contiguous(memory_format=torch.channels_last)
    asked = [
        lambda: linear(x),
        lambda: x[0] @ linear.weight.T,
        lambda: x @ x.transpose(1, 2),
        lambda: tokens @ tokens.transpose(1, 2)[:, None],
        lambda: pixel(wide),
        lambda: attention(tokens, tokens, tokens)[0],
        lambda: torch.sigmoid(channels_last),
        lambda: nn.functional.elu(channels_last.clone(), inplace=True),
        lambda: x.pow(3),
    ]
    for ask in asked:
        plain = ask()
        with BatchInvariant():
            answer = ask()
        assert answer.shape == plain.shape
        torch.testing.assert_close(answer, plain)


def test_gradients_of_blocks_are_those_of_the_whole_product():
    torch.manual_seed(0)
    given = [torch.randn(size, requires_grad=True) for size in ((700, 12), (8, 12), (8,))]
    plain = torch.autograd.grad(nn.functional.linear(*given).pow(2).sum(), given)
    with BatchInvariant():
        blocks = torch.autograd.grad(nn.functional.linear(*given).pow(2).sum(), given)
    torch.testing.assert_close(blocks, plain, rtol=1e-5, atol=1e-4)


WITH_AVX2 = """
import torch
from uproar.models.batch_invariance import BatchInvariant

torch.set_num_threads(1)
for inner, width in ((64, 192), (576, 190), (512, 10)):
    layer, x = torch.nn.Linear(inner, width), torch.randn(400, inner, requires_grad=True)

    def asked(rows):
        with BatchInvariant():
            scores = layer(x[:rows])
        return scores, torch.autograd.grad(scores.sin().sum(), x)[0][:rows]

    whole = asked(400)
    for rows in (1, 19, 33, 97, 300):
        assert all(torch.equal(part, all_rows[:rows]) for part, all_rows in zip(asked(rows), whole)), (inner, rows)
"""


def test_kernels_that_go_by_the_number_of_rows_get_the_same_number():
    settings = {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    subprocess.run([sys.executable, "-c", WITH_AVX2], env=os.environ | settings, check=True)
