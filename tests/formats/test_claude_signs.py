"""Signs that Claude Code's logs show of the next request, besides its text."""

from __future__ import annotations

import json

import pytest

from formats.claude import answered, asked, joined, line, result, text
from lore.fold.step import Folding
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.state import LONGEST, MOST_NAMES, SIGNS, FoldedSession, Sign
from lore.testing import everything


def observed(*lines):
    reads = everything(ClaudeCode(), joined(*lines))
    assert not [read.value for read in reads if isinstance(read.value, Problem)]
    found = [read.value for read in reads if isinstance(read.value, e.Observed)]
    return [Sign(one.name, one.names, one.removed, one.before, one.after) for one in found]


def thinking(words="so"):
    return {"type": "thinking", "thinking": words, "signature": "s"}


ON = {"level": "high", "disabled": False, "triggers": []}
BARE = (asked("u1", "hi"), answered("a1", "r1", text("yes"), "u1"))
THOUGHT = (asked("u1", "hi"), answered("a1", "r1", thinking(), "u1"), answered("a2", "r1", text("yes"), "a1"))


@pytest.mark.parametrize(("before", "fields", "seen"), [
    (BARE, {"thinkingMetadata": ON}, True),
    (BARE, {"thinkingMetadata": {"maxThinkingTokens": 31999}}, True),
    (BARE, {"thinkingMetadata": {**ON, "disabled": True}}, False),
    (BARE, {"thinkingMetadata": {**ON, "level": "none"}}, False),
    (BARE, {"thinkingMetadata": {"maxThinkingTokens": 0}}, False),
    (BARE, {}, False),  # nothing says that thinking is on
    (THOUGHT, {"thinkingMetadata": ON}, False),
    ((*THOUGHT, asked("u2", "and", "a2"), answered("a3", "r2", text("no"), "u2")), {}, True),
    ((*THOUGHT, asked("u2", "and", "a2"), answered("a3", "r2", {"type": "redacted_thinking", "data": "x"}, "u2")), {},
     False),
    ((BARE[0],), {"thinkingMetadata": ON}, False),  # nobody answered yet
])  # fmt: skip
def test_answers_without_thinking_are_a_sign_at_the_next_prompt_where_thinking_is_on(before, fields, seen):
    found = observed(*before, asked("u9", "go on", before[-1]["uuid"], **fields))
    assert ("no-thinking" in [sign.name for sign in found]) == seen


def test_thinking_is_looked_for_since_the_last_prompt_and_an_interrupt_is_none():
    stop, more = (
        asked("u2", [text("[Request interrupted by user]")], "a1"),
        asked("u3", "on", "u2", thinkingMetadata=ON),
    )
    assert [sign.name for sign in observed(*BARE, stop, more)] == ["interrupt", "no-thinking"]
    assert [sign.name for sign in observed(*THOUGHT, stop, more)] == ["interrupt"]


def test_a_result_is_no_prompt():
    used = answered("a1", "r1", call("Bash", command="ls"), "u1")
    answer = asked("u2", [result("c1", "x")], "a1", thinkingMetadata=ON)
    assert observed(asked("u1", "hi"), used, answer) == []


def test_a_sign_has_the_version_of_the_client_that_showed_it():
    reads = everything(ClaudeCode(), joined(*FIRST, attached(type="deferred_tools_delta", addedNames=["x"])))
    old = [read.value.version for read in reads if isinstance(read.value, e.Observed)]
    more = line("attachment", "x1", "u1", attachment={"type": "deferred_tools_delta"}, version="2.1.119")
    reads = everything(ClaudeCode(), joined(*FIRST, more))
    assert (old, [read.value.version for read in reads if isinstance(read.value, e.Observed)]) == ([""], ["2.1.119"])


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
    assert [sign.name for sign in observed(*FIRST, more)] == [name]
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


def found(*blocks):
    return asked("u2", [result("c1", list(blocks))], "a1")


REFERENCE = {"type": "tool_reference", "tool_name": "WebSearch"}


@pytest.mark.parametrize(("more", "names"), [
    (found(REFERENCE, text("and"), {**REFERENCE, "tool_name": "mcp__context7__query-docs"}, REFERENCE),
     ("WebSearch", "mcp__context7__query-docs")),
    (asked("u2", "<command-message>x</command-message>\n<command-name>/gsd:plan</command-name>", "a1"),
     ("/gsd:plan",)),
    (answered("a2", "r2", call("Skill", skill="pdf", args="x" * 999), "a1"), ("pdf",)),
    (answered("a2", "r2", call("Skill", command="pdf"), "a1"), ("pdf",)),
    (attached(type="deferred_tools_delta", addedNames=["b", "a", "b"], addedLines=["b"], readdedNames=["c"],
              pendingMcpServers=[]), ("b", "a", "c")),
    (attached(type="mcp_instructions_delta", addedNames=["context7"], addedBlocks=["## context7"]), ("context7",)),
    (attached(type="hook_additional_context", hookName="PostToolUse:Bash", hookEvent="PostToolUse"),
     ("PostToolUse:Bash",)),
    (attached(type="hook_additional_context", hookEvent="Stop"), ("Stop",)),
])  # fmt: skip
def test_a_sign_names_what_its_line_names(more, names):
    assert [(sign.names, sign.removed) for sign in observed(*FIRST, more)] == [(names, ())]


