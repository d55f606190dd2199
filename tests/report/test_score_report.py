"""The report of scores: complete, offline, escaped, and no surer than the comparisons are."""

from __future__ import annotations

import collections
import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from uproar.report import write_report
from uproar.report.chapters import chapters_of, score_images
from uproar.report.drawing import draw
from uproar.report.figures import styles
from uproar.report.page import page_of
from uproar.report.study_figures import metric_curves
from uproar.report.tables import table_files
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.scores import COLUMNS, COMPARISON_COLUMNS, Curves, Line, Scores, with_rank

from ..roles import ROLES
from .test_report import BLANK, LOADING, Reader

HOSTILE = ["random", "<script>alert(1)</script>", "a\"b'&<i>x</i>", "$x_1$ %{y}", "_p", "long" * 40]
LOWER = {"deletion", "road"}


def scores_of(levels, *, images=8, shown=4, apart=0.05, curves=(), undefined=None, **changes) -> Scores:
    """Scores around `levels[metric][method]`; methods further apart than `apart` are told apart.

    `undefined[metric][method]` counts images without a value. Image i has the level plus (i − mean) / 1000, so that means are exact; NaN stays NaN.
    """
    table, per_image, pairs = [], [], []
    wave = (np.arange(images) - (images - 1) / 2) / 1000
    for metric, by_method in levels.items():
        higher = metric not in LOWER
        for method, level in by_method.items():
            nan = (undefined or {}).get(metric, {}).get(method, 0)
            nan = images if np.isnan(level) else nan
            row = {
                "method": method,
                "role": ROLES.get(method, "method"),
                "metric": metric,
                "value": level,
                "low": level - 0.01,
                "high": level + 0.01,
                "median": level,
                "n": images,
                "nan": nan,
                "higher_is_better": higher,
                "tied": 0.0,
                "note": "",
            }
            table.append(with_rank(row))
            values = {"image": np.arange(images), "value": level + wave}
            per_image.append(pd.DataFrame({"method": method, "metric": metric, **values}))
        for a, b in itertools.combinations(by_method, 2):
            gap = by_method[a] - by_method[b]
            if (gap < 0) == higher:
                a, b, gap = b, a, -gap
            told = abs(gap) > apart
            verdict = f"{a} better" if told else f"not significantly different ({images} images)"
            ranked = {row["method"] for row in table if row["metric"] == metric and row["ranked"]} >= {a, b}
            if not ranked:
                verdict = "not ranked: …"
            p = 0.01 if told else 0.5
            ends = (gap - 0.01, gap + 0.01)
            against = next((name for name in (a, b) if ROLES.get(name) in ("baseline", "random")), "")
            test = (0.005, images - 1, p, p, verdict, int(told and ranked), ranked, images, 1)
            pairs.append([metric, a, b, against, gap, *ends, *test])
    names = list(dict.fromkeys(m for by_method in levels.values() for m in by_method))
    fractions = np.linspace(0, 1, 5)
    lines = {m: Line(fractions * i, np.zeros(5), np.full(5, images)) for i, m in enumerate(names, 1)}
    rng = np.random.default_rng(0)
    settings = {
        "curves": {metric: Curves(fractions, lines) for metric in curves},
        "forwards": 1234,
        "images": rng.random((shown, 1, 6, 6)),
        "maps": {m: rng.normal(size=(shown, 6, 6)) for m in names},
        "titles": tuple("<u>cat</u>" for _ in range(shown)),
        "provenance": {"model": "cnn", "versions": {"uproar": "0.1.0"}},
        "notices": ("</script><b>noticed</b>",),
    }
    return Scores(
        pd.DataFrame(table)[list(COLUMNS)],
        pd.concat(per_image, ignore_index=True),
        pd.DataFrame(pairs, columns=list(COMPARISON_COLUMNS)),
        **{**settings, **changes},
    )


PLAIN = {"insertion": {"random": 0.3, "grad": 0.8, "ig": 0.5}, "deletion": {"random": 0.6, "grad": 0.2, "ig": 0.4}}


