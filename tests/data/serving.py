"""A file server on this machine that can break off, refuse ranges, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves what is in `files`; `drop` bytes after which each answer breaks off, `ranges` whether parts are served."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.drop: int | None = None
        self.ranges = True
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Range"))
        content = self.server.files.get(self.path.lstrip("/"))
        if content is None:
            self.send_error(404)
            return
        start = 0
        if self.server.ranges and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        part = content[start:]
        self.wfile.write(part if self.server.drop is None else part[: self.server.drop])

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    """A running server."""
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
