"""Debian's Chromium without a window, by the DevTools protocol over two pipes: no package is needed for it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import ENOUGH

PROGRAM = shutil.which("chromium")
_ANSWER_SECONDS = ENOUGH


class Browser:
    """One page of one browser; `events` are what it reported."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = write, read
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def open(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command's answer; what else comes meanwhile is kept in `events`."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found
            self.events.append(answer)
        raise AssertionError(f"{method} was not answered")

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError("the browser says nothing")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise AssertionError("the browser has ended")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def visit(self, address: str) -> float:
        """Goes there and waits until the page's script has run; gives the seconds that this took."""
        self.events.clear()
        started = time.monotonic()
        self.call("Page.navigate", url=address)
        self.wait("document.documentElement?.dataset.ready === 'true'")
        return time.monotonic() - started

    def run(self, script: str) -> Any:
        """The value of an expression, or of a promise."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, condition: str, *, seconds: float = _ANSWER_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < deadline, condition
            time.sleep(0.02)

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def look(self, *, width: int, height: int = 900, scheme: str = "light") -> None:
        """How wide the window is, and which colours its user likes."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and what the page's policy refused."""
        self.run("1")  # what was on its way has come
        found = []
        for event in self.events:
            method, told = event.get("method", ""), event.get("params", {})
            if method == "Runtime.exceptionThrown" or (
                method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert")
            ):
                found.append(json.dumps(told)[:500])
            if method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """The addresses that were asked for, but for data that the page itself holds."""
        self.run("1")
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith("data:")]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser of its own, with its profile in `folder`; it ends with the block."""
    assert PROGRAM is not None
    to_browser, from_browser = os.pipe(), os.pipe()
    ends = (to_browser[0], from_browser[1])

    def connect() -> None:
        # The protocol's pipes have fixed numbers; ours may be these very ones.
        kept = [os.dup(end) for end in ends]
        kept = [os.dup(end) for end in kept]
        os.dup2(kept[0], 3)
        os.dup2(kept[1], 4)

    words = ["--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-first-run"]
    words += ["--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]
    process = subprocess.Popen(
        [PROGRAM, *words], preexec_fn=connect, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for end in ends:
        os.close(end)
    try:
        page = Browser(to_browser[1], from_browser[0])
        page.open()
        yield page
    finally:
        os.close(to_browser[1])
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_browser[0])
