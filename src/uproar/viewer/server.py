"""The viewer served on this machine alone: the page, its data when asked for, and how far the run is."""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from uproar.errors import BadInput, UproarError, one_line
from uproar.viewer.folder import FILES, page_file
from uproar.viewer.live import LiveRun

HOST = "127.0.0.1"
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "json": "application/json"}


class Server(ThreadingHTTPServer):
    """A server that other machines cannot reach; `serve_forever` until interrupted, then `server_close`."""

    daemon_threads = True

    def __init__(self, run: LiveRun, port: int = 0) -> None:
        self.run = run
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise BadInput(f"Cannot serve on port {port}: {error.strerror}. Give another --port, or none.") from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing where the browser has gone away; else what went wrong, as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://{HOST}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    """Answers to one browser: files by name, nothing else."""

    server: Server

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].lstrip("/") or "index.html"
        if self.headers.get("Host", "") not in {f"{host}:{self.server.server_port}" for host in (HOST, "localhost")}:
            return self.send_error(HTTPStatus.FORBIDDEN)  # another page that calls this address by another name
        try:
            content = self._content(name)
        except UproarError as error:  # e.g. a store that has gone
            return self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=one_line(error))
        return self.send_error(HTTPStatus.NOT_FOUND) if content is None else self._answer(name, content)

    def _content(self, name: str) -> bytes | None:
        if name in FILES:
            return page_file(name)
        if name == "progress.json":
            return json.dumps(self.server.run.progress()).encode()
        if name.startswith("data/") and name.endswith(".js"):
            return self.server.run.file(name.removeprefix("data/").removesuffix(".js"))
        return None

    def _answer(self, name: str, content: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: the terminal shows the address alone."""
