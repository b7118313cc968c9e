"""Signals in Claude Code's logs: attachments, commands, images, settings, thinking."""

from __future__ import annotations

import json

import pytest

from formats.claude import answered, asked, counts, folded, line, log_bytes, read, result, text
from helpers.each import each
from lore.formats.claude.reader import ClaudeCode
from lore.model import events as e
from lore.model.codes import Problem
from lore.model.state import LONGEST, MOST_NAMES, SIGNS, Sign
from lore.run.checking.check import check
from lore.testing import everything


def observed(*lines):
    values = read(*lines)
    assert not [value for value in values if isinstance(value, Problem)]
    events = [value for value in values if isinstance(value, e.Observed)]
    return [Sign(event.name, event.names, event.removed, event.before, event.after) for event in events]


def call(name, **arguments):
    return {"type": "tool_use", "id": "c1", "name": name, "input": arguments}


def attached(**fields):
    return line("attachment", "x1", "u1", attachment=fields)


def tool_result(*blocks):
    return asked("u2", [result("c1", list(blocks))], "a1")


def thinking():
    return {"type": "thinking", "thinking": "so", "signature": "s"}


PREVIEWED = attached(
    type="hook_additional_context", hookName="PostToolUse:Edit",
    content=["C:\\" + "a" * 200 + "\\page.html is now visible in the Browser pane."],
)  # fmt: skip
ON = {"level": "high", "disabled": False, "triggers": []}
FIRST = (asked("u1", "hi"), answered("a1", "r1", text("yes"), "u1"))
THOUGHT = (asked("u1", "hi"), answered("a1", "r1", thinking(), "u1"), answered("a2", "r1", text("yes"), "a1"))
NOTICE = "<task-notification>It was running when the previous Claude Code process exited."
REFERENCE = {"type": "tool_reference", "tool_name": "WebSearch"}


@each("before, fields, expected", [
    (FIRST, {"thinkingMetadata": ON}, True),
    (FIRST, {"thinkingMetadata": {"maxThinkingTokens": 31999}}, True),
    (FIRST, {"thinkingMetadata": {**ON, "disabled": True}}, False),
    (FIRST, {"thinkingMetadata": {**ON, "level": "none"}}, False),
    (FIRST, {"thinkingMetadata": {"maxThinkingTokens": 0}}, False),
    (FIRST, {}, False),  # nothing shows that thinking is on
    (THOUGHT, {"thinkingMetadata": ON}, False),
    ((*THOUGHT, asked("u2", "and", "a2"), answered("a3", "r2", text("no"), "u2")), {}, True),
    ((*THOUGHT, asked("u2", "and", "a2"), answered("a3", "r2", {"type": "redacted_thinking", "data": "x"}, "u2")), {},
     False),
    (FIRST[:1], {"thinkingMetadata": ON}, False),  # no answer so far
])  # fmt: skip
def test_prompt_after_answers_without_thinking_is_a_signal(before, fields, expected):
    signals = observed(*before, asked("u9", "go on", before[-1]["uuid"], **fields))
    assert ("no-thinking" in [signal.name for signal in signals]) == expected


