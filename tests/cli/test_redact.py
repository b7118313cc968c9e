"""`--redact`: whatever a recording says, and wherever, no output holds it.

A canary is planted at places of recordings of every kind: in each text, instead of each value, and as the name
of each member; all at once, and one at a time at every `EVERY`th place (ten times as many in `make soak`). Then every
report, the log, the errors and the baseline are searched.
"""

import copy
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.running import lore, put
from formats import cline, codex, copilot, kimi, opencode, pi, qwen
from formats import gemini as gemini_log
from formats.claude import answered, asked, counts, result, text, use
from helpers.matrix import crossed, some
from helpers.plugins import has_plugin
from hostile import captured
from model.making import call, header, record, said, user

CANARY = "zEiSiG"  # in no name of a test: outputs name its folder
WORDS = f'{CANARY} 12:30 {CANARY}.{CANARY}[3] "{CANARY}"'
EVERY = 90  # of logs of agents, which the same events are made of, every third of these
HOW = ("text", "value", "member", "more")
KINDS = ("terminal", "json", "jsonl", "markdown", "junit", "sarif", "github")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string", "enum": ["a"]}}, "required": ["path"]}


def requests(first, second):
    at = "2026-01-01T00:0{}:00Z"
    usage = {"input_tokens": 4, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9000, "output_tokens": 1}
    return [
        {"request": request, "usage": usage, "timestamp": at.format(n)} for n, request in enumerate((first, second))
    ]


def anthropic():
    tool = {"name": "read", "description": "Read.", "input_schema": SCHEMA}
    block = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a", "depth": {"x": ["y"]}}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, block]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "done"}]},
    ]
    base = {"model": "m", "max_tokens": 99, "metadata": {"user_id": "u"}, "tools": [tool],
            "system": [{"type": "text", "text": "Be brief."}]}  # fmt: skip
    return requests({**base, "messages": messages[:1]}, {**base, "messages": messages})


def openai_chat():
    tool = {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": SCHEMA}}
    calls = [{"id": "t1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a"}'}}]
    messages: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "t1", "content": "done"},
    ]
    base = {"model": "m", "tools": [tool], "user": "u", "response_format": {"type": "text"}}
    return requests({**base, "messages": messages[:2]}, {**base, "messages": messages})


def openai_responses():
    tool = {"type": "function", "name": "read", "description": "Read.", "parameters": SCHEMA}
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "go"}]},
        {"type": "function_call", "call_id": "t1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "done"},
    ]
    base = {"model": "m", "instructions": "Be brief.", "tools": [tool], "prompt_cache_key": "k"}
    return requests({**base, "input": items[:1]}, {**base, "input": items})


def gemini():
    tools = [{"functionDeclarations": [{"name": "read", "description": "Read.", "parameters": SCHEMA}]}]
    contents: list[Any] = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": "a"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "done"}}}]},
    ]
    base = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": tools}
    return requests({**base, "contents": contents[:1]}, {**base, "contents": contents})


def lore_log():
    lines = [
        header(session_id="s", model="m", tools=[{"name": "read", "input_schema": SCHEMA}]),
        record("layer", name="rules", when="once_at_start", text="rule"),
        record("append", item=user("u1", "go")),
        record(
            "turn_started",
            turn=1,
            at="2026-01-01T00:00:00Z",
            context={"current_time": "noon", "working_context": {"project_dir": "/p"}},
        ),
        record("append", item=call("c1", "c1", name="read")),
        record("patch_tool_call", call_id="c1", status="completed", output="done"),
        record("append", item=said("a1", "yes")),
        record("turn_completed", turn=1, usage={"read_tokens": 0, "write_tokens": 9000, "uncached_tokens": 1}),
        record("knowledge", op="add", id="k-12345", category="c", title="t", content="x"),
        record("remove", uuids=["zzz"]),
        record("append", item=user("u2", "on")),
        record("odd", value="x"),
        record("turn_started", turn=2, at="2026-01-01T00:00:09Z", context={"memory_recall": "m"}),
        record("turn_completed", turn=2, verdict={"reason": "tools_changed"}, usage={"read_tokens": 0}),
    ]
    return [json.loads(json.dumps(line)) for line in lines]


