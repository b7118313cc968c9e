"""Ids and lines from outside: kept as they are, or refused; never mixed up, and never a path or a command."""

from __future__ import annotations

from pathlib import Path

from lore.store.base import StoreError
from lore.testing.stores.making import Scenarios, add, adding, begun, events, header, line, raised, said

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


class OddScenarios(Scenarios):
    """What is promised of ids and lines that nobody meant well."""

    def test_ids_that_differ_by_anything_are_different_sessions(self, tmp_path: Path) -> None:
        names = sorted(set(IDS))
        with self.opened(tmp_path) as store:
            for number, name in enumerate(names):
                store.create(header(name, project_id=name))
                add(store, said(f"u{number}"), session_id=name, leaf_id=name)
            assert sorted(one.session_id for one in store.list()) == names
            for number, name in enumerate(names):
                data = store.load(name)
                assert (data.session_id, data.project_id, data.leaf_id) == (name, name, name)
                assert data.events == (header(name, project_id=name), said(f"u{number}"))
                assert [one.session_id for one in store.list(name)] == [name]
            store.delete("a")
            assert sorted(one.session_id for one in store.list()) == [name for name in names if name != "a"]

    def test_nothing_is_written_outside_of_the_store(self, tmp_path: Path) -> None:
        place = tmp_path / "deep" / "inside"
        place.mkdir(parents=True)
        with self.opened(place) as store:
            for name in IDS:
                store.create(header(name))
        assert [one.name for one in tmp_path.iterdir()] == ["deep"]
        assert [one.name for one in (tmp_path / "deep").iterdir()] == ["inside"]

    def test_what_is_no_id_is_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store)
            for name in NO_IDS:
                for text in (header(name), header("t", project_id=name), header("t", parent_session_id=name)):
                    error = raised(StoreError, lambda text=text: store.create(text))
                    assert str(error).encode("utf-8").isascii() or "\ud800" not in str(error)
                raised(StoreError, lambda name=name: store.load(name))
                raised(StoreError, lambda name=name: store.delete(name))
                assert list(store.list(name)) == []
            assert [one.session_id for one in store.list()] == ["s"]

    def test_a_leaf_that_is_no_id_is_refused_with_its_delta(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store)
            for name in NO_IDS:
                raised(StoreError, adding(store, said("u1"), base=head, leaf_id=name))
            assert store.load("s").head == head

    def test_a_time_that_no_store_can_keep_is_refused_with_its_delta(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store)
            for text in ("a\0b", "\ud800", "x" * 513):
                raised(StoreError, adding(store, said("u1"), base=head, updated_at=text))
                raised(StoreError, adding(store, said("u1"), base=head, created_at=text))
            assert store.load("s").head == head

    def test_lines_come_back_to_the_byte(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            for text in LINES:
                add(store, text, base=store.load("s").head if store.list() else store.create(header()))
            assert events(store) == (header(), *LINES)
            begun(store, *LINES, session_id="at once")
            assert events(store, "at once")[1:] == LINES

    def test_an_odd_header_comes_back_to_the_byte(self, tmp_path: Path) -> None:
        first = b'{ "kind":"session_started","session_id":"\\u0073", "at":"\\u0000","system":"\\ud83d" ,"own":1E2}'
        with self.opened(tmp_path) as store:
            store.create(first)
            assert events(store) == (first,)
            assert store.load("s").created_at is None

    def test_lines_come_back_to_the_byte_after_a_restart(self, tmp_path: Path) -> None:
        self.needs_restarts()
        with self.opened(tmp_path) as store:
            begun(store, *LINES)
        with self.opened(tmp_path) as store:
            assert events(store) == (header(), *LINES)

    def test_what_is_no_line_of_a_log_is_refused_with_all_of_its_delta(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            head = begun(store)
            for wrong in NO_LINES:
                assert raised(StoreError, adding(store, said("u1"), wrong, base=head, leaf_id="u1")).hint
                assert store.load("s").head == head
            assert events(store) == (header(),)

    def test_items_of_odd_names_are_taken_back(self, tmp_path: Path) -> None:
        odd = ("\ud83d", "a\0b", "é", '"', "\n")
        with self.opened(tmp_path) as store:
            base = begun(store)
            head = add(store, base=base, removed_ids=odd)
            assert events(store)[1] == line("remove", uuids=list(odd))
            assert add(store, base=base, removed_ids=odd) == head

    def test_what_looks_like_a_stores_own_record_is_kept_or_refused(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as store:
            begun(store, said("u1"))
            before = store.load("s")
            for text in (
                line("saved", size=0), line("saved", size=-1),
                line("saved", size=10**9, digests=["ab" * 32], leaf_id="x"),
            ):  # fmt: skip
                stored = store.load("s").events
                try:
                    add(store, text)
                except StoreError:
                    assert store.load("s").events == stored
                else:
                    assert store.load("s").events == (*stored, text)
            add(store, said("u2"))
            assert events(store)[:2] == before.events
            assert events(store)[-1] == said("u2")
            assert store.load("s").leaf_id is None
