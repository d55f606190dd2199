"""What a user's file depends on: the modules beside it are its own, found, loaded anew when edited, and lent with it."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import textwrap

import pytest
import torch

from uproar import plugins
from uproar.errors import BadInput
from uproar.estimators import estimators
from uproar.guard import guarded_call
from uproar.plugins import bundle, install_bundle, load_file, source_hash
from uproar.registry import Registry


def write(file, text: str) -> str:
    """A file with a text, its folders made."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text))
    return str(file)


def test_a_file_without_modules_of_its_own_is_known_by_its_bytes_as_ever(tmp_path):
    file = write(tmp_path / "alone.py", "import numpy, json\nimport torch.nn\n")
    assert source_hash(file) == hashlib.sha256((tmp_path / "alone.py").read_bytes()).hexdigest()[:16]


IMPORTS = {
    "import": ("import helper\nvalue = helper.value", ["helper.py"]),
    "from": ("from helper import value", ["helper.py"]),
    "star": ("from helper import *", ["helper.py"]),
    "function": ("def get():\n    import helper\n    return helper.value\nvalue = get()", ["helper.py"]),
    "package": ("import pack.inner as i\nvalue = i.value", ["pack/__init__.py", "pack/inner.py"]),
    "dotted": ("import pack.inner\nvalue = pack.inner.value", ["pack/__init__.py", "pack/inner.py"]),
    "submodule": ("from pack import inner\nvalue = inner.value", ["pack/__init__.py", "pack/inner.py"]),
    "plain folder": ("from plain.inner import value", ["plain/inner.py"]),
    "relative": ("from .helper import value", ["helper.py"]),
    "relative module": ("from . import helper\nvalue = helper.value", ["helper.py"]),
    "by name": ("value = __import__('helper').value", ["helper.py"]),
    "transitive": ("from first import value", ["first.py", "pack/__init__.py", "pack/inner.py"]),
    "from a package": ("from pack.up import value", ["pack/__init__.py", "pack/up.py", "helper.py"]),
    "by a name made at run time": ("value = __import__('hel' + 'per').value", ["helper.py"]),
    "by importlib": ("import importlib\nvalue = importlib.import_module('helper').value", ["helper.py"]),
    "circle": ("from ring_a import value", ["ring_a.py", "ring_b.py"]),
}


@pytest.mark.parametrize("how", IMPORTS)
def test_every_way_to_import_finds_its_module_and_notices_an_edit(tmp_path, how):
    text, files = IMPORTS[how]
    write(tmp_path / "helper.py", "value = 1\n")
    write(tmp_path / "first.py", "from pack.inner import value\n")
    write(tmp_path / "pack/__init__.py", "")
    write(tmp_path / "pack/inner.py", "value = 1\n")
    write(tmp_path / "pack/up.py", "import helper\nfrom . import inner\nvalue = helper.value\n")
    write(tmp_path / "plain/inner.py", "value = 1\n")
    write(tmp_path / "ring_a.py", "import ring_b\nvalue = ring_b.get()\n")
    write(tmp_path / "ring_b.py", "import ring_a\ndef get(): return 1\n")
    main = write(tmp_path / "main.py", f"{text}\n")
    path, known = list(sys.path), set(sys.modules)
    before = source_hash(main)
    assert load_file(main).value == 1 and load_file(main) is load_file(main)
    assert sys.path == path
    assert not {name for name in set(sys.modules) - known if not name.startswith(plugins.PREFIX)}
    for file in files:
        kept = (tmp_path / file).read_text()
        (tmp_path / file).write_text(kept.replace("1", "2") + "# edited\n")
        assert source_hash(main) != before, file
        edited = "1" in kept
        assert load_file(main).value == (2 if edited else 1), file
        (tmp_path / file).write_text(kept)
        assert source_hash(main) == before
        assert load_file(main).value == 1


