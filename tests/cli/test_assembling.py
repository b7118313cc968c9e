"""`lore assemble`: what its notes, warnings and refusals say, and text that hardly any encoder takes."""

from __future__ import annotations

import pytest

from cli.running import lore, put
from lore.prompt.dialects import dialect_names
from model.making import header, log, record, user

pytestmark = pytest.mark.usefixtures("desk")


# A parameter whose name was half a surrogate pair ended `--all` as a bug in lore.
def test_parameter_names_and_numbers_keep_their_spelling():
    start = record("session_started", v=1, session_id="s", params={"half": 1.0, "max_tokens": 9})
    lines = log(start, record("append", item=user("u", "x")), record("turn_started", turn=1))
    put("s.jsonl", lines.replace(b"half", b"\\ud800"))
    ran = lore("assemble", "s.jsonl", "--all")
    assert ran.code == 0
    assert '"params":{"\\ud800":1.0,"max_tokens":9}' in ran.out
    put("all.jsonl", ran.out.encode())
    told = lore("diff-prefix", "all.jsonl#1", "s.jsonl#1", "--json", "--no-tokens").json
    assert (told["relation"], told["problems"]) == ("identical", [])


# The prompt of a log without turns may be one that providers refuse.
@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_log_without_turns_is_assembled_with_note(options):
    put("none.jsonl", log(header()))
    put("one.jsonl", log(header(), record("append", item=user("u", "x"))))
    none, one = (lore("assemble", name, *options) for name in ("none.jsonl", "one.jsonl"))
    for ran in (none, one):
        assert (ran.code, "no turn yet: its prompt so far is assembled" in ran.err) == (0, True)
    assert "the prompt holds no message: providers refuse such a request" in none.err
    assert "holds no message" not in one.err


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock", "gemini", "openai-chat", "openai-responses", "template"])
def test_turn_without_message_is_noted(dialect):
    put("none.jsonl", log(header(), record("turn_started", turn=1)))
    for options in ([], ["--all"]):
        ran = lore("assemble", "none.jsonl", "--dialect", dialect, *options)
        assert ("holds no message" in ran.err) == (dialect != "template")
        assert "so far" not in ran.err


# The help named the dialects in one order, the error for an unknown one in another.
@pytest.mark.parametrize("command", ["assemble", "diff-prefix"])
def test_help_and_error_list_dialects_alike(command):
    put("s.jsonl", log(header(), record("turn_started", turn=1)))
    named = ", ".join(dialect_names())
    shown = "".join(line.strip() + " " for line in lore(command, "--help").out.splitlines()).replace("- ", "-")
    assert f"Request shape: {named}." in shown
    words = ["s.jsonl#1", "s.jsonl#1"] if command == "diff-prefix" else ["s.jsonl"]
    assert f"dialects: {named}\n" in lore(command, *words, "--dialect", "morse").err
