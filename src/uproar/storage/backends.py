"""Storage backends: a local folder, or an object store behind an fsspec URL. Bytes by name, whole or absent.

A folder gets its files by atomic rename. An object store puts an object whole or not at all, so there it is written
straight to its name. Nobody holds a lock: a name stands for its content, so two writers of one name write the same.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shlex
import shutil
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable
from urllib.parse import unquote

from uproar.errors import BadInput, StoreError, one_line
from uproar.paths import user_path

# addresses of stores without what must stay secret: passwords and tokens are never shown or written down


HIDDEN = "***"
_USER = re.compile(r"^(?P<before>[\w+.:-]*://[^/?#@]*?:)(?P<secret>[^/?#]*)(?=@)")
_QUERY = re.compile(r"(?P<before>[?&;][^=&;#\s]*=)(?P<secret>[^&;#\s]*)")


def public(url: str) -> str:
    """A URL as it may be shown: the password and all values of the query hidden. A path stays as it is.

    >>> public("s3://key:secret@bucket/study?token=abc&region=eu")
    's3://key:***@bucket/study?token=***&region=***'
    >>> public("runs/digits/store")
    'runs/digits/store'
    """
    if "://" not in url:
        return url
    for pattern in (_USER, _QUERY):
        url = pattern.sub(lambda match: match["before"] + HIDDEN, url)
    return url


def is_hidden(url: str) -> bool:
    """Whether a URL has lost a secret when it was written down."""
    return "://" in url and HIDDEN in url and public(url) == url


def hide(text: str, url: str) -> str:
    """A text in which nothing is left of the secrets of a URL, which an error's message may repeat.

    >>> hide("403 for s3://key:p%40ss@bucket (p@ss)", "s3://key:p%40ss@bucket")
    '403 for s3://key:***@bucket (***)'
    """
    if public(url) == url:
        return text
    secrets = [match["secret"] for pattern in (_USER, _QUERY) for match in pattern.finditer(url)]
    for secret in sorted({*secrets, *map(unquote, secrets)} - {""}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def public_command(words: Iterable[str]) -> str:
    """A command line as it may be written down.

    >>> public_command(["uproar", "run", "--store=s3://k:secret@b"])
    "uproar run '--store=s3://k:***@b'"
    """
    shown = []
    for word in words:
        name, equals, value = word.partition("=")
        option = bool(equals) and name.startswith("-")
        shown.append(f"{name}={public(value)}" if option else public(word))
    return shlex.join(shown)


OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2", "memory"}
"""Schemes whose puts are atomic; elsewhere a file is written beside its place and moved."""
UNFINISHED = "unfinished"
"""The folder of a store where files are written before they are moved to their names."""
ABANDONED = 600.0
"""Seconds after which nobody writes an unfinished file any more."""
LISTED = 10.0
"""Seconds for which a listing answers whether something is there: a plan asks thousands of times."""


@runtime_checkable
class Backend(Protocol):
    """Where a store keeps its files: bytes by name. Names are relative, with forward slashes."""

    root: str
    """The address, as another process can open it."""

    def full(self, name: str) -> str:
        """A name as messages show it."""

    def has(self, name: str) -> bool:
        """Whether something has that name."""

    def refresh(self) -> None:
        """Forget cached listings, so that files of other processes are seen."""

    def names(self, folder: str) -> list[str]:
        """What is below a folder, sorted."""

    def sizes(self) -> dict[str, int]:
        """Every file with its bytes, sorted by name."""

    def start(self, name: str, count: int) -> bytes:
        """The first bytes of a file."""

    def spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some spans (start, stop) of a file's bytes."""

    def content(self, name: str) -> bytearray:
        """All bytes of a file; or FileNotFoundError."""

    def write(self, name: str, content: bytes, flush: bool = True) -> None:
        """Keep content under a name: all of it, or after a failure nothing.

        Without `flush`, the machine may keep it in memory for a while: where it is cut off then, the content is lost.
        """

    def set_aside(self, name: str, other: str) -> None:
        """Rename a damaged file."""

    def remove(self, name: str) -> None:
        """Delete a file."""

    def sweep(self) -> None:
        """Remove what writers that were killed long ago left unfinished."""


def backend_at(root: str | Path) -> Backend:
    """The backend for an address: a path, or a URL with a scheme."""
    text = str(root)
    if "://" not in text:
        return LocalFolder(Path(root))
    scheme, _, rest = text.partition("://")
    return LocalFolder(Path(rest)) if scheme in ("file", "local") else ObjectStore(text)


def is_private(root: str) -> bool:
    """Whether other processes cannot see what is kept there."""
    return root.startswith("memory://")


