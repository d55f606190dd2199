"""Files of the user: what they may do, and what happens when they do something else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import uproar
from uproar.cli.app import _exit_code
from uproar.errors import BadInput
from uproar.estimators import estimators, read_chain
from uproar.extend import declared_in, load_plugin
from uproar.metrics.retraining import retraining_named
from uproar.store import Store
from uproar.study.graph import Failed, make, step
from uproar.study.grid import settings_of
from uproar.study.sessions import run

TINY = {
    "tasks": "planted(size=8, train=24, test=12)",
    "models": "cnn-small(width=2)",
    "estimators": ["random"],
    "metrics": ["roar:no-retrain"],
    "fractions": [0.5],
    "seeds": 1,
    "recipe": {"epochs": 1},
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own, where the command line runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(file, text: str) -> str:
    """A file with a text, its folders made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return str(file)


EXITS = """
    import sys
    import uproar
    from uproar.removal import fills

    @uproar.estimator(passes=1)
    def exits(model, x, target):
        sys.exit(7)

    @uproar.metric(higher_is_better=True, low=0, high=1, chance="0")
    def exits_too(batch):
        sys.exit()

    @fills.declare()
    def exits_here(x, removed, around):
        raise SystemExit("no colour")

    def build(classes):
        sys.exit(3)
"""


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        (
            {"estimators": ["random", "exits"], "metrics": ["roar:no-retrain", "exits_too"]},
            {"leaves.py, line 8: sys.exit(7) was called", "leaves.py, line 12: sys.exit() was called"},
        ),
        ({"fill": "exits_here"}, {"leaves.py, line 16: sys.exit('no colour') was called"}),
    ],
)
def test_an_exit_asked_for_by_a_plugin_fails_its_own_cells(here, changes, reasons):
    file = write(here / "leaves.py", EXITS)
    results = run({**TINY, "plugins": file, **changes}, store=f"memory://{here.name}", jobs=1)
    rows = [row for table in (results.cells, results.scores) for row in table.itertuples()]
    assert {row.reason for row in rows if row.status == "failed"} == reasons
    assert "done" in set(results.cells["status"]) or "fill" in changes


def test_an_exit_asked_for_by_a_model_or_on_loading_is_one_sentence(here, capsys):
    write(here / "leaves.py", EXITS)
    assert _exit_code(["run", "--model", "leaves.py:build", "--out", "mine"]) == 2
    said = capsys.readouterr().err
    assert "leaves.py:build could not be built: leaves.py, line 19: sys.exit(3) was called" in said
    write(here / "gone.py", "import sys\nsys.exit(7)\n")
    assert _exit_code(["check", "gone.py"]) == 2
    assert "gone.py raises when it is loaded: sys.exit(7) was called" in capsys.readouterr().err


def test_an_exit_in_explain_is_one_sentence_and_in_try_a_broken_rule(here, capsys):
    write(here / "leaves.py", EXITS)
    given = ["--plugin", "leaves.py", "--estimators", "exits", "--task", TINY["tasks"]]
    assert _exit_code(["explain", *given, "--limit", "2"]) == 2
    assert "leaves.py, line 8: sys.exit(7) was called." in capsys.readouterr().err
    assert _exit_code(["check", "exits", "--plugin", "leaves.py"]) == 1
    said = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "sys.exit(7)" in said and "exits breaks 1 clause" in said


FUNCTIONS = {}


@step("fails", title=lambda _: "fail", cost=lambda _: 1.0)
def fails(function: str):
    """A step that does what a test says."""
    return FUNCTIONS[function]()


