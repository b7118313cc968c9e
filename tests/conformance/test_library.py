"""The library in an agent that runs, is killed and continues: it sends the same bytes, without waste."""

import asyncio
import json
import re
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

import lore
from helpers.sdk_fakes import MODELS, TOOLS, Client, blocks_of
from helpers.storing import stored_session
from lore.commands.main import main

SYSTEM = "You read files. " * 300
dialects = pytest.mark.parametrize("dialect", list(MODELS))
TIMES = iter(f"2026-11-20T10:{n // 60:02}:{n % 60:02}Z" for n in range(3600))


def clock():
    return next(TIMES)


def given(dialect):
    return {"system": SYSTEM, "tools": TOOLS, "dialect": dialect, "clock": clock}


def loop(session, client):
    """Ask the model and run its tools until it calls none."""
    while True:
        for call in session.pending_calls():
            session.result(call.call_id, {"ran": call.name, "with": call.input})
        if not session.assistant(client(**session.request(current_time=clock()))).calls:
            return


def assert_extends(sent):
    """Assert that each request extends the previous one, except for its tail."""
    said = [blocks_of(arguments) for arguments in sent]
    for before, after in zip(said, said[1:], strict=False):
        assert after[: len(before)] == before
    return said


@dialects
def test_agent_with_tools_keeps_its_prefix(dialect, tmp_path, capsys):
    session, client = lore.Session(MODELS[dialect], **given(dialect)), Client(dialect)
    for text in ("What is new?", "And now?", "Thanks."):
        session.user(text)
        loop(session, client)
    said = assert_extends(client.sent)
    assert len(said) == 4, "the first question takes a tool loop"
    assert session.problems == []
    log = tmp_path / "agent.jsonl"
    log.write_bytes(session.log())
    assert main(["check", str(log), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["summary"]["turns"], answer["summary"]["waste"], answer["problems"]) == (4, 0, [])
    assert [finding for finding in answer["findings"] if finding["severity"] != "note"] == []
    again = lore.Session.read(log.read_bytes())
    assert again.log() == session.log()
    assert main(["fold", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["usage"]["output_tokens"] == 4 * 9, "the log has the usage"


def test_turns_with_one_response_id_are_compared(tmp_path, capsys):
    """A mocked client gives every answer one id: later turns counted as copies, so no pair was compared."""
    session = lore.Session("claude-opus-5", **given("anthropic"))
    for text in ("What is new?", "And now?", "Thanks."):
        session.user(text)
        session.request()
        content = [{"type": "text", "text": text}]
        session.assistant({"id": "msg_1", "role": "assistant", "content": content, "usage": {"input_tokens": 1}})
    log = tmp_path / "agent.jsonl"
    log.write_bytes(session.log())
    assert main(["check", str(log), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["pairs"] == 2


@dialects
def test_request_arguments_equal_the_written_body(dialect):
    session, client = lore.Session(MODELS[dialect], **given(dialect)), Client(dialect)
    session.user("What is new?")
    loop(session, client)
    session.user("And now?")
    arguments = session.request(current_time="10:00")
    body = session.write(session.unanswered())
    if dialect in ("gemini", "bedrock"):  # they have bytes instead of base64, and a config
        assert set(json.loads(body)) - {"systemInstruction", "tools"} == set(arguments) - {"config"}
    else:
        assert json.dumps(arguments, ensure_ascii=False, separators=(",", ":")).encode() == body
    assert session.request(current_time="later") == arguments, "a call that failed is made again as it was"


GUIDE = Path(lore.__file__).parent / "guide"


@dialects
@pytest.mark.parametrize("page", ["library", "stores"])
def test_guide_agent_continues_after_any_kill(page, dialect, tmp_path, capsys):
    """Two questions, the first with a tool loop: three requests, and one more that is asked again."""
    code = textwrap.dedent(re.search(r"(?ms)^    import lore\n.*?(?=^\S)", (GUIDE / f"{page}.md").read_text())[0])
    options = f'model="{MODELS[dialect]}", dialect="{dialect}"'
    code = code.replace('"sqlite:agent.db"', "url").replace('model="claude-opus-5"', options)
    names = {
        "LIMITS": ("max_tokens", "length"),
        "SYSTEM": SYSTEM, "TOOLS": TOOLS, "FACTS": {"release": "1.0 is out."}, "QUESTIONS": ["What is new?", "Thanks."],
        "now": lambda: "10:00", "run": lambda name, given: f"{name} {given}",
    }  # fmt: skip

    def sent(fatal):
        client = Client(dialect)
        client.fatal, url = fatal, f"sqlite:{tmp_path}/{fatal}.db"
        for _ in range(1 + bool(fatal)):
            with suppress(ConnectionResetError):
                exec(code, scope := names | {"ask": client, "url": url})
                if page == "library":
                    scope["answer"](names["QUESTIONS"], client, url, MODELS[dialect], dialect)
        assert main(["check", f"{url}#demo", "--json"]) == 0
        summary = json.loads(capsys.readouterr().out)["summary"]
        assert (summary["turns"], summary["waste"], len(assert_extends(client.sent))) == (3, 0, 3 + bool(fatal))
        return client.sent

    sizes = [len(json.dumps(request)) for request in sent(None)]
    for fatal in (1, 2, 3):
        killed = sent(fatal)
        assert killed[fatal - 1] == killed[fatal], "the same bytes"
        assert [len(json.dumps(request)) for request in killed] == [*sizes[:fatal], *sizes[fatal - 1 :]]


def test_guide_agent_continues_a_cut_answer():
    page = (GUIDE / "library.md").read_text()
    code = textwrap.dedent(re.search(r"(?ms)^    import lore\n.*?(?=^\S)", page)[0])
    answers = [
        [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Noth"}}]}],
        {"choices": [{"message": {"role": "assistant", "content": "ing"}, "finish_reason": "length"}]},
        {"choices": [{"message": {"role": "assistant", "content": "."}, "finish_reason": "stop"}]},
    ]
    sent = []
    scope = {"LIMITS": ("length",), "SYSTEM": SYSTEM, "TOOLS": TOOLS, "FACTS": {}, "now": lambda: "10:00", "run": None}
    exec(code, scope)
    scope["answer"](["What is new?"], lambda **body: sent.append(body) or answers[len(sent) - 1], "memory:", "gpt-5.5",
                    "openai-chat")  # fmt: skip
    texts = [str(message["content"]) for message in sent[-1]["messages"]]
    assert len(sent) == 3
    assert sum("Continue where" in text for text in texts) == 2


@dialects
def test_finished_tool_call_is_not_repeated_after_kill(dialect, tmp_path):
    url, client = f"jsonl:{tmp_path}/sessions", Client(dialect)
    session = lore.open(url, "demo", model=MODELS[dialect], **given(dialect))
    session.user("What is new?")
    calls = session.assistant(client(**session.request())).calls
    assert [call.name for call in calls] == ["file", "page"]
    session.result(calls[0].call_id, "60 lines")
    session.save()
    session = lore.open(url, "demo", model=MODELS[dialect], **given(dialect))
    assert [call.name for call in session.pending_calls()] == ["page"], "one of two ran"
    assert session.pending_calls()[0].input == {"n": 1.5}


@dialects
def test_asynchronous_methods_keep_the_prefix(dialect, tmp_path):
    async def run():
        client = Client(dialect)
        session = lore.open(f"sqlite:{tmp_path}/agent.db", "demo", model=MODELS[dialect], **given(dialect))

        async def ask(**arguments):
            return client(**arguments)

        for text in ("What is new?", "And now?"):
            session.user(text)
            calls = ("begin",)
            while calls:
                calls = (await session.assistant_async(ask(**await session.request_async(current_time="x")))).calls
                for call in calls:
                    session.result(call.call_id, "done")
        await session.save_async()
        session.close()
        return client.sent

    assert len(assert_extends(asyncio.run(run()))) == 3


def test_first_delta_adds_times_to_low_level_session():
    store = lore.open_store("memory:")
    session = stored_session(store, lore.events.session_started("s"))
    session.apply(lore.events.append(lore.events.user_message("u1", "hi")))
    session.save()
    data = store.load("s")
    assert None not in (data.created_at, data.updated_at, data.leaf_id)
    assert data.created_at.endswith("Z")


def test_begin_turn_is_equal_with_and_without_store():
    kinds = []
    for session in (lore.Session("claude-opus-5"), lore.open("memory:", "s", model="claude-opus-5")):
        session.user("hi")
        begun = session.begin_turn({"current_time": "10:00"}, at="2026-11-20T10:00:00Z")
        kinds.append((type(begun), [type(event) for event in begun.events], begun.events[-1]))
        assert session.unanswered() is not None
        assert begun.prompt == session.unanswered()
    assert kinds[0] == kinds[1]
