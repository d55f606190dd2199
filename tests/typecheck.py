"""How shapes and types are checked while the tests run: beartype, with int accepted for float.

It checks one element of a list, drawn at random. It draws from a generator of its own here: the tests also look whether
code uses Python's global one.

jaxtyping makes its checks when a function is defined and goes through the arguments twice in every call: the tests took
twice as long. Here a function gets its check when it is first called, and that of jaxtyping, which compares the shapes
of the arguments with each other, only if its annotations name shapes.
"""

import functools
import inspect
import random
import typing
from collections.abc import Callable
from types import CodeType, FunctionType

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype._check.code import codemain
from jaxtyping._decorator import _destring_annotation
from jaxtyping._decorator import jaxtyped as with_shapes

if codemain.getrandbits is random.getrandbits:  # once, though pytest imports this file under two names
    codemain.getrandbits = random.Random(0).getrandbits

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
_checked_inside: set[CodeType] = set()
"""Functions inside functions of which one was checked: each call of the outer one makes them anew."""


def checked_when_called(*, typechecker: Callable) -> Callable:
    """In place of `jaxtyping.jaxtyped`: the check of a function or of the fields of a dataclass."""
    return functools.partial(_checked_later, typechecker=typechecker)


def _checked_later(made: typing.Any, typechecker: Callable) -> typing.Any:
    if inspect.isclass(made):
        start = vars(made).get("__init__")
        if "__dataclass_fields__" in vars(made) and inspect.isfunction(start) and not hasattr(start, "__wrapped__"):
            made.__init__ = _checked_later(start, typechecker)
        return made
    if not inspect.isfunction(made):  # a classmethod or a staticmethod decorated once more
        return with_shapes(made, typechecker=typechecker)
    if made.__code__ in _checked_inside:
        return made
    check: Callable | None = None

    @functools.wraps(made)
    def call(*args, **kwargs):
        __tracebackhide__ = True
        nonlocal check
        if check is None:
            check = _check_of(made, typechecker)
        return check(*args, **kwargs)

    return call


def _check_of(function: FunctionType, typechecker: Callable) -> Callable:
    if "<locals>" in function.__qualname__:
        _checked_inside.add(function.__code__)
    known = {name: _destring_annotation(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    if any(map(_names_shapes, known.values())):
        return with_shapes(function, typechecker=typechecker)
    same = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    same.__kwdefaults__, same.__annotations__ = function.__kwdefaults__, known
    same.__qualname__, same.__module__ = function.__qualname__, function.__module__
    try:
        return checked(same)
    except Exception:  # beartype does not end with a type that names itself, unless as jaxtyping passes it on
        return with_shapes(function, typechecker=typechecker)


def _names_shapes(hint: typing.Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_names_shapes, typing.get_args(hint)))


jaxtyping.jaxtyped = checked_when_called  # what the import hook of jaxtyping's plug-in for pytest writes over functions
