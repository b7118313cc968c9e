"""Extraction and dreams of one agent: stored texts, audit log, reports, failures."""

import pytest

from helpers.storing import opened
from lore.config import MemorySettings
from lore.store.base import StoreError
from lore.store.locks import trylock
from lore_plugins.memory import actions
from lore_plugins.memory.agent import BUSY, NO_NEWS, memory_of_session
from lore_plugins.memory.audit import read_audit_log
from lore_plugins.memory.buckets import GENERAL, NO_TEXTS, change_bucket, read_bucket
from lore_plugins.memory.identities import bucket
from model.making import started
from plugins.memory.remembering import ANN, AT, SAID, Model, entries, memory, topics


@pytest.fixture
def store(tmp_path):
    with_memory = opened("memory", tmp_path)
    yield with_memory
    with_memory.close()


def ops(store):
    return [(entry.op, bool(entry.failure)) for entry in read_audit_log(store, "ann").entries]


def test_audit_log_holds_counts_without_texts(store):
    mine = memory(store)
    assert mine.learn(entries(SAID), again=True).added == {"facts": 1, "preferences": 1, "tasks": 1}
    assert mine.learn(entries(SAID), again=True).added == {}  # which is no entry
    source = read_bucket(store, ANN).entries["facts", "My name is Ann."]
    assert (source.at, source.session_id) == (AT, "s1")
    mine.learn(entries("Forget that my name is Ann. My name is Bob."), again=True)
    first, second = read_audit_log(store, "ann").entries
    assert (first.added, first.removed, first.session_id) == ({"facts": 1, "preferences": 1, "tasks": 1}, {}, "s1")
    assert (second.added, second.removed) == ({"facts": 1}, {"facts": 1})
    assert b"Ann" not in store.load("lore.memory.audit/ann").log


def test_failed_extraction_changes_nothing_and_is_reported(store):
    memory(store).learn(entries(SAID), again=True)
    before, heard = read_bucket(store, ANN), []
    failed = memory(store, ask=Model("no JSON"), tell=heard.append).learn(entries("My name is Bob."), again=True)
    assert failed.failure == "the answer is not a JSON object, also when asked again"
    assert read_bucket(store, ANN) == before
    why = "the answer is not a JSON object, also when asked again"
    assert heard == [f"agent main of user ann remembered nothing: {why}; the known texts stay as they were"]
    assert ops(store) == [("extract", False), ("extract", True)]


class Broken:
    url = "memory:"

    def __getattr__(self, name):
        def call(*args, **fields):
            raise StoreError("the disk is full")

        return call


def test_broken_store_is_reported_and_fails_no_turn():
    heard = []
    mine = memory(Broken(), tell=heard.append)
    assert mine.before_drop(entries(SAID)).failure == "the disk is full"
    assert [result.failure for result in mine.learn_when_idle(entries(SAID))] == ["the disk is full"] * 2
    assert mine.events(None) == ()
    assert [line.rpartition(": ")[2] for line in heard] == ["the disk is full"] * 7
    with pytest.raises(StoreError):
        mine.learn(entries(SAID), again=True)


def test_extraction_is_repeated_after_another_writer(store):
    class Overtaken(Model):
        def __call__(self, prompt, data, tokens):
            if not self.questions:
                theirs = NO_TEXTS | {"tasks": ("theirs",)}
                change_bucket(store, ANN, lambda old: old.with_texts(theirs, at=AT, session_id="s2"), at=AT)
            return super().__call__(prompt, data, tokens)

    model = Overtaken({"facts": ["lost"]}, {"facts": ["mine"], "tasks": ["theirs"]})
    assert memory(store, ask=model).learn(entries("hi"), again=True).added == {"facts": 1}
    assert '"tasks":["theirs"]' in model.questions[1][1]
    assert read_bucket(store, ANN).texts["facts"] == ("mine",)


def test_dream_is_skipped_without_news_or_lock(store):
    mine = memory(store)
    assert mine.consolidate().skipped == NO_NEWS
    mine.learn(entries(SAID), again=True)
    with trylock(f"memory:{id(store)}", "dream/main", "ann"):
        assert mine.consolidate().skipped == BUSY
    assert mine.consolidate().topics == ["known_facts", "open_tasks", "user_preferences"]
    assert mine.consolidate().skipped == NO_NEWS
    assert ops(store) == [("extract", False), ("dream", False)]


def test_unusable_lock_folder_is_reported(store, tmp_path):
    heard = []
    (tmp_path / "state").write_bytes(b"")  # a file where the folder should be
    results = memory(store, tell=heard.append).learn_when_idle(entries(SAID))
    assert results[1].failure == results[0].failure
    assert "cannot keep locks" in heard[0]


def test_dream_stops_if_texts_changed_meanwhile(store):
    """Texts extracted while a model dreams would otherwise count as covered."""
    memory(store).learn(entries(SAID), again=True)
    model = Model(topics("one", "two", "three"))

    def ask_while_learning(*args):
        memory(store, session_id="s2").learn(entries("I live in Oslo."), again=True)
        return model(*args)

    with pytest.raises(StoreError, match="something else was extracted meanwhile"):
        memory(store, ask=ask_while_learning).consolidate()
    assert read_bucket(store, ANN).topics == {}
    assert read_bucket(store, ANN).is_fresh
    assert memory(store, ask=model).consolidate().topics == ["one", "three", "two"]


def test_dream_that_fell_back_is_repeated(store):
    heard = []
    memory(store).learn(entries(SAID), again=True)
    model = Model('{"topics": "none"}', "{}")
    fell = memory(store, ask=model, tell=heard.append).consolidate()
    assert (fell.topics, fell.failure) == ([GENERAL], "the answer has no topics, also when asked again")
    assert "could not be used: the answer has no topics" in model.questions[1][0]
    assert heard == ["agent main of user ann dreamt without a model: the answer has no topics, also when asked again"]
    again = memory(store, ask=Model("", topics("one", "two", "three"))).consolidate()
    assert (again.topics, again.superseded) == (["one", "three", "two"], [GENERAL])
    assert [(entry.unusable, bool(entry.failure)) for entry in read_audit_log(store, "ann").entries[1:]] == [
        (2, True), (1, False),
    ]  # fmt: skip


def of(store, **fields):
    settings = fields.pop("settings", MemorySettings(system="structured"))
    header = started(**{"session_id": "s1", "user_id": "ann", **fields})
    return memory_of_session(store, header, settings, clock=lambda: AT)


def test_session_belongs_to_its_user_and_agent(store):
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
def test_sessions_without_opt_in_have_no_memory(store, fields):
    assert of(store, **fields) is None


def test_superseded_topics_are_removed_and_counted(store):
    model = Model({"facts": ["a"]}, topics("old", "same"), {"facts": ["b"]}, topics("new", "same", supersedes=["old"]))
    mine = memory(store, ask=model, clock=iter([f"2026-01-0{day}T00:00:00Z" for day in range(1, 5)]).__next__)
    for words in ("one", "two"):
        mine.learn(entries(words), again=True)
        mine.consolidate()
    assert [entry.topic for entry in read_bucket(store, ANN).visible_topics(AT)] == ["new", "same"]
    dreams = [entry.removed for entry in actions.read_audit(store, "ann").entries if entry.op == "dream"]
    assert dreams == [{}, {"topics": 1}]
    actions.wipe_memory(store, "ann", None, now=AT, tell=[].append)
    assert not any(b"old" in store.load(entry.session_id).log for entry in store.list())
