"""The answer for each task and model: the sentence on top of the page and at the end of what a terminal shows."""

from __future__ import annotations

from uproar.report.findings import answer
from uproar.report.formatting import clean
from uproar.report.score_findings import score_answer
from uproar.report.score_table import score_table
from uproar.report.section import Section, sections_of
from uproar.results.scores import Scores
from uproar.results.study import Results


def headlines(results: Results) -> list[str]:
    """One sentence per task and model, which it names where there are several."""
    sections = sections_of(results)
    sentences = [_headline(results, section) for section in sections]
    if len(sections) < 2:
        return sentences
    return [f"{s.task} with {s.model}: {sentence}" for s, sentence in zip(sections, sentences, strict=True)]


def _headline(results: Results, section: Section) -> str:
    """What the retrained networks say; where none were trained, what the metrics say."""
    scores = {(clean(task), clean(model)): one for (task, model), one in results.metric_scores.items()}
    own = scores.get((section.task, section.model))
    return score_headline(own) if section.table.empty and own is not None else answer(section).headline


def score_headline(scores: Scores) -> str:
    """What the metrics say, in a sentence."""
    return score_answer(score_table(scores)).headline
