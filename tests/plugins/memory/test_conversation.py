"""How much of a session is new."""

from __future__ import annotations

import pytest

from lore_plugins.memory.extraction import mark_of, to_learn
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
