"""Python files of the user: loaded by path, identified by the text of the file and of every local file that it loads.

Local are the modules below the file's own folder, whichever way they are imported. Data that code reads cannot be seen;
a file names them:

    DEPENDS_ON = ["weights.pt", "tables"]        # files or folders, relative to the file that says so
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from uproar.errors import CODE_ERRORS, BadInput, one_line
from uproar.paths import user_path

PREFIX = "uproar_file_"
"""How the names of modules begin that are files of the user."""
DEPENDS_ON = "DEPENDS_ON"
LARGE = 2**20
"""Bytes from which a file is not read again as long as its size and time of change stay."""


@dataclass(frozen=True)
class LoadedFile:
    """A file of the user as it was loaded."""

    module: ModuleType
    local: tuple[ModuleType, ...]
    """The local modules that it loaded."""
    hashes: Mapping[Path, str]
    """What the files held that it consists of: itself, local modules, the data that all of these name."""

    @functools.cached_property
    def identity(self) -> str:
        """A hash of all of them; of a file alone, that of its text."""
        main, *others = self.hashes.items()
        if not others:
            return main[1][:16]
        parts = [main[1], *sorted(f"{path.name} {content}" for path, content in others)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @property
    def is_current(self) -> bool:
        """Whether all files still hold what they held."""
        return all(path.is_file() for path in self.hashes) and _hashes(self.module, self.local) == self.hashes


_LOCK = threading.RLock()
_LOADED: dict[Path, LoadedFile] = {}
_IDENTITIES: dict[str, LoadedFile] = {}
_LIBRARY = Path(os.__file__).resolve().parent
"""Python's own modules."""
_loading: list[str] = []
"""The names of the modules of the user's files that are being loaded, innermost last."""


def load_file(path: str | Path) -> ModuleType:
    """A Python file as a module; loading the same text again gives the same module."""
    file = _existing(path)
    if file.suffix != ".py":
        raise BadInput(f"{path} is not a Python file: its name does not end in .py.")
    try:
        return _load(file).module
    except SyntaxError as error:
        where = f"{Path(error.filename or file).name}, line {error.lineno}"
        raise BadInput(f"{where}, is not valid Python: {error.msg}.") from error
    except ModuleNotFoundError as error:
        where, missing = line_in_file(error) or file.name, error.name or one_line(error)
        raise BadInput(
            f"{where}, imports {missing}, which is neither installed nor a file beside {file.name}."
        ) from error
    except BadInput:
        raise
    except CODE_ERRORS as error:
        raise BadInput(f"{file.name} raises when it is loaded: {one_line(error)}") from error


def source_hash(path: str | Path) -> str:
    """A hash of a file and, if it is Python, of all that it loads: an edited one is another thing."""
    file = _existing(path)
    if file.suffix != ".py":
        return _content_hash(file)[:16]
    load_file(path)
    return _LOADED[file].identity


def _load(file: Path) -> LoadedFile:
    """The file as it is now, loaded once for each text that it and what it loads have had."""
    with _LOCK:
        known = _LOADED.get(file)
        if known is not None and known.is_current:
            return known
        name = f"{PREFIX}{file.stem}_{hashlib.sha256(f'{file} {len(_IDENTITIES)}'.encode()).hexdigest()[:16]}"
        # with its folder as the place of its submodules, `from .helper import …` finds what lies beside it
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        _loading.append(name)
        try:
            with _fresh_local_modules(file.parent) as loaded:
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            _loading.pop()
        local = tuple(each for each in loaded if getattr(each, "__file__", None))
        _LOADED[file] = _IDENTITIES[name] = LoadedFile(module, local, _hashes(module, local))
        return _LOADED[file]


def _hashes(module: ModuleType, local: Sequence[ModuleType]) -> dict[Path, str]:
    """What a file consists of, with hashes, itself first: local modules, and the data that all of these name."""
    file, *paths = (Path(str(each.__file__)).resolve() for each in (module, *local))
    for each in (module, *local):
        origin, listed = Path(str(each.__file__)), getattr(each, DEPENDS_ON, ())
        names = [listed] if isinstance(listed, str) else listed
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise BadInput(f'{origin.name}: {DEPENDS_ON} is a list of names of files, such as ["weights.pt"].')
        for name in names:
            dependency = (origin.parent / user_path(name)).resolve()
            if not dependency.exists():
                raise BadInput(f"{origin.name} says that it depends on {name}, but there is no file {dependency}.")
            paths += [path for path in dependency.rglob("*") if path.is_file()] if dependency.is_dir() else [dependency]
    return {path: _content_hash(path) for path in [file, *sorted({*paths} - {file})]}


@contextmanager
def _fresh_local_modules(folder: Path) -> Iterator[list[ModuleType]]:
    """Inside, imports find modules below a folder, each read anew; afterwards they are listed, and others come back."""
    beside = {path.stem for path in folder.iterdir()}
    before = {
        name: module
        for name, module in [*sys.modules.items()]
        if _is_local(module, folder) or (name.partition(".")[0] in beside and _is_local(module, Path("/")))
    }
    loaded: list[ModuleType] = []
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # edits within a second would not be seen
    for name in before:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield loaded
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = compiles
        for name, module in [*sys.modules.items()]:
            if _is_local(module, folder):
                loaded.append(module)
                if not name.startswith(PREFIX):  # another file may have other modules of these names
                    del sys.modules[name]
        sys.modules.update(before)


