"""The contract of stores: what every store of sessions must do, whatever it keeps them in.

    class TestMyStore(StoreContract):
        def make(self, place: Path) -> Store:
            return MyStore(place / "sessions")

`place` is an empty folder of the test's own (pytest's `tmp_path`). Each store that a scenario opens is verified at the
end of the scenario, closed, and opened again: it must hold the same.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from lore.model.canonical import canonical
from lore.store.base import ConflictError, FormatError, Head, SessionData, Store, StoreError, UnknownSessionError
from lore.store.lines import NOTHING, digest_lines
from lore.testing.scenarios import (
    AT,
    BAD_IDS,
    BAD_LINES,
    BAD_NOTES,
    IDS,
    LATER,
    LINES,
    ONE,
    StoreScenarios,
    add,
    begin,
    call_at_once,
    events,
    header,
    ids,
    line,
    message,
    prompt_delta,
)

_NEWER = 987_654  # a version of the format
_WRITERS, _EACH, _ATTEMPTS = 8, 4, 500  # each refusal means that another writer succeeded: this many are never needed
_MIB = 1024 * 1024


class StoreContract(StoreScenarios):
    """What every store must do; `make` opens one, `restarts` and `stamp` say what yours can."""

    # creating and loading

    def test_created_session_holds_its_header(self, store: Store) -> None:
        first = header(project_id="p", parent_session_id="other", model="m")
        head = store.create(first)
        data = store.load("s")
        assert (data.events, data.first, data.head, data.log) == ((first,), 1, head, first + b"\n")
        assert (data.session_id, data.project_id, data.parent_session_id) == ("s", "p", "other")
        assert (data.created_at, data.leaf_id, data.metadata) == (AT, None, b"{}")
        assert head == Head(1, digest_lines(bytes.fromhex(NOTHING.digest), [first])[0].hex(), NOTHING.note)

    def test_same_header_again_changes_nothing(self, store: Store) -> None:
        assert store.create(header()) == store.create(header())
        later = add(store, message("u1"))
        assert store.create(header().replace(b":", b" : ", 1)) == later
        with pytest.raises(ConflictError, match="'s'") as caught:
            store.create(header(model="n"))
        assert caught.value.stored == later
        assert caught.value.hint
        assert events(store) == (header(), message("u1"))

    def test_other_lines_create_no_session(self, store: Store) -> None:
        unnamed = b'{"kind":"session_started","v":1}'
        for wrong in (message("u1"), b"{}", b"", b"[]", unnamed, header() + b"\n" + message("u")):
            with pytest.raises(StoreError) as caught:
                store.create(wrong)
            assert caught.value.hint
        assert not store.list()

    def test_unknown_session_is_named(self, store: Store) -> None:
        head = begin(store)
        for call in (
            lambda: store.load("t"),
            lambda: add(store, message("u1"), session_id="t", base=head),
            lambda: add(store, session_id="t", base=head),
            lambda: store.delete("t"),
            lambda: store.move("t", "p"),
            lambda: store.bind("client", "t"),
            lambda: store.prompt_deltas("t"),
            lambda: store.verify("t"),
        ):
            with pytest.raises(UnknownSessionError, match="'t'"):
                call()
        assert ids(store) == ["s"]
        assert store.resolve("client") is None

    def test_load_after_a_number_returns_later_events(self, store: Store) -> None:
        begin(store, message("u1"), message("u2"))
        data = store.load("s", after=1)
        assert (data.events, data.first, data.head.number) == ((message("u1"), message("u2")), 2, 3)
        for after in (3, 99):
            assert (store.load("s", after=after).events, store.load("s", after=after).head) == ((), data.head)
        assert store.load("s", after=-5) == store.load("s")

    # deltas

    def test_batch_is_stored_in_order(self, store: Store) -> None:
        batch = [message(f"u{number}") for number in range(9, 0, -1)]
        head = add(store, *batch, base=store.create(header()))
        digest = digest_lines(bytes.fromhex(NOTHING.digest), [header(), *batch])[-1].hex()
        assert (head.number, head.digest) == (10, digest)
        assert events(store) == (header(), *batch)
        assert store.load("s").head == store.list()[0].head == head
        assert store.list()[0].size == len(store.load("s").log)

    def test_stale_or_unknown_base_is_refused(self, store: Store) -> None:
        old = begin(store)
        now = add(store, message("u1"), base=old)
        before = store.load("s")
        with pytest.raises(ConflictError) as caught:
            add(store, message("u2"), base=old)
        assert (caught.value.base, caught.value.stored) == (old, now)
        assert str(old) in str(caught.value)
        assert str(now) in str(caught.value)
        assert caught.value.hint
        for base in (NOTHING, Head(9, now.digest, now.note), Head(2, "f" * 64, now.note), Head(-1, "", "")):
            with pytest.raises(ConflictError):
                add(store, message("u2"), base=base)
        with pytest.raises(ConflictError):
            add(store, base=old)
        assert store.load("s") == before

    def test_removed_ids_become_an_event(self, store: Store) -> None:
        odd = ("\ud83d", "a\0b", "é", '"', "\n")
        begin(store, message("u1"), message("failed"))
        assert add(store, message("u2"), removed_ids=("failed",)).number == 5
        add(store, removed_ids=("u2", "u1"))
        add(store, removed_ids=odd)
        removals = [line("remove", uuids=uuids) for uuids in (["failed"], ["u2", "u1"], list(odd))]
        assert events(store)[3:] == (removals[0], message("u2"), *removals[1:])

    def test_empty_delta_changes_nothing(self, store: Store) -> None:
        begin(store, message("u1"))
        add(store, leaf_id="u1", metadata=b'{"a":1}')
        before = store.load("s")
        assert add(store, base=before.head) == before.head
        assert add(store, base=before.head, metadata=b" {} ", removed_ids=(), leaf_id=None) == before.head
        assert store.load("s") == before

    def test_large_events_come_back(self, store: Store) -> None:
        batch = [message(f"u{number}", chr(97 + number) * (5 * _MIB)) for number in range(4)]
        head = begin(store, *batch)
        with pytest.raises(StoreError, match="MiB"):
            add(store, message("u5"), message("u6", "x" * (12 * _MIB)), base=head)
        assert events(store) == (header(), *batch)
        assert add(store, message("after"), base=head).number == 6

    def test_times_are_kept_uncompared(self, store: Store) -> None:
        begin(store)
        add(store, message("u1"), updated_at=LATER)
        add(store, message("u2"), updated_at=AT)  # a clock that went back
        add(store, message("u3"), created_at=LATER)
        assert (store.load("s").created_at, store.load("s").updated_at) == (LATER, AT)
        assert store.list()[0].updated_at == AT

    # a delta that is sent again because its answer was lost

    def test_exact_retry_returns_the_first_answer(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            base = begin(store)
            first = add(store, message("u1"), message("u2"), base=base)
            add(store, message("u3"), base=first)
            before = store.load("s")
            assert add(store, message("u1"), message("u2"), base=base) == first
            assert store.load("s") == before
            self.needs_restarts()
        with self.opened(tmp_path) as store:
            assert add(store, message("u1"), message("u2"), base=base) == first

    def test_retry_with_more_events_adds_them(self, store: Store) -> None:
        base = begin(store)
        add(store, message("u1"), base=base)
        respelled = message("u1").replace(b":", b" : ", 1)
        head = add(store, respelled, message("u2"), message("u3"), base=base)
        assert events(store) == (header(), message("u1"), message("u2"), message("u3"))
        assert store.load("s").head == head

    def test_retry_never_restores_old_metadata(self, store: Store) -> None:
        base = begin(store)
        first = add(store, message("u1"), base=base, metadata=b'{"a":1}')
        now = add(store, base=first, metadata=b'{"a":2}')
        with pytest.raises(ConflictError) as caught:
            add(store, message("u1"), base=base, metadata=b'{"a":1}')
        assert caught.value.stored == now
        assert (store.load("s").metadata, store.load("s").head) == (b'{"a":2}', now)

    def test_retry_stores_metadata_sent_with_it(self, store: Store) -> None:
        base = begin(store)
        add(store, message("u1"), base=base)
        head = add(store, message("u1"), base=base, metadata=b'{"a":1}', leaf_id="u1")
        data = store.load("s")
        assert (data.metadata, data.leaf_id, data.head) == (b'{"a":1}', "u1", head)
        add(store, message("u2"), base=head)
        with pytest.raises(ConflictError):
            add(store, message("u1"), base=base, metadata=b'{"a":3}')

    def test_retry_with_other_events_is_refused(self, store: Store) -> None:
        base = begin(store)
        now = add(store, message("u1"), line("x", a=1), base=base)
        before = store.load("s")
        for lines in (
            (message("u1"), message("u9")),
            (line("x", a=1), message("u1")),
            (message("u1"), line("x", a=1.0)),
            (message("u1"), line("x", a=True)),
        ):
            with pytest.raises(ConflictError) as caught:
                add(store, *lines, base=base)
            assert (caught.value.base, caught.value.stored) == (base, now)
        with pytest.raises(ConflictError):
            add(store, message("u1"), line("x", a=1), base=base, removed_ids=("u1",))
        assert store.load("s") == before
        add(store, line("x", a=1), base=now)  # the same event again on purpose
        assert events(store)[2:] == (line("x", a=1), line("x", a=1))

    # leaf and metadata

    def test_metadata_keys_replace_stored_ones(self, store: Store) -> None:
        old = begin(store)
        add(store, metadata=b'{"a":1,"b":{"c":[1, 2]}}')
        add(store, message("u1"), metadata=b'{"a":null,"d":18446744073709551617}')
        metadata = store.load("s").metadata
        assert canonical(metadata) == canonical(b'{"a":null,"b":{"c":[1,2]},"d":18446744073709551617}')
        assert b"18446744073709551617" in metadata
        with pytest.raises(ConflictError):
            add(store, base=old, metadata=b'{"a":2}')
        assert store.load("s").metadata == metadata

    def test_leaf_stays_until_another_is_named(self, store: Store) -> None:
        begin(store, message("u1"), message("u2"))
        add(store, leaf_id="u1")
        add(store, message("u3"))
        assert store.load("s").leaf_id == "u1"
        add(store, leaf_id="u3")
        assert (store.load("s").leaf_id, store.list()[0].leaf_id) == ("u3", "u3")

    # prompt deltas

    def test_prompt_deltas_are_kept_to_the_byte(self, store: Store) -> None:
        selector = b'{ "target":"messages", "insert_at": 2.0,"own" :[1E+2,"\\ud83d\\u0000"],"x":18446744073709551617}'
        text = b'[ {"role":"user", "text":"caf\\u00e9 \xc3\xa9 \\ud83d \\u0000 \xf0\x9f\x8e\x89"} ]'
        begin(store, prompt_delta(7, selector, text), project_id="p")
        (row,) = store.prompt_deltas("s")
        assert (row.session_id, row.seq, row.project_id, row.selector, row.content) == ("s", 7, "p", selector, text)

    def test_later_prompt_delta_replaces_the_selector_only(self, store: Store) -> None:
        begin(store, prompt_delta(1, b'{"insert_at":0}'))
        add(store, prompt_delta(1, b'{"insert_at":5,"own":true}', b'[{"role":"user","text":"two"}]'))
        add(store, prompt_delta(1, b'{"insert_at":9,"own":true}', None))
        (row,) = store.prompt_deltas("s")
        assert (row.selector, row.content) == (b'{"insert_at":9,"own":true}', ONE)
        assert len(events(store)) == 4

    def test_prompt_deltas_are_sorted_by_any_integer(self, store: Store) -> None:
        numbers = (10, 2, 33, 2**63, 10**40, 2**63 - 1, -(2**63), 0, -(2**70))
        begin(store, *map(prompt_delta, numbers))
        add(store, prompt_delta(10**40, b'{"insert_at":3}', None))
        assert [row.seq for row in store.prompt_deltas("s")] == sorted(numbers)
        assert store.prompt_deltas("s")[-1].selector == b'{"insert_at":3}'

    def test_prompt_delta_is_known_in_every_spelling(self, store: Store) -> None:
        lines = (
            b'{"kind":"promptDelta","seq":1,"selector":{},"content":[]}',
            b'{"selector":{},"content":[],"seq":2,"kind":"prompt_\\u0064elta"}',
            b'{"kind":"opaque","record":{"kind":"prompt_delta","seq":3,"selector":{},"content":[]}}',
        )
        begin(store, *lines)
        assert [row.seq for row in store.prompt_deltas("s")] == [1, 2]

    # saving in full

    def test_full_save_creates_and_extends_a_session(self, store: Store) -> None:
        lines = (header(project_id="p"), message("u1"), prompt_delta(4))
        data = SessionData(
            session_id="s", head=NOTHING, events=lines, project_id="p", leaf_id="u1", metadata=b'{"a": 1}',
            created_at=AT, updated_at=LATER,
        )  # fmt: skip
        head = store.save(data)
        assert store.load("s") == replace(data, head=head)
        assert [(row.seq, row.project_id) for row in store.prompt_deltas("s")] == [(4, "p")]
        store.bind("client", "s")
        assert store.save(store.load("s")) == head
        longer = replace(data, events=(*lines, message("u2")), updated_at=AT)
        head = store.save(longer)
        assert store.load("s") == replace(longer, head=head)
        assert (store.resolve("client"), len(store.prompt_deltas("s"))) == ("s", 1)
        assert add(store, message("u3"), base=head).number == 5

    def test_full_save_that_loses_an_event_is_refused(self, store: Store) -> None:
        begin(store, message("u1"))
        old = store.load("s")
        now = add(store, message("u2"))
        before = store.load("s")
        for lines in (
            old.events,
            (*old.events, message("u9"), message("u10")),
            (header(model="n"), *before.events[1:]),
        ):
            with pytest.raises(ConflictError) as caught:
                store.save(replace(old, events=lines))
            assert caught.value.stored == now
        assert store.load("s") == before

    def test_invalid_full_save_is_refused(self, store: Store) -> None:
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
            with pytest.raises(StoreError):
                store.save(replace(good, **wrong))
        assert not store.list()

    # lists, projects, forks

    def test_list_names_owner_and_activity(self, store: Store) -> None:
        def listed(session_id: str = "s") -> tuple[object, ...]:
            (found,) = (summary for summary in store.list() if summary.session_id == session_id)
            return found.user_id, found.agent_id, found.turns, found.used_at

        begin(store, session_id="t")
        head = begin(store, user_id="u\0é", agent_id="helper")
        assert listed() == ("u\0é", "helper", 0, AT)
        wrong = line("turn_started", turn="none", at="\0")
        head = add(store, line("turn_started", turn=1, at=LATER), message("u1"), wrong, base=head)
        assert listed() == ("u\0é", "helper", 1, LATER)
        other = b'{"agentId":"x","turn":1,"kind":"turnStarted","chain":"side","own":"\\ud83d"}'
        head = add(store, other, message("u2"), base=head, updated_at=AT)
        assert listed() == ("u\0é", "helper", 2, LATER)
        store.move("s", "p")
        add(store, line("turn_completed", turn=1, at=AT), base=head)
        assert listed() == ("u\0é", "helper", 2, AT)  # the last one in order: times are not compared
        turns = [line("turn_started", turn=turn, at=LATER) for turn in range(1, 2500)]
        data = store.load("s")
        store.save(replace(data, events=(*data.events, *turns)))
        assert listed() == ("u\0é", "helper", 2501, LATER)
        assert listed("t") == (None, None, 0, AT)

    def test_projects_do_not_see_each_other(self, store: Store) -> None:
        for name, project in (("c", "p"), ("a", "p"), ("b", "q"), ("d", None)):
            begin(store, message(name), session_id=name, **({} if project is None else {"project_id": project}))
        assert ids(store) == ["a", "b", "c", "d"]
        assert (ids(store, "p"), ids(store, "q")) == (["a", "c"], ["b"])
        assert [list(store.list(none)) for none in ("P", "", "%", "p'")] == [[], [], [], []]
        before = store.load("b")
        add(store, message("u2"), session_id="a", removed_ids=("u1",), leaf_id="u2", metadata=b'{"x":1}')
        assert store.load("b") == before

    def test_moved_session_takes_prompt_deltas_along(self, store: Store) -> None:
        head = begin(store, prompt_delta(1), project_id="p")
        begin(store, prompt_delta(1), project_id="p", session_id="stays")
        for _ in range(2):
            store.move("s", "q")
        assert store.load("s").head == head
        assert store.create(header(project_id="p")) == head
        add(store, prompt_delta(2), base=head)
        assert [row.project_id for row in store.prompt_deltas("s")] == ["q", "q"]
        assert [row.project_id for row in store.prompt_deltas("stays")] == ["p"]
        assert (ids(store, "q"), ids(store, "p"), store.load("s").project_id) == (["s"], ["stays"], "q")
        for wrong in ("", "a\0b", "x" * 513):
            with pytest.raises(StoreError):
                store.move("s", wrong)
        assert store.load("s").project_id == "q"

    def test_delete_includes_forks(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (store, other):
            begin(store, prompt_delta(1), session_id="root")
            begin(store, session_id="one", parent_session_id="root")
            begin(store, session_id="two", parent_session_id="root")
            begin(store, prompt_delta(1), session_id="grandchild", parent_session_id="one")
            begin(store, session_id="other", parent_session_id="a session of another store")
            for name in ("root", "grandchild", "other"):
                store.bind(f"to {name}", name)
            deleted = store.delete("root")
            assert sorted(deleted) == ["grandchild", "one", "root", "two"]
            assert deleted.index("grandchild") < deleted.index("one") < deleted.index("root")
            for reader in (store, other):
                assert ids(reader) == ["other"]
                bound = [reader.resolve(key) for key in ("to root", "to grandchild", "to other")]
                assert bound == [None, None, "other"]

    def test_ring_of_parents_is_deleted_once(self, store: Store) -> None:
        begin(store, session_id="a", parent_session_id="b")
        begin(store, session_id="b", parent_session_id="a")
        begin(store, session_id="c", parent_session_id="c")
        assert store.delete("c") == ("c",)
        assert sorted(store.delete("a")) == ["a", "b"]
        assert not store.list()

    def test_deleted_session_leaves_nothing_behind(self, store: Store) -> None:
        begin(store, prompt_delta(1), message("u1", "x" * 100_000), project_id="p")
        begin(store, message("u1"), prompt_delta(1), session_id="stays")
        store.bind("client", "s")
        store.delete("s")
        before = store.load("stays"), list(store.prompt_deltas("stays"))
        assert store.vacuum() >= 0
        assert (store.load("stays"), list(store.prompt_deltas("stays"))) == before
        assert store.create(header(model="another")).number == 1
        assert (store.load("s").project_id, store.load("s").events) == (None, (header(model="another"),))
        assert (list(store.prompt_deltas("s")), store.resolve("client")) == ([], None)
        assert add(store, message("u2"), session_id="stays").number == 4

    # clients

    def test_client_means_one_session(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (first, second):
            begin(first)
            begin(first, session_id="t")
            assert second.resolve("client") is None
            first.bind("client", "s")
            second.bind("client", "s")
            with pytest.raises(ConflictError, match="'s'"):
                first.bind("client", "t")
            assert [second.resolve(key) for key in ("client", "Client")] == ["s", None]
            first.bind("client", "t", replace=True)
            assert second.resolve("client") == "t"
            first.delete("t")
            assert second.resolve("client") is None
            first.bind("another", "s")
            self.needs_restarts()
        with self.opened(tmp_path) as store:
            assert (store.resolve("another"), store.resolve("client")) == ("s", None)

    def test_client_key_is_kept_or_refused(self, store: Store) -> None:
        begin(store)
        kept = ("../x", "a b", "'; drop table clients; --", "%", "_", "é", "e\u0301", "x" * 512)
        for key in kept:
            store.bind(key, "s")
        for key in ("", "a\0b", "a\nb", "x" * 513, "\ud800"):
            with pytest.raises(StoreError):
                store.bind(key, "s")
            assert store.resolve(key) is None
        assert [store.resolve(key) for key in kept] == ["s"] * len(kept)

    # ids, lines and values from outside

    def test_every_id_is_a_session_of_its_own(self, tmp_path: Path) -> None:
        place, names = tmp_path / "deep" / "inside", sorted(set(IDS))
        with self.opened(place) as store:
            for number, name in enumerate(names):
                begin(store, message(f"u{number}"), session_id=name, project_id=name)
            assert sorted(ids(store)) == names
            for number, name in enumerate(names):
                assert events(store, name) == (header(name, project_id=name), message(f"u{number}"))
                assert ids(store, name) == [name]
            store.delete("a")
            assert sorted(ids(store)) == [name for name in names if name != "a"]
        assert [path.name for path in tmp_path.iterdir()] == ["deep"]
        assert [path.name for path in (tmp_path / "deep").iterdir()] == ["inside"]

    def test_invalid_ids_are_refused(self, store: Store) -> None:
        begin(store)
        for name in BAD_IDS:
            for text in (header(name), header("t", project_id=name), header("t", parent_session_id=name)):
                with pytest.raises(StoreError):
                    store.create(text)
            for call in (store.load, store.delete):
                with pytest.raises(StoreError):
                    call(name)
            assert list(store.list(name)) == []
        assert ids(store) == ["s"]

    def test_lines_come_back_to_the_byte(self, store: Store) -> None:
        head = begin(store)
        for text in LINES:
            head = add(store, text, base=head)
        assert events(store) == (header(), *LINES)
        begin(store, *LINES, session_id="at once")
        assert events(store, "at once")[1:] == LINES
        first = b'{ "kind":"session_started","session_id":"\\u0074", "at":"\\u0000","system":"\\ud83d" ,"own":1E2}'
        store.create(first)
        assert (events(store, "t"), store.load("t").created_at) == ((first,), None)

    def test_invalid_delta_is_refused_whole(self, store: Store) -> None:
        head = begin(store)
        for notes in BAD_NOTES:
            with pytest.raises(StoreError):
                add(store, message("u1"), base=head, **notes)
        for wrong in BAD_LINES:
            with pytest.raises(StoreError) as caught:
                add(store, message("u1"), wrong, base=head, leaf_id="u1")
            assert caught.value.hint
        with pytest.raises(FormatError):
            add(store, message("u1"), base=head, version=99)
        assert (store.load("s").head, events(store)) == (head, (header(),))

    def test_record_of_a_store_is_kept_or_refused(self, store: Store) -> None:
        expected = begin(store, message("u1")) and events(store)
        for fields in ({"size": 0}, {"size": -1}, {"size": 10**9, "digests": ["ab" * 32], "leaf_id": "x"}):
            text = line("saved", **fields)
            with suppress(StoreError):
                add(store, text)
                expected = (*expected, text)
            assert events(store) == expected
        add(store, message("u2"))
        assert (events(store), store.load("s").leaf_id) == ((*expected, message("u2")), None)

    def test_values_are_immutable_copies(self, store: Store) -> None:
        first, second = bytearray(header()), bytearray(message("u1"))
        add(store, cast("bytes", second), prompt_delta(1), base=store.create(cast("bytes", first)))
        first[0] = second[0] = 0
        before = store.load("s")
        assert before.events == (header(), message("u1"), prompt_delta(1))
        assert {type(value) for value in (*before.events, before.metadata, before.log)} == {bytes}
        for found in (store.list(), store.prompt_deltas("s")):
            if isinstance(found, list):
                cast("list[object]", found).clear()
        assert (store.load("s"), len(store.list()), len(store.prompt_deltas("s"))) == (before, 1, 1)

    # writers at the same time

    def test_concurrent_creation_has_one_result(self, tmp_path: Path) -> None:
        def create(store: Store, text: bytes) -> Head:
            return store.create(text)

        with self.several(tmp_path, 2) as stores:
            for number in range(5):
                name = f"same {number}"
                assert call_at_once(create, stores, [header(name)] * 2) == [stores[0].load(name).head] * 2
                headers = [header(f"other {number}", model=model) for model in ("m", "n")]
                answers = call_at_once(create, stores, headers)
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                winner = next(at for at, answer in enumerate(answers) if isinstance(answer, Head))
                assert [events(store, f"other {number}") for store in stores] == [(headers[winner],)] * 2

    def test_concurrent_deltas_on_one_base_conflict(self, tmp_path: Path) -> None:
        def write(store: Store, text: bytes) -> Head:
            return add(store, text, base=base)

        with self.several(tmp_path, 2) as stores:
            base = begin(stores[0])
            for number in range(5):
                lines = [message(f"u{number}-{writer}") for writer in range(2)]
                answers = call_at_once(write, stores, lines)
                assert {type(answer) for answer in answers} == {Head, ConflictError}
                loser = next(at for at, answer in enumerate(answers) if isinstance(answer, ConflictError))
                base = add(stores[loser], lines[loser])
                assert events(stores[0])[-2:] == (lines[1 - loser], lines[loser])

    def test_eight_writers_lose_and_double_nothing(self, tmp_path: Path) -> None:
        def write(store: Store, writer: int) -> None:
            begin(store, session_id=f"own {writer}")
            for number in range(_EACH):
                add(store, message(f"u{number}"), session_id=f"own {writer}")
                for _ in range(_ATTEMPTS):
                    with suppress(ConflictError):
                        add(store, message(f"u{writer}-{number}"))
                        break
                else:
                    raise AssertionError("refused each time")

        with self.several(tmp_path, _WRITERS) as stores:
            begin(stores[0])
            assert call_at_once(write, stores, range(_WRITERS)) == [None] * _WRITERS
            stored = events(stores[0])[1:]
            assert len(stored) == _WRITERS * _EACH
            for writer in range(_WRITERS):
                own = [text for text in stored if b'"u%d-' % writer in text]
                assert own == [message(f"u{writer}-{number}") for number in range(_EACH)]
                assert len(events(stores[0], f"own {writer}")) == _EACH + 1

    # versions

    def test_newer_format_is_refused_untouched(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begin(store, message("u1"))
            before = store.load("s")
        version = self.stamp(tmp_path, _NEWER)
        if version is None:
            pytest.skip("the store keeps no version of its format")
        with pytest.raises(FormatError, match=str(_NEWER)) as caught:
            self.make(tmp_path).load("s")
        assert caught.value.hint
        assert version > 0
        assert self.stamp(tmp_path, version) == _NEWER
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert add(store, message("u2"), base=before.head).number == 3
