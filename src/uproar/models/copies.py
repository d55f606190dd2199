"""Copies of a network with layers drawn anew: what a map shows of them is not what the network has learned."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from uproar.errors import CODE_ERRORS, BadInput, NotApplicable, one_line
from uproar.models.forward import device_of, unwrap_remote
from uproar.seeds import key
from uproar.types import Images


def weighted_layers(model: nn.Module, x: Images) -> list[str]:
    """The modules that own weights, from the output to the input, in the order of a forward pass.

    A module that is never called itself, because its owner uses its weights, stands where its owner is called.
    """
    watched = _copied(model)
    called: dict[str, int] = {}
    for name, module in watched.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: called.update({name: called.get(name, len(called))}))
    with torch.no_grad():
        watched(x[[0, 0]])
    places: dict[str, tuple[int, int]] = {}
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            owner = name
            while owner and owner not in called:
                owner = owner.rpartition(".")[0]
            places[name] = called.get(owner, 0), len(places)
    return sorted(places, key=lambda name: places[name], reverse=True)


def redrawn_copies(model: nn.Module, x: Images, seed: int, *, cascading: bool) -> Iterator[nn.Module]:
    """Copies of the model with layers drawn anew, one per layer from the output down; the model stays as it is."""
    model = unwrap_remote(model)
    names = weighted_layers(model, x[:1].to(device_of(model)))
    if not names:
        raise NotApplicable("this model has no weights to draw anew")
    spoilt = _copied(model)
    for name in names:
        if not cascading:
            spoilt = _copied(model)
        _draw_anew(spoilt.get_submodule(name), key(seed, "drawn anew", name))
        yield spoilt


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model).eval()
    except CODE_ERRORS as error:
        raise BadInput(f"The model cannot be copied, so its weights cannot be drawn anew: {one_line(error)}") from error


def _draw_anew(module: nn.Module, seed: int) -> None:
    """Re-initialise a module's own weights in place: its `reset_parameters`, or normal with their mean and spread.

    Drawn on the CPU, so that they are the same on every device.
    """
    device = device_of(module)
    module.cpu()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
        else:
            for weights in module.parameters(recurse=False):
                spread = weights.std(correction=0) if weights.numel() > 1 else weights.abs().mean()
                weights.copy_(weights.mean() + spread * torch.randn(weights.shape).to(weights))
    module.to(device)


# Networks for evaluation alone: batch norms folded into convolutions, no pooling of what is small enough.


def folded(network: nn.Module) -> nn.Module:
    """A copy of a network for evaluation alone, whose batch norms are part of the convolutions before them.

    Only where one follows the other in an `nn.Sequential`; elsewhere nothing says that it does. Scores are the same up
    to rounding. It takes about half of the time of a pass.
    """
    network = copy.deepcopy(network).eval()
    for pool in [module for module in network.modules() if type(module) is nn.AdaptiveAvgPool2d]:
        pool.__class__ = _PoolWhatIsLarger
    for module in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for i in range(len(module) - 1):
            first, second = module[i], module[i + 1]
            if type(first) is nn.Conv2d and type(second) is nn.BatchNorm2d and second.running_var is not None:
                module[i], module[i + 1] = fuse_conv_bn_eval(first, second), nn.Identity()
                if i + 2 < len(module) and type(module[i + 2]) is nn.ReLU:
                    module[i + 2] = nn.ReLU(inplace=True)  # which needs no memory of its own
    return network


class _PoolWhatIsLarger(nn.AdaptiveAvgPool2d):
    """Average pooling that leaves what has the size already as it is."""

    def forward(self, x: Tensor) -> Tensor:
        size = self.output_size
        return x if tuple(x.shape[-2:]) == (size if isinstance(size, tuple) else (size, size)) else super().forward(x)
