"""A real browser for tests: Chromium without a window, driven by its DevTools protocol over a pipe.

No package is needed for it, and no port is opened (bash gives the pipe its numbers). Every request that a page makes
and every line of its console is kept. `LORE_CHROMIUM` names another program than the usual ones.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 30.0  # seconds for one answer


def chromium() -> str | None:
    """Return the path of a browser; None where there is none."""
    wanted = os.environ.get("LORE_CHROMIUM")
    return wanted or next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of one browser. Use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        program = chromium()
        assert program is not None
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
            "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", program, *options],
            pass_fds=(to_browser, from_browser), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._pending, self._number, self._session = b"", 0, None
        self.events: list[dict] = []
        self.requests: list[str] = []
        self.console: list[str] = []

    def __enter__(self) -> Self:
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **params: object) -> dict:
        """Call a method and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while (answer := self._next(end)).get("id") != self._number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self, end: float) -> dict:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has ended"
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\0")
        message = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith("data:image/png") and not url.startswith("about:"):  # the browser's own controls
                    self.requests.append(url)
            case "Log.entryAdded":
                self.console.append(params["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.console.append(str(params["args"]))
            case "Runtime.exceptionThrown":
                self.console.append(params["exceptionDetails"]["text"])
            case None:
                return
            case name:
                self.events.append({"method": name, **params})

    def open(self, path: Path, *, fragment: str = "", width: int = 1100, dark: bool = False, scripts: bool = True):
        """Open a file and wait until it is there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        for url in ("about:blank", path.absolute().as_uri() + fragment):
            for noted in (self.requests, self.console, self.events):
                noted.clear()
            self.call("Page.navigate", url=url)
            self.wait("Page.loadEventFired")

    def wait(self, event: str) -> None:
        """Wait until something has happened since events were cleared."""
        end = time.monotonic() + PATIENCE
        while not any(each["method"] == event for each in self.events):
            self._next(end)

    def value(self, expression: str):
        """Return what an expression comes to, as JSON."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=codes[key], **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes[key])

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Move or press the mouse: `mousePressed`, `mouseMoved`, `mouseReleased`."""
        held = {"button": "left", "clickCount": 1, "buttons": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def click(self, selector: str) -> None:
        """Click on the middle of an element."""
        box = self.value(
            f"(()=>{{const e=document.querySelector({json.dumps(selector)});e.scrollIntoView({{block:'center'}});"
            "const b=e.getBoundingClientRect();return [b.x+b.width/2,b.y+b.height/2]})()"
        )
        self.mouse("mousePressed", *box)
        self.mouse("mouseReleased", *box)

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        made = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(made["data"]))