@each("more, signals", [
    (tool_result(REFERENCE, text("and"), {**REFERENCE, "tool_name": "mcp__context7__query-docs"}, REFERENCE),
     [Sign("tool-reference", ("WebSearch", "mcp__context7__query-docs"))]),
    (tool_result({"type": "image", "source": {}}), [Sign("image")]),
    (asked("u2", [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}], "a1"),
     [Sign("image")]),
    (asked("u2", [text("[Request interrupted by user]")], "a1"), [Sign("interrupt")]),
    (asked("u2", "<command-message>x</command-message>\n<command-name>/gsd:plan</command-name>", "a1"),
     [Sign("slash-command", ("/gsd:plan",))]),
    (asked("u2", "<command-name>/exit</command-name>", "a1"),
     [Sign("slash-command", ("/exit",)), Sign("restart", ("/exit",))]),
    (answered("a2", "r2", call("Skill", skill="pdf", args="x" * 999), "a1"), [Sign("skill", ("pdf",))]),
    (answered("a2", "r2", call("Skill", command="pdf"), "a1"), [Sign("skill", ("pdf",))]),
    (answered("a2", "z", text("Timed out"), "a1", model="<synthetic>", isApiErrorMessage=True), [Sign("api-error")]),
    (answered("a2", "z", text("No response requested."), "a1", model="<synthetic>"),
     [Sign("restart", ("No response requested.",))]),
    (line("system", "s1", "a1", subtype="api_error"), [Sign("api-error")]),
    (asked("u2", "Continue from where you left off.", "a1", isMeta=True),
     [Sign("restart", ("Continue from where you left off.",))]),
    (asked("u2", "Continue from where you left off.", "a1"), []),
    (asked("u2", NOTICE, "a1"), [Sign("restart", ("<task-notification>",))]),
    (line("system", "s1", "a1", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": []}),
     [Sign("micro-compaction")]),
    (attached(type="deferred_tools_delta", addedNames=["b", "a", "b"], readdedNames=["c"], removedNames=["d"],
              pendingMcpServers=[]), [Sign("tools-delta", ("b", "a", "c"), ("d",))]),
    (attached(type="deferred_tools_delta", addedNames=["a"], pendingMcpServers=["context7"]),
     [Sign("restart", ("pendingMcpServers",)), Sign("tools-delta", ("a",))]),
    (attached(type="mcp_instructions_delta", addedNames=["context7"], removedNames=["c"]),
     [Sign("instructions-delta", ("context7",), ("c",))]),
    (attached(type="hook_additional_context", hookName="PreToolUse:Mcp"), [Sign("hook-context", ("PreToolUse:Mcp",))]),
    (attached(type="hook_additional_context", hookEvent="Stop", content=["index  is\nstale", "x" * 200]),
     [Sign("hook-context", ("Stop",), after="index is stale " + "x" * 104 + "…")]),
    (attached(type="hook_additional_context", hookEvent="Stop"), [Sign("hook-context", ("Stop",))]),
    (PREVIEWED, [Sign("hook-context", ("PostToolUse:Edit",), after="C:\\" + "a" * 116 + "…")]),
    (PREVIEWED | {"entrypoint": "claude-desktop"},
     [Sign("preview-context", ("PostToolUse:Edit",), after="page.html is now visible in the Browser pane.")]),
    (attached(type="hook_success", hookName="SessionStart:resume"), [Sign("resume")]),
    (attached(type="hook_success", hookName="SessionStart:startup"), [Sign("restart", ("SessionStart:startup",))]),
    (line("progress", "p1", "a1", data={"type": "hook_progress", "hookName": "SessionStart:resume"}), [Sign("resume")]),
])  # fmt: skip
def test_record_shows_its_signal(more, signals):
    assert observed(*FIRST, more) == signals
    assert {signal.name for signal in signals} <= set(SIGNS)


@each("records, signals", [
    ((asked("u2", [result("c1", "tool_reference")], "a1", thinkingMetadata=ON), line("attachment", "x1", "a1"),
      asked("u2", "git commit <command-name>", "a1"), answered("a2", "r2", call("Bash", command="skill"), "a1"),
      answered("a2", "z", text("Interrupted."), "a1", model="<synthetic>"),
      line("system", "s1", "a1", subtype="stop_hook_summary"), attached(type="date_change"), attached(type=7),
      attached(type=None, hookName=[1]), attached(type="hook_success", hookName="SessionStart:compact"),
      line("attachment", "x1", "a1", attachment="text"), line("progress", "p1", "a1", data={"hookName": "Stop"})), []),
    ((tool_result(REFERENCE, {"type": 7}), tool_result(REFERENCE, "text"), tool_result({"type": "tool_reference"}),
      tool_result({**REFERENCE, "tool_name": 7}), tool_result({**REFERENCE, "tool_name": ""})),
     [Sign("tool-reference")]),
    ((asked("u2", "<command-message>x</command-message>", "a1"),), [Sign("slash-command")]),
    ((answered("a2", "r2", call("Skill", skill=[7]), "a1"),
      answered("a2", "r2", {**call("Skill"), "input": "pdf"}, "a1")), [Sign("skill")]),
    ((attached(type="mcp_instructions_delta", addedNames=[""]),), [Sign("instructions-delta")]),
    ((attached(type="deferred_tools_delta", addedNames=["a", 7], removedNames=None, pendingMcpServers=7),),
     [Sign("tools-delta")]),
    ((attached(type="hook_additional_context", hookName=7, hookEvent=None),), [Sign("hook-context")]),
])  # fmt: skip
def test_other_or_malformed_record_shows_no_names(records, signals):
    for record in records:
        assert observed(*FIRST, record) == signals


