"""Flue's files through the commands: one session, saved as a document and saved as deltas."""

from __future__ import annotations

import json

import pytest

from cli.running import lore, put
from model.making import dumps
from plugins.formats import flue

CONTEXT = ["[Context Summary]\n\na.py prints 1.", "And b.py?", "b.py prints 2."]
SAVED = {"session.json": flue.DOCUMENT, "session.jsonl": flue.LINES}
saved = pytest.mark.parametrize("name", SAVED)


@pytest.fixture(autouse=True)
def files(desk):
    for name, data in SAVED.items():
        put(name, data)


@saved
def test_fold_shows_the_compacted_session(name):
    ran = lore("fold", name, "--json")
    (found,) = ran.lines
    assert (ran.code, found["session"]["format"], found["session"]["fidelity"]) == (0, "flue", "reconstructed")
    assert [item["type"] for item in found["timeline"]] == ["compact_divider", "user_message", "assistant_message"]
    assert found["problems"] == []


@saved
def test_a_turns_prompt_is_what_flue_sent(name):
    body = json.loads(lore("assemble", name).out)
    said = [block["text"] for message in body["messages"] for block in message["content"]]
    assert (body["model"], said) == ("claude-opus-5", CONTEXT[:2])
    second = json.loads(lore("assemble", f"{name}#2").out)
    kinds = [block["type"] for message in second["messages"] for block in message["content"]]
    assert kinds == ["text", "text", "tool_use", "tool_result"]


@saved
def test_check_reports_the_compaction(name):
    (found,) = lore("check", name, "--json").lines
    assert (found["summary"]["compactions"], found["summary"]["waste"]) == (1, 0)
    assert [cause["name"] for cause in found["findings"]] == ["compaction"]
    assert found["problems"] == []


@saved
def test_fold_sums_the_usage(name):
    (found,) = lore("fold", name, "--json").lines
    usage = found["usage"]
    assert (usage["uncached_tokens"], usage["read_tokens"], usage["write_tokens"], usage["output_tokens"]) == (
        10, 1103, 2180, 16,
    )  # fmt: skip


@saved
def test_converted_session_folds_alike(name):
    put("own.jsonl", lore("convert", name).out.encode())
    mine, own = ((lore("fold", path, "--json").lines)[0] for path in (name, "own.jsonl"))
    assert mine["timeline"] == own["timeline"]
    assert mine["usage"] == own["usage"]
    for turn in range(1, mine["usage"]["turns"] + 1):
        assert lore("assemble", f"{name}#{turn}").out == lore("assemble", f"own.jsonl#{turn}").out


@saved
def test_store_imports_a_session_once(name):
    first = lore("store", "import", name, "--store", "sqlite:x.db", "--json").lines[0]["sessions"][0]
    again = lore("store", "import", name, "--store", "sqlite:x.db", "--json").lines[0]["sessions"][0]
    assert (first["state"], first["session_id"], again["new_events"]) == ("created", "session", 0)
    stored = lore("fold", "sqlite:x.db#session", "--json").lines[0]
    assert stored["timeline"] == lore("fold", name, "--json").lines[0]["timeline"]


def test_fold_reports_a_circle_of_entries():
    put("circle.json", dumps(flue.document([flue.user("a", "b", "x"), flue.answer("b", "a", "y")], "b")))
    ran = lore("fold", "circle.json")
    assert ran.code == 0
    assert "form a circle" in ran.out
