"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.cli.terminal import Commands

collect_ignore = ["misbehaving.py", "watermarked.py"]  # plug-ins: loading them as modules declares their names

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts the tests in the background ignores it
# Some virtual machines announce matrix tiles and refuse them: after one product in bfloat16 no layer could be made.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
sys.dont_write_bytecode = False  # the programs that tests start need not compile the package each time
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SLOW = (
    *("test_browser", "test_documented", "test_notebooks", "test_python_blocks", "test_ray", "test_submitit"),
    *("test_studies", "test_watermark"),
)
"""Files whose tests start clusters, browsers, notebooks, the lines of the documentation, or whole studies."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem in SLOW:
            item.add_marker("slow")


class Golden:
    """One file of golden arrays, as tensors."""

    def __init__(self, name: str) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.npz"
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {key: file[key] for key in file.files}

    def __getitem__(self, key: str) -> torch.Tensor:
        return torch.from_numpy(self.arrays[key])

    def __contains__(self, key: str) -> bool:
        return key in self.arrays

    def numpy(self, key: str) -> np.ndarray:
        return self.arrays[key]


@pytest.fixture(scope="session")
def golden():
    """`golden("rise")["sal_a"]`: arrays made by the reference implementations."""
    return Golden


class Tiny(nn.Module):
    """The network all golden data was made with; its input is normalised already."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.relu2 = nn.ReLU()
        self.gap = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.fc = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu1(self.conv1(x)))
        return self.fc(self.flat(self.gap(self.relu2(self.conv2(x)))))


def _tiny(name: str) -> Tiny:
    stored, model = Golden(name), Tiny()
    weights = {key.replace(".", "_"): key for key in model.state_dict()}
    model.load_state_dict({key: stored[flat] for flat, key in weights.items()})
    return model.eval()


@pytest.fixture(scope="session")
def commands():
    """Commands of the program on a terminal and through pipes, each in a process of its own."""
    running = Commands()
    yield running
    running.close()


@pytest.fixture
def tiny32() -> nn.Module:
    """The golden network for 32×32 images."""
    return _tiny("tiny32_weights")


@pytest.fixture
def tiny16() -> nn.Module:
    """The golden network for 16×16 images."""
    return _tiny("tiny16_weights")
