"""The written report: complete, offline, escaped, and of one mind with its tables and drawings."""

from __future__ import annotations

import collections
import errno
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from tests.results.test_evaluator import GAINS, KINDS
from tests.results.test_evaluator import scores_of as evaluator_of
from uproar.errors import StoreError
from uproar.report import write_latex, write_report, write_results
from uproar.report.chapters import chapters_of
from uproar.report.drawing import draw
from uproar.report.formatting import with_interval
from uproar.report.page import page_of
from uproar.report.tables import table_files
from uproar.results.evaluator import EvaluatorBits
from uproar.statistics.design import MODEL_FREE
from uproar.study.spec import METHODS, Study

from ..roles import ROLES

WORDS = 2500
LOADING = {"src", "href", "srcset", "poster", "data", "action", "xlink:href", "background"}
BLANK = b'<svg xmlns="http://www.w3.org/2000/svg" width="10pt" height="10pt"></svg>'
NAMES = {
    "random": 0.80,
    "<script>alert(1)</script>": 0.60,
    "a\"b'&<i>x</i>": 0.70,
    "$x_1$ %{y}": 0.75,
    "_private": 0.90,
    "long" * 40: 0.50,
}


class Reader(HTMLParser):
    """What a browser would see: elements with their attributes, text, and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style" and data.strip():
            self.texts.append(re.sub(r"[ \n]+", " ", data).strip(" "))

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def read(results) -> Reader:
    """The page without its figures, which take longest to draw."""
    blank = collections.defaultdict(lambda: BLANK)
    return Reader(page_of(results, chapters_of(results), blank, list(table_files(results))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture
def written(folder, plain_case):
    """A whole report, written once."""
    path = folder / "report.html"
    return path if path.exists() else write_report(plain_case, folder)


@pytest.fixture
def small(make_cells, make_results):
    """Results whose report is written in a moment."""
    empty = pd.DataFrame(columns=["task", "model", "estimator"])
    return make_results(make_cells({"roar": {"random": 0.8}}), costs=empty)


@pytest.fixture
def nasty(make_cells, make_results, make_picture):
    """Names that would be markup, attributes, templates or mathematics if anybody let them."""
    kept = {name: 1 - level for name, level in NAMES.items()}
    rows = make_cells({"roar": NAMES, "kar": kept, "roar:no-retrain": NAMES}, task="<u>t</u>")
    rows[-1] |= {"status": "failed", "reason": "<img src=x onerror=alert(2)>", "accuracy": np.nan}
    return make_results(
        rows,
        pictures=(make_picture(list(NAMES), task="<u>t</u>"),),
        notices=("</script><b>damaged</b>",),
        provenance={"command": "uproar run <file>", "</dd>": {"k&": "<v>"}},
        study={"name": "<title>", "weights": None},
    )


def test_the_folder_holds_page_tables_and_every_figure_the_page_links_to(written):
    folder = written.parent
    links = {a["href"] for _, a in Reader(written.read_text()).elements if a.get("href")}
    files = {link for link in links if not link.startswith("#")}
    assert {"results.csv", "verdicts.csv", "comparisons.csv", "figures/roar-curves.svg"} < files
    assert all((folder / name).stat().st_size > 0 for name in files)
    assert not [p for p in folder.rglob(".*") if p.is_file()], "temporary files are left"


def test_the_page_loads_nothing_from_anywhere(written):
    reader = Reader(written.read_text())
    for tag, attributes in reader.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name, value in attributes.items():
            if name in LOADING:
                assert re.match(r"(#|data:image/|figures/|[a-z_]+\.csv)", value or ""), (tag, value)
            assert not name.startswith("on")
    style = written.read_text().partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    policy = [a for t, a in reader.elements if t == "meta" and "http-equiv" in a]
    assert "default-src 'none'" in policy[0]["content"]


def test_names_from_files_never_become_markup(nasty):
    reader = read(nasty)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("script") == 1 and "u" not in tags
    assert not any("onerror" in a for _, a in reader.elements)
    for text in ("<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "</script><b>damaged</b>"):
        assert text in reader.text
    methods = {a["data-method"] for _, a in reader.elements if "data-method" in a}
    assert methods == set(NAMES)


def test_names_from_files_never_become_markup_or_mathematics_in_a_drawing(nasty):
    (chapter,) = chapters_of(nasty)
    figures = chapter.figures()
    for name in ("roar-curves", "verdicts"):
        tree = ET.fromstring(draw(figures[name]))
        texts = " ".join(" ".join(t.itertext()) for t in tree.iter("{http://www.w3.org/2000/svg}text"))
        assert not tree.findall(".//{*}script")
        assert all(word in texts for word in ("<script>", "$x_1$", "_private"))


def test_file_names_stay_in_the_folder_whatever_a_task_is_called(make_cells, make_results):
    levels = {"roar": {"random": 0.8, "grad": 0.6}}
    rows = make_cells(levels, task="../../outside") + make_cells(levels, task="a/b\\c:d")
    names = [name for chapter in chapters_of(make_results(rows)) for name in (*chapter.figures(), *chapter.tables())]
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)
    assert len({name for name in names if name.endswith("roar-curves")}) == 2


def test_page_markdown_latex_and_csv_tell_the_same_numbers(written, plain_case, tmp_path):
    verdicts = pd.read_csv(written.parent / "verdicts.csv")
    assert {*verdicts["verdict"]} >= {"better than random", "not significantly different (5 replicates)", "baseline"}
    shown = {
        "page": Reader(written.read_text()).text,
        "markdown": write_results(plain_case, tmp_path).read_text().replace("\\", ""),
        "latex": (write_latex(plain_case, tmp_path).parent / "tables/methods.tex").read_text(),
    }
    shown["latex"] = shown["latex"].replace("$-$", "−")
    for row in verdicts[verdicts["metric"] == "roar"].to_dict("records"):
        advantage = with_interval(row["advantage"], row["low"], row["high"], in_points=True)
        for place, text in shown.items():
            line = next(line for line in text.splitlines() if advantage in line)
            assert place == "page" or row["estimator"] in line


def test_the_evaluator_s_numbers_stand_on_the_page(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.5, "good": 0.4}})
    results = make_results(rows, evaluations={("digits", "cnn", "label"): evaluator_of(GAINS, KINDS).bits})
    reader = read(results)
    (view,) = results.views
    for row in view.evaluators["label"].table.to_dict("records"):
        assert row["kind"] == "truth" or with_interval(row["score"], row["low"], row["high"]) in reader.text
    (chapter,) = chapters_of(results)
    (forest,) = chapter.chart.plots
    assert [row.label for row in forest.rows] == [*view.answer.methods], "methods, the best first"
    values = view.evaluators["label"].table.set_index("estimator")["score"]
    free = [values[name] for name, kind in KINDS.items() if kind in ("random", "baseline")]
    assert forest.band == (min(free), max(free)), "the baselines are the grey band"


def test_the_first_screen_has_the_answer_and_no_alarm_about_metrics_that_take_no_part(make_cells, make_results):
    """ROAR is useless here, which the answer's details say: nothing stands above the recommendation."""
    results = make_results(make_cells({"roar": {"random": 0.5, "grad": 0.6}}))
    assert results.views[0].negative_controls["roar"].state == "failed"
    reader = read(results)
    head = [tag for tag, _ in reader.elements]
    assert not [a for _, a in reader.elements if a.get("role") == "alert"]
    assert head.index("h1") < head.index("details")
    assert "Not reliable here" in reader.text


