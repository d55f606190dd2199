"""The answer for each task and model: the sentence on top of the page and at the end of what a terminal shows."""

from __future__ import annotations

from uproar.report.findings import Answer, answer
from uproar.report.formatting import clean
from uproar.report.score_board import board_of
from uproar.report.score_findings import answer as score_answer
from uproar.report.slices import Section, sections_of
from uproar.results.scores import Scores
from uproar.results.study import Results


def answer_of(results: Results, section: Section) -> Answer:
    """What the retrained networks say; where none were trained, what the metrics say."""
    scores = scores_of(results, section)
    if section.table.empty and scores is not None:
        return score_answer(board_of(scores, section.looks))
    return answer(section)


def scores_of(results: Results, section: Section) -> Scores | None:
    """What the metrics say for a task and model, if any were asked."""
    for (task, model), scores in results.judged.items():
        if (clean(task), clean(model)) == (section.task, section.model):
            return scores
    return None


def headlines(results: Results) -> list[str]:
    """One sentence per task and model, which it names where there are several."""
    sections = sections_of(results)
    return [
        f"{section.task} with {section.model}: {answer_of(results, section).headline}"
        if len(sections) > 1
        else answer_of(results, section).headline
        for section in sections
    ]


def score_headline(scores: Scores) -> str:
    """What the metrics say, in a sentence."""
    return score_answer(board_of(scores)).headline
