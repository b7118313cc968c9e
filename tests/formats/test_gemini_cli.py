"""The reader of Gemini CLI's chats: both envelopes, records written again, rewritten histories, rewinds, bills."""

import json

from formats.gemini import MODEL, Chat, call, old, plain, tokens
from formats.recorded import ends, folded
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.agents.gemini import GeminiCli, GeminiCliDocument
from lore.formats.registry import reader_of
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.testing import ReaderContract


def history(_: Chat) -> list[dict]:
    """What a compression leaves: a summary, an answer to it, the last of the messages."""
    at = "2026-04-14T08:30:00.000Z"
    snapshot = [{"text": "<state_snapshot>x</state_snapshot>"}]
    summary = {"id": "n-1", "timestamp": at, "type": "user", "content": snapshot}
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
    assert recognise(json.dumps(json.loads(old().document()), sort_keys=True).encode()) is GeminiCliDocument
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
    assert lines.usage == document.usage


def test_replaced_history_adds_no_requests():
    chat = plain().user("u-4", "again").model("m-7", "yes", tokens(10_800, 128))
    chat.model("m-7", "yes", tokens(10_800, 128), toolCalls=[call("c-3", status="cancelled")])
    chat.set(messages=history(chat)).model("m-8", "end", tokens(3_000, 0))
    session = chat.folded()
    assert not session.problems
    items = [entry.item for entry in session.state.main().entries]
    assert isinstance(items[0], CompactDivider)
    assert [type(item) for item in items[1:]] == [
        UserMessage, AssistantMessage, UserMessage, AssistantMessage, ToolCall, AssistantMessage,
    ]  # fmt: skip
    assert (items[1].source, items[3].source) == ("context_injection", "user")
    assert (items[5].status, text_of(bytes(items[5].error))) == ("failed", "done")
    assert len(ends(chat)) == 4


HOSTILE = (
    {"id": "h", "type": "gemini", "content": 5},
    {"id": "h", "type": "user", "content": True},
    {"id": "h", "type": "gemini", "content": "x", "toolCalls": [5]},
    {"id": "h", "type": "of the future", "content": "x"},
    {"id": 7, "type": "user", "content": "x"},
    {"$set": {"messages": [7]}},
    {"$set": {"messages": "x"}},
    {"$rewindTo": 5},
    {"x": 1},
    {"type": "user"},
)


@each(HOSTILE)
def test_malformed_record_is_opaque_and_rest_is_read(line):
    chat = plain()
    chat.lines.insert(2, line)
    session = chat.folded()
    assert len(ends(chat)) == 2
    assert [problem.line for problem in session.problems] == [4], session.problems


def test_torn_document_is_a_problem():
    torn = folded(GeminiCliDocument, old().document()[:-40])
    assert [problem.code for problem in torn.problems] == [Code.TORN_LAST_LINE]


def test_unreadable_member_of_a_document_counts_once():
    document = {"kind": 7, **json.loads(old().document())}
    assert len(folded(GeminiCliDocument, json.dumps(document).encode()).problems) == 1


def test_chat_without_header_is_read():
    chat = plain()
    chat.lines.insert(0, {"sessionId": "late", "projectHash": "x"})
    session = folded(GeminiCli, b"\n".join(chat.data().split(b"\n")[2:]))
    assert len(session.state.main().entries) == 4
    assert not session.problems
