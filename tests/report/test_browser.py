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

from uproar.report import write_report
from uproar.report.figures import HUES
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
  drawn: document.querySelectorAll("svg.drawn").length,
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
    write_report(scores_of(PLAIN, curves=["insertion"]), place / "scores")
    return place


@pytest.mark.parametrize("name", ["run/report.html", "scores/report.html"])
def test_on_a_phone_nothing_sticks_out_and_nothing_goes_wrong(folder, name, tmp_path):
    page = folder / name
    watched = page.with_name("watched.html")
    watched.write_text(page.read_text("utf-8").replace("<head>", f"<head>{WATCH}", 1), "utf-8")
    frame = page.with_name("frame.html")
    frame.write_text(framed(watched, 390, 900), "utf-8")
    title = re.search("<title>(.*?)</title>", browse(frame, tmp_path, "--dump-dom")).group(1)
    told = json.loads(html.unescape(title))
    assert told["seen"] == []
    assert told["wide"] <= 0, "the page is wider than the screen"
    assert told["drawn"] > 0


def test_without_scripts_the_charts_are_there(folder, tmp_path):
    """The page as a browser with scripts off has it: no script elements, and what is inside noscript in their place."""
    page = folder / "run" / "report.html"
    bare = page.with_name("bare.html")
    text = re.sub(r"(?s)<script.*?</script>", "", page.read_text("utf-8"))
    bare.write_text(re.sub("</?noscript>", "", text).replace("<details>", "<details open>"), "utf-8")
    shot = tmp_path / "page.png"
    browse(bare, tmp_path, "--window-size=1200,4200", f"--screenshot={shot}")
    pixels = np.asarray(Image.open(shot).convert("RGB")).astype(int)
    for light in HUES:
        colour = [int(light[k : k + 2], 16) for k in (1, 3, 5)]
        rows = np.flatnonzero((np.abs(pixels - colour).max(2) <= 3).sum(1) > 0)
        assert np.ptp(rows) > 400, f"{light} stands in the curves and in the verdicts far below"


@pytest.mark.skipif(DRIVER is None, reason=MISSING)
def test_values_are_read_lines_hidden_and_images_chosen(folder):
    """In a page of under two megabytes that asks for nothing else."""
    page = folder / "run" / "report.html"
    assert page.stat().st_size < 2_000_000
    with Browser() as browser:
        browser.resize(1400)
        browser.open(page.as_uri())
        lines = (
            "return [...document.querySelectorAll('[data-series]')].filter((s) => s.style.display !== 'none').length"
        )
        every = browser.run(lines)
        click = "document.querySelector('[data-legend]').dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        browser.run(click)
        assert 0 < browser.run(lines) < every
        browser.run(click)
        assert browser.run(lines) == every
        told = browser.run(
            "const p = document.querySelector('use > title').parentNode, b = p.getBoundingClientRect();"
            "p.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: b.x + 1, clientY: b.y + 1}));"
            "return [document.getElementById('tip').hidden, document.getElementById('tip').textContent]"
        )
        assert told[0] is False and "[" in told[1], "a value with its interval"
        browser.run("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        shown = "return document.querySelectorAll('#maps [data-show]:not([hidden])').length"
        assert browser.run(shown) == 12
        choose = "const c = document.querySelector('#maps [data-choose={}]'); {}; "
        choose += "c.dispatchEvent(new Event('input', {{bubbles: true}}))"
        browser.run(choose.format("method", "c.value = 'random'"))
        assert browser.run("return document.querySelectorAll('#maps td:not([hidden])').length") == 1
        browser.run(choose.format("show", "c.selectedIndex = 1"))
        assert browser.run("return document.querySelector('#maps [data-show]:not([hidden])').dataset.show") == "1"
        ground = "return getComputedStyle(document.querySelector('#maps .tile'), '::before').display"
        assert browser.run(ground) == "block"
        browser.run("document.querySelector('.overlay').click()")
        assert browser.run(ground) == "none", "the image below a map is hidden without a script"
        assert browser.errors() == []
        assert [one for one in browser.requests() if not one.startswith(("file:", "data:"))] == []
