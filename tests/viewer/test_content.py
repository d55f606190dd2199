"""The data behind the viewer: what is packed is what the store and the tables have, and what is not there says so."""

from __future__ import annotations

import base64
import io
import json
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from uproar.errors import BadInput
from uproar.estimators import read_chain
from uproar.report.answer import AnswerPart
from uproar.report.section import Section
from uproar.study.image_evidence import NO_CLASS, ImageEvidence
from uproar.viewer.content import ABSENT, Content
from uproar.viewer.folder import FILES, write_folder
from uproar.viewer.index import _methods
from uproar.viewer.packing import column, script, sheet, shrunk, signed_bytes


def unpacked(content: Content, name: str):
    """A file of data as a reader of its text has it."""
    text = content.file(name).decode()
    head = f'received("{name}", '
    assert text.startswith(head) and text.endswith(");\n")
    return json.loads(text[len(head) : -3])


def numbers(packed) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["bytes"]), packed["type"]).reshape(packed["shape"])


def pictures(packed) -> np.ndarray:
    image = np.asarray(Image.open(io.BytesIO(base64.b64decode(packed["png"]))))
    return image.reshape(packed["count"], packed["height"], packed["width"], packed["channels"])


def test_the_classes_in_the_columns_give_the_accuracies_of_the_table(content, opened):
    known = unpacked(content, "s0-base")
    labels, (setting,) = numbers(known["labels"]), content.index["settings"]
    table = opened.done.set_index(["protocol", "estimator", "fraction", "seed"])["accuracy"]
    counted = 0
    for p, protocol in enumerate(setting["protocols"]):
        for m, method in enumerate(setting["methods"]):
            said = numbers(unpacked(content, f"s0-answers-{p}-{m}")["classes"])
            for r, seed in enumerate(setting["seeds"]):
                for f, fraction in enumerate(setting["fractions"]):
                    wanted = table[protocol["name"], method["name"], fraction, seed]
                    assert (said[r, f] == labels).mean() == pytest.approx(wanted)
                    counted += 1
    assert counted == 2 * 3 * 2 * 2
    plain = table["roar", "grad", 0.0, 0]
    assert (numbers(known["classes"])[0] == labels).mean() == pytest.approx(plain)


def test_bits_and_metric_values_are_those_of_the_tables(content, opened):
    (setting,) = content.index["settings"]
    bits = opened.done.set_index(["protocol", "estimator", "fraction", "seed"])["bits"]
    mine = numbers(unpacked(content, "s0-answers-0-1")["bits"]) / 1000
    assert mine[1, 0].mean() == pytest.approx(bits["roar", "grad", 0.3, 1], abs=5e-4)
    values = numbers(unpacked(content, "s0-values-1")["values"])
    scores = opened.scores.set_index(["estimator", "seed"])["value"]
    assert values.shape == (1, 2, 24)
    assert values[0, 0].mean() == pytest.approx(scores["grad", 0], rel=1e-5)
    assert setting["metrics"] == [{"name": "deletion(steps=4)", "higher_is_better": False}]


def test_images_levels_and_colour_compose_to_what_the_protocols_show(content):
    """As the page does it: a pixel is important where its level is at most the number of the fraction."""
    (setting,), (one,) = content.index["settings"], content.evidence
    whole, colour = pictures(unpacked(content, "s0-images-0")), np.array(setting["fill"]["colour"], np.uint8)
    assert len(whole) == setting["images"] == 24
    for m, chain in enumerate(one.methods):
        levels = pictures(unpacked(content, f"s0-levels-{m}-0-0"))
        for f, fraction in enumerate(setting["fractions"]):
            for keeps in (False, True):
                important = levels <= f
                shown = np.where(important == keeps, whole, colour)
                np.testing.assert_array_equal(shown, one.changed(chain, fraction, keeps, slice(0, 24)))
            assert (levels <= f).sum((1, 2)).tolist() == [[round(fraction * 64)]] * 24


def test_maps_are_those_of_the_store(content):
    (one,) = content.evidence
    packed = pictures(unpacked(content, "s0-maps-1-1-0"))[..., 0].astype(float)
    maps = one.maps(one.methods[1], one.study.seeds[1], slice(0, 24))
    assert np.abs((packed - 128) / 127 - maps).max() <= 0.5 / 127 + 1e-6
    assert np.abs(maps).max((1, 2)).min() > 0.99, "each is scaled alone"


