"""Audits as parts of a study: they run what they need once, answer in a sentence, and say why when they cannot."""

from __future__ import annotations

import pytest

import uproar
from uproar.audits import audit, audits, read_audit
from uproar.cli import main
from uproar.errors import BadInput, NotApplicable
from uproar.results.finding import Finding
from uproar.study.audit import audit_requests, needed_studies

SMALL = {
    "name": "small",
    "tasks": "planted(size=8, classes=3, train=60, test=30)",
    "models": "cnn-small",
    "estimators": ["grad"],
    "metrics": ["roar"],
    "fractions": [0.3, 0.7],
    "seeds": 2,
    "recipe": {"epochs": 2},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all tests: what the study and the audit of geometry need is computed once."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def declared():
    """Audits declared in a test are gone after it."""
    before = {name: audits[name] for name in audits}
    yield
    audits._entries.clear()
    audits._entries.update(before)


def test_a_study_runs_what_its_audits_need_and_only_once(store):
    run = uproar.run({**SMALL, "audits": ["geometry"]}, store=store, jobs=1)
    (result,) = run.findings
    assert (result.audit, result.task, result.model) == ("geometry", SMALL["tasks"], "cnn-small")
    assert result.state in ("misleads", "cannot tell")
    assert "block_random" not in set(run.cells["estimator"])
    totals = []
    again = uproar.run(
        {**SMALL, "audits": ["geometry"]},
        store=store,
        jobs=1,
        listen=lambda state: totals.append((state.study, state.cached, state.total)),
    )
    assert totals == [("small", 8, 8), ("audit geometry: shapes", 8, 8)]
    assert again.findings[0].sentence == result.sentence


def test_an_audit_after_a_run_equals_one_within_it(store):
    run = uproar.run(SMALL, store=store, jobs=1)
    assert run.findings == ()
    (finding,) = uproar.audit(run, "geometry", jobs=1)
    within = uproar.run({**SMALL, "audits": "geometry"}, store=store, jobs=1)
    assert finding.sentence == within.findings[0].sentence


def test_without_names_nothing_is_trained_and_a_warning_names_what_would_be(tmp_path, declared, monkeypatch):
    @audit(title="Free", question="Is it free?")
    def free(evidence):
        """Needs nothing."""
        return Finding("holds", "Fine.")

    monkeypatch.setattr("uproar.audits.audits", {name: audits[name] for name in ("geometry", "free")})
    run = uproar.run(SMALL, store=tmp_path, jobs=1)
    before = len(list(tmp_path.rglob("*.safetensors")))
    with pytest.warns(UserWarning, match=r'not run: geometry \(\d+\)\. Ask .* uproar.audit\(run, "geometry"\)'):
        finding = uproar.audit(run, jobs=1)
    assert [one.audit for one in finding] == ["free"]
    assert len(list(tmp_path.rglob("*.safetensors"))) == before


def test_equal_studies_of_two_audits_are_run_once(declared):
    def same(study):
        return {"twins": study.with_changes(estimators=("random", "block_random"), metrics=("roar",))}

    for name in ("first", "second"):
        function = lambda evidence: Finding("holds", "Fine.")  # noqa: E731
        function.__name__ = name
        audit(title=name, question="?", studies=same)(function)
    every = audit_requests(uproar.Study(**{**SMALL, "audits": ("first", "second")}))
    assert list(needed_studies(every)) == ["first: twins"]


def test_an_audit_that_does_not_apply_is_skipped_with_its_reason(store, declared):
    @audit(title="Boxes", question="Are there boxes?")
    def boxes(evidence):
        """Needs boxes."""
        raise NotApplicable("digits has no boxes; use a task with boxes, e.g. planted")

    run = uproar.run({**SMALL, "audits": ["boxes", "geometry"], "seeds": 1}, store=store, jobs=1)
    reasons = {result.audit: (result.state, result.sentence) for result in run.findings}
    assert reasons["boxes"] == ("skipped", "Not answered: digits has no boxes; use a task with boxes, e.g. planted.")
    assert reasons["geometry"][0] == "skipped"
    assert "at least 2 seeds" in reasons["geometry"][1]


def test_unknown_audits_and_options_are_refused():
    with pytest.raises(BadInput, match="Did you mean .*geometry"):
        read_audit("geometri")
    with pytest.raises(BadInput, match="takes no option"):
        uproar.Study(audits=("geometry(sides=3)",))


def test_the_command_says_the_cost_first_and_adds_the_answer_to_the_run(tmp_path, capsys):
    study = tmp_path / "small.toml"
    study.write_text(
        'task = "planted(size=8, classes=3, train=60, test=30)"\nestimators = ["grad"]\n'
        'metrics = ["roar"]\nfractions = [0.5]\nseeds = 2\nrecipe = { epochs = 1 }\n'
    )
    folder = tmp_path / "out"
    for command in (
        ["run", str(study), "--out", str(folder), "--jobs", "1"],
        ["audit", str(folder), "--audits", "geometry", "--dry-run", "--jobs", "1"],
        ["audit", str(folder), "--audits", "geometry", "--jobs", "1"],
        ["report", str(folder)],
    ):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert end.value.code == 0
        said = capsys.readouterr().out
        assert ("Shape of the holes" in said) is (
            command[0] == "report" or ("--dry-run" not in command and command[0] == "audit")
        )
        assert ("geometry: 2 new results, at most about" in said) is (command[0] == "audit")
        assert ("1 audit: 2 new results, at most about" in said) is (command[0] == "audit")
