"""What can go wrong, by who has to act.

UproarError
├── BadInput              the caller gave something that cannot be used: fix the call or the file
│   ├── UnknownName       no such estimator, task, model, ...: the message lists near names
│   ├── BadOption         a known thing with an option it does not take, or a value it cannot have
│   └── BadShape          tensors that do not fit together
├── NotApplicable         the method does not exist for this model or data: becomes a Skipped cell
├── BadMap                an estimator returned NaN, infinity or the wrong shape: the cell fails
├── BrokenRule            an estimator of the user follows the batch or unseeded random numbers: its cells fail
├── SideEffect            code of the user changed what it shares with others: its cells fail, it is undone
└── StoreError            the results folder cannot be used
    ├── Damaged           a stored file is not what was written: it is set aside and computed again
    └── Absent            a stored file is not there
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

LONGEST_VALUE = 200
"""Characters of a value without spaces that a message repeats; of a longer one it shows the two ends."""
LONGEST_MESSAGE = 4000
"""Characters of a whole message."""
MANY_NAMES = 20
"""More known names than that are not listed."""


def shortened(text: str) -> str:
    """A message without the bulk of what it repeats: a name of ten megabytes is shown by its ends.

    >>> print(shortened(f"No file {'x' * 60 + 'y' * 1000!r}."))
    No file 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (1063 characters) …yyyyyyyyyyyyyyyyyy'.
    """
    if len(text) <= LONGEST_VALUE:
        return text
    text = re.sub(rf"\S{{{LONGEST_VALUE + 1},}}", lambda match: _ends(match[0], 60, 20), text)
    return text if len(text) <= LONGEST_MESSAGE else _ends(text, LONGEST_MESSAGE - 400, 300)


def _ends(text: str, first: int, last: int) -> str:
    return f"{text[:first]}… ({len(text)} characters) …{text[-last:]}"


class UproarError(Exception):
    """Anything uproar raises on purpose."""

    def __init__(self, message: object = "", *more: object) -> None:
        super().__init__(shortened(message) if isinstance(message, str) else message, *more)


class BadInput(UproarError, ValueError):
    """The caller gave something that cannot be used."""

    setting = ""
    """The setting of a study that it is about, where one is: a file's reader adds the line."""


class UnknownName(BadInput):
    """No such thing; the message names what is near."""


class BadOption(BadInput):
    """A known thing with an option it does not take or a value it cannot have."""


class BadShape(BadInput):
    """Tensors that do not fit together."""


class NotApplicable(UproarError):
    """The method does not exist for this model or data, with the reason."""


class NeedsColour(NotApplicable):
    """Something needs the mean colour of the training images, and nobody gave it."""


OWN_COLOUR = "mean= was not given: the mean colour of these images takes its place."
"""What is said where it does."""


class BadMap(UproarError):
    """An estimator returned something that cannot be ranked."""


class BrokenRule(UproarError):
    """An estimator of the user gives maps that depend on more than its inputs, with what they depend on."""


class SideEffect(UproarError):
    """Code of the user changed what it shares with others; it has been undone."""


class StoreError(UproarError):
    """The results folder cannot be used."""


class Damaged(StoreError):
    """A stored file is not what was written."""


class Absent(StoreError, KeyError):
    """A stored file is not there."""

    def __str__(self) -> str:
        return Exception.__str__(self)


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name nobody knows, with near names, and the whole list where it is short.

    >>> print(unknown("fill", "men", ["mean", "zero"]))
    No fill is called 'men'. Did you mean 'mean'? Known: mean, zero.
    >>> print(unknown("study", "roar", map(str, range(30))))
    No study is called 'roar'. `uproar ls studies` lists all 30.
    """
    names = sorted(known)
    near = did_you_mean(name, names, 3)
    rest = f" Known: {', '.join(names)}." if 0 < len(names) <= MANY_NAMES else ""
    if not near and len(names) > MANY_NAMES:
        rest = f" `uproar ls {kind.removesuffix('y')}{'ies' if kind.endswith('y') else 's'}` lists all {len(names)}."
    return UnknownName(f"No {kind} is called {name!r}.{near}{rest}")


def did_you_mean(name: str, known: Sequence[str], most: int) -> str:
    """A question that names what is near, or nothing.

    >>> did_you_mean("men", ["mean", "zero"], 2), did_you_mean("SmoothGrad", ["smoothgrad"], 2)
    (" Did you mean 'mean'?", " Did you mean 'smoothgrad'?")
    """
    short = len(name) <= LONGEST_VALUE  # a longer one is no slip, and comparing it takes long
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lower, n=most, cutoff=0.6) if short else []
    near = [lower[each] for each in close]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


_PLAINLY = (
    ("Input should be a valid tuple", "must be a list"),
    ("Input should be a valid list", "must be a list"),
    ("Input should be a valid integer", "must be a whole number"),
    ("Input should be a valid number", "must be a number"),
    ("Input should be a valid string", "must be a text"),
    ("Input should be a valid boolean", "must be true or false"),
    ("Input should be a valid dictionary", "must be a table of settings"),
    ("Input should be", "must be"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("Value error, ", ""),
)


def plainly(message: str) -> str:
    """What pydantic says of a value, in the words that are used everywhere else.

    >>> plainly("Input should be greater than or equal to 1")
    'must be at least 1'
    >>> plainly("Input should be a valid integer, unable to parse string as an integer")
    'must be a whole number'
    """
    for theirs, ours in _PLAINLY:
        message = message.replace(theirs, ours)
    for explained in (", unable to parse", ", unable to interpret", " or instance of"):
        message = message.partition(explained)[0]
    return message


CODE_ERRORS = (Exception, SystemExit, GeneratorExit)
"""What code of a user may raise: `sys.exit` in it ends what it was asked for, not the program; an interrupt does."""


def one_line(error: BaseException) -> str:
    """An error as a single line, for tables and reports.

    >>> one_line(ValueError("no such\\nlayer")), one_line(SystemExit(7))
    ('ValueError: no such layer', 'sys.exit(7) was called')
    """
    if isinstance(error, SystemExit):
        return f"sys.exit({'' if error.code is None else repr(error.code)}) was called"
    text = shortened(" ".join(str(error).split()))
    return text if isinstance(error, UproarError) else f"{type(error).__name__}: {text}"
