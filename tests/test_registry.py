from typing import Annotated, Literal

import pytest
from pydantic import Field

from uproar.errors import BadInput, BadOption, UnknownName
from uproar.expression import parse
from uproar.registry import Registry


@pytest.fixture
def things() -> Registry:
    registry = Registry("thing")

    @registry.declare(fact=1)
    def wheel(x, *, size: Annotated[int, Field(ge=1)] = 3, kind: Literal["a", "b"] = "a"):
        """A wheel.

        More.
        """
        return x, size, kind

    return registry


def test_an_unknown_name_answers_with_near_ones(things):
    with pytest.raises(UnknownName, match="No thing is called 'weel'. Did you mean 'wheel'"):
        things["weel"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sise": 1}, "takes no option 'sise'; it takes size, kind"),
        ({"size": 0}, "size must be at least 1, not 0"),
        ({"size": "x"}, "size must be a whole number, not 'x'"),
        ({"kind": "c"}, "kind must be 'a' or 'b', not 'c'"),
    ],
)
def test_a_bad_option_says_what_is_allowed(things, options, sentence):
    with pytest.raises(BadOption, match=sentence):
        things["wheel"].bind(**options)


def test_defaults_are_part_of_a_complete_call(things):
    assert str(things.complete(parse("wheel(size=3)"))) == str(things.complete(parse("wheel")))
    assert str(things.complete(parse("wheel"))) == "wheel(kind=a, size=3)"
    assert things["wheel"].summary == "A wheel."


def test_a_name_cannot_be_taken_twice_from_different_places(things):
    def wheel(x):
        return x

    wheel.__module__ = "somewhere.else"
    with pytest.raises(BadInput, match="would replace"):
        things.add("wheel", wheel)
