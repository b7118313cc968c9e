"""Pages are written in an empty folder, by a user who has nothing at home."""

import pytest


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "NO_COLOR", "FORCE_COLOR", "CLAUDE_CONFIG_DIR",
                 "LORE_DEBUG", "GITHUB_STEP_SUMMARY"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path
