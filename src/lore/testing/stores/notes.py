"""What stands beside a session's events: leaf and metadata, prompt deltas, its clients."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from lore.model.canonical import canonical
from lore.store.base import ConflictError, Store, StoreError
from lore.testing.stores.scenarios import Scenarios, add, adding, begun, events, header, message, raised

ONE = b'[{"role":"user","text":"one"}]'


def prompt_delta(seq: int, selector: bytes, content: bytes | None = None) -> bytes:
    """Return the record of a prompt delta, spelled as a writer might."""
    text = b'{"kind": "prompt_delta", "seq": %d, "selector": %b' % (seq, selector)
    return text + (b"}" if content is None else b', "content": %b}' % content)


class NoteScenarios(Scenarios):
    """What is promised of notes, prompt deltas and clients."""

    # leaf and metadata

    def test_keys_of_metadata_replace_those_of_the_same_name(self, store: Store) -> None:
        begun(store)
        add(store, metadata=b'{"a":1,"b":{"c":[1, 2]}}')
        add(store, message("u1"), metadata=b'{"a":null,"d":18446744073709551617}')
        assert canonical(store.load("s").metadata) == canonical(b'{"a":null,"b":{"c":[1,2]},"d":18446744073709551617}')
        assert b"18446744073709551617" in store.load("s").metadata

    def test_the_leaf_stays_until_another_is_named(self, store: Store) -> None:
        begun(store, message("u1"), message("u2"))
        add(store, leaf_id="u1")
        add(store, message("u3"))
        assert store.load("s").leaf_id == "u1"
        add(store, leaf_id="u3")
        assert (store.load("s").leaf_id, store.list()[0].leaf_id) == ("u3", "u3")

    def test_another_writers_notes_are_not_overwritten(self, store: Store) -> None:
        old = begun(store)
        now = add(store, base=old, metadata=b'{"a":1}')
        error = raised(ConflictError, adding(store, base=old, metadata=b'{"a":2}'))
        assert (error.base, error.stored) == (old, now)
        assert store.load("s").metadata == b'{"a":1}'

    # prompt deltas

    def test_prompt_deltas_are_kept_to_the_byte(self, store: Store) -> None:
        selector = b'{ "target":"messages", "insert_at": 2.0,"own" :[1E+2,"\\ud83d\\u0000"],"x":18446744073709551617}'
        content = b'[ {"role":"user", "text":"caf\\u00e9 \xc3\xa9 \\ud83d \\u0000 \xf0\x9f\x8e\x89"} ]'
        begun(store, prompt_delta(7, selector, content), project_id="p")
        (row,) = store.prompt_deltas("s")
        assert (row.session_id, row.seq, row.project_id) == ("s", 7, "p")
        assert (row.selector, row.content) == (selector, content)

    def test_a_later_record_replaces_the_selector_and_never_the_content(self, store: Store) -> None:
        begun(store, prompt_delta(1, b'{"insert_at":0}', ONE))
        add(store, prompt_delta(1, b'{"insert_at":5,"own":true}', b'[{"role":"user","text":"two"}]'))
        add(store, prompt_delta(1, b'{"insert_at":9,"own":true}'))
        (row,) = store.prompt_deltas("s")
        assert (row.selector, row.content) == (b'{"insert_at":9,"own":true}', ONE)
        assert len(events(store)) == 4

    def test_prompt_deltas_come_by_their_number(self, store: Store) -> None:
        begun(store, *(prompt_delta(seq, b"{}", ONE) for seq in (10, 2, 33)))
        assert [row.seq for row in store.prompt_deltas("s")] == [2, 10, 33]

    def test_a_prompt_delta_is_known_in_every_spelling(self, store: Store) -> None:
        lines = (
            b'{"kind":"promptDelta","seq":1,"selector":{},"content":[]}',
            b'{"selector":{},"content":[],"seq":2,"kind":"prompt_\\u0064elta"}',
            b'{"kind":"opaque","record":{"kind":"prompt_delta","seq":3,"selector":{},"content":[]}}',
        )
        begun(store, *lines)
        assert [row.seq for row in store.prompt_deltas("s")] == [1, 2]

    def test_a_prompt_deltas_number_may_be_any_integer(self, store: Store) -> None:
        numbers = (2**63, 10**40, 2**63 - 1, -(2**63), 0, -(2**70))
        begun(store, *(prompt_delta(seq, b"{}", ONE) for seq in numbers))
        add(store, prompt_delta(10**40, b'{"insert_at":3}'))
        assert [row.seq for row in store.prompt_deltas("s")] == sorted(numbers)
        assert store.prompt_deltas("s")[-1].selector == b'{"insert_at":3}'

    # nobody changes what is stored

    def test_what_comes_out_can_be_changed_by_nobody(self, store: Store) -> None:
        begun(store, prompt_delta(1, b"{}", ONE))
        before = store.load("s")
        assert type(before.events) is tuple
        assert {type(value) for value in before.events} == {bytes}
        assert {type(value) for value in (before.metadata, before.log)} == {bytes}
        _empty(store.list())
        _empty(store.prompt_deltas("s"))
        assert (store.load("s"), len(store.list()), len(store.prompt_deltas("s"))) == (before, 1, 1)

    def test_what_came_in_is_copied(self, store: Store) -> None:
        given = {name: bytearray(text) for name, text in (("header", header()), ("line", message("u1")))}
        head = store.create(cast("bytes", given["header"]))
        _changed(store, given, head)
        head = add(store, cast("bytes", given["line"]), base=head)
        _changed(store, given, head)

    # clients

    def test_a_client_that_is_bound_is_resolved(self, store: Store) -> None:
        begun(store)
        begun(store, session_id="t")
        store.bind("client", "s")
        store.bind("client", "s")
        store.bind("another", "s")
        store.bind("third", "t")
        assert [store.resolve(key) for key in ("client", "another", "third", "Client")] == ["s", "s", "t", None]

    def test_a_client_that_means_another_session_is_a_conflict_unless_replaced(self, store: Store) -> None:
        begun(store)
        begun(store, session_id="t")
        store.bind("client", "s")
        assert "'s'" in str(raised(ConflictError, lambda: store.bind("client", "t")))
        assert store.resolve("client") == "s"
        store.bind("client", "t", replace=True)
        assert store.resolve("client") == "t"

    def test_a_client_is_resolved_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            begun(store)
            begun(store, session_id="t")
            for key in ("client", "moved"):
                store.bind(key, "s")
            store.bind("moved", "t", replace=True)
        with self.opened(tmp_path) as store:
            assert [store.resolve(key) for key in ("client", "moved", "none")] == ["s", "t", None]
            raised(ConflictError, lambda: store.bind("client", "t"))

    def test_an_unknown_client_is_looked_up_before_it_is_given_up(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (first, second):
            begun(first)
            assert second.resolve("client") is None
            first.bind("client", "s")
            assert second.resolve("client") == "s"
            assert second.resolve("unknown") is None

    def test_a_binding_that_was_replaced_elsewhere_is_not_remembered_here(self, tmp_path: Path) -> None:
        with self.several(tmp_path, 2) as (first, second):
            begun(first)
            begun(first, session_id="t")
            first.bind("client", "s")
            assert second.resolve("client") == "s"
            first.bind("client", "t", replace=True)
            assert second.resolve("client") == "t"
            first.delete("t")
            assert second.resolve("client") is None

    def test_an_odd_key_is_refused_or_kept_as_it_is(self, store: Store) -> None:
        begun(store)
        kept = ("../x", "a b", "'; drop table clients; --", "%", "_", "é", "e\u0301", "x" * 512)
        for key in kept:
            store.bind(key, "s")
        for key in ("", "a\0b", "a\nb", "x" * 513, "\ud800"):
            raised(StoreError, lambda key=key: store.bind(key, "s"))
            assert store.resolve(key) is None
        assert [store.resolve(key) for key in kept] == ["s"] * len(kept)


def _changed(store: Store, given: dict[str, bytearray], head: object) -> None:
    """Change what was handed in, look at what is stored, and change it back."""
    for data in given.values():
        data[0] ^= 1
    assert store.load("s").head == head
    assert events(store) == (header(), message("u1"))[: store.load("s").head.number]
    for data in given.values():
        data[0] ^= 1


def _empty(found: object) -> None:
    if isinstance(found, list):
        cast("list[object]", found).clear()
