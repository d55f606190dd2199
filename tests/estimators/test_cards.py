"""The page of cards is the code's own facts."""

from pathlib import Path

from uproar.estimators import estimators
from uproar.estimators.cards import cards, own, to_markdown

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_page_is_what_the_declarations_say_now():
    assert PAGE.read_text().strip() == to_markdown(cards(own())).strip(), (
        "run: python -m uproar.estimators.cards > docs/estimators.md"
    )


def test_every_entry_has_a_card_with_its_formula():
    page = to_markdown(cards(own()))
    for entry in (estimators[name] for name in own()):
        assert (
            f"\n### {entry.name}\n" in page
            or f"`{entry.name}`" in page
            or f"[{entry.name}]" in page
        ), entry.name
        assert entry.facts["formula"].replace("|", "\\|") in page or entry.facts["formula"] in page
