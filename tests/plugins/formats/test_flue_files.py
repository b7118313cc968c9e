"""flue's own files: the shapes of its pull request 95 (facts 4.1), read by every command that reads sessions.

One session twice: saved whole, and saved from delta to delta.
"""

from __future__ import annotations

import json

import pytest

from cli.running import lore, put
from lore.model.items import CompactDivider
from model.making import dumps
from plugins.formats import flue
from plugins.formats.test_flue import codes, folded, texts

CONTEXT = ["[Context Summary]\n\na.py prints 1.", "And b.py?", "b.py prints 2."]
SAVED = {"session.json": flue.DOCUMENT, "session.jsonl": flue.LINES}
saved = pytest.mark.parametrize("name", SAVED)


@pytest.fixture(autouse=True)
def files(desk):
    for name, data in SAVED.items():
        put(name, data)


# 4.1: version 2, entries, leaf; context is the summary, then the path from what is kept, then what follows


@saved
def test_fold_shows_the_summary_what_is_kept_and_what_follows(name):
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
def test_check_knows_the_compaction_and_the_bills(name):
    (found,) = lore("check", name, "--json").lines
    assert (found["summary"]["compactions"], found["summary"]["waste"]) == (1, 0)
    assert [cause["name"] for cause in found["findings"]] == ["compaction"]
    assert found["problems"] == []


@saved
def test_usage_of_answers_is_their_bill(name):
    (found,) = lore("fold", name, "--json").lines
    usage = found["usage"]
    assert (usage["uncached_tokens"], usage["read_tokens"], usage["write_tokens"], usage["output_tokens"]) == (
        10, 1103, 2180, 16,
    )  # fmt: skip


@saved
def test_what_is_converted_folds_and_assembles_alike(name):
    put("own.jsonl", lore("convert", name).out.encode())
    mine, own = ((lore("fold", path, "--json").lines)[0] for path in (name, "own.jsonl"))
    assert mine["timeline"] == own["timeline"]
    assert mine["usage"] == own["usage"]
    for turn in range(1, mine["usage"]["turns"] + 1):
        assert lore("assemble", f"{name}#{turn}").out == lore("assemble", f"own.jsonl#{turn}").out


@saved
def test_a_store_takes_it_and_takes_it_once(name):
    first = lore("store", "import", name, "--store", "sqlite:x.db", "--json").lines[0]["sessions"][0]
    again = lore("store", "import", name, "--store", "sqlite:x.db", "--json").lines[0]["sessions"][0]
    assert (first["state"], first["session_id"], again["new_events"]) == ("created", "session", 0)
    stored = lore("fold", "sqlite:x.db#session", "--json").lines[0]
    assert stored["timeline"] == lore("fold", name, "--json").lines[0]["timeline"]


# 4.1: the contract of deltas


def test_removed_entry_ids_are_applied_before_new_entries():
    again = flue.lines(
        flue.header(None), *flue.BEFORE[:4], flue.delta([flue.answer("00000004", "00000003", "One.")], "00000004",
        ("00000004",)),
    )  # fmt: skip
    assert texts(again)[-1] == "One."


def test_empty_new_entries_never_means_delete():
    assert texts(flue.LINES + flue.lines(flue.delta([], "00000008"))) == CONTEXT


def test_a_failed_delta_is_emitted_again_and_an_adapter_is_idempotent_by_id():
    again = flue.lines(*[json.loads(line) for line in flue.LINES.splitlines()][-1:])
    assert texts(flue.LINES + again) == CONTEXT
    assert codes(flue.LINES + again) == []


def test_overflow_recovery_removes_the_failed_leaf_which_a_count_cannot_say():
    entries = [json.loads(line) for line in flue.LINES.splitlines()][1:-1]
    assert entries[-1]["message"]["stopReason"] == "error"
    assert all(entry.item.uuid != entries[-1]["id"] for entry in folded(flue.LINES).main().entries)


def test_first_kept_missing_is_only_what_follows_the_compaction():
    lost = flue.compaction("00000007", "00000005", "a.py prints 1.", "ffffffff")
    entries = [*flue.BEFORE, lost, flue.AFTER[1]]
    assert texts(dumps(flue.document(entries, "00000008"))) == [CONTEXT[0], CONTEXT[2]]


def test_the_whole_and_the_deltas_give_one_timeline():
    whole, deltas = (folded(data).main().entries for data in SAVED.values())
    assert [one.item for one in whole if isinstance(one.item, CompactDivider)] == [
        one.item for one in deltas if isinstance(one.item, CompactDivider)
    ]
    assert texts(flue.DOCUMENT) == texts(flue.LINES) == CONTEXT


# 4.3, 4.5: what must not hurt


def test_a_cycle_is_an_error_that_is_said_and_ends_no_command():
    put("circle.json", dumps(flue.document([flue.user("a", "b", "x"), flue.answer("b", "a", "y")], "b")))
    ran = lore("fold", "circle.json")
    assert ran.code == 0
    assert "form a circle" in ran.out
