"""A real browser for tests: Chromium without a window, driven by Playwright; tests skip where one of them is missing.

`LORE_CHROMIUM` names another program than the usual ones. A test waits for a state of its page, which stays once it is
there, never for an event, which may pass before it is waited for.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import NamedTuple

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60_000  # milliseconds, of a loaded machine


class Tab(NamedTuple):
    """A page; the addresses that it asked for and the lines of its console, which grow."""

    page: object
    requests: list[str]
    console: list[str]


@pytest.fixture(scope="module")
def browser():
    """Yield a browser. It lives no longer than a module's tests: its driver runs a loop in their thread."""
    program = os.environ.get("LORE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=2 * PATIENCE)
        yield made
        made.close()


@contextmanager
def opened(browser, address="about:blank", *, width=1100, dark=False, scripts=True):
    """Yield a tab that shows an address, with nothing kept of other tabs."""
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light", java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE)
    tab = Tab(context.new_page(), [], [])
    tab.page.on("request", lambda request: tab.requests.append(request.url))
    tab.page.on("console", lambda message: tab.console.append(message.text))
    tab.page.on("pageerror", lambda error: tab.console.append(str(error)))
    tab.page.goto(address)
    yield tab
    context.close()
