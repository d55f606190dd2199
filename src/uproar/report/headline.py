"""The answer for each task and model: the sentence on top of the page and at the end of what a terminal shows."""

from __future__ import annotations

from uproar.report.formatting import clean
from uproar.results.scores import Scores
from uproar.results.study import Results


def headlines(results: Results) -> list[str]:
    """One sentence per task and model, which it names where there are several."""
    several = len(results.views) > 1
    where = [f"{view.task} with {view.model}: " * several for view in results.views]
    return [clean(place + view.answer.sentence) for place, view in zip(where, results.views, strict=True)]


def score_headline(scores: Scores) -> str:
    """The answer that scores give, in a sentence."""
    return clean(scores.answer.sentence)
