"""The viewer in Chromium: every control at two widths, from disk and served. Skipped where there is no Chromium."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

from tests.viewer.conftest import STUDY, progress
from uproar.viewer.folder import write_folder
from uproar.viewer.live import LiveRun
from uproar.viewer.server import Server

SHOWN = "return document.body.dataset.shown === location.hash && document.getElementById('problem').hidden"
ESCAPE, RIGHT = "\ue00c", "\ue014"
UNNAMED = """
const named = (e) => e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim();
return [...document.querySelectorAll("button, select, a, canvas[role=img], [role=region], table")]
  .filter((e) => e.checkVisibility() && !named(e)).map((e) => e.outerHTML.slice(0, 80));
"""
CHOOSE = """
const [id, value] = arguments, box = document.getElementById(id);
delete document.body.dataset.shown;
box.value = value;
box.dispatchEvent(new Event("change"));
"""


@pytest.fixture(scope="module")
def page(content, tmp_path_factory) -> str:
    """The address of the viewer in a folder."""
    return write_folder(content, tmp_path_factory.mktemp("site")).as_uri()


def show(browser, address: str) -> None:
    browser.open("about:blank")
    browser.open(address)
    browser.wait(SHOWN)


@pytest.mark.parametrize("width", [1400, 390])
def test_every_control_works_without_an_error_or_a_request(browser, page, width):
    browser.resize(width, dark=width < 600)
    browser.errors(), browser.requests()
    show(browser, f"{page}#image=3&against=sobel")
    options = browser.run(
        "return [...document.querySelectorAll('#controls select')].map((s) => [s.id, s.value, [...s.options].filter((o) => !o.disabled).map((o) => o.value)])"
    )
    assert {name for name, *_ in options} >= {"protocol", "fraction", "class", "mistakes", "disagreement", "order"}
    for name, first, values in options:
        for value in [*(value for value in values if value != first), first]:
            browser.run(CHOOSE, name, value)
            browser.wait(SHOWN)
            assert browser.run("return document.getElementById(arguments[0]).value", name) == value
    for selector in (
        "#methods [data-method]",
        "#methods [data-against]:enabled",
        "#methods [data-cell]",
        "[data-fraction]",
    ):
        for place in range(browser.run("return document.querySelectorAll(arguments[0]).length", selector)):
            browser.run(
                "const all = document.querySelectorAll(arguments[0]); all[Math.min(arguments[1], all.length - 1)].click()",
                selector,
                place,
            )
            browser.wait(SHOWN)
    for name in ("clear", "previous", "next", "close"):
        browser.run("document.getElementById(arguments[0]).click()", name)
        browser.wait(SHOWN)
    assert browser.run("return document.documentElement.scrollWidth") <= width, "the page is wider than the screen"
    assert browser.run(UNNAMED) == []
    assert browser.errors() == []
    assert all(address.startswith(("file:", "data:", "about:")) for address in browser.requests())


def test_a_link_shows_what_it_says_and_the_pictures_are_the_right_ones(browser, page, content):
    """The canvases of map and changed images against what Python makes of the store."""
    browser.resize(1400)
    show(browser, f"{page}#method=grad&against=sobel&protocol=roar&fraction=0.7&replicate=0&image=5")
    assert browser.text("#evidence-title").startswith("Image 5: ")
    drawn = browser.run(
        "return [...document.querySelectorAll('.strip canvas')].map((c) => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data])"
    )
    assert len(drawn) == 8
    (one,), row = content.evidence, slice(5, 6)
    for first, chain in ((0, one.methods[1]), (4, one.methods[2])):
        shown = [np.array(c).reshape(8, 8, 4)[..., :3] for c in drawn[first : first + 4]]
        wanted = {0: one.pixels(row), 2: one.changed(chain, 0.7, False, row), 3: one.changed(chain, 0.7, True, row)}
        for at, pixels in wanted.items():
            np.testing.assert_array_equal(shown[at], np.broadcast_to(pixels[0], (8, 8, 3)))
        values = one.maps(chain, 0, row)[0]
        redder = shown[1][..., 0].astype(int) - shown[1][..., 2]
        assert (redder[values > 0.1] > 0).all() and (redder[values < -0.1] < 0).all()


def test_the_table_of_a_picture_has_every_network_and_metric(browser, page, content):
    show(browser, f"{page}#method=grad&fraction=0.3&image=2")
    (setting,) = content.index["settings"]
    rows = browser.run(
        "return [...document.querySelectorAll('#said tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))"
    )
    assert [row[0] for row in rows] == ["unchanged image, explained network", "ROAR", "KAR without retraining"]
    (one,) = content.evidence
    said, bits = one.answers(one.protocols[0], one.methods[1])
    for r in range(2):
        word, sure = setting["classes"][said[r, 0, 2]], 2.0 ** -float(bits[r, 0, 2])
        assert f" {word}" in rows[1][1 + r] and f"{100 * sure:.0f} %" in rows[1][1 + r]
    value = float(np.mean(one.values(one.methods[1])[0, :, 2]))
    shown = browser.run("return document.querySelector('#values tbody td').innerText").replace("−", "-")
    assert float(shown) == pytest.approx(value, rel=0.01)


def test_filters_leave_the_images_that_python_finds(browser, page, content):
    (one,) = content.evidence
    labels, (before, _), (said, _) = one.labels, one.base_answers(), one.answers(one.protocols[0], one.methods[1])
    right, wrong = before[0] == labels, said[0, 0] != labels
    wanted = {
        "mistakes=network": ~right,
        "mistakes=changed": wrong,
        "mistakes=flipped": right & wrong,
        "mistakes=held": right & ~wrong,
        "disagreement=replicates": said[0, 0] != said[1, 0],
        "disagreement=methods&against=sobel": said[0, 0] != one.answers(one.protocols[0], one.methods[2])[0][0, 0],
        "disagreement=protocols": said[0, 0] != one.answers(one.protocols[1], one.methods[1])[0][0, 0],
        "class=1": labels == 1,
    }
    for asked, mask in wanted.items():
        show(browser, f"{page}#method=grad&protocol=roar&fraction=0.3&replicate=0&{asked}")
        shown = browser.run("return [...document.querySelectorAll('[data-image]')].map((b) => Number(b.dataset.image))")
        assert shown == np.flatnonzero(mask).tolist(), asked
    show(browser, f"{page}#method=grad&fraction=0.3&order=metric:deletion(steps%3D4)")
    values = one.values(one.methods[1])[0].mean(0)
    first = browser.run("return [...document.querySelectorAll('[data-image]')].map((b) => Number(b.dataset.image))")
    assert (np.diff(values[first]) >= 0).all() and len(first) == 24


def test_keys_move_through_images_and_the_focus_goes_where_the_eye_does(browser, page):
    show(browser, f"{page}#method=grad&fraction=0.3")
    browser.run("document.querySelector('[data-image=\"4\"]').click()")
    browser.wait("return document.activeElement.id === 'evidence-title'")
    browser.press(RIGHT, "]")
    browser.wait("return location.hash.includes('image=5') && location.hash.includes('fraction=0.7')")
    browser.wait(SHOWN)
    browser.press(ESCAPE)
    browser.wait("return document.activeElement.dataset.image === '5' && document.getElementById('evidence').hidden")
    browser.run("history.back()")
    browser.wait("return location.hash.includes('image=5') && !document.getElementById('evidence').hidden")


def test_names_from_files_are_text_and_never_markup(browser, content, tmp_path):
    page = write_folder(content, tmp_path)
    file = tmp_path / "data" / "index.js"
    hostile = '<img src=x onerror="document.title=1"><script>alert(1)</script>'
    text = file.read_text()
    for name in (setting := content.index["settings"][0])["classes"] + [
        setting["methods"][1]["name"],
        content.index["study"],
    ]:
        text = text.replace(json.dumps(name), json.dumps(hostile))
    file.write_text(text)
    show(browser, f"{page.as_uri()}#image=1")
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    assert hostile in browser.run("return document.getElementById('study').textContent")
    assert browser.errors() == []


def test_it_is_dark_at_night_and_prints_without_controls(browser, page):
    browser.resize(1400, dark=True)
    show(browser, page)
    ground = "return getComputedStyle(document.body).backgroundColor"
    night = browser.run(ground)
    browser.resize(1400)
    assert browser.run(ground) != night
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    hidden = browser.run("return getComputedStyle(document.getElementById('controls')).display")
    browser.command("Emulation.setEmulatedMedia", media="", features=[])
    assert hidden == "none"


def test_a_run_that_goes_on_is_followed(browser, folder):
    """Its cells come into the store while the page is open: the number appears without a reload."""
    progress(folder, 3, 4)
    cells, away = folder / "store" / "cell", folder / "away"
    cells.rename(away)
    server = Server(LiveRun(folder, STUDY, str(folder / "store"), {}, None))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        browser.errors(), browser.requests()
        show(browser, f"{server.address}#method=grad&image=1")
        browser.wait("return document.getElementById('progress').textContent.startsWith('running: 3 of 4 cells')")
        assert browser.run("return document.querySelectorAll('[data-cell]').length") == 0
        browser.run("window.same = true")
        away.rename(cells)
        progress(folder, 4, 4)
        browser.wait("return document.querySelectorAll('[data-cell]').length === 6 && window.same", 20)
        browser.wait(SHOWN)
        assert browser.text("#progress") == "finished: 4 cells"
        assert browser.errors() == []
        assert all(one.startswith((server.address, "data:", "about:")) for one in browser.requests())
    finally:
        if away.exists():
            away.rename(cells)
        progress(folder, 4, 4)
        server.shutdown()
        thread.join()
        server.server_close()
