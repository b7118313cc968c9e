"""Extracting and dreaming: what is stored, what is told, what fails no turn."""

from __future__ import annotations

import pytest

from helpers.storing import opened
from lore.config import MemorySettings
from lore.store.base import StoreError
from lore.store.locks import trylock
from lore_plugins.memory.agent import BUSY, QUIET, is_idle, remembering_of
from lore_plugins.memory.audit import audit_log
from lore_plugins.memory.buckets import GENERAL, Remembered, change, read
from lore_plugins.memory.identities import bucket
from model.making import started
from plugins.memory.remembering import ANN, AT, SAID, Model, entries, memory, topics


@pytest.fixture
def store(tmp_path):
    with_memory = opened("memory", tmp_path)
    yield with_memory
    with_memory.close()


def ops(store):
    return [(one.op, bool(one.failure)) for one in audit_log(store, "ann").entries]


def test_what_was_said_is_remembered_once_with_its_source(store, tmp_path):
    mine = memory(store, tmp_path)
    assert mine.learn(entries(SAID), again=True).added == {"facts": 1, "preferences": 1, "tasks": 1}
    assert mine.learn(entries(SAID), again=True).added == {}
    one = read(store, ANN).entries["facts", "My name is Ann."]
    assert (one.at, one.session_id) == (AT, "s1")
    assert ops(store) == [("extract", False)]


def test_the_audit_log_has_counts_and_never_words(store, tmp_path):
    mine = memory(store, tmp_path)
    mine.learn(entries(SAID), again=True)
    mine.learn(entries("Forget that my name is Ann. My name is Bob."), again=True)
    first, second = audit_log(store, "ann").entries
    assert (first.added, first.removed, first.session_id) == ({"facts": 1, "preferences": 1, "tasks": 1}, {}, "s1")
    assert (second.added, second.removed) == ({"facts": 1}, {"facts": 1})
    assert b"Ann" not in store.load("lore.memory.audit/ann").log


def test_a_failure_leaves_what_is_known_and_is_told_and_audited(store, tmp_path):
    memory(store, tmp_path).learn(entries(SAID), again=True)
    before, heard = read(store, ANN), []
    failed = memory(store, tmp_path, ask=Model("no JSON"), tell=heard.append).learn(
        entries("My name is Bob."), again=True
    )
    assert failed.failure == "the answer is no JSON object, also when asked again"
    assert read(store, ANN) == before
    why = "the answer is no JSON object, also when asked again"
    assert heard == [f"nothing was remembered by agent main of user ann: {why}; what was known stays"]
    assert ops(store) == [("extract", False), ("extract", True)]


class Broken:
    """A store of which only the addresses work."""

    url = "memory:"

    def __getattr__(self, name):
        def call(*args, **fields):
            raise StoreError("the disk is full")

        return call


def test_a_broken_store_fails_no_turn_and_is_told(tmp_path):
    heard = []
    mine = memory(Broken(), tmp_path, tell=heard.append)
    assert mine.before_drop(entries(SAID)).failure == "the disk is full"
    assert mine.consolidate_safely().failure == "the disk is full"
    assert mine.events(None) == ()
    assert [one.rpartition(": ")[2] for one in heard] == ["the disk is full"] * 5
    with pytest.raises(StoreError):
        mine.learn(entries(SAID), again=True)


def test_an_extraction_that_another_writer_overtakes_is_made_again_on_top_of_theirs(store, tmp_path):
    class Overtaken(Model):
        def __call__(self, prompt, data, tokens):
            if not self.asked:
                change(store, ANN, lambda known: [Remembered(section="tasks", text="theirs")], at=AT)
            return super().__call__(prompt, data, tokens)

    model = Overtaken({"facts": ["lost"]}, {"facts": ["mine"], "tasks": ["theirs"]})
    assert memory(store, tmp_path, ask=model).learn(entries("hi"), again=True).added == {"facts": 1}
    assert '"tasks":["theirs"]' in model.asked[1][1]
    assert read(store, ANN).structure.facts == ("mine",)


