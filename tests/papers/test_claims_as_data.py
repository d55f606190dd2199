"""Claims of papers are data, and no other part of the package names a paper."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import uproar
from tests.papers.made import MODEL, TASK, accuracies, results
from uproar.papers import papers, read_beside
from uproar.papers.claims import claims_named, papers_with_claims, read_claims
from uproar.papers.evidence import ClaimEvidence
from uproar.papers.measures import MEASURES


def test_claims_are_data_with_a_measure_that_takes_their_fields():
    for paper in papers_with_claims():
        data = read_beside(str(Path(uproar.__file__).parent / "papers" / paper / "claims.toml"), "claims.toml")
        fields = {what: one for what, one in data.items() if what not in ("shared", "twin")}
        declared = {one.name.partition(":")[2].removesuffix("-controlled") for one in claims_named([paper])}
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
    (one,) = read_claims("mine2031", str(tmp_path / "any.py"))
    cells = accuracies({"roar": {"random": {0.5: 0.5}, "ig": {0.5: 0.4}}}, 0.01)
    judged = one.judge(ClaimEvidence(results(cells), TASK, MODEL))
    assert (judged.outcome, judged.deciding.interval.value > 0) == ("holds", True)


def test_no_other_part_of_the_package_names_a_paper():
    package = Path(uproar.__file__).parent
    keys = "|".join(papers())
    named = [
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if "papers" not in file.relative_to(package).parts and re.search(keys, file.read_text(encoding="utf-8"))
    ]
    assert named == []
