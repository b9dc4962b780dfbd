"""A page in a real browser, driven by its debugging protocol over two pipes: keys, console, requests, pictures."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER: Final = next((path for name in NAMES if (path := shutil.which(name))), None)
#: A key as the protocol wants it: its code, its virtual key code and the text that it writes.
KEYS: Final = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), " ": ("Space", 32, " ")}
_WATCHED: Final = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


class Tab:
    """One page: what it asks for and complains about is kept from the moment that it is opened."""

    def __init__(self, to: int, replies: int, target: str) -> None:
        self._to, self._replies, self._rest, self._last = to, replies, b"", 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something and wait for its answer; events that come first are kept."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._last:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return dict(found["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._replies, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        method, parameters = found.get("method"), found.get("params", {})
        if method in _WATCHED:
            self.problems.append(json.dumps(parameters)[:2000])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        self._loaded = self._loaded or method == "Page.loadEventFired"
        return found

    def open(
        self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = "screen"
    ) -> None:
        """Load a page in a window of this size, and wait until it is loaded."""
        self.problems.clear()
        self.requests.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._loaded = False
        self.call("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        while not self._loaded:
            self._next()

    def evaluate(self, expression: str) -> Any:
        """The value of a script's expression, awaited where it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key of `KEYS`."""
        code, number, text = KEYS[key]
        named = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def picture(self, file: Path) -> None:
        """What the window shows, as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def tab() -> Iterator[Tab]:
    """A browser with one empty page, ended with its profile at the end."""
    assert BROWSER is not None, f"none of {', '.join(NAMES)} is on PATH: install one"
    (from_here, to), (replies, from_browser) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="vtare-browser-", ignore_cleanup_errors=True) as profile:
        words = [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
            f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank",
        ]  # fmt: skip
        # The protocol's pipes are file descriptors 3 and 4.
        shell = ["bash", "-c", f'exec "$@" 3<&{from_here} 4>&{from_browser}', "bash", *words]
        process = subprocess.Popen(shell, pass_fds=(from_here, from_browser), stderr=subprocess.DEVNULL)
        os.close(from_here)
        os.close(from_browser)
        try:
            yield Tab(to, replies, _first_page(to, replies))
        finally:
            os.close(to)
            os.close(replies)
            process.terminate()
            process.wait(timeout=30)


def _first_page(to: int, replies: int) -> str:
    """The browser's one page; it is there a moment after the browser is."""
    for number in range(10_000, 10_200):
        os.write(to, json.dumps({"id": number, "method": "Target.getTargets"}).encode() + b"\0")
        rest = b""
        while not rest.endswith(b"\0"):
            rest += os.read(replies, 1 << 20)
        for target in json.loads(rest.split(b"\0")[0])["result"]["targetInfos"]:
            if target["type"] == "page":
                return str(target["targetId"])
    raise RuntimeError("the browser has no page")