def test_a_dream_is_skipped_without_news_and_while_another_is_under_way(store, tmp_path):
    mine = memory(store, tmp_path)
    assert mine.consolidate().skipped == QUIET
    mine.learn(entries(SAID), again=True)
    with trylock(f"memory:{id(store)}", "dream/main", "ann", folder=tmp_path / "locks"):
        assert mine.consolidate().skipped == BUSY
    assert mine.consolidate().topics == ("known_facts", "open_tasks", "user_preferences")
    assert mine.consolidate().skipped == QUIET
    assert ops(store) == [("extract", False), ("dream", False)]


def test_a_pass_that_can_take_no_lock_is_told_and_raises_nothing(store, tmp_path):
    heard = []
    (tmp_path / "locks").write_bytes(b"")  # a file where the folder should be
    done = memory(store, tmp_path, tell=heard.append).rest_now(entries(SAID))
    assert done.consolidated.failure == done.extracted.failure != ""
    assert "cannot keep locks" in heard[0]


def test_a_dream_of_what_is_not_all_that_is_known_any_more_is_given_up(store, tmp_path):
    """What was extracted while a model dreamt would count as dreamt over."""
    memory(store, tmp_path).learn(entries(SAID), again=True)
    model = Model(topics("one", "two", "three"))

    def asked(*args):
        memory(store, tmp_path, session_id="s2").learn(entries("I live in Oslo."), again=True)
        return model(*args)

    with pytest.raises(StoreError, match="something else was extracted meanwhile"):
        memory(store, tmp_path, ask=asked).consolidate()
    assert read(store, ANN).topics == {}
    assert read(store, ANN).is_fresh
    assert memory(store, tmp_path, ask=model).consolidate().topics == ("one", "three", "two")


def test_a_dream_that_fell_back_is_visible_and_dreamt_again(store, tmp_path):
    heard = []
    memory(store, tmp_path).learn(entries(SAID), again=True)
    fell = memory(store, tmp_path, ask=Model(""), tell=heard.append).consolidate()
    assert (fell.topics, fell.failure) == ((GENERAL,), "the answer is empty, also when asked again")
    assert heard == ["agent main of user ann dreamt without a model: the answer is empty, also when asked again"]
    again = memory(store, tmp_path, ask=Model(topics("one", "two", "three"))).consolidate()
    assert (again.topics, again.superseded) == (("one", "three", "two"), (GENERAL,))
    assert ops(store)[1:] == [("dream", True), ("dream", False)]


def of(store, **fields):
    settings = fields.pop("settings", MemorySettings(system="structured"))
    header = started(**{"session_id": "s1", "user_id": "ann", **fields})
    return remembering_of(store, header, settings, clock=lambda: AT)


def test_a_session_belongs_to_the_memory_of_its_user_and_its_agent(store):
    assert of(store).bucket == ANN
    assert of(store, user_id=None).bucket == bucket(None)
    both = MemorySettings(system="structured", agents=("coder",))
    assert of(store, agent_id="coder", settings=both).bucket == bucket("ann", "coder")


@pytest.mark.parametrize(
    "fields",
    [
        {"settings": MemorySettings()}, {"agent_id": "other"}, {"parent_session_id": "s0"},
        {"session_id": "lore.memory/ann"},
        {"user_id": "00000000-0000-0000-0000-000000000000"},
    ],
)  # fmt: skip
def test_what_is_not_opted_in_or_nobodys_belongs_to_none(store, fields):
    assert of(store, **fields) is None


@pytest.mark.parametrize(
    ("gap", "last", "now", "idle"),
    [(300, 0.0, 300.0, True), (300, 0.0, 299.0, False), (0, 0.0, 1e9, False), (300, None, 1e9, False)],
)
def test_a_session_is_idle_after_the_gap_and_0_is_off(gap, last, now, idle):
    assert is_idle(gap, last, now) is idle
