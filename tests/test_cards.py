"""Cards of estimators and metrics: short, complete, and what the declarations say."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from tools.cards import (
    MOST,
    builtin,
    estimator_card,
    estimators_page,
    family_of,
    metric_card,
    metrics_of_maps,
    metrics_page,
    transforms_page,
    variants_page,
    words,
)

from uproar.estimators import estimators
from uproar.metrics import metrics

CARDS = [*((estimator_card, entry) for entry in builtin(estimators)), *((metric_card, e) for e in metrics_of_maps())]


@pytest.mark.parametrize(("card", "entry"), CARDS, ids=[entry.name for _, entry in CARDS])
def test_a_card_has_the_name_formula_and_options_in_few_words(card, entry):
    text = card(entry)
    assert text.startswith(f"**`{entry.name}`** ")
    assert words(text) <= MOST
    assert (entry.facts.get("formula") or "").replace("`", "") in text
    assert all(f"`{name}=" in text for name in entry.options)
    assert not re.search(r"\w\.\.|\?\.", text.replace("...", ""))


def test_costs_and_directions_are_those_of_the_defaults():
    assert " 25 passes. " in estimator_card(estimators["ig"])
    assert " 1 pass. " in estimator_card(estimators["grad"])
    assert "Changed images: 50. " in metric_card(metrics["infidelity"])
    assert "Lower is better, from 0 to 1." in metric_card(metrics["deletion"])


def test_every_entry_is_on_one_page_and_pages_are_short():
    pages = [estimators_page(), transforms_page(), metrics_page(), variants_page()]
    for entry in [*builtin(estimators), *metrics_of_maps()]:
        assert sum(page.count(f"**`{entry.name}`** ") for page in pages) == 1
    assert all(len(page.split()) <= 2500 for page in pages)
    assert family_of(estimators["grad_cam"]) == "Class activation maps"


def test_the_generated_pages_are_written_and_short(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "tools")
    pages = importlib.import_module("reference_pages").write_pages(tmp_path)
    words_of = {page.stem: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert {"functions", "results", "commands", "estimators", "metrics", "lists"} <= set(words_of)
    assert max(words_of.values()) <= 2500, words_of
