"""After every command: the sentence of the page, and what may come next, with command lines that work."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.cli.conftest import NETWORK
from uproar.cli.app import _exit_code, app
from uproar.cli.ls import LISTED


def next_line(capsys) -> str:
    """The last line of what a command printed."""
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("Next: "), lines[-3:]
    assert sum(line.startswith("Next: ") for line in lines) == 1
    return lines[-1]


def headline_of(page: Path) -> str:
    """The heading of a page, as a terminal shows it: names in backticks, no other marks."""
    (heading,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page.read_text(), re.S)
    return html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</?code>", "`", heading))).strip()


def commands_in(line: str) -> list[list[str]]:
    """The command lines that a line of next steps names, as far as the shell would read them."""
    result = []
    for part in line.removeprefix("Next: ").split("; "):
        if part.startswith("uproar "):
            words = shlex.split(part)
            end = next((i for i, w in enumerate(words) if w in ("runs", "scores", "compares", "uses", "checks")), None)
            result.append(words[1:end])
    return result


def test_a_run_ends_with_the_headline_of_its_page_and_what_to_do(tiny_run):
    shown = tiny_run.out.splitlines()
    page = tiny_run.folder / "report.html"
    assert headline_of(page) in " ".join(shown)
    assert shown[-2] == f"Report: {page}"
    assert shown[-1] == f"Next: open {page}; the same command with --seeds 5 adds seeds, for verdicts"
    assert tiny_run.err.splitlines()[0].startswith("Note: No verdicts from 2 seeds, only curves")


def test_what_explain_suggests_works_and_so_does_what_score_suggests(here, capsys):
    weights = here / "net.safetensors"
    assert _exit_code(["explain", *NETWORK, "--estimators", "grad", "--limit", "5", "--save", "maps.npz"]) == 0
    line = next_line(capsys)
    assert line.startswith("Next: open maps.png; uproar score --task 'planted(")
    (suggested,) = commands_in(line)
    assert _exit_code([*suggested, "--metrics", "insertion"]) == 0
    assert headline_of(here / "runs/score/report.html") in " ".join(capsys.readouterr().out.split())
    assert not weights.exists()


@pytest.mark.parametrize("kind", [kind for kind in LISTED])
def test_lists_say_what_to_do_with_their_names(kind, capsys):
    assert _exit_code(["ls", kind]) == 0
    line = next_line(capsys)
    import typer.main

    known = typer.main.get_command(app).commands
    for part in re.findall(r"uproar (\w+)", line):
        assert part in known


def test_check_leads_to_a_study_of_the_estimator(here, capsys):
    (here / "mine.py").write_text('def mine(model, x, target):\n    """Brightness."""\n    return x.sum(1)\n')
    assert _exit_code(["check", "mine.py", "--model", "cnn-small(width=4)"]) == 1
    assert "correct it, then the same command" in next_line(capsys)  # it never looks at the network
    assert _exit_code(["check", "grad", "--model", "cnn-small(width=4)"]) == 0
    assert "uproar run --estimators random,grad compares it" in next_line(capsys)


def test_images_of_ones_own_are_named_again(here, capsys):
    save_file({"images": torch.rand(3, 1, 8, 8)}, here / "pictures.safetensors")
    line = [
        "explain",
        "pictures.safetensors",
        "--model",
        "cnn-small(width=4)",
        "--classes",
        "3",
        "--estimators",
        "grad",
    ]
    assert _exit_code(line) == 0
    assert "uproar score pictures.safetensors --model 'cnn-small(width=4)' --classes 3 --estimators grad" in next_line(
        capsys
    )


def test_pictures_are_scaled_again_as_they_were_explained(here, capsys):
    (here / "photos").mkdir()
    for number, sides in enumerate([(12, 20), (30, 16)]):
        Image.new("RGB", sides, (40 * number, 90, 20)).save(here / f"photos/{number}.png")
    line = ["explain", "photos", "--model", "cnn-small(width=4)", "--classes", "3", "--size", "8"]
    assert _exit_code([*line, "--seed", "2", "--estimators", "grad", "--save", "maps.npz"]) == 0
    (suggested,) = commands_in(next_line(capsys))
    assert _exit_code([*suggested, "--metrics", "increase_in_confidence"]) == 0
    assert suggested[suggested.index("--seed") + 1] == "2"
