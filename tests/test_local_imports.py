"""What a user's file depends on: the modules beside it are its own, found, loaded anew when edited, and lent with it."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import textwrap

import pytest
import torch

from uproar.errors import BadInput
from uproar.estimators import estimators
from uproar.plugins import loading as plugins
from uproar.plugins.loading import bundle, install_bundle, load_file, source_hash
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
    assert all(name.startswith(plugins.PREFIX) for name in set(sys.modules) - known)
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


def test_two_files_each_have_a_helper_of_their_own_and_share_one_beside_both(tmp_path):
    for folder in "ab":
        write(tmp_path / folder / "helper.py", f"value = '{folder}'")
        write(tmp_path / folder / "main.py", "import helper\ndef late():\n    import helper as h\n    return h.value")
    mains = [load_file(tmp_path / folder / "main.py") for folder in "ab"]
    assert [main.helper.value for main in mains] == ["a", "b"]
    assert [main.late() for main in mains] == ["a", "b"]
    assert "helper" not in sys.modules
    write(tmp_path / "a/other.py", "import helper")
    assert load_file(tmp_path / "a/other.py").helper is mains[0].helper is load_file(tmp_path / "a/helper.py")


def test_a_file_in_a_package_knows_the_package(tmp_path):
    write(tmp_path / "owned/__init__.py", "name = 'owned'")
    write(tmp_path / "owned/deep/__init__.py", "")
    write(tmp_path / "owned/deep/net.py", "size = 3")
    main = write(
        tmp_path / "owned/deep/method.py",
        "from .net import size\nfrom owned.deep.net import size as same\nfrom .. import name\nimport owned\n",
    )
    module = load_file(main)
    assert (module.size, module.same, module.name, module.owned.name) == (3, 3, "owned", "owned")
    before = source_hash(main)
    write(tmp_path / "owned/__init__.py", "name = 'other'")
    assert source_hash(main) != before and load_file(main).name == "other"


def test_a_module_on_the_path_is_pythons_but_counts_and_must_not_change_under_it(tmp_path, monkeypatch):
    write(tmp_path / "lib/on_the_path.py", "value = 1")
    main = write(tmp_path / "main/uses.py", "from on_the_path import value")
    with pytest.raises(BadInput, match=r"uses.py, line 1, imports on_the_path, which is neither installed nor"):
        load_file(main)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    before = source_hash(main)
    assert load_file(main).value == 1
    assert sys.modules["on_the_path"].value == 1
    write(tmp_path / "lib/on_the_path.py", "value = 2")
    assert source_hash(main) != before
    with pytest.raises(BadInput, match=r"on_the_path.py was edited after this Python had imported it for uses.py"):
        load_file(main)
    monkeypatch.delitem(sys.modules, "on_the_path")


def test_modules_of_the_working_folder_are_found(tmp_path, monkeypatch):
    write(tmp_path / "project/shared_net.py", "value = 1")
    main = write(tmp_path / "project/plugins/main.py", "from shared_net import value")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert load_file(main).value == 1
    write(tmp_path / "project/shared_net.py", "value = 22")
    assert load_file(main).value == 22


def test_a_late_import_never_mixes_texts(tmp_path):
    write(tmp_path / "helper.py", "value = 1")
    main = write(tmp_path / "main.py", "def late():\n    import helper\n    return helper.value\n")
    old = load_file(main)
    write(tmp_path / "helper.py", "value = 2")
    with pytest.raises(ImportError, match=r"main.py, or a module it imports, was edited after"):
        old.late()
    new = load_file(main)
    assert new.late() == 2
    write(tmp_path / "helper.py", "value = 3")
    assert new.late() == 2, "what was imported stays"


def test_an_import_that_cannot_be_read_from_the_text_is_refused_or_named(tmp_path):
    write(tmp_path / "helper.py", "value = 1")
    text = "name = 'hel' + 'per'\nmodule = __import__(name)\n"
    main = write(tmp_path / "main.py", text)
    with pytest.raises(BadInput, match=r"main.py imports helper.py by a name that is made while it runs"):
        load_file(main)
    write(tmp_path / "main.py", f"DEPENDS_ON = 'helper.py'\n{text}")
    assert load_file(main).module.value == 1


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
    with pytest.raises(BadInput, match=r"main.py, line 1: DEPENDS_ON is a list of names of files"):
        source_hash(main)


def test_a_large_file_is_hashed_again_only_when_it_changed(tmp_path, monkeypatch):
    from uproar.plugins import dependencies as local_imports

    monkeypatch.setattr(local_imports, "LARGE", 4)
    write(tmp_path / "weights.pt", "12345")
    main = write(tmp_path / "main.py", "DEPENDS_ON = ['weights.pt']\n")
    before, hits = source_hash(main), local_imports._large_hash.cache_info().hits
    assert source_hash(main) == before and local_imports._large_hash.cache_info().hits > hits
    write(tmp_path / "weights.pt", "123456")
    assert source_hash(main) != before


def test_a_bundle_has_all_that_a_file_depends_on_and_is_the_same_elsewhere(tmp_path, monkeypatch):
    here = tmp_path / "here"
    write(here / "lib/pathlib_of_mine.py", "value = 100")
    write(here / "plugins/pack/__init__.py", "")
    write(here / "plugins/pack/inner.py", "from .. import beside\nvalue = 10 + beside.value")
    write(here / "plugins/beside.py", "value = 1")
    write(here / "plugins/table.csv", "1000")
    write(here / "unrelated.py", "raise RuntimeError")
    main = write(
        here / "plugins/main.py",
        """
        from pathlib import Path
        from pack.inner import value as near
        from pathlib_of_mine import value as far
        DEPENDS_ON = ["table.csv"]
        total = near + far + int((Path(__file__).parent / "table.csv").read_text())
        """,
    )
    monkeypatch.syspath_prepend(here / "lib")
    packed = bundle(main)
    assert sorted(packed.files) == [
        "lib/pathlib_of_mine.py",
        "plugins/beside.py",
        "plugins/main.py",
        "plugins/pack/__init__.py",
        "plugins/pack/inner.py",
        "plugins/table.csv",
    ]
    identity = source_hash(main)
    monkeypatch.undo()
    here.rename(tmp_path / "gone")
    monkeypatch.setattr(plugins, "_INSTALLED", {})
    monkeypatch.setattr(plugins, "_INSTALLED_FOLDERS", {})
    install_bundle(main, packed)
    assert source_hash(main) == identity
    assert load_file(main).total == 1111


def test_a_bundle_whose_data_are_elsewhere_is_refused_there(tmp_path, monkeypatch):
    write(tmp_path / "data/table.csv", "1")
    main = write(tmp_path / "main.py", f"DEPENDS_ON = ['{tmp_path}/data/table.csv']")
    packed = bundle(main)
    write(tmp_path / "data/table.csv", "2")
    monkeypatch.setattr(plugins, "_INSTALLED", {})
    monkeypatch.setattr(plugins, "_INSTALLED_FOLDERS", {})
    with pytest.raises(BadInput, match="depends on files that differ between the machines"):
        install_bundle(main, packed)


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
    text = "import uproar, lent_amount\ndef scripted(model, x, target):\n    return x\n"
    file = write(tmp_path / "my_script.py", text + "uproar.estimator(passes=1)(scripted)\n")
    write(tmp_path / "lent_amount.py", "")
    importlib.import_module("my_script")
    assert estimators["scripted"].code == source_hash(file) == estimators["scripted"].version
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
