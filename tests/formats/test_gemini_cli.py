"""The reader of Gemini CLI's chats: both envelopes, records written again, rewritten histories, rewinds, bills."""

from __future__ import annotations

import pytest

from formats.gemini import MODEL, Chat, call, old, plain, tokens
from formats.recorded import ends, folded, items
from lore.formats.agents.gemini import GeminiCli, GeminiCliDocument
from lore.formats.registry import reader_of, recognise
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import AssistantMessage, CompactDivider, ImageBlock, ToolCall, UserMessage
from lore.testing import ReaderContract


def history(_: Chat) -> list[dict]:
    """What a compression leaves: a summary, an answer to it, the last of the messages."""
    at = "2026-04-14T08:30:00.000Z"
    summary = {
        "id": "n-1",
        "timestamp": at,
        "type": "user",
        "content": [{"text": "<state_snapshot>x</state_snapshot>"}],
    }
    thanks = {"id": "n-2", "timestamp": at, "type": "gemini", "content": [{"text": "Got it."}]}
    last = {"id": "u-4", "timestamp": at, "type": "user", "content": [{"text": "again"}]}
    parts = [{"text": "yes"}, {"functionCall": {"id": "c-3", "name": "read_file", "args": {}}}]
    spoken = {"id": "m-7", "timestamp": at, "type": "gemini", "content": parts, "model": MODEL, "tokens": tokens(9, 0)}
    error = {"functionResponse": {"id": "c-3", "name": "read_file", "response": {"error": "done"}}}
    result = {"id": "n-3", "timestamp": at, "type": "user", "content": [error]}
    return [summary, thanks, last, {**spoken, "toolCalls": [call("c-3", status="cancelled")]}, result]


class TestLines(ReaderContract):
    reader = GeminiCli
    samples = (plain().data(), plain().data()[:-1], plain().data().replace(b"\n", b"\r\n"))


class TestDocument(ReaderContract):
    reader = GeminiCliDocument
    samples = (old().document(), Chat(kind="subagent").document())


def test_chats_are_recognised_by_their_header():
    assert recognise(plain().data()) is GeminiCli
    assert recognise(old().document()) is GeminiCliDocument
    assert isinstance(reader_of(b"\xef\xbb\xbf" + old().document()), GeminiCliDocument)
    assert recognise(b'{"sessionId":"x","messages":[]}') is not GeminiCliDocument
    assert recognise(b'{"sessionId":1,"projectHash":"x"}\n') is not GeminiCli


def test_lines_and_document_fold_alike():
    lines, document = plain().folded(), old().folded(GeminiCliDocument)
    assert not lines.problems
    assert not document.problems
    assert [entry.item for entry in lines.state.main().entries] == [
        entry.item for entry in document.state.main().entries
    ]
    assert lines.state.main().totals == document.state.main().totals


def test_calls_after_screen_message_belong_to_previous_response():
    made = plain().model("m-3", "Removing.", tokens(10_400, 0)).message("info", "i-1", "an update")
    made.message("gemini", "m-4", "", model=MODEL, thoughts=[], tokens=tokens(0, 0, 0, 0), toolCalls=[call("c-2")])
    made.message("gemini", "m-4", "", model=MODEL, thoughts=[], tokens=tokens(0, 0, 0, 0), toolCalls=[call("c-2")])
    assert len(ends(made)) == 3
    assert [item.response_id for item in items(made)[-2:]] == ["m-3", "m-3"]
    more = made.message("gemini", "m-5", "", model=MODEL, thoughts=[], toolCalls=[call("c-3")])
    assert ends(more)[3:] == [None]  # the one before has called: these are another response's


def test_counts_of_zero_are_unknown():
    assert ends(plain().model("m-3", "x", tokens(0, 0, 0, 0)))[2:] == [None]


def test_thoughts_and_server_tool_prompts_are_own_passes():
    usage = plain().model("m-3", "x", tokens(100, 60, tool=40)).read()[-1].usage
    counts = [(found.uncached_tokens, found.read_tokens, found.output_tokens) for found in usage.passes]
    assert counts == [(40, 60, 10), (0, 0, 20), (40, 0, 0)]
    assert [found.kind for found in usage.iterations] == ["thoughts", "tool_use_prompt"]


def test_rewind_removes_message_and_all_that_follow():
    made = plain().user("u-2", "no").model("m-3", "well", tokens(10_400, 0)).rewind("u-2")
    assert items(made) == items(plain())
    assert len(ends(made)) == 3
    assert not made.folded().problems
    unknown = plain().rewind("who").folded()
    assert [problem.code for problem in unknown.problems] == [Code.UNKNOWN_ID]
    assert not unknown.state.main().entries


def test_replaced_history_adds_no_requests():
    made = plain().user("u-4", "again").model("m-7", "yes", tokens(10_800, 128))
    made.model("m-7", "yes", tokens(10_800, 128), toolCalls=[call("c-3", status="cancelled")])
    made.set(messages=history(made)).model("m-8", "end", tokens(3_000, 0))
    session = made.folded()
    assert not session.problems
    items = [entry.item for entry in session.state.main().entries]
    assert isinstance(items[0], CompactDivider)
    assert [type(item) for item in items[1:]] == [
        UserMessage, AssistantMessage, UserMessage, AssistantMessage, ToolCall, AssistantMessage,
    ]  # fmt: skip
    assert (items[1].source, items[3].source) == ("context_injection", "user")
    assert (items[5].status, text_of(bytes(items[5].error))) == ("failed", "done")
    assert len(ends(made)) == 4


