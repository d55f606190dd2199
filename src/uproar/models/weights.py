"""Trained weights from a file, without executing anything in it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from uproar.errors import BadInput, one_line


def weights_hash(path: str | Path) -> str:
    """A hash of a weights file."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise BadInput(f"There is no weights file {path}.")
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:40]


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a `torch.save` file that holds nothing but tensors."""
    file = Path(path).expanduser()
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, safetensors.SafetensorError) as error:
        raise BadInput(f"Cannot read the weights in {path}: {one_line(error)}") from None
    except Exception as error:  # the unpickler refuses what is not a tensor in its own words
        raise BadInput(
            f"{path} holds more than tensors, which uproar does not execute; save it as safetensors "
            f"({one_line(error)[:120]})."
        ) from None
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise BadInput(f"{path} must hold a table of named tensors.")
    return {name.removeprefix("module."): value for name, value in content.items()}


def load_weights(model: nn.Module, path: str | Path) -> nn.Module:
    """The model with the weights of a file; what is missing, unexpected or misshapen is named."""
    own = model.state_dict()
    # checkpoints of old versions of torch lack the counters of batch norm, which evaluation never reads
    counters = {name: own[name] for name in own if name.endswith("num_batches_tracked")}
    stored = {**counters, **read_weights(path)}
    problems = [f"missing {name}" for name in own if name not in stored]
    problems += [f"unexpected {name}" for name in stored if name not in own]
    problems += [
        f"{name} is {tuple(stored[name].shape)}, not {tuple(own[name].shape)}"
        for name in own
        if name in stored and stored[name].shape != own[name].shape
    ]
    if problems:
        shown = "; ".join(problems[:6]) + (
            f"; and {len(problems) - 6} more" if len(problems) > 6 else ""
        )
        raise BadInput(f"The weights in {path} do not fit the model: {shown}.")
    model.load_state_dict(stored)
    return model
