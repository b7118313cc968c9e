"""Recorded requests as a session: folded, and given back to the byte."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.strategies.bodies import DIALECTS as NAMES
from helpers.strategies.bodies import conversations, places_for_breakpoints, with_breakpoints
from helpers.strategies.spelling import Style, write
from lore.errors import LoreError
from lore.model import events as e
from lore.model.items import AssistantMessage, CompactDivider, ToolCall, UserMessage
from lore.model.turn import Exchange, Memo, Turn
from lore.prompt.dialects import DIALECTS
from lore.recording.base import Problems
from lore.recording.converting import convert
from lore.recording.corpus import Name
from lore.recording.opening import Options
from lore.recording.request_session import MARKS, WRITTEN_OUT, RequestEvents, RequestSession, session_of
from lore.recording.requests import RequestRecording
from lore.run.folding import fold
from model.making import dumps

USER = {"role": "user", "content": "hello"}
TOOL = {"name": "ls", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "a.py"}


def asked(*messages, **members):
    return {"model": "claude-opus-5", "max_tokens": 900, "tools": [TOOL], "system": "Be brief.",
            "messages": [*messages], **members}  # fmt: skip


def opened(path):
    recording = Options().open(str(path))
    assert isinstance(recording, RequestRecording)
    return recording


class Trip:
    """Requests, the log that they were converted to, and the bodies that it is assembled to."""

    def __init__(self, data: bytes, name: str = "b.jsonl") -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.path, made = Path(folder) / name, Path(folder) / "made.jsonl"
            self.path.write_bytes(data)
            self.sent = {(turn.chain, turn.number): one.body for one, turn in opened(self.path).exchanges() if turn}
            conversion = convert(Name(str(self.path)), Options(), Problems())
            made.write_bytes(b"".join(conversion.lines))
            self.events = [json.loads(line) for line in made.read_bytes().splitlines()]
            self.size, self.unkept = made.stat().st_size, dict(conversion.unkept)
            self.problems = Problems()
            recording = Options().open(str(made), self.problems)
            recording.watchful = True
            self.words, self.made = {}, {}
            for turn in recording.turns():
                self.words[turn.chain, turn.number] = turn.unkept
                self.made[turn.chain, turn.number] = DIALECTS[turn.dialect].write(turn.prompt)
            self.state = recording.state
            self.turns = fold(str(self.path), Options()).result.turns

    def check(self, *allowed: str) -> None:
        """Every body is what it was, or the log says in what it differs."""
        assert not self.problems.kept
        assert self.made.keys() == self.sent.keys()
        for name, body in self.sent.items():
            assert (self.made[name] == body) is not bool(self.words[name])
            assert set(self.words[name]) <= set(allowed)

    @property
    def items(self):
        return [entry.item for entry in self.state.main().entries]

    def kinds(self, *kinds):
        return [event for event in self.events if event["kind"] in kinds]


def trip(*bodies):
    return Trip(b"".join(dumps(body) + b"\n" for body in bodies))


@settings(max_examples=60)
@given(st.data())
def test_every_request_of_every_dialect_is_given_back_to_the_byte(data):
    """But for a breakpoint that stands inside a tool's result: it is the result's, and written behind it."""
    style = data.draw(
        st.builds(Style, reverse=st.booleans(), spaced=st.just(value=False), escapes=st.sampled_from(["few", "ascii"]))
    )
    bodies = data.draw(conversations(NAMES))
    made = []
    for body in bodies:
        places = range(0 if "contents" in body else len(places_for_breakpoints(body)))
        chosen = data.draw(st.sets(st.sampled_from(places), max_size=3)) if places else set()
        made.append(write(with_breakpoints(body, chosen, first=data.draw(st.booleans())), style))
    Trip(b"\n".join(made) + b"\n").check(MARKS)


@settings(max_examples=15)
@given(conversations(NAMES))
def test_white_space_behind_commas_and_colons_is_given_back(bodies):
    Trip(b"".join(json.dumps(body).encode() + b"\n" for body in bodies)).check()


def test_what_a_request_adds_are_items_and_what_it_called_is_a_call():
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    found = trip(asked(USER), asked(USER, said, {"role": "user", "content": [RESULT, {"type": "text", "text": "so?"}]}))
    found.check()
    user, spoken, call, more = found.items
    assert [type(item) for item in (user, spoken, more)] == [UserMessage, AssistantMessage, UserMessage]
    assert isinstance(call, ToolCall)
    assert (call.name, call.status, bytes(call.output)) == ("ls", "completed", b'"a.py"')
    assert [turn.turn for turn in found.turns] == [1, 2]


def test_a_call_whose_results_stand_elsewhere_stays_a_block_where_it_was():
    said = {"role": "assistant", "content": [USE, {**USE, "id": "t2"}]}
    swapped = {"role": "user", "content": [{**RESULT, "tool_use_id": "t2"}, RESULT]}
    found = trip(asked(USER, said, swapped), asked(USER, said, {"role": "user", "content": "no"}))
    found.check()
    assert not [item for item in found.items if isinstance(item, ToolCall)]


def test_a_rewind_takes_items_back_and_announces_nothing():
    found = trip(asked(USER, {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}),
                 asked(USER, {"role": "assistant", "content": "a"}, {"role": "user", "content": "c"}))  # fmt: skip
    found.check()
    assert [event["observed"] for event in found.kinds("remove")] == [True]
    assert [turn.changes for turn in _turns(found)] == [(), ()]


def _turns(found):
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(dumps(event) + b"\n" for event in found.events))
        file.flush()
        return list(Options().open(file.name).turns())


def test_a_summary_in_the_place_of_a_history_is_a_compaction():
    summary = "This session is being continued from a previous conversation. It went so: the parser was read."
    talk = [USER, {"role": "assistant", "content": "a long answer"}, {"role": "user", "content": "go on"}]
    found = trip(asked(*talk), asked({"role": "user", "content": summary}))
    found.check()
    assert [event["trigger"] for event in found.kinds("compact_applied")] == ["auto"]
    assert any(isinstance(item, CompactDivider) and item.pruned == 3 for item in found.items)


def test_a_result_that_was_rewritten_is_sent_as_it_was():
    said = {"role": "assistant", "content": [USE]}
    old, new = ({"role": "user", "content": [{**RESULT, "content": text}]} for text in ("a.py", "[cleared]"))
    found = trip(asked(USER, said, old), asked(USER, said, new, {"role": "assistant", "content": "ok"}, USER))
    found.check()
    assert [bytes(item.output) for item in found.items if isinstance(item, ToolCall)] == [b'"[cleared]"']


def test_what_else_differs_is_a_change_that_nobody_announced():
    other = {**TOOL, "name": "cat"}
    found = trip(asked(USER), asked(USER, {"role": "assistant", "content": "a"}, USER, tools=[TOOL, other], system="B",
                                    max_tokens=10, stream=True))  # fmt: skip
    found.check()
    [change] = found.kinds("session_changed")
    assert (change["observed"], change["system"], len(change["tools"]), change["params"]["stream"]) == (
        True,
        "B",
        2,
        True,
    )


def test_bills_times_and_failures_are_turns():
    usage = {"input_tokens": 4, "cache_read_input_tokens": 100, "output_tokens": 7}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    found = trip({"request": asked(USER), "status": 529, "ts": 1767225600},
                 {"request": asked(USER), "response": {**said, "usage": usage}, "ts": 1767225601.5})  # fmt: skip
    found.check()
    assert [(turn.state, turn.read_tokens) for turn in found.turns] == [("failed", None), ("completed", 100)]
    assert found.turns[1].started_at == "2026-01-01T00:00:01.500000+00:00"
    assert [bytes(item.blocks[0].text) for item in found.items if isinstance(item, AssistantMessage)] == [b'"hi"']


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_calendar_holds_in_utc_is_none(time):
    """It ended `lore convert` and `lore fold` with exit code 70: the log writes times in UTC."""
    found = trip({"request": asked(USER), "ts": time})
    found.check()
    assert found.turns[0].started_at is None


def test_an_answer_that_the_next_request_leaves_out_was_said_and_taken_back():
    said = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]}
    found = trip({"request": asked(USER), "response": said}, asked(USER, {"role": "user", "content": "again"}))
    found.check()
    assert len(found.kinds("remove")) == 1
    assert len(found.items) == 2


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
    found = trip({"request": first, "response": response}, second)
    found.check(WRITTEN_OUT)
    assert [*found.unkept] == [(WRITTEN_OUT,)]
    body = json.loads(found.made["main", 2])
    assert [part["role"] for part in body["input"]] == ["user", "assistant", "user"]
    assert "previous_response_id" not in body


def test_chains_of_a_capture_are_chains_of_the_session():
    title = {"model": "claude-haiku-4-5", "max_tokens": 9, "system": "You are a title generator.",
             "messages": [{"role": "user", "content": "Write a title for this conversation"}]}  # fmt: skip
    found = trip(asked(USER), title, asked(USER, {"role": "assistant", "content": "a"}, USER))
    found.check()
    assert {name: chain.turns for name, chain in found.state.chains.items()} == {"main": 2, "utility-2": 1}


@pytest.mark.parametrize(
    "messages",
    [
        ["a text", 7, None, [], {}], [{"role": 7, "content": 8}], [{"content": {"a": 1}}],
        [{"role": "user", "content": [1, "b", None, {"type": 5}]}],
        [{"role": "assistant", "content": [{"type": "tool_use"}]}],
        [{"role": "assistant", "content": ""}, {"role": "user", "content": "  "}, {"role": "user", "content": []}],
        [{"role": "assistant", "content": [USE, USE]}, {"role": "user", "content": [RESULT, RESULT]}],
        [{"role": "user", "content": [RESULT]}, {"role": "system", "content": "s", "name": "n"}],
    ],
)  # fmt: skip
def test_odd_messages_are_given_back_or_said_to_differ(messages):
    bodies = [asked(USER, *messages), asked(USER, *messages, USER)]
    found = trip(*bodies)
    assert found.made.keys() == found.sent.keys()
    assert all((found.made[name] == body) is not bool(found.words[name]) for name, body in found.sent.items())


def test_the_log_of_a_long_conversation_grows_with_what_is_new():
    talk = [
        {"role": role, "content": f"{role} says {n} " + "x" * 50} for n in range(80) for role in ("user", "assistant")
    ]
    sizes = [trip(*(asked(*talk[:end]) for end in range(1, size, 2))).size for size in (40, 80, 160)]
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])


def test_a_session_that_goes_on_begins_with_what_was_sent():
    """Nothing is inserted before what the provider has seen, and lore's own words come behind it."""
    body = asked(USER)
    found = trip(body)
    log = b"".join(dumps(event) + b"\n" for event in found.events)
    more = [{"kind": "append", "item": {"type": "assistant_message", "uuid": "n1", "text": "hi"}},
            {"kind": "append", "item": {"type": "user_message", "uuid": "n2", "text": "more"}},
            {"kind": "turn_started", "turn": 2}]  # fmt: skip
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(log + b"".join(dumps(event) + b"\n" for event in more))
        file.flush()
        recording = Options().open(file.name)
        recording.watchful = True
        _, last = recording.turns()
    made = json.loads(DIALECTS["anthropic"].write(last.prompt))
    assert made["messages"][0] == USER
    assert [message["role"] for message in made["messages"]] == ["user", "assistant", "user"]
    assert {key: made[key] for key in ("system", "tools", "max_tokens")} == {
        key: body[key] for key in ("system", "tools", "max_tokens")
    }


