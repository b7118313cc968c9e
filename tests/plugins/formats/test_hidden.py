"""Without the plug-in: an error names the missing plug-in, and no file is read in another format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import process, put
from plugins.formats import flue, kimi_session, openfang, openhands
from plugins.formats.test_mini_swe_agent import RUN, TEXT
from plugins.formats.test_openfang import AS_BLOCKS
from plugins.formats.test_swe_agent import OLD, WHOLE

CORE_ONLY = str(Path(__file__).parents[2] / "support" / "core_only")
FILES = {
    "flue.json": flue.DOCUMENT, "flue.jsonl": flue.LINES, "openfang.jsonl": openfang.LINES, "blocks.jsonl": AS_BLOCKS,
    "mini.traj.json": RUN, "mini-text.traj.json": TEXT, "swe.traj": WHOLE, "swe-old.traj": OLD,
    "kimi-wire.jsonl": kimi_session.lines(kimi_session.plain().wire),
    "kimi-context.jsonl": kimi_session.lines(kimi_session.plain().context),
}  # fmt: skip
FOLDERS = {"kimi": kimi_session.plain().files(), "hands": openhands.plain().files()}


@pytest.fixture
def names():
    for folder, files in FOLDERS.items():
        for name, data in files.items():
            put(f"{folder}/{name}", data)
    return [*(put(name, data) for name, data in FILES.items()), *FOLDERS]


def test_file_of_a_missing_plugin_is_named(names):
    code = "import sys; from lore.commands.main import main; [main(['fold', name]) for name in sys.argv[1:]]"
    done = subprocess.run(
        [sys.executable, "-c", code, *names],
        env={**os.environ, "PYTHONPATH": CORE_ONLY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    for name in names:
        assert f"error: {name} (" in done.stderr
    assert done.stderr.count("needs lore's plug-in 'formats', which this installation lacks") == len(names)


def test_format_of_a_missing_plugin_is_named():
    ran = process(
        "fold", put("a.jsonl", openfang.LINES), "--format", "openfang", env={**os.environ, "PYTHONPATH": CORE_ONLY}
    )
    assert (ran.code, "the format openfang needs lore's plug-in 'formats'" in ran.err) == (2, True)


def test_sessions_names_the_missing_plugin():
    put("home/.openhands/conversations/c-1/base_state.json", b"{}")
    ran = process("sessions", env={**os.environ, "PYTHONPATH": CORE_ONLY})
    assert "not read: OpenHands" in ran.out
    assert "its reader needs lore's plug-in 'formats'" in ran.out
