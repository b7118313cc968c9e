"""openfang: what is extracted and dreamt, for whom, and what a wipe takes (the facts, sections 5.2, 5.3 and 5.8).

Where openfang had a defect the test holds what it should have been, and names the defect.
"""

from __future__ import annotations

import pytest

from helpers.storing import opened
from lore.asking import SummaryAnswer, SummaryError
from lore.config import MemorySettings
from lore.errors import LoreError
from lore_plugins.memory.audit import audit_log, last_failure
from lore_plugins.memory.buckets import GENERAL, read
from lore_plugins.memory.identities import DEFAULT_USER, MemoryBucket, bucket, refusal
from model.making import dumps, header, user
from plugins.memory.remembering import ANN, AT, SAID, Model, contents, entries, memory, topics


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def store(request, tmp_path):
    one = opened(request.param, tmp_path)
    yield one
    one.close()


def known(store, whose=ANN):
    return read(store, whose)


# extraction


def test_extraction_skips_injected_context(store, tmp_path):
    injected = user(
        "i", "[Context refresh — 2026-01-01 00:00 UTC]\nI prefer what a hand says.", source="context_injection"
    )
    model = Model({"facts": ["x"]})
    memory(store, tmp_path, ask=model).learn(entries("hello", injected, ["hi"]), again=True)
    assert "hello" in model.asked[0][1]
    assert "Context refresh" not in model.asked[0][1]
    memory(store, tmp_path, bucket("bob")).learn(entries(injected, "We run on Linux."), again=True)
    assert known(store, bucket("bob")).structure.preferences == ()


def test_extraction_updates_and_does_not_append(store, tmp_path):
    model = Model({"facts": ["uses vim"]}, {"facts": ["uses helix"], "tasks": ["t"]})
    for words in ("one", "two"):
        memory(store, tmp_path, ask=model).learn(entries(words), again=True)
    assert known(store).structure.facts == ("uses helix",)
    assert '"facts":["uses vim"]' in model.asked[1][1]


def test_code_fences_are_stripped(store, tmp_path):
    memory(store, tmp_path, ask=Model('```json\n{"facts": ["x"]}\n```')).learn(entries("hi"), again=True)
    assert known(store).structure.facts == ("x",)


@pytest.mark.parametrize("answer", ["", "   ", "{unreadable", '{"facts": [}', "null"])
@pytest.mark.parametrize("before", ["", SAID])
def test_extraction_falls_back_to_what_is_known_on_an_empty_or_unreadable_answer(store, tmp_path, answer, before):
    """openfang's fallback was silent: here it is in the audit log, and told."""
    if before:
        memory(store, tmp_path).learn(entries(before), again=True)
    kept, heard = known(store), []
    memory(store, tmp_path, ask=Model(answer), tell=heard.append).learn(entries("hi"), again=True)
    assert known(store) == kept
    assert len(heard) == 1
    assert last_failure(audit_log(store, "ann")) is not None


def test_a_small_output_budget_is_doubled_and_identical_retries_are_not_made(store, tmp_path):
    """1,024 tokens truncated the JSON, and three identical retries then disabled the feature."""
    model = Model(SummaryAnswer('{"facts": ["x', cut_off=True), {"facts": ["x"]})
    memory(store, tmp_path, ask=model).learn(entries("hi"), again=True)
    assert (model.limits, known(store).structure.facts) == ([4_096, 8_192], ("x",))
    garbage = Model("garbage")
    memory(store, tmp_path, ask=garbage).learn(entries("hi"), again=True)
    assert len(garbage.asked) == 2
    assert garbage.asked[0][0] != garbage.asked[1][0], "the second question says what was wrong with the first answer"


