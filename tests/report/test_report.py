"""The written report: complete, offline, escaped, and of one mind with its tables and drawings."""

from __future__ import annotations

import errno
import json
import os
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from uproar.errors import StoreError
from uproar.report import write_report
from uproar.report.document import chapters_of
from uproar.report.page import study_page
from uproar.report.printing import draw

LOADING = {"src", "href", "srcset", "poster", "data", "action", "xlink:href", "background"}
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

    @property
    def figures(self) -> dict:
        return json.loads(self.scripts[0])


def read(results) -> Reader:
    return Reader(study_page(results, chapters_of(results), {}))


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
    assert written.name == "report.html"
    links = {a["href"] for _, a in Reader(written.read_text()).elements if a.get("href")}
    files = {link for link in links if not link.startswith("#")}
    assert {"results.csv", "results.parquet", "verdicts.csv"} < files
    assert {"figures/roar-curves.svg", "figures/maps.png", "figures/roar-picture-1.svg"} < files
    assert all((folder / name).stat().st_size > 0 for name in files)
    assert not [p for p in folder.rglob(".*") if p.is_file()], "temporary files are left"


def test_the_page_loads_nothing_from_anywhere(written):
    reader = Reader(written.read_text())
    for tag, attributes in reader.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name, value in attributes.items():
            if name in LOADING:
                assert re.match(
                    r"(#|data:image/|figures/|results\.|verdicts\.|comparisons\.|negative_controls\.)", value or ""
                ), (tag, value)
            assert not name.startswith("on")
    style = written.read_text().partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    policy = [a for t, a in reader.elements if t == "meta" and "http-equiv" in a]
    assert "default-src 'none'" in policy[0]["content"]


def test_names_from_files_never_become_markup(nasty):
    reader = read(nasty)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("script") == 2
    assert not {"u", "img onerror"} & set(tags)
    assert not any("onerror" in a for _, a in reader.elements)
    assert "<script>alert(1)</script>" in reader.text
    assert "<img src=x onerror=alert(2)>" in reader.text
    assert "</script><b>damaged</b>" in reader.text
    labels = {s["label"] for s in reader.figures["roar-curves"]["plots"][0]["series"]}
    assert labels == set(NAMES)
    assert "</script" not in reader.scripts[0].lower()
    legend = {a["data-series"] for _, a in reader.elements if "data-series" in a}
    assert legend == set(NAMES)


def test_names_from_files_never_become_markup_or_mathematics_in_a_drawing(nasty):
    (chapter,) = chapters_of(nasty)
    for figure in (chapter.curves[0], chapter.verdicts[0].figure, chapter.pictures[0], chapter.retraining[0]):
        tree = ET.fromstring(draw(figure).files[f"{figure.name}.svg"])
        texts = " ".join(t.text or "" for t in tree.iter("{http://www.w3.org/2000/svg}text"))
        assert not tree.findall(".//{*}script")
        assert "<script>" in texts
        assert "$x_1$" in texts
        assert "_private" in texts


