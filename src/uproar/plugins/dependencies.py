"""Which files a Python file of the user depends on: modules of theirs that it imports, and what it says itself.

An import is local if it finds a module beside the file (below its folder), on the path of Python but outside of its
library and of installed packages, or in the working folder. Imports are read from the text, those inside functions too,
and followed from file to file. Data that code reads cannot be seen this way; a file names them:

    DEPENDS_ON = ["weights.pt", "tables"]        # files or folders, relative to the file that says so
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from uproar.errors import BadInput
from uproar.paths import user_path

DEPENDS_ON = "DEPENDS_ON"
LARGE = 2**20
"""Bytes from which a file is not read again as long as its size and time of change stay."""


@dataclass(frozen=True)
class Import:
    """An import statement: the module, how many dots stand before it, and the names taken from it."""

    module: str
    level: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ResolvedImport:
    """The modules along a dotted name, outermost first: files, or folders without an `__init__.py`."""

    paths: tuple[Path, ...]
    private: bool
    """Whether Python itself would not find it, or another one."""
    folder: Path
    """Where the outermost lies."""


@dataclass
class Dependencies:
    """What a file depends on beside itself."""

    modules: set[Path] = field(default_factory=set)
    shared: set[Path] = field(default_factory=set)
    """Those of the modules that Python imports under their own names."""
    data: set[Path] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    """Where modules were found that do not lie beside the file."""

    @property
    def files(self) -> list[Path]:
        """All of them, in a fixed order."""
        return sorted(self.modules | self.data)


def folders_of(file: Path) -> tuple[Path, ...]:
    """Where a file finds its own modules: beside it, and beside the package it belongs to."""
    top = file.parent
    while (top / "__init__.py").is_file() and top.parent != top:
        top = top.parent
    return tuple(dict.fromkeys((file.parent, top)))


def dependencies(file: Path, folders: tuple[Path, ...]) -> Dependencies:
    """Everything that a file imports from the user's own modules, however far away, and the data these name."""
    collected, waiting, done = Dependencies(), [(file, folders)], {file}
    while waiting:
        current, places = waiting.pop()
        imports, data = read_source(current)
        collected.data |= {path for name in data for path in _data_files(current, name)}
        for each in imports:
            for one in _modules(current, places, each):
                files = {path for path in one.paths if path.is_file()}
                collected.modules |= files - {file}
                if not one.private:
                    collected.shared |= files - {file}
                if one.folder not in folders and not any(one.folder.is_relative_to(f) for f in folders):
                    collected.folders.add(one.folder)
                waiting += [(path, places if one.private else ()) for path in files - done]
                done |= files
    return collected


def resolve(file: Path, folders: tuple[Path, ...], module: str, level: int = 0) -> ResolvedImport | None:
    """The user's own modules along the name that a file imports; None for what is not theirs.

    A name whose last parts are no modules is found as far as it goes; a relative one begins with its package.
    """
    parts = [part for part in module.split(".") if part]
    if level:
        package = (file.parent, *file.parents)[level]
        start = package / "__init__.py"
        head = start if start.is_file() else package
        return ResolvedImport((head, *_below(package, parts)), True, package)
    top = _top_module(file, folders, parts[0])
    if top is None:
        return None
    path, private = top
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    return ResolvedImport((path, *_below(_inside(path), parts[1:])), private, folder)


def _top_module(file: Path, folders: tuple[Path, ...], name: str) -> tuple[Path, bool] | None:
    """Where the outermost module of an absolute import lies, and whether Python would not find it."""
    if name in sys.stdlib_module_names or name in _required():
        return None
    for folder in folders:
        own = _module_in(folder, name)
        if own is not None and own.is_file() and own != file:
            return own, True
    known = _importable(name)
    if known is not None:
        return (known, False) if _is_users(known) and known != file else None
    for folder in (*folders, Path.cwd()):
        own = _module_in(folder, name)
        if own is not None and own != file:
            return own, True
    return None


def _module_in(folder: Path, name: str) -> Path | None:
    """The module of a name in a folder: a package, a file, or a folder with Python files."""
    for candidate in (folder / name / "__init__.py", folder / f"{name}.py"):
        if candidate.is_file():
            return candidate
    plain = folder / name
    return plain if name and plain.is_dir() and any(plain.glob("*.py")) else None


