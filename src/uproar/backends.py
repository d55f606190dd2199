"""Where a store keeps its files: a local folder, or an object store behind an fsspec URL. Bytes by name, all or none.

A folder gets its files by atomic rename. An object store puts an object whole or not at all, so there it is written
straight to its name. Nobody holds a lock: a name stands for its content, so two writers of one name write the same.
Names are relative to the root, with forward slashes.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from uproar.errors import BadInput, StoreError, one_line
from uproar.paths import hide, public, user_path, write_file

OBJECTS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oci", "oss", "r2", "memory"}
"""Schemes whose puts are atomic; elsewhere a file is written beside its place and moved."""
UNFINISHED = "unfinished"
"""The folder of a store where files are written before they are moved to their names."""
ABANDONED = 600.0
"""Seconds after which nobody writes an unfinished file any more."""
LISTED = 10.0
"""Seconds for which a listing answers whether something is there: a plan asks thousands of times."""


class LocalFolder:
    """A folder that every process sees under the same path."""

    def __init__(self, root: str | Path) -> None:
        self.path = user_path(root)
        self.root = str(self.path)

    def full(self, name: str) -> str:
        """A name as messages show it."""
        return os.path.join(self.root, name)

    def has(self, name: str) -> bool:
        """Whether something has that name."""
        return os.path.exists(self.full(name))

    def refresh(self) -> None:
        """Forget cached listings, so that files of other processes are seen: nothing is cached."""

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Every file below a folder with its bytes, sorted by name; a folder may stand in the place of one."""
        sizes = {}
        for path in sorted((self.path / folder).rglob("*")):
            if path.suffix or not path.is_dir():
                with contextlib.suppress(OSError):  # another process has just moved it
                    sizes[path.relative_to(self.path).as_posix()] = path.stat().st_size
        return sizes

    def _open(self, name: str) -> BinaryIO:
        """A file to be read; anything else of that name is an OSError, and a named pipe is not waited for."""
        handle = os.open(self.full(name), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no file")
        return os.fdopen(handle, "rb")

    def start(self, name: str, count: int) -> bytes:
        """The first bytes of a file."""
        with self._open(name) as file:
            return file.read(count)

    def spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Some spans (start, stop) of a file's bytes."""
        contents = []
        with self._open(name) as file:
            for start, stop in spans:
                file.seek(start)
                contents.append(file.read(stop - start))
        return contents

    def content(self, name: str) -> bytearray:
        """All bytes of a file; or FileNotFoundError."""
        with self._open(name) as file:
            content = bytearray(os.fstat(file.fileno()).st_size)
            del content[file.readinto(content) :]  # type: ignore[attr-defined]
        return content

    def write(self, name: str, content: bytes, flush: bool = True) -> None:
        """Keep content under a name: all of it, or after a failure nothing.

        Without `flush`, the machine may keep it in memory for a while: where it is cut off then, the content is lost.
        """
        path, apart = self.full(name), self.full(f"{UNFINISHED}/{name.replace('/', '-')}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(os.path.dirname(apart), exist_ok=True)
        try:
            write_file(path, content, apart, flush)
        except IsADirectoryError:
            self.set_aside(name, f"{os.path.splitext(name)[0]}.damaged")
            write_file(path, content, apart, flush)

    def set_aside(self, name: str, other: str) -> None:
        """Rename a damaged file, to `other` or, where something has that name, to one like it."""
        start, suffix = os.path.splitext(self.full(other))
        paths = itertools.chain([self.full(other)], (f"{start}-{number}{suffix}" for number in itertools.count(2)))
        with contextlib.suppress(OSError):
            os.replace(self.full(name), next(path for path in paths if not os.path.lexists(path)))

    def remove(self, name: str) -> None:
        """Delete a file, or a folder in the place of one."""
        path = self.path / name
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def sweep(self) -> None:
        """Remove what writers that were killed long ago left unfinished."""
        for path in (self.path / UNFINISHED).glob("*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()


class ObjectStore:
    """An fsspec URL, e.g. `s3://bucket/study`, with the methods of a `LocalFolder`.

    Errors of any library become a `StoreError` of one sentence.
    """

    def __init__(self, url: str) -> None:
        self.root = url.rstrip("/")
        self.system, self.base = _system(self.root)
        self.listed: dict[str, tuple[set[str], float]] = {}
        """The names below each top folder, as they were last listed, and when."""

    def full(self, name: str) -> str:
        return f"{public(self.root)}/{name}"

    def _inside(self, name: str) -> str:
        return f"{self.base}/{name}"

    def _known(self, name: str) -> tuple[set[str], float]:
        """The names known to be in the top folder of a name, and when they were listed."""
        return self.listed.setdefault(name.partition("/")[0], (set(), -LISTED))

    def has(self, name: str) -> bool:
        """Read from a listing not older than `LISTED`: one that is too old to know costs work done twice, no more."""
        names, when = self._known(name)
        if name not in names and time.monotonic() - when >= LISTED:
            kind = name.partition("/")[0]
            names = set(self.sizes(kind))
            self.listed[kind] = names, time.monotonic()
        return name in names

    def refresh(self) -> None:
        self.listed.clear()

    def sizes(self, folder: str = "") -> dict[str, int]:
        with self._translate_errors("list", folder):
            self.system.invalidate_cache()  # what other processes wrote must be seen
            files = self.system.find(self._inside(folder) if folder else self.base, detail=True)
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
        path = self._inside(name)
        with self._translate_errors("write", name):
            if self.root.partition("://")[0] in OBJECTS:
                self.system.pipe_file(path, content)
            else:
                apart = self._inside(f"{UNFINISHED}/{name.rpartition('/')[2]}.{uuid.uuid4().hex}")
                self.system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.system.makedirs(self._inside(UNFINISHED), exist_ok=True)
                try:
                    self.system.pipe_file(apart, content)
                    self.system.mv(apart, path)
                except BaseException:
                    with contextlib.suppress(Exception):
                        self.system.rm_file(apart)
                    raise
        self._known(name)[0].add(name)

    def set_aside(self, name: str, other: str) -> None:
        with contextlib.suppress(Exception):
            self.system.mv(self._inside(name), self._inside(other))
        self._known(name)[0].discard(name)

    def remove(self, name: str) -> None:
        with contextlib.suppress(Exception):
            self.system.rm_file(self._inside(name))
        self._known(name)[0].discard(name)

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
            reason = _reason(error, self.root)
            secret = reason != _reason(error, "")
            raise StoreError(f"Cannot {what} {self.full(name)}: {reason}.") from None if secret else error


Backend = LocalFolder | ObjectStore


def backend_at(root: str | Path) -> Backend:
    """The backend for an address: a path, or a URL with a scheme."""
    text = str(root)
    if "://" not in text:
        return LocalFolder(text)
    scheme, _, rest = text.partition("://")
    return LocalFolder(rest) if scheme in ("file", "local") else ObjectStore(text)


def is_private(root: str) -> bool:
    """Whether other processes cannot see what is kept there."""
    return root.startswith("memory://")


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    import fsspec  # loaded only for a store that needs it

    scheme = url.partition("://")[0]
    try:
        system, path = fsspec.core.url_to_fs(url)
        return system, path
    except ImportError as error:
        raise BadInput(
            f"A store at {scheme}:// needs one more package ({one_line(error)}); install it on every machine."
        ) from None
    except Exception as error:
        if isinstance(error, ValueError) and scheme not in fsspec.available_protocols():
            raise BadInput(
                f"No file system is known for {scheme}:// in {public(url)}: give a folder, or a URL such as "
                "s3://bucket/study, gs://… or abfs://…"
            ) from None
        kind = BadInput if isinstance(error, ValueError) else StoreError
        raise kind(f"Cannot use {public(url)} as a store: {_reason(error, url)}.") from None


def _reason(error: Exception, url: str) -> str:
    """What an error says, without the secrets of a URL."""
    return hide((getattr(error, "strerror", None) or one_line(error)).rstrip("."), url)