def test_file_names_stay_in_the_folder_whatever_a_task_is_called(make_cells, make_results, tmp_path):
    levels = {"roar": {"random": 0.8, "grad": 0.6}}
    rows = make_cells(levels, task="../../outside") + make_cells(levels, task="a/b\\c:d")
    chapters = chapters_of(make_results(rows))
    names = [name for chapter in chapters for name, _ in chapter.figures()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", name) for name in names)


def test_page_drawing_and_csv_tell_the_same_accuracies(written):
    table = pd.read_csv(written.parent / "results.csv")
    roar = table[table["protocol"] == "roar"].groupby(["estimator", "fraction"])["accuracy"].mean()
    reader = Reader(written.read_text())
    for series in reader.figures["roar-curves"]["plots"][0]["series"]:
        for x, mean in zip(series["x"], series["y"], strict=True):
            assert mean == pytest.approx(roar[series["label"], x], abs=1e-12)
    svg = (written.parent / "figures/roar-picture-1.svg").read_text()
    for (_, fraction), accuracy in roar.items():
        if fraction > 0:
            assert f"{100 * accuracy:.1f}\u00a0%" in svg
            assert f"{100 * accuracy:.1f}\u00a0%" in reader.text


def test_the_lines_of_a_drawing_lie_where_the_numbers_are(written):
    figures = Reader(written.read_text()).figures["roar-curves"]["plots"][0]["series"]
    tree = ET.fromstring((written.parent / "figures/roar-curves.svg").read_bytes())
    axes = tree.find(".//{*}g[@id='axes_1']")
    lines = [g for g in axes if g.get("id", "").startswith("line2d")]
    heights, means = [], []
    drawn_last = sorted(figures, key=lambda series: series["reference"])  # random lies on top
    for line, series in zip(lines, drawn_last, strict=True):
        path = line.find("{*}path").get("d")
        points = [float(y) for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", path)]
        assert len(points) == len(series["y"])
        heights += points
        means += series["y"]
    slope, start = np.polyfit(means, heights, 1)
    assert slope < 0
    assert np.abs(np.polyval([slope, start], means) - heights).max() < 0.01


def test_page_drawing_and_csv_tell_the_same_verdicts(written):
    verdicts = pd.read_csv(written.parent / "verdicts.csv")
    roar = verdicts[verdicts["protocol"] == "roar"]
    text = Reader(written.read_text()).text
    svg = (written.parent / "figures/roar-verdicts.svg").read_text()
    assert list(roar["verdict"]) == ["better than random", "cannot tell with 3 replicates", "worse than random"]
    for advantage in roar["advantage"]:
        words = f"{'+' if advantage > 0 else '−'}{abs(100 * advantage):.1f}"
        words = words[1:] if words.endswith("0.0") else words
        assert words in text
        assert words in svg


def test_tables_read_back_exactly(written, plain_case):
    csv = pd.read_csv(written.parent / "results.csv", keep_default_na=False, na_values={"accuracy": "", "bits": ""})
    parquet = pd.read_parquet(written.parent / "results.parquet")
    pd.testing.assert_frame_equal(csv, plain_case.table, check_dtype=False)
    pd.testing.assert_frame_equal(parquet, plain_case.table, check_dtype=False)
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
    "twenty estimators": lambda cells: cells({"roar": {"random": 0.8} | {f"e{i}": 0.5 + i / 50 for i in range(20)}}),
    "half of a curve": lambda cells: cells({"roar": LEVELS})[:-4],
    "nothing": lambda cells: [],
}


@pytest.mark.parametrize("rows", PARTIAL.values(), ids=PARTIAL.keys())
def test_partial_results_give_a_page_without_nan_or_none(rows, make_cells, make_results):
    results = make_results(rows(make_cells))
    reader = read(results)
    words = reader.text.replace("BadMap: NaN at pixel 3", "").replace("is NaN", "")
    assert not re.search(r"\b(nan|NaN|None|inf)\b", words)
    json.dumps(reader.figures, allow_nan=False)
    assert "How these numbers were made" in words


@pytest.mark.parametrize("case", ["one seed", "all failed", "copies of one run", "half of a curve"])
def test_partial_results_can_be_drawn(case, make_cells, make_results):
    (chapter,) = chapters_of(make_results(PARTIAL[case](make_cells)))
    for name, figure in chapter.figures():
        files = draw(figure, name).files
        assert files[f"{name}.png"].startswith(b"\x89PNG")
        assert "nan" not in " ".join(ET.fromstring(files[f"{name}.svg"]).itertext()).lower()


def test_problems_are_listed_with_their_reasons_and_their_absence_is_stated(plain_case, make_cells, make_results):
    assert "Skipped and failed cells: none" in read(plain_case).text
    assert "Notices: none" in read(plain_case).text
    rows = _failed(make_cells({"roar": {"random": 0.8}}))[:4]
    rows += make_cells({"kar": LEVELS})
    text = read(make_results(rows, notices=("a file was damaged",))).text
    assert "4 cells failed" in text
    assert "BadMap: NaN at pixel 3" in text
    assert "a file was damaged" in text


def test_a_given_model_and_a_leak_are_said_among_the_caveats(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.5, "ig": 0.9}, "kar": {"random": 0.5, "ig": 0.9}})
    plain = read(make_results(rows, study={"name": "s", "weights": None})).text
    given = read(make_results(rows, study={"name": "s", "weights": "net.pt"})).text
    assert "was given, not trained here" in given
    assert "was given, not trained here" not in plain
    assert "1 estimator is worse than random when the pixels are removed" in plain


def test_several_tasks_have_sections_answers_and_figures_of_their_own(make_cells, make_results):
    rows = make_cells({"roar": {"random": 0.8, "grad": 0.6}})
    rows += make_cells({"roar": {"random": 0.8, "grad": 0.9}}, task="shapes")
    reader = read(make_results(rows))
    assert "Trust grad here: better than a random ranking under ROAR." in reader.text
    assert "grad does not beat a random ranking here: it is worse." in reader.text
    assert set(reader.figures) == {"1-digits-cnn-roar-curves", "2-shapes-cnn-roar-curves"}
    places = [a["id"] for _, a in reader.elements if "id" in a]
    assert len(set(places)) == len(places)


def test_every_link_inside_the_page_leads_somewhere(plain_case, make_cells, make_results):
    several = make_cells({"roar": LEVELS}) + make_cells({"roar": LEVELS}, task="shapes")
    for results in (plain_case, make_results(several), make_results([])):
        reader = read(results)
        places = {a["id"] for _, a in reader.elements if "id" in a}
        inner = {a["href"][1:] for _, a in reader.elements if a.get("href", "").startswith("#")}
        assert inner <= places


def test_large_pictures_are_shrunk_and_small_ones_kept(make_cells, make_results, make_picture):
    rows = make_cells({"roar": LEVELS})
    sizes = []
    for side in (8, 300):
        shown = make_picture(list(LEVELS), size=(side, side))
        sizes.append(len(study_page(r := make_results(rows, pictures=(shown,)), chapters_of(r), {})))
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
