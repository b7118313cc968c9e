"""The face of the library: its names, its examples, what importing it costs, and how it looks to a type checker."""

import doctest
import json
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from uuid import UUID

import pydantic
import pytest

import lore
from helpers.sdk_fakes import MODELS
from lore import events, session
from lore.errors import LoreError, Where
from lore.store import session as stored

MODULES = [events.items, events.kinds, session, stored]
NAMES = {**vars(events), "lore": lore, "Session": lore.Session}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_docstring_examples_run(module):
    found = doctest.testmod(module, extraglobs=NAMES, optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed


def test_every_public_function_has_an_example():
    functions = [getattr(events, name) for name in vars(events) if callable(getattr(events, name))]
    methods = [
        getattr(lore.Session, name) for name in ("user", "request", "assistant", "result", "begin_turn", "apply")
    ]
    for made in (
        *functions,
        *methods,
        lore.Session,
        lore.StoredSession,
        lore.open,
        lore.Session.log,
        lore.Session.read,
    ):
        assert ">>>" in (made.__doc__ or ""), made


def test_public_names_exist_and_no_others():
    assert sorted(lore.__all__) == [name for name in sorted(dir(lore)) if not name.startswith("_")]
    for name in lore.__all__:
        assert getattr(lore, name).__doc__, name
    star: dict[str, object] = {}
    exec("from lore import *", star)
    assert star["StoredSession"] is lore.StoredSession
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        _ = lore.Sesion  # type: ignore[attr-defined]
    assert (Path(lore.__file__).parent / "py.typed").exists()


def test_importing_lore_imports_no_room_and_no_sdk():
    code = "import sys, lore; print([name for name in sys.modules if name.startswith('lore.') or name == 'msgspec'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
    code = (
        "import sys, lore\ns = lore.Session('claude-opus-5')\ns.user('hi')\ns.request()\ns.assistant('yo')\n"
        "print([n for n in sys.modules if n.partition('.')[0] in ('anthropic','openai','google','boto3','tiktoken',"
        "'typer','rich','asyncio','sqlite3')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_type_checker_finds_the_marked_mistakes(tmp_path):
    """`tests/typed_sample.py` is what people write; each line that is wrong there is marked, and must be found.

    It is checked in a folder of its own, as by one who installed lore: below the root, `src/lore` hid an installed one.
    """
    checker = Path(sys.executable).with_name("basedpyright")
    if not checker.exists():
        pytest.skip("basedpyright is not installed")
    shutil.copy(Path(__file__).with_name("typed_sample.py"), tmp_path)
    settings = {"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error", "include": ["."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [checker, "--pythonpath", sys.executable], capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert done.stdout.strip().splitlines()[-1].startswith("0 errors, 0 warnings"), done.stdout


@pytest.mark.parametrize(
    ("model", "dialect"),
    [("claude-opus-5", "anthropic"), ("claude-3-5-sonnet@20240620", "anthropic"), ("gemini-3-pro", "gemini"),
     ("models/gemini-3-pro", "gemini"), ("amazon.nova-pro-v1:0", "bedrock"), ("eu.amazon.nova-pro-v1:0", "bedrock"),
     ("us.meta.llama4", "bedrock"), ("mistral-large", "openai-chat")],
)  # fmt: skip
def test_dialect_follows_from_the_model_name(model, dialect):
    assert lore.Session(model).dialect.name == dialect


@pytest.mark.parametrize("model", ["gpt-5.6", "o3", "us.anthropic.claude-opus-5", "my-model", ""])
def test_unclear_model_name_is_an_error_with_hint(model):
    with pytest.raises(LoreError) as caught:
        lore.Session(model)
    assert "openai-chat" in caught.value.hint + caught.value.message or "bedrock" in caught.value.message
    for dialect in MODELS:
        assert lore.Session(model or "m", dialect=dialect).dialect.name == dialect


def test_session_ids_follow_their_beginnings():
    ids = [lore.Session("claude-opus-5", system=system).state.id for system in ("a", "a", "b")]
    assert ids[0] == ids[1] != ids[2]
    timed = [
        lore.Session("claude-opus-5", clock=lambda time=time: time).state.id for time in ("2026-01-01", "2026-01-02")
    ]
    assert timed[0] != timed[1]


def test_reopened_session_records_only_differences(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in "ab"]
    with lore.open(url, "s", model="claude-opus-5", system="one", tools=tools):
        pass

    def kinds():
        return [event.split(b'"')[3].decode() for event in lore.open_store(url).load("s").events]

    with lore.open(url, "s", model="claude-opus-5", system="one", tools=tools[::-1]):
        pass
    assert kinds() == ["session_started"]
    with lore.open(url, "s", model="claude-sonnet-5", system="two") as session:
        session.user("hi")
        assert session.request()["model"] == "claude-sonnet-5"
    assert kinds() == ["session_started", "session_changed", "append", "turn_started"]
    with pytest.raises(LoreError, match="is not served in the dialect anthropic"):
        lore.open(url, "s", model="gemini-3-pro")
    with pytest.raises(lore.StoreError, match="no session 'other'"):
        lore.open(url, "other")


def test_session_continues_in_no_other_dialect(tmp_path):
    url = f"sqlite:{tmp_path}/a.db"
    with lore.open(url, "demo", model="claude-opus-5") as session:
        session.user("hi")
    with pytest.raises(lore.LoreError, match="began in the dialect anthropic, and cannot continue in gemini"):
        lore.open(url, "demo", dialect="gemini")
    with lore.open(url, "demo", dialect="anthropic") as session:
        assert session.user_messages == 1


def test_results_are_recorded_once_and_unknown_calls_named():
    session = lore.Session("claude-opus-5")
    session.user("hi")
    session.request()
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": {}} for n in range(4)]
    session.assistant({"role": "assistant", "content": calls})
    with pytest.raises(LoreError) as caught:
        session.result("tolu_0", "x")
    assert caught.value.hint == "did you mean 'toolu_0'?"
    session.result("toolu_0", {"a": [1]})
    session.result("toolu_0", {"a": [1]})
    with pytest.raises(LoreError, match="another result already"):
        session.result("toolu_0", {"a": [2]})
    session.result("toolu_1", error=ValueError("no such file"))
    session.result("toolu_2", "half of it", error=True)
    session.result("toolu_3", [{"type": "text", "text": "x"}, {"type": "image", "media_type": "a/b", "data": "eA=="}])
    results = session.request()["messages"][2]["content"]
    assert [(one["content"], one.get("is_error", False)) for one in results[:3]] == [
        ('{"a":[1]}', False), ("ValueError: no such file", True), ("half of it", True),
    ]  # fmt: skip
    assert [block["type"] for block in results[3]["content"]] == ["text", "image"]


@pytest.mark.parametrize("output", [OSError("disk full"), {"reason": ValueError("x")}])
def test_exception_as_output_is_refused(output):
    """Its members were sent, `{}`, and the call counted as a success."""
    session = lore.Session("claude-opus-5")
    content = [{"type": "tool_use", "id": "t0", "name": "run", "input": {}}]
    session.assistant({"role": "assistant", "content": content})
    with pytest.raises(lore.LoreError, match="is an exception") as caught:
        session.result("t0", output)
    assert "error=" in caught.value.hint


def test_rows_and_models_are_results_as_json():
    class Row(pydantic.BaseModel):
        type: str = "file"
        owner: str | None = None

    session = lore.Session("claude-opus-5")
    session.user("hi")
    content = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(3)]
    session.assistant({"role": "assistant", "content": content})
    session.result("t0", [{"type": "file", "name": "a.py"}, {"type": "image", "name": "b.png"}], error=None)
    session.result("t1", [Row()])
    session.result("t2", [{"type": "image", "data": "eA==", "mimeType": "image/png"}])  # of MCP
    contents = [one["content"] for one in session.request()["messages"][2]["content"]]
    assert contents[:2] == [
        '[{"type":"file","name":"a.py"},{"type":"image","name":"b.png"}]', '[{"type":"file","owner":null}]',
    ]  # fmt: skip
    assert contents[2][0]["source"]["media_type"] == "image/png"


def test_printed_answer_shows_text_and_calls():
    content = [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t0", "name": "run", "input": {"n": 1}}]
    answer = lore.Session("claude-opus-5").assistant({"role": "assistant", "content": content})
    assert repr(answer).startswith("Reply(text='I look.', calls=[ToolUse(call_id='t0', name='run', input={'n': 1}")


def test_any_given_error_marks_a_result_failed():
    session, _ = _asked()
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(4)]
    uses = session.assistant({"role": "assistant", "content": calls}).calls
    session.result("t0", error="")
    session.result("t1", "half of it", error="boom")
    session.result("t2", [lore.events.text("half of it")], error=ValueError("boom"))
    with pytest.raises(lore.MisuseError, match="give the call's `call_id`"):
        session.result(uses[3], "x")
    session.result(uses[3].call_id, "", error=True)
    results = session.request()["messages"][2]["content"]
    texts = [{"type": "text", "text": "half of it"}, {"type": "text", "text": "ValueError: boom"}]
    assert [one["content"] for one in results] == ["error", "half of it\nboom", texts, "error"]
    assert all(one["is_error"] for one in results)


def test_missing_result_is_requested_without_changing_history():
    session = lore.Session("claude-opus-5")
    session.user("hi")
    session.request()
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": {}} for n in range(2)]
    session.assistant({"role": "assistant", "content": calls})
    session.result("toolu_0", "x")
    with pytest.raises(LoreError, match=r"calls of the last answer have no result: f \(toolu_1\)"):
        session.request()
    session.user("Never mind.")
    before = session.write(session.begin_turn().prompt)
    with pytest.raises(LoreError, match="was sent without a result"):
        session.result("toolu_1", "too late")
    assert session.write(session.unanswered()) == before


def test_after_a_failure_another_turn_begins():
    session = lore.Session("claude-opus-5")
    session.user("hi")
    first = session.request(current_time="1")
    assert session.request(current_time="2") == first
    session.failed(TimeoutError("late"))
    second = session.request(current_time="2")
    assert "2" in second["messages"][-1]["content"][-1]["text"]
    assert session.turn_count == 2
    assert lore.Session.read(session.log()).problems == []


def test_lost_store_answer_does_not_stop_session():
    """The store took the delta and its answer never came; then more was said, and another leaf."""
    from store.harness import Faulty  # noqa: PLC0415

    store = lore.open_store("memory:")
    faulty = Faulty(store)
    session = lore.open(faulty.store, "s", model="claude-opus-5")
    session.user("hi")
    for _ in range(3):
        faulty.after = 1
        with pytest.raises(lore.StoreError):
            session.request()
        session.user("and more")
    faulty.after = 0
    session.request()
    assert lore.Session.read(store.load("s").log).state.main().entries.last().item.uuid == "u4"
    assert store.load("s").leaf_id == "u4"
    assert store.verify().damage == ()


def _asked(**given):
    session = lore.Session("claude-opus-5", **given)
    session.user("What is new?", uuid="u1")
    return session, session.request()


@pytest.mark.parametrize(("misuse", "said"), [
    (lambda: lore.Session("claude-opus-5", system=5), "system is a text, or a list of texts"),
    (lambda: lore.Session("claude-opus-5", tools=5), "tools is an int, expected a list of tools"),
    (lambda: lore.Session("claude-opus-5", sytem="a"), "has no argument 'sytem'\nhint: did you mean 'system'"),
    (lambda: lore.Session("claude-opus-5", params="max_tokens"), "params is a str, expected a mapping"),
    (lambda: lore.Session("claude-opus-5", params={"messages": []}), "'messages' is not a parameter"),
    (lambda: lore.Session("gemini-3-pro", params={"system_instruction": "a"}), "is not a parameter"),
    (lambda: lore.Session("claude-opus-5", tools=[{"nme": "x"}]), "did you mean 'name'"),
    (lambda: lore.Session("claude-opus-5", tools=[{"nick": "x"}]), "a tool has no name: it has nick"),
    (lambda: lore.Session("claude-opus-5", tools=[{"name": "f", "input_schem": {}}]), "did you mean 'input_schema'"),
    (lambda: lore.Session("claude-opus-5", tools=[{"name": "f", "input_schema": {"typ": "object"}}]), "mean 'type'"),
    (lambda: _asked(tools=[{"type": "function", "function": {"name": "f", "paramters": {}}}]), "mean 'parameters'"),
    (lambda: _asked(tools=[{"toolSpec": {"name": "f", "inputSchma": {"json": {}}}}]), "did you mean 'inputSchema'"),
    (lambda: _asked()[0].user([{"type": "tool_result", "tool_use_id": "x"}]), "a block is a tool's result"),
    (lambda: _asked(dialect="openai-responses")[0].user([{"type": "image_url"}]), "belongs to openai-chat"),
    (lambda: lore.events.knowledge("add", "k"), "the entry 'k' has no text"),
    (lambda: lore.events.knowledge("update", "k"), "nothing to update"),
    (lambda: lore.Session.read(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'), "format bodies"),
    (lambda: _asked()[0].user([{"typ": "text", "text": "x"}]), "did you mean 'type'"),
    (lambda: _asked()[0].user([{"text": "x"}]), "a block has no type: it has text"),
    (lambda: lore.open("memory:", "s", mdoel="claude-opus-5"), r"lore.open\(\) has no argument 'mdoel'"),
    (lambda: lore.Rules(tial="user"), "did you mean 'tail'"),
    (lambda: _asked()[0].change(compaction=5), "known: model, system, tools, params, chain"),
    (lambda: _asked(dialect="openai_chat"), "did you mean 'openai-chat'"),
    (lambda: lore.CompactionPolicy(), "give window, continuous_interval or gap_secs"),
    (lambda: lore.Session("claude-opus-5", tools=[{"type": "object"}]), "a tool has no name: it has type"),
    (lambda: lore.Session.read(b"xx"), "not a session log"),
    (lambda: lore.Session("gemini-3-pro", params={"max_tokens": 9}), "'max_tokens' is not a parameter of gemini"),
    (lambda: lore.Session("claude-opus-5", params={"max_output_tokens": 9}), "is not a parameter of anthropic"),
    (lambda: lore.Session("claude-opus-5", rules=lore.Rules(max_loop_turns="3")), "has to be a whole number"),
    (lambda: lore.Rules(ttl="2h"), "ttl is '2h', expected one of 5m, 1h"),
    (lambda: lore.CompactionPolicy(when="now"), r"has no argument 'when'\nhint: (?!.*self)"),
    (lambda: lore.Session("claude-opus-5", clock="2026-01-01"), "clock is a str"),
    (lambda: _asked(clock=lambda: "yesterday"), "the clock returned 'yesterday'"),
    (lambda: lore.Session.read("{}"), "a log is bytes"),
    (lambda: lore.Session("claude-opus-5").request(), "there is no message yet"),
    (lambda: lore.open("memory:", 5, model="claude-opus-5"), "session_id is an int"),
    (lambda: _asked()[0].user("And now?", uuid="u1"), "the uuid 'u1' is another message's already"),
    (lambda: _asked()[0].begin_turn({"memory_recall": [{"titl": "a"}]}), "did you mean 'title'"),
    (lambda: _asked()[0].begin_turn({"working_context": {"project": "a"}}), "did you mean 'project_dir'"),
    (lambda: _asked()[0].begin_turn(at="yesterday"), "at is 'yesterday'"),
    (lambda: _asked()[0].begin_turn(at=0), "at is '0' .an int."),
    (lambda: _asked(params={"temperature": object}), "object is a class, give an object or a mapping"),
    (lambda: _asked()[0].user([{"role": "user", "content": "a"}]), "it is a whole message"),
    (lambda: _asked()[0].user([lore.events.image("image/png", b"a")]), "data is a bytes, expected a text"),
    (lambda: _asked()[0].user([lore.events.image("image/png", "!!!")]), "data is not base64"),
    (lambda: _asked()[0].compact("So far.", keep="6"), "keep is a str"),
    (lambda: _asked()[0].compact("So far.", keep=True), "keep is a bool"),
    (lambda: lore.Session("claude-opus-5", compaction=lore.CompactionPolicy), "compaction is a type, expected a"),
    (lambda: lore.Session("claude-opus-5", compaction=200_000), "compaction is an int, expected a policy"),
])  # fmt: skip
def test_misspelled_argument_is_named_in_the_error(misuse, said):
    with pytest.raises(lore.LoreError, match=said) as caught:
        misuse()
    assert caught.value.hint not in caught.value.message or not caught.value.hint


def test_members_of_providers_are_no_misspellings():
    schema = {"type": "object", "x-order": ["a"], "properties": {"typ": {}, "nme": {}}}
    tool = {"name": "f", "input_schema": schema, "defer_loading": True, "allowed_callers": [], "input_examples": []}
    session, arguments = _asked(tools=[tool, {"google_search": {}}])
    assert arguments["tools"][0].items() >= tool.items()
    session.user([{"type": "container_upload", "file_id": "f1"}, {"type": "text", "text": "x", "vendor": 1}])


@pytest.mark.parametrize("name", ["agent.db", "sqllite:agent.db", "SQLITE3:agent.db"])
def test_wrong_store_url_is_answered_with_right_one(name):
    with pytest.raises(LoreError) as caught:
        lore.open(name, "demo")
    assert caught.value.hint.startswith("did you mean 'sqlite:agent.db'? stores: memory:, ")


def test_traceback_of_an_error_shows_its_hint():
    with pytest.raises(LoreError) as caught:
        lore.Session("claude-opus-5").request()
    lines = "".join(traceback.format_exception_only(caught.value)).splitlines()
    assert lines[-1] == f"hint: {caught.value.hint}" == "hint: `session.user(…)` first"
    for kind in (LoreError, lore.MisuseError):
        error = kind("the name is wrong", hint="give one", where=Where("a.toml", 3))
        assert str(error) == "the name is wrong (a.toml:3)\nhint: give one"
        assert str(kind("a.toml is wrong", where=Where("a.toml"))) == "a.toml is wrong"


def test_bytes_and_cut_streams_are_refused():
    session, _ = _asked()
    whole = [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "t1", "name": "remove", "input": {}}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "input_json_delta", "partial_json": '{"path": "/tmp/scratch"}'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    ]  # fmt: skip
    with pytest.raises(lore.LoreError, match="the stream ended within a call"):
        session.assistant(iter(whole[:3]))
    assert session.assistant(iter(whole)).calls[0].input == {"path": "/tmp/scratch"}
    with pytest.raises(lore.MisuseError, match="output is bytes"):
        session.result("t1", b"gone")


@pytest.mark.parametrize(("dialect", "chunks"), [
    ("anthropic", [
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Noth"}},
    ]),
    ("openai-chat", [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Noth"}}]}]),
    ("openai-responses", [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "No"},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "th"},
    ]),
])  # fmt: skip
def test_cut_stream_keeps_text_and_adds_problem(dialect, chunks):
    session, _ = _asked(dialect=dialect)
    assert session.assistant(chunks).text == "Noth"
    assert [problem.message for problem in session.problems] == [
        "the stream ended before the answer did: the text until then was taken as the answer"
    ]


def test_cut_thinking_without_signature_is_dropped():
    session, _ = _asked()
    reply = session.assistant([
        {"type": "message_start", "message": {"role": "assistant", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "thinking", "thinking": "So", "signature": ""}},
    ])  # fmt: skip
    assert (reply.parts, reply.is_cut) == ((), True)


@pytest.mark.parametrize(("dialect", "answer"), [
    ("openai-responses", {"object": "response", "status": "failed", "error": {"message": "busy"}, "output": []}),
    ("openai-responses", [{"type": "response.failed", "response": {"status": "failed", "error": {"message": "busy"}}}]),
    ("openai-chat", {"choices": [{"finish_reason": "error", "error": {"message": "busy"}, "message": {}}]}),
])  # fmt: skip
def test_answer_with_an_error_is_refused(dialect, answer):
    session, _ = _asked(dialect=dialect)
    with pytest.raises(lore.LoreError, match="the provider answered with an error: busy"):
        session.assistant(answer)


def test_parameter_that_was_not_given_is_left_out():
    _, arguments = _asked(params={"temperature": type("NotGiven", (), {})()})
    assert "temperature" not in arguments


def test_uuid_object_becomes_its_text():
    session = lore.Session("claude-opus-5", session_id=UUID(int=1))
    assert session.user("hi", uuid=UUID(int=2)) == str(UUID(int=2))
    assert session.request()["messages"]


def test_cut_call_of_responses_is_refused():
    session, _ = _asked(dialect="openai-responses")
    with pytest.raises(lore.LoreError, match="the stream ended within a call"):
        session.assistant([
            {"type": "response.created", "response": {"status": "in_progress", "output": []}},
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{"},
        ])  # fmt: skip


@pytest.mark.parametrize("members", [
    {}, {"type": "message", "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 2}},
])  # fmt: skip
def test_anthropic_message_may_be_a_text(members):
    session, _ = _asked()
    reply = session.assistant({"role": "assistant", "content": "Nothing.", **members})
    assert reply.text == "Nothing."
    assert reply.stop_reason == members.get("stop_reason")
    assert (reply.usage is not None) is bool(members)
