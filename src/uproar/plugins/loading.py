"""Python files of the user: loaded by path with the modules beside them, identified by the text of all of these.

A file and the modules that it imports from its own folder are loaded under names that no other module has: nothing is
put on Python's path, two files may each have a `helper.py` of their own, and an edited one is loaded anew, with all
that imports it.
"""

from __future__ import annotations

import atexit
import builtins
import hashlib
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from uproar.errors import CODE_ERRORS, BadInput, one_line
from uproar.paths import user_path
from uproar.plugins.dependencies import ResolvedImport, content_hash, dependencies, folders_of, resolve

PREFIX = "uproar_file_"
"""How the names of modules begin that are files of the user."""

Folders = tuple[Path, ...]


def source_hash(path: str | Path) -> str:
    """A hash of a file and, if it is Python, of all that it depends on: an edited one is another thing."""
    file = _existing(path)
    return _identity(file, _folders(file))


def load_file(path: str | Path) -> ModuleType:
    """A Python file as a module; loading the same text again gives the same module."""
    file = _existing(path)
    if file.suffix != ".py":
        raise BadInput(f"{path} is not a Python file: its name does not end in .py.")
    folders = _folders(file)
    _unchanged(file, folders)
    try:
        with _LOADING:
            return _module(file, folders)
    except SyntaxError as error:
        where = f"{Path(error.filename or file).name}, line {error.lineno}"
        raise BadInput(f"{where}, is not valid Python: {error.msg}.") from error
    except ModuleNotFoundError as error:
        where = line_in_file(error) or file.name
        missing = error.name or one_line(error)
        raise BadInput(
            f"{where}, imports {missing}, which is neither installed nor a file beside {file.name}."
        ) from error
    except CODE_ERRORS as error:
        raise BadInput(f"{file.name} raises when it is loaded: {one_line(error)}") from error


def modules_of(module: ModuleType) -> set[str]:
    """The names of the loaded modules that a user's file consists of: its own, and of those it imports."""
    file, folders = _SOURCES[module.__name__]
    others = dependencies(file, folders).modules
    loaded = [_MODULES.get((one, folders, _identity(one, folders))) for one in others]
    return {module.__name__, *(one.__name__ for one in loaded if one is not None)}


def declaring_module(function: Callable[..., Any]) -> str:
    """The module that declares a function: a user's file that is being loaded, or the one that defines it."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    if name in _IDENTITIES:
        return name
    return getattr(function, "__module__", None) or type(function).__module__


def code_of(module: str, function: Callable[..., Any]) -> str:
    """A hash of the code of a module, or of a function in a notebook; empty for uproar's own, or if it is not known."""
    if module in _IDENTITIES:
        return _IDENTITIES[module]
    if module.partition(".")[0] == "uproar":
        return ""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        if file is not None and Path(file).suffix == ".py":
            return source_hash(file)
        return hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:16]
    except (OSError, TypeError, BadInput):
        return ""


def line_in_file(error: BaseException) -> str:
    """Where in a user's file an error came about, e.g. `my_method.py, line 7`; empty if it did not in any."""
    frames = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(PREFIX)
    ]
    return frames[-1] if frames else ""


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
    folders: Sequence[str] = ()
    """Where modules are to be looked for beside the file's own folder."""
    identity: str = ""


def bundle(path: str | Path) -> Bundle:
    """A file of the user with the modules and data it depends on."""
    file = _existing(path)
    folders = _folders(file)
    needed = dependencies(file, folders)
    files = [file, *needed.files]
    top = Path(os.path.commonpath([*(f.parent for f in files), *needed.folders]))
    return Bundle(
        str(file.relative_to(top)),
        {str(f.relative_to(top)): f.read_bytes() for f in files},
        [str(folder.relative_to(top)) for folder in sorted(needed.folders)],
        _identity(file, folders),
    )


_INSTALLED: dict[str, Path] = {}
_INSTALLED_FOLDERS: dict[Path, Folders] = {}


def install_bundle(path: str, content: Bundle) -> None:
    """Use this content for a file of the user: a machine of a cluster may not have it, or have another one."""
    place = Path(tempfile.mkdtemp(prefix="uproar-")).resolve()  # for this user's eyes only
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for name, held in content.files.items():
        copy = place / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(held)
    _INSTALLED[path] = place / content.main
    _INSTALLED_FOLDERS[place] = tuple(place / folder for folder in content.folders)
    if source_hash(path) != content.identity:
        raise BadInput(
            f"{path} depends on files that differ between the machines: give them in DEPENDS_ON relative to it."
        )


def file_at(path: str | Path) -> Path:
    """Where a file of the user is on this machine."""
    return _INSTALLED.get(str(path)) or user_path(path)


def _existing(path: str | Path) -> Path:
    file = file_at(path).resolve()
    if file.is_dir():
        raise BadInput(f"{path} is a folder, not a file.")
    if not file.is_file():
        raise BadInput(f"There is no file {path}.")
    return file


def _folders(file: Path) -> Folders:
    """Where a file finds modules of its own."""
    installed = [more for place, more in _INSTALLED_FOLDERS.items() if file.is_relative_to(place)]
    return (*folders_of(file), *(folder for more in installed for folder in more))


