"""The report of scores: complete, offline, escaped, and no surer than the comparisons are."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from uproar.report import write_scores
from uproar.report.document import metric_part, score_chapter
from uproar.report.page import score_page
from uproar.report.printing import draw
from uproar.report.score_findings import score_summary
from uproar.report.score_table import score_table
from uproar.results.quality import NetworkQuality, Prediction
from uproar.results.recovery import COLUMNS as RECOVERY_COLUMNS
from uproar.results.scores import COLUMNS, COMPARISON_COLUMNS, Curves, Line, Scores, with_rank

from ..roles import ROLES
from .test_report import LOADING, Reader

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
                "least": level - 0.5,
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
            verdict = f"{a} better" if told else f"cannot tell with {images} images"
            ranked = {row["method"] for row in table if row["metric"] == metric and row["ranked"]} >= {a, b}
            if not ranked:
                verdict = "not ranked: …"
            p = 0.01 if told else 0.5
            ends = (gap - 0.01, gap + 0.01)
            pairs.append(
                [metric, a, b, gap, *ends, images - 1, p, p, verdict, int(told and ranked), ranked, images, 1, ""]
            )
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
    return Reader(score_page(scores, score_chapter(scores), {}))


def headline(levels, **changes) -> str:
    return score_summary(score_table(scores_of(levels, **changes))).headline


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole report, written once."""
    scores = scores_of(PLAIN, curves=["insertion"])
    return write_scores(scores, tmp_path_factory.mktemp("scores")).parent, scores


def test_recovery_stands_beside_every_score_and_the_page_says_who_decides(monkeypatch):
    facts = {**dict.fromkeys(RECOVERY_COLUMNS, 0.0), "kind": "noise", "counts": True}
    rows = [
        {**facts, "judge": judge, "task": f"t{i}", "tau": tau}
        for judge, taus in {"insertion": (0.9, 1.0, 0.95), "deletion": (0.5, 0.4, -0.3)}.items()
        for i, tau in enumerate(taus)
    ]
    monkeypatch.setattr("uproar.results.recovery.board_table", lambda: pd.DataFrame(rows))
    page = score_page(scores := scores_of(PLAIN), score_chapter(scores), {})
    assert "recovery 0.95, trusted" in page and "recovery 0.20, not trusted" in page, "in the table of values"
    assert "How far each judge can be trusted" in page and "0.95 (0.83 … 1.00)" in page
    assert [judge.label for judge in scores.answer.deciding] == ["insertion"]


def test_the_folder_holds_page_tables_and_every_figure_the_page_links_to(folder):
    place, _ = folder
    links = {a["href"] for _, a in Reader((place / "scores.html").read_text()).elements if a.get("href")}
    files = {link for link in links if not link.startswith("#")}
    assert {
        "scores.csv",
        "comparisons.csv",
        "per_image.parquet",
        "figures/values.svg",
        "figures/insertion-curves.png",
        "figures/deletion-disagreement.svg",
    } < files
    assert all((place / name).stat().st_size > 0 for name in files)
    assert not [p for p in place.rglob(".*") if p.is_file()], "temporary files are left"


def test_the_page_loads_nothing_from_anywhere(folder):
    text = (folder[0] / "scores.html").read_text()
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


def test_the_links_on_top_lead_somewhere():
    reader = read(scores_of(PLAIN, curves=["insertion"]))
    ids = {a["id"] for _, a in reader.elements if a.get("id")}
    anchors = {a["href"][1:] for t, a in reader.elements if t == "a" and a["href"].startswith("#")}
    assert anchors <= ids


def test_names_never_become_markup():
    levels = {m: {k: i / 10 for i, k in enumerate(HOSTILE)} for m in ("insertion", "<b>&\"'</b>")}
    scores = scores_of(levels, curves=["insertion"])
    reader = read(scores)
    assert "u" not in [t for t, _ in reader.elements]
    assert [t for t, _ in reader.elements].count("script") == 2
    assert "<script>alert(1)</script>" in reader.text
    assert "a\"b'&<i>x</i>" in reader.text
    assert "</script><b>noticed</b>" in reader.text
    series = reader.figures["insertion-curves"]["plots"][0]["series"]
    assert [s["label"] for s in series] == HOSTILE
    for figure in metric_part(scores).figures:
        if figure.name in ("values", "insertion-disagreement"):
            ET.fromstring(draw(figure).files[f"{figure.name}.svg"])


def test_what_is_not_known_is_a_dash_and_never_nan():
    levels = {**PLAIN, "road": dict.fromkeys(PLAIN["insertion"], np.nan)}
    reader = read(scores_of(levels, curves=["road", "insertion"]))
    assert "–" in reader.texts
    assert "8 of 8 undefined" in reader.text
    assert "road gave no number" in reader.text
    shown = reader.text + "".join(v or "" for _, a in reader.elements for k, v in a.items() if k != "src")
    assert not re.search(r"\b(nan|NaN|inf|None)\b", shown)


