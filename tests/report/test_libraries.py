"""The light installation: without what draws, tables are written, and one sentence says what to install."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from uproar.errors import BadInput
from uproar.report import files as libraries
from uproar.report import write_latex, write_report
from uproar.report.files import MissingLibraries
from uproar.report.mapsheet import show

from ..results.test_view import LEVELS, cells, results
from .test_score_report import scores_of

SENTENCE = r"needs no_such_library, which is not installed: pip install 'uproar\[report\]'\."


@pytest.fixture
def light(monkeypatch):
    monkeypatch.setattr(libraries, "NEEDED", ("matplotlib", "no_such_library"))


@pytest.mark.usefixtures("light")
def test_a_study_is_written_as_tables(tmp_path):
    made = results(cells("roar", LEVELS))
    with pytest.warns(MissingLibraries, match=SENTENCE):
        path = write_report(made, tmp_path)
    assert path == tmp_path / "results.csv"
    again = pd.read_csv(io.BytesIO(path.read_bytes()))
    assert again["accuracy"].tolist() == made.cells["accuracy"].tolist()
    assert pd.read_csv(tmp_path / "verdicts.csv")["verdict"].tolist() == made.verdicts["verdict"].tolist()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.usefixtures("light")
def test_scores_are_written_as_tables(tmp_path):
    scores = scores_of({"insertion": {"random": 0.3, "ig": 0.8}})
    with pytest.warns(MissingLibraries, match=SENTENCE):
        assert write_report(scores, tmp_path) == tmp_path / "scores.csv"
    assert len(pd.read_csv(tmp_path / "per_image.csv")) == len(scores.per_image)


@pytest.mark.usefixtures("light")
def test_what_is_only_a_picture_is_refused_in_a_sentence(tmp_path):
    scores = scores_of({"insertion": {"random": 0.3, "ig": 0.8}})
    with pytest.raises(BadInput, match=f"A report for LaTeX {SENTENCE}"):
        write_latex(scores, tmp_path)
    with pytest.raises(BadInput, match=f"A picture of maps {SENTENCE}"):
        show(scores.images, scores.maps)._repr_png_()