def test_tables_read_back_exactly(written, plain_case):
    csv = pd.read_csv(written.parent / "results.csv", keep_default_na=False, na_values={"accuracy": "", "bits": ""})
    pd.testing.assert_frame_equal(csv, plain_case.cells, check_dtype=False)
    verdicts = pd.read_csv(written.parent / "verdicts.csv", keep_default_na=False)
    assert verdicts["advantage"].tolist() == plain_case.verdicts["advantage"].tolist()


def _failed(rows):
    return [
        r | {"status": "failed", "accuracy": np.nan, "ties": np.nan, "reason": "BadMap: NaN at pixel 3"} for r in rows
    ]


LEVELS = {"random": 0.8, "grad": 0.6, "sobel": 0.9}
PARTIAL = {
    "one seed": lambda cells: cells({"roar": LEVELS, "kar": LEVELS}, seeds=1),
    "all failed": lambda cells: _failed(cells({"roar": LEVELS, "kar": LEVELS})),
    "only kar": lambda cells: cells({"kar": LEVELS}),
    "only without retraining": lambda cells: cells({"roar:no-retrain": LEVELS}),
    "no random": lambda cells: cells({"roar": {"grad": 0.5, "ig": 0.6}}),
    "only random": lambda cells: cells({"roar": {"random": 0.5}}),
    "copies of one run": lambda cells: cells({"roar": LEVELS}, noise=0.0),
    "half of a curve": lambda cells: cells({"roar": LEVELS})[:-4],
    "nothing": lambda cells: [],
}


@pytest.mark.parametrize("rows", PARTIAL.values(), ids=PARTIAL.keys())
def test_partial_results_give_a_page_without_nan_or_none(rows, make_cells, make_results):
    reader = read(make_results(rows(make_cells)))
    words = reader.text.replace("BadMap: NaN at pixel 3", "").replace("(NaN)", "")
    assert not re.search(r"\b(nan|NaN|None|inf)\b", words)
    assert "How it was run." in words


@pytest.mark.parametrize("case", ["one seed", "all failed", "copies of one run", "half of a curve"])
def test_partial_results_can_be_drawn(case, make_cells, make_results):
    (chapter,) = chapters_of(make_results(PARTIAL[case](make_cells)))
    for figure in chapter.figures().values():
        assert "nan" not in " ".join(ET.fromstring(draw(figure)).itertext()).lower()