@pytest.mark.parametrize(("more", "signs"), [
    (attached(type="deferred_tools_delta", addedNames=["a"], pendingMcpServers=["context7"]),
     [Sign("restart", ("pendingMcpServers",)), Sign("tools-delta", ("a",))]),
    (attached(type="deferred_tools_delta", addedNames=["a"], pendingMcpServers=[]), [Sign("tools-delta", ("a",))]),
    (attached(type="deferred_tools_delta", addedNames=["a"], pendingMcpServers=7), [Sign("tools-delta", ("a",))]),
    (asked("u2", "<command-name>/exit</command-name>", "a1"),
     [Sign("slash-command", ("/exit",)), Sign("restart", ("/exit",))]),
    (asked("u2", "<command-name>/exits</command-name>", "a1"), [Sign("slash-command", ("/exits",))]),
    (attached(type="hook_success", hookName="SessionStart:startup"), [Sign("restart", ("SessionStart:startup",))]),
    (attached(type="hook_success", hookName="SessionStart:compact"), []),
])  # fmt: skip
def test_a_process_that_began_anew_is_a_restart(more, signs):
    assert observed(*FIRST, more) == signs


@pytest.mark.parametrize("kind", ["deferred_tools_delta", "mcp_instructions_delta"])
def test_what_went_is_named_apart(kind):
    (sign,) = observed(*FIRST, attached(type=kind, addedNames=["a"], removedNames=["c", "b"]))
    assert (sign.names, sign.removed) == (("a",), ("c", "b"))


@pytest.mark.parametrize("more", [
    found(REFERENCE, {"type": 7}), found(REFERENCE, "text"), found({"type": "tool_reference"}),
    found({**REFERENCE, "tool_name": 7}), found({**REFERENCE, "tool_name": ""}),
    asked("u2", "<command-message>x</command-message>", "a1"),
    answered("a2", "r2", call("Skill"), "a1"), answered("a2", "r2", call("Skill", skill=[7]), "a1"),
    answered("a2", "r2", {**call("Skill"), "input": "pdf"}, "a1"),
    answered("a2", "r2", {**call("Skill"), "input": None}, "a1"),
    attached(type="deferred_tools_delta", addedNames=["a", 7], removedNames=None, readdedNames={"a": "b"}),
    attached(type="deferred_tools_delta"),
    attached(type="mcp_instructions_delta", addedNames=7), attached(type="mcp_instructions_delta", addedNames=[""]),
    attached(type="hook_additional_context", hookName=7, hookEvent=None),
])  # fmt: skip
def test_names_of_another_shape_are_none_and_the_sign_stays(more):
    (sign,) = observed(*FIRST, more)
    assert sign == Sign(sign.name)


@pytest.mark.parametrize(("fields", "names"), [
    ({"content": ["\ud83d"], "hookName": "Stop"}, ("Stop",)), ({"hookName": "\ud83d"}, ()),
])  # fmt: skip
def test_a_lone_surrogate_hides_no_sign(fields, names):
    made = json.dumps(attached(type="hook_additional_context", **fields)).encode()
    reads = everything(ClaudeCode(), joined(*FIRST) + made + b"\n")
    assert [one.value.names for one in reads if isinstance(one.value, e.Observed)] == [names]


def test_what_a_line_names_is_bounded():
    names = [f"{number:03}" + "x" * 100 for number in range(MOST_NAMES + 1)]
    (sign,) = observed(*FIRST, attached(type="deferred_tools_delta", addedNames=names, removedNames=names))
    assert sign.names == sign.removed == tuple(name[:LONGEST] for name in names[:MOST_NAMES])


@pytest.mark.parametrize(("field", "name"), [("version", "client-version"), ("effort", "effort")])
def test_a_standing_field_is_a_sign_where_it_changes_and_belongs_to_the_turn_that_it_was_said_of(field, name):
    first = [{**one, field: "1"} for one in FIRST]
    more = asked("u2", "on", "a1", **{field: "1"}), answered("a2", "r2", text("x"), "u2", **{field: "2"})
    assert observed(*first, more[0]) == []
    assert observed(*first, *more) == [Sign(name, before="1", after="2")]
    fold = Folding(FoldedSession())
    for read in everything(ClaudeCode(), joined(*first, *more)):
        fold.apply(read.value)
    version = "2" if field == "version" else ""
    assert fold.chain("main").turn.signs == (Sign(name, before="1", after="2", version=version),)


def test_another_permission_mode_is_a_sign():
    more = asked("u2", "on", "a1", permissionMode="auto"), asked("u3", "on", "u2", permissionMode="plan")
    assert observed(*FIRST, *more) == [Sign("permission-mode", before="auto", after="plan")]


def test_fields_of_other_types_are_no_problem():
    more = asked("u2", "on", "a1", version=7), answered("a2", "r2", text("x"), "u2", version=5, effort=None)
    assert observed(*FIRST[:1], {**FIRST[1], "version": {"a": 1}, "effort": [1]}, *more) == [
        Sign("client-version", before='{"a":1}', after="5")
    ]


def test_a_sign_is_one_record_of_lores_log():
    made = json.loads(e.encode(e.Observed(name="effort", before="low", after="high")))
    assert made == {"kind": "observed", "name": "effort", "before": "low", "after": "high"}
    made = json.loads(e.encode(e.Observed(name="tools-delta", names=("a", "b"), removed=("c",))))
    assert made == {"kind": "observed", "name": "tools-delta", "names": ["a", "b"], "removed": ["c"]}
