"""What sidecode writes, read as it is: its event deltas as a file, and where its divider stands (001).

Sources: sidecode's protocol (facts on the five systems, section 2.1) and the plan of its issue 16.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lore.cli.main import main
from lore.compaction.base import Firing, TimelineCut
from lore.compaction.executor import compacted
from lore.errors import LoreError
from lore.prompt.base import Rules
from lore.session import Session, event
from lore.store.registry import open_store
from lore.store.session import StoredSession

FILE = Path(__file__).parents[2] / "fixtures/sidecode/session.jsonl"
AFTER = Rules(divider="after")


@pytest.fixture
def side(desk):
    (desk / "side.jsonl").write_bytes(FILE.read_bytes())
    return "side.jsonl"


def answer(capsys, *words, code=0):
    assert main(list(words)) == code
    return capsys.readouterr().out


def folded(capsys, *words):
    return json.loads(answer(capsys, "fold", *words, "--json"))


# 001: "EventDelta: append, patch_text, patch_tool_call, turn_*, compact_*", as a file


def test_the_deltas_fold_to_sidecodes_timeline(side, capsys):
    """001: append pushes, patch_text and patch_tool_call replace the item they name."""
    items = folded(capsys, side, "--unpruned")["timeline"]
    assert [(item["type"], item["uuid"]) for item in items[:5]] == [
        ("user_message", "b7d1-u1"), ("assistant_message", "msg_01A:0"), ("tool_call", "toolu_01"),
        ("tool_call", "toolu_02"), ("assistant_message", "msg_02A:0"),
    ]  # fmt: skip
    assert [items[1]["text"], items[4]["text"]] == ["Let me look at the parser.", "Line 12 raises."]
    assert [(item["status"], item["input"]) for item in items[2:4]] == [("completed", {}), ("failed", {})]
    assert (items[2]["output"], items[3]["error"]) == ("12: if not section: raise", "ini.py: no such file")


def test_what_the_file_leaves_out_is_said_once(side, capsys):
    """001: no header, turns without numbers, calls without uuid or input."""
    assert [problem["code"] for problem in folded(capsys, side)["problems"]] == ["LORE229"]


def test_turns_are_counted_and_their_usage_is_summed(side, capsys):
    """001: `turn_completed{usage?}`, `turn_failed{error}`, `turn_canceled`."""
    usage = folded(capsys, side)["usage"]
    assert [usage[name] for name in ("turns", "uncached_tokens", "read_tokens", "write_tokens", "output_tokens")] == [
        5, 12, 28_900, 1_020, 92,
    ]  # fmt: skip


def test_a_compaction_keeps_the_preserved_and_says_what_it_was(side, capsys):
    """001: `compact_applied{trigger: manual|auto, preTokens, postTokens, durationMs?, preservedUuids?, uuid}`."""
    found = folded(capsys, side)
    assert [item["uuid"] for item in found["timeline"]] == ["b7d1-c1", "b7d1-u2", "msg_03A:0", "b7d1-u4"]
    divider = found["timeline"][0]
    assert (divider["trigger"], divider["pre_tokens"], divider["post_tokens"], divider["duration_ms"]) == (
        "auto", 168_000, 12_000, 37_000,
    )  # fmt: skip
    first = answer(capsys, "fold", side).partition("\n")[0]
    assert first == "──── compaction (auto, 168,000 → 12,000 tokens, 37 s), 6 items pruned ────"


def test_every_command_answers_on_it(side, desk, capsys):
    """001: what sidecode writes is folded, judged, assembled, converted and stored."""
    checked = json.loads(answer(capsys, "check", side, "--json"))
    assert checked["summary"]["turns"] == 5
    assert not [found for found in checked["findings"] if found["kind"] == "waste"]
    body = json.loads(answer(capsys, "assemble", f"{side}#2"))
    kinds = [[block["type"] for block in message["content"]] for message in body["messages"]]
    assert kinds == [["text"], ["text", "tool_use", "tool_use"], ["tool_result", "tool_result"], ["text"], ["text"]]
    (desk / "own.jsonl").write_text(answer(capsys, "convert", side))
    own = folded(capsys, "own.jsonl")
    assert own["timeline"] == folded(capsys, side)["timeline"]
    assert own["problems"] == []
    assert json.loads(answer(capsys, "assemble", "own.jsonl#2")) == body
    answer(capsys, "store", "import", side, "--store", "sqlite:s.db", "--id", "side")
    assert folded(capsys, "sqlite:s.db#side")["timeline"] == own["timeline"]


# 001: "keeps only `preservedUuids` and appends the divider": behind what is kept


def own_log(*, summary="so far"):
    """A log whose compaction keeps two of four items."""
    return [
        event("session_started", session_id="s", model="claude-opus-5"),
        *(event("append", item={"type": "user_message", "uuid": f"u{n}", "text": f"t{n}"}) for n in range(4)),
        event("turn_started", turn=1),
        event("compact_applied", uuid="d", trigger="auto", preserved_uuids=["u1", "u3"], summary=summary),
        event("append", item={"type": "user_message", "uuid": "u4", "text": "t4"}),
        event("turn_started", turn=2),
    ]


def uuids(session):
    return [entry.item.uuid for entry in session.state.main().entries]


def test_the_divider_stands_before_or_after_the_kept_items_as_it_is_set():
    """001: the divider is appended, behind the preserved items."""
    assert uuids(Session.restore(own_log())) == ["d", "u1", "u3", "u4"]
    assert uuids(Session.restore(own_log(), rules=AFTER)) == ["u1", "u3", "d", "u4"]


def test_the_summary_is_sent_where_the_divider_stands():
    session = Session.restore(own_log(), rules=AFTER)
    body = json.loads(session.write(session.assembled().prompt))
    assert [block["text"] for message in body["messages"] for block in message["content"]] == [
        "t1",
        "t3",
        "so far",
        "t4",
    ]


def test_cold_equals_live_with_a_divider_behind_for_a_cut_at_every_event():
    """001: the two reducers change at once."""
    log = own_log()
    live = Session.restore(log, rules=AFTER)
    for at in range(len(log)):
        cold = Session.load(Session.restore(log[:at], rules=AFTER).dump(), rules=AFTER)
        for later in log[at:]:
            cold.apply(later)
        assert cold.dump() == live.dump(), at


def test_a_state_is_never_gone_on_with_under_the_other_setting():
    saved = Session.restore(own_log(), rules=AFTER).dump()
    with pytest.raises(LoreError, match="divider = 'after'"):
        Session.load(saved)


def test_a_divider_behind_a_tools_result_is_no_turn_of_the_user():
    """002, #634: behind a result a user's message of its own reads as a new turn."""
    call = {
        "type": "tool_call",
        "uuid": "c",
        "call_id": "c",
        "name": "n",
        "input": {},
        "status": "completed",
        "output": "o",
    }
    log = [
        event("session_started", session_id="s", model="gpt-5", dialect="openai-chat"),
        event("append", item={"type": "user_message", "uuid": "u", "text": "t"}),
        event("turn_started", turn=1),
        event("append", item=call),
        event("compact_applied", uuid="d", trigger="overflow", preserved_uuids=["c"], summary="so far"),
        event("turn_started", turn=2),
    ]
    session = Session.restore(log, rules=AFTER)
    messages = json.loads(session.write(session.assembled().prompt))["messages"]
    assert [message["role"] for message in messages[-2:]] == ["assistant", "tool"]
    assert "so far" in json.dumps(messages[-1])


