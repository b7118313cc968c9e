"""Scenarios beside the contract of stores, for lore's own: hostile lines and names, retries, lists, deletions."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lore.store.base import SessionData, Store
from lore.store.lines import NOTHING
from lore.testing.stores import (
    AT,
    DELTA,
    LATER,
    SCENARIOS,
    Answers,
    StoreScenarios,
    add,
    attempt,
    begin,
    header,
    line,
    message,
)

_MIB = 1024 * 1024
LINES = (
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"\\ud83d and \\udc00"}}',
    b'{"kind":"append","item":{"type":"user_message","uuid":"u2","text":"\\u0000 \\u001b[2J"}}',
    '{"kind":"append","item":{"type":"user_message","uuid":"u3","text":"🎉 \u2028 \u0085 e\u0301"}}'.encode(),
    b'{"kind":"x","n":[18446744073709551616,-9223372036854775809,1.0,1e16,1E+2,-0,0.1000]}',
    b'{ "kind" : "append" ,\t"more":1, "item":{"type":"user_message","uuid":"u4","text":"a"} , "more":2 }',
    b'  {"kind":"unknown","own":{"deep":[[[[]]]]},"":null}  ',
    b'{"kind":"x"}\r',
    b'{"id":99,"kind":"x"}',
    b"{}",
    b'{"kind":"session_started","v":1,"session_id":"another"}',
    b'{"kind":"remove","uuids":["u1","never seen"]}',
    b'{"kind":"prompt_delta","seq":"not a number","selector":5}',
    b'{"kind":"x","sql":"\'; drop table events; -- $1 %s ? :a \\\\x00"}',
)


def lines_of_every_spelling(store: Store) -> Answers:
    """A line comes back byte for byte."""
    head = begin(store)
    for text in LINES:
        yield (head := add(store, text, base=head))
    yield begin(store, *LINES, session_id="at once")
    yield store.create(
        b'{ "kind":"session_started","session_id":"\\u0074", "at":"\\u0000","system":"\\ud83d" ,"own":1E2}'
    )


def large_events(store: Store) -> Answers:
    """Events of megabytes come back; one that is too large is refused with all of its delta."""
    head = begin(store, *(message(f"u{number}", chr(97 + number) * (5 * _MIB)) for number in range(4)))
    yield attempt(add, store, message("u5"), message("u6", "x" * (12 * _MIB)), base=head)
    yield add(store, message("after"), base=head)


def retries_with_other_events(store: Store) -> Answers:
    """Other events in place of a delta's own are another writer's: the delta is refused."""
    base = begin(store)
    now = add(store, message("u1"), line("x", a=1), base=base)
    for lines in (
        (message("u1"), message("u9")),
        (line("x", a=1), message("u1")),
        (message("u1"), line("x", a=1.0)),
        (message("u1"), line("x", a=True)),
    ):
        yield attempt(add, store, *lines, base=base)
    yield attempt(add, store, message("u1"), line("x", a=1), base=base, removed_ids=("u1",))
    yield add(store, line("x", a=1), base=now)  # the same event again on purpose


def retries_with_metadata(store: Store) -> Answers:
    """A retry adds its leaf and metadata, but never restores old ones."""
    base = begin(store)
    add(store, message("u1"), base=base)
    head = add(store, message("u1"), base=base, metadata=b'{"a":1}', leaf_id="u1")
    yield head
    now = add(store, base=head, metadata=b'{"a":2}')
    yield attempt(add, store, message("u1"), base=base, metadata=b'{"a":1}')
    yield add(store, message("u2"), base=now)
    yield attempt(add, store, message("u1"), base=base, metadata=b'{"a":3}')


def invalid_full_saves(store: Store) -> Answers:
    """A session with a wrong line or name is refused whole."""
    good = SessionData(session_id="s", head=NOTHING, events=(header(), message("u1")))
    for wrong in (
        {"events": ()},
        {"first": 2},
        {"session_id": "t"},
        {"events": (message("u1"), header())},
        {"events": (header(), b"no line")},
        {"events": (header(), message("u1") + b"\n" + message("u2"))},
        {"metadata": b"[]"},
        {"leaf_id": "a\0b"},
        {"project_id": ""},
    ):
        yield attempt(store.save, replace(good, **wrong))


def activity(store: Store) -> Answers:
    """A list names owners, turns and the time of the last event in order: times are not compared."""
    begin(store, session_id="t")
    head = begin(store, user_id="u\0é", agent_id="helper")
    yield head
    wrong = line("turn_started", turn="none", at="\0")
    head = add(store, line("turn_started", turn=1, at=LATER), message("u1"), wrong, base=head)
    yield head
    other = b'{"agentId":"x","turn":1,"kind":"turnStarted","chain":"side","own":"\\ud83d"}'
    head = add(store, other, message("u2"), base=head, updated_at=AT)
    yield head
    store.move("s", "p")
    yield add(store, line("turn_completed", turn=1, at=AT), base=head)
    data = store.load("s")
    turns = [line("turn_started", turn=turn, at=LATER) for turn in range(1, 2500)]
    yield store.save(replace(data, events=(*data.events, *turns)))


def deletion_with_forks(store: Store) -> Answers:
    """Forks are deleted before the session that they were forked from, and clients of all of them are forgotten."""
    begin(store, DELTA, session_id="root")
    begin(store, session_id="one", parent_session_id="root")
    begin(store, DELTA, session_id="grandchild", parent_session_id="one")
    begin(store, session_id="other", parent_session_id="a session of another store")
    for name in ("root", "grandchild", "other"):
        store.bind(f"to {name}", name)
    yield store.delete("root")
    yield [store.resolve(key) for key in ("to root", "to grandchild", "to other")]
    begin(store, session_id="a", parent_session_id="b")
    begin(store, session_id="b", parent_session_id="a")
    begin(store, session_id="c", parent_session_id="c")
    yield store.delete("c")
    yield sorted(store.delete("a"))


def deletion_and_a_new_session(store: Store) -> Answers:
    """A session that begins again under the name of a deleted one has nothing of it."""
    begin(store, DELTA, message("u1", "x" * 100_000), project_id="p")
    begin(store, message("u1"), DELTA, session_id="stays")
    store.bind("client", "s")
    yield store.delete("s")
    yield store.vacuum() >= 0
    yield store.create(header(model="another"))
    yield store.resolve("client")
    yield add(store, message("u2"), session_id="stays")


def client_keys(store: Store) -> Answers:
    """A client means one session, whatever its key holds, or its key is refused."""
    begin(store)
    begin(store, session_id="t")
    for key in ("../x", "a b", "'; drop table clients; --", "%", "_", "é", "e\u0301", "x" * 512):
        store.bind(key, "s")
    for key in ("", "a\0b", "a\nb", "x" * 513, "\ud800"):
        yield attempt(store.bind, key, "s")
    yield [attempt(store.resolve, key) for key in ("../x", "é", "e\u0301", "%", "É", "a\nb")]
    yield attempt(store.bind, "a b", "t")
    yield store.resolve("a b")
    store.bind("a b", "t", replace=True)
    yield store.resolve("a b")


MORE: tuple[Callable[[Store], Answers], ...] = (
    lines_of_every_spelling, large_events, retries_with_other_events, retries_with_metadata, invalid_full_saves,
    activity, deletion_with_forks, deletion_and_a_new_session, client_keys,
)  # fmt: skip
ALL = (*SCENARIOS, *MORE)


class MoreScenarios(StoreScenarios):
    """Plays them on a store."""

    @pytest.mark.parametrize("scenario", MORE, ids=lambda scenario: scenario.__name__)
    def test_store_answers_in_other_scenarios(self, tmp_path: Path, scenario: Callable[[Store], Answers]) -> None:
        self.play(tmp_path, scenario)
