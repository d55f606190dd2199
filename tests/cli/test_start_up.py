"""What a command imports before it does anything: help, versions and lists do not wait for torch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import uproar
from tests.cli.test_help import LINES
from uproar.cli.ls import LISTED
from uproar.cli.options import LISTINGS
from uproar.expression import parse

HEAVY = ("torch", "pandas", "matplotlib", "scipy", "numba", "captum", "pyarrow", "PIL", "numpy")


def _imported(*lines: list[str]) -> dict[str, list[str]]:
    """By command line: the heavy packages that were imported in one process up to and including it."""
    code = (
        "import contextlib, io, json, sys, uproar\n"
        f"found = {{'import uproar': [name for name in {HEAVY!r} if name in sys.modules]}}\n"
        "from uproar.cli.app import _exit_code\n"
        f"for line in {list(lines)!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        assert _exit_code(line) == 0, line\n"
        f"    found[' '.join(line)] = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(json.dumps(found))\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def test_help_and_lists_import_nothing_heavy():
    helps = [["--version"], *([*line, "--help"] for line in LINES)]
    lists = [["ls", kind] for kind in LISTED]
    result = _imported(*helps, *lists)
    assert len(result) == 1 + len(helps) + len(lists)
    assert {line: heavy for line, heavy in result.items() if heavy} == {}


def test_names_of_the_package_are_there_when_asked_for_and_in_its_listing():
    assert set(uproar.__all__) <= set(dir(uproar))
    assert uproar.errors.BadInput is uproar.BadInput
    assert uproar.data.Task is uproar.Task
    for module in (uproar, uproar.data):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'x'"):
            _ = module.x


def test_the_lists_that_come_with_the_package_are_what_it_declares():
    """If this fails: python -m uproar.cli.listings"""
    code = "from uproar.cli.listings import listings_text; print(listings_text(), end='')"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert LISTINGS.read_text(encoding="utf-8") == made.stdout


def test_listed_defaults_are_written_as_expressions_read_them():
    for kind, column in (("estimators", 1), ("audits", 2), ("models", 1)):
        for shown in json.loads(LISTINGS.read_text())[kind]:
            for row in shown["rows"]:
                options = re.sub(r"\w+=…(, )?", "", row[column])
                assert str(parse(f"x({options})")).startswith("x"), row
                assert "None" not in options and "(0." not in options, row


def test_a_plug_in_is_listed_beside_what_the_package_declares(tmp_path, capsys):
    from uproar.cli.app import _exit_code

    (tmp_path / "listed_here.py").write_text(
        'def listed_here(model, x, target):\n    """A map of ones."""\n    return x.sum(1) * 0 + 1\n'
    )
    assert _exit_code(["ls", "estimators", "--plugin", str(tmp_path / "listed_here.py")]) == 0
    shown = capsys.readouterr().out
    assert "listed_here" in shown and "guided_backprop" in shown


def test_commands_that_need_torch_import_no_tables_or_plots_before_they_work():
    commands = ("run", "explain", "score")
    lines = [*(f"{command} --estimators x" for command in commands), "run --audits x"]
    later = ("pandas.core", "matplotlib", "scipy.stats", "scipy.sparse", "numba", "captum")
    code = (
        "import sys\nfrom uproar.cli import main\n"
        f"for line in {lines!r}:\n"
        "    try:\n        main(line.split())\n    except SystemExit as end:\n        assert end.code == 2\n"
        f"    print(line, [m for m in {later!r} if m in sys.modules])\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == [f"{line} []" for line in lines]


def test_a_deferred_module_is_loaded_when_an_attribute_is_used():
    code = (
        "import importlib.util, sys\nfrom uproar.lazy import defer_import\ndefer_import('pandas')\n"
        "assert importlib.util.find_spec('pandas').name == 'pandas', 'other libraries see that it is installed'\n"
        "import pandas as pd\nassert 'pandas.core' not in sys.modules\n"
        "frame = pd.DataFrame({'a': [1]})\nimport pandas\nfrom pandas.api.types import is_numeric_dtype\n"
        "assert type(frame) is pandas.DataFrame is pd.DataFrame and is_numeric_dtype(frame['a'])\n"
        "assert pd.__version__ == pandas.__version__\n"
        "defer_import('pandas')\nassert sys.modules['pandas'] is pandas\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nothing_is_coloured_when_no_colour_is_wanted():
    result = {}
    for wanted in ("", "1"):
        told = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "NO_COLOR": wanted}
        shown = subprocess.run(
            [sys.executable, "-m", "uproar", "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **told},
        )
        codes = re.findall(r"\x1b\[([0-9;]*)m", shown.stdout)
        result[wanted] = {code for code in codes if re.search(r"(^|;)(3|4|9)\d", code)}
    assert result[""] and not result["1"]