def test_what_is_not_in_the_store_is_said_to_be_absent(content):
    (one,) = content.evidence
    more = ImageEvidence(one.study.with_changes(estimators=("random", "grad", "ig"), fractions=(0.3, 0.5)), one.bench)
    further = Content(content.run, (more,))
    at = [chain.name for chain in more.methods].index("ig")
    for name in (f"maps-{at}-0-0", f"levels-{at}-0-0", f"answers-0-{at}", f"values-{at}", "levels-1-0-0"):
        assert unpacked(further, f"s0-{name}") == ABSENT, name
    said = numbers(unpacked(further, "s0-answers-0-1")["classes"])
    assert (said[:, 1] == NO_CLASS).all() and (said[:, 0] != NO_CLASS).all()


@pytest.mark.parametrize(
    "name", ["s1-base", "s0-maps-9-0-0", "s0-images-1", "s0-nothing", "s0-maps-0-0", "x", "s0-images--1", "s-base"]
)
def test_a_name_that_is_none_has_no_file(content, name):
    assert content.file(name) is None


def test_a_fill_that_is_not_one_colour_brings_the_changed_images(content):
    (one,) = content.evidence
    blurred = ImageEvidence(one.study.with_changes(fill="blur"), one.bench)
    names = list(Content(content.run, (blurred,)).names())
    assert blurred.constant_fill is None and "s0-changed-2-1-1-0" in names
    assert not [name for name in content.names() if "changed" in name]
    shown = blurred.changed(one.methods[1], 0.3, False, slice(0, 3))
    kept = ~blurred.bench.rankings.important(_ranking(one), 0.3, one.bench.task.test, slice(0, 3), make=False).numpy()
    np.testing.assert_array_equal(shown[..., 0][kept], one.pixels(slice(0, 3))[..., 0][kept])


def _ranking(one):
    from uproar.study.settings import ImageRanking

    return ImageRanking(one.methods[1], one.study.seeds[0])


def test_the_folder_holds_every_file_and_nothing_of_an_earlier_one(content, tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("data/s3-maps-1-1-1.js", "data/notes.txt", "mine.html"):
        (tmp_path / name).write_text("before")
    page = write_folder(content, tmp_path)
    assert page == tmp_path / "index.html"
    there = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert there == {*FILES, *(f"data/{name}.js" for name in content.names()), "data/notes.txt", "mine.html"}
    few = Content(content.run, tuple(ImageEvidence(one.study, one.bench, 5) for one in content.evidence))
    assert few.index["settings"][0]["images"] == 5
    assert len(pictures(unpacked(few, "s0-images-0"))) == 5


def test_packed_arrays_read_back():
    values = np.array([[1.5, np.nan], [-2.0, np.inf]], np.float32)
    np.testing.assert_array_equal(numbers(column(values)), values)
    assert script("a", {"x": [np.nan, np.float32(0.5), None, 1]}) == b'received("a", {"x":[null,0.5,null,1]});\n'
    rng = np.random.default_rng(0)
    for channels in (1, 3):
        one = rng.integers(0, 256, (3, 5, 4, channels), dtype=np.uint8)
        np.testing.assert_array_equal(pictures(sheet(one)), one)
    assert signed_bytes(np.array([[[-1.0, 0.0, 1.0, np.nan, 7.0]]])).ravel().tolist() == [1, 128, 255, 0, 255]
    assert shrunk(np.zeros((2, 96, 60, 3), np.uint8)).shape == (2, 48, 30, 3)


def test_folders_of_scores_and_bad_options_are_refused(tmp_path, folder):
    from uproar.cli.view import _check

    (tmp_path / "scores.json").write_text("{}")
    with pytest.raises(BadInput, match=r"holds scores and no run: its page is .*scores\.html"):
        _check(tmp_path, None, None, 0)
    with pytest.raises(BadInput, match="--images must be at least 1, not 0"):
        _check(folder, None, 0, 0)
    with pytest.raises(BadInput, match="--port must be between 0 and 65535, not 70000"):
        _check(folder, None, None, 70000)


def test_rankings_that_know_the_truth_or_come_from_a_file_are_not_called_network_free(tmp_path):
    """The page begins with the first method that is not network-free."""
    np.savez(tmp_path / "maps.npz", test=np.zeros((2, 4, 4), dtype=np.float32))
    chains = [read_chain(name) for name in ("sobel", "oracle", f"maps:{tmp_path / 'maps.npz'}", "ig")]
    rows = _methods(AnswerPart("", (), (), ()), Mock(Section, styles={}), Mock(ImageEvidence, methods=chains))
    assert [row["network_free"] for row in rows] == [True, False, False, False]


def test_methods_have_the_letters_of_the_answer_and_its_order(content, opened):
    (setting,) = content.index["settings"]
    answer = opened.answer
    placed = sorted((m for m in setting["methods"] if m["place"] is not None), key=lambda m: m["place"])
    assert [method["name"] for method in placed] == list(answer.methods)
    assert [method["group"] for method in placed] == [answer.group_of(name) for name in answer.methods]
    assert all(method["not_checked"].startswith("not checked") for method in placed)