def test_a_session_of_ticks_stores_nothing(store, tmp_path):
    """62 of 64 memories, 96.9 %, were what the scheduler had said."""
    ticks = [f"[{('AUTONOMOUS', 'SCHEDULED')[number % 2]} TICK] I prefer tick {number}" for number in range(62)]
    said = [one for tick in ticks for one in (tick, ["Let's use the tick. We need to wait."])]
    store.create(dumps(header(session_id="s1")))
    mine = memory(store, tmp_path)
    mine.learn(entries(*said), again=True)
    assert not any(known(store).counts().values())
    assert [one.session_id for one in store.list()] == ["s1"]
    mine.learn(entries(*said, "I prefer tabs.", "We run on Linux."), again=True)
    assert {text for _, text in known(store).entries} == {"I prefer tabs.", "We run on Linux."}


# dream


def test_a_dream_makes_topics(store, tmp_path):
    memory(store, tmp_path).learn(entries(SAID), again=True)
    memory(store, tmp_path, ask=Model(topics("one", "two", "three"))).consolidate()
    assert [(one.topic, one.summary, one.content) for one in known(store).visible(AT)] == [
        (name, f"about {name}", f"all of {name}") for name in ("one", "three", "two")
    ]


def test_of_a_conflict_the_new_topic_wins_and_what_is_superseded_goes_first(store, tmp_path):
    mine = memory(store, tmp_path, ask=Model({"facts": ["a"]}, topics("old", "same"), {"facts": ["b"]},
                                             topics("new", "same", supersedes=["old", "same"])))  # fmt: skip
    for words in ("one", "two"):
        mine.learn(entries(words), again=True)
        mine.consolidate()
    assert [one.topic for one in known(store).visible(AT)] == ["new", "same"]
    log = b"".join(contents(store))
    assert log.index(b'"superseded"') < log.index(b'"topic":"new"')


def test_a_topic_that_has_expired_is_hidden_on_reading(store, tmp_path):
    answer = topics("over", "stays")
    answer["topics"][0]["expires_at"] = "2026-01-02T04:00:00Z"
    memory(store, tmp_path).learn(entries(SAID), again=True)
    memory(store, tmp_path, ask=Model(answer)).consolidate()
    assert [one.topic for one in known(store).visible(AT)] == ["over", "stays"]
    assert [one.topic for one in known(store).visible("2026-01-02T04:00:00Z")] == ["stays"]


@pytest.mark.parametrize("answer", ["", "no JSON", {"topics": []}, SummaryError("nobody there")])
def test_a_dream_falls_back_to_one_general_topic(store, tmp_path, answer):
    memory(store, tmp_path).learn(entries(SAID), again=True)
    assert memory(store, tmp_path, ask=Model(answer)).consolidate().failure
    (topic,) = known(store).visible(AT)
    assert topic.topic == GENERAL
    assert "I prefer tabs" in topic.content


def test_an_empty_extraction_is_not_dreamt_over(store, tmp_path):
    model = Model(topics("one"))
    mine = memory(store, tmp_path, ask=model)
    mine.before_drop(entries("[SCHEDULED TICK] x"))
    assert mine.consolidate().skipped
    assert model.asked == []


# whose memory


def test_the_gate_is_shut_by_default_and_open_for_agents_that_opted_in():
    assert refusal(MemorySettings(), "main")
    assert refusal(MemorySettings(agents=("main",)), "main")
    assert refusal(MemorySettings(system="structured"), "main") == ""
    opted = MemorySettings(system="structured", agents=("coder",))
    assert (refusal(opted, "coder"), bool(refusal(opted, "main"))) == ("", True)
    assert refusal(opted, "coder", chain="side")
    assert refusal(opted, "coder", is_forked=True)


@pytest.mark.parametrize("name", ["", "00000000-0000-0000-0000-000000000000", "default ", "NULL", "system", "*", ".."])
def test_the_nil_id_and_reserved_names_are_refused(name):
    if name.strip() == DEFAULT_USER:
        assert bucket(name) != bucket(None)  # another id, so another user
        return
    with pytest.raises(LoreError):
        bucket(name)


def test_the_default_user_is_stable():
    assert bucket(None) == MemoryBucket("default", "main")


# wipe
