"""The page of `lore memory` in a real browser: seen, used by keyboard, wiped, attacked by another page."""

import http.client
import http.server
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from chromium import opened
from plugins.memory.test_page import WORDS, known_texts, remembered  # noqa: F401 - a fixture  # pyright: ignore[reportUnusedImport]

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def served(remembered: Path) -> Iterator[str]:  # noqa: F811
    """The address of a running `lore memory page`, and its process, which ends as by Ctrl-C."""
    command = [sys.executable, "-m", "lore", "memory", "page", "--store", "sqlite:s.db"]
    with (
        pytest.MonkeyPatch.context() as patch,
        subprocess.Popen(command, cwd=remembered.parent, stdout=PIPE, stderr=PIPE, text=True) as process,
    ):
        patch.chdir(remembered.parent)
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "Open it in a browser on this computer. Ctrl-C ends it.\n"


@pytest.fixture(autouse=True)
def beside_the_store(remembered: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Run each test in the folder of the store that is served, with its settings."""
    monkeypatch.chdir(remembered.parent)


@pytest.fixture
def tab(browser: Any, served: str) -> Iterator[Any]:
    """A new page; its console stays empty, and it sends no request to another host."""
    with opened(browser, width=900) as browser_tab:
        yield browser_tab.page
    assert browser_tab.console == []
    assert all(url.startswith((served, "data:", "about:")) for url in browser_tab.requests), browser_tab.requests


def test_printed_address_answers(served: str) -> None:
    """The fixture `served` asserts that Ctrl-C ends it."""
    match = re.fullmatch(r"http://(127\.0\.0\.1:\d+)(/[\w-]{43}/)", served)
    assert match is not None
    for path, status in ((match[2], 200), ("/", 404), (f"{match[2]}user?user=ann", 200)):
        connection = http.client.HTTPConnection(match[1], timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("server")) == (status, None)
        answer.read()
        connection.close()


def test_page_fits_any_width_and_scheme(tab: Any, served: str) -> None:
    tab.goto(served)
    assert tab.title() == "Memory · lore"
    tab.get_by_role("link", name="ann", exact=True).click()
    assert tab.get_by_role("heading", level=1).inner_text() == "User ann"
    assert tab.get_by_text("My editor is <script>alert(1)</script>.", exact=True).is_visible()
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    for width in (375, 900):
        tab.set_viewport_size({"width": width, "height": 700})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_keyboard_reaches_every_control(tab: Any, served: str) -> None:
    tab.goto(served + "user?user=ann")
    elements: set[str] = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        elements.add(tab.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    assert {tag for html in elements for tag in re.findall(r"^<(\w+)", html)} >= {"a", "summary"}
    tab.get_by_text("How the user wants things done").focus()
    tab.keyboard.press("Enter")
    assert tab.get_by_text("- I prefer tabs over spaces.").is_visible()


class Attacker(http.server.BaseHTTPRequestHandler):
    """A page of another origin that knows the address: frames it, reads it, and posts to it when clicked."""

    target = ""

    def do_GET(self) -> None:  # noqa: N802
        page = f"""<iframe src="{self.target}"></iframe>
            <form method="post" action="{self.target}wipe"><input name="user" value="ann"><button>Win</button></form>
            <script>
                fetch("{self.target}").then(() => document.title = "read", () => document.title = "refused")
            </script>"""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def test_other_origins_cannot_read_frame_or_wipe(browser: Any, served: str) -> None:
    """The form navigates the whole page, since the browser may report no answer for a frame."""
    Attacker.target = served
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Attacker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with opened(browser, f"http://localhost:{server.server_port}/") as browser_tab:
            page = browser_tab.page
            page.wait_for_function("document.title != ''")
            assert page.title() == "refused"
            assert all("Memory, by user" not in frame.content() for frame in page.frames)
            with page.expect_navigation() as posted:
                page.get_by_role("button").click()
            assert (posted.value.request.method, posted.value.status) == ("POST", 403)
        server.shutdown()
    assert known_texts()
