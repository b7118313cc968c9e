"""Recorded requests as a session: their messages, tools and usage are kept, in their order."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.each import each
from helpers.strategies.bodies import DIALECTS as NAMES
from helpers.strategies.bodies import conversations, places_for_breakpoints, with_breakpoints
from helpers.strategies.spelling import Style, write
from lore.commands.convert import convert_recording
from lore.commands.fold import fold
from lore.model.canonical import canonical
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.prompt.dialects import DIALECTS
from lore.recording.base import Problems
from lore.recording.opening import Options
from lore.recording.request_session import RequestSession, session_of
from lore.recording.requests import RequestRecording
from model.making import dumps

USER = {"role": "user", "content": "hello"}
TOOL = {"name": "ls", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}


def ask(*messages, **members):
    return {"model": "claude-opus-5", "max_tokens": 900, "tools": [TOOL], "system": "Be brief.",
            "messages": [*messages], **members}  # fmt: skip


def opened(path):
    recording = Options().open(str(path))
    assert isinstance(recording, RequestRecording)
    return recording


class Trip:
    """Requests, the log that they were converted to, and the prompts that are assembled from it."""

    def __init__(self, data: bytes, name: str = "b.jsonl") -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.path, converted = Path(folder) / name, Path(folder) / "made.jsonl"
            self.path.write_bytes(data)
            self.sent = {(turn.chain, turn.number): turn.prompt for turn in opened(self.path).turns()}
            converted.write_bytes(
                b"".join(convert_recording(Options().open(str(self.path), Problems(), subagents=True)))
            )
            self.events = [json.loads(line) for line in converted.read_bytes().splitlines()]
            self.size, self.problems = converted.stat().st_size, Problems()
            recording = Options().open(str(converted), self.problems)
            self.turns = {(turn.chain, turn.number): turn for turn in recording.turns()}
            self.made = {name: turn.prompt for name, turn in self.turns.items()}
            self.state = recording.state
            self.rows = fold(str(self.path), Options()).result.turns

    def body(self, chain="main", turn=1):
        prompt = self.made[chain, turn]
        return json.loads(DIALECTS[prompt.dialect].write(prompt))

    @property
    def items(self):
        return [entry.item for entry in self.state.main().entries]

    def kinds(self, *kinds):
        return [event for event in self.events if event["kind"] in kinds]


_SAID = ("messages", "contents", "input", "system", "instructions")
_TEXTS = ("text", "content", "output", "result", "arguments", "input", "instructions", "system")


def texts_in(prompt):
    """The texts, calls and results of a prompt in order, whatever messages and blocks they are in."""
    body = json.loads(DIALECTS[prompt.dialect].write(prompt))
    texts = []

    def look(value, key=""):
        if isinstance(value, dict):
            for name, inner in value.items():
                look(inner, name)
        elif isinstance(value, list):
            for inner in value:
                look(inner, key)
        elif isinstance(value, str) and key in _TEXTS:
            texts.append(value)

    look({"instructions": None} | {key: value for key, value in body.items() if key in _SAID})
    return [text for text in texts if text.strip() and text != "[no result recorded]"]


def trip(*bodies):
    return Trip(b"".join(dumps(body) + b"\n" for body in bodies))


@given(st.data())
def test_conversation_of_any_dialect_keeps_texts_and_breakpoints(data):
    style = data.draw(
        st.builds(Style, reverse=st.booleans(), spaced=st.just(value=False), escapes=st.sampled_from(["few", "ascii"]))
    )
    lines = []
    for body in data.draw(conversations(NAMES)):
        places = range(0 if "contents" in body else len(places_for_breakpoints(body)))
        chosen = data.draw(st.sets(st.sampled_from(places), max_size=3)) if places else set()
        lines.append(write(with_breakpoints(body, chosen, first=data.draw(st.booleans())), style))
    round_trip = Trip(b"\n".join(lines) + b"\n")
    assert not round_trip.problems.kept
    assert round_trip.made.keys() == round_trip.sent.keys()
    for name, prompt in round_trip.sent.items():
        assert texts_in(round_trip.made[name]) == texts_in(prompt)
        assert [*map(canonical, round_trip.made[name].params.values())] == [*map(canonical, prompt.params.values())]


def test_new_messages_become_items_and_calls():
    reply = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    round_trip = trip(
        ask(USER), ask(USER, reply, {"role": "user", "content": [RESULT, {"type": "text", "text": "so?"}]})
    )
    user, spoken, call, more = round_trip.items
    assert [type(item) for item in (user, spoken, more)] == [UserMessage, AssistantMessage, UserMessage]
    assert isinstance(call, ToolCall)
    assert (call.name, call.status, bytes(call.output)) == ("ls", "completed", b'"a.py"')
    assert [turn.turn for turn in round_trip.rows] == [1, 2]


def test_results_in_another_order_belong_to_their_calls():
    reply = {"role": "assistant", "content": [USE, {**USE, "id": "t2"}]}
    swapped = {"role": "user", "content": [{**RESULT, "tool_use_id": "t2", "content": "b.py"}, RESULT]}
    round_trip = trip(ask(USER, reply, swapped))
    outputs = {item.call_id: bytes(item.output) for item in round_trip.items if isinstance(item, ToolCall)}
    assert outputs == {"t1": b'"a.py"', "t2": b'"b.py"'}


def test_result_without_its_call_stays_a_block():
    round_trip = trip(ask({"role": "user", "content": [RESULT]}))
    assert round_trip.body()["messages"] == [{"role": "user", "content": [RESULT]}]


def test_breakpoints_stay_at_their_blocks():
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = {"role": "user", "content": [{"type": "text", "text": "a", **mark}, {"type": "text", "text": "b"}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    results = {"role": "user", "content": [RESULT | mark, {"type": "text", "text": "so?"}]}
    round_trip = trip(ask(marked, reply, results, tools=[TOOL | mark], system=[{"type": "text", "text": "s", **mark}]))
    body = round_trip.body()
    assert body["tools"] == [TOOL | mark]
    assert body["system"] == [{"type": "text", "text": "s", **mark}]
    assert body["messages"][0] == marked
    assert [prompt.breakpoint_values for prompt in round_trip.made.values()] == [
        prompt.breakpoint_values for prompt in round_trip.sent.values()
    ]


def test_a_rewind_takes_items_back_and_announces_nothing():
    round_trip = trip(ask(USER, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}),
                 ask(USER, {"role": "assistant", "content": "a"}, {"role": "user", "content": "c"}))  # fmt: skip
    assert [event["observed"] for event in round_trip.kinds("remove")] == [True]
    assert [turn.changes for turn in round_trip.turns.values()] == [(), ()]


def test_summary_instead_of_history_is_a_compaction():
    summary = "This session is being continued from a previous conversation. It went so: the parser was read."
    talk = [USER, {"role": "assistant", "content": "a long answer"}, {"role": "user", "content": "go on"}]
    round_trip = trip(ask(*talk), ask({"role": "user", "content": summary}))
    assert [event["trigger"] for event in round_trip.kinds("compact_applied")] == ["auto"]
    assert any(isinstance(item, CompactDivider) and item.pruned == 3 for item in round_trip.items)


def test_rewritten_result_is_sent_unchanged():
    reply = {"role": "assistant", "content": [USE]}
    old, new = ({"role": "user", "content": [{**RESULT, "content": text}]} for text in ("a.py", "[cleared]"))
    round_trip = trip(ask(USER, reply, old), ask(USER, reply, new, {"role": "assistant", "content": "ok"}, USER))
    assert [bytes(item.output) for item in round_trip.items if isinstance(item, ToolCall)] == [b'"[cleared]"']


def test_other_differences_are_observed_changes():
    other = {**TOOL, "name": "cat"}
    round_trip = trip(ask(USER), ask(USER, {"role": "assistant", "content": "a"}, USER, tools=[TOOL, other], system="B",
                                    max_tokens=10, stream=True))  # fmt: skip
    [change] = round_trip.kinds("session_changed")
    assert (change["observed"], change["system"], len(change["tools"]), change["params"]["stream"]) == (
        True,
        ["B"],
        2,
        True,
    )


def test_bills_times_and_failures_are_turns():
    usage = {"input_tokens": 4, "cache_read_input_tokens": 100, "output_tokens": 7}
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    round_trip = trip({"request": ask(USER), "status": 529, "ts": 1767225600},
                 {"request": ask(USER), "response": {**reply, "usage": usage}, "ts": 1767225601.5})  # fmt: skip
    assert [(turn.state, turn.read_tokens) for turn in round_trip.rows] == [("failed", None), ("completed", 100)]
    assert round_trip.rows[1].started_at == "2026-01-01T00:00:01.500000+00:00"
    assert [bytes(item.blocks[0].text) for item in round_trip.items if isinstance(item, AssistantMessage)] == [b'"hi"']


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_time_outside_calendar_is_none(time):
    """It ended `lore convert` and `lore fold` with exit code 70: the log writes times in UTC."""
    round_trip = trip({"request": ask(USER), "ts": time})
    assert round_trip.rows[0].started_at is None


def test_dropped_answer_is_appended_then_removed():
    reply = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    round_trip = trip({"request": ask(USER), "response": reply}, ask(USER, {"role": "user", "content": "again"}))
    assert len(round_trip.kinds("remove")) == 1
    assert len(round_trip.items) == 2


def test_what_a_request_continues_is_written_out():
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}], "id": "x"}
    response = {
        "id": "resp_1",
        "object": "response",
        "output": [item],
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    first = {"model": "gpt-5", "instructions": "Be brief.", "input": "hello"}
    second = {**first, "input": "and?", "previous_response_id": "resp_1"}
    round_trip = trip({"request": first, "response": response}, second)
    body = round_trip.body(turn=2)
    assert [part["role"] for part in body["input"]] == ["system", "user", "assistant", "user"]
    assert "previous_response_id" not in body


@each([
    ["a text", 7, None, [], {}], [{"role": 7, "content": 8}], [{"content": {"a": 1}}],
    [{"role": "user", "content": [1, "b", None, {"type": 5}]}],
    [{"role": "assistant", "content": [{"type": "tool_use"}]}],
    [{"role": "assistant", "content": ""}, {"role": "user", "content": "  "}, {"role": "user", "content": []}],
    [{"role": "assistant", "content": [USE, USE]}, {"role": "user", "content": [RESULT, RESULT]}],
    [{"role": "user", "content": [RESULT]}, {"role": "system", "content": "s", "name": "n"}],
])  # fmt: skip
def test_odd_messages_are_converted_to_turns(messages):
    bodies = [ask(USER, *messages), ask(USER, *messages, USER)]
    round_trip = trip(*bodies)
    assert round_trip.made.keys() == round_trip.sent.keys()
    assert not round_trip.problems.kept


def test_log_of_long_conversation_grows_linearly():
    talk = [
        {"role": role, "content": f"{role} says {n} " + "x" * 50} for n in range(80) for role in ("user", "assistant")
    ]
    sizes = [trip(*(ask(*talk[:end]) for end in range(1, size, 2))).size for size in (40, 80, 160)]
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


def test_continued_session_begins_with_sent_messages():
    """Nothing is inserted before the messages that the provider has seen; lore's texts follow them."""
    body = ask(USER)
    round_trip = trip(body)
    log = b"".join(dumps(event) + b"\n" for event in round_trip.events)
    more = [{"kind": "append", "item": {"type": "assistant_message", "uuid": "n1", "text": "hi"}},
            {"kind": "append", "item": {"type": "user_message", "uuid": "n2", "text": "more"}},
            {"kind": "turn_started", "turn": 2}]  # fmt: skip
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(log + b"".join(dumps(event) + b"\n" for event in more))
        file.flush()
        recording = Options().open(file.name)
        recording.watchful = True
        _, last = recording.turns()
    request = json.loads(DIALECTS["anthropic"].write(last.prompt))
    assert request["messages"][0] == {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user"]
    assert {key: request[key] for key in ("tools", "max_tokens")} == {key: body[key] for key in ("tools", "max_tokens")}
    assert request["system"][0]["text"] == "Be brief."


def test_requests_convert_to_another_dialect_unchanged_in_content():
    reply = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.json"
        path.write_bytes(dumps(ask(USER, reply, {"role": "user", "content": [RESULT]})))
        recording = session_of(Options(dialect="openai-chat").open(str(path)), "events", hint="")
        assert isinstance(recording, RequestSession)
        [turn] = recording.turns()
    body = json.loads(DIALECTS["openai-chat"].write(turn.prompt))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][3]["content"][0]["text"] == "a.py"