def test_masked_result_in_new_history_is_cleared():
    made = plain()
    parts = [{"text": "I look."}, {"functionCall": {"id": "c-1", "name": "read_file", "args": {"file_path": "a.py"}}}]
    masked = call("c-1", "<tool_output_masked>")
    result = {"id": "n-1", "type": "user", "content": masked["result"], "timestamp": made.at()}
    first = {"id": "u-1", "type": "user", "content": [{"text": "what is here?"}], "timestamp": made.at()}
    looked = {"id": "m-1", "type": "gemini", "content": parts, "toolCalls": [masked], "model": MODEL}
    answer = {"id": "m-2", "type": "gemini", "content": [{"text": "a file"}], "model": MODEL, "tokens": tokens(1, 0)}
    values = made.set(messages=[first, looked, result, answer]).read()
    assert [type(value).__name__ for value in values[10:]] == ["ToolResultCleared"]
    assert len(items(made)) == 4
    assert b"masked" in bytes(items(made)[2].output)


def test_changed_text_in_new_history_removes_the_rest():
    made = plain().set(messages=[
        {"id": "u-1", "type": "user", "content": [{"text": "what is here?"}]},
        {"id": "m-1", "type": "gemini", "content": [{"text": "I look."}], "toolCalls": [call()]},
        {"id": "n-1", "type": "user", "content": [{"text": "a hint"}]},
        {"id": "m-2", "type": "gemini", "content": [{"text": "a file"}]},
    ])  # fmt: skip
    assert [type(value).__name__ for value in made.read()[10:]] == ["Remove", "Append", "Append"]
    assert [type(item) for item in items(made)] == [
        UserMessage, AssistantMessage, ToolCall, UserMessage, AssistantMessage,
    ]  # fmt: skip


def test_screen_errors_and_cancels_are_signals():
    made = plain().message("error", "x", "[API Error: quota]").message("info", "y", "Request cancelled.")
    made.message("warning", "z", "beware").set(sessionId="s-1").set(summary="talk").model("m-3", "x", tokens(9, 0))
    assert [sign.name for sign in made.folded().state.main().turn.signs] == ["api-error", "interrupt", "resume"]


def test_content_of_every_shape_is_read():
    made = Chat().message("user", "a", "text").message("user", "b", {"text": "part"}).message("user", "c", ["x", "y"])
    made.message("user", "d", [{"inlineData": {"mimeType": "image/png", "data": "QQ=="}}, {"fileData": {"x": 1}}])
    found = items(made)
    assert [len(item.blocks) for item in found] == [1, 1, 2, 2]
    assert isinstance(found[3].blocks[0], ImageBlock)
    assert bytes(found[3].blocks[1].json) == b'{"fileData":{"x":1}}'
    shapes = (
        {"output": "a"},
        {"x": 1},
        "plain",
        [{"text": "t"}, {"inlineData": {"mimeType": "image/png", "data": ""}}],
    )
    for shape in shapes:
        result = [{"functionResponse": {"id": "c-9", "response": shape}}] if isinstance(shape, dict) else shape
        called = Chat().model("m", "x", toolCalls=[{**call("c-9"), "result": result}]).folded().state.main().entries
        assert len(bytes(called[-1].item.output)) > 2


HOSTILE = (
    {"id": "h", "type": "gemini", "content": 5},
    {"id": "h", "type": "user", "content": True},
    {"id": "h", "type": "gemini", "content": "x", "tokens": {"input": "1"}},
    {"id": "h", "type": "gemini", "content": "x", "toolCalls": [5]},
    {"id": "h", "type": "of the future", "content": "x"},
    {"id": 7, "type": "user", "content": "x"},
    {"$set": {"messages": [7]}},
    {"$set": {"messages": "x"}},
    {"$rewindTo": 5},
    {"x": 1},
    {"type": "user"},
)


@pytest.mark.parametrize("line", HOSTILE, ids=str)
def test_malformed_record_is_opaque_and_rest_is_read(line):
    made = plain()
    made.lines.insert(2, line)
    session = made.folded()
    assert len(ends(made)) == 2
    assert [problem.line for problem in session.problems] == [4], session.problems
    assert session.state.opaque == 1


def test_torn_document_is_a_problem():
    torn = folded(GeminiCliDocument, old().document()[:-40])
    assert [problem.code for problem in torn.problems] == [Code.TORN_LAST_LINE]


def test_chat_without_header_is_read():
    made = plain()
    made.lines.insert(0, {"sessionId": "late", "projectHash": "x"})
    session = folded(GeminiCli, b"\n".join(made.data().split(b"\n")[2:]))
    assert len(session.state.main().entries) == 4
    assert not session.problems


def test_calls_after_malformed_message_are_read():
    """The reader raised KeyError: the response had begun, and its message was kept as opaque."""
    made = Chat().user("u-1", "hi").message("gemini", "m-1", 5, model=MODEL, tokens=tokens(100, 0))
    made.message("gemini", "m-2", "", model=MODEL, thoughts=[], toolCalls=[call("c-1")])
    kinds = [type(value).__name__ for value in made.read()]
    assert kinds.count("OpaqueEvent") == 1
    assert kinds.count("TurnCompleted") == 2