def claude_log():
    return [
        asked("u1", "go"),
        answered("a1", "msg_1", use("t1", "Read"), "u1", usage=counts(1, 0, 20_000, 5)),
        asked("u2", [result("t1")], "a1"),
        answered("a2", "msg_2", text("done"), "u2", usage=counts(1, 20_000, 10, 5)),
        {"type": "odd-kind", "uuid": "o1", "parentUuid": "a2", "sessionId": "s", "attachment": {"type": "x"}},
        asked("u3", "on", "a2"),
        answered("a3", "msg_3", text("yes"), "u3", usage=counts(1, 0, 10, 5)),
    ]


MADE = (anthropic, openai_chat, openai_responses, gemini, lore_log, claude_log)
# No two records share an object, or a canary planted in one would be in the other, too.
RECORDINGS = {made.__name__: json.loads(json.dumps(made())) for made in MADE}
AGENTS = {"codex": codex, "pi": pi, "gemini_cli": gemini_log, "qwen": qwen, "copilot": copilot, "kimi_code": kimi}
RECORDINGS |= {name: [json.loads(line) for line in made.plain().data().splitlines()] for name, made in AGENTS.items()}
RECORDINGS |= {"opencode": [json.loads(opencode.plain().data())]}
if has_plugin("formats"):
    from plugins.formats.test_mini_swe_agent import RUN

    RECORDINGS |= {"mini_swe_agent": [json.loads(RUN)]}
RECORDINGS |= {"cline": [json.loads(cline.simple().ui_messages)]}