def test_in_another_dialect_it_says_the_same():
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "b.json"
        path.write_bytes(dumps(asked(USER, said, {"role": "user", "content": [RESULT]})))
        recording = session_of(Options(dialect="openai-chat").open(str(path)), "events", hint="")
        assert isinstance(recording, RequestSession)
        [turn] = recording.turns()
    body = json.loads(DIALECTS["openai-chat"].write(turn.prompt))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert body["messages"][3]["content"][0]["text"] == "a.py"


def test_what_holds_no_request_is_no_session(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"model":"m","messages":{}}')
    with pytest.raises(LoreError):
        list(convert(Name(str(path)), Options(), Problems()).lines)


def test_every_field_of_a_recorded_request_is_read_back():
    started = e.TurnStarted(
        turn=3, breakpoints=(e.Mark(1, e.Raw(b"{}"), -2),), call=e.Call(endpoint="h/v1", betas=("b",), status=200),
        unkept=("x",), given_up="main",
    )  # fmt: skip
    data = e.encode(e.SessionStarted(session_id="s")) + b"\n" + e.encode(started) + b"\n"
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        assert [read.value for read in Options().open(file.name).reads()][1] == started


# Numbers began anew, and two messages of the chain had one name.
def test_names_go_on_where_a_chain_goes_on_in_another_dialect():
    made, names = RequestEvents("bodies", Counter()), []
    for number, dialect in enumerate(("anthropic", "openai-chat"), 1):
        body = dumps({"model": "m", "messages": [{"role": "user", "content": dialect}]})
        turn = Turn("main", number, DIALECTS[dialect].parse(body, "wire", Memo()))
        events = made.take(Exchange(body, "wire"), turn)
        names += [event.item.uuid for event in events if isinstance(event, e.Append)]
    assert names == ["m1", "m2"]


def test_a_tool_that_is_named_by_half_a_character_is_converted_and_folded(tmp_path):
    """Half a surrogate pair as a tool's name ended both as a bug in lore."""
    use = {**USE, "name": "\ud83d"}
    said = {"role": "assistant", "content": [use]}
    body = json.dumps(asked(USER, said, {"role": "user", "content": [RESULT]})).encode()
    path = tmp_path / "r.jsonl"
    path.write_bytes(body + b"\n" + body + b"\n")
    written = b"\n".join(map(bytes, convert(Name(str(path)), Options(), Problems()).lines))
    assert b'"name":"\\\\ud83d"' in written
    assert fold(str(path), Options()).result.turns
