"""Tables for LaTeX and figures as PDF: balanced, escaped, complete, of runs and of scores."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.results.test_evaluator import GAINS, KINDS
from tests.results.test_evaluator import scores_of as evaluator_of
from uproar.errors import BadInput
from uproar.report import read_scores, write_latex, write_report
from uproar.report.latex import SPECIAL, escaped
from uproar.results.quality import NetworkQuality, Prediction

from .test_score_report import scores_of

NAMES = ["random", "a_b&c%d", "x^2~{y}$", "back\\slash#"]


def commands_balance(text: str) -> bool:
    """Whether braces close, every environment ends, and nothing special stands bare."""
    bare = re.sub(r"(?m)^%.*$", "", text)
    plain = bare.replace(r"\\", "").replace(r"\{", "").replace(r"\}", "")
    begun = re.findall(r"\\begin\{(\w+)\}", bare)
    ended = re.findall(r"\\end\{(\w+)\}", bare)
    loose = re.search(r"(?<!\\)[%#_](?![^{}]*\}\s*$)", re.sub(r"\\(label|input|includegraphics)[^\n]*", "", bare))
    return plain.count("{") == plain.count("}") and sorted(begun) == sorted(ended) and loose is None


def check_folder(files: dict[str, bytes]) -> None:
    tables = [name for name in files if name.startswith("tables/")]
    figures = [name for name in files if name.startswith("figures/")]
    main = files["report.tex"].decode()
    for name in [*tables, "report.tex"]:
        text = files[name].decode()
        assert commands_balance(text), name
        heads = {line.count(" & ") for line in text.splitlines() if line.endswith(r"\\")}
        assert len(heads) <= 1, f"{name}: rows of different length"
    for name in tables:
        assert rf"\input{{{name.removesuffix('.tex')}}}" in main
        assert files[name].count(b"\\toprule") == 1
    for name in figures:
        assert files[name].startswith(b"%PDF"), name
        assert f"{{{name}}}" in main


@pytest.mark.parametrize("letter", sorted(SPECIAL))
def test_every_special_character_is_written_so_that_it_is_printed(letter):
    assert escaped(f"a{letter}b") == f"a{SPECIAL[letter]}b".replace("~", " " if letter == " " else "~")
    assert commands_balance(escaped(f"a{letter}b"))


def files_of(results, place) -> dict[str, bytes]:
    folder = write_latex(results, place).parent
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_becomes_tables_and_figures(make_cells, make_results, tmp_path):
    levels = dict(zip(NAMES, (0.8, 0.6, 0.7, 0.9), strict=True))
    quality = {("digits", "cnn"): NetworkQuality(300, 10, 0.2, 0.3)}
    files = files_of(make_results(make_cells({"roar": levels}), quality=quality), tmp_path)
    check_folder(files)
    methods = files["tables/methods.tex"].decode()
    assert r"a\_b\&c\%d" in methods and "ROAR" in methods
    main = files["report.tex"].decode()
    assert "right on 30 " in main and "figures/roar-curves.pdf" in files


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_document_compiles(make_cells, make_results, tmp_path):
    levels = dict(zip(NAMES, (0.8, 0.6, 0.7, 0.9), strict=True))
    place = write_latex(make_results(make_cells({"roar": levels})), tmp_path)
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", place.name], cwd=tmp_path, capture_output=True)
    missing = b".sty' not found" in done.stdout
    if missing:
        pytest.skip("pdflatex has no booktabs")
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]
    assert b"Overfull" not in done.stdout, "a table is wider than the page"


def test_scores_become_tables_and_figures_with_marks_on_what_is_not_reliable(tmp_path):
    levels = {"insertion": dict(zip(NAMES, (0.3, 0.8, 0.5, 0.9), strict=True))}
    levels["road"] = dict(zip(NAMES, (0.1, 0.8, 0.5, 0.9), strict=True))
    scores = scores_of(levels, curves=["insertion"], undefined={"insertion": {NAMES[3]: 4}})
    files = files_of(scores, tmp_path)
    check_folder(files)
    metrics = files["tables/methods.tex"].decode()
    assert "(0.900" in metrics and "4 of 8 undefined" in metrics
    assert "0.800 [0.790, 0.810]" in metrics
    assert r"road $\downarrow$ (not reliable here)" in metrics


def test_scores_can_be_read_back_from_their_folder(tmp_path):
    levels = {"insertion": {"random": 0.3, "grad": 0.8}, "deletion": {"random": 0.6, "grad": float("nan")}}
    scores = scores_of(
        levels,
        curves=["insertion"],
        quality=NetworkQuality(8, 10, 0.9, 0.95),
        predictions=tuple(Prediction(str(k), 0.5) for k in range(4)),
        evaluations={"answer": replace(evaluator_of(GAINS, KINDS).bits, leaks={"good": 0.5}, entropy=3.0)},
    )
    write_report(scores, tmp_path)
    again = read_scores(tmp_path)
    pd.testing.assert_frame_equal(again.table, scores.table, check_dtype=False)
    pd.testing.assert_frame_equal(again.comparisons, scores.comparisons, check_dtype=False)
    assert (again.quality, again.predictions) == (scores.quality, scores.predictions)
    assert again.answer.lines == scores.answer.lines
    pd.testing.assert_frame_equal(again.evaluators["answer"].table, scores.evaluators["answer"].table)
    bits = again.evaluations["answer"]
    assert (bits.leaks, bits.entropy) == ({"good": 0.5}, 3.0)
    assert np.abs(again.images - scores.images).max() < 1e-3
    first = (tmp_path / "report.html").read_text("utf-8")
    write_report(again, tmp_path / "again")
    second = (tmp_path / "again" / "report.html").read_text("utf-8")
    pixels = r"data:image/[\w;,+/=]*"
    assert re.sub(pixels, "", second) == re.sub(pixels, "", first)
    assert write_latex(again, tmp_path / "tex").name == "report.tex"
    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(BadInput, match="cannot be read"):
        read_scores(tmp_path)