def _is_local(module: object, folder: Path) -> bool:
    """Whether a module lies below a folder and is neither installed nor Python's or uproar's own, nor a loaded file."""
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    places = [file] if file is not None else [*getattr(module, "__path__", ())]  # a folder of modules has no file
    others = ("uproar", "__main__", *_IDENTITIES, *_loading)
    if not places or name in others or name.startswith("uproar."):
        return False
    path = Path(str(places[0])).resolve()
    installed = {"site-packages", "dist-packages"} & set(path.parts) or path.is_relative_to(_LIBRARY)
    return path.is_relative_to(folder) and path.exists() and not installed


def check_local_imports(function: Callable[..., Any]) -> None:
    """Refuse a function of a user's file that has imported a local module which is no part of the file's identity."""
    known = _IDENTITIES.get(getattr(function, "__module__", None) or "")
    if known is None:
        return
    file = next(iter(known.hashes))
    for module in [*sys.modules.values()]:
        source = getattr(module, "__file__", None)
        if source and _is_local(module, file.parent) and Path(source).resolve() not in known.hashes:
            raise BadInput(
                f"{file.name} imports {Path(source).name} inside a function, so that a change of it would not be "
                f"noticed: import it at the top of the file, or name it in {DEPENDS_ON}."
            )


# what was declared where


def declaring_module(function: Callable[..., Any]) -> str:
    """The module that declares a function: a user's file that is being loaded, or the one that defines it."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    if _loading and frame is not None:
        name, file = frame.f_globals.get("__name__"), Path(str(sys.modules[_loading[-1]].__file__))
        if name == _loading[-1] or _is_local(sys.modules.get(str(name)), file.parent):
            return _loading[-1]
    return getattr(function, "__module__", None) or type(function).__module__


def code_of(module: str, function: Callable[..., Any]) -> str:
    """A hash of the code of a module, or of a function in a notebook; empty for uproar's own, or if it is not known."""
    if module in _IDENTITIES:
        return _IDENTITIES[module].identity
    root = module.partition(".")[0]
    if root == "uproar":
        return ""
    file = getattr(sys.modules.get(root), "__file__", None)
    try:
        if file is None:
            return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
        package = Path(file).parent.rglob("*.py") if Path(file).name == "__init__.py" else [Path(file)]
        return hashlib.sha256("\n".join(_content_hash(path) for path in sorted(package)).encode()).hexdigest()[:16]
    except (OSError, TypeError):
        return ""


def line_in_file(error: BaseException) -> str:
    """Where in a user's file an error came about, e.g. `my_method.py, line 7`; empty if it did not in any."""
    folders = {str(next(iter(loaded.hashes)).parent) for loaded in _IDENTITIES.values()}
    lines = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(PREFIX)
        or str(Path(frame.f_code.co_filename).parent) in folders
    ]
    return lines[-1] if lines else ""


def describe_error(error: BaseException) -> str:
    """An error as one line; an exit also says in which user's file it was asked for."""
    where = line_in_file(error) if isinstance(error, SystemExit) else ""
    return f"{where}: {one_line(error)}" if where else one_line(error)


# files for another machine


@dataclass(frozen=True)
class Bundle:
    """A file with all that it depends on, for a machine that may have none of it."""

    main: str
    files: Mapping[str, bytes]
    """Contents by path, the paths relative to one folder."""


def bundle(path: str | Path) -> Bundle:
    """A file of the user with the modules and data it depends on."""
    file = _existing(path)
    files = [*_load(file).hashes] if file.suffix == ".py" else [file]
    top = Path(os.path.commonpath([each.parent for each in files]))
    return Bundle(str(file.relative_to(top)), {str(each.relative_to(top)): each.read_bytes() for each in files})


_BUNDLE = "uproar-files-"
installed: dict[str, str] = {}
"""Where files of the user are on this machine, by the names that a study has for them."""


def install_bundle(path: str, content: Bundle) -> None:
    """Use this content for a file of the user: a machine of a cluster may not have it, or have another one."""
    import fcntl  # only where clusters are

    _remove_left_bundles()
    folder = Path(tempfile.mkdtemp(prefix=_BUNDLE)).resolve()  # for this user's eyes only
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)  # until this process ends, however it does
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, held in content.files.items():
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(held)
    installed[path] = str(folder / content.main)


def _remove_left_bundles() -> None:
    """Remove what processes left that were killed: nobody holds its lock."""
    import fcntl

    for folder in Path(tempfile.gettempdir()).glob(f"{_BUNDLE}*"):
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                state = os.fstat(handle)
                if state.st_uid == os.getuid() and time.time() - state.st_mtime > 60:  # a new one has no lock yet
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)


def file_at(path: str | Path) -> Path:
    """Where a file of the user is on this machine."""
    return Path(installed[str(path)]) if str(path) in installed else user_path(path)


def _existing(path: str | Path) -> Path:
    file = file_at(path).resolve()
    if file.is_dir():
        raise BadInput(f"{path} is a folder, not a file.")
    if not file.is_file():
        raise BadInput(f"There is no file {path}.")
    return file


def _content_hash(path: Path) -> str:
    """A hash of what a file holds; that of a large one is remembered until its size or time of change differs."""
    state = path.stat()
    if state.st_size < LARGE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return _large_hash(path, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _large_hash(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
