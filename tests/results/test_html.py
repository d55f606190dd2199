"""Results in a notebook: every object shows its sentence and its table, and no text of a user becomes markup."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import uproar
from uproar.errors import BadShape
from uproar.results.finding import Finding
from uproar.results.html import ROWS, table_html
from uproar.study.progress import NotebookLine, Progress, in_notebook, notebook_listener

from ..report.test_score_report import scores_of
from .test_view import LEVELS, cells, results


class Balanced(HTMLParser):
    """Notes text and the tags that are open; a stray end is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_an_answer_shows_its_sentence_its_table_and_its_details():
    answer = scores_of({"insertion": {"random": 0.3, "ig": 0.8, "grad": 0.5}}).answer
    shown = Balanced(answer._repr_html_())
    assert answer.sentence in shown.text
    assert all(detail in shown.text for detail in answer.details)
    assert {"table", "li"} <= shown.tags and "better" in shown.text


def test_scores_have_a_row_per_method_and_a_column_per_metric():
    scores = scores_of({"insertion": {"random": 0.3, "ig": 0.8}, "deletion": {"random": 0.5, "ig": 0.25}})
    shown = Balanced(scores._repr_html_())
    assert shown.text.index("insertion") < shown.text.index("deletion")
    assert "0.8 [0.79, 0.81]" in shown.text and "0.25 [0.24, 0.26]" in shown.text


def test_a_run_shows_answer_verdicts_findings_and_what_failed():
    broken = cells("roar", {"cam": 0.5}).assign(status="failed", accuracy=np.nan, reason="no <layer>")
    made = results(cells("roar", LEVELS), broken)
    shown = Balanced(made._repr_html_())
    assert made.answer.sentence in shown.text
    assert "better than random" in shown.text and "advantage" in shown.text
    assert "no <layer>" in shown.text and "layer" not in shown.tags


def test_a_finding_shows_question_state_sentence_and_tables():
    finding = Finding(
        "misleads", "Blur explains <9> of 10.", tables={"areas": pd.DataFrame({"a": [0.12345]})}, audit="blur"
    )
    shown = Balanced(finding._repr_html_())
    assert "blur: misleads. Blur explains <9> of 10." in shown.text
    assert "areas" in shown.text and "0.123" in shown.text


def test_on_a_terminal_each_is_one_line_with_its_sentence():
    scores = scores_of({"insertion": {"random": 0.3, "ig": 0.8}})
    made = results(cells("roar", LEVELS))
    assert repr(scores) == f"<Scores of 2 methods by 1 metric: {scores.answer.sentence}>"
    assert repr(scores.answer) == f"<Answer: {scores.answer.sentence}>"
    assert repr(made) == f"<Results, 45 of 45 cells done: {made.answer.sentence}>"
    assert repr(Finding("holds", "It does.", audit="blur")) == "<Finding of blur, holds: It does.>"


def test_a_long_table_is_cut_and_says_so():
    assert "and 2 more rows" in table_html(pd.DataFrame({"n": range(ROWS + 2)}))
    assert "more rows" not in table_html(pd.DataFrame({"n": range(ROWS)}))


def test_maps_are_shown_as_a_picture_and_saved(tmp_path):
    images, maps = np.random.rand(3, 1, 8, 8), {"grad": np.random.rand(3, 8, 8)}
    sheet = uproar.show(images, maps, limit=2)
    assert len(sheet.images) == len(sheet.titles) == 2
    assert sheet._repr_png_().startswith(b"\x89PNG")
    assert sheet.save(tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadShape, match=r"Maps 'map' of shape \(3, 7, 8\) do not fit images"):
        uproar.show(images, np.zeros((3, 7, 8)))
    with pytest.raises(BadShape, match="3 images and 1 titles"):
        uproar.show(images, maps, ["one"])


class Notebook(ModuleType):
    """What a notebook's IPython offers; `drawn` has every content of the line."""

    def __init__(self, kernel: object) -> None:
        super().__init__("IPython")
        self.drawn: list[str] = []
        self.begun = 0
        self.get_ipython = lambda: SimpleNamespace(kernel=kernel)
        self.display = SimpleNamespace(HTML=str, display=self._display)

    def _display(self, content, display_id):
        self.begun += 1
        self.drawn.append(content)
        return SimpleNamespace(update=self.drawn.append)


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook(object())
    monkeypatch.setitem(sys.modules, "IPython", made)
    return made


def test_progress_is_one_line_of_a_notebook_that_ends_with_the_last_word(notebook):
    listen, state = notebook_listener(), Progress(total=3)
    for done in range(4):
        state.done = done
        listen(state)
    assert notebook.begun == 1
    assert "0/3 results" in notebook.drawn[0]
    assert notebook.drawn[-1].endswith("3/3 results") and 'value="1.000"' in notebook.drawn[-1]


def test_outside_a_notebook_nothing_is_shown(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    NotebookLine().say("anything", last=True)
    terminal = Notebook(None)  # IPython in a terminal has no kernel
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    NotebookLine().say("anything", last=True)
    assert terminal.begun == 0
