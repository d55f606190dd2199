"""A pretended device: tensors that say they are elsewhere, compute on the CPU, and refuse to be mixed with the CPU's.

No machine that runs these tests needs a GPU for the code to be shown to run on one: what mixes devices, draws random
numbers elsewhere, or turns a tensor that is elsewhere into an array, fails here as it would there.
"""

from __future__ import annotations

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

ELSEWHERE = torch.device("meta")
"""A device that every build of torch knows, and that nothing else here uses."""

_DRAWING = ("rand", "randn", "randint", "randperm", "bernoulli", "normal", "uniform", "multinomial")


class There(torch.Tensor):
    """A tensor elsewhere."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), inner.storage_offset(), dtype=inner.dtype, device=ELSEWHERE
        )

    def __init__(self, inner):
        self.inner = inner

    def new_tensor(self, *args, **kwargs):
        return torch.tensor(*args, **{"dtype": self.dtype, **kwargs}).to(ELSEWHERE)

    def tolist(self):
        return self.cpu().tolist()

    def __getitem__(self, places):
        """Torch would make the lists among the places tensors of the device `meta`, which have no values."""
        given = places if isinstance(places, tuple) else (places,)
        return super().__getitem__(tuple(torch.tensor(each) if isinstance(each, list) else each for each in given))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _done(func, args, kwargs or {})


def _done(func, args, kwargs):
    flat = tree_flatten((args, kwargs))[0]
    there = [a for a in flat if isinstance(a, There)]
    here = [a for a in flat if isinstance(a, torch.Tensor) and not isinstance(a, There)]
    name = func._schema.name.partition("::")[2].rstrip("_")
    device = kwargs.get("device")
    plain = tree_map(lambda a: a.inner if isinstance(a, There) else a, (args, kwargs))
    if device is not None:
        plain[1]["device"] = torch.device("cpu")
    if name in ("_to_copy", "copy"):
        out = func(*plain[0], **plain[1])
        if name == "copy":
            return args[0]
        stays = isinstance(args[0], There) if device is None else device.type == "meta"
        return There(out) if stays else out
    if not there and (device is None or device.type != "meta"):
        return func(*plain[0], **plain[1])
    # the CPU may lend a device single numbers and the places it indexes with
    mixed = [a for a in here if a.dim() > 0] if there and name not in ("index", "index_put") else []
    if mixed:
        raise RuntimeError(f"{func}: tensors on two devices, one of shape {tuple(mixed[0].shape)}")
    if name in _DRAWING:
        raise RuntimeError(f"{func}: random numbers drawn elsewhere")
    out = func(*plain[0], **plain[1])
    if name == "_local_scalar_dense":
        return out
    same = {id(a.inner): a for a in there}
    return tree_map(lambda a: same.get(id(a), There(a)) if isinstance(a, torch.Tensor) else a, out)


class _Sent(TorchDispatchMode):
    """What is made on the pretended device is made there."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _done(func, args, kwargs or {})


@contextlib.contextmanager
def elsewhere():
    """Inside, the device `ELSEWHERE` computes; inference mode, which wrapped tensors do not know, is no_grad."""
    known = torch.inference_mode
    torch.inference_mode = lambda mode=True: torch.no_grad() if mode else contextlib.nullcontext()
    try:
        with _Sent():
            yield ELSEWHERE
    finally:
        torch.inference_mode = known
