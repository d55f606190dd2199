"""Trained weights from a file, without executing anything in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from uproar.errors import BadInput, one_line
from uproar.models.normalise import NetworkNormalise
from uproar.plugins import file_at


def weights_hash(path: str | Path) -> str:
    """A hash of a weights file."""
    with _weights_file(path).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:40]


def _weights_file(path: str | Path) -> Path:
    file = file_at(path)
    if not file.is_file():
        raise BadInput(f"There is no weights file {path}.")
    return file


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a `torch.save` file that holds nothing but tensors."""
    file = _weights_file(path)
    try:
        if file.suffix == ".safetensors":
            return safetensors.torch.load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise BadInput(f"Cannot read the weights in {path}: {error.strerror or one_line(error)}.") from None
    except Exception:  # each reader refuses in words of its own, often those of another mistake
        raise BadInput(
            f"Cannot read the weights in {path}: it holds more than tensors, which uproar does not execute, or is "
            "damaged; give a .safetensors file or a state_dict saved with torch.save (.pt)."
        ) from None
    for wrapping in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(wrapping), dict):
            content = content[wrapping]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(v, Tensor) for v in content.values()):
        raise BadInput(f"{path} must hold a table of named tensors.")
    return {name.removeprefix("module."): value for name, value in content.items()}


def load_weights(model: nn.Module, path: str | Path, new_head: bool = False) -> nn.Module:
    """The model with the weights of a file; what is missing, unexpected or misshapen is named.

    Two things may be missing: the counters of batch norm, which old checkpoints lack and evaluation never reads, and
    the normalisation of the images, which published weights do not carry. `new_head`: the last linear layer keeps its
    own weights where the file's are for another number of classes.
    """
    stored = read_weights(path)
    for prefix, module in model.named_modules():
        if isinstance(module, NetworkNormalise) and f"{prefix}.mean" not in stored:
            module.use_published()
            stored |= {f"{prefix}.{name}": value for name, value in module.state_dict().items()}
    weights = model.state_dict()
    counters = {name: weights[name] for name in weights if name.endswith("num_batches_tracked")}
    stored = {**counters, **stored}
    if new_head:
        last = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)][-1:]
        head = [f"{name}.{kind}" for name in last for kind in ("weight", "bias")]
        stored |= {n: weights[n] for n in head if n in stored and stored[n].shape != weights[n].shape}
    problems = differences(weights, stored)
    if problems:
        raise BadInput(f"The weights in {path} do not fit the model: {problems}.")
    model.load_state_dict(stored)
    return model


SHOWN = 6
"""Names of weights that are listed of each kind of difference."""


def differences(weights: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> str:
    """How the weights of a file differ from those a model has, in words; nothing where they fit.

    >>> differences({"a": torch.ones(2), "b": torch.ones(1)}, {"a": torch.ones(3), "c": torch.ones(1)})
    '1 missing (b); 1 unexpected (c); 1 of another shape (a is (3,), not (2,))'
    """
    kinds = {
        "missing": [name for name in weights if name not in stored],
        "unexpected": [name for name in stored if name not in weights],
        "of another shape": [
            f"{name} is {tuple(stored[name].shape)}, not {tuple(weights[name].shape)}"
            for name in weights
            if name in stored and stored[name].shape != weights[name].shape
        ],
    }
    words = []
    for kind, names in kinds.items():
        more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
        words += [f"{len(names)} {kind} ({', '.join(names[:SHOWN] + more)})"] if names else []
    return "; ".join(words)
