"""Chromium without a window, driven over its DevTools pipe: JSON texts that end with a null byte."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["Tab", "browser", "chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
_WITH_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""  # the browser reads what is asked from 3, and answers to 4
_WAIT = """new Promise((found, lost) => {
  const end = performance.now() + SECONDS * 1000;
  const look = () => { let value; try { value = (EXPRESSION); } catch { value = null; }
    if (value) found(value); else if (performance.now() > end) lost(new Error("timeout")); else setTimeout(look, 50); };
  look();
})"""


class Tab:
    """A page in the browser."""

    def __init__(self, ask: int, hear: int) -> None:
        self._ask, self._hear = ask, hear
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = ""

    def open(self, url: str = "about:blank", width: int = 1200, height: int = 1400) -> None:
        """Open a page; a second call leaves the first page."""
        if not self._session:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.call("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives. Raises AssertionError where it throws."""
        told = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, (expression, told["exceptionDetails"], self._text())
        return told["result"].get("value")

    def wait(self, expression: str, seconds: float = 40.0) -> Any:
        """Wait until a JavaScript expression is true, and return it."""
        return self.value(_WAIT.replace("EXPRESSION", expression).replace("SECONDS", str(seconds)))

    def press(self, key: str) -> None:
        """Press a key on what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" and len(key) == 1 else ""
            )

    def drag(self, from_: tuple[float, float], to: tuple[float, float]) -> None:
        """Press the mouse at one place and release it at another."""
        for kind, (x, y) in (("mousePressed", from_), ("mouseMoved", to), ("mouseReleased", to)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def picture(self, path: Path) -> None:
        """Write what is shown as a PNG."""
        path.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next()
            if told.get("id") == number:
                assert "error" not in told, (method, told["error"])
                result: dict[str, Any] = told["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._hear, 1 << 16)
            assert piece, "the browser has ended"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(text)
        return told

    def _text(self) -> str:
        told = self.call("Runtime.evaluate", expression="document.body.innerText.slice(0, 1500)")
        return str(told["result"].get("value"))


def chromium() -> str:
    """Return where Chromium is, or an empty text."""
    return next((found for name in _NAMES if (found := shutil.which(name))), "")


@contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """Start Chromium with a profile in ``folder``."""
    program = chromium()
    (ask_here, ask), (hear, hear_here) = os.pipe()[::-1], os.pipe()
    command = [program, *_FLAGS.split(), f"--user-data-dir={folder / 'profile'}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-c", _WITH_PIPES, str(ask), str(hear_here), *command],
        pass_fds=(ask, hear_here),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ask)
    os.close(hear_here)
    try:
        yield Tab(ask_here, hear)
    finally:
        os.close(ask_here)  # the browser ends with its pipe
        os.close(hear)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
