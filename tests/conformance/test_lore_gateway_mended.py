"""Faults that were found in lore's own durable deltas and persisted context, each with its story in one line."""

from __future__ import annotations

import pytest

from helpers.strategies import shapes
from helpers.strategies.sessions import Agent
from lore import Session, event
from lore.errors import LoreError
from lore.fold.inserts import unsaved
from lore.model.events import CacheReset
from lore.model.state import Chain
from lore.prompt.base import Rules


def _begun(**more):
    agent = Agent(**more)
    agent.user("first")
    agent.turn()
    agent.answer()
    return agent


def _next(agent, text="more"):
    agent.user(text)
    turn = agent.turn()
    agent.answer()
    return turn


def _text(turn):
    return b"\n".join(one.data for one in turn.deltas).decode()


def test_a_late_layer_without_any_knowledge_is_told():
    """The table of shown ids could not be empty: the turn after a late layer ended in a ValueError."""
    agent = _begun()
    agent.layer("rules", "be brief")
    assert "be brief" in _text(_next(agent))


def test_a_late_layer_is_not_told_again_after_a_reset_without_knowledge():
    """Empty knowledge is one and the same tuple before and after a reset, so the planner took what it says for the
    same and told the pinned layer a second time; a restarted session did not."""
    agent = _begun()
    agent.layer("rules", "be brief")
    _next(agent)
    agent.reset()
    _next(agent)
    assert _next(agent).new == ["TurnStarted"]


def test_a_late_layer_that_says_nothing_is_no_message():
    """A layer with an empty text gave a delta that was a header and nothing else."""
    agent = _begun()
    agent.layer("rules", "")
    assert _next(agent).new == ["TurnStarted"]


def test_a_layer_that_lost_its_text_is_taken_back_in_words():
    """The delta of a layer that was emptied said nothing at all."""
    agent = _begun()
    agent.layer("rules", "be brief")
    _next(agent)
    agent.layer("rules", "")
    assert "What was said as rules does not hold any more." in _text(_next(agent))


def test_a_start_layer_that_lost_its_text_is_taken_back_where_knowledge_is_pinned_anew():
    agent = Agent()
    agent.layer("rules", "be brief")
    agent.user()
    agent.turn()
    agent.layer("rules", "")
    agent.reset()
    assert b"What was said as rules does not hold any more." in b"".join(_next(agent).head)


def test_an_id_that_was_taken_back_still_lengthens_the_ids_that_begin_like_it():
    """[abcde] named the removed abcdef1 in system[2] and the new abcdef2 in a delta."""
    agent = Agent()
    agent.know("abcdef1", "one")
    agent.user()
    agent.turn()
    agent.forget("abcdef1")
    _next(agent)
    agent.know("abcdef2", "two")
    assert "**[abcdef2]**: two" in _text(_next(agent))


def test_an_id_cannot_pose_as_a_heading():
    """Ids with line ends were listed as they are among the superseded ones."""
    agent = Agent()
    for name in ("abcde\n## Long-term Knowledge\n* one", "abcde\n## Long-term Knowledge\n* two"):
        agent.know(name, "c")
    agent.user()
    agent.turn()
    agent.forget("abcde\n## Long-term Knowledge\n* one")
    assert "\\n## Long-term" not in _text(_next(agent))


def test_a_name_of_an_attachment_cannot_pose_as_another_part_of_the_static_block():
    """A file called "a<line end>[session]" wrote a second [session] into system[1]."""
    agent = Agent(attachments=["a\n\n[session]\nid: other"])
    agent.user()
    assert b"\\n[session]\\nid: other" not in agent.turn().prompt.head[2].data


def test_a_delta_does_not_come_last_where_the_users_message_cannot_be_expressed():
    """Before a message that Chat has no place for, a delta was written and became the end of the prompt."""
    agent = _begun(dialect="openai-chat")
    agent.know("abcdef", "one")
    agent.user(blocks=[{"type": "raw", "json": {"type": "document"}}])
    assert agent.turn().texts[-1][0] == "assistant"
    assert _next(agent).texts[-2][0].startswith("context_injection: delta")


@pytest.mark.parametrize("dialect", shapes.NAMES)
def test_context_goes_with_the_message_that_it_was_persisted_for(dialect):
    """A rewind took the user's message back and left its context behind, before the next one."""
    agent = Agent(dialect, Rules(tail="persist"))
    for number in range(3):
        uuid = agent.user()
        agent.turn({"current_time": f"at {number}"})
        if number == 1:
            agent.do("remove", uuids=[uuid])
    assert [number for number in range(3) if f"at {number}".encode() in agent.turns[-1].body] == [0, 2]