def test_the_best_follows_the_direction_of_the_metric():
    table = score_table(scores_of({"insertion": {"a": 0.9, "b": 0.1}, "road": {"a": 0.9, "b": 0.1}}))
    up, down = table.metrics
    assert (up.arrow, down.arrow) == ("↑", "↓")
    assert [table.mark(m, up) for m in "ab"] == ["sole", ""]
    assert [table.mark(m, down) for m in "ab"] == ["", "sole"]


def test_a_best_value_that_is_not_decided_is_marked_as_such():
    table = score_table(scores_of({"insertion": {"a": 0.50, "b": 0.52, "c": 0.1}}))
    assert [table.mark(m, table.metrics[0]) for m in "abc"] == ["level", "best", ""]


def test_one_method_that_beats_all_under_all_metrics_is_named():
    assert headline(PLAIN) == "grad is best under both insertion and deletion."


def test_a_method_that_leads_sometimes_and_loses_nowhere_is_not_called_best_throughout():
    levels = {**PLAIN, "road": {"random": 0.5, "grad": 0.5, "ig": 0.5}}
    levels["soundness"] = levels["completeness"] = levels["road"]
    assert headline(levels) == ("grad is beaten under no metric, but decidedly best under only 2 of 5 metrics.")


def test_a_method_that_leads_mostly_and_loses_nowhere_is_named_with_the_count():
    levels = {**PLAIN, "road": {"random": 0.5, "grad": 0.5, "ig": 0.5}}
    assert headline(levels) == "grad is best under 2 of 3 metrics and beaten under none."


def test_metrics_that_order_methods_differently_are_said_to_contradict_each_other():
    levels = {"insertion": {"grad": 0.9, "ig": 0.1}, "deletion": {"grad": 0.9, "ig": 0.1}}
    summary = score_summary(score_table(scores_of(levels)))
    assert summary.headline.startswith("The metrics disagree: grad is best under insertion")
    assert any("contradict" in line and "worse under deletion" in line for line in summary.details)


def test_undecided_comparisons_give_no_winner():
    assert headline({"insertion": {"a": 0.50, "b": 0.51}}) == ("insertion cannot tell the methods apart with 8 images.")


def test_methods_no_better_than_random_maps_are_not_praised():
    levels = {"insertion": {"random": 0.5, "grad": 0.3, "ig": 0.5}}
    assert headline(levels) == "No method beats random maps under insertion."


@pytest.mark.parametrize("metric", ["sparseness", "value_density"])
def test_metrics_that_only_describe_maps_do_not_vote(metric):
    summary = score_summary(score_table(scores_of({**PLAIN, metric: {"random": 0.9, "grad": 0.1, "ig": 0.5}})))
    assert summary.headline == "grad is best under both insertion and deletion."
    assert any(line.startswith(f"{metric} describes the maps") for line in summary.details)


def test_a_single_method_without_curves_or_images_is_reported(tmp_path):
    bare = scores_of({"insertion": {"maps": 0.4}}, images=1, provenance={}, notices=(), maps={})
    scores = Scores(bare.table, bare.per_image, bare.comparisons)
    path = write_scores(scores, tmp_path / "new" / "folder")
    text = Reader(path.read_text()).text
    assert "Nothing to compare: only maps was scored." in text
    assert "0.400" in text
    assert {p.name for p in (path.parent / "figures").iterdir()} == {
        "values.svg",
        "values.png",
        "per-image.svg",
        "per-image.png",
    }


def test_a_method_that_a_metric_has_no_value_of_has_a_dash():
    reader = read(scores_of({"insertion": {"a": 0.4, "b": 0.6}, "deletion": {"a": 0.2}}, curves=["insertion"]))
    assert "–" in reader.texts and "0.600" in reader.text


def test_scores_without_any_number_are_reported():
    text = read(scores_of({"insertion": {"a": np.nan, "b": np.nan}}, curves=["insertion"])).text
    assert "No metric gave a number." in text


def test_no_rows_at_all_are_reported():
    full = scores_of(PLAIN)
    empty = Scores(full.table[:0], full.per_image[:0], full.comparisons[:0])
    assert "No metric gave a number." in read(empty).text


def test_twelve_methods_all_appear_with_looks_of_their_own():
    levels = {"insertion": {f"method({i})": i / 20 for i in range(12)}}
    part = metric_part(scores_of(levels, curves=["insertion"]))
    looks = part.table.styles.values()
    assert len({(s.light, s.dash, s.marker) for s in looks}) == 12
    assert len(part.curves["insertion"].series) == 12
    assert draw(part.values).files["values.png"].startswith(b"\x89PNG")


