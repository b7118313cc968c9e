"""Scenarios beside the contract of stores, for lore's own: hostile lines and names, retries, lists, deletions."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from lore.store.base import SessionData, Store, StoreError
from lore.store.lines import NOTHING
from lore.testing.stores import (
    AT,
    BAD_IDS,
    DELTA,
    LATER,
    SCENARIOS,
    Answers,
    StoreScenarios,
    add,
    attempt,
    begin,
    events,
    header,
    ids,
    line,
    message,
)

_MIB = 1024 * 1024
BAD_LINES = (
    b"", b" ", b"null", b"[]", b'"text"', b"{", b"{}{}", b'{"a":1,}', b'{"a":\xff}', b'{"a":NaN}', b'{"a":1e400}',
    b"\xef\xbb\xbf{}", b'{"a":1}\n', b'{"a":\n1}', b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
)  # fmt: skip
BAD_NOTES: tuple[dict[str, Any], ...] = (
    *({"leaf_id": text} for text in BAD_IDS),
    *({field: text} for text in ("a\0b", "\ud800", "x" * 513) for field in ("created_at", "updated_at")),
    *({"metadata": text} for text in (b"[]", b"", b"null", b"{", b'{"a":\xff}', b'{"a":NaN}')),
)
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


def loading_in_part(store: Store) -> Answers:
    """Events after a number are returned with the head of the whole session."""
    begin(store, message("u1"), message("u2"))
    for after in (1, 3, 99, -5):
        yield store.load("s", after=after)


def invalid_deltas(store: Store) -> Answers:
    """A delta with a wrong line, name, time or version is refused whole."""
    head = begin(store)
    for notes in BAD_NOTES:
        yield attempt(add, store, message("u1"), base=head, **notes)
    for wrong in BAD_LINES:
        yield attempt(add, store, message("u1"), wrong, base=head, leaf_id="u1")
    yield attempt(add, store, message("u1"), base=head, version=99)


def times(store: Store) -> Answers:
    """Times are kept and never compared: clocks go back."""
    begin(store)
    yield add(store, message("u1"), updated_at=LATER)
    yield add(store, message("u2"), updated_at=AT)
    yield add(store, message("u3"), created_at=LATER)


def leaf_and_metadata(store: Store) -> Answers:
    """Keys of metadata replace stored ones of the same name; a leaf stays until another is named."""
    old = begin(store, message("u1"), message("u2"))
    yield add(store, metadata=b'{"a":1,"b":{"c":[1, 2]}}', leaf_id="u1")
    yield add(store, message("u3"), metadata=b'{"a":null,"d":18446744073709551617}')
    yield attempt(add, store, base=old, metadata=b'{"a":2}')
    yield add(store, leaf_id="u3")


def moved_session(store: Store) -> Answers:
    """A session moves to another project; one of a wrong name is refused."""
    head = begin(store, message("u1"), project_id="p")
    begin(store, message("u1"), project_id="p", session_id="stays")
    for project in ("q", "q", "", "a\0b", "x" * 513):
        yield attempt(store.move, "s", project)
    yield store.create(header(project_id="p"))
    yield add(store, message("u2"), base=head)
    yield ids(store, "q"), ids(store, "p")


def projects(store: Store) -> Answers:
    """Sessions of one project do not see those of another."""
    for name, project in (("c", "p"), ("a", "p"), ("b", "q"), ("d", None)):
        begin(store, message(name), session_id=name, **({} if project is None else {"project_id": project}))
    yield [ids(store, project) for project in (None, "p", "q", "P", "", "%", "p'")]
    yield add(store, message("u2"), session_id="a", removed_ids=("u1",), leaf_id="u2", metadata=b'{"x":1}')


MORE: tuple[Callable[[Store], Answers], ...] = (
    lines_of_every_spelling, large_events, retries_with_other_events, retries_with_metadata, invalid_full_saves,
    activity, loading_in_part, invalid_deltas, times, leaf_and_metadata, moved_session, projects, deletion_with_forks,
    deletion_and_a_new_session, client_keys,
)  # fmt: skip
ALL = (*SCENARIOS, *MORE)


class MoreScenarios(StoreScenarios):
    """Plays them on a store."""

    @pytest.mark.parametrize("scenario", MORE, ids=lambda scenario: scenario.__name__)
    def test_store_answers_in_other_scenarios(self, tmp_path: Path, scenario: Callable[[Store], Answers]) -> None:
        self.play(tmp_path, scenario)

    def test_values_are_immutable_copies(self, store: Store) -> None:
        first, second = bytearray(header()), bytearray(message("u1"))
        add(store, cast("bytes", second), base=store.create(cast("bytes", first)))
        first[0] = second[0] = 0
        before = store.load("s")
        assert before.events == (header(), message("u1"))
        assert {type(value) for value in (*before.events, before.metadata, before.log)} == {bytes}
        listed = store.list()
        if isinstance(listed, list):
            cast("list[object]", listed).clear()
        assert (store.load("s"), len(store.list())) == (before, 1)

    def test_record_of_a_store_is_kept_or_refused(self, store: Store) -> None:
        expected = begin(store, message("u1")) and events(store)
        for fields in ({"size": 0}, {"size": -1}, {"size": 10**9, "digest": "ab" * 32, "leaf_id": "x"}):
            text = line("saved", **fields)
            with suppress(StoreError):
                add(store, text)
                expected = (*expected, text)
            assert events(store) == expected
        add(store, message("u2"))
        assert (events(store), store.load("s").leaf_id) == ((*expected, message("u2")), None)
