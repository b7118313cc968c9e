"""`lore formats` agrees with the guide and with real recordings."""

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import astuple

from cli.running import lore
from lore.formats.registry import FORMATS, READERS, formats
from lore.model.items import is_absent
from lore.recording.base import UnrecognisedError
from lore.recording.opening import Options

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("LORE_CORPUS") or ROOT.parent / "shared" / "corpus")


def test_every_format_has_title_and_fidelity():
    rows = [row for row in formats() if row.name in FORMATS]
    assert {row.name for row in rows} == FORMATS.keys()
    assert all(row.title and row.fidelity for row in rows)
    assert not [row.name for row in rows if "unknown" in astuple(FORMATS[row.name])]


def test_formats_of_common_agents_come_first():
    listed = [row["name"] for row in lore("formats", "--json").json["formats"]]
    assert [name for name in listed if not name.startswith("gemini-cli-")][:5] == [
        "claude-code", "codex", "copilot", "gemini-cli", "opencode",
    ]  # fmt: skip


def test_guide_lists_same_fidelity():
    table = re.findall(
        r"^\| (`[a-z`, -]+`) \| .* \| ([^|]+) \|$",
        (ROOT / "src/lore/guide/formats.md").read_text("utf-8"),
        re.MULTILINE,
    )
    fidelities = defaultdict(str)
    for names, fidelity in table:
        for name in re.findall(r"`([a-z-]+)`", names):
            fidelities[name] += fidelity
    for row in formats():
        assert row.fidelity in fidelities[row.name], row.name


def test_formats_json_names_agents():
    answer = lore("formats", "--json").json
    agents = {row["name"]: row["agents"] for row in answer["formats"]}
    assert (agents["codex"], agents["pi"], agents["har"]) == (["codex"], ["pi", "openclaw", "oh-my-pi"], [])
    assert {row["agent"] for row in answer["unread"]} >= {"cursor", "zed", "goose", "crush", "amp", "droid", "grok"}


def test_formats_lists_format_of_plug_in(monkeypatch):
    class Plugged(READERS["codex"]):
        """Somebody's log.

        More of it.
        """

        name = "plugged"
        unseen = "the weather"

    monkeypatch.setitem(READERS, "plugged", Plugged)
    (row,) = (row for row in lore("formats", "--json").json["formats"] if row["name"] == "plugged")
    assert (row["title"], row["lacks"], row["bills"]) == ("Somebody's log", "the weather", "unknown")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no real recordings (LORE_CORPUS)")
def test_real_recordings_match_format_table():
    """A part marked "no" appears in no file; a part marked "yes" appears in at least one."""
    by_format: dict[str, set[str]] = defaultdict(set)
    for path in sorted(CORPUS.glob("*/*")):
        if not path.is_file() or path.stat().st_size > 4_000_000:
            continue
        try:
            recording = Options().open(str(path))
        except UnrecognisedError:
            continue
        if not recording.events:
            continue
        facts = by_format[recording.reader.name]
        facts.add("read")
        for turn in recording.turns():
            facts.add("requests")
            facts.update(["bills"] if turn.usage is not None else [])
        chains = recording.state.chains.values()
        facts.update(["system_prompt"] if any(not is_absent(chain.system) for chain in chains) else [])
        facts.update(["tools"] if any(chain.tools for chain in chains) else [])
        facts.update(["compaction"] if recording.boundaries else [])
    for name, facts in by_format.items():
        row = FORMATS[name]
        assert "requests" in facts, name
        for what in ("bills", "system_prompt", "tools", "compaction"):
            if getattr(row, what) == "no":
                assert what not in facts, (name, what)
        for what in ("bills", "system_prompt"):
            if getattr(row, what) == "yes":
                assert what in facts, (name, what)
    assert {"claude-code", "codex"} <= by_format.keys()