def test_an_interrupt_stays_one(here):
    def interrupted() -> None:
        raise KeyboardInterrupt

    result, store = fails(function="interrupted"), Store(here / "store")
    FUNCTIONS["interrupted"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        make([result], store)
    FUNCTIONS["interrupted"] = lambda: exec("raise SystemExit")
    assert isinstance(make([result], store)[result], Failed)
    write(here / "stops.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_plugin(here / "stops.py")
    write(here / "stops.py", "raise SystemExit\n")
    with pytest.raises(BadInput, match=r"stops.py raises when it is loaded: sys.exit\(\) was"):
        load_plugin(here / "stops.py")


KINDS = """
    import torch
    from torch import nn
    import uproar
    from uproar import extend
    from amount import VALUE

    @extend.task(images="noise")
    def kinds_task(*, size: int = 6):
        def split(name, n):
            x = torch.rand(n, 1, size, size, generator=torch.manual_seed(n)) * VALUE
            return uproar.Split(name, x, torch.arange(n) % 2)
        return uproar.Task("kinds", split("train", 16), split("test", 8), ("a", "b"))

    @extend.model()
    def kinds_model(shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(36, classes))

    @extend.fill(uses_mask=False)
    def kinds_fill(x, removed, around):
        return torch.full_like(x, VALUE)

    @extend.transform()
    def kinds_transform(a):
        return a * VALUE

    @extend.postprocess()
    def kinds_filter(a):
        return a + VALUE

    def prepared(model, context):
        return {"value": torch.tensor(VALUE)}

    @extend.estimator(passes=1, prepare=prepared)
    def kinds_estimator(model, x, target, state):
        return x * state["value"]

    @extend.estimator(passes=1, of="kinds_estimator")
    def kinds_derived(model, x, target, base):
        return base

    @extend.metric(higher_is_better=True, low=0, high=1, chance="0")
    def kinds_metric(batch):
        return {"value": torch.full((len(batch.x),), VALUE)}

    @extend.audit(title="Kinds", question="Is it declared?")
    def kinds_audit(evidence):
        return extend.Finding("holds", f"It is, with {VALUE}.")
"""


def keys_of() -> dict[str, str]:
    """A key of everything that depends on code of the user, each by what that is."""

    def setting(**changes):
        study = uproar.study_of({**TINY, "models": "cnn-small", "recipe": {"epochs": 1}, "seeds": 1, **changes})
        return settings_of(study)[0]

    plain, random = setting(), read_chain("random")
    prepared = read_chain("kinds_estimator")
    return {
        "model": setting(models="kinds_model").base_model(0).key,
        "fill": setting(fill="kinds_fill").accuracy(random, retraining_named("roar"), 0.5, 0).key,
        "metric": plain.score(random, "kinds_metric", 0).key,
        "fill of a metric": plain.score(random, "deletion(fill=kinds_fill)", 0).key,
        **{name: plain.ranking(read_chain(name), 0, "test")[0].key for name in ESTIMATORS},
        "state": plain.prepared(prepared, 0)[0][1].key,
        "task": setting(tasks="kinds_task").data.task.fingerprint,
    }


ESTIMATORS = ("kinds_estimator", "kinds_derived", "kinds_transform(grad)", "kinds_filter(grad)", "sq(kinds_estimator)")


def test_an_edited_helper_is_another_identity_of_everything_that_is_declared_with_it(here):
    file = write(here / "kinds.py", KINDS)

    def keys() -> dict[str, str]:
        assert sorted(kind for kind, names in declared_in(file).items() if names) == [
            "audit",
            "estimator",
            "fill",
            "metric",
            "model",
            "task",
        ]
        return keys_of()

    write(here / "amount.py", "VALUE = 0.5")
    first = keys()
    write(here / "unrelated.py", "VALUE = 0.5")
    assert keys() == first
    write(here / "amount.py", "VALUE = 0.25")
    second = keys()
    assert {name for name in first if first[name] == second[name]} == set()
    write(here / "amount.py", "VALUE = 0.5")
    assert keys() == first


def test_a_study_with_an_edited_helper_runs_again_in_one_session_and_in_workers(here):
    file = write(here / "kinds.py", KINDS)
    study = {
        "plugins": file,
        "tasks": "kinds_task",
        "models": "kinds_model",
        "fill": "kinds_fill",
        "estimators": ["random", "kinds_filter(kinds_estimator)"],
        "metrics": ["roar:no-retrain", "kinds_metric"],
        "audits": "kinds_audit",
        "fractions": [0.5],
        "seeds": 1,
        "recipe": {"epochs": 1},
    }
    session = f"memory://{here.name}"
    for store, value in ((session, 0.5), (session, 0.25), (here / "store", 0.5)):
        write(here / "amount.py", f"VALUE = {value}")
        results = run(study, store=store, jobs=1)
        assert set(results.cells["status"]) == {"done"}
        assert set(results.scores["value"]) == {value}
        assert [result.sentence for result in results.findings] == [f"It is, with {value}."]


def test_kept_maps_depend_on_the_text_of_the_model(here, capsys):
    net = "from torch import nn\ndef build(classes):\n    net = nn.Sequential(nn.Flatten(), nn.Linear(36, classes))\n"
    np.savez(here / "x.npz", images=np.random.default_rng(0).random((2, 1, 6, 6)))
    given = [
        "explain",
        "x.npz",
        "--model",
        "net.py:build",
        "--classes",
        "2",
        "--target",
        "0",
        "--estimators",
        "grad",
        "--save",
    ]
    write(here / "net.py", net + "    return net")
    assert _exit_code([*given, "a.npz"]) == 0
    write(here / "net.py", net + "    return nn.Sequential(*net, nn.Softmax(1))  # the same weights")
    assert _exit_code([*given, "b.npz"]) == 0
    assert not np.array_equal(np.load("a.npz")["grad"], np.load("b.npz")["grad"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("@extend.fill()\ndef f(x, y, z): pass", "f: a fill takes x, removed, around and options after a *, not 'y'"),
        ("@extend.model()\ndef m(size): pass", "m: a model takes shape, classes, mean, std and options after a"),
        ("@extend.fill(name='mean')\ndef m(x, removed, around): pass", "would replace"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(here, text, sentence):
    file = write(here / "wrong.py", f"from uproar import extend\n{text}\n")
    with pytest.raises(BadInput, match=re.escape(sentence)):
        load_plugin(file)


def test_a_plugin_that_returns_something_else_fails_with_a_sentence(here):
    file = write(
        here / "odd.py",
        """
        from uproar import extend

        @extend.fill()
        def odd_fill(x, removed, around):
            return 0.5

        @extend.task()
        def odd_task():
            return {}

        @extend.task()
        def sad_task():
            raise KeyError("no data")
        """,
    )
    results = run({**TINY, "plugins": file, "fill": "odd_fill"}, store=f"memory://{here.name}", jobs=1)
    assert results.cells["reason"].str.startswith("The fill odd_fill returned float for images").any()
    for task, reason in (
        ("odd_task", "The task odd_task must return a uproar.Task, not dict."),
        ("sad_task", "The task sad_task cannot be loaded: odd.py, line 14: KeyError: 'no data'"),
    ):
        with pytest.raises(BadInput, match=reason):
            run({**TINY, "plugins": file, "tasks": task}, store=f"memory://{here.name}", jobs=1)


def test_of_two_files_that_declare_one_name_the_one_that_was_asked_for_last_counts(here):
    files = [
        write(here / folder / "same.py", f"def same_name(model, x, target):\n    return x * {k}\n")
        for k, folder in enumerate("ab")
    ]
    codes = []
    for file in (*files, *files):
        assert load_plugin(file) == ["same_name"]
        codes.append(estimators["same_name"].code)
    assert codes[:2] == codes[2:] and codes[0] != codes[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", "."], ". is a folder, not a file."),
        (["check", "sub/none.py"], "There is no file sub/none.py."),
        (["check", "notes.txt"], "notes.txt is not a Python file: its name does not end in .py."),
        (["check", "wrong.py"], "wrong.py, line 2, is not valid Python: "),
        (["check", "missing.py"], "missing.py, line 1, imports no_such_thing, which is neither installed nor a"),
        (["check", "only.py"], "only.py declares no estimator and no metric to check"),
        (["check", "bernoulli"], "bernoulli removes pixels without ranking them, so it has no map"),
        (["check", "only_of(grad)", "--plugin", "empty.py"], "empty.py declares nothing: write a function"),
        (["run", "--plugin", "."], ". is a folder, not a file."),
        (["run", "--plugin", "notes.txt"], "notes.txt is not a Python file"),
        (["run", "--plugin", "wrong.py"], "wrong.py, line 2, is not valid Python: "),
        (["run", "--plugin", "missing.py"], "missing.py, line 1, imports no_such_thing"),
        (["ls", "fills", "--plugin", "empty.py"], "empty.py declares nothing"),
        (["score", "--plugin", "wrong.py"], "wrong.py, line 2, is not valid Python: "),
        (["explain", "--estimators", "grad,bernoulli"], "bernoulli removes pixels without ranking them"),
        (["score", "--estimators", "block_random_free"], "block_random_free removes pixels without ranking"),
        (["explain", "photos"], "The pictures have 2 sizes (a.png is 9x6, b.png is 6x9), and a network sees one: give"),
        (["score", "photos"], "give --size 224 to scale each and keep the middle 224x224 pixels."),
        (["explain", "photos", "--size", "0"], "--size must be at least 1, not 0."),
        (["explain", "--size", "8"], "a task has an option: folder(root=…, size=8)."),
        (["explain", "x.npz", "--size", "8"], "--size is for pictures; x.npz holds arrays"),
        (["explain", "--task", "folder(root=photos, csv=t.csv)"], "There is no table t.csv: it is neither"),
    ],
)
def test_a_mistake_with_a_file_of_ones_own_is_one_sentence(here, capsys, arguments, sentence):
    write(here / "notes.txt", "hello")
    write(here / "wrong.py", "x = 1\ndef f(:\n")
    write(here / "missing.py", "import no_such_thing")
    write(here / "empty.py", "x = 1")
    write(here / "only.py", "from uproar import extend\n@extend.fill()\ndef only_fill(x, removed, around): return x")
    pictures(here / "photos", {"a": (9, 6), "b": (6, 9)})
    np.savez(here / "x.npz", images=np.zeros((2, 1, 6, 6)))
    assert _exit_code(arguments) == 2
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert sentence in said
    assert "Traceback" not in said


def pictures(folder, sizes: dict[str, tuple[int, int]]) -> None:
    """Picture files of some widths and heights."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    for name, (width, height) in sizes.items():
        pixels = draw.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")


def test_a_limit_and_a_size_hold_for_pictures_of_ones_own(here):
    pictures(here / "photos", {f"p{i}": (8 + i, 12) for i in range(10)})
    given = ["explain", "photos", "--size", "6", "--limit", "4", "--classes", "3", "--estimators", "grad"]
    assert _exit_code([*given, "--save", "maps.npz"]) == 0
    arrays = np.load("maps.npz")
    assert arrays["images"].shape == (4, 3, 6, 6) and arrays["grad"].shape == (4, 6, 6)


def test_a_split_that_nobody_asked_for_is_told_and_a_table_is_found_where_it_is_named(here, capsys):
    pictures(here / "photos", {f"p{i}": (8, 8) for i in range(10)})
    rows = [f"p{i}.png,{'ab'[i % 2]}" for i in range(10)]
    write(here / "photos/inside.csv", "\n".join(["image,label", *rows]))
    divided = [f"{row},{'test' if i < 4 else 'train'}" for i, row in enumerate(rows)]
    write(here / "tables/outside.csv", "\n".join(["image,label,split", *divided]))
    for csv, test, noted in (("inside.csv", 2, True), ("tables/outside.csv", 4, False)):
        task = uproar.load(f"folder(root=photos, csv={csv}, size=8)")
        assert (len(task.test), bool(task.notes)) == (test, noted)
        assert task.limited(4).notes == task.notes
    given = ["--task", "folder(root=photos, csv=inside.csv, size=8)", "--estimators", "grad"]
    assert _exit_code(["explain", *given, "--limit", "9", "--save", "maps.npz"]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "2 of 10 were set aside as test images (share=0.2), which alone are explained" in said
    assert len(np.load("maps.npz")["grad"]) == 2


def test_an_audit_in_a_plugin_is_asked_of_a_run_that_knew_nothing_of_it(here, capsys):
    write(
        here / "asked_later.py",
        """
        from uproar import extend

        @extend.audit(title="Later", question="Are there cells?")
        def asked_later(evidence):
            return extend.Finding("holds", f"{len(evidence['study'].cells)} cells are finished.")

        @extend.audit(title="Broken", question="Does it raise?")
        def asked_in_vain(evidence):
            raise KeyError("no answer")
        """,
    )
    given = ["--task", TINY["tasks"], "--metrics", "roar:no-retrain", "--estimators", "random", "--seeds", "1"]
    assert _exit_code(["run", *given, "--fractions", "0.5", "--epochs", "1", "--jobs", "1", "--out", "r"]) == 0
    asked = ["audit", "r", "--plugin", "asked_later.py", "--jobs", "1", "--audits"]
    assert _exit_code([*asked, "asked_later,asked_in_vain"]) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "2 cells are finished." in said or "1 cells are finished." in said
    assert "Not answered: KeyError: 'no answer'." in said


LENT = """
import os, sys
from uproar.plugins import Bundle, install_bundle, installed
install_bundle("x.py", Bundle("x.py", {"x.py": b""}))
print(installed["x.py"], flush=True)
sys.stdin.read()
os._exit(0)
"""


def test_what_killed_workers_leave_is_removed_by_the_next_one_and_what_others_use_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    both = [
        subprocess.Popen([sys.executable, "-c", LENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, alive = (Path(worker.stdout.readline().strip()).parent for worker in both)
    try:
        both[0].kill()
        both[0].wait()
        for folder in (killed, alive):
            os.utime(folder, (0, 0))
        assert killed.is_dir()
        subprocess.run([sys.executable, "-c", LENT], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        assert alive.is_dir() and not killed.exists()
    finally:
        for worker in both:
            worker.kill()
            worker.communicate()
