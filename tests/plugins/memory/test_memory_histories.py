"""Any history of extractions, dreams, deletions and wipes leaves the same memory as a plain model.

The model is a table of texts and one of topics for each user and agent. At each moment the store has exactly these,
a second wipe finds nothing, and no deleted or wiped text is in the store.
"""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.storing import opened
from lore_plugins.memory.actions import delete_names
from lore_plugins.memory.audit import read_audit_log
from lore_plugins.memory.buckets import KINDS, SECTIONS, entry_id, read_bucket, wipe
from lore_plugins.memory.identities import bucket
from plugins.memory.remembering import AT, Model, contents, entries, memory, topics

WHOSE = (("ann", "main"), ("ann", "helper"), ("../ann", "main"))
_texts = st.lists(st.sampled_from(["one", "two", "three", "zürich"]), max_size=3, unique=True)
_structures = st.fixed_dictionaries(dict.fromkeys(SECTIONS, _texts))
_names = st.lists(st.sampled_from(["alpha", "beta", "gamma"]), min_size=1, max_size=3, unique=True)
_steps = st.lists(
    st.tuples(
        st.sampled_from(WHOSE),
        st.one_of(
            st.tuples(st.just("extract"), _structures),
            st.tuples(st.just("dream"), st.tuples(_names, _names)),
            st.tuples(st.sampled_from(["delete", "wipe", "wipe all", "fail"]), st.integers(0, 9)),
        ),
    ),
    max_size=12,
)


class History:
    def __init__(self, kind: str, place: Path) -> None:
        self.store = opened(kind, place)
        self.texts = {owner: dict.fromkeys(SECTIONS, ()) for owner in WHOSE}
        self.topics = {owner: set() for owner in WHOSE}
        self.fresh = dict.fromkeys(WHOSE, False)
        self.done = 0

    def play(self, whose, name, value):
        getattr(self, "_" + name.replace(" ", "_"))(whose, value)
        for owner in WHOSE:
            stored = read_bucket(self.store, bucket(*owner))
            assert {section: set(stored.texts[section]) for section in SECTIONS} == {
                section: set(texts) for section, texts in self.texts[owner].items()
            }
            assert set(stored.topics) == self.topics[owner]
            assert stored.is_fresh == self.fresh[owner]
        assert sum(len(read_audit_log(self.store, user).entries) for user in ("ann", "../ann")) == self.done

    def _memory(self, whose, answer):
        return memory(self.store, bucket(*whose), ask=Model(answer))

    def _extract(self, whose, value):
        """An empty answer fails if texts are known; an answer that changes nothing is not audited."""
        before = self.texts[whose]
        empties = not any(value.values()) and any(before.values())
        result = self._memory(whose, value).learn(entries("hi"), again=True)
        assert bool(result.failure) == empties
        if not empties and {key: tuple(value[key]) for key in SECTIONS} != before:
            same = all(set(value[key]) == set(before[key]) for key in SECTIONS)
            self.fresh[whose] |= not same
            self.done += not same
            self.texts[whose] = {key: tuple(value[key]) for key in SECTIONS} if not same else before
        self.done += empties

    def _fail(self, whose, _):
        assert self._memory(whose, "no JSON").learn(entries("hi"), again=True).failure
        self.done += 1

    def _dream(self, whose, value):
        names, superseded = value
        result = self._memory(whose, topics(*names, supersedes=superseded)).consolidate()
        assert bool(result.skipped) != self.fresh[whose]
        if self.fresh[whose]:
            self.topics[whose] = (self.topics[whose] - set(superseded)) | set(names)
            self.fresh[whose] = False
            self.done += 1

    def _delete(self, whose, number):
        pairs = [(key, text) for key, texts in self.texts[whose].items() for text in texts]
        names = sorted(self.topics[whose])
        if number < len(pairs):
            section, text = pairs[number]
            result = delete_names(self.store, [entry_id(section, text)], *whose, now=AT, tell=pytest.fail)
            self.texts[whose][section] = tuple(other for other in self.texts[whose][section] if other != text)
            self.fresh[whose] = True
        elif number - len(pairs) < len(names):
            name = names[number - len(pairs)]
            result = delete_names(self.store, [name], *whose, now=AT, tell=pytest.fail)
            self.topics[whose].discard(name)
        else:
            return
        self.done += 1
        assert sum(result.counts.values()) == 1

    def _wipe(self, whose, _):
        self._wiped(whose[0], whose[1], [whose])

    def _wipe_all(self, whose, _):
        self._wiped(whose[0], None, [owner for owner in WHOSE if owner[0] == whose[0]])

    def _wiped(self, user, agent, owners):
        counts = {kind: sum(len(self.texts[owner].get(kind, self.topics[owner])) for owner in owners) for kind in KINDS}
        assert wipe(self.store, user, agent).counts == counts
        assert not any(wipe(self.store, user, agent).counts.values())
        for owner in owners:
            self.texts[owner], self.topics[owner], self.fresh[owner] = dict.fromkeys(SECTIONS, ()), set(), False


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@settings(max_examples=15, deadline=None)
@given(_steps)
def test_any_history_matches_a_plain_model(kind, steps):
    with tempfile.TemporaryDirectory() as folder:
        history = History(kind, Path(folder))
        for whose, (name, value) in steps:
            history.play(whose, name, value)
        logs = json.dumps([text.decode() for text in contents(history.store)])
        for word in ("one", "alpha"):
            there = any(
                word in texts for owner in WHOSE for texts in (*history.texts[owner].values(), history.topics[owner])
            )
            assert there <= (word in logs)
        for user in ("ann", "../ann"):
            wipe(history.store, user)
        assert list(contents(history.store)) == []
        assert history.store.verify().damage == ()
        history.store.close()
