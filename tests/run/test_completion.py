"""System prompt and tools from files: read strictly, folded before the first turn, on the main chain alone."""

import json
from pathlib import Path

import pytest

from formats.claude import answered, asked, line, log_bytes, text
from lore.commands.assemble import assemble
from lore.errors import LoreError
from lore.recording.corpus import Name
from lore.recording.opening import Options
from lore.run.arguments import read_completion
from model.making import dumps, header, log, record, user
from run.equal import assert_same, converted, replay

TOOLS = [{"name": "ls", "input_schema": {"n": 1.0}}]
SIDE = {"isSidechain": True, "agentId": "7"}
LINES = (
    asked("u", "x"), answered("a", "r", text("y"), "u"),
    asked("v", "sub", **SIDE), answered("w", "q", text("done"), "v", **SIDE),
    asked("u2", "more", "a"), answered("a2", "r2", text("z"), "u2"),
)  # fmt: skip
ATTACHED = line("attachment", "att", "a", attachment={"type": "file"})


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def put(name, data):
    Path(name).write_bytes(data)
    return name


def completion_options(system=b"Be brief.", tools=None, *, strict=True):
    tools = dumps(TOOLS) if tools is None else tools
    return Options(completion=read_completion(put("system", system), put("tools", tools), strict=strict))


def system_of(data, name="f.txt"):
    return json.loads(read_completion(put(name, data), None, strict=True).system)


@pytest.mark.parametrize(("data", "expected"), [
    (b"You help.\n", "You help.\n"),
    (b"", ""),
    (b"\xef\xbb\xbfYou", "You"),
    ("é \u2028".encode(), "é \u2028"),
    (b'"You help."', "You help."),
    (b' [\n "a",\n "b" ]\n', ["a", "b"]),
    (b'[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},"b"]', ["a", "b"]),
    (b'{"model":"m","system":"You help.","messages":[]}', "You help."),
    (b'{"system":[{"type":"text","text":"a"}]}', ["a"]),
    (b"[IMPORTANT] You help.", "[IMPORTANT] You help."),
    (b'"You" is you.', '"You" is you.'),
    (b"{name} is you.", "{name} is you."),
    (b"42", "42"),
])  # fmt: skip
def test_system_prompt_is_text_or_json(data, expected):
    assert system_of(data) == expected


def test_completion_keeps_spelling_of_content():
    completion = read_completion(
        put("s.json", b'["\\ud83d","\\u0041"]'), put("t", b'[\n  {"n": 1.0,\r\n  "s": "a\\nb"}\n]'), strict=True
    )
    assert completion.system == b'["\\ud83d","\\u0041"]'
    assert completion.tools == (b'{"n": 1.0,"s": "a\\nb"}',)


def test_tools_are_read_from_whole_body():
    completion = read_completion(None, put("t", dumps({"tools": TOOLS, "system": "x"})), strict=True)
    assert [json.loads(tool) for tool in completion.tools] == TOOLS


@pytest.mark.parametrize(("name", "data", "message", "place"), [
    ("s", b"a\nb\xff", "bytes that are not UTF-8", (2, 3)),
    ("s.json", b'{"a":1}', "no system prompt", (None, None)),
    ("s.json", b"plain", "not JSON", (1, 0)),
    ("s.json", b'["a",\n 5 x]', "not JSON", (2, 9)),
    ("s", b"[1]", "element 0", (None, None)),
    ("s", b'["a",{"type":"image"}]', "element 1", (None, None)),
    ("s.json", b"null", "no system prompt", (None, None)),
])  # fmt: skip
def test_invalid_system_prompt_file_is_an_error(name, data, message, place):
    with pytest.raises(LoreError, match=message) as caught:
        read_completion(put(name, data), None, strict=True)
    assert caught.value.where == (name, *place)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not JSON"), (b"{}", "no tools"), (b'"x"', "no tools"), (b'{"tools":5}', "no tools"),
        (b'{"a":{},"b":5}', "no tools"), (b'{"name":"x","input_schema":{}}', "no tools"),
        (b'{"tools":{"a":{}}}', "no tools"), (b'{"a":"a"}', "no tools"), (b'{"result":{"tools":[]}}', "no tools"),
        (b'[{},"x"]', "element 1"), (b"[" * 5000, "not JSON|deeply"), (b"[NaN]", "not JSON"),
    ],
)  # fmt: skip
def test_tools_file_without_tools_is_an_error(data, message):
    with pytest.raises(LoreError, match=message):
        read_completion(None, put("t", data), strict=True)