def test_items_have_names_of_their_own_across_dialects():
    """A chain that continues in another dialect had two messages of one name."""
    contents = [{"role": "user", "parts": [{"text": "hello"}]}]
    round_trip = trip(ask(USER), {"model": "gemini-3", "contents": contents})
    names = [event["item"]["uuid"] for event in round_trip.kinds("append") if event.get("chain", "main") == "main"]
    assert len(names) == len(set(names))


def test_tool_name_with_lone_surrogate_converts(tmp_path):
    """Half a surrogate pair as a tool's name ended both as a bug in lore."""
    use = {**USE, "name": "\ud83d"}
    reply = {"role": "assistant", "content": [use]}
    body = json.dumps(ask(USER, reply, {"role": "user", "content": [RESULT]})).encode()
    path = tmp_path / "r.jsonl"
    path.write_bytes(body + b"\n" + body + b"\n")
    written = b"\n".join(map(bytes, convert_recording(Options().open(str(path), Problems(), subagents=True))))
    assert b'"name":"\\\\ud83d"' in written
    assert fold(str(path), Options()).result.turns


def test_text_prompt_is_a_problem_of_the_session(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(dumps({"model": "m", "prompt": "hello", "max_tokens": 90}) + b"\n")
    session = session_of(opened(tmp_path / "a.jsonl"), "", hint="")

    assert list(session.turns()) == []
    assert [problem.code for problem in session.problems.kept] == ["LORE210"]