def read(scores: Scores) -> Reader:
    """The page without its figures, which take longest to draw."""
    blank = collections.defaultdict(lambda: BLANK)
    return Reader(page_of(scores, chapters_of(scores), blank, list(table_files(scores))))


def looks(scores: Scores) -> dict:
    return styles(scores.table["method"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole report, written once."""
    scores = scores_of(PLAIN, curves=["insertion"])
    return write_report(scores, tmp_path_factory.mktemp("scores")).parent, scores


def test_the_folder_holds_page_tables_and_every_figure_the_page_links_to(folder):
    place, _ = folder
    links = {a["href"] for _, a in Reader((place / "report.html").read_text()).elements if a.get("href")}
    files = {link for link in links if not link.startswith("#")}
    tables = {"scores.csv", "comparisons.csv", "per_image.parquet"}
    assert {*tables, "figures/deciding.svg", "figures/insertion-curves.svg"} <= files
    assert all((place / name).stat().st_size > 0 for name in files)
    assert not [p for p in place.rglob(".*") if p.is_file()], "temporary files are left"


def test_the_page_loads_nothing_from_anywhere(folder):
    text = (folder[0] / "report.html").read_text()
    for tag, attributes in Reader(text).elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name, value in attributes.items():
            if name in LOADING:
                assert re.match(r"(#|data:image/|figures/|scores\.|compar|per_image\.)", value or "")
            assert not name.startswith("on")
    assert "default-src 'none'" in text


def test_the_tables_read_back_exactly(folder):
    place, scores = folder
    table = pd.read_csv(place / "scores.csv", keep_default_na=True)
    np.testing.assert_array_equal(table["value"], scores.table["value"])
    pd.testing.assert_frame_equal(pd.read_parquet(place / "per_image.parquet"), scores.per_image)
    assert list(pd.read_csv(place / "comparisons.csv")["verdict"]) == list(scores.comparisons["verdict"])


def test_names_never_become_markup():
    levels = {m: {k: i / 10 for i, k in enumerate(HOSTILE)} for m in ("insertion", "<b>&\"'</b>")}
    scores = scores_of(levels, curves=["insertion"])
    reader = read(scores)
    tags = [t for t, _ in reader.elements]
    assert "u" not in tags and tags.count("script") == 1
    for text in ("<script>alert(1)</script>", "a\"b'&<i>x</i>", "</script><b>noticed</b>"):
        assert text in reader.text
    figure = metric_curves(scores, looks(scores))["insertion"]
    assert [s.label for s in figure.series] == HOSTILE
    for drawn in (figure, chapters_of(scores)[0].chart):
        ET.fromstring(draw(drawn))


def test_what_is_not_known_is_a_dash_and_never_nan():
    levels = {**PLAIN, "road": dict.fromkeys(PLAIN["insertion"], np.nan)}
    reader = read(scores_of(levels, curves=["road", "insertion"]))
    assert "–, 8 of 8 undefined" in reader.text
    shown = reader.text + "".join(v or "" for _, a in reader.elements for k, v in a.items() if k != "src")
    assert not re.search(r"\b(nan|NaN|inf|None)\b", shown)


def values_table(scores: Scores):
    return chapters_of(scores)[0].tables()["methods"]


def test_a_metric_that_is_not_reliable_here_is_marked():
    levels = {"insertion": {"random": 0.5, "grad": 0.3, "ig": 0.4}, "road": {"random": 0.9, "grad": 0.1, "ig": 0.2}}
    columns = [*values_table(scores_of(levels)).frame.columns]
    assert "insertion ↑ (not reliable here)" in columns and "road ↓" in columns


def test_a_single_method_without_curves_or_images_is_reported(tmp_path):
    bare = scores_of({"insertion": {"maps": 0.4}}, images=1, provenance={}, notices=(), maps={})
    path = write_report(Scores(bare.table, bare.per_image, bare.comparisons), tmp_path / "new" / "folder")
    assert "0.400" in Reader(path.read_text()).text


def test_what_lacks_values_is_reported():
    full = scores_of(PLAIN)
    read(Scores(full.table[:0], full.per_image[:0], full.comparisons[:0]))
    read(scores_of({"insertion": {"a": np.nan, "b": np.nan}}, curves=["insertion"]))
    reader = read(scores_of({"insertion": {"a": 0.4, "b": 0.6}, "deletion": {"a": 0.2}}, curves=["insertion"]))
    assert "–" in reader.texts and "0.600" in reader.text


def test_curves_have_the_means_and_intervals_of_the_scores():
    scores = scores_of(PLAIN)
    line = Line(np.array([0.5, 0.25]), np.array([0.1, np.nan]), np.array([3, 1]))
    none = Line(np.full(2, np.nan), np.full(2, np.nan), np.zeros(2, int))
    curves = {"insertion": Curves(np.array([0.0, 1.0]), {"grad": line, "ig": none})}
    scores = Scores(scores.table, scores.per_image, scores.comparisons, curves)
    (series,) = metric_curves(scores, looks(scores))["insertion"].series
    assert (series.label, series.y) == ("grad", [0.5, 0.25])
    assert (series.low[0], series.high[0]) == (0.4, 0.6) and np.isnan([series.low[1], series.high[1]]).all()


def test_the_curve_of_soundness_counts_hidden_pixels_and_runs_backwards():
    scores = scores_of({"soundness(level=0.4)": {"a": 0.4, "b": 0.9}}, curves=["soundness(level=0.4)"])
    (chart,) = metric_curves(scores, looks(scores))["soundness(level=0.4)"].charts
    assert "hidden" in chart.x_label and chart.y_label == "accuracy"
    assert chart.x_range == (1.0, 0.0)
    assert (chart.level, chart.level_label) == (0.4, "level")


def test_images_carry_the_values_of_their_own_and_how_far_methods_differ():
    scores = scores_of({"insertion": {"a": 0.5, "b": 0.5}}, images=8, shown=4)
    table = scores.per_image
    table.loc[(table["method"] == "b") & (table["image"] == 2), "value"] = 0.9
    images = score_images(scores)
    assert len(images.rows) == 4 and images.views == ["maps"] and images.metrics == ["insertion"]
    assert images.rows[2].values["insertion"]["b"] == 0.9
    assert images.rows[2].disagreement(["a", "b"]) > 0 == images.rows[2].disagreement(["a"])


def test_every_metric_is_explained_from_its_declaration():
    text = read(scores_of({"insertion": {"a": 0.1}, "pointing_game": {"a": 0.2}, "own": {"a": 0.3}})).text
    assert "the region's share of the image" in text
    assert "No metric of this name is declared here." in text


def test_what_is_mostly_undefined_is_marked_and_not_ranked():
    levels = {"insertion": {"random": 0.3, "grad": 0.95, "ig": 0.5}}
    scores = scores_of(levels, images=40, undefined={"insertion": {"grad": 18, "ig": 2}})
    table = values_table(scores)
    cells = table.frame.assign(method=table.frame["method"].str.removesuffix(" ✓")).set_index("method")["insertion ↑"]
    assert cells["grad"].startswith("(0.950") and cells["grad"].endswith("), 18 of 40 undefined")
    assert cells["ig"].endswith(", 2 of 40 undefined")
    assert "not ranked" in table.note


def test_the_network_and_what_it_predicts_stand_on_the_page():
    said = tuple(Prediction(f"<cat {k}>", 0.5) for k in range(4))
    weak = read(scores_of(PLAIN, quality=NetworkQuality(8, 10, 0.2, 0.25), predictions=said)).text
    assert "right on 25 % of 8 images" in weak and "Weak network." in weak
    assert re.search(r"predicted <cat \d> \(50\u00a0%\)", weak)
    assert "Weak network." not in read(scores_of(PLAIN, quality=NetworkQuality(8, 10, 0.9, 0.95))).text
