"""Plain chats: messages a line or in one array, in the words of four SDKs, and files that look alike."""

import json
from typing import Any

import pytest

from cli.running import lore, put
from formats import agents, recorded
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.agents.cline import Cline
from lore.formats.captures.bodies import Bodies
from lore.formats.plain_chat.reader import Chat, ChatDocument
from lore.formats.registry import READERS
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.codes import Code
from lore.model.items import ToolCall
from lore.model.state import FoldedSession
from lore.recording.opening import reader_class_for
from lore.testing import ReaderContract, everything
from model.making import dumps

pytestmark = pytest.mark.usefixtures("desk")

Message = dict[str, Any]
PLAIN: list[Message] = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "What is here?", "timestamp": "2026-08-01T09:00:00Z"},
    {
        "role": "assistant", "content": None, "timestamp": "2026-08-01T09:00:05Z", "model": "gpt-5",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}},
            {"id": "c2", "type": "function", "function": {"name": "cat", "arguments": "README"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "no such file", "timestamp": "2026-08-01T09:00:06Z"},
    {"role": "tool", "tool_call_id": "c1", "content": "a b", "timestamp": "2026-08-01T09:00:07Z"},
    {"role": "assistant", "content": "Two files.", "timestamp": "2026-08-01T09:00:09Z"},
]  # fmt: skip
ANTHROPIC: list[Message] = [
    {"role": "user", "content": "What is here?"},
    {
        "role": "assistant", "model": "claude-opus-4-5",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}, {"type": "text", "text": "Wait."},
        ],
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 2000,
                  "output_tokens": 30},
    },
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "no"}], "is_error": True},
        {"type": "text", "text": "And now?"},
    ]},
    {"role": "assistant", "content": [{"type": "text", "text": "Nothing."}],
     "usage": {"input_tokens": 7, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 60,
               "output_tokens": 4}},
]  # fmt: skip
AI_SDK: list[Message] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {"role": "assistant", "content": [
        {"type": "tool-call", "toolCallId": "a", "toolName": "weather", "input": {"city": "Bonn"}},
    ]},
    {"role": "tool", "content": [
        {"type": "tool-result", "toolCallId": "a", "toolName": "weather",
         "output": {"type": "json", "value": {"t": 3}}},
    ]},
    {"role": "assistant", "content": "Three degrees."},
]  # fmt: skip
OLLAMA: list[Message] = [
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
        {"function": {"name": "weather", "arguments": {"city": "Bonn"}}},
        {"function": {"name": "time", "arguments": {}}},
    ]},
    {"role": "tool", "tool_name": "time", "content": "noon"},
    {"role": "tool", "content": "3"},
    {"role": "assistant", "content": "Three."},
]  # fmt: skip
CHATS = (PLAIN, ANTHROPIC, AI_SDK, OLLAMA)


def lines(*messages: Message) -> bytes:
    """A chat with a message a line."""
    return b"".join(dumps(message) + b"\n" for message in messages)


def listed(*messages: Message) -> bytes:
    """A chat that is one array, as people indent it."""
    return json.dumps(messages, indent=2).encode()


class TestLines(ReaderContract):
    reader = Chat
    samples = tuple(lines(*chat) for chat in CHATS)


class TestArray(ReaderContract):
    reader = ChatDocument
    samples = (*(listed(*chat) for chat in CHATS), listed(*PLAIN[:2]), dumps(ANTHROPIC))


def values(data: bytes, reader: Any = Chat) -> list[Any]:
    """What a reader yields, problems among it."""
    return [item.value for item in everything(reader(), data)]


def folded(data: bytes, reader: Any = Chat) -> FoldedSession:
    """The session at the end; the fold must find nothing odd."""
    return agents.folded(reader, data)


def items(*messages: Message) -> list[Any]:
    """The items of a chat."""
    return [entry.item for entry in folded(lines(*messages)).main().entries]


def codes(data: bytes, reader: Any = Chat) -> list[str]:
    """The codes of the problems."""
    return agents.codes(reader, data)


@pytest.mark.parametrize("chat", CHATS)
def test_requests_and_tokens_equal_those_of_plain_json(chat):
    answers = [message for message in chat if message["role"] == "assistant"]
    bills = [message["usage"] for message in answers if "usage" in message]
    for data, reader in ((lines(*chat), Chat), (listed(*chat), ChatDocument)):
        assert recognise(data) is reader
        fold = recorded.folded(reader, data)
        assert fold.state.main().turns == len(answers)
        assert fold.usage.read_tokens == (sum(bill["cache_read_input_tokens"] for bill in bills) if bills else None)
        assert fold.usage.output_tokens == (sum(bill["output_tokens"] for bill in bills) if bills else None)
        assert not codes(data, reader)