def test_the_setting_holds_in_fold_and_assemble(desk, capsys):
    (desk / "s.jsonl").write_bytes(b"".join(b"%s\n" % line for line in map(_line, own_log())))
    (desk / "lore.toml").write_text('[assemble]\ndivider = "after"\n')
    order = ["u1", "u3", "d", "u4"]
    assert [item["uuid"] for item in folded(capsys, "s.jsonl")["timeline"]] == order
    body = json.loads(answer(capsys, "assemble", "s.jsonl"))
    texts = [block["text"] for message in body["messages"] for block in message["content"]]
    assert [text for text in texts if text in ("t1", "t3", "so far", "t4")] == ["t1", "t3", "so far", "t4"]


def _line(made):
    from lore.model.events import encode  # noqa: PLC0415

    return encode(made)


def test_an_unknown_place_is_refused(desk, capsys):
    (desk / "lore.toml").write_text('[assemble]\ndivider = "behind"\n')
    (desk / "s.jsonl").write_bytes(b"")
    assert main(["fold", "s.jsonl"]) == 2
    shown = capsys.readouterr().err
    assert "divider" in shown
    assert "'before', 'after'" in shown


def test_a_stored_session_folds_by_its_setting_and_refuses_a_checkpoint_of_the_other(desk):
    """001, 003: stores keep events; where the divider stands is the reader's setting."""
    with_rules = {"rules": AFTER}
    store = open_store("sqlite:k.db")
    header, *rest = own_log()
    stored = StoredSession.begin(store, header, **with_rules)
    stored.apply(*rest)
    stored.save()
    stored.checkpoint()
    told = []
    assert uuids(StoredSession.open(store, "s", tell=told.append, **with_rules).session) == ["u1", "u3", "d", "u4"]
    assert told == []
    assert uuids(StoredSession.open(store, "s", tell=told.append).session) == ["d", "u1", "u3", "u4"]
    assert "divider = 'after'" in told[0]
    store.close()


@pytest.mark.parametrize("rules", [Rules(), AFTER], ids=["before", "after"])
def test_outside_context_stands_before_the_users_next_message_wherever_the_divider_is(rules):
    """004: a compaction puts outside context before the message that asks."""
    log = own_log()[:6]
    ask = event("append", item={"type": "user_message", "uuid": "ask", "text": "and now?"})
    session = Session.restore([*log, ask], rules=rules)
    firing = Firing("manual", TimelineCut(2))
    made = compacted(session.state, "main", firing, "so far", "news")
    for each in made:
        session.apply(each)
    (outside,) = session.state.main().outside
    assert session.state.main().entries[outside.place].item.uuid == "ask"


def test_an_item_of_a_kind_that_is_not_known_yet_is_kept_and_the_rest_is_read(side, desk, capsys):
    """001: the protocol grows; one such line, and the whole file was taken for a log of lore's without a header."""
    lines = FILE.read_bytes().splitlines(keepends=True)
    more = b'{"kind":"append","item":{"kind":"reasoning","uuid":"r","text":"x"}}\n'
    (desk / "side.jsonl").write_bytes(b"".join([*lines[:3], more, *lines[3:]]))
    found = folded(capsys, side)
    assert found["session"]["format"] == "sidecode"
    assert [problem["line"] for problem in found["problems"] if problem["code"] == "LORE207"] == [4]
