"""The pages in a browser: with and without scripts, on a phone, on paper. Skipped where there is no Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from uproar.report import write_report, write_scores
from uproar.report.style import HUES
from uproar.results.quality import NetworkQuality
from webdriver import DRIVER, MISSING, Browser

from .test_score_report import PLAIN, scores_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look with")
WATCH = """<script>
const seen = [];
addEventListener("error", (e) => seen.push(String(e.message)));
addEventListener("unhandledrejection", (e) => seen.push(String(e.reason)));
const original = console.error;
console.error = (...words) => { seen.push(words.join(" ")); original(...words); };
setTimeout(() => parent.postMessage({
  seen, wide: document.documentElement.scrollWidth - innerWidth,
  drawn: document.querySelectorAll(".plot.drawn").length, plots: document.querySelectorAll(".plot").length,
  sideways: document.querySelectorAll(".scroll.wide").length,
}, "*"), 2500);
</script>"""


def browse(page, tmp_path, *options: str) -> str:
    """What Chromium prints about a page."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=6000",
        *options,
    ]
    done = subprocess.run([CHROMIUM, *flags, page.as_uri()], capture_output=True, text=True, timeout=120)
    shutil.rmtree(tmp_path / "profile", ignore_errors=True)
    return done.stdout


def framed(page, width: int, height: int) -> str:
    """A page around another, which is so wide: windows cannot be as narrow as a phone."""
    return (
        f"<!doctype html><title>waiting</title><body style='margin:0'><iframe src='{page.name}' "
        f"style='border:0;width:{width}px;height:{height}px'></iframe><script>addEventListener('message', "
        "(e) => { document.title = JSON.stringify(e.data); });</script>"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A page of a study and one of scores, each written once."""
    from .conftest import cells, picture, results_of

    place = tmp_path_factory.mktemp("pages")
    levels = {f"method_{k}(grad, option={k})": 0.5 + 0.03 * k for k in range(11)} | {"random": 0.8}
    rows = cells({"roar": levels, "roar:no-retrain": levels})
    quality = {("digits", "cnn"): NetworkQuality(100, 10, 0.2, 0.3)}
    results = results_of(rows, pictures=(picture(list(levels)),), quality=quality)
    write_report(results, place / "run")
    write_scores(scores_of(PLAIN, curves=["insertion"]), place / "scores")
    return place


@pytest.mark.parametrize("name", ["run/report.html", "scores/scores.html"])
def test_on_a_phone_nothing_sticks_out_every_chart_is_drawn_and_nothing_goes_wrong(folder, name, tmp_path):
    page = folder / name
    watched = page.with_name("watched.html")
    watched.write_text(page.read_text("utf-8").replace("<head>", f"<head>{WATCH}", 1), "utf-8")
    frame = page.with_name("frame.html")
    frame.write_text(framed(watched, 390, 900), "utf-8")
    title = re.search("<title>(.*?)</title>", browse(frame, tmp_path, "--dump-dom")).group(1)
    told = json.loads(html.unescape(title))
    assert told["seen"] == []
    assert told["wide"] <= 0, "the page is wider than the screen"
    assert told["plots"] > 0 and told["drawn"] >= min(told["plots"], 1)
    assert told["sideways"] > 0, "wide tables say that they go on"


def test_without_scripts_the_charts_are_there(folder, tmp_path):
    """The page as a browser with scripts off has it: no script elements, and what is inside noscript in their place."""
    page = folder / "run" / "report.html"
    bare = page.with_name("bare.html")
    text = re.sub(r"(?s)<script.*?</script>", "", page.read_text("utf-8"))
    bare.write_text(re.sub("</?noscript>", "", text), "utf-8")
    shot = tmp_path / "page.png"
    browse(bare, tmp_path, "--window-size=1200,4200", f"--screenshot={shot}")
    pixels = np.asarray(Image.open(shot).convert("RGB")).astype(int)
    for light, _ in HUES:
        colour = [int(light[k : k + 2], 16) for k in (1, 3, 5)]
        rows = np.flatnonzero((np.abs(pixels - colour).max(2) <= 3).sum(1) > 0)
        assert np.ptp(rows) > 1000, f"{light} stands in the verdicts and in the curves far below"


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
def test_on_paper_every_chart_has_its_place(folder, tmp_path):
    """Words of the static charts are found in the PDF, each page is A4 across, and no chart covers text."""
    sheet = tmp_path / "page.pdf"
    browse(folder / "run" / "report.html", tmp_path, f"--print-to-pdf={sheet}")
    told = subprocess.run(["pdftotext", "-layout", sheet, "-"], capture_output=True, text=True).stdout
    assert told.count("share of pixels removed") == 2, "the curves are printed once, and those of retraining"
    assert "Weak network." in told and "Method against method" in told
    boxes = subprocess.run(["pdftotext", "-bbox", sheet, "-"], capture_output=True, text=True).stdout
    for page in boxes.split("<page ")[1:]:
        wide, tall = map(float, re.match(r'width="([\d.]+)" height="([\d.]+)"', page).groups())
        assert wide > tall
        words = [
            tuple(map(float, box))
            for box in re.findall(r'<word xMin="([\d.]+)" yMin="([\d.]+)" xMax="([\d.]+)" yMax="([\d.]+)"', page)
        ]
        assert all(x1 <= wide + 1 for _, _, x1, _ in words), "words beyond the paper"
        assert overlaps(words) <= 1, "words on words"


@pytest.mark.skipif(DRIVER is None, reason=MISSING)
def test_values_are_read_lines_hidden_parts_enlarged_and_text_copied(folder):
    """By pointer and by keyboard, in a page of under two megabytes that asks for nothing else."""
    page = folder / "run" / "report.html"
    assert page.stat().st_size < 2_000_000
    with Browser() as browser:
        browser.resize(1400)
        browser.open(page.as_uri())
        lines = "return document.querySelectorAll('.plot.drawn:not(.small) .series').length"
        all_lines = browser.run(lines)
        browser.run("document.querySelector('.legend [data-series]').click()")
        assert 0 < browser.run(lines) < all_lines
        browser.run("document.querySelector('[data-all=true]').click()")
        assert browser.run(lines) == all_lines
        browser.run(
            "const p = document.querySelector('.plot.drawn'); p.scrollIntoView({behavior: 'instant'}); p.focus()"
        )
        browser.press("\ue014", "\ue014")
        told = browser.text(".readout").splitlines()
        assert told[0] in browser.run("return [...document.querySelectorAll('.legend code')].map((c) => c.textContent)")
        assert any(line.startswith("accuracy ") for line in told) and any(line.startswith("n = ") for line in told)
        ticks = (
            "return [...document.querySelector('.plot.drawn').querySelectorAll('.axes text')].map((t) => t.textContent)"
        )
        before = browser.run(ticks)
        box = browser.run(
            "const b = document.querySelector('.plot.drawn .chart').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]"
        )
        browser.drag((box[0] + 0.4 * box[2], box[1] + 0.2 * box[3]), (box[0] + 0.7 * box[2], box[1] + 0.6 * box[3]))
        assert browser.run(ticks) != before
        browser.click(".whole-view")
        assert browser.run(ticks) == before
        browser.click("[data-copy=paste-1]")
        browser.wait("return document.querySelector('[data-copy=paste-1]').textContent === 'copied'")
        assert browser.errors() == []
        assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []


def overlaps(boxes: list[tuple[float, ...]]) -> int:
    """How many pairs of words lie on each other, by more than half of the smaller one."""
    result = 0
    for k, (a0, b0, a1, b1) in enumerate(boxes):
        for c0, d0, c1, d1 in boxes[k + 1 :]:
            shared = max(0.0, min(a1, c1) - max(a0, c0)) * max(0.0, min(b1, d1) - max(b0, d0))
            result += shared > 0.5 * min((a1 - a0) * (b1 - b0), (c1 - c0) * (d1 - d0))
    return result
