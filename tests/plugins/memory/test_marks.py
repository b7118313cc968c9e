"""Up to where a session was learnt from: marks that a rewind, a cut and another session of the same name meet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from helpers.storing import opened
from lore.asking import SummaryError
from lore.session import event
from lore.store.session import StoredSession
from lore_plugins.memory.agent import LEARNT, LEFT, UNSPOKEN
from lore_plugins.memory.buckets import FEW, MOST_MARKS, Horizon, Learnt, Remembered, change, read, wipe
from lore_plugins.memory.extraction import BACK, DIGITS, behind, mark_of
from lore_plugins.memory.identities import bucket
from model.making import Fold, append, call, said, started, user
from plugins.memory.remembering import ANN, AT, SAID, Model, entries, memory

TESTS = Path(__file__).parents[2]


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    made = opened(request.param, tmp_path)
    yield made
    made.close()


def talk(*names):
    made = Fold(started())
    for one in names:
        made.take(append(user(one)))
    return made.state.main().entries


def numbered(count, *more):
    return talk(*[f"u{number}" for number in range(count)], *more)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 300])
def test_behind_its_mark_nothing_of_a_timeline_is_new(count):
    whole = numbered(count)
    assert behind(whole, mark_of(whole)) == count
    assert behind(numbered(count, "x"), mark_of(whole)) == count


@pytest.mark.parametrize(("left", "place"), [(299, 299), (296, 296), (290, 284), (100, 44), (40, 0)])
def test_after_a_rewind_little_is_learnt_twice(left, place):
    """A rewound session was once learnt from as a whole again, and what others had closed since came back."""
    mark = mark_of(numbered(300))
    assert behind(numbered(left, "x", "y"), mark) == place


def test_a_mark_is_small_and_names_nobody():
    mark = mark_of(talk(*["ann@example.org" * 1_000 + str(number) for number in range(300)]))
    assert [len(one) for one in mark] == [DIGITS] * len(BACK)


def test_what_was_pruned_and_another_session_of_the_name_are_new_as_a_whole():
    mark = mark_of(numbered(10))
    assert behind(talk("a", "b"), mark) == behind(talk("a", "b"), ()) == behind(talk("a"), None) == 0


def asked_of(model):
    """The messages that a model was asked about."""
    return [data.partition("New messages")[2] for prompt, data, _ in model.asked if "new messages" in prompt]


def test_who_begins_anew_learns_only_what_came_since_and_revives_nothing(store, tmp_path):
    """Nothing durable said what was learnt: each restart paid for it again, and brought finished tasks back."""
    timeline = entries(SAID)
    memory(store, tmp_path).rest_now(timeline)
    memory(store, tmp_path, session_id="s2").rest_now(entries("The login test is done."))
    assert read(store, ANN).structure.tasks == ()
    model = Model({"facts": ["x"]})
    memory(store, tmp_path, session_id="s2").consolidate()
    before = store.list()
    done = memory(store, tmp_path, ask=model).rest_now(timeline)
    assert (done.extracted.skipped, asked_of(model), store.list()) == (LEARNT, [], before)
    assert read(store, ANN).structure.tasks == ()
    memory(store, tmp_path).learn(entries(SAID, ["We need to wait. Agreed: tabs."], "We run on Linux."))
    assert (read(store, ANN).structure.tasks, read(store, ANN).structure.decisions) == ((), ("Agreed: tabs.",))


def test_the_beginning_of_an_exchange_that_goes_on_is_given_as_learnt_and_alone_asks_nobody(store, tmp_path):
    memory(store, tmp_path).learn(entries("We run on Linux."))
    model = Model({"facts": ["x"]})
    assert memory(store, tmp_path, ask=model).learn(entries("We run on Linux.", call("m1", call_id="t1"))).failure == ""
    assert model.asked == []
    memory(store, tmp_path, ask=model).learn(entries("We run on Linux.", call("m1", call_id="t1"), ["Which one?"]))
    assert [json.loads(one) for one in asked_of(model)[0].splitlines()[1:]] == [
        {"role": "user", "text": "We run on Linux.", "learnt": True}, {"role": "assistant", "text": "Which one?"}
    ]  # fmt: skip


def test_what_is_learnt_and_its_mark_are_one_write(store, tmp_path):
    memory(store, tmp_path).learn(entries("We run on Linux."))
    volume = next(one for one in store.list() if one.session_id.count("/") == 3)
    lines = store.load(volume.session_id).events
    assert [json.loads(line)["kind"] for line in lines[1:]] == ["remembered", "extracted", "learnt"]


def test_where_a_compaction_took_what_was_said_nobody_is_told_that_no_person_spoke(store, tmp_path):
    """After a long session was compacted it read "no person said anything in it"."""
    fold = Fold(started(), append(user("u1", SAID)), append(said("a1", "ok")), append(said("a2", "done")))
    assert memory(store, tmp_path).before_drop(fold.state.main().entries, 2).added
    fold.take(event("compact_applied", uuid="d", trigger="manual", preserved_uuids=["a2"]))
    assert memory(store, tmp_path).learn(fold.state.main().entries).skipped == LEFT


def test_a_failure_marks_nothing_and_what_nobody_said_neither(store, tmp_path):
    timeline = entries(SAID)
    assert memory(store, tmp_path, ask=Model(SummaryError("no"))).learn(timeline).failure
    assert read(store, ANN).learnt == {}
    assert memory(store, tmp_path).learn(entries("[SCHEDULED TICK] x")).skipped == UNSPOKEN
    assert store.list() == [one for one in store.list() if one.session_id.startswith("lore.memory.audit/")]
    assert memory(store, tmp_path).learn(timeline).added


def test_what_a_pause_has_taught_is_not_learnt_again_when_it_is_pruned(store, tmp_path):
    timeline = entries(SAID, ["ok"], "We run on Linux.", ["ok"])
    memory(store, tmp_path).learn(timeline)
    model = Model({"facts": ["x"]})
    mine = memory(store, tmp_path, ask=model)
    assert mine.before_drop(timeline, 2).skipped == LEARNT
    assert model.asked == []
    assert mine.mark() == mark_of(timeline)


def test_a_drop_that_came_first_leaves_the_rest_to_be_learnt(store, tmp_path):
    timeline = entries(SAID, ["ok"], "We run on Linux.", ["ok"])
    memory(store, tmp_path).before_drop(timeline, 2)
    assert memory(store, tmp_path).learn(timeline).added == {"facts": 1}
    assert memory(store, tmp_path).learn(list(timeline)[2:]).skipped == LEARNT


def test_what_another_process_learnt_meanwhile_is_not_learnt_on_top_of_it(store, tmp_path):
    timeline = entries(SAID)

    class Overtaken(Model):
        def __call__(self, prompt, data, tokens):
            if not self.asked:
                memory(store, tmp_path).learn(timeline)
            return super().__call__(prompt, data, tokens)

    model = Overtaken({"tasks": ["twice"]})
    assert memory(store, tmp_path, ask=model).learn(timeline).skipped == LEARNT
    assert len(model.asked) == 1
    assert "twice" not in read(store, ANN).structure.tasks


def test_a_wipe_takes_the_marks_and_neither_this_process_nor_the_next_idle_pass_brings_back_what_it_took(
    store, tmp_path
):
    timeline, mine = entries(SAID), memory(store, tmp_path)
    mine.rest_now(timeline, 0.0)
    wipe(store, "ann")
    assert read(store, ANN).learnt == {}
    assert mine.learn(timeline).skipped == LEARNT
    mine._note("wipe", AT, {"facts": 1}, {})  # as the command notes it
    again = memory(store, tmp_path)
    assert again.rest_now(timeline, 0.0).extracted.skipped == LEARNT
    assert again.rest_now(timeline, 1e12).extracted.added == {"facts": 1, "preferences": 1, "tasks": 1}


def test_another_agents_wipe_holds_nothing_back(store, tmp_path):
    helper = memory(store, tmp_path, bucket("ann", "helper"))
    helper._note("wipe", AT, {"facts": 1}, {})
    assert memory(store, tmp_path).rest_now(entries(SAID), 0.0).extracted.added


def marked(store, number):
    records = [Learnt(session_id=f"s{number}", mark=("0" * DIGITS,), at=f"2026-01-01T00:00:00.{number:06}Z")]
    change(store, ANN, lambda known: records, at=AT)


def test_marks_are_bounded_and_the_horizon_stands_for_those_let_go_of(tmp_path):
    store = opened("memory", tmp_path)
    records = [
        Learnt(session_id=f"s{number}", mark=("0" * DIGITS,), at=f"2026-01-01T00:00:{number % 60:02}Z")
        for number in range(MOST_MARKS + 1)
    ]
    known = change(store, ANN, lambda _: [*records, records[1]], at=AT)
    assert (len(known.learnt), known.horizon, next(iter(known.learnt))) == (MOST_MARKS, records[0].at, "s2")
    again = memory(store, tmp_path, session_id="s0")
    assert again.rest_now(entries(SAID), 1_000.0).extracted.skipped == LEARNT
    assert again.rest_now(entries(SAID), 1e12).extracted.added
    store.close()


def test_marks_move_to_the_next_volume_but_for_those_of_sessions_that_were_deleted(store, tmp_path):
    for name in ("s1", "s2"):
        StoredSession.begin(store, event("session_started", session_id=name)).save()
        memory(store, tmp_path, session_id=name).learn(entries(f"We run on {name}."))
    store.delete("s2")
    change(store, ANN, lambda known: [Remembered(section="facts", text="z")], at=AT, purge=True)
    assert list(read(store, ANN).learnt) == ["s1"]


def test_many_marks_do_not_make_a_volume_move_with_every_change(tmp_path):
    store = opened("memory", tmp_path)
    for number in range(FEW * 2):
        StoredSession.begin(store, event("session_started", session_id=f"s{number}")).save()
        marked(store, number)
    volumes = {one.session_id for one in store.list()}
    marked(store, 1)
    assert {one.session_id for one in store.list()} == volumes
    assert len(read(store, ANN).learnt) == FEW * 2
    store.close()


def test_what_taught_nothing_is_marked_too_and_asks_no_model_again(store, tmp_path):
    memory(store, tmp_path).learn(entries("Good morning to you."))
    model = Model({"facts": ["x"]})
    assert memory(store, tmp_path, ask=model).learn(entries("Good morning to you.")).skipped == LEARNT
    assert model.asked == []


def test_a_mark_that_another_process_made_meanwhile_is_seen_where_nothing_else_changed(store, tmp_path):
    timeline = entries("Good morning to you.")

    class Overtaken(Model):
        def __call__(self, prompt, data, tokens):
            memory(store, tmp_path).learn(timeline)
            return super().__call__(prompt, data, tokens)

    assert memory(store, tmp_path, ask=Overtaken({"facts": ["x"]})).learn(timeline).skipped == LEARNT
    assert read(store, ANN).structure.is_empty


def test_the_horizon_moves_to_the_next_volume(store):
    change(store, ANN, lambda known: [Horizon(at=AT)], at=AT)
    change(store, ANN, lambda known: [Remembered(section="facts", text="z")], at=AT, purge=True)
    assert read(store, ANN).horizon == AT


class KilledError(BaseException):
    """Stands for the end of a process, which nothing catches."""


WRITES = ("create", "save", "save_delta", "append", "delete")


def dying(store, monkeypatch, after):
    """Let a store's process end behind its write of this number; returns the writes that there were."""
    done = []

    def wrapped(name, real):
        def write(*args, **fields):
            made = real(*args, **fields)
            done.append(name)
            if len(done) == after:
                raise KilledError
            return made

        return write

    for name in [one for one in WRITES if hasattr(store, one)]:
        monkeypatch.setattr(store, name, wrapped(name, getattr(store, name)))
    return done


