"""The reader of Qwen Code's chats: the tree, compressions, rewinds, subagents, bills."""

import pytest

from formats.claude import asked, log_bytes
from formats.qwen import MODEL, Chat, call, content, plain, usage
from formats.recorded import ends
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.agents.qwen import QwenCode
from lore.formats.claude.reader import ClaudeCode
from lore.model.codes import Code
from lore.testing import ReaderContract


def compressed(chat: Chat, name: str = "k-1") -> Chat:
    """Put a summary, an answer to it and the last call in place of all before."""
    result = {"functionResponse": {"id": "c-9", "name": "read_file", "response": {"output": "kept"}}}
    history = [
        content("user", {"text": "<state_snapshot>x</state_snapshot>"}), content("model", {"text": "Got it."}),
        content("user", {"text": "again"}), content("model", {"text": "yes"}, call("c-9")), content("user", result),
    ]  # fmt: skip
    info = {"originalTokenCount": 12_000, "newTokenCount": 900, "compressionStatus": 1}
    return chat.system(name, "chat_compression", {"info": info, "compressedHistory": history})


def busy() -> Chat:
    """All that happens in one chat: commands, notes, a rewind, a compression, pictures, another version."""
    chat = plain().system("t-1", "ui_telemetry", {"uiEvent": {"event.name": "qwen-code.api_error"}})
    chat.system("t-2", "slash_command", {"phase": "invocation", "rawCommand": "/stats model"})
    chat.user("u-2", "no").model("m-3", {"text": "well"}, usage=usage(10_400, 10_112))
    chat.system("w-1", "rewind", {"truncatedCount": 2}, parent="t-2").user("u-3", "go on")
    chat.model("m-4", {"text": "look"}, call("c-2"), usage=usage(10_450, 10_112))
    picture = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}
    chat.result("r-2", "c-2", "a picture", picture).record(
        "user", "u-4", subtype="mid_turn_user_message", message=content("user", {"text": "and quickly"})
    )
    chat.record("user", "u-5", subtype="notification", message=content("user", {"text": "<task-notification>"}))
    chat.base["version"] = "0.21.0"
    chat.model("m-5", {"text": "ok"}, usage=usage(11_000, 10_368))
    compressed(chat).user("u-6", "on").model("m-6", {"text": "end"}, usage=usage(3_000, 0))
    return chat.system("x-1", "custom_title", {"customTitle": "t"}).record("assistant", "m-7", model=MODEL)


def agent() -> Chat:
    """A subagent's own file: answers in several records, only the first with usage."""
    chat = Chat(agentId="explore-7f3c", isSidechain=True)
    tools = [{"name": "read_file", "parametersJsonSchema": {"type": "object"}}]
    history = [content("user", {"text": "context"}), content("model", {"text": "ok"})]
    chat.system(
        "b-1", "agent_bootstrap", {"kind": "fork", "history": history, "systemInstruction": "Look.", "tools": tools}
    )
    chat.user("u-1", "find it")
    chat.record("assistant", "m-1", message=content("model", {"text": "I look."}), usageMetadata=usage(5_000, 0))
    chat.record("assistant", "m-2", message=content("model", call("c-1")))
    chat.record("assistant", "m-3", message=content("model", call("c-2"))).result("r-1", "c-1").result("r-2", "c-2")
    return chat.record("assistant", "m-4", message=content("model", call("c-3"))).result("r-3", "c-3")


class TestContract(ReaderContract):
    reader = QwenCode
    samples = (plain().data(), busy().data(), agent().data(), busy().data()[:-1], busy().data().replace(b"\n", b"\r\n"))


def test_chat_is_not_taken_for_claude_code():
    assert recognise(plain().data()) is QwenCode
    assert recognise(busy().data()) is QwenCode
    assert recognise(agent().data()) is QwenCode
    claude = log_bytes(asked("u-1", "hello", sessionId="s-1"))
    assert recognise(claude) is ClaudeCode
    assert not QwenCode.recognises(claude)


GUESSED = {"promptTokenCount": 106, "candidatesTokenCount": 45, "cachedContentTokenCount": 0, "totalTokenCount": 151}


@pytest.mark.parametrize(("counts", "expected"), [
    ({**usage(100, 0), "totalTokenCount": 114}, (100, 0, 14)),  # the total has thoughts that the output lacks
    (GUESSED, None),  # seven and three tenths of the total
    (usage(10, 128), (None, 128, 10)),  # more cached than input
])  # fmt: skip
def test_odd_counts_are_completed_or_unknown(counts, expected):
    assert ends(Chat().user("u", "x").model("m", {"text": "y"}, usage=counts)) == [expected]


HOSTILE = (
    {"message": {"role": "user", "parts": 5}},
    {"message": []},
    {"type": "system", "subtype": "chat_compression", "systemPayload": {"compressedHistory": [7]}},
    {"type": "system", "subtype": "slash_command", "systemPayload": 7},
    {"type": "of the future"},
    {"uuid": 7},
)


@each(HOSTILE)
def test_malformed_record_is_opaque_and_rest_is_read(fields):
    chat = plain()
    line = {"uuid": "h", "parentUuid": "u-1", "sessionId": "s-1", "type": "user", **fields}
    chat.lines.insert(2, line)
    session = chat.folded()
    assert len(ends(chat)) == 2
    assert [problem.line for problem in session.problems] == [3], session.problems


def test_repeated_records_and_cycles_are_problems():
    chat = plain()
    chat.lines.append({**chat.lines[2], "parentUuid": "m-2"})
    chat.lines.append({**chat.lines[0], "uuid": "z", "parentUuid": "z"})
    session = chat.folded()
    assert [problem.code for problem in session.problems] == [Code.DUPLICATE_UUID, Code.DANGLING_PARENT]
    assert len(session.state.main().entries) == 4
