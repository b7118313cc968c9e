"""Without the plug-in: an error names the missing plug-in."""

import os
from pathlib import Path

from cli.running import process, put
from plugins.formats import openfang

CORE_ONLY = str(Path(__file__).parents[2] / "support" / "core_only")


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
