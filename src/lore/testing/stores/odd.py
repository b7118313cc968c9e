"""Ids, lines and versions from outside: kept as they are, or refused; never mixed up, never a path or a command."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lore.store.base import FormatError, Store, StoreError
from lore.testing.stores.scenarios import Scenarios, add, adding, begun, events, header, ids, line, message, raised

IDS = (
    "a", "A", "é", "e\u0301", "É", "ß", "ss", "ı", "I", "i", "K", "\u212a", "../x", "..", ".", "/etc/passwd", "C:\\x",
    "a/b", "a\\b", "a b", " a", "a ", "%", "%2e%2e", "_", "*", "?", "#", "a#1", "'", '"', "`", "$(x)",
    "'; drop table sessions; --", "~", "-rf", "con", "nul.jsonl", "a.jsonl", "a.", "NULL", "0", "00", "1e3", "🎉",
    "日本", "x" * 512, "é" * 512, "🎉" * 512,
)  # fmt: skip
NO_IDS = ("", "a\0b", "a\nb", "\r", "\x1b[2J", "\u2028", "\u202e", "x" * 513, "\ud800", "a\udfff")
LINES = (
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"\\ud83d and \\udc00"}}',
    b'{"kind":"append","item":{"type":"user_message","uuid":"u2","text":"\\u0000 \\u001b[2J"}}',
    '{"kind":"append","item":{"type":"user_message","uuid":"u3","text":"🎉 \u2028 \u0085 e\u0301"}}'.encode(),
    b'{"kind":"x","n":[18446744073709551616,-9223372036854775809,1.0,1e16,1E+2,-0,0.1000]}',
    b'{"kind":"never heard of","own":{"deep":[[[[]]]]},"":null}',
    b'{ "kind" : "append" ,\t"more":1, "item":{"type":"user_message","uuid":"u4","text":"a"} , "more":2 }',
    b'  {"kind":"append","item":{"type":"user_message","uuid":"u5","text":"a"},"own":"kept"}  ',
    b'{"kind":"x"}\r',
    b'{"id":99,"kind":"x"}',
    b'{"Kind":"x"}',
    b"{}",
    b'{"kind":"session_started","v":1,"session_id":"another"}',
    b'{"kind":"remove","uuids":["u1","never seen"]}',
    b'{"kind":"prompt_delta","seq":"no number","selector":5}',
    b'{"kind":"append","item":"no item"}',
    b'{"kind":"x","sql":"\'; drop table events; -- $1 %s ? :a \\\\x00"}',
)
NO_LINES = (
    b"", b" ", b"null", b"[]", b'"text"', b"{", b"{}{}", b"{} x", b'{"a":1,}', b'{"a":\xff}', b'{"a":NaN}',
    b'{"a":1e400}', b"\xef\xbb\xbf{}",
    b'{"a":1}\n', b'{"a":\n1}', b"{}\n{}", b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
)  # fmt: skip

NO_NOTES: tuple[dict[str, Any], ...] = (
    *({"leaf_id": name} for name in NO_IDS),
    *({field: text} for text in ("a\0b", "\ud800", "x" * 513) for field in ("created_at", "updated_at")),
    *({"metadata": text} for text in (b"[]", b"", b"null", b"{", b'{"a":\xff}', b'{"a":NaN}')),
)
_NEWER = 987_654


class OddScenarios(Scenarios):
    """What is promised of ids, lines and formats that nobody meant well."""

    # ids and lines

    def test_ids_that_differ_by_anything_are_different_sessions(self, store: Store) -> None:
        names = sorted(set(IDS))
        for number, name in enumerate(names):
            store.create(header(name, project_id=name))
            add(store, message(f"u{number}"), session_id=name, leaf_id=name)
        assert sorted(ids(store)) == names
        for number, name in enumerate(names):
            data = store.load(name)
            assert (data.session_id, data.project_id, data.leaf_id) == (name, name, name)
            assert data.events == (header(name, project_id=name), message(f"u{number}"))
            assert ids(store, name) == [name]
        store.delete("a")
        assert sorted(ids(store)) == [name for name in names if name != "a"]

    def test_nothing_is_written_outside_of_the_store(self, tmp_path: Path) -> None:
        place = tmp_path / "deep" / "inside"
        place.mkdir(parents=True)
        with self.opened(place) as store:
            for name in IDS:
                store.create(header(name))
        assert [path.name for path in tmp_path.iterdir()] == ["deep"]
        assert [path.name for path in (tmp_path / "deep").iterdir()] == ["inside"]

    def test_what_is_no_id_is_refused(self, store: Store) -> None:
        begun(store)
        for name in NO_IDS:
            for text in (header(name), header("t", project_id=name), header("t", parent_session_id=name)):
                error = raised(StoreError, lambda text=text: store.create(text))
                assert str(error).encode("utf-8").isascii() or "\ud800" not in str(error)
            raised(StoreError, lambda name=name: store.load(name))
            raised(StoreError, lambda name=name: store.delete(name))
            assert list(store.list(name)) == []
        assert ids(store) == ["s"]

    def test_lines_come_back_to_the_byte(self, store: Store) -> None:
        for text in LINES:
            add(store, text, base=store.load("s").head if store.list() else store.create(header()))
        assert events(store) == (header(), *LINES)
        begun(store, *LINES, session_id="at once")
        assert events(store, "at once")[1:] == LINES

    def test_an_odd_header_comes_back_to_the_byte(self, store: Store) -> None:
        first = b'{ "kind":"session_started","session_id":"\\u0073", "at":"\\u0000","system":"\\ud83d" ,"own":1E2}'
        store.create(first)
        assert events(store) == (first,)
        assert store.load("s").created_at is None

    def test_what_no_store_can_keep_is_refused_with_all_of_its_delta(self, store: Store) -> None:
        head = begun(store)
        for notes in NO_NOTES:
            raised(StoreError, adding(store, message("u1"), base=head, **notes))
            assert store.load("s").head == head
        for wrong in NO_LINES:
            assert raised(StoreError, adding(store, message("u1"), wrong, base=head, leaf_id="u1")).hint
            assert store.load("s").head == head
        raised(FormatError, adding(store, message("u1"), base=head, version=99))
        assert events(store) == (header(),)

    def test_items_of_odd_names_are_taken_back(self, store: Store) -> None:
        odd = ("\ud83d", "a\0b", "é", '"', "\n")
        begun(store)
        add(store, removed_ids=odd)
        assert events(store)[1] == line("remove", uuids=list(odd))

    def test_what_looks_like_a_stores_own_record_is_kept_or_refused(self, store: Store) -> None:
        begun(store, message("u1"))
        before = store.load("s")
        for text in (
            line("saved", size=0), line("saved", size=-1),
            line("saved", size=10**9, digests=["ab" * 32], leaf_id="x"),
        ):  # fmt: skip
            expected = events(store)
            with suppress(StoreError):
                add(store, text)
                expected = (*expected, text)
            assert events(store) == expected
        add(store, message("u2"))
        assert events(store)[:2] == before.events
        assert events(store)[-1] == message("u2")
        assert store.load("s").leaf_id is None

    # the version of the store's format; needs `stamp`

    def test_a_newer_format_is_refused_and_not_touched(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, message("u1"))
            before = store.load("s")
        version = self.stamp(tmp_path, _NEWER)
        if version is None:
            pytest.skip("the store keeps no version of its format")
        error = raised(FormatError, lambda: self.make(tmp_path).load("s"))
        assert error.hint
        assert str(_NEWER) in str(error)
        assert self.stamp(tmp_path, version) == _NEWER
        assert version > 0
        with self.opened(tmp_path) as store:
            assert store.load("s") == before
            assert add(store, message("u2"), base=before.head).number == 3