@pytest.mark.parametrize(("before", "parent", "signals"), [
    (FIRST, "a1", [Sign("resume")]),
    ((*FIRST, tool_result({"type": "text", "text": "ok"})), "u2", []),  # it works, so nothing is resumed
])  # fmt: skip
def test_message_after_last_answer_resumes_subagent(before, parent, signals):
    text_of_main = "The coordinator sent a message while you were working:\nRun the tests, too."
    assert observed(*before, asked("u9", text_of_main, parent)) == signals


def test_resume_names_its_line(tmp_path):
    lines, last = [], None
    for number, cached in enumerate((0, 20_000, 0)):
        usage = counts(5, cached, 20_000 - cached, 9)
        at = {"timestamp": f"2026-07-25T17:0{number}:00.000Z", "version": "2.1.200"}
        lines += [attached(type="hook_success", hookName="SessionStart:resume")] if number == 2 else []
        lines += [asked(f"u{number}", "go on", last, **at),
                  answered(f"a{number}", f"msg_{number}", text("yes"), f"u{number}", usage=usage, **at)]  # fmt: skip
        last = f"a{number}"
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_bytes(*lines))
    (finding,) = [item for item in check([str(path)]).result.findings if item.lost_tokens]
    assert (finding.code, finding.line) == ("LORE123", 7)
    assert "the session was resumed (line 5 of the log)" in finding.message


@pytest.mark.parametrize(("fields", "names"), [
    ({"content": ["\ud83d"], "hookName": "Stop"}, ("Stop",)), ({"hookName": "\ud83d"}, ()),
])  # fmt: skip
def test_lone_surrogate_hides_no_signal(fields, names):
    data = json.dumps(attached(type="hook_additional_context", **fields)).encode()
    reads = everything(ClaudeCode(), log_bytes(*FIRST) + data + b"\n")
    assert [item.value.names for item in reads if isinstance(item.value, e.Observed)] == [names]


def test_names_of_a_signal_are_limited():
    names = [f"{number:03}" + "x" * 100 for number in range(MOST_NAMES + 1)]
    (signal,) = observed(*FIRST, attached(type="deferred_tools_delta", addedNames=names, removedNames=names))
    assert signal.names == signal.removed == tuple(name[:LONGEST] for name in names[:MOST_NAMES])


@pytest.mark.parametrize(("field", "name"), [("version", "client-version"), ("effort", "effort")])
def test_changed_setting_is_a_signal_of_its_turn(field, name):
    first = [{**line, field: "1"} for line in FIRST]
    more = asked("u2", "on", "a1", **{field: "1"}), answered("a2", "r2", text("x"), "u2", **{field: "2"})
    assert observed(*first, more[0]) == []
    version = "2" if field == "version" else ""
    signal = Sign(name, before="1", after="2", version=version)
    assert folded(*first, *more).state.main().turn.signs == (signal,)


SET = "<local-command-stdout>Set effort level to "


