"""The studies that come with the package: all are read, the tiny ones run."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from uproar.cli.app import _exit_code
from uproar.errors import BadInput, UproarError
from uproar.papers.claims import claims_named, papers_with_claims
from uproar.results.claim_outcome import OUTCOMES
from uproar.study.grid import accuracies_of, settings_of
from uproar.study.spec import shipped_studies, study_named, study_of, summary

STUDIES = shipped_studies()
PAPERS = papers_with_claims()
TINY = [name for name in STUDIES if name.endswith("-tiny")]


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """A place where no data set can be found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UPROAR_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_every_paper_has_a_study_of_every_size():
    for paper in PAPERS:
        for size in ("tiny", "laptop", "paper"):
            mine = [n for n in STUDIES if n.startswith(paper) and n.endswith(f"-{size}")]
            assert mine, (paper, size)
            assert paper in study_of(STUDIES[mine[0]]).claims


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_read_and_says_what_it_is(name):
    study = study_named(name)
    assert study.name == name
    assert 60 < len(summary(STUDIES[name].read_text(encoding="utf-8"))) < 500


def test_a_study_is_found_by_name_and_by_path(no_data):
    assert study_named("hooker2019-tiny") == study_of(STUDIES["hooker2019-tiny"])
    with pytest.raises(UproarError, match="hooker2019-tiny"):
        study_named("hooker2019-tyni")
    with pytest.raises(BadInput, match="Cannot read the study"):
        study_named("nope.toml")


def test_random_alone_is_removed_further():
    study = study_of(
        {
            "estimators": ["random", "grad"],
            "fractions": [0.5],
            "random_fractions": 0.9,
            "seeds": 1,
            "metrics": ["roar", "kar"],
        }
    )
    (setting,) = settings_of(study)
    cells = {(c.metric, c.estimator, c.fraction) for c in accuracies_of(study, setting)}
    assert cells == {(p, e, 0.5) for p in ("roar", "kar") for e in ("random", "grad")} | {("roar", "random", 0.9)}
    with pytest.raises(BadInput, match=r"fraction 0.5 is listed twice"):
        study.with_changes(random_fractions=(0.5,))


def test_running_without_the_weights_is_refused_before_anything_is_written(no_data, capsys):
    assert _exit_code(["run", "li2024-laptop"]) == 2
    assert "no file resnet20-12fca82f.th: give it as --weights FILE" in capsys.readouterr().err
    assert not (no_data / "runs").exists()


def test_a_reduced_study_runs_and_its_claims_reach_everything(tmp_path, monkeypatch, capsys):
    """hooker2019-tiny with fewer images, estimators and seeds: Run.claims, the page, claims.csv, `uproar report --claims`."""
    monkeypatch.chdir(tmp_path)
    given = [
        "run",
        "hooker2019-tiny",
        "--estimators",
        "random,grad,sg_sq(grad, samples=2)",
        "--seeds",
        "2",
        "--limit",
        "100",
        "--epochs",
        "1",
        "--metrics",
        "roar,kar",
        "--jobs",
        "1",
        "--out",
        "here",
    ]
    assert _exit_code(given) == 0
    claims = len(claims_named(["hooker2019"]))
    said = capsys.readouterr().out.replace("\n", " ")
    page = (tmp_path / "here" / "report.html").read_text()
    assert "Claims of papers" in page
    assert "hooker2019:sg-sq" in page
    table = (tmp_path / "here" / "claims.csv").read_text()
    names = set(re.findall(r"^hooker2019:[\w-]+", table, re.M))
    assert len(names) == claims
    assert re.search(r"(?m)^hooker2019:sg-sq,.* in part,", table)  # only one of the three forms is in this study
    assert f"{len(names)} claims of Hooker et al. 2019" in said
    assert _exit_code(["report", "here", "--claims", "hooker2019:random-90"]) == 0
    assert "random-90" in capsys.readouterr().out
    assert _exit_code(["report", "here", "--claims", "nobody"]) == 2


SPURIOUS = {"li2024:cue-retrained", "li2024:cue-original", "li2024:cue-clean"}
MARKS = {"li2024:rect", "li2024:pooling", "li2024:rect-road-marked", "li2024:rect-road-real"}
MARKS |= {"li2024:cam-marked", "li2024:cam-real"}
SYNTHETIC = {f"li2024:synthetic-{what}" for what in ("completeness", "soundness", "removed", "introduced")}
LAPTOP = {"hooker2019:edges", "li2024:no-best-in-both", "vandersmissen2023:blur-fill", "vandersmissen2023:pointing-lrp"}
"""Claims about estimators or settings that the tiny studies leave out."""


def _names(paper: str) -> set[str]:
    return {one.name for one in claims_named([paper])}


def asked_in(name: str) -> set[str]:
    """The claims that a tiny study can decide; Li et al. have three studies."""
    parts = {
        "li2024-spurious-tiny": SPURIOUS | SYNTHETIC,
        "li2024-marks-tiny": MARKS | SYNTHETIC,
        "li2024-tiny": (_names("li2024") - SPURIOUS - MARKS - LAPTOP) | {"li2024:cam-real"},
    }
    return parts[name] if name in parts else _names(name.removesuffix("-tiny")) - LAPTOP


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_of_a_paper_is_asked_by_one_of_its_tiny_studies(paper):
    mine = [asked_in(name) for name in TINY if name.startswith(paper)]
    assert set.union(*mine) | (LAPTOP & _names(paper)) == _names(paper)


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_tiny_studies_run_whole(name, tmp_path, commands):
    """As a person runs them, with fewer images, epochs and replicates.

    Every cell is done, every claim has its number or a reason, on screen, in the table, on the page.
    """
    less = ["--limit", "100", "--epochs", "1", "--seeds", str(min(2, len(study_named(name).seeds)))]
    if name == "li2024-tiny":  # soundness is defined where the network is right on enough images
        less = []
    done = commands.piped(["run", name, *less, "--jobs", "1", "--out", "."], tmp_path, timeout=600)
    assert done.code == 0, done.errors
    said = re.sub(r"\s+", " ", done.text)
    paper = name.partition("-")[0]
    assert re.search(rf"\d+ claims of {re.escape(PAPERS[paper])}: ", said)

    table = pd.read_csv(tmp_path / "claims.csv")
    assert {*table["claim"]} == _names(paper)
    rest = table[table["outcome"] == "not tested"]
    assert set(rest["claim"]) == _names(paper) - asked_in(name)
    assert all(len(reason) > 10 for reason in rest["reason"])

    decided = table[table["decides"]]
    assert {*decided["claim"]} == asked_in(name)
    assert set(decided["outcome"]) <= {*OUTCOMES} - {"not tested"}
    assert (decided["outcome"].str.endswith(" in part") == decided["reason"].notna()).all()
    assert decided["n"].ge(1).all()
    assert np.isfinite(decided["effect"]).all()
    ends = decided[~decided["outcome"].str.startswith("undecided")]
    assert (ends["low"] <= ends["effect"]).all()
    assert (ends["effect"] <= ends["high"]).all()

    page = (tmp_path / "report.html").read_text()
    assert "Claims of papers" in page
    assert all(claim in page for claim in _names(paper))
    study, status = study_named(name), []
    assert (tmp_path / "results.csv").is_file() == bool(study.retrainings)
    if study.retrainings:
        status += [*pd.read_csv(tmp_path / "results.csv")["status"]]
    if study.metric_names:
        scores = pd.read_csv(tmp_path / "scores.csv").query("estimator != 'block_random_free'")  # it has no map
        status += [*scores["status"]]
    assert set(status) == {"done"}
