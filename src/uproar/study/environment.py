"""On what a study runs: versions and machine, noted when it does."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

import torch

PACKAGES = ("uproar", "torch", "numpy", "scipy", "pandas")


def environment() -> dict[str, Any]:
    """Versions and machine as they are now."""
    system = f"{platform.system()} {platform.machine()}"
    return {
        "versions": {name: metadata.version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": f"{system}, {os.cpu_count()} cores, {torch.get_num_threads()} threads",
    }