def _below(package: Path, parts: list[str]) -> Iterator[Path]:
    """The modules along a name below a package's folder, as far as there are any."""
    for part in parts:
        module = _module_in(package, part)
        if module is None:
            return
        yield module
        package = _inside(module)


def _inside(module: Path) -> Path:
    """The folder in which the submodules of a module lie, if it has any."""
    if module.is_dir():
        return module
    return module.parent if module.name == "__init__.py" else module.with_suffix("")


def _modules(file: Path, folders: tuple[Path, ...], one: Import) -> Iterator[ResolvedImport]:
    """What an import statement loads: the module, and each name taken from it that is a module too."""
    base = resolve(file, folders, one.module, one.level)
    if base is None:
        return
    yield base
    for name in one.names:
        whole = f"{one.module}.{name}" if one.module else name
        submodule = resolve(file, folders, whole, one.level)
        if submodule is not None:
            yield submodule


def read_source(file: Path) -> tuple[tuple[Import, ...], tuple[str, ...]]:
    """The imports in a file, and what it says it depends on."""
    return _parsed(file.read_bytes(), file.name) if file.suffix == ".py" else ((), ())


@functools.lru_cache(maxsize=512)
def _parsed(text: bytes, name: str) -> tuple[tuple[Import, ...], tuple[str, ...]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # loading it says what is wrong
        return (), ()
    imports: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names if alias.name != "*")
            imports.append(Import(node.module or "", node.level, names))
        elif isinstance(node, ast.Call) and _imports_by_name(node):
            imports.append(Import(node.args[0].value))  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(imports)), _named_data(tree, name)


def _imports_by_name(node: ast.Call) -> bool:
    """Whether this is `__import__("name")`."""
    called = isinstance(node.func, ast.Name) and node.func.id == "__import__"
    first = node.args[0] if node.args else None
    return called and isinstance(first, ast.Constant) and isinstance(first.value, str)


def _named_data(tree: ast.Module, name: str) -> tuple[str, ...]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == DEPENDS_ON for target in targets):
            try:
                value = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            except ValueError:
                value = None
            listed = [value] if isinstance(value, str) else value
            if not isinstance(listed, list | tuple) or not all(isinstance(x, str) for x in listed):
                raise BadInput(
                    f'{name}, line {node.lineno}: {DEPENDS_ON} is a list of names of files, such as ["weights.pt"].'
                )
            return tuple(listed)
    return ()


def _data_files(file: Path, name: str) -> list[Path]:
    place = (file.parent / user_path(name)).resolve()
    if place.is_dir():
        return [path for path in place.rglob("*") if path.is_file()]
    if not place.is_file():
        raise BadInput(f"{file.name} says that it depends on {name}, but there is no file {place}.")
    return [place]


def _importable(name: str) -> Path | None:
    """Where Python would find a module: its file or folder; for one without a file, Python's own library."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    if spec.origin not in (None, "built-in", "frozen"):
        return Path(str(spec.origin)).resolve()
    places = list(spec.submodule_search_locations or ())
    return Path(places[0]).resolve() if places else _installed()[0]


@functools.cache
def _required() -> frozenset[str]:
    """uproar and what it needs: never a module of the user, wherever it is installed from."""
    needed = (re.match(r"[\w.-]+", line) for line in metadata.requires("uproar") or ())
    names = {match[0].replace("-", "_") for match in needed if match is not None}
    return frozenset({"uproar", "torch", *names})


def _is_users(path: Path) -> bool:
    """Whether a module is neither Python's own nor installed."""
    if {"site-packages", "dist-packages"} & set(path.parts) or path.suffix not in (".py", ""):
        return False
    return not any(path.is_relative_to(place) for place in _installed())


@functools.cache
def _installed() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_paths()[name] for name in names]
    places += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(dict.fromkeys(Path(place).resolve() for place in places))


def content_hash(path: Path) -> str:
    """A hash of what a file holds; that of a large one is remembered until its size or time of change differs."""
    state = os.stat(path)
    if state.st_size < LARGE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return _large_hash(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _large_hash(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
