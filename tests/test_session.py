"""The library: a session that an agent keeps."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from helpers.states import dump_state, restored
from lore import Session, events
from lore.errors import LoreError, MisuseError
from lore.events import knowledge
from lore.model.events import ContextPersisted, PromptDelta, TurnStarted, encode
from lore.prompt.base import Rules
from lore.prompt.dialects.template import JinjaTemplate
from lore.store.session import open_session
from model.making import event


def user(uuid, text):
    return event("append", item={"type": "user_message", "uuid": uuid, "text": text})


def begun(**fields):
    return restored([event("session_started", session_id="s-1", model="claude-opus-5", **fields)])


@pytest.mark.parametrize(("settings", "said"), [
    ({"tail": "bottom"}, "tail is 'bottom', expected one of system, user, persist"),
    ({"breakpoints": "all"}, "breakpoints is 'all', expected one of lore, recorded, none"),
    ({"ttl": "1d"}, "ttl is '1d', expected one of 5m, 1h"),
    ({"ttl": "1h"}, "head_ttl must not be shorter than ttl: a longer-lived breakpoint comes first"),
    ({"knowledge_tokens": 0}, "knowledge_tokens must be at least 1"),
])  # fmt: skip
def test_impossible_rules_are_an_error(settings, said):
    with pytest.raises(LoreError) as caught:
        Rules(**settings)
    assert caught.value.message == said


def test_unknown_dialect_error_names_the_known_ones():
    with pytest.raises(LoreError) as caught:
        Session(dialect="klingon")
    assert caught.value.hint.endswith("anthropic, openai-chat, openai-responses, gemini, template")


@pytest.mark.parametrize("context", [{"current_time": 5}, {"memory_recall": [1]}, {"working_context": ["a"]}])
def test_context_of_wrong_type_is_refused(context):
    session = begun()
    session.apply(user("u1", "hello"))
    before = dump_state(session.state)
    with pytest.raises(LoreError, match="context "):
        session.begin_turn(context)
    assert dump_state(session.state) == before


def test_tools_without_an_order_are_ordered_by_name():
    tools = {name: {"name": name, "input_schema": {}} for name in ("write", "read")}
    body = json.loads(Session().write(Session("claude-opus-5", tools=tools).assembled().prompt))
    assert [one["name"] for one in body["tools"]] == ["read", "write"]


def test_problems_of_a_restored_log_are_counted():
    session = begun()
    odd = PromptDelta(seq=0, selector=event("opaque", record={"target": "system"}).record)  # type: ignore[union-attr]
    assert [one.code for one in session.apply(odd)] == ["LORE214"]
    session.apply(event("knowledge", op="update", id="nobody", content="x"))
    assert [one.code for one in session.problems] == ["LORE214", "LORE204"]


def test_context_in_history_is_not_repeated():
    """A log written under `persist` and opened under `user` once said the last turn's context twice."""
    session = Session(rules=Rules(tail="persist"))
    log = [event("session_started", session_id="s", model="m"), user("u1", "hello")]
    for one in log:
        session.apply(one)
    log += session.begin_turn({"current_time": "09:00"}).events
    assert [type(one) for one in log[2:]] == [ContextPersisted, TurnStarted]
    again = restored(log, rules=Rules(tail="user"))
    assert again.write(again.assembled().prompt).count(b"09:00") == 1


def test_turn_refused_by_template_changes_nothing():
    """Its events were applied once, and lost: every later turn failed on an unsent context."""
    refuses = "{% for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('no') }}{% endif %}{% endfor %}ok"
    session = Session(dialect=JinjaTemplate(refuses), rules=Rules(tail="persist"))
    for one in (event("session_started", session_id="s", model="m"), user("u1", "hello")):
        session.apply(one)
    before = dump_state(session.state)
    with pytest.raises(LoreError, match="no"):
        session.begin_turn({"current_time": "bad"})
    assert dump_state(session.state) == before
    assert [type(one) for one in session.begin_turn({"current_time": "good"}).events] == [ContextPersisted, TurnStarted]


