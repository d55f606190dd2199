"""The viewer served on this machine: files by name to nobody else, new cells while a run goes on, a clean end."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import pytest

from tests.viewer.conftest import STUDY, progress
from uproar.cli import view
from uproar.errors import BadInput
from uproar.viewer.live import LiveRun, state_of
from uproar.viewer.server import HOST, Server


@pytest.fixture(scope="module")
def served(folder):
    server = Server(LiveRun(folder, STUDY, str(folder / "store"), {}, None))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def asked(server: Server, path: str, host: str | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=20)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_it_serves_the_page_and_its_data_and_nothing_else(served):
    for path, start in (("/", b"<!doctype html>"), ("/view.js", b"//"), ("/data/index.js?3", b"received(")):
        status, content = asked(served, path)
        assert status == 200 and content.startswith(start)
    for path in (
        "/../run.json",
        "/data/../../run.json",
        "/run.json",
        "/data/s9-base.js",
        "/data/index",
        "/page/view.js",
    ):
        assert asked(served, path)[0] == 404, path
    assert served.server_address[0] == "127.0.0.1"


def test_a_page_that_calls_it_by_another_name_is_refused(served):
    assert asked(served, "/data/index.js", "evil.example")[0] == 403
    assert asked(served, "/", f"localhost:{served.server_port}")[0] == 200


def test_new_cells_count_the_version_up_and_are_shown(folder):
    """The cells are taken away and given back, as if they had been computed meanwhile."""
    progress(folder, 3, 4)
    kept, away = folder / "store" / "cell", folder / "away"
    kept.rename(away)
    try:
        live = LiveRun(folder, STUDY, str(folder / "store"), {}, None)
        assert b'"absent":true' in live.file("s0-answers-0-1")
        told = live.progress()
        assert told == {"words": "running: 3 of 4 cells, about 8 s left", "running": True, "version": 0}
    finally:
        away.rename(kept)
        progress(folder, 4, 4)
    assert live.progress() == {"words": "finished: 4 cells", "running": False, "version": 1}
    assert b'"absent":true' not in live.file("s0-answers-0-1")
    assert json.loads(live.file("index").decode()[len('received("index", ') : -3])["version"] == 1


def test_a_run_that_was_killed_is_not_said_to_run(folder, monkeypatch):
    progress(folder, 3, 4)
    try:
        monkeypatch.setattr("uproar.viewer.live.SILENT", -1.0)
        assert state_of(folder).words == "3 of 4 cells; the run is not going on"
    finally:
        progress(folder, 4, 4)


def test_ctrl_c_ends_it_cleanly_and_its_port_is_free_again(folder, monkeypatch, capsys):
    ports = []

    def interrupted(server: Server) -> None:
        ports.append(server.server_port)
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("no browser was asked for"))
    assert view.view(folder, no_browser=True) == 0
    assert f"http://127.0.0.1:{ports[0]}/" in capsys.readouterr().out
    with socket.create_server((HOST, ports[0])):
        pass  # the port is free again


def test_a_port_that_is_taken_is_one_sentence(served):
    with pytest.raises(BadInput, match=rf"Cannot serve on port {served.server_port}: Address already in use\. Give"):
        Server(served.run, served.server_port)