def test_problems_are_listed_with_their_reasons(make_cells, make_results):
    rows = _failed(make_cells({"roar": {"random": 0.8}}))[:4]
    rows += make_cells({"kar": LEVELS})
    text = read(make_results(rows, notices=("a file was damaged",))).text
    assert "BadMap: NaN at pixel 3" in text and "a file was damaged" in text


def test_a_leak_is_said(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.5, "ig": 0.9}, "kar": {"random": 0.5, "ig": 0.9}})
    assert "1 of 1 methods are worse than random when their pixels are removed" in read(make_results(rows)).text


def test_every_link_inside_the_page_leads_somewhere(plain_case, make_cells, make_results):
    several = make_cells({"roar": LEVELS}) + make_cells({"roar": LEVELS}, task="shapes")
    for results in (plain_case, make_results(several), make_results([])):
        reader = read(results)
        places = [a["id"] for _, a in reader.elements if a.get("id")]
        inner = {a["href"][1:] for _, a in reader.elements if a.get("href", "").startswith("#")}
        assert inner <= set(places) and len(set(places)) == len(places)


def test_images_hold_the_maps_and_what_every_metric_shows(plain_case):
    reader = read(plain_case)
    options = [text for text in reader.texts if text.startswith(("ROAR: ", "KAR: "))]
    assert {"ROAR: 50\u00a0% removed", "KAR: 90\u00a0% kept"} <= set(options)
    tiles = [a for tag, a in reader.elements if tag == "span" and "data-show" in a]
    hidden = [a for a in tiles if "hidden" in a]
    assert len(tiles) - len(hidden) == 4 + 3, "the maps of four methods, and of three on the first screen"
    assert len(hidden) == 4 * 2 * 2, "of four methods, at two fractions, under two metrics"


def test_the_page_of_the_demo_s_size_has_at_most_2500_words(make_cells, make_results, make_picture):
    """As many methods, metrics and images as the demo; the words in drawings count."""
    methods = (*METHODS, "random", "block_random", "sobel")
    levels = {name: 0.5 + 0.02 * place for place, name in enumerate(methods)}
    rows = make_cells({"roar": levels, "kar": levels, "roar:no-retrain": levels, "kar:no-retrain": levels})
    noise, roles = np.random.default_rng(0), {name: ROLES.get(name, "method") for name in (*methods, *MODEL_FREE)}
    bits = {
        (name, keeps): noise.normal(place, 1, (5, 60)) for place, name in enumerate(roles) for keeps in (False, True)
    }
    evaluator = EvaluatorBits(bits, {cell: np.zeros((5, 60)) for cell in bits}, roles, entropy=3.0)
    one = make_picture(list(levels))
    results = make_results(
        rows,
        study=Study().model_dump(mode="json"),
        pictures=tuple(replace(one, row=k, label=str(k), changed=one.changed if k < 4 else {}) for k in range(12)),
        evaluations={("digits", "cnn", target): evaluator for target in ("label", "answer")},
    )
    (chapter,) = chapters_of(results)
    svg = "{http://www.w3.org/2000/svg}text"
    drawn = [text for f in chapter.figures().values() for text in ET.fromstring(draw(f)).iter(svg)]
    assert {"shortcut", "verdicts", "deciding", "roar-curves"} <= {*chapter.figures()}
    words = " ".join([read(results).text, *(text.text or "" for text in drawn)]).split()
    assert 1500 < len(words) <= WORDS


def test_large_pictures_are_shrunk_and_small_ones_kept(make_cells, make_results, make_picture):
    sizes = []
    for side in (8, 300):
        shown = make_picture(list(LEVELS), size=(side, side))
        results = make_results(make_cells({"roar": LEVELS}), pictures=(shown,))
        sizes.append(sum(len(a.get("src") or "") for _, a in read(results).elements))
    assert sizes[1] - sizes[0] < 100_000


def test_a_folder_that_cannot_be_written_is_one_sentence(small, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"Cannot write the report to .*results\.csv: Not a directory\."):
        write_report(small, tmp_path / "file" / "report")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        write_report(small, tmp_path / "full")
    assert not [p for p in (tmp_path / "full").rglob("*") if p.is_file()]


def test_a_second_report_replaces_the_first_and_is_the_same(small, tmp_path):
    first = write_report(small, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert write_report(small, str(tmp_path)) == first
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_tables_of_an_earlier_page_that_are_empty_now_go(plain_case, tmp_path):
    (tmp_path / "claims.csv").write_text("mine")
    write_report(plain_case, tmp_path)
    assert (tmp_path / "claims.csv").read_text() == "mine", "there was no page: the file is somebody's own"
    write_report(plain_case, tmp_path)
    assert not (tmp_path / "claims.csv").exists() and (tmp_path / "results.csv").is_file()
