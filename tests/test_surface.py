"""The public surface, and the shape of the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import uproar
from uproar import extend

ROOT = Path(__file__).parents[1]


def test_every_public_name_exists_and_is_documented():
    for name in uproar.__all__:
        assert getattr(uproar, name).__doc__, name
    public = {name for name in vars(uproar) if not name.startswith("_")}
    modules = {name for name in public if type(getattr(uproar, name)).__name__ == "module"}
    assert public - modules <= set(uproar.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = uproar.nothing


def test_a_worker_process_does_not_load_what_only_reports_need():
    code = "import sys, uproar.extend, uproar.study.steps; print([m for m in ('pandas', 'matplotlib', 'scipy.stats') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="only in a checkout")
def test_data_flows_one_way_through_the_layers():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    check = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(example, tmp_path, commands):
    done = commands.piped([], tmp_path, script=str(example))
    assert done.code == 0, done.errors
    assert done.text


def test_version_and_changelog_agree():
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {uproar.__version__}" in changes


@pytest.mark.parametrize("module", [uproar, extend], ids=["package", "module"])
def test_a_name_that_does_not_exist_is_missing_from_a_lazy_module_as_from_any_other(module):
    assert not hasattr(module, "pytest_plugins")
