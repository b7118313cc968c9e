"""000, 002, 004: `lore fold` shows what was injected and when, and each request with its times and its bill."""

from __future__ import annotations

import json

import pytest

from lore.cli.main import main
from lore.model.events import encode
from lore.session import Session, event

SECRET, KEY = "tea is green", "ghp_" + "a1B2" * 9
CONTEXT = [{"role": "user", "text": "[current-time]\n10:01"}]
NEWS = [{"role": "user", "text": "[Context refresh — 2026-06-18 10:02 UTC]\nmail: lunch at noon"}]
DELTA = [{"role": "user", "text": "[knowledge update 1a2b3c4d]\ntea is green, key=" + KEY}]


def user(uuid, text):
    return event("append", item={"type": "user_message", "uuid": uuid, "text": text})


def answer(uuid):
    return event("append", item={"type": "assistant_message", "uuid": uuid, "text": f"answer {uuid}"})


def started(turn):
    return event("turn_started", turn=turn, at=f"2026-06-18T10:0{turn}:00Z")


def completed(turn, **usage):
    return event("turn_completed", turn=turn, at=f"2026-06-18T10:0{turn}:05Z", usage=usage)


def session_log():
    """A session whose second request carries a delta, a turn's context and context from outside."""
    return [
        event("session_started", session_id="s-1", model="gpt-5", dialect="openai-chat", system="Be brief."),
        user("u1", "What do I drink?"), started(1),
        answer("a1"), completed(1, uncached_tokens=10, read_tokens=0, write_tokens=500, output_tokens=7),
        event("prompt_delta", seq=0, selector={"target": "messages", "insert_at": 2}, content=DELTA),
        event("context_persisted", turn=2, insert_at=2, content=CONTEXT),
        event("context_persisted", turn=2, insert_at=2, content=NEWS, outside=True),
        user("u2", "And now?"), started(2),
        answer("a2"), completed(2, uncached_tokens=3, read_tokens=510, write_tokens=60, output_tokens=8),
        user("u3", "Once more."), started(3), event("turn_failed", turn=3, error="overloaded"),
        started(4),
    ]  # fmt: skip


@pytest.fixture
def log(desk):
    (desk / "s.jsonl").write_bytes(b"".join(encode(made) + b"\n" for made in session_log()))
    return "s.jsonl"


def told(capsys, *words):
    assert main(["fold", *words]) == 0
    return capsys.readouterr().out


def folded(capsys, *words):
    return json.loads(told(capsys, *words, "--json"))


def test_the_text_marks_what_was_injected_at_its_place(log, capsys):
    """000 deltas, 002 persisted context, 004 context from outside: each stands where it is sent."""
    lines = told(capsys, log).splitlines()
    assert [line.split("  ")[0] for line in lines[:9]] == [
        "user", "turn 1", "assistant", "+ delta 0", "+ outside", "+ context", "user",
        "turn 2", "assistant",
    ]  # fmt: skip
    assert lines[3].startswith("+ delta 0  (turn 2) [knowledge update 1a2b3c4d] tea is green")
    assert "mail: lunch at noon" in lines[4]
    assert lines[5] == "+ context  (turn 2) [current-time] 10:01"


def test_the_text_says_of_each_request_when_it_went_out_and_what_it_read_and_paid(log, capsys):
    lines = [line for line in told(capsys, log).splitlines() if line.startswith("turn ")]
    after = "answered after 5 s, "
    assert lines == [
        f"turn 1     2026-06-18T10:01:00Z, {after}read 0, paid 10 uncached and 500 written, 7 output tokens",
        f"turn 2     2026-06-18T10:02:00Z, {after}read 510, paid 3 uncached and 60 written, 8 output tokens",
        "turn 3     2026-06-18T10:03:00Z, failed",
        "turn 4     2026-06-18T10:04:00Z, not ended",
    ]


def test_the_json_has_the_same(log, capsys):
    found = folded(capsys, log)
    assert found["item_turns"] == [0, 1, 1, 2, 2]
    assert [(text["kind"], text["number"], text["before_turn"], text["insert_at"], text["saved"])
            for text in found["injected"]] == [
        ("delta", 0, 2, 2, True), ("outside", 2, 2, 2, True), ("context", 2, 2, 2, True),
    ]  # fmt: skip
    assert found["injected"][2]["content"] == CONTEXT
    assert [(turn["turn"], turn["state"], turn["read_tokens"], turn["write_tokens"]) for turn in found["turns"]] == [
        (1, "completed", 0, 500), (2, "completed", 510, 60), (3, "failed", None, None), (4, "open", None, None),
    ]  # fmt: skip
    assert found["turns"][1]["started_at"] == "2026-06-18T10:02:00Z"
    assert found["turns"][1]["ended_at"] == "2026-06-18T10:02:05Z"