def test_what_is_not_imported_does_not_count(tmp_path):
    main = write(tmp_path / "main.py", "import helper\n")
    write(tmp_path / "helper.py", "")
    before = source_hash(main)
    write(tmp_path / "other.py", "x = 1")
    write(tmp_path / "json.py", "raise RuntimeError('Python has one')")
    write(tmp_path / "torch/__init__.py", "raise RuntimeError('uproar needs the other one')")
    write(tmp_path / "main.py", "import helper, json, torch\n")
    assert source_hash(main) != before
    load_file(main)
    write(tmp_path / "main.py", "import helper\n")
    assert source_hash(main) == before


def test_two_files_each_have_a_helper_of_their_own(tmp_path, monkeypatch):
    for folder in "abc":
        write(tmp_path / folder / "helper.py", f"value = '{folder}'")
        write(tmp_path / folder / "main.py", "import helper")
    monkeypatch.syspath_prepend(tmp_path / "c")
    ours = importlib.import_module("helper")
    mains = [load_file(tmp_path / folder / "main.py") for folder in "ab"]
    assert [main.helper.value for main in mains] == ["a", "b"]
    assert sys.modules["helper"] is ours and ours.value == "c"
    monkeypatch.delitem(sys.modules, "helper")


def test_a_local_module_imported_by_a_function_is_refused_since_its_text_is_not_in_the_identity(tmp_path, monkeypatch):
    write(tmp_path / "late_helper.py", "value = 1")
    main = load_file(write(tmp_path / "main.py", "def late():\n    import late_helper\n    return late_helper.value\n"))
    with pytest.raises(ModuleNotFoundError, match="late_helper"):
        guarded_call("The estimator late", main.late, [])
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m uproar` has the working folder
    with pytest.raises(BadInput, match=r"main.py imports late_helper.py inside a function"):
        guarded_call("The estimator late", main.late, [])
    monkeypatch.delitem(sys.modules, "late_helper")


def test_data_that_a_file_names_count(tmp_path):
    write(tmp_path / "weights.pt", "1")
    write(tmp_path / "tables/deep/one.csv", "1")
    write(tmp_path / "helper.py", "DEPENDS_ON = ['tables']")
    main = write(tmp_path / "main.py", "import helper\nDEPENDS_ON = ['weights.pt']\n")
    seen = {source_hash(main)}
    for file in ("weights.pt", "tables/deep/one.csv", "tables/two.csv"):
        write(tmp_path / file, "2")
        seen.add(source_hash(main))
    assert len(seen) == 4
    (tmp_path / "weights.pt").unlink()
    with pytest.raises(BadInput, match=r"main.py says that it depends on weights.pt, but there is no"):
        source_hash(main)
    write(tmp_path / "main.py", "DEPENDS_ON = [open]\n")
    with pytest.raises(BadInput, match=r"main.py: DEPENDS_ON is a list of names of files"):
        source_hash(main)


def test_a_large_file_is_hashed_again_only_when_it_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(plugins, "LARGE", 4)
    write(tmp_path / "weights.pt", "12345")
    main = write(tmp_path / "main.py", "DEPENDS_ON = ['weights.pt']\n")
    before, hits = source_hash(main), plugins._large_hash.cache_info().hits
    assert source_hash(main) == before and plugins._large_hash.cache_info().hits > hits
    write(tmp_path / "weights.pt", "123456")
    assert source_hash(main) != before


def test_a_bundle_has_all_that_a_file_depends_on_and_is_the_same_elsewhere(tmp_path, monkeypatch):
    here = tmp_path / "here"
    write(here / "plugins/pack/__init__.py", "")
    write(here / "plugins/pack/inner.py", "import beside\nvalue = 10 + beside.value")
    write(here / "plugins/beside.py", "value = 1")
    write(here / "data/table.csv", "1000")
    write(here / "unrelated.py", "raise RuntimeError")
    main = write(
        here / "plugins/main.py",
        """
        from pathlib import Path
        from pack.inner import value as near
        DEPENDS_ON = ["../data/table.csv"]
        total = near + int((Path(__file__).parent / "../data/table.csv").read_text())
        """,
    )
    packed = bundle(main)
    assert sorted(packed.files) == [
        "data/table.csv",
        "plugins/beside.py",
        "plugins/main.py",
        "plugins/pack/__init__.py",
        "plugins/pack/inner.py",
    ]
    identity = source_hash(main)
    here.rename(tmp_path / "gone")
    monkeypatch.setattr(plugins, "installed", {})
    install_bundle(main, packed)
    assert source_hash(main) == identity
    assert load_file(main).total == 1011


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("wrong.py", "x = 1\ndef f(:\n", "wrong.py, line 2, is not valid Python: invalid syntax."),
        ("wrong.py", "\n\nimport nowhere", "wrong.py, line 3, imports nowhere, which is neither installed nor a"),
        ("wrong.py", "import broken_helper", "broken_helper.py, line 1, is not valid Python"),
        ("wrong.py", "x = 'a\0b'", "wrong.py.* is not valid Python: source code (string )?cannot contain null"),
        ("notes.txt", "hello", "notes.txt is not a Python file: its name does not end in .py."),
    ],
)
def test_a_file_that_cannot_be_loaded_is_one_sentence(tmp_path, name, text, sentence):
    write(tmp_path / "broken_helper.py", "def")
    file = write(tmp_path / name, text)
    with pytest.raises(BadInput, match=sentence):
        load_file(file)
    with pytest.raises(BadInput, match=f"{tmp_path.name} is a folder, not a file"):
        load_file(tmp_path)
    with pytest.raises(BadInput, match=r"There is no file .*none.py"):
        load_file(tmp_path / "none.py")


def test_an_edit_within_a_second_that_keeps_the_size_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write(tmp_path / "helper.py", "value = 1")
    main = write(tmp_path / "main.py", "from helper import value")
    state = os.stat(tmp_path / "helper.py")
    assert load_file(main).value == 1
    write(tmp_path / "helper.py", "value = 2")
    os.utime(tmp_path / "helper.py", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert load_file(main).value == 2
    assert load_file(tmp_path / "helper.py").value == 2


def test_what_a_script_declares_depends_on_the_text_of_the_script(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = "import uproar\ndef scripted(model, x, target):\n    return x\nuproar.estimator(passes=1)(scripted)\n"
    write(tmp_path / "my_script.py", text)
    importlib.import_module("my_script")
    assert estimators["scripted"].code == estimators["scripted"].version != ""
    assert not estimators["grad"].code and estimators["grad"].version == 1


TRACED = """
import torch
from torch import nn

class Halves(nn.Module):
    def forward(self, x):
        return x / 2

def traced(x):
    compiled = torch.compile(Halves(), backend="eager")
    return torch.jit.script(Halves())(x) + torch.fx.symbolic_trace(Halves())(x) + compiled(x)
"""


@pytest.mark.filterwarnings("ignore")
def test_torch_traces_what_is_loaded(tmp_path):
    module = load_file(write(tmp_path / "traced.py", TRACED))
    assert float(module.traced(torch.ones(1))) == 1.5


def test_an_installed_package_that_cannot_be_loaded_is_one_sentence(tmp_path, monkeypatch):
    write(tmp_path / "broken_package.py", "raise SystemExit(3)")
    write(tmp_path / "broken-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    points = "[uproar.made_up]\nthing = broken_package:thing\n"
    write(tmp_path / "broken-1.dist-info/entry_points.txt", points)
    monkeypatch.syspath_prepend(tmp_path)
    sentence = r"The thing 'thing' of an installed package \(broken_package:thing\) cannot be loaded: sys.exit\(3\)"
    with pytest.raises(BadInput, match=sentence):
        Registry("thing", "uproar.made_up").values()
