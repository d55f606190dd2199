"""The state of a network: noted before code of the user gets it, compared and put back afterwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

Parts = dict[Any, Any]

HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_state_dict_hooks", "_load_state_dict_pre_hooks"),
)
"""Where a module keeps its hooks."""
_PARTS = ("_parameters", "_buffers", "_modules")


class ModelState:
    """Weights, buffers, layers, modes, hooks and other attributes of a network when it was noted.

    Tensors are kept as copies, so that also a change by way of `.data` is seen and can be put back.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.modules = list(model.named_modules())
        self.classes = [type(module) for _, module in self.modules]
        self.modes = [module.training for _, module in self.modules]
        self.hooks = [_tables(module, HOOKS) for _, module in self.modules]
        self.parts = [_tables(module, _PARTS) for _, module in self.modules]
        self.options = [_options(module) for _, module in self.modules]
        named = [*model.named_parameters(), *model.named_buffers()]
        self.tensors = [_Kept(name, tensor) for name, tensor in named]
        self.attributes = [_Attributes(module) for _, module in self.modules]

    def restore(self) -> list[str]:
        """Put everything back that has changed since; what had, in words.

        Plain attributes of the user's own classes come back without a word: a network may count or note its own calls.
        """
        for attributes in self.attributes:
            attributes.restore()
        changed = [
            self._restore_classes(),
            self._restore_tables(self.parts, "its layers were exchanged"),
            self._restore_tables(self.hooks, "hooks were left on it"),
            self._restore_options(),
            self._restore_modes(),
            self._restore_values(),
        ]
        return [words for words in changed if words]

    def _restore_classes(self) -> str:
        names = []
        for (name, module), cls in zip(self.modules, self.classes, strict=True):
            if type(module) is not cls:
                names.append(name or cls.__name__)
                module.__class__ = cls
        return _counted("the classes of its layers changed", names)

    def _restore_tables(self, tables: list[list[tuple[Parts, Parts]]], words: str) -> str:
        changed = False
        for live, before in (pair for own in tables for pair in own):
            if not _same_entries(live, before):
                changed = True
                live.clear()
                live.update(before)
        return words if changed else ""

    def _restore_options(self) -> str:
        names = []
        for (name, module), before in zip(self.modules, self.options, strict=True):
            now = _options(module)
            if now != before:
                names.append(name or type(module).__name__)
                for option in now.keys() - before.keys():
                    delattr(module, option)
                vars(module).update(before)
        return _counted("the options of its layers changed", names)

    def _restore_modes(self) -> str:
        changed = False
        for (_, module), mode in zip(self.modules, self.modes, strict=True):
            if module.training != mode:
                changed = True
                module.training = mode
        return "its mode changed (train or eval)" if changed else ""

    def _restore_values(self) -> str:
        return _counted("its weights or buffers changed", [kept.name for kept in self.tensors if kept.restore()])


class _Kept:
    """A parameter or buffer with a copy of its values."""

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name, self.tensor = name, tensor
        self.grad, self.needs_grad = tensor.grad, tensor.requires_grad
        self.copy = tensor.detach().clone()

    def restore(self) -> bool:
        """Put the values back; whether they had changed. Flags and gradients come back without a word."""
        if self.tensor.is_leaf:
            self.tensor.requires_grad_(self.needs_grad)
            self.tensor.grad = self.grad
        now = self.tensor.detach()
        if _same(now, self.copy):
            return False
        if _alike(now, self.copy):
            self.tensor.data.copy_(self.copy)
        else:
            self.tensor.data = self.copy
        return True


class _Attributes:
    """Numbers, words and tensors that a module of a user's class has beside its parameters and buffers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        own = {} if _of_torch(module) else vars(module)
        self.plain = {name: value for name, value in own.items() if _is_plain(name, value)}
        tensors = {name: value for name, value in own.items() if isinstance(value, Tensor)}
        self.tensors = {name: _Kept(name, tensor) for name, tensor in tensors.items()}

    def restore(self) -> None:
        """Put back values that were replaced, deleted or written into."""
        vars(self.module).update(self.plain)
        for name, kept in self.tensors.items():
            vars(self.module)[name] = kept.tensor
            kept.restore()


def _tables(module: nn.Module, names: tuple[str, ...]) -> list[tuple[Parts, Parts]]:
    """Dictionaries of a module, each with a copy."""
    tables = [vars(module).get(name) for name in names]
    return [(table, dict(table)) for table in tables if isinstance(table, dict)]


def _options(module: nn.Module) -> Parts:
    """A replaced `forward`, and the plain options of torch's own layers, such as the rate of a dropout."""
    own = vars(module)
    kept = {"forward": own["forward"]} if "forward" in own else {}
    if _of_torch(module):
        kept |= {name: value for name, value in own.items() if _is_plain(name, value)}
    return kept


def _of_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.")


def _is_plain(name: str, value: Any) -> bool:
    return isinstance(value, bool | int | float | str | tuple) and name != "training"


def _same_entries(now: Parts, before: Parts) -> bool:
    return now.keys() == before.keys() and all(now[name] is before[name] for name in before)


def _alike(a: Tensor, b: Tensor) -> bool:
    same = a.shape == b.shape and a.dtype == b.dtype and a.device == b.device
    return same and a.layout == b.layout and (a.layout != torch.strided or a.stride() == b.stride())


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same values in the same layout; NaN counts as equal to NaN."""
    if not _alike(a, b):
        return False
    if a.is_meta or torch.equal(a, b):
        return True
    if not a.is_floating_point():
        return False
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def _counted(words: str, names: list[str]) -> str:
    """The words with the first of the names, and how many more there are."""
    if not names:
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{words} ({names[0]}{more})"