def places(value, at=()):
    """Yield the way to every value and member."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in below:
        yield (*at, key)
        yield from places(inner, (*at, key))


def planted(recording, place, how) -> Any:
    """Return the recording with a canary at a place; None if it cannot be there."""
    records = json.loads(json.dumps(recording))
    inner = records
    for key in place[:-1]:
        inner = inner[key]
    last = place[-1]
    match how:
        case "text" if isinstance(inner[last], str):
            inner[last] += " " + WORDS
        case "value":
            inner[last] = f"ft:{CANARY}-4" if last == "model" else WORDS
        case "member" if isinstance(inner, dict):
            inner[CANARY + ".x"] = inner.pop(last)
        case "more" if isinstance(inner[last], dict):
            inner[last][CANARY] = {CANARY: WORDS}
        case _:
            return None
    return records


def outputs():
    """Run everything that can say something of `r.jsonl`; return it."""
    reports = [f"--report={kind}=out.{kind}" for kind in KINDS]
    runs = [
        lore("check", "r.jsonl", "--redact", "-v", "--baseline", "b.json", "--update-baseline"),
        lore("check", "r.jsonl", "--redact", "-v", *reports),
        lore("diff-prefix", "r.jsonl", "--redact", "--no-tokens", "-v"),
        lore("diff-prefix", "r.jsonl", "--redact", "--no-tokens", "--json"),
        lore("fold", "r.jsonl", "--redact", "-v"),
        lore("fold", "r.jsonl", "--redact", "--json", "--unpruned"),
        lore("simulate", "r.jsonl", "--redact", "--all"),
        lore("simulate", "r.jsonl", "--redact", "--json"),
        lore("compact", "r.jsonl", "--dry-run", "--redact", "--json"),
        lore("report", "r.jsonl", "--redact", "--no-cache"),
        lore("lint", "r.jsonl", "--redact", "-v"),
        lore("lint", "r.jsonl", "--redact", "--json"),
    ]
    assert all(run.code != 70 for run in runs), runs
    files = [path for path in Path().iterdir() if path.name.startswith(("out.", "b.json"))]
    return [run.out + run.err for run in runs] + [path.read_text("utf-8") for path in files]


def leaks():
    """Return the text around a canary in each output."""
    positions = [(output, output.lower().find(CANARY.lower())) for output in outputs()]
    return [output[max(0, place - 200) : place + 20] for output, place in positions if place >= 0]


@pytest.mark.parametrize("every", some([EVERY, 9]))
@crossed("name, how", RECORDINGS, HOW)
def test_redacted_outputs_have_no_planted_text(name, how, every):
    recording = RECORDINGS[name]
    plantable_places = [
        place for place in places(recording) if len(place) > 1 and planted(recording, place, how) is not None
    ]
    for place in plantable_places[-1 - HOW.index(how) :: -every * (3 if name in AGENTS and every > 1 else 1)]:
        records = planted(recording, place, how)
        assert records is not None
        put("r.jsonl", *records)
        assert not leaks(), place


@pytest.mark.parametrize("name", RECORDINGS)
def test_redacted_outputs_have_none_of_many_planted_texts(name):
    records = RECORDINGS[name]
    for place in places(RECORDINGS[name]):
        records = (len(place) > 2 and planted(records, place, "text")) or records
    put("r.jsonl", *RECORDINGS[name], *records)
    assert not leaks()


# The search works: without --redact it finds canaries.
def test_planted_text_is_found_without_redact():
    put("r.jsonl", *planted(RECORDINGS["openai_chat"], (1, "request", "messages", 0, "content"), "text"))
    assert CANARY in lore("check", "r.jsonl").out


@pytest.mark.parametrize("name", RECORDINGS)
def test_timeline_shows_planted_text_without_redact(name):
    """So the search in redacted outputs could find it."""

    def is_shown(place):
        records = planted(RECORDINGS[name], place, "text")
        put("r.jsonl", *(records or RECORDINGS[name]))
        return CANARY in lore("fold", "r.jsonl", "--json").out

    assert any(map(is_shown, places(RECORDINGS[name])))


def test_empty_text_has_no_digest():
    put("r.jsonl", header(), record("append", item=said("a1", "")), record("append", item=user("u1", "")))
    assert "character" not in lore("fold", "r.jsonl", "--redact").out
    assert lore("fold", "r.jsonl", "--redact", "--json").json["timeline"][0]["text"] == ""


def test_ids_of_calls_are_redacted_in_timelines():
    put("r.jsonl", *RECORDINGS["openai_chat"])
    assert '"t1"' in lore("fold", "r.jsonl", "--json").out
    assert '"t1"' not in lore("fold", "r.jsonl", "--json", "--redact").out


@pytest.mark.parametrize("command", [["fold"], ["simulate"], ["compact", "--dry-run"]])
def test_redacted_error_names_no_members(command):
    put("x.jsonl", {CANARY: 1}, {CANARY: 2})
    plain, result = (lore(command[0], "x.jsonl", *command[1:], *more) for more in ([], ["--redact"]))
    assert CANARY in plain.err
    assert result.err.startswith("error: x.jsonl: unrecognised format\n")


def test_redacted_sessions_have_no_projects():
    log = codex.Rollout().meta(cwd=f"/home/{CANARY}").context(f"a {CANARY}").user("hello").message("assistant", "yes")
    put("home/.codex/sessions/2026/01/01/rollout-1.jsonl", *log.count(9_000, 0).lines)
    assert CANARY in lore("sessions").out
    assert CANARY in lore("simulate", "--json").out
    for command in (["sessions"], ["sessions", "--json"], ["simulate"], ["simulate", "--json"]):
        result = lore(*command, "--redact")
        assert CANARY not in result.out + result.err
        assert command[0] == "simulate" or "rollout-1.jsonl" in result.out
    assert CANARY in lore("simulate").out
    assert CANARY not in lore("simulate", "--redact").out + lore("simulate", "--redact", "--json").out


def test_unexpected_error_quotes_nothing_with_redact(monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(WORDS)

    monkeypatch.setattr("lore.commands.check.check", fails)
    put("r.jsonl", *RECORDINGS["anthropic"])
    result = lore("check", "r.jsonl", "--redact")
    assert (result.code, CANARY in result.err) == (70, False)
    monkeypatch.setenv("LORE_DEBUG", "1")
    assert CANARY not in lore("check", "r.jsonl", "--redact").err


# The path of a cause named a member of a tool's schema, which the divergence did not.
@pytest.mark.parametrize("names", [("a.json", "b.json"), ("r.jsonl#1", "r.jsonl#2"), ("r.jsonl",)])
def test_redacted_cause_names_no_member(names):
    tool = {"name": "t", "input_schema": {"type": "object", "properties": {CANARY: {"description": "one"}}}}
    first, second = ({"model": "m", "tools": [tool], "messages": [{"role": "user", "content": "go"}]} for _ in "ab")
    second = json.loads(json.dumps(second).replace("one", "two"))
    put("a.json", first), put("b.json", second), put("r.jsonl", first, second)
    plain, result = (lore("diff-prefix", *names, "--no-tokens", "--json", *more) for more in ((), ("--redact",)))
    path = "tools[0].input_schema.properties.{}.description"
    assert plain.lines[0]["causes"][0]["path"] == path.format(CANARY)
    assert result.lines[0]["causes"][0]["path"] == result.lines[0]["divergence"]["path"] != path.format(CANARY)
    assert CANARY not in result.out + result.err


def test_redacted_baseline_matches_unredacted_run():
    put("r.jsonl", *planted(RECORDINGS["anthropic"], (1, "request", "system", 0, "text"), "text"))
    lore("check", "r.jsonl", "--redact", "--baseline", "b.json", "--update-baseline")
    assert lore("check", "r.jsonl", "--baseline", "b.json").code == 0


def test_redacted_error_names_the_file():
    assert "cannot read none.jsonl" in lore("check", "none.jsonl", "--redact").err
    put("r.jsonl", b"words")
    assert "r.jsonl: unrecognised format" in lore("check", "r.jsonl", "--redact").err


def test_redacted_error_names_the_foreign_agent():
    put("T-1.json", {"v": 1, "id": "T-1", "created": 1, "messages": []})
    assert lore("check", "T-1.json", "--redact").err.startswith("error: T-1.json is a file of Amp: ")


EVERY = 240  # with 3 this takes minutes, and finds nothing either
TEXT, LINES = "a text of JSON", "lines of JSON"


def opened(value):
    """Return a value with the JSON texts in it as values, so that a canary can be planted in them."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return {TEXT: opened(json.loads(value))}
        except ValueError:
            return value
    if isinstance(value, dict):
        return {key: opened(item) for key, item in value.items()}
    return [opened(item) for item in value] if isinstance(value, list) else value