@pytest.mark.parametrize(("outputs", "field", "efforts"), [
    ((SET + "high (this session only): Deep",), None, [(("/effort high",), "", "")]),
    ((SET + "high: x", SET + "low: x"), None, [(("/effort high",), "", ""), ((), "high", "low")]),
    ((SET + "high: x", SET + "high: x"), None, [(("/effort high",), "", "")]),
    (("<local-command-stdout>Kept effort level as high",), None, []),
    (("Set effort level to high",), None, []),  # the user's words
    ((SET + "xhigh: x",), "high", []),  # answers state it themselves
])  # fmt: skip
def test_output_of_effort_command_is_a_signal(outputs, field, efforts):
    first = FIRST if field is None else [{**item, "effort": field} for item in FIRST]
    parents = ("a1", *(f"c{n}" for n in range(len(outputs))))
    commands = [asked(f"c{n}", output, parents[n]) for n, output in enumerate(outputs)]
    signals = [item for item in observed(*first, *commands) if item.name == "effort"]
    assert [(item.names, item.before, item.after) for item in signals] == efforts


STARTED = attached(type="hook_success", hookName="SessionStart:startup")
PENDING = attached(type="deferred_tools_delta", removedNames=["mcp__docs__find"], pendingMcpServers=["docs"])


@pytest.mark.parametrize(("records", "is_restart"), [
    ((*FIRST, PENDING), True),  # no log of this client shows when a process starts
    ((STARTED, *FIRST, PENDING), False),  # a process that starts is recorded, so a server dropped out
    ((line("progress", "p0", data={"hookName": "SessionStart:startup"}), *FIRST, PENDING), False),
    ((STARTED, *FIRST, attached(type="hook_success", hookName="SessionStart:clear"), PENDING), True),
])  # fmt: skip
def test_connecting_server_is_a_restart_without_start_hooks(records, is_restart):
    after = observed(*records)[records[0] == STARTED :]
    assert [signal.name for signal in after] == ["restart"] * is_restart + ["tools-delta"]


def written(kind, **fields):
    return {"type": kind, "sessionId": "s", **fields}


LAST, QUEUED = written("last-prompt", lastPrompt="hi"), written("queue-operation", operation="enqueue")
TAKEN = written("queue-operation", operation="dequeue")
TITLE, MODE = written("ai-title", aiTitle="Parser"), written("permission-mode", permissionMode="default")


@each("records, names", [
    ((LAST, TITLE, MODE, TITLE, MODE), ("titleAndMode",)), ((TITLE, MODE, TITLE, MODE, TITLE, MODE), ("titleAndMode",)),
    ((LAST, TITLE, MODE, LAST, TITLE, MODE), ()),  # with a prompt each
    ((LAST, TITLE, MODE, MODE), ()), ((LAST, TITLE, TITLE), ()),  # the user changed one of them
    ((TITLE, MODE, answered("a2", "r2", text("x"), "a1"), TITLE, MODE), ()),
])  # fmt: skip
def test_title_and_settings_written_again_are_a_restart(records, names):
    assert [signal.names for signal in observed(*FIRST, *records) if signal.name == "restart"] == [names] * bool(names)
    assert observed(*records, *FIRST) == []  # a file may begin with them


@each("records, client, is_restart", [
    ((LAST, QUEUED, TAKEN), "claude-desktop", True), ((LAST, TITLE, QUEUED, TAKEN), "claude-desktop", True),
    ((LAST, QUEUED, TAKEN), "cli", False), ((LAST,), "claude-desktop", False),
    ((QUEUED, LAST), "claude-desktop", False),
    ((LAST, TAKEN), "claude-desktop", False),  # it was queued while the process was running
    ((LAST, QUEUED, TAKEN, line("system", "s1", "a1", subtype="stop_hook_summary")), "claude-desktop", False),
    ((LAST, QUEUED, asked("u3", [result("c1", "done")], "a1", entrypoint="claude-desktop")), "claude-desktop", False),
])  # fmt: skip
def test_queued_prompt_after_exit_of_desktop_process_is_restart(records, client, is_restart):
    signals = observed(*FIRST, *records, asked("u2", "on", "a1", entrypoint=client))
    assert signals == [Sign("restart", ("last-prompt",))] * is_restart


