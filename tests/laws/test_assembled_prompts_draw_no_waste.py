"""What lore assembles, lore does not blame: its prompts as plain bodies, without a word of where they come from.

The bodies of all turns of a session in one recording, as a provider was sent them: a tail is found to be replaced, a
compaction by its summary. What the session itself did to its prefix stays what it is.
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
# The user of this session gave it another tool when it had begun: the log says so, bodies show it as what it costs.
ASKED_FOR = {"changed_session": {"LORE103"}}
# These sessions are so short that no cache holds their prompts.
SHORT = {"LORE306"}


def written(path, dialect, tail):
    """The bodies of a session, one a line, each as it would be sent."""
    lines = AssembledAll(Name(str(path)), Options(dialect=dialect, policy=tail), full=True).lines()
    return b"".join(raw_members(line)["body"] + b"\n" for line in lines)


def judged(log, dialect, tail, folder):
    """What `lore check` says of the bodies of a session."""
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


def test_a_tail_behind_the_first_message_is_found(tmp_path):
    """Each tail of a session is a remark of its own: none of them breaks a cache."""
    result = judged(ROOT / "fixtures" / "sessions" / "plain.jsonl", "anthropic", "user", tmp_path)
    assert [one.turn for one in result.findings if one.code == "LORE156"] == list(range(2, result.summary.turns + 1))
    assert result.summary.breaks == 0


@pytest.mark.parametrize("tail", POLICIES)
def test_the_commands_themselves_do_it(tail, desk):
    log = str(ROOT / "fixtures" / "sessions" / "tool_loop.jsonl")
    made = lore("assemble", log, "--all", "--full", "--tail", tail).lines
    (desk / "bodies.jsonl").write_text("".join(json.dumps(one["body"]) + "\n" for one in made))
    ran = lore("check", "bodies.jsonl", "--json")
    assert (ran.code, ran.json["summary"]["waste"]) == (0, 0)
