"""How the networks of the papers were trained: the recipes of each `paper.toml`, by name."""

from __future__ import annotations

from typing import Any

from uproar.papers import papers
from uproar.training.recipe import recipe


def _declare(name: str, about: str, settings: dict[str, Any]) -> None:
    def recipe_of_paper() -> dict[str, Any]:
        return dict(settings)

    recipe_of_paper.__doc__ = about
    recipe(name=name)(recipe_of_paper)


for _paper in papers().values():
    _recipes = _paper.get("recipes", {})
    for _name, _fields in _recipes.items():
        _like = _recipes[_fields["like"]] if "like" in _fields else {}
        _settings = {key: value for key, value in {**_like, **_fields}.items() if key not in ("about", "like")}
        _declare(_name, _fields["about"], _settings)