def test_results_in_any_order_go_to_their_calls():
    _, ls, cat, _ = items(*PLAIN)
    facts = [(call.call_id, bytes(call.input), text_of(bytes(call.output))) for call in (ls, cat)]
    assert facts == [("c1", b'{"path": "."}', "a b"), ("c2", b'{"arguments":"README"}', "no such file")]


@each("role", ["tool", "user"])
def test_text_beside_results_in_one_message_is_kept(role):
    """It was dropped from messages of role `tool`, which LangChain and the AI SDK write."""
    beside = [
        {"type": "text", "text": "Before."}, {"type": "tool_result", "tool_use_id": "c1", "content": "a b"},
        {"type": "tool-result", "toolCallId": "unknown", "output": {"type": "text", "value": "c"}},
        {"type": "text", "text": "After."},
    ]  # fmt: skip
    _, call, _, lost, message = items(*PLAIN[1:3], {"role": role, "content": beside})

    assert text_of(bytes(call.output)) == "a b"
    assert [text_of(bytes(block.text)) for block in (*lost.blocks, *message.blocks)] == ["c", "Before.", "After."]
    assert len({call.uuid, lost.uuid, message.uuid}) == 3


def test_call_beside_results_of_tools_is_opaque():
    odd = [{"type": "tool_result", "tool_use_id": "c1"}, {"type": "tool_use", "id": "c9", "name": "ls", "input": {}}]

    assert "LORE207" in codes(lines(*PLAIN[1:3], {"role": "tool", "content": odd}))


def test_result_without_id_goes_by_name():
    calls = [item for item in items(*OLLAMA) if isinstance(item, ToolCall)]
    assert [(call.name, text_of(bytes(call.output))) for call in calls] == [("weather", "3"), ("time", "noon")]
    assert bytes(calls[0].input) == b'{"city":"Bonn"}'


def test_time_that_all_messages_share_is_ignored():
    starts = [value.at for value in values(lines(*PLAIN)) if isinstance(value, e.TurnStarted)]
    assert starts == ["2026-08-01T09:00:00Z", "2026-08-01T09:00:07Z"]
    exported = [{**message, "timestamp": "2026-08-02T00:00:00Z"} for message in PLAIN]
    starts = [value.at for value in values(lines(*exported)) if isinstance(value, e.TurnStarted)]
    assert starts == [None, None]


@pytest.mark.parametrize(
    ("chat", "dialect"),
    [(PLAIN, "openai-chat"), (ANTHROPIC, "anthropic"), (PLAIN[1:2] + PLAIN[-1:], "openai-chat"),
     (PLAIN[1:2] + ANTHROPIC[-1:], "anthropic"), (OLLAMA, "openai-chat")],
)  # fmt: skip
def test_messages_up_to_first_answer_give_the_dialect(chat, dialect):
    changes = [value for value in values(lines(*chat)) if isinstance(value, e.SessionChanged)]
    assert [change.dialect for change in changes if change.dialect] == [dialect]


def test_unanswered_array_is_a_request():
    messages = [*PLAIN, {"role": "user", "content": "Sure?"}]
    assert folded(listed(*messages), ChatDocument).main().turns == 3
    assert folded(lines(*messages)).main().turns == 2
    assert folded(listed(*messages)[:-4], ChatDocument).main().turns == 2  # it may continue


@each([
    lines(ANTHROPIC[1]),  # a response that was kept
    lines({"role": "_system_prompt", "content": "You help."}, PLAIN[1]),
    lines(PLAIN[1], {"role": "narrator", "content": "x"}),
    lines({**PLAIN[1], "session_id": "s1"}, PLAIN[-1]), lines({**PLAIN[1], "type": "input"}),
    lines({**PLAIN[1], "content": {}}),
    lines({"role": "user"}), lines({"content": "hi"}), listed({"role": "user", "parts": [{"text": "hi"}]}),
    listed(PLAIN[1], {"type": "function_call", "name": "ls"}),
    b"[]", b"[1]", b'[{"role":', b'["user"]', b"{}\n", b"",
])  # fmt: skip
def test_other_messages_are_not_a_chat(other):
    assert recognise(other) not in (Chat, ChatDocument)


