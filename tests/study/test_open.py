"""`uproar.open`: what a folder or a store has of a run, in Python as on the command line."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import uproar
from uproar.cli.app import _exit_code
from uproar.errors import BadInput
from uproar.results.scores import Scores

STUDY = """
name = "mine"
task = "planted(size=8, classes=3, train=60, test=30)"
model = "cnn-small(width=4)"
estimators = ["random", "grad"]
metrics = ["roar", "deletion"]
claims = ["hooker2019"]
fractions = [0.2, 0.6]
seeds = 2
recipe = {epochs = 1, batch = 16}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a study file, and the run of it by the command line."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("open")
        patch.chdir(root)
        (root / "mine.toml").write_text(STUDY)
        assert _exit_code(["run", "mine.toml", "--jobs", "1"]) == 0
        yield root


def test_a_run_is_opened_from_its_folder_as_the_command_line_reads_it(folder):
    run = uproar.open(folder / "runs/mine")
    assert isinstance(run, uproar.Run)
    table = pd.read_csv(folder / "runs/mine/results.csv")
    assert run.cells["accuracy"].tolist() == table["accuracy"].tolist()
    assert run.verdicts["low"].tolist() == pd.read_csv(folder / "runs/mine/verdicts.csv")["low"].tolist()
    assert run.claims
    assert run.provenance["command"].startswith("uproar")
    page = run.report()
    assert page == folder / "runs/mine/report.html" and page.is_file()
    assert run.report(folder / "paper", "latex").is_file()
    assert run.report(folder / "kept", "markdown").is_file()
    with pytest.raises(BadInput, match="html, markdown or latex, not 'pdf'"):
        run.report(folder / "other", "pdf")


def test_a_run_is_read_from_its_store_alone(folder):
    from_folder = uproar.open(folder / "runs/mine")
    for opened in (
        uproar.open(folder / "runs/mine/store"),
        uproar.open(folder / "mine.toml", store=folder / "runs/mine/store"),
        uproar.open(uproar.study_of(folder / "mine.toml"), store=folder / "runs/mine/store"),
    ):
        assert opened.cells["accuracy"].tolist() == from_folder.cells["accuracy"].tolist()
        assert opened.verdicts.equals(from_folder.verdicts)
    shutil.copytree(folder / "runs/mine/store", folder / "alone")
    with pytest.raises(BadInput, match="does not say of which study"):
        uproar.open(folder / "alone")
    with pytest.raises(BadInput, match="Say where the results of mine are"):
        uproar.open(folder / "mine.toml")
    with pytest.raises(BadInput, match="Nothing of mine is finished in"):
        uproar.open(folder / "mine.toml", store=folder / "empty")
    with pytest.raises(BadInput, match="was not opened from a folder"):
        uproar.open(folder / "mine.toml", store=folder / "runs/mine/store").report()


def test_audits_are_asked_of_a_run_that_was_opened(folder):
    run = uproar.open(folder / "runs/mine")
    audited = run.audit("blur", jobs=1)
    assert [finding.audit for finding in audited.findings] == ["blur"]
    assert audited.folder == run.folder and audited.provenance["command"] == run.provenance["command"]
    assert [one.sentence for one in uproar.audit(run, "blur", jobs=1)] == [one.sentence for one in audited.findings]


def test_a_run_that_was_stopped_opens_with_what_is_finished(folder):
    shutil.copytree(folder / "runs/mine", folder / "half")
    cells = sorted(file for file in (folder / "half/store/cell").rglob("*") if file.is_file())
    for file in cells[::2]:
        file.unlink()
    run = uproar.open(folder / "half")
    assert 0 < (run.cells["status"] == "done").sum() < len(run.cells)


def test_a_folder_of_scores_gives_the_scores(folder, monkeypatch):
    monkeypatch.chdir(folder)
    options = ["--task", "digits", "--model", "cnn-small(width=4)", "--limit", "4"]
    assert (
        _exit_code(["score", *options, "--estimators", "grad,sobel", "--metrics", "deletion", "--out", "scored"]) == 0
    )
    scores = uproar.open("scored")
    assert isinstance(scores, Scores)
    assert set(scores.table["method"]) >= {"grad", "sobel"}


def test_a_run_of_another_torch_is_refused_in_a_sentence_not_empty(folder, monkeypatch):
    monkeypatch.setattr("uproar.study.record.torch_version", lambda: "9.9.9")
    with pytest.raises(BadInput, match="are of torch .*, and this is torch 9.9.9"):
        uproar.open(folder / "runs/mine")


def test_what_is_no_run_is_refused_in_a_sentence(folder, tmp_path):
    for wrong in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match="is not the folder of a run: it has no readable run.json"):
            uproar.open(wrong)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(BadInput, match="damaged"):
        uproar.open(tmp_path)


def test_the_page_of_a_study_is_no_run_and_no_scores_of_maps(tmp_path, capsys):
    """`results.report(folder)` of a study with metrics writes scores.csv, too."""
    for name in ("report.html", "results.csv", "scores.csv"):
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput, match=r"holds the page of a study \(results.report\), not its run"):
        uproar.open(tmp_path)
    assert _exit_code(["report", str(tmp_path)]) == 2
    assert "give the folder of the run" in " ".join(capsys.readouterr().err.split())


def test_python_files_that_a_folder_names_run_only_on_request(folder, tmp_path):
    shutil.copytree(folder / "runs/mine", tmp_path / "got")
    file = tmp_path / "got/run.json"
    content = json.loads(file.read_text())
    plugin = Path(tmp_path / "own.py")
    plugin.write_text("def own(model, x, target):\n    return x.sum(1)\n")
    content["study"]["plugins"] = [str(plugin)]
    file.write_text(json.dumps(content))
    with pytest.raises(BadInput, match="which reading it would run.*trust=True"):
        uproar.open(tmp_path / "got")
    assert len(uproar.open(tmp_path / "got", trust=True).cells)