def test_remote_control_is_a_signal_of_the_next_message():
    """It comes while an earlier request is answered, and brings tools."""
    connected = line("system", "s1", "a1", subtype="bridge_status")
    assert observed(*FIRST, connected, answered("a2", "r2", text("x"), "a1")) == []
    assert observed(*FIRST, connected, asked("u2", "on", "a1"), asked("u3", "!", "u2")) == [Sign("remote-control")]


def test_teammate_is_signalled_once_and_titles_its_session():
    team = {"teamName": "web", "agentName": "dev"}
    lines = [
        asked("u1", "hi", **team),
        answered("a1", "r1", text("yes"), "u1", **team),
        asked("u2", "on", "a1", **team),
    ]
    assert observed(*lines) == [Sign("teammate")]
    assert folded(*lines).state.title == "dev (teammate in web)"
    lead = {"teamName": "web"}
    assert observed(asked("u1", "hi", **lead), answered("a1", "r1", text("yes"), "u1", **lead)) == []


def test_tokens_left_uncached_show_switched_thinking():
    def turn(number, block, uncached):
        return answered(f"a{number}", f"r{number}", block, "u1", usage=counts(uncached, 900, 90, 5))

    on, off = Sign("thinking", before="on", after="off"), Sign("thinking", before="off", after="on")
    assert observed(FIRST[0], turn(1, thinking(), 10), turn(2, text("a"), 8), turn(3, text("b"), 3)) == [on]
    assert observed(FIRST[0], turn(1, thinking(), 8), turn(2, text("a"), 0), turn(3, thinking(), 10)) == [on, off]
    assert observed(FIRST[0], turn(1, text("a"), 2), turn(2, text("b"), 0), turn(3, thinking(), 10)) == [off]
    # this model leaves as much uncached either way, or nothing shows that thinking was on
    assert observed(FIRST[0], turn(1, thinking(), 2), turn(2, text("a"), 1), turn(3, thinking(), 3)) == []
    assert observed(FIRST[0], turn(1, text("a"), 10), turn(2, text("b"), 3)) == []
    assert observed(FIRST[0], turn(1, text("a"), 8), turn(2, thinking(), 10)) == []
    assert observed(FIRST[0], turn(1, text("a"), 2), turn(2, thinking(), 1_491)) == []
    assert observed(FIRST[0], turn(1, thinking(), 11_868), turn(2, text("a"), 2)) == []


THINKS, WRITES = thinking(), text("done")


@each("turns, version, switches", [
    # on for the prompt with a word, and off again at the next; the budget depends on the word
    ([("Fix it", WRITES), ("ULTRATHINK about it", THINKS), ("Commit", WRITES)], "1.0.64",
     [("off", "31,999 tokens"), ("31,999 tokens", "off")]),
    ([("Why?\nthink", THINKS), ("think hard", THINKS), ("think again", THINKS)], "1.0.64",
     [("4,000 tokens", "10,000 tokens"), ("10,000 tokens", "4,000 tokens")]),
    # the word has no effect, or all requests ask for thinking
    ([("Fix it", WRITES), ("megathink", WRITES), ("Commit", WRITES), ("rethinking", WRITES)], "1.0.64", []),
    ([("Fix it", THINKS), ("ultrathink", THINKS), ("Commit", WRITES)], "1.0.64", []),
    ([("Fix it", WRITES), ("ultrathink", THINKS)], "2.0.5", []),
    ([("Fix it", WRITES, {**ON, "level": "none"}), ("Again", THINKS, ON)], "2.0.5", [("off", "on")]),
])  # fmt: skip
def test_prompt_and_its_answer_show_switched_thinking(turns, version, switches):
    records = []
    for number, (prompt, block, *metadata) in enumerate(turns):
        fields = {"version": version} | ({"thinkingMetadata": metadata[0]} if metadata else {})
        records += [asked(f"u{number}", prompt, f"a{number - 1}" if number else None, **fields)]
        usage = counts(4, 900, 90, 5)
        records += [answered(f"a{number}", f"r{number}", block, f"u{number}", usage=usage, version=version)]
    signals = [(sign.before, sign.after) for sign in observed(*records) if sign.name == "thinking"]
    assert signals == switches


