"""A paper that a user's plug-in file declares: its claim, recipe, figure and study are like those of the package."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import uproar
from tests.papers.made import MODEL, TASK, accuracies, results
from uproar.cli.app import _exit_code
from uproar.extend import papers, read_beside
from uproar.papers.claims import claims, claims_named, papers_with_claims, read_claims
from uproar.papers.evidence import ClaimEvidence
from uproar.papers.measures import MEASURES
from uproar.report.chapters import chapters_of
from uproar.report.paper_figures import figures
from uproar.study.spec import shipped_studies, study_named
from uproar.training.recipe import Recipe, recipes

PLUGIN = """
from uproar import extend
from uproar.extend import study_files
from uproar.papers.claims import every
from uproar.report.paper_figures import ComparisonTable, PaperFigure


@extend.paper(title="Author et al. 2030")
def author2030():
    return study_files(__file__)


@extend.recipe()
def author2030_short():
    "Two epochs."
    return {"epochs": 2}


@extend.claim("author2030:grad", place="section 1", says="The gradient does no harm.", published="none")
def grad(evidence):
    return every(evidence.area("roar", "grad", above=-1.0))


@extend.paper_figure("author2030", "Table 1")
def numbers(source):
    return PaperFigure("numbers", "Two numbers", "As printed.", table=ComparisonTable(("here",), (("1",),)))
"""

STUDY = """# A made-up paper, so small that it runs in seconds.
task = "planted(size=8, train=64, test=16)"
estimators = ["random", "grad"]
protocols = ["roar"]
fractions = [0.5]
seeds = 2
claims = ["author2030"]
plugins = ["../author.py"]
recipe = "author2030_short"
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """The folder of the plug-in, which is the working folder; what it declares is forgotten afterwards."""
    registries = (papers, claims, recipes, figures)
    for registry in registries:
        registry.load_entry_points()
    before = [dict(registry._entries) for registry in registries]
    (tmp_path / "author.py").write_text(PLUGIN)
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "author2030-tiny.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for registry, entries in zip(registries, before, strict=True):
        registry._entries.clear()
        registry._entries.update(entries)


def test_a_plugin_declares_a_paper_with_claim_recipe_figure_and_study(plugin):
    uproar.extend.load_plugin("author.py")
    assert papers_with_claims()["author2030"] == "Author et al. 2030"
    assert Recipe.named("author2030_short").epochs == 2
    assert shipped_studies()["author2030-tiny"] == plugin / "studies" / "author2030-tiny.toml"
    results = uproar.run(study_named("author2030-tiny"))
    (judgement,) = results.claims
    assert (judgement.claim, judgement.paper) == ("author2030:grad", "Author et al. 2030")
    assert judgement.outcome == "holds"
    (chapter,) = chapters_of(results)
    table = chapter.tables()["paper-author2030-numbers"]
    assert "(Author et al. 2030, Table 1)" in table.caption


def test_the_command_line_lists_what_a_plugin_declares_for_a_paper(plugin, capsys):
    for kind, name in (("claims", "author2030:grad"), ("recipes", "author2030_short"), ("studies", "author2030-tiny")):
        assert _exit_code(["ls", kind, "--plugin", "author.py"]) == 0
        assert name in capsys.readouterr().out


def test_a_study_and_a_recipe_of_a_plugin_are_known_to_the_command_line(plugin, capsys):
    assert _exit_code(["run", "author2030-tiny", "--plugin", "author.py", "--dry-run"]) == 0
    assert _exit_code(["run", "--plugin", "author.py", "--recipe", "author2030_short", "--dry-run"]) == 0
    capsys.readouterr()


def test_claims_are_data_with_a_measure_that_takes_their_fields():
    for paper in papers_with_claims():
        data = read_beside(str(Path(uproar.__file__).parent / "papers" / paper / "claims.toml"), "claims.toml")
        fields = {what: one for what, one in data.items() if what not in ("shared", "twin")}
        declared = {name.partition(":")[2].removesuffix("-controlled") for name in claims if name.startswith(paper)}
        assert declared == set(fields), paper
        for what, one in fields.items():
            taken = inspect.signature(MEASURES[one["measure"]]).parameters
            own = set(one) - {"place", "says", "published", "measure", "holds", "above", "below", "numbers"}
            assert own <= set(taken) and {"above", "below"} & set(one), (paper, what)
            needed = {name for name, p in taken.items() if p.kind == p.KEYWORD_ONLY and p.default is p.empty}
            assert needed <= own, (paper, what)


def test_a_paper_of_ones_own_has_claims_as_data(tmp_path):
    (tmp_path / "claims.toml").write_text(
        '[shared]\nmine = ["ig"]\n[ig]\nplace = "1"\nsays = "IG is no worse."\npublished = "no"\n'
        'measure = "advantage"\nof = "@mine"\nabove = -0.9\n'
    )
    read_claims("mine2031", str(tmp_path / "any.py"))
    try:
        (one,) = claims_named(["mine2031"])
        cells = accuracies({"roar": {"random": {0.5: 0.5}, "ig": {0.5: 0.4}}}, 0.01)
        judged = one.judge(ClaimEvidence(results(cells), TASK, MODEL))
        assert (judged.outcome, judged.deciding.interval.value > 0) == ("holds", True)
    finally:
        del claims._entries["mine2031:ig"]


def test_no_other_part_of_the_package_names_a_paper():
    package = Path(uproar.__file__).parent
    keys = "|".join(papers)
    named = [
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "papers" not in file.relative_to(package).parts and re.search(keys, file.read_text(encoding="utf-8"))
    ]
    assert named == []