@pytest.mark.parametrize("late", [False, True], ids=["before the turn", "saved later"])
@pytest.mark.parametrize("policy", ["system", "persist"])
def test_saved_prompt_holds_under_other_settings(policy, late):
    """Other settings once derived other words for a turn that was sent, and kept those."""
    session, log = Session(rules=Rules(tail=policy, knowledge_tokens=20)), []

    def keep(one):
        session.apply(one)
        log.append(one)

    keep(event("session_started", session_id="s", model="m"))
    sent = []
    for number in (1, 2, 3):
        keep(user(f"u{number}", f"ask {number}"))
        prompt, events = session.begin_turn({"current_time": f"0{number}:00"})
        log += events
        sent.append([one.data for one in prompt][: prompt.stable])
        keep(event("knowledge", op="add", id=f"k-{number}", title=f"T{number}", content="what is known " * 20))
    saved = [one for one in log if isinstance(one, PromptDelta | ContextPersisted)]
    if late:
        log = [*(one for one in log if one not in saved), *saved]
    data = b"".join(encode(one) + b"\n" for one in log)
    again = Session.read(data, rules=Rules(tail=policy, knowledge_tokens=4000))
    assert again.problems == []
    again.apply(user("u4", "ask 4"))
    prompt = [one.data for one in again.begin_turn().prompt]
    assert prompt[: len(sent[-1])] == sent[-1]
    assert prompt[: len(sent[0])] == sent[0]


