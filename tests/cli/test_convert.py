"""`lore convert`, and `--system` and `--tools` wherever a prompt is built."""

import os
from pathlib import Path

import pytest

from cli.running import lore, put, session
from formats.claude import answered, asked, log_bytes, text
from model.making import body, dumps, header, log, record

CLAUDE = log_bytes(
    asked("u", "x"), answered("a", "r", text("y"), "u"), asked("v", "z", "a"), answered("b", "q", text("w"), "v")
)
TOOLS = [{"name": "ls", "input_schema": {}}]
COMPLETE = ("--system", "system.txt", "--tools", "tools.json")

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture(autouse=True)
def files(desk):
    put("c.jsonl", CLAUDE)
    put("own.jsonl", session())
    put("body.json", dumps(body("a")))
    put("system.txt", b"Be brief.")
    put("tools.json", TOOLS)


def test_file_is_written_whole():
    result = lore("convert", "c.jsonl", "--output", "made.jsonl", "-v")
    assert (result.code, result.out) == (0, "")
    assert Path("made.jsonl").read_text() == lore("convert", "c.jsonl").out
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_existing_file_is_overwritten_with_force_only():
    put("made.jsonl", b"mine\n")
    result = lore("convert", "c.jsonl", "--output", "made.jsonl")
    assert (result.code, result.err) == (
        2,
        "error: made.jsonl exists\nhint: name another file, or overwrite it with --force\n",
    )
    assert Path("made.jsonl").read_bytes() == b"mine\n"
    assert lore("convert", "c.jsonl", "--output", "made.jsonl", "--force").code == 0
    assert Path("made.jsonl").read_bytes() != b"mine\n"


@pytest.mark.parametrize("name", ["c.jsonl", "./c.jsonl", "link", "c/subagents/agent-1.jsonl"])
def test_input_is_never_overwritten(name):
    Path("link").symlink_to("c.jsonl")
    put("c/subagents/agent-1.jsonl", log_bytes(asked("s", "x", isSidechain=True, agentId="1")))
    before = Path(name).read_bytes()
    result = lore("convert", "c.jsonl", "--output", name, "--force")
    assert (result.code, Path(name).read_bytes()) == (2, before)
    assert "is an input of this command" in result.err


@pytest.mark.parametrize("name", [".", "/dev/null", "none/made.jsonl", "a\0b", "x" * 300])
def test_bad_output_is_an_error(name):
    result = lore("convert", "c.jsonl", "--output", name, "--force")
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert result.err.count("\n") <= 2
    assert not [file for file in os.listdir() if file.startswith(".")]


def test_failed_conversion_leaves_no_file(monkeypatch):
    put("made.jsonl", b"mine\n")
    put("odd.jsonl", log(header(system=None), record("session_changed", system="late")))
    result = lore("convert", "odd.jsonl", "--output", "made.jsonl", "--force", *COMPLETE)
    assert result.code == 2
    assert Path("made.jsonl").read_bytes() == b"mine\n"
    assert not [file for file in os.listdir() if file.startswith(".")]


@pytest.mark.parametrize("args", [["c.jsonl", "--to", "codex"], ["c.jsonl#1"], ["none.jsonl"], ["system.txt"]])
def test_bad_input_is_an_error(args):
    result = lore("convert", *args)
    assert (result.code, result.out) == (2, "")


def test_problems_of_reading_go_to_standard_error():
    put("odd.jsonl", CLAUDE + b"{torn\n" * 30)
    result = lore("convert", "odd.jsonl")
    assert result.code == 0
    assert result.err.count("LORE201 odd.jsonl:") == 20
    assert result.err.endswith("and 10 problems more like these\n")


def test_completed_session_equals_the_sent_request():
    request = {"model": "claude-x", "tools": TOOLS, "system": [{"type": "text", "text": "Be brief."}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]}]}  # fmt: skip
    put("sent.json", dumps(request))
    result = lore("diff-prefix", "c.jsonl#1", "sent.json", "--no-tokens", "--json", *COMPLETE)
    assert (result.json["relation"], result.json["left"]["fidelity"]) == ("identical", "structural")


@pytest.mark.parametrize(
    "args",
    [
        ["assemble", "own.jsonl"], ["diff-prefix", "own.jsonl"], ["convert", "own.jsonl"], ["assemble", "body.json"],
        ["diff-prefix", "body.json"], ["diff-prefix", "body.json", "body.json"],
        ["diff-prefix", "c.jsonl", "own.jsonl"],
    ],
)  # fmt: skip
def test_recorded_prompts_are_not_completed(args):
    result = lore(*args, *COMPLETE)
    assert (result.code, result.out) == (2, "")
    assert "hint: " in result.err


def test_bad_tools_file_is_named_with_its_place():
    put("tools.json", b'[{"name": "ls"},\n  nothing]')
    result = lore("assemble", "c.jsonl", *COMPLETE)
    assert result.code == 2
    assert "error: tools.json is not JSON" in result.err
    assert "--> tools.json:2, byte 19" in result.err