@pytest.mark.parametrize("after", range(1, 12))
def test_a_process_that_dies_between_two_writes_has_learnt_and_marked_or_neither(after, tmp_path, monkeypatch):
    """What was remembered without a mark is paid for twice; a mark without what was remembered loses it."""
    store = opened("sqlite", tmp_path)
    with monkeypatch.context() as patched:
        done = dying(store, patched, after)
        with suppress(KilledError):
            memory(store, tmp_path).rest_now(entries(SAID))
    known = read(store, ANN)
    assert known.structure.is_empty is (known.learnt == {})
    model = Model({"preferences": ["tabs"]})
    memory(store, tmp_path, ask=model).learn(entries(SAID))
    assert len(asked_of(model)) == (0 if known.learnt else 1)
    assert not read(store, ANN).structure.is_empty
    assert done != []
    store.close()


def test_a_process_that_is_killed_while_its_model_answers_has_marked_what_it_learnt_before(tmp_path):
    opened("sqlite", tmp_path).close()
    script = """
import os, signal, sys
from pathlib import Path
from plugins.memory.remembering import SAID, entries, memory
from helpers.storing import opened

def kill(prompt, data, tokens):
    os.kill(os.getpid(), signal.SIGKILL)

place = Path(sys.argv[1])
store = opened("sqlite", place)
memory(store, place).learn(entries(SAID))
memory(store, place, session_id="s2", ask=kill).learn(entries("We run on Linux."))
"""
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH", ""))))
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env={**os.environ, "PYTHONPATH": path})
    assert ended.returncode == -signal.SIGKILL
    store = opened("sqlite", tmp_path)
    assert list(read(store, ANN).learnt) == ["s1"]
    assert memory(store, tmp_path).learn(entries(SAID)).skipped == LEARNT
    assert memory(store, tmp_path, session_id="s2").learn(entries("We run on Linux.")).added == {"facts": 1}
    store.close()
