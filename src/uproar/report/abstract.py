"""What a paper would say of a run: a paragraph of plain text, how to cite the program, and the answer as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from uproar.errors import UproarError
from uproar.estimators import estimators
from uproar.expression import parse
from uproar.metrics import metrics
from uproar.metrics.registry import family_of
from uproar.report import latex, markdown
from uproar.report.formatting import NOTHING, clean, known, number
from uproar.results.answer import Answer
from uproar.results.judges import QUESTIONS, Judge, kind_of_metric
from uproar.results.quality import NetworkQuality
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.results.view import StudyView
from uproar.statistics.design import ALPHA
from uproar.wording import series

TITLE = "uproar: which attribution method can be trusted, and can the benchmark that says so be trusted?"
ROAR = "Hooker et al. 2019"


@dataclass(frozen=True)
class Abstract:
    """A paragraph for a paper with a citation, and the answer as a table in two languages."""

    text: str
    bibtex: str
    tables: tuple[str, ...]
    """The answer of every task and model, as LaTeX."""
    markdown: str

    @property
    def latex(self) -> str:
        """All tables."""
        return "\n\n".join(self.tables)

    @property
    def parts(self) -> dict[str, str]:
        """What can be copied, by name."""
        every = {"Abstract": self.text, "BibTeX": self.bibtex, "LaTeX": self.latex, "Markdown": self.markdown}
        return {name: content for name, content in every.items() if content}


def study_abstract(results: Results) -> Abstract:
    """The abstract of a study; a paragraph per task and model."""
    answers = [view.answer for view in results.views]
    texts = [_joined(_study_sentences(view)) for view in results.views]
    return _abstract(texts, answers)


def score_abstract(scores: Scores) -> Abstract:
    """The abstract of scores of maps."""
    answer = scores.answer
    compared = f"We compared the attribution methods {_cited(answer.methods)} on the maps of one network."
    sentences = [compared, *_network(scores.quality), *_judged(answer), *_found(answer)]
    return _abstract([_joined(sentences)], [answer])


def _abstract(texts: Sequence[str], answers: Sequence[Answer]) -> Abstract:
    tables = [answer for answer in answers if answer.methods]
    return Abstract(
        "\n\n".join([*texts, f"Computed with uproar {_version()}."]),
        bibtex(),
        tuple(_latex(answer, place) for place, answer in enumerate(tables, 1)),
        "\n\n".join(_markdown(answer) for answer in tables),
    )


def bibtex() -> str:
    """How to cite this program, in its version."""
    lines = [
        "@software{uproar,",
        f"  title = {{{TITLE}}},",
        "  author = {{The uproar maintainers}},",
        f"  version = {{{_version()}}},",
        "}",
    ]
    return "\n".join(lines)


def _version() -> str:
    return metadata.version("uproar")


# the paragraph


def _study_sentences(view: StudyView) -> list[str]:
    """Methods, data, network, judges, statistics, results, limits: a sentence or two of each."""
    answer, study = view.answer, view.results.study
    classes = view.results.provenance.get("classes", {})
    images = int(view.own(view.results.done)["images"].max()) if len(view.own(view.results.done)) else 0
    size = f" ({images} test images{_classes(classes, view.task)})" if images else ""
    compared = f"We compared the attribution methods {_cited(answer.methods)} on {view.task}{size} for {view.model}."
    return [compared, *_network(view.quality), *_removal(study), *_judged(answer), *_found(answer)]


def _classes(classes: Any, task: str) -> str:
    known_number = classes.get(task) if isinstance(classes, Mapping) else None
    return f" of {known_number} classes" if known_number else ""


def _network(quality: NetworkQuality | None) -> list[str]:
    if quality is None:
        return []
    return [f"Explained n{quality.sentence[1:]}", *([quality.warning] if quality.warning else [])]


def _removal(study: Mapping[str, Any]) -> list[str]:
    """Which shares of the pixels were taken away, and what came in their place."""
    kinds = {"evaluator_fractions" if p.startswith("evaluator") else "fractions" for p in study.get("protocols", ())}
    shares = [number(100 * t) for t in sorted({float(t) for kind in kinds for t in study.get(kind, ())})]
    if not shares:
        return []
    return [f"Of every image {series(shares)} % of the pixels were removed or kept (fill: {study.get('fill')})."]


def _judged(answer: Answer) -> list[str]:
    """Who judged, against what, with which statistics."""
    voting = [judge for judge in answer.judges if judge.votes]
    if not voting:
        return ["No judge was able to tell methods apart here."]
    names = series([f"{judge.label} ({_behind(judge)})" for judge in voting])
    asked = answer.deciding[0]
    return [
        f"Judges were {names}; {series([judge.label for judge in answer.deciding])} decided, asking "
        f"{QUESTIONS[asked.question]}.",
        f"The bar was the best of the rankings that never look at the network ({series(answer.controls)}).",
        f"Differences are paired, intervals hold 95 %, p is adjusted by Holm's procedure over the pairs of each judge "
        f"(family-wise error rate {number(100 * ALPHA)} %).",
    ]


def _behind(judge: Judge) -> str:
    """The paper of a judge, where there is one, and what its numbers rest on."""
    paper = ROAR if judge.kind == "retrained" else ""
    if kind_of_metric(judge.name) is not None:
        paper = _paper_in(metrics, [family_of(parse(judge.name).name)])
    return "; ".join(part for part in (paper, judge.basis) if part)


def _found(answer: Answer) -> list[str]:
    """The answer, the letters, the numbers behind them, and which judges could not judge."""
    sentences = [answer.sentence.replace("`", "")]
    if len(answer.letters) > 1:
        letters = ", ".join(f"{method} ({own})" for method, own in answer.letters.items())
        sentences.append(f"Methods that share a letter are not significantly different: {letters}.")
    sentences += [words for judge in answer.deciding if (words := _leads(answer, judge))]
    unable = [f"{judge.label}: {judge.unable.rstrip('.')}" for judge in answer.judges if judge.unable]
    return [*sentences, *([f"Unable to judge here: {'; '.join(unable)}."] if unable else [])]


def _leads(answer: Answer, judge: Judge) -> str:
    """How far each method lies ahead of the best network-free ranking under a judge."""
    controls = [name for name in judge.values if name in answer.controls]
    if not controls:
        return ""
    bar = max(controls, key=lambda name: judge.values[name])
    words = [f"{method} {lead}" for method in answer.methods if (lead := _lead(judge, method, bar))]
    unit = {"evaluator": "bits", "of answers": "bits", "retrained": "accuracy"}.get(judge.kind, "its own unit")
    return f"Lead over {bar} under {judge.label} ({unit}): {', '.join(words)}." if words else ""


def _lead(judge: Judge, method: str, bar: str) -> str:
    pair, sign = judge.pairs.get((method, bar)), 1
    if pair is None:
        pair, sign = judge.pairs.get((bar, method)), -1
    if pair is None or not known(pair.lead.value):
        return ""
    low, high = sorted((sign * pair.lead.low, sign * pair.lead.high))
    interval = f" [{low:.3g}, {high:.3g}]" if known(low) and known(high) else ""
    return f"{sign * pair.lead.value:+.3g}{interval}"


def _cited(methods: Iterable[str]) -> str:
    """Methods with the papers they come from."""
    named = []
    for method in methods:
        paper = _paper_in(estimators, _called(method))
        named.append(f"{clean(method)} ({paper})" if paper else clean(method))
    return series(named) or "none"


def _called(method: str) -> list[str]:
    """The estimators and transforms that a method is made of; none where it is only a name."""
    try:
        return [call.name for call in parse(method).walk()]
    except UproarError:
        return []


def _paper_in(registry: Any, names: Iterable[str]) -> str:
    there = [str(registry[name].facts.get("paper") or "") for name in names if name in registry]
    return "; ".join(dict.fromkeys(paper for paper in there if paper))


def _joined(sentences: Iterable[str]) -> str:
    return " ".join(clean(sentence).strip() for sentence in sentences if sentence)


# the table


def _latex(answer: Answer, place: int) -> str:
    heads = ["group", "method", *(latex.escaped(judge.label) for judge in answer.judges), "flags"]
    rows = [
        [answer.group_of(method) or "--", latex.code(method), *map(latex.escaped, _placed(answer, method))]
        for method in answer.methods
    ]
    return latex.latex_table(heads, rows, latex.escaped(_caption(answer)), f"answer-{place}")


def _markdown(answer: Answer) -> str:
    heads = ["group", "method", *(markdown.text(judge.label) for judge in answer.judges), "flags"]
    rows = [
        [answer.group_of(method) or NOTHING, markdown.code(method), *map(markdown.text, _placed(answer, method))]
        for method in answer.methods
    ]
    return f"{markdown.table(heads, rows)}\n\n{markdown.text(_caption(answer))}"


def _placed(answer: Answer, method: str) -> list[str]:
    """A method under every judge, then what was found against it."""
    placings = [answer.placing(method, judge) for judge in answer.judges]
    words = [NOTHING if one is None else one.level for one in placings]
    return [*words, answer.flag_words(method) or NOTHING]


def _caption(answer: Answer) -> str:
    where = f" on {answer.task} with {answer.model}" if answer.task else ""
    return (
        f"Methods{where}, each against the best ranking that ignores the network; methods that share a letter are not "
        f"significantly different. {answer.sentence.replace('`', '')}"
    )
