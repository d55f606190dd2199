"""A stand-in for S3 that needs no server: flat keys, whole puts, no rename, and listings it remembers, as s3fs does.

Registered as `s3://` when the file is loaded. Objects are files in the folder that
`UPROAR_OBJECTS` names, so that several processes see the same ones.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from urllib.parse import quote, unquote

import fsspec


class Objects(fsspec.AbstractFileSystem):
    metric = "s3"
    cachable = False

    @property
    def folder(self) -> Path:
        return Path(os.environ["UPROAR_OBJECTS"])

    def _file(self, path: str) -> Path:
        return self.folder / quote(self._strip_protocol(path), safe="")

    def _refuse(self, path: str) -> None:
        if self._strip_protocol(path).startswith("forbidden"):
            raise PermissionError("Access Denied")

    def pipe_file(self, path, value, mode="overwrite", **_):
        self._refuse(path)
        handle, name = tempfile.mkstemp(prefix=f"{uuid.uuid4().hex}.", dir=self.folder.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(value)
        os.replace(name, self._file(path))

    def cat_file(self, path, start=None, end=None, **_):
        self._refuse(path)
        return self._file(path).read_bytes()[start:end]

    def rm_file(self, path):
        self._file(path).unlink()

    def cp_file(self, path1, path2, **_):
        self.pipe_file(path2, self.cat_file(path1))

    def makedirs(self, path, exist_ok=False):
        raise NotImplementedError("an object store has no folders")

    def ls(self, path, detail=True, **_):
        root = self._strip_protocol(path).rstrip("/")
        if root not in self.dircache:
            below = {}
            for file in self.folder.iterdir():
                key = unquote(file.name)
                if key == root:
                    below[key] = {"name": key, "size": file.stat().st_size, "type": "file"}
                elif key.startswith(f"{root}/"):
                    head, more, _ = key[len(root) + 1 :].partition("/")
                    kind = "directory" if more else "file"
                    below[f"{root}/{head}"] = {"name": f"{root}/{head}", "size": 0, "type": kind}
            self.dircache[root] = sorted(below.values(), key=lambda entries: entries["name"])
        entries = self.dircache[root]
        if not entries:
            raise FileNotFoundError(path)
        return entries if detail else [entry["name"] for entry in entries]

    def invalidate_cache(self, path=None):
        self.dircache.clear()


fsspec.register_implementation("s3", Objects, clobber=True)