def _identity(file: Path, folders: Folders) -> str:
    """A hash of a file with its dependencies: without any, of its bytes alone."""
    own = content_hash(file)
    others = dependencies(file, folders).files if file.suffix == ".py" else []
    if not others:
        return own[:16]
    parts = [own, *sorted(f"{other.name} {content_hash(other)}" for other in others)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


# loading

_LOADING = threading.RLock()
_MODULES: dict[tuple[Path, Folders, str], ModuleType] = {}
_IDENTITIES: dict[str, str] = {}
_SOURCES: dict[str, tuple[Path, Folders]] = {}
"""By the name of a loaded module: its file, and where that finds modules of its own."""
_SHARED: dict[Path, str] = {}
"""What modules held that Python imported for a user's file, under their own names."""


def _module(path: Path, folders: Folders) -> ModuleType:
    """A file, or a folder of modules, as a module under a name of its own."""
    identity = "" if path.is_dir() else _identity(path, folders)
    key = (path, folders, identity)
    if key in _MODULES:  # also one that is only half loaded: modules may import each other
        return _MODULES[key]
    unique = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    module = _empty(f"{PREFIX}{stem}_{unique}", path)
    if path.is_dir():
        _MODULES[key] = module
        return module
    _MODULES[key] = sys.modules[module.__name__] = module  # dataclasses look themselves up here
    _IDENTITIES[module.__name__], _SOURCES[module.__name__] = identity, (path, folders)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importer(path, folders, identity)}
    try:
        # compiled here, since Python takes a file that was edited within a second for the one it has compiled before
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except BaseException:
        del _MODULES[key], sys.modules[module.__name__]
        del _IDENTITIES[module.__name__], _SOURCES[module.__name__]
        raise
    for shared in dependencies(path, folders).shared:
        _SHARED.setdefault(shared, content_hash(shared))
    return module


def _empty(name: str, path: Path) -> ModuleType:
    if path.is_dir():
        module = ModuleType(name)
        module.__path__ = [str(path)]
        return module
    inside = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
    assert spec is not None
    return importlib.util.module_from_spec(spec)


def _importer(file: Path, folders: Folders, identity: str) -> Callable[..., ModuleType]:
    """What `import` does in a user's file: modules of their own are loaded here, all others by Python."""
    known: dict[tuple[str, tuple[str, ...], int], ModuleType] = {}

    def local_import(
        name: str,
        globals: Any = None,  # noqa: A002, as Python calls it
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        statement = name, tuple(fromlist or ()), level
        if statement in known:
            return known[statement]
        resolved = resolve(file, folders, name, level)
        if resolved is None or not resolved.private:
            return builtins.__import__(name, globals, locals, fromlist, level)
        _check_identified(file, folders, identity, resolved)
        with _LOADING:
            known[statement] = _imported(resolved, name, statement[1], folders, relative=level > 0)
        return known[statement]

    return local_import


def _check_identified(file: Path, folders: Folders, identity: str, resolved: ResolvedImport) -> None:
    """Refuse to load what is no part of the identity that the file was loaded with."""
    if _identity(file, folders) != identity:
        raise ImportError(
            f"{file.name}, or a module it imports, was edited after it had been loaded: run the command again"
        )
    unseen = {path for path in resolved.paths if path.is_file()} - {file}
    unseen -= set(dependencies(file, folders).files)
    if unseen:
        raise ImportError(
            f"{file.name} imports {min(unseen).name} by a name that is made while it runs, so that a change of it "
            "would not be noticed: write an import statement, or name the file in DEPENDS_ON"
        )


def _imported(
    resolved: ResolvedImport, name: str, names: tuple[str, ...], folders: Folders, relative: bool
) -> ModuleType:
    """What an import statement yields: the outermost module, or with names to take, the last one."""
    parts = [part for part in name.split(".") if part]
    chain = _chain(resolved, parts, folders, relative)
    if len(chain) < len(parts) + relative:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    if not names:
        return chain[0]
    _load_names(chain[-1], resolved.paths[-1], names, folders)
    return chain[-1]


def _chain(resolved: ResolvedImport, parts: list[str], folders: Folders, relative: bool) -> list[ModuleType]:
    """The modules along a name, each an attribute of the one before."""
    chain: list[ModuleType] = []
    names = ["", *parts] if relative else parts
    for name, path in zip(names, resolved.paths, strict=False):
        module = _module(path, folders)
        if chain:
            setattr(chain[-1], name, module)
        chain.append(module)
    return chain


def _load_names(module: ModuleType, path: Path, names: Sequence[str], folders: Folders) -> None:
    """Load the modules among the names that are taken from a package."""
    if not hasattr(module, "__path__"):
        return
    wanted = [*names, *getattr(module, "__all__", ())] if "*" in names else names
    inside = path if path.is_dir() else path.parent
    for name in wanted:
        held = getattr(module, name, None)
        if held is not None and getattr(held, "__name__", None) not in _SOURCES:
            continue  # the package itself says what the name means
        resolved = resolve(inside / "__init__.py", folders, name, 1)
        if resolved is not None and len(resolved.paths) > 1:
            setattr(module, name, _module(resolved.paths[1], folders))


def _unchanged(file: Path, folders: Folders) -> None:
    """Refuse modules that Python has imported before and that hold something else by now: it would not read them."""
    for shared in dependencies(file, folders).shared:
        if _SHARED.get(shared, content_hash(shared)) != content_hash(shared):
            raise BadInput(f"{shared} was edited after this Python had imported it for {file.name}: start Python anew.")