def test_what_is_injected_stands_where_the_prompt_has_it(log, capsys):
    """One layout: the order of the view is the order of the request."""
    session = Session.restore(session_log())
    texts = [
        part["text"]
        for message in json.loads(session.write(session.assembled().prompt))["messages"]
        for part in message["content"]
        if message["role"] != "system"
    ]
    words = ["What do I", "answer a1", "[knowledge", "[Context", "[current", "And now", "answer a2", "Once more"]
    assert [text[: len(word)] for text, word in zip(texts, words, strict=False)] == words
    rows = [line for line in told(capsys, log).splitlines() if not line.startswith("turn ")]
    assert all(word in row for row, word in zip(rows, words, strict=False))


def test_what_lore_derives_and_the_log_does_not_hold_is_said(desk, capsys):
    made = [
        event("session_started", session_id="s-1", model="gpt-5", dialect="openai-chat", system="Be brief."),
        event("knowledge", op="add", id="aaaaa1", title="Tea", content="green"),
        user("u1", "one"), started(1), answer("a1"), completed(1),
        event("knowledge", op="update", id="aaaaa1", title="Tea", content="black"),
        user("u2", "two"), started(2),
    ]  # fmt: skip
    (desk / "k.jsonl").write_bytes(b"".join(encode(each) + b"\n" for each in made))
    (injected,) = folded(capsys, "k.jsonl")["injected"]
    assert (injected["kind"], injected["saved"]) == ("delta", False)
    assert "derived: the log does not hold it" in told(capsys, "k.jsonl")


def test_a_view_that_stops_or_shows_what_was_pruned_has_its_own_requests(log, desk, capsys):
    assert [turn["turn"] for turn in folded(capsys, log, "--at", "2")["turns"]] == [1, 2]
    more = [*session_log(), event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u3"])]
    (desk / log).write_bytes(b"".join(encode(made) + b"\n" for made in more))
    lines = told(capsys, log).splitlines()
    assert [line.split("  ")[0] for line in lines[:2]] == ["──── compaction (manual), 4 items pruned ────", "turn 2"]
    assert lines[2].startswith("user")
    pruned = folded(capsys, log, "--pruned")
    assert (len(pruned["timeline"]), pruned["item_turns"], pruned["injected"]) == (4, [0, 1, 1, 2], [])


def test_a_credential_in_what_was_injected_is_masked(log, capsys):
    for form in ((), ("--json",)):
        assert KEY not in told(capsys, log, *form)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_redacted_nothing_is_left_of_what_was_said_and_all_of_what_was_billed(log, capsys, form):
    """Redaction is by field: texts, ids and names go, numbers, times and kinds stay."""
    plain, redacted = told(capsys, log, *form), told(capsys, log, "--redact", *form)
    said = [SECRET, "lunch", "What do I drink", "answer a1", "s-1", "knowledge update"]
    for word in (*said, "u1") if form else said:
        assert (word in plain, word in redacted) == (True, False), word
    for word in ("2026-06-18T10:02:00Z", "510", "delta", "context", "outside", "gpt-5" if form else "turn 2"):
        assert word in redacted, word


def test_redacted_every_kind_of_item_loses_what_it_says(desk, capsys):
    word = "quokka"
    call = {"type": "tool_call", "uuid": word, "call_id": word, "name": word, "input": {word: 1}, "status": "failed",
            "output": [{"type": "text", "text": word}], "error": word, "detail": {word: word}}  # fmt: skip
    blocks = [
        {"type": "text", "text": word}, {"type": "thinking", "text": word, "signature": word},
        {"type": "image", "media_type": word, "data": word}, {"type": "raw", "json": {word: word}},
    ]  # fmt: skip
    items = [
        call, {"type": "user_message", "uuid": "u", "blocks": blocks, "source": word},
        {"type": "assistant_message", "uuid": "a", "text": word, "stop_reason": word, "response_id": word},
        {"type": "compact_divider", "uuid": "d", "trigger": word, "summary": word},
        {"type": "opaque", "uuid": "o", "record": {word: word}},
    ]  # fmt: skip
    header = {"kind": "session_started", "session_id": word, "model": f"{word} {word}"}
    records = [
        header,
        *({"kind": "append", "item": item, "chain": chain} for chain in ("main", word) for item in items),
    ]
    records += [{"kind": "turn_started", "turn": 1, "at": word}, {"kind": word}]
    (desk / "q.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for form in ((), ("--json",)):
        assert word in told(capsys, "q.jsonl", *form)
        assert word not in told(capsys, "q.jsonl", "--redact", *form)


def test_what_comes_is_not_redacted(log, capsys):
    assert main(["fold", log, "--follow", "--redact"]) == 2
    assert "--redact" in capsys.readouterr().err