@pytest.mark.parametrize(
    ("other", "reader"),
    [
        (listed({"role": "user", "content": "hi", "ts": 1_785_574_800_000}), Cline),
        (lines({"model": "gpt-5", "messages": PLAIN}), Bodies),
        (json.dumps({"model": "gpt-5", "messages": PLAIN}, indent=1).encode(), Bodies),
    ],
)  # fmt: skip
def test_files_of_other_formats_keep_their_reader(other, reader):
    assert recognise(other) is reader


def test_chat_with_numbers_or_damage_is_recognised():
    messages = [{**message, "tokens": 7, "pinned": False} for message in PLAIN]
    assert recognise(lines(*messages)) is Chat
    called = {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}, "refusal": None}
    assert recognise(lines(PLAIN[1], called, {"role": "function", "name": "ls", "content": "a"})) is Chat
    assert recognise(lines(*PLAIN[:2]) + b'{"role":"us\n' + lines(*PLAIN[2:])) is Chat
    assert recognise(b"\xef\xbb\xbf" + listed(*PLAIN)) is ChatDocument
    assert recognise(b'[{"role":"system","content":"' + b"x" * 1000) is ChatDocument


def test_reader_of_a_plugin_is_asked_first(monkeypatch):
    class Diary(Chat):
        name = "diary"

    monkeypatch.setitem(READERS, "diary", Diary)
    assert reader_class_for(lines(*PLAIN), None) is Diary


@each([
    {"role": "narrator", "content": "x"}, {"role": 7, "content": "x"}, {"role": "user", "content": 7},
    {"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}]},
    {"role": "assistant", "content": "x", "tool_calls": "none"}, {"content": "x"}, {}, {"from": "human", "value": 7},
    7, "x", None, [],
])  # fmt: skip
def test_odd_message_is_opaque_and_rest_is_read(odd):
    messages = [*PLAIN[:2], odd, *PLAIN[2:]]
    forms = [(dumps({"messages": messages}), Chat), (listed({"messages": messages}), ChatDocument)]
    if isinstance(odd, dict):
        forms += [(lines(*messages), Chat), (listed(*messages), ChatDocument)]
    for data, reader in forms:
        assert codes(data, reader) in ([Code.MALFORMED_RECORD], [Code.UNKNOWN_RECORD])
        (event,) = (value for value in values(data, reader) if isinstance(value, e.OpaqueEvent))
        assert json.loads(bytes(event.record)) == odd
        assert folded(data, reader).main().turns == 2


def test_text_keeps_its_escapes():
    for message in (PLAIN[1], {"role": "user", "content": [{"type": "text", "text": "What is here?"}]}):
        data = dumps(message).replace(b"What is here?", rb"\u00e9\/\ud83d") + b"\n"
        (item,) = (entry.item for entry in folded(data).main().entries)
        assert rb'"\u00e9\/\ud83d"' in bytes(getattr(item.blocks[0], "text", None) or item.blocks[0].json)
    reply = PLAIN[2] | {"content": "X"}
    data = lines({**PLAIN[0], "content": "X"}, PLAIN[1], reply, *PLAIN[3:]).replace(b'"X"', rb'"\ud83d"')
    assert not codes(data)
    assert folded(data).main().turns == 2
    assert bytes(folded(data).system) == rb'"\ud83d"'


def test_check_notes_once_that_only_history_is_judged():
    for name in ("chats/a.jsonl", "chats/b.jsonl"):
        put(name, lines({**PLAIN[0], "content": name}, *PLAIN[1:]))
    ran = lore("check", "chats")
    assert (ran.code, ran.out.count("only history is judged")) == (0, 1)
    assert "2 files, 2 chains, 4 turns, 2 pairs compared" in ran.out


def test_two_arrays_are_compared_as_prompts():
    more = [*PLAIN, {"role": "user", "content": "Sure?"}]
    first, second = put("one.json", listed(*PLAIN[:2])), put("two.json", listed(*more))
    third = put("three.json", listed({**PLAIN[0], "content": "You help. It is 9:00."}, *more[1:]))
    assert lore("diff-prefix", first, second, "--json").json["relation"] == "extension"
    diff = lore("diff-prefix", first, third, "--json").json
    assert (diff["relation"], diff["divergence"]["path"]) == ("diverged", "messages[0].content[0].text")
    assert diff["causes"]
