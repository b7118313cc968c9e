"""Every command runs in an empty folder, without settings or colours from outside."""

import pytest

from lore.recording.agents.logs import AGENTS


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agents = {
        path[1:].partition("/")[0] for agent in AGENTS for logs in agent.logs for path in logs.paths if path[0] == "$"
    }
    others = "XDG_DATA_HOME XDG_CONFIG_HOME NO_COLOR FORCE_COLOR LORE_DEBUG COLUMNS CLAUDE_CONFIG_DIR CI"
    for name in (*agents, *others.split(), "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path
