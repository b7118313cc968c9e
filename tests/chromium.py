"""A real browser for tests: Chromium without a window, driven by Playwright; tests skip if either is missing.

`LORE_CHROMIUM` names another program than the usual ones. A test waits for a state of its page, which stays once it is
there, never for an event, which may pass before it is waited for.
"""

import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60_000  # milliseconds, of a loaded machine


class Tab(NamedTuple):
    """A page; the addresses that it asked for and the lines of its console, which grow."""

    page: Any
    requests: list[str]
    console: list[str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Yield a browser. It lives no longer than a module's tests: its driver runs a loop in their thread."""
    program = os.environ.get("LORE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"], timeout=2 * PATIENCE
        )
        yield made
        made.close()


@contextmanager
def opened(browser: Any, address: str = "about:blank", *, width: int = 1100, scripts: bool = True) -> Generator[Tab]:
    """Yield a tab that shows an address, with nothing kept of other tabs."""
    context = browser.new_context(viewport={"width": width, "height": 800}, java_script_enabled=scripts)
    context.set_default_timeout(PATIENCE)
    tab = Tab(context.new_page(), [], [])

    def requested(request: Any) -> None:
        tab.requests.append(request.url)

    def printed(message: Any) -> None:
        tab.console.append(message.text)

    def failed(error: Any) -> None:
        tab.console.append(str(error))

    tab.page.on("request", requested)
    tab.page.on("console", printed)
    tab.page.on("pageerror", failed)
    tab.page.goto(address)
    yield tab
    context.close()
