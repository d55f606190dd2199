"""The answer for each task and model: the sentence on top of the page and at the end of what a terminal shows."""

from __future__ import annotations

from uproar.report.findings import answer
from uproar.report.score_findings import score_answer
from uproar.report.score_table import score_table
from uproar.report.section import sections_of
from uproar.results.scores import Scores
from uproar.results.study import Results


def headlines(results: Results) -> list[str]:
    """One sentence per task and model, which it names where there are several."""
    sections = sections_of(results)
    sentences = []
    for view, section in zip(results.views, sections, strict=True):
        scores = view.metric_scores if section.table.empty else None
        sentence = answer(section).headline if scores is None else score_headline(scores)
        sentences.append(f"{section.task} with {section.model}: {sentence}" if len(sections) > 1 else sentence)
    return sentences


def score_headline(scores: Scores) -> str:
    """What the metrics say, in a sentence."""
    return score_answer(score_table(scores)).headline
