"""Chromium driven through chromedriver, by the W3C WebDriver metric over HTTP: what no test needs a package for."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
MISSING = "there is no Chromium with chromedriver to look with"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--force-prefers-reduced-motion",
)


class Browser:
    """One headless browser; `with Browser() as browser` ends it and its driver."""

    def __init__(self) -> None:
        self.driver = subprocess.Popen([str(DRIVER), "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout is not None
        lines = iter(self.driver.stdout.readline, "")
        port = next(m[1] for line in lines if (m := re.search(r"successfully on port (\d+)", line)))
        self.address = f"http://127.0.0.1:{port}"
        wanted = {
            "goog:chromeOptions": {"binary": CHROMIUM, "args": [*FLAGS]},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.address += f"/session/{made['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            assert self.driver.stdout is not None
            self.driver.stdout.close()

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(content or {}).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def command(self, name: str, **options: Any) -> Any:
        """A command of the DevTools metric."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": name, "params": options})

    def resize(self, width: int, height: int = 900, dark: bool = False) -> None:
        """A screen of that size, light or dark; a narrow one is a phone."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        self._call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; its arguments are in `arguments`."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, seconds: float = 10.0) -> Any:
        """What a script returns as soon as that is true."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"this did not become true: {script}"
            time.sleep(0.02)
        return value

    def find(self, selector: str) -> str:
        return self._call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        """Click as a person does: what cannot be seen or is covered cannot be clicked."""
        self._call("POST", f"/element/{self.find(selector)}/click")

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is; `\\ue00c` and its like are special keys."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Move the mouse from one place of the window to another with its button held."""
        move = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 20} for x, y in (start, end)]
        actions = [move[0], {"type": "pointerDown", "button": 0}, move[1], {"type": "pointerUp", "button": 0}]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        self._call("POST", "/actions", {"actions": [mouse]})

    def text(self, selector: str) -> str:
        return self._call("GET", f"/element/{self.find(selector)}/text")

    def errors(self) -> list[str]:
        """What the console said that is a warning or worse, since the last time."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the last time."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        messages = (json.loads(entry["message"])["message"] for entry in entries)
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def screenshot(self, file: Path, whole: bool = False) -> None:
        picture = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(picture))
