"""Every command runs in an empty folder, without settings or colours from outside."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "LORE_DEBUG", "COLUMNS", "CLAUDE_CONFIG_DIR", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path
