"""Does an installed package work? Run outside the checkout: explains, scores, chooses, runs and opens, each very small.

    python tests/smoke.py            # everything, with pages
    python tests/smoke.py --light    # an installation without the extra `report`

`tools/wheel_test.sh` runs it against the built wheel and source distribution.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
TINY = ["--task", "planted(size=8, classes=3, train=60, test=30)", "--model", "cnn-small(width=2)"]
SENTENCE = "which are not installed: pip install 'uproar[report]'."


def command(*words: str, code: int = 0) -> str:
    """What a command prints on both streams; its exit code is checked."""
    program = Path(sys.executable).with_name("uproar")
    done = subprocess.run([program, *words], capture_output=True, text=True)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return " ".join((done.stdout + done.stderr).split())


def check_installed() -> None:
    """The package is the installed one, with its data, its types and what it says of itself."""
    import uproar

    assert ROOT / "src" not in Path(uproar.__file__).parents, f"not the installed package: {uproar.__file__}"
    facts = metadata.metadata("uproar")
    assert facts["Name"] == "uproar" and facts["Version"] == uproar.__version__
    assert "](docs/" not in facts.get_payload(), "the page of the package index has relative links"
    assert (Path(uproar.__file__).parent / "py.typed").is_file()


def check_python() -> None:
    """Functions on tensors."""
    import torch

    import uproar

    task = uproar.load("digits")
    model = uproar.build("cnn-small", task)
    images, labels = task.test.read(slice(0, 8)), task.test.labels[:8]
    maps = uproar.explain(model, images, ["grad", "random"], target=labels)
    gone = uproar.removed(maps["grad"], 0.3)
    assert gone.sum((1, 2)).tolist() == [19] * 8
    table = uproar.score(model, images, labels, maps, metrics=["deletion(steps=4)", "road"], mean=task.mean)
    assert len(table) == 4 and torch.isfinite(torch.tensor(table["value"].to_numpy())).all()


def check_commands(light: bool) -> None:
    """The command line, down to the page or the sentence that says what it needs."""
    command("ls", "versions")
    assert "sg_sq" in command("ls", "estimators")
    study = [*TINY, "--estimators", "random,grad", "--metrics", "roar", "--fractions", "0.5", "--seeds", "2"]
    said = command("run", *study, "--epochs", "1", "--jobs", "1", "--out", "runs/x")
    assert (Path("runs/x/results.csv")).is_file()
    assert Path("runs/x/report.html").is_file() is not light
    assert (SENTENCE in said) is light
    command("score", *TINY, "--estimators", "grad", "--metrics", "deletion(steps=4)", "--limit", "5", "--out", "runs/s")
    assert Path("runs/s/scores.csv").is_file()
    command("explain", *TINY, "--estimators", "grad", "--limit", "3", "--save", "maps.npz")
    assert Path("maps.npz").is_file() and Path("maps.png").is_file() is not light
    if light:
        assert SENTENCE in command("explain", *TINY, "--estimators", "grad", "--limit", "3", code=2)


def check_opened(light: bool) -> None:
    """A run of before, and what it shows in a notebook."""
    import uproar

    run = uproar.open("runs/x")
    assert len(run.verdicts) == 1 and "<table" in run._repr_html_()
    if not light:
        assert uproar.open("runs/s").table["metric"].tolist() == ["deletion(steps=4)"] * 2


def main() -> None:
    light = "--light" in sys.argv
    assert light is (find_spec("matplotlib") is None), "give --light where the extra `report` is not installed"
    check_installed()
    check_python()
    check_commands(light)
    check_opened(light)
    print("smoke tests passed", "without the extra report" if light else "with the extra report")


if __name__ == "__main__":
    main()
