"""`lore check` finds no waste in assembled bodies.

All bodies of a session are one recording of plain requests. The replaced tail and the compaction have to be found in
their bytes. Changes that the session itself asked for remain findings.
"""

from __future__ import annotations

import json

import pytest

from cli.running import lore
from conftest import ROOT
from helpers.matrix import crossed
from lore.judge.policy import Budgets
from lore.model.jsonslice import raw_members
from lore.prompt.base import POLICIES
from lore.prompt.dialects import DIALECTS
from lore.recording.corpus import Name
from lore.recording.opening import Options
from lore.run.assembling import AssembledAll
from lore.run.checking.check import check

SESSIONS = sorted((ROOT / "fixtures" / "sessions").glob("*.jsonl"))
# The user of this session added a tool: the log records it, in bodies it is waste.
ASKED_FOR = {"changed_session": {"LORE103"}}
# These sessions are too short to be cached.
SHORT = {"LORE306"}


def written(path, dialect, tail):
    """Return the bodies of a session as they would be sent, one a line."""
    lines = AssembledAll(Name(str(path)), Options(dialect=dialect, policy=tail), full=True).lines()
    return b"".join(raw_members(line)["body"] + b"\n" for line in lines)


def judged(log, dialect, tail, folder):
    """Return the result of `lore check` on the bodies of a session."""
    recording = folder / "bodies.jsonl"
    recording.write_bytes(written(log, dialect, tail))
    return check([str(recording)], Budgets(), Options()).result


@crossed("path, dialect, tail", [(path.stem, path) for path in SESSIONS], DIALECTS, POLICIES)
def test_assembled_bodies_draw_no_waste(path, dialect, tail, tmp_path):
    stem, log = path
    result = judged(log, dialect, tail, tmp_path)
    assert result.summary.turns == result.summary.pairs + result.summary.chains
    assert not result.problems
    found = {one.code for one in result.findings if one.kind == "waste"}
    assert found == ASKED_FOR.get(stem, set()), [one.message for one in result.findings]
    assert {one.code for one in result.findings if one.kind == "unattributable"} <= SHORT
    assert result.summary.unattributable == 0


def test_tail_after_first_message_is_noted(tmp_path):
    result = judged(ROOT / "fixtures" / "sessions" / "plain.jsonl", "anthropic", "user", tmp_path)
    assert [one.turn for one in result.findings if one.code == "LORE156"] == list(range(2, result.summary.turns + 1))
    assert result.summary.breaks == 0


@pytest.mark.parametrize("tail", POLICIES)
def test_assembled_bodies_pass_check_command(tail, desk):
    log = str(ROOT / "fixtures" / "sessions" / "tool_loop.jsonl")
    made = lore("assemble", log, "--all", "--full", "--tail", tail).lines
    (desk / "bodies.jsonl").write_text("".join(json.dumps(one["body"]) + "\n" for one in made))
    ran = lore("check", "bodies.jsonl", "--json")
    assert (ran.code, ran.json["summary"]["waste"]) == (0, 0)
