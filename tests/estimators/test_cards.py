"""Cards, and the page made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field
from tools.estimator_cards import FAMILIES, OTHERS, card, cards, in_words, own, to_markdown

from uproar.estimators import estimators, register_function
from uproar.registry import Entry

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.exists(), reason="only in a checkout")
def test_the_page_is_what_the_declarations_say():
    """If this fails: python tools/estimator_cards.py > docs/estimators.md"""
    assert (DOCS / "estimators.md").read_text() == to_markdown(cards(own()))


@pytest.mark.skipif(not DOCS.exists(), reason="only in a checkout")
def test_what_the_page_points_to_is_there():
    for target in ("images/estimators.png", "add-an-estimator.md"):
        assert f"({target})" in (DOCS / "estimators.md").read_text()
        assert (DOCS / target).is_file()
    assert (DOCS / "images" / "estimators.png").stat().st_size < 400_000


def test_every_estimator_of_the_package_belongs_to_a_family():
    result = {each.name: each.family for each in cards(own())}
    assert set(result) == set(own())
    assert OTHERS not in result.values()
    assert {f for f in result.values() if f in FAMILIES} == set(FAMILIES)


@pytest.mark.parametrize("name", own())
def test_a_card_repeats_every_fact_and_option(name):
    entry = estimators[name]
    result = card(entry)
    text = to_markdown([result])
    assert result.text
    assert result.text in text
    for fact in ("formula", "paper", "needs", "fails"):
        assert entry.facts.get(fact, "").rstrip(".") in text
    assert [option.text.partition("=")[0] for option in result.options] == list(entry.options)
    assert all(f"`{option.text}`" in text and option.values for option in result.options)


def test_costs_are_those_of_the_defaults():
    assert card(estimators["ig"]).passes == 25
    assert card(estimators["ig"]).cost == "25 passes per image at the defaults; `steps` decides"
    assert card(estimators["grad_input"]).cost == "1 pass per image, shared with `grad`"
    assert card(estimators["sg"]).cost == "`samples` (15) times that of what it is applied to"
    assert card(estimators["random"]).cost == "nothing, as the model is never looked at"


def test_needs_name_what_must_be_prepared_or_known():
    assert card(estimators["rise"]).needs == ("class scores alone; the training images' mean colour (for `fill=mean`)")
    assert "a preparation, once per model" in card(estimators["tame"]).needs
    assert card(estimators["sobel"]).needs == ""


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (bool, "`true` or `false`"),
        (int, "whole number"),
        (Annotated[int, Field(ge=2)], "whole number ≥ 2"),
        (Annotated[int, Field(ge=1, le=10_000)], "whole number from 1 to 10,000"),
        (Annotated[float, Field(gt=0, lt=1)], "number > 0 and < 1"),
        (Annotated[float, Field(ge=0)] | None, "number ≥ 0, or `none`"),
        (Literal["a", "b", "c"], "`a`, `b` or `c`"),
        (Literal["only"], "`only`"),
        (tuple[str, ...] | None, "list: text, or `none`"),
        (Annotated[tuple[float, ...], Field(min_length=2)], "list of at least 2: number"),
        (object, "any value"),
    ],
)
def test_a_type_is_said_in_words(hint, words):
    def function(model, x, target, *, option=1):
        """A map."""

    function.__annotations__ = {"option": hint}
    (result,) = card(Entry("estimator", "mine", function, {"role": "estimator"})).options
    assert result.text == "option=1"
    assert result.values == words


def test_an_option_without_a_default_is_named_alone():
    def function(model, x, target, *, steps: int):
        """A map."""

    (result,) = card(Entry("estimator", "mine", function, {"role": "estimator"})).options
    assert result.text == "steps"


def test_an_estimator_of_the_user_has_a_card_but_no_place_on_the_page():
    def of_the_user(model, x, target, *, strength=0.5):
        """My map.

        More about it.
        """

    before = dict(estimators._entries)
    try:
        register_function("of_the_user", of_the_user)
        assert "of_the_user" not in own()
        (result,) = (each for each in cards() if each.name == "of_the_user")
    finally:
        estimators._entries.clear()
        estimators._entries.update(before)
    assert (result.family, result.text, result.passes) == (OTHERS, "My map.", 1)
    assert "## Others\n\n### of_the_user\n\nMy map.\n" in to_markdown([result])


def test_a_schema_with_one_bound_uses_a_sign():
    assert in_words({"type": "number", "maximum": 3}) == "number ≤ 3"