def test_persisted_context_goes_with_its_message():
    session = Session(rules=Rules(tail="persist", breakpoints="none"))
    session.apply(event("session_started", session_id="s", model="m"))
    for number in (1, 2, 3):
        session.apply(user(f"u{number}", f"ask {number}"))
        session.begin_turn({"current_time": f"0{number}:00"})
        session.apply(event("append", item={"type": "assistant_message", "uuid": f"a{number}", "text": "so"}))
    session.apply(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u2", "a3"], summary="before"))
    session.apply(user("u4", "ask 4"))
    body = json.loads(session.write(session.begin_turn({"current_time": "04:00"}).prompt))
    said = [block["text"].removeprefix("[current-time]\n") for one in body["messages"] for block in one["content"]]
    assert said == ["before", "02:00", "ask 2", "so", "04:00", "ask 4"]


def test_missing_id_is_not_a_removal():
    """An id from another system's delta that this log never had was taken for a removal by ranking."""
    session = begun()
    for one in (user("u1", "hello"), event("turn_started", turn=1), user("u2", "and now?")):
        session.apply(one)
    told = {"target": "messages", "insert_at": 1, "mut": {"changed": [{"id": "elsewhere", "h": "1"}], "removed": []}}
    session.apply(event("prompt_delta", seq=0, selector=told, content=[{"role": "user", "text": "told"}]))
    prompt, events = session.begin_turn()
    assert [type(one) for one in events] == [TurnStarted]
    assert b"told" in session.write(prompt)
    session.apply(event("knowledge", op="add", id="elsewhere", title="T"))
    session.apply(event("knowledge", op="remove", id="elsewhere"))
    session.apply(user("u3", "so?"))
    prompt, events = session.begin_turn()
    assert b"Superseded" in session.write(prompt)


def test_too_long_event_is_refused():
    with pytest.raises(LoreError, match="12 MiB"):
        events.user_message("u1", "x" * (12 * 1024 * 1024))


TOOLS = [{"name": "read", "description": "d", "input_schema": {"type": "object"}}]


def called(*names):
    """Return an answer that calls these tools."""
    blocks = [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in names]
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use", "usage": usage}


def talked(exchanges, **fields):
    session = Session("claude-opus-5", system="x", tools=TOOLS, **fields)
    for number in range(exchanges):
        session.user(f"question {number}")
        session.request()
        session.assistant(f"answer {number}")
    return session


def spoken(session):
    """Return the texts and call ids of the next request, by message."""
    messages = session.request()["messages"]
    return [
        [block.get("text") or block.get("id") or block["tool_use_id"] for block in one["content"]] for one in messages
    ]


def test_compact_keeps_recent_messages():
    session = talked(4)
    assert session.compact("The user asked.", keep=2) == 6
    session.user("question 4")
    assert spoken(session) == [["The user asked."], ["question 3"], ["answer 3"], ["question 4"]]
    assert Session.read(session.log()).state == session.state


def test_messages_are_the_conversation_after_a_compaction():
    session = talked(3)
    session.compact("So far.", keep=2)
    session.user("And now?")
    session.request()
    session.assistant(called("c1", "c2"))
    session.result("c1", [{"type": "text", "text": "60 lines"}])
    session.result("c2", error="no such file")
    messages = [(message.role, message.text) for message in session.messages()]
    assert messages[0] == ("summary", "So far.")
    assert messages[-3:] == [("user", "And now?"), ("tool", "60 lines"), ("tool", "no such file")]
    assert session.messages()[-1].item.name == "read"
    assert session.messages("no such chain") == ()


def test_compact_in_a_tool_loop_keeps_the_question():
    session = talked(3)
    session.user("read them all")
    for number in range(4):
        session.request()
        session.assistant(called(f"a{number}", f"b{number}"))
        for name in (f"a{number}", f"b{number}"):
            session.result(name, "text")
    assert session.compact("Three files were read.", keep=1) == 12
    assert spoken(session) == [["Three files were read."], ["read them all"], ["a3", "b3"], ["a3", "b3"]]


def test_compact_refuses_open_calls():
    session = talked(3)
    session.user("read")
    session.request()
    session.assistant(called("c1"))
    before = session.log()
    with pytest.raises(LoreError, match=r"calls have no result: read \(c1\)") as caught:
        session.compact("So far.", keep=1)
    assert "session.result" in caught.value.hint
    assert session.log() == before
    session.result("c1", "text")
    assert session.compact("So far.", keep=1) == 6


def test_compact_keeps_unanswered_messages():
    session = talked(2)
    for text in ("first", "second"):
        session.user(text)
    assert session.compact("So far.", keep=1) == 4
    assert spoken(session) == [["So far."], ["first"], ["second"]]


def test_compact_of_a_short_session_is_refused():
    session = talked(1)
    before = session.log()
    with pytest.raises(LoreError, match=r"no message can be removed \(keep=6\)"):
        session.compact("So far.")
    assert session.log() == before


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [({"summary": " "}, "needs a summary"), ({"summary": "s", "keep": 0}, "at least one message")],
)
def test_compact_refuses_invalid_arguments(arguments, fault):
    with pytest.raises(MisuseError, match=fault):
        talked(3).compact(**arguments)


@pytest.mark.parametrize(("dialect", "lost"), [("anthropic", 0), ("openai-chat", 1), ("gemini", 1)])
def test_image_omitted_by_the_dialect_is_a_problem(dialect, lost):
    session = Session("m", dialect=dialect)
    for number in range(2):
        session.user("Make a shot.")
        session.request()
        call = events.tool_call(f"t{number}", f"c{number}", "shot")
        session.apply(events.append(call))
        session.result(f"c{number}", [events.text("done"), events.image("image/png", "iVBORw0=")])
        session.request()
    found = [problem.message for problem in session.problems if "image in a tool result" in problem.message]
    assert len(found) == lost


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"])
def test_compact_keeps_the_head_of_requests(dialect):
    session = Session("claude-opus-5", system="x", tools=TOOLS, dialect=dialect)
    bodies = []
    for number in range(4):
        session.user(f"question {number}")
        prompt, _ = session.begin_turn()
        bodies.append(prompt)
        session.assistant(f"answer {number}")
    session.compact("So far.", keep=2)
    session.user("and now?")
    prompt, _ = session.begin_turn()
    assert [segment.data for segment in prompt.head] == [segment.data for segment in bodies[-1].head]
    assert b"So far." in session.write(prompt)
    assert b"question 0" not in session.write(prompt)


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
def test_messages_of_four_threads_are_all_kept(stored):
    session = open_session("memory:", "s", model="claude-opus-5") if stored else Session("claude-opus-5")

    def write(number):
        for message in range(50):
            session.user(f"message {number}.{message}")
            if stored:
                session.save()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert sum(len(message["content"]) for message in session.request()["messages"]) == 200
    assert session.log().count(b'"user_message"') == 200