def test_refusal_is_the_reason_of_the_other_model(tmp_path):
    path, fable = tmp_path / "session.jsonl", {"model": "claude-fable-5", "usage": counts(2, 0, 30_000, 90)}
    fallback = line(
        "system", "s1", "u2", subtype="model_refusal_fallback", direction="retry", level="warning", trigger="refusal",
        originalModel="claude-fable-5[1m]", fallbackModel="claude-opus-4-8",
    )  # fmt: skip
    opus = {"model": "claude-opus-4-8", "usage": counts(2, 18_000, 13_000, 90)}
    path.write_bytes(log_bytes(
        asked("u1", "Scan the ports"), answered("a1", "r1", text("Done"), "u1", **fable), asked("u2", "Again", "a1"),
        fallback, answered("a2", "r2", text("Done"), "s1", **opus),
    ))  # fmt: skip
    (found,) = check([str(path)]).result.findings
    assert (found.code, found.kind, found.actor, found.fix[:13]) == ("LORE119", "expected", "nobody", "Nothing to do")
    assert found.message.startswith("another model reads only what it cached itself: a model refused the request")


PLAN = "Implement the following plan:\n\n# Export to CSV"
COMMAND = "<command-message>review</command-message>\n<command-name>/review</command-name>"
PRINTED = "<local-command-stdout>Bye!</local-command-stdout>"


def session(*lines, version):
    """Return the signals of a session with thinking on: a prompt, these lines, a prompt; all answers are alike."""
    records = [asked("u1", "hi", thinkingMetadata=ON, version=version), reply("a1", "u1", version)]
    for number, record in enumerate((*lines, asked("", "next", thinkingMetadata=ON)), 2):
        content = record["message"]["content"]
        meta = {key: record[key] for key in ("isMeta", "thinkingMetadata") if key in record}
        records.append(asked(f"u{number}", content, records[-1]["uuid"], version=version, **meta))
        if not (isinstance(content, str) and content.startswith("<")):
            records.append(reply(f"a{number}", f"u{number}", version))
    return [sign for sign in observed(*records) if sign.name == "thinking"]


def reply(name, parent, version):
    return answered(name, f"r{name}", text("yes"), parent, version=version, usage=counts(3, 900, 90, 5))


@each("lines, name", [
    ([asked("", PLAN)], "planContent"),
    ([asked("", COMMAND), asked("", [text("Review the diff.")], isMeta=True)], "/review"),
])  # fmt: skip
def test_thinking_is_off_for_a_plan_or_command(lines, name):
    off, on = (Sign("thinking", (name,), before=before, after=two) for before, two in (("on", "off"), ("off", "on")))
    assert session(*lines, version="2.1.33") == [off, on]
    assert session(*lines, version="2.1.38") == session(*lines, version="2.1.9") == []  # other versions keep it on


@each("version, names", [("2.1.37", ("/review",)), ("2.1.50", ())])
def test_later_clients_switch_thinking_for_no_command(version, names):
    """The advice to update Claude Code was given for a session of the latest version."""
    records = [asked("u1", "hi", version="2.1.12"), answered("a1", "r1", thinking(), "u1", usage=counts(10, 9, 9, 5))]
    records += [asked("u2", COMMAND, "a1"), asked("u3", [text("Review it.")], "u2", isMeta=True)]
    last = answered("a2", "r2", text("yes"), "u3", version=version, usage=counts(3, 9, 9, 5))
    signals = [sign for sign in observed(*records, last) if sign.name == "thinking"]
    assert signals == [Sign("thinking", names, before="on", after="off")]


def test_local_command_leaves_thinking_on():
    stop = asked("", COMMAND.replace("review", "model"))
    assert session(stop, asked("", PRINTED), asked("", [text("Go on.")], isMeta=True), version="2.1.33") == []