def test_completion_file_missing_or_stdin_twice_fails():
    with pytest.raises(LoreError, match="cannot read none"):
        read_completion("none", None, strict=True)
    with pytest.raises(LoreError, match="one of"):
        read_completion("-", "-", strict=True)


def test_only_main_chain_is_completed():
    put("s.jsonl", log_bytes(*LINES))
    assembled = assemble(Name("s.jsonl"), completion_options())
    request = json.loads(assembled.body)
    assert (request["system"], request["tools"]) == ([{"type": "text", "text": "Be brief."}], TOOLS)
    other = json.loads(assemble(Name("s.jsonl", "7", 1), completion_options()).body)
    assert "system" not in other
    assert "tools" not in other


def test_main_chain_after_subagent_is_completed():
    put("s.jsonl", log_bytes(*LINES[2:4], *LINES[:2]))
    heads = {turn.chain: len(turn.prompt.head) for turn in completion_options().open("s.jsonl").turns()}
    assert heads == {"7": 0, "main": 2}


def fidelities(options, *lines):
    put("s.jsonl", log_bytes(*lines))
    return [(turn.chain, turn.number, turn.prompt.fidelity) for turn in options.open("s.jsonl").turns()]


def test_complete_prompt_is_structural():
    assert sorted(fidelities(completion_options(), *LINES)) == [
        ("7", 1, "reconstructed"), ("main", 1, "structural"), ("main", 2, "structural")
    ]  # fmt: skip
    assert {row[2] for row in fidelities(Options(), *LINES)} == {"reconstructed"}


def test_incomplete_prompt_stays_reconstructed():
    put("system", b"x")
    half = Options(completion=read_completion("system", None, strict=True))
    assert {row[2] for row in fidelities(half, *LINES)} == {"reconstructed"}
    attached = (*LINES[:2], ATTACHED, *LINES[4:])
    assert [row[2] for row in fidelities(completion_options(), *attached)] == ["structural", "reconstructed"]


def notes(options, *lines):
    put("s.jsonl", log_bytes(*lines))
    return [note for note in assemble(Name("s.jsonl"), options).notes if "max_tokens" not in note]


@pytest.mark.parametrize("records", [
    [header()],
    [header(system=None, tools=[])],
    [header(system=None), record("session_changed", system="late")],
    [header(system=None), record("session_changed", tools=[{"name": "a"}])],
])  # fmt: skip
def test_session_with_recorded_prompt_rejects_completion(records):
    put("s.jsonl", log(*records, record("turn_started", turn=1)))
    with pytest.raises(LoreError, match="records its own") as caught:
        assemble(Name("s.jsonl"), completion_options())
    assert "leave --" in caught.value.hint
    assert caught.value.where.line == len(records)


def test_lore_log_without_prompt_can_be_completed():
    put("s.jsonl", log(header(system=None), record("append", item=user("u")), record("turn_started", turn=1)))
    assembled = assemble(Name("s.jsonl"), completion_options())
    assert [json.loads(segment.data) for segment in assembled.prompt.head if segment.section == "tools"] == TOOLS
    assert assembled.prompt.fidelity == "reconstructed"


def test_recorded_prompt_is_kept_among_many_sessions():
    put("s.jsonl", log(header(), record("append", item=user("u")), record("turn_started", turn=1)))
    options = completion_options(b"Other.", strict=False)
    (turn,) = options.open("s.jsonl").turns()
    assert [segment.data for segment in turn.prompt.head if segment.section == "system"][
        0
    ] == b'{"type":"text","text":"Be brief."}'


def test_converted_session_holds_completion():
    put("s.jsonl", log_bytes(*LINES))
    log = assert_same("s.jsonl", completion_options())
    assert b'"system":"Be brief."' in log
    put("made.jsonl", log)
    assert replay("made.jsonl").bodies == replay("s.jsonl", completion_options()).bodies
    with pytest.raises(LoreError, match="records its own"):
        converted("made.jsonl", completion_options())
