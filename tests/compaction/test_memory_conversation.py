"""How much of a session is new, and how long nobody has spoken."""

from __future__ import annotations

import pytest

from lore.compaction.activity import Silence
from lore.compaction.memory.extraction import mark_of, to_learn
from lore.session import event
from model.making import Fold, append, call, said, started, user

TICK = "[SCHEDULED TICK] wake"


def timeline(*items):
    made = Fold(started())
    for one in items:
        made.take(append(one))
    return made.state.main().entries


def learnt(entries, last):
    mark = None if last is None else mark_of(entries, 1 + [one.item.uuid for one in entries].index(last))
    return [one.item.uuid for one in to_learn(entries, mark).entries]


FIRST = (user("u1"), said("a1"))


@pytest.mark.parametrize(
    ("more", "mark", "found"),
    [
        ((), None, ["u1", "a1"]),
        ((), "a1", []),
        ((user("u2"), said("a2")), "a1", ["u2", "a2"]),
        ((call("c1", call_id="t1"), said("a2")), "a1", ["u1", "a1", "c1", "a2"]),  # an answer with its question
        ((user("t1", TICK), said("a2")), "a1", []),
        ((user("t1", TICK), said("a2"), said("a3")), "a2", []),
        ((user("x1", source="context_injection"), user("u2")), "a1", ["u2"]),
    ],
)
def test_what_is_new_is_learnt_from_with_the_beginning_of_its_exchange(more, mark, found):
    assert learnt(timeline(*FIRST, *more), mark) == found


def fed(*events):
    silence = Silence()
    for one in events:
        silence.feed(one)
    return silence.moves, silence.last


def at(item, second):
    return event("append", item=item, at=f"1970-01-01T00:00:{second:02}Z")


def test_ticks_injected_context_and_subagents_neither_begin_nor_end_a_pause():
    spoken = (at(user("u1"), 1), at(said("a1"), 2))
    assert fed(*spoken) == (2, 2.0)
    assert fed(*spoken, at(user("x", source="context_injection"), 9)) == (2, 2.0)
    assert fed(*spoken, at(user("t", TICK), 9), at(said("a2"), 10)) == (2, 2.0)
    aside = event("append", chain="agent", item=user("s1"), at="1970-01-01T00:00:30Z")
    assert fed(*spoken, aside) == (2, 2.0)
    assert fed(append(user("u1"))) == (1, None)
