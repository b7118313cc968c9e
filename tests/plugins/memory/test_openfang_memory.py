"""openfang: what it extracts and dreams, where no other test has it (the facts, sections 5.2 and 5.3).

Where openfang had a defect the test holds what it should have been, and names the defect.
"""

from __future__ import annotations

import pytest

from helpers.storing import opened
from lore_plugins.memory.buckets import read
from model.making import dumps, header
from plugins.memory.remembering import ANN, AT, Model, contents, entries, memory, topics


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def store(request, tmp_path):
    one = opened(request.param, tmp_path)
    yield one
    one.close()


def test_a_session_of_ticks_stores_nothing(store, tmp_path):
    """62 of 64 memories, 96.9 %, were what the scheduler had said."""
    ticks = [f"[{('AUTONOMOUS', 'SCHEDULED')[number % 2]} TICK] I prefer tick {number}" for number in range(62)]
    said = [one for tick in ticks for one in (tick, ["Let's use the tick. We need to wait."])]
    store.create(dumps(header(session_id="s1")))
    mine = memory(store, tmp_path)
    mine.learn(entries(*said), again=True)
    assert not any(read(store, ANN).counts().values())
    assert [one.session_id for one in store.list()] == ["s1"]
    mine.learn(entries(*said, "I prefer tabs.", "We run on Linux."), again=True)
    assert {text for _, text in read(store, ANN).entries} == {"I prefer tabs.", "We run on Linux."}


def test_of_a_conflict_the_new_topic_wins_and_what_is_superseded_goes_first(store, tmp_path):
    mine = memory(store, tmp_path, ask=Model({"facts": ["a"]}, topics("old", "same"), {"facts": ["b"]},
                                             topics("new", "same", supersedes=["old", "same"])))  # fmt: skip
    for words in ("one", "two"):
        mine.learn(entries(words), again=True)
        mine.consolidate()
    assert [one.topic for one in read(store, ANN).visible(AT)] == ["new", "same"]
    log = b"".join(contents(store))
    assert log.index(b'"superseded"') < log.index(b'"topic":"new"')


def test_an_empty_extraction_is_not_dreamt_over(store, tmp_path):
    model = Model(topics("one"))
    mine = memory(store, tmp_path, ask=model)
    mine.before_drop(entries("[SCHEDULED TICK] x"))
    assert mine.consolidate().skipped
    assert model.asked == []
