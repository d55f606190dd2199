"""Every documented command line works: on terminals of 80 and 200 columns, through pipes, with TERM=dumb.

Lines that compute nothing are tried in all four; the others where words are cut first, at 80 columns, and in one of the
four in turn, where they compute; after that they find their results. Pages are written once.
"""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
import typer
from PIL import Image
from rich.cells import cell_len
from safetensors.torch import save_file

from tests.cli.documented import COMPUTED, EVERYWHERE, ROOT, documented
from tests.cli.terminal import Commands, Shown
from uproar.cli.app import app

MODES = ("80 columns", "200 columns", "piped", "dumb")
NET = """
from torch import nn
def build():
    return nn.Sequential(nn.Conv2d(CHANNELS, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
"""
METHOD = """
import torch
def my_method(model, x, target):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        score = model(x).gather(1, target[:, None]).sum()
        return torch.autograd.grad(score, x)[0].detach()
"""
STUDY = """
task = "planted(size=8, classes=3, train=60, test=30)"
model = "cnn-small(width=4)"
estimators = ["random", "grad"]
metrics = ["roar"]
fractions = [0.5]
seeds = 2
claims = ["hooker2019"]
[recipe]
epochs = 1
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, commands: Commands):
    """A folder with everything the documented lines speak of, small."""
    place = tmp_path_factory.mktemp("documented")
    (place / "study.toml").write_text(STUDY)
    (place / "my_method.py").write_text(METHOD)
    (place / "net.py").write_text(NET.replace("CHANNELS", "1"))
    done = commands.piped(["run", "study.toml", "--jobs", "1", "--out", "runs/digits"], place)
    assert done.code == 0, done.errors
    shutil.copytree(place / "runs" / "digits", place / "runs" / "x")
    return place


@pytest.fixture
def photos(folder, tmp_path):
    """The folder with pictures, a network for them, its weights, training images, and maps."""
    for name in ("my_method.py", "study.toml"):
        shutil.copy(folder / name, tmp_path / name)
    (tmp_path / "net.py").write_text(NET.replace("CHANNELS", "3"))
    (tmp_path / "photos").mkdir()
    rng = np.random.default_rng(0)
    for i in range(3):
        pixels = rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{i}.png")
    for i in range(9):
        (tmp_path / "train" / "abc"[i % 3]).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (14, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "train" / "abc"[i % 3] / f"{i}.png")
    names: dict = {}
    exec((tmp_path / "net.py").read_text(), names)
    save_file(names["build"]().state_dict(), tmp_path / "net.safetensors")
    np.savez(tmp_path / "maps.npz", mine=rng.normal(size=(3, 12, 12)))
    return tmp_path


def test_the_lines_that_are_tried_are_documented():
    assert {*EVERYWHERE, *COMPUTED} <= {line.text for line in documented()}


def test_every_option_of_a_documented_line_is_known(monkeypatch):
    monkeypatch.setenv("UPROAR_DATA", "")
    group = typer.main.get_command(app)
    for line in documented():
        if line.text == "make demo":
            continue
        command, words = group, line.words
        if words and words[0].startswith("--"):
            assert any(words[0] in each.opts for each in group.params), line.text
            continue
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        if "--data-root" in words:  # its folder would be used from then on
            at = words.index("--data-root")
            words = words[:at] + words[at + 2 :]
        command.make_context("uproar", list(words))  # refuses what it does not know


def test_make_demo_runs_the_documented_command():
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert recipe and recipe[1].endswith("\t$(BIN)/uproar run --out runs/demo\n")


def _tried(commands: Commands, words: list[str], folder, mode: str) -> Shown:
    if mode == "piped":
        return commands.piped(words, folder)
    columns = 200 if mode.startswith("200") else 80
    return commands.terminal(words, folder, columns, "dumb" if mode == "dumb" else "xterm-256color")


def _check(shown: Shown, mode: str, line: str) -> None:
    """What holds for any command: it ends well, no traceback, no line too wide, no number cut, no stray codes."""
    everything = shown.text + shown.errors
    assert shown.code == 0, (line, everything[-2000:])
    assert "Traceback" not in everything
    if mode in ("piped", "dumb"):
        assert "\x1b" not in everything
        assert "\r" not in everything.replace("\r\n", "\n")
    lines = [line for line in shown.plain.splitlines() if not line.startswith("━")]  # of progress the end is cut
    assert not re.search(r"\d…(\s|│|$)", "\n".join(lines)), "a number was cut"
    if mode != "piped":
        columns = 200 if mode.startswith("200") else 80
        for row in shown.plain.splitlines():
            assert cell_len(row) <= columns or "/" in row or ".png" in row, (line, row)


@pytest.mark.parametrize("mode", MODES)
def test_a_quick_line_in_every_surrounding(commands, folder, mode):
    for line, more in EVERYWHERE.items():
        _check(_tried(commands, [*line.split()[1:], *more], folder, mode), mode, line)


def _words(line: str) -> list[str]:
    """The words of a line that computes something, with what makes it small; of an option given twice, the small one."""
    if line == "make demo":
        return COMPUTED[line]
    result = next(each for each in documented() if each.text == line)
    words = [*result.words, *COMPUTED[line]]
    for option in ("--estimators", "--metrics"):  # given twice, the names would add up
        if words.count(option) == 2:
            at = words.index(option)
            words = words[:at] + words[at + 2 :]
    return words


@pytest.mark.parametrize("line", COMPUTED)
def test_a_line_that_computes_and_finds_its_results_again(commands, folder, photos, line):
    place = photos if "photos/" in line else folder
    first = MODES[0 if line == "make demo" else list(COMPUTED).index(line) % len(MODES)]
    again = "piped" if first == "80 columns" else "80 columns"
    writes_only = _words(line)[0] == "report"  # has nothing to find again
    for mode in (first,) if writes_only else (first, again):
        shown = _tried(commands, _words(line), place, mode)
        _check(shown, mode, line)
        if line == "make demo" and mode == "80 columns":
            assert re.search(r"\d+/\d+ results", shown.plain), shown.plain