def closed(value):
    """Return what `opened` had."""
    if isinstance(value, dict):
        return json.dumps(closed(value[TEXT])) if TEXT in value else {key: closed(item) for key, item in value.items()}
    return [closed(item) for item in value] if isinstance(value, list) else value


def read(format, data):
    if format.startswith("vcr"):
        return opened(yaml.safe_load(data))
    if format == "eval":
        archive = zipfile.ZipFile(io.BytesIO(data))
        return {name: opened(json.loads(archive.read(name))) for name in archive.namelist()}
    try:
        return opened(json.loads(data))
    except ValueError:
        return {LINES: [opened(json.loads(line)) for line in data.splitlines()]}


def written(format, value):
    if format == "eval":
        return captured.archive({name: json.dumps(closed(item)).encode() for name, item in value.items()})
    if isinstance(value, dict) and LINES in value:
        return b"".join(json.dumps(closed(item)).encode() + b"\n" for item in value[LINES])
    return (yaml.safe_dump if format.startswith("vcr") else json.dumps)(closed(value)).encode()


def plantable_places(recording, how):
    """List the places of a recording where a canary can be planted."""
    positions = [place for place in places(recording) if len(place) > 1 and not {TEXT, LINES} & {place[-1]}]
    return [place for place in positions if planted(recording, place, how) is not None]


def is_masked():
    return not any(CANARY.lower() in output.lower() for output in outputs())


@crossed("format, how", captured.WRITERS, HOW)
def test_redacted_outputs_have_no_text_of_a_capture(format, how):
    recording = read(format, captured.capture(format))
    for place in plantable_places(recording, how)[-1 - HOW.index(how) :: -EVERY]:
        put("r.jsonl", written(format, planted(recording, place, how)))
        assert is_masked(), place


@pytest.mark.parametrize("format", captured.WRITERS)
def test_damaged_capture_is_not_quoted(format):
    recording = copy.deepcopy(read(format, captured.capture(format)))
    for place in plantable_places(recording, "text"):
        if {"content", "text", "system"} & {place[-1], place[-2]}:
            recording = planted(recording, place, "text") or recording
    data = written(format, recording)
    assert format == "eval" or CANARY.encode() in data
    for cut in (len(data) // 3, len(data) - 9):
        put("r.jsonl", data[:cut])
        assert is_masked(), cut
        put("r.jsonl", data[:cut].replace(b"role", b"\xff", 1) + b"\n{broken " + CANARY.encode() + b"\n" + data[cut:])
        assert is_masked(), cut