def test_result_of_a_compacted_call_is_explained():
    session = Session("claude-opus-5")
    session.assistant({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}]})
    session.apply(event("compact_applied", uuid="d1", trigger="manual", summary="S"))
    with pytest.raises(LoreError, match="no call 'c1'") as caught:
        session.result("c1", "ok")
    assert "a compaction" in (caught.value.hint or "")


def test_restored_open_turn_gets_no_second_delta():
    """What one delta left waiting came with a second one when the session was read in the same turn again."""
    session = Session("claude-opus-5", rules=Rules(knowledge_tokens=30))
    session.user("one")
    session.request()
    session.assistant("yes")
    session.apply(*[knowledge("add", f"k{number}", content=f"{number} " * 40) for number in range(9)])
    session.user("two")
    sent = session.request()
    assert Session.read(session.log(), rules=session.rules).request() == sent


EMPTY_ANSWERS = {
    "anthropic": {"role": "assistant", "content": [], "stop_reason": "end_turn"},
    "openai-chat": {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "length"}]},
    "openai-responses": {"object": "response", "output": []},
    "gemini": {"candidates": [{"finishReason": "MAX_TOKENS"}]},
}


@pytest.mark.parametrize("dialect", list(EMPTY_ANSWERS))
def test_user_is_next_after_an_empty_answer(dialect):
    session = Session("claude-opus-5", dialect=dialect)
    session.user("Any news?")
    session.request()
    session.assistant(EMPTY_ANSWERS[dialect])
    assert session.waits_for() == "user"
    session.user("And now?")
    assert session.waits_for() == "model"


def test_model_is_next_after_a_failed_request():
    session = Session("claude-opus-5")
    session.user("Any news?")
    session.request()
    session.failed("overloaded")
    assert session.waits_for() == "model"


def test_model_is_next_after_a_paused_turn():
    session = Session("claude-opus-5")
    session.user("Any news?")
    session.request()
    search = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "news"}}
    session.assistant({"type": "message", "role": "assistant", "content": [search], "stop_reason": "pause_turn"})
    assert session.waits_for() == "model"
    assert session.request(current_time="09:00")["messages"][-1]["role"] == "assistant"


@pytest.mark.parametrize(("name", "nearest"), [("max_tokns", "max_tokens"), ("temprature", "temperature")])
def test_misspelled_parameter_names_the_nearest(name, nearest):
    with pytest.raises(MisuseError, match=nearest):
        Session("claude-opus-5", params={name: 1})
    Session("claude-opus-5", params={"top_k": 1, "speed": "fast", "prune_thinking": True, "reasoning_format": "hidden"})


@pytest.mark.parametrize("tool", [
    {"name": "grep", "input_schema": {}}, {"type": "function", "function": {"name": "grep"}},
    {"toolSpec": {"name": "grep", "inputSchema": {"json": {}}}},
])  # fmt: skip
def test_two_tools_of_one_name_are_refused(tool):
    with pytest.raises(MisuseError, match="two tools have the name 'grep'"):
        Session("claude-opus-5", tools=[tool] * 2)
