"""Pages are written in an empty folder, by a user who has nothing at home; a browser is started once."""

from __future__ import annotations

import pytest

from pages.browser import Browser, chromium


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "NO_COLOR", "FORCE_COLOR", "CLAUDE_CONFIG_DIR",
                 "LORE_DEBUG", "GITHUB_STEP_SUMMARY"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Yield a real browser; skips where there is none."""
    if chromium() is None:
        pytest.skip("no Chromium is installed")
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found