class LocalFolder:
    """A folder that every process sees under the same path."""

    def __init__(self, root: Path) -> None:
        self.path = user_path(root)
        self.root = str(self.path)
        self._made: set[str] = set()

    def full(self, name: str) -> str:
        return os.path.join(self.root, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.full(name))

    def refresh(self) -> None:
        """Nothing is cached."""

    def names(self, folder: str) -> list[str]:
        paths = (self.path / folder).rglob("*")  # a folder with the name of a file stands in the place of one
        files = (path for path in paths if path.suffix or not path.is_dir())
        return sorted(path.relative_to(self.path).as_posix() for path in files)

    def _open(self, name: str) -> BinaryIO:
        """A file to be read; anything else of that name is an OSError, and a named pipe is not waited for."""
        handle = os.open(self.full(name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no file")
        return os.fdopen(handle, "rb", buffering=0)

    def start(self, name: str, count: int) -> bytes:
        with self._open(name) as file:
            return file.read(count)

    def spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        contents = []
        with self._open(name) as file:
            for start, stop in spans:
                file.seek(start)
                contents.append(file.read(stop - start))
        return contents

    def sizes(self) -> dict[str, int]:
        sizes = {}
        for name in self.names(""):
            with contextlib.suppress(FileNotFoundError):  # another process has just moved it
                sizes[name] = (self.path / name).stat().st_size
        return sizes

    def content(self, name: str) -> bytearray:
        with self._open(name) as file:
            content = bytearray(os.fstat(file.fileno()).st_size)
            done = 0
            while count := file.readinto(memoryview(content)[done:]):  # type: ignore[attr-defined]
                done += count
        del content[done:]
        return content

    def write(self, name: str, content: bytes, flush: bool = True) -> None:
        folder = name.rpartition("/")[0]
        if folder not in self._made:
            self._make(folder)
        try:
            self._write(name, content, flush)
        except FileNotFoundError:  # somebody took the folder away
            self._made -= {folder, UNFINISHED}
            self._make(folder)
            self._write(name, content, flush)
        except IsADirectoryError:
            self.set_aside(name, f"{os.path.splitext(name)[0]}.damaged")
            self._write(name, content, flush)

    def _make(self, folder: str) -> None:
        """Make the folder of a file, and the one where it is written first."""
        for each in {folder, UNFINISHED} - self._made:
            os.makedirs(self.full(each), exist_ok=True)
            self._made.add(each)

    def _write(self, name: str, content: bytes, flush: bool) -> None:
        write_file(self.full(name), content, self.full(f"{UNFINISHED}/{name.replace('/', '-')}"), flush)

    def sweep(self) -> None:
        for path in (self.path / UNFINISHED).glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()

    def set_aside(self, name: str, other: str) -> None:
        start, suffix = os.path.splitext(other)
        for number in itertools.count(2):
            if not os.path.isdir(self.full(other)) and not (os.path.isdir(self.full(name)) and self.has(other)):
                break
            other = f"{start}-{number}{suffix}"  # folders are not replaced
        with contextlib.suppress(OSError):
            (self.path / name).replace(self.path / other)

    def remove(self, name: str) -> None:
        path = self.path / name
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


class ObjectStore:
    """An fsspec URL, e.g. `s3://bucket/study`. Errors of its library become one sentence."""

    def __init__(self, url: str) -> None:
        self.root = url.rstrip("/")
        self.system, self.base = _system(self.root)
        self.known: dict[str, set[str]] = {}
        self.listed: dict[str, float] = {}

    def full(self, name: str) -> str:
        return f"{public(self.root)}/{name}"

    def _inside(self, name: str) -> str:
        return f"{self.base}/{name}"

    def has(self, name: str) -> bool:
        """Asked of a listing not older than `LISTED`: one that is too old to know costs work done twice, no more."""
        kind = name.partition("/")[0]
        if name in self.known.get(kind, ()):
            return True
        if time.monotonic() - self.listed.get(kind, -LISTED) >= LISTED:
            self.known[kind] = set(self.names(kind))
            self.listed[kind] = time.monotonic()
        return name in self.known[kind]

    def refresh(self) -> None:
        self.listed.clear()
        self.known.clear()  # others may also have taken something away

    def names(self, folder: str) -> list[str]:
        return list(self._listing(folder, self._inside(folder)))

    def sizes(self) -> dict[str, int]:
        return self._listing("", self.base)

    def _listing(self, folder: str, path: str) -> dict[str, int]:
        with self._translate_errors("list", folder):
            self.system.invalidate_cache()  # what other processes wrote must be seen
            files = self.system.find(path, detail=True)
        skip = len(self.base) + 1
        return {path[skip:]: int(files[path]["size"] or 0) for path in sorted(map(str, files))}

    def start(self, name: str, count: int) -> bytes:
        with self._translate_errors("read", name):
            return bytes(self.system.cat_file(self._inside(name), start=0, end=count))

    def spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        starts, stops = [span[0] for span in spans], [span[1] for span in spans]
        with self._translate_errors("read", name):
            names = [self._inside(name)] * len(spans)
            try:
                return list(self.system.cat_ranges(names, starts, stops, on_error="raise"))
            except Exception:
                if self.system.info(names[0])["size"] < max(stops):
                    return [b""] * len(spans)  # what a folder gives of a file that ends early
                raise

    def content(self, name: str) -> bytearray:
        with self._translate_errors("read", name):
            return bytearray(self.system.cat_file(self._inside(name)))

    def write(self, name: str, content: bytes, flush: bool = True) -> None:
        with self._translate_errors("write", name):
            if self.root.partition("://")[0] in OBJECTS:
                self.system.pipe_file(self._inside(name), content)
            else:
                self._move_in(self._inside(name), content)
        self.known.setdefault(name.partition("/")[0], set()).add(name)

    def _move_in(self, path: str, content: bytes) -> None:
        folder, _, last = path.rpartition("/")
        apart = self._inside(f"{UNFINISHED}/{last}.{uuid.uuid4().hex}")
        self.system.makedirs(folder, exist_ok=True)
        self.system.makedirs(self._inside(UNFINISHED), exist_ok=True)
        try:
            self.system.pipe_file(apart, content)
            self.system.mv(apart, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self.system.rm_file(apart)
            raise

    def set_aside(self, name: str, other: str) -> None:
        with contextlib.suppress(Exception):
            self.system.mv(self._inside(name), self._inside(other))
        self.known.get(name.partition("/")[0], set()).discard(name)

    def remove(self, name: str) -> None:
        with contextlib.suppress(Exception):
            self.system.rm_file(self._inside(name))
        self.known.get(name.partition("/")[0], set()).discard(name)

    def sweep(self) -> None:
        """Left to whoever cleans the store: its clock is not ours."""

    @contextlib.contextmanager
    def _translate_errors(self, what: str, name: str) -> Iterator[None]:
        """Errors of any library as `StoreError`; only a missing file to be read stays what callers expect."""
        try:
            yield
        except Exception as error:
            if what == "read" and isinstance(error, FileNotFoundError):
                raise
            reason = hide(_reason(error), self.root)
            raise StoreError(f"Cannot {what} {self.full(name)}: {reason}.") from (
                error if reason == _reason(error) else None
            )


def _system(url: str) -> tuple[Any, str]:
    import fsspec  # loaded only for a store that needs it

    scheme = url.partition("://")[0]
    try:
        system, path = fsspec.core.url_to_fs(url)
        return system, path
    except ImportError as error:
        raise BadInput(
            f"A store at {scheme}:// needs one more package ({one_line(error)}); install it on every machine."
        ) from None
    except ValueError as error:
        if scheme in fsspec.available_protocols():
            reason = hide(_reason(error), url)
            raise BadInput(f"Cannot use {public(url)} as a store: {reason}.") from None
        raise BadInput(
            f"No file system is known for {scheme}:// in {public(url)}: give a folder, or a URL such as "
            "s3://bucket/study, gs://… or abfs://…"
        ) from None
    except Exception as error:
        reason = hide(_reason(error), url)
        raise StoreError(f"Cannot use {public(url)} as a store: {reason}.") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or one_line(error)).rstrip(".")


def write_file(path: str | Path, content: bytes, apart: str | None = None, flush: bool = True) -> None:
    """The whole file or nothing: written beside its place, or beside `apart`, flushed to the disk, then renamed.

    It is as readable for others as any new file of this process (its umask).
    """
    folder, last = os.path.split(path)
    begun = os.path.join(folder, f".{last}") if apart is None else apart
    hidden = f"{begun}.{uuid.uuid4().hex[:12]}"
    try:
        handle = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb", buffering=0) as file:
            done = 0
            while done < len(content):  # a disk takes what it can
                done += file.write(content[done:] if done else content)
            if flush:
                os.fsync(handle)
        try:
            os.replace(hidden, path)
        except OSError as error:
            if error.errno != errno.EXDEV or apart is None:
                raise
            os.unlink(hidden)
            write_file(path, content, None, flush)  # the folder of its kind lies on another disk
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
