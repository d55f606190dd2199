"""Modules and names that are imported when they are first used: a command that does not need them does not wait."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A module-level `__getattr__` (PEP 562): `names` says which module has each name; submodules are found as well."""

    def load(name: str) -> Any:
        if name in names:
            value = getattr(import_module(names[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        is_package = "__path__" in vars(sys.modules[package])
        if is_package and not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def defer_import(name: str) -> None:
    """Let `import name` return at once: the module is loaded when one of its attributes is first used.

    Only for a program of its own, before it imports anything else: a module that is loaded already stays as it is.
    """
    if name not in sys.modules:
        spec = find_spec(name)
        sys.modules[name] = deferred = _DeferredModule(name)
        deferred.__spec__ = spec  # other libraries ask by it whether the module is installed


class _DeferredModule(ModuleType):
    """Stands in `sys.modules` for a module that is not loaded yet, and passes attributes on to it afterwards."""

    _lock = threading.RLock()

    def __getattr__(self, attribute: str) -> Any:
        with self._lock:
            if sys.modules.get(self.__name__) is self:
                if attribute.startswith("__") and attribute not in ("__path__", "__version__"):
                    raise AttributeError(attribute)  # `inspect` asks every module for its `__file__`
                del sys.modules[self.__name__]
            module = import_module(self.__name__)
        value = getattr(module, attribute)
        setattr(self, attribute, value)
        return value
