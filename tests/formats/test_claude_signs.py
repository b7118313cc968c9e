"""Signs that Claude Code's logs show of the next request, besides its text."""

from __future__ import annotations

import json

import pytest

from formats.claude import answered, asked, joined, line, result, text
from lore.fold.step import Folding
from lore.formats.claude_code import ClaudeCode
from lore.formats.registry import READERS
from lore.model import events as e
from lore.model.problems import Problem
from lore.model.signs import SIGNS
from lore.model.state import Session
from lore.testing import everything


def observed(*lines):
    reads = everything(ClaudeCode(), joined(*lines))
    assert not [read.value for read in reads if isinstance(read.value, Problem)]
    return [(read.value.name, read.value.detail) for read in reads if isinstance(read.value, e.Observed)]


def call(name, **given):
    return {"type": "tool_use", "id": "c1", "name": name, "input": given}


def attached(**fields):
    return line("attachment", "x1", "u1", attachment=fields)


FIRST = (asked("u1", "hi"), answered("a1", "r1", text("yes"), "u1"))


@pytest.mark.parametrize(("more", "name"), [
    (asked("u2", [result("c1", [{"type": "tool_reference", "tool_name": "x"}])], "a1"), "tool-reference"),
    (asked("u2", [result("c1", [{"type": "image", "source": {}}])], "a1"), "image"),
    (asked("u2", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}], "a1"),
     "image"),
    (asked("u2", "<command-name>/clear</command-name>", "a1"), "slash-command"),
    (asked("u2", [text("[Request interrupted by user]")], "a1"), "interrupt"),
    (answered("a2", "r2", call("Skill", skill="x"), "a1"), "skill"),
    (answered("a2", "z", text("API Error"), "a1", model="<synthetic>", isApiErrorMessage=True), "api-error"),
    (line("system", "s1", "a1", subtype="api_error"), "api-error"),
    (line("system", "s1", "a1", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": []}),
     "micro-compaction"),
    (attached(type="deferred_tools_delta", addedNames=["x"]), "tools-delta"),
    (attached(type="mcp_instructions_delta"), "instructions-delta"),
    (attached(type="hook_additional_context", hookName="PostToolUse:Bash"), "hook-context"),
    (attached(type="hook_success", hookName="SessionStart:resume"), "resume"),
    (line("progress", "p1", "a1", data={"type": "hook_progress", "hookName": "SessionStart:resume"}), "resume"),
])  # fmt: skip
def test_a_line_shows_its_sign(more, name):
    assert [one for one, _ in observed(*FIRST, more)] == [name]
    assert name in SIGNS


@pytest.mark.parametrize("more", [
    asked("u2", [result("c1", "tool_reference")], "a1"),
    asked("u2", "git commit <command-name>", "a1"),
    answered("a2", "r2", call("Bash", command="skill"), "a1"),
    answered("a2", "r2", call("Edit", file_path="/p/readme.md"), "a1"),
    answered("a2", "z", text("No response requested."), "a1", model="<synthetic>"),
    line("system", "s1", "a1", subtype="stop_hook_summary"),
    attached(type="date_change"), attached(type="skill_listing"), attached(type=7), attached(type=None, hookName=[1]),
    line("attachment", "x1", "a1", attachment="text"), line("attachment", "x1", "a1"),
    line("progress", "p1", "a1", data={"hookName": "Stop"}),
])  # fmt: skip
def test_what_is_none_shows_nothing(more):
    assert observed(*FIRST, more) == []


@pytest.mark.parametrize(("field", "name"), [("version", "client-version"), ("effort", "effort")])
def test_a_standing_field_is_a_sign_where_it_changes_and_belongs_to_the_turn_that_it_was_said_of(field, name):
    first = [{**one, field: "1"} for one in FIRST]
    more = asked("u2", "on", "a1", **{field: "1"}), answered("a2", "r2", text("x"), "u2", **{field: "2"})
    assert observed(*first, more[0]) == []
    assert observed(*first, *more) == [(name, "from 1 to 2")]
    fold = Folding(Session())
    for read in everything(ClaudeCode(), joined(*first, *more)):
        fold.apply(read.value)
    assert [(sign.name, sign.detail) for sign in fold.chain("main").turn.signs] == [(name, "from 1 to 2")]


def test_another_permission_mode_is_a_sign():
    more = asked("u2", "on", "a1", permissionMode="auto"), asked("u3", "on", "u2", permissionMode="plan")
    assert observed(*FIRST, *more) == [("permission-mode", "from auto to plan")]


def test_fields_of_other_types_are_no_problem():
    more = asked("u2", "on", "a1", version=7), answered("a2", "r2", text("x"), "u2", version=5, effort=None)
    assert observed(*FIRST[:1], {**FIRST[1], "version": {"a": 1}, "effort": [1]}, *more) == [
        ("client-version", 'from {"a":1} to 5')
    ]


def test_signs_stay_where_they_were_seen_when_the_reader_is_saved_between_lines():
    first = [{**one, "version": "1"} for one in FIRST]
    data = joined(*first, asked("u2", "on", "a1"), answered("a2", "r2", text("x"), "u2", version="2"))
    whole = [read.value for read in everything(ClaudeCode(), data)]
    cut = data.index(b'"u2"')
    reader = ClaudeCode()
    reads = reader.feed(data[:cut])
    reader = READERS["claude-code"].restore(reader.state)
    reads += [*reader.feed(data[cut:]), *reader.finish()]
    assert [read.value for read in reads] == whole
    assert any(isinstance(one, e.Observed) for one in whole)


def test_a_sign_is_one_record_of_lores_log():
    made = json.loads(e.encode(e.Observed(name="effort", detail="from low to high")))
    assert made == {"kind": "observed", "name": "effort", "detail": "from low to high"}