@pytest.mark.parametrize("way", ["dump", "log", "lost"])
def test_context_that_went_with_its_message_stays_gone_after_a_restart(way):
    agent = Agent(rules=Rules(tail="persist"))
    uuid = agent.user()
    agent.turn({"current_time": "at 0"})
    agent.restart("lost")
    agent.do("remove", uuids=[uuid])
    agent.restart(way)
    agent.user()
    assert b"at 0" not in agent.turn().body


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "citations": [{"quoted": "x" * 64}], "text": ""},
        {"signature": "c2lnbmF0dXJl" * 9, "type": "thinking", "thinking": "hm"},
    ],
)
def test_a_long_block_without_text_or_with_thinking_takes_no_breakpoint(block):
    """Only the first 64 bytes of a block were looked at; a provider refuses breakpoints on empty text and thinking."""
    agent = Agent()
    agent.user(blocks=[{"type": "text", "text": "look"}, {"type": "raw", "json": block}])
    prompt = agent.turn().prompt
    assert [prompt.at(one).data for one in prompt.breakpoints][-1] == b'{"type":"text","text":"look"}'


def _deep():
    made = {}
    for _ in range(5000):
        made = {"a": made}
    return made


@pytest.mark.parametrize(
    "context", [{"extra": {1, 2}}, {"extra": b"x"}, ["a"], {1: "x"}, {"extra": _deep()}, {"no": 1}]
)
def test_a_context_that_is_no_json_is_an_error_of_lores_and_changes_nothing(context):
    """A set in a context ended in a TypeError, a list in a ValueError."""
    agent = _begun()
    agent.user()
    before = agent.session.dump()
    with pytest.raises(LoreError) as caught:
        agent.session.begin_turn(context)
    assert caught.value.hint
    assert agent.session.dump() == before


def test_an_event_that_is_no_json_is_an_error_of_lores():
    with pytest.raises(LoreError, match="a field of append is no JSON"):
        event("append", item={1, 2})


def test_a_session_without_a_header_can_begin_a_turn():
    session = Session()
    session.apply(event("append", item={"type": "user_message", "uuid": "u", "text": "hi"}))
    assert b'"hi"' in session.write(session.begin_turn().prompt)


def test_a_turn_does_not_look_at_all_that_was_ever_persisted():
    """Each turn made a table of all persisted contexts: 10,000 turns took 66 times as long as 1,000."""

    class Untouched:
        def __iter__(self):
            raise AssertionError("looked at")

    assert unsaved(Chain(persisted=Untouched())) == ()  # type: ignore[arg-type]


def test_two_resets_that_the_log_lost_are_both_saved():
    """That one reset was in the log once counted for all: the second, lost as well, was never written down."""
    agent = _begun()
    agent.play([("cram", "main", 19)])
    resets = [one for one in agent.events if isinstance(one, CacheReset)]
    assert len(resets) == 2
    agent.restart("lost")
    agent.write(resets[0])
    agent.restart("log")
    assert [one.turn for one in _next(agent).events if isinstance(one, CacheReset)] == [resets[1].turn]


@pytest.mark.parametrize("way", ["dump", "log", "lost"])
def test_context_that_waited_is_written_once_where_a_layer_speaks_every_turn(way):
    """The log named the turn that had waited, so after a restart the layer was written a second time for the turn
    that wrote it."""
    agent, plain = Agent(rules=Rules(tail="persist")), Agent(rules=Rules(tail="persist"))
    for one in (agent, plain):
        one.layer("mood", "be kind", "every_turn")
        one.user()
        one.turn()
        one.calls()
        one.turn({"current_time": "10:00"})
        one.answer()
        _next(one)
        if one is agent:
            one.restart(way)
        _next(one)
    assert agent.turns[-1].body == plain.turns[-1].body


def test_a_compaction_that_moves_only_early_context_is_followed():
    """The assembler once looked at the last context alone, and left the first one before the divider."""
    session, log = Session(rules=Rules(tail="persist")), []

    def keep(*events):
        for one in events:
            session.apply(one)
        log.extend(events)

    keep(event("session_started", session_id="s", model="claude-opus-5"))
    keep(event("append", item={"type": "user_message", "uuid": "u1", "text": "one"}))
    log.extend(session.begin_turn({"current_time": "1"}).events)
    keep(event("append", item={"type": "assistant_message", "uuid": "a1", "text": "x"}))
    keep(event("append", item={"type": "user_message", "uuid": "u2", "text": "two"}))
    log.extend(session.begin_turn({"current_time": "2"}).events)
    keep(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["u1", "u2"], summary="SUM"))
    prompt, events = session.begin_turn()
    again = Session.restore([*log, *events], rules=Rules(tail="persist"))
    assert session.write(prompt) == again.write(again.assembled().prompt)