def test_curves_have_the_means_and_intervals_of_the_scores():
    scores = scores_of(PLAIN)
    line = Line(np.array([0.5, 0.25]), np.array([0.1, np.nan]), np.array([3, 1]))
    none = Line(np.full(2, np.nan), np.full(2, np.nan), np.zeros(2, int))
    curves = {"insertion": Curves(np.array([0.0, 1.0]), {"grad": line, "ig": none})}
    scores = Scores(scores.table, scores.per_image, scores.comparisons, curves)
    (series,) = metric_part(scores).curves["insertion"].series
    assert (series.label, series.y, series.n) == ("grad", (0.5, 0.25), (3, 1))
    assert (series.low, series.high) == ((0.4, None), (0.6, None))


def test_the_curve_of_soundness_counts_hidden_pixels_and_runs_backwards():
    levels = {"soundness(level=0.4)": {"a": 0.4, "b": 0.9}}
    (figure,) = metric_part(scores_of(levels, curves=list(levels))).curves["soundness(level=0.4)"].charts
    assert "hidden" in figure.x_label
    assert figure.y_label == "accuracy"
    assert figure.x_range == (1.0, 0.0)
    assert (figure.level, figure.level_label) == (0.4, "level")


def test_disagreement_is_looked_for_among_the_images_that_can_be_shown():
    scores = scores_of({"insertion": {"random": 0.0, "a": 0.5, "b": 0.5}}, images=8, shown=4)
    table = scores.per_image
    for method, image, value in [("b", 2, 0.9), ("b", 6, 5.0), ("random", 1, 9.0)]:
        table.loc[(table["method"] == method) & (table["image"] == image), "value"] = value
    (figure,) = metric_part(scores).disagreements
    (row,) = figure.plots[0].rows
    assert row.label == "Image 2: <u>cat</u>"
    assert [tile.best for tile in row.tiles] == [False, False, True]


def test_a_metric_of_right_or_wrong_is_shown_as_shares():
    scores = scores_of({"pointing_game": {"a": 0.5, "b": 0.2}}, images=4)
    scores.per_image["value"] = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    (forest,) = metric_part(scores).spread.forests
    assert forest.kind == "bars"
    assert [row.value for row in forest.rows] == [0.75, 0.25]


def test_every_metric_is_explained_from_its_declaration():
    text = read(scores_of({"insertion": {"a": 0.1}, "pointing_game": {"a": 0.2}, "own": {"a": 0.3}})).text
    assert "Petsiuk et al. 2018" in text
    assert "the region's share of the image" in text
    assert "No metric of this name is declared here." in text


def test_names_that_would_be_printed_alike_stay_apart():
    table = score_table(scores_of({"insertion": {"a\nb": 0.1, "a b": 0.9}}))
    assert table.methods == ("a b", "a b (2)")
    assert table.sole(table.metrics[0]) == "a b (2)"


def test_the_same_scores_give_the_same_page_and_figures():
    pages = {score_page(s, score_chapter(s), {}) for s in (scores_of(PLAIN), scores_of(PLAIN))}
    assert len(pages) == 1
    figures = [metric_part(scores_of(PLAIN)).values for _ in range(2)]
    assert draw(figures[0]) == draw(figures[1])


def test_what_is_mostly_undefined_is_marked_and_not_ranked():
    levels = {"insertion": {"random": 0.3, "grad": 0.95, "ig": 0.5}}
    scores = scores_of(levels, images=40, undefined={"insertion": {"grad": 18, "ig": 2}})
    table = score_table(scores)
    (metric,) = table.metrics
    assert table.ranked(metric) == ["random", "ig"] and table.best(metric) == ["ig"]
    assert table.mark("grad", metric) == "unranked"
    assert "grad" not in score_summary(table).headline
    assert any("Not ranked: grad (18 of 40 undefined (45\u00a0%))" in line for line in score_summary(table).details)
    shown = score_page(scores, score_chapter(scores), {})
    assert "(0.950)" in shown and "not ranked" in shown
    assert "2 of 40 undefined (5\u00a0%)" in shown


def test_the_network_and_what_it_predicts_stand_on_the_page():
    weak = NetworkQuality(8, 10, 0.2, 0.25)
    said = tuple(Prediction(f"<cat {k}>", 0.5) for k in range(4))
    scores = scores_of(PLAIN, quality=weak, predictions=said)
    shown = score_page(scores, score_chapter(scores), {})
    assert "right on 25 % of 8 images" in shown and "Weak network." in shown
    assert re.search(r"predicted &lt;cat \d&gt; \(50\u00a0%\)", shown)
    good = scores_of(PLAIN, quality=NetworkQuality(8, 10, 0.9, 0.95))
    assert "Weak network." not in score_page(good, score_chapter(good), {})


def test_every_table_of_the_page_is_in_a_box_that_scrolls():
    page = score_page(scores := scores_of(PLAIN), score_chapter(scores), {})
    assert 'class="spread"' in page
    assert not re.search(r"</p>\s*<table", page.partition('class="spreads"')[2].partition("</section>")[0])
