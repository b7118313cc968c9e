"""Stores and stored sessions by their URLs."""

from pathlib import Path

import pytest

from helpers.each import each
from lore.store import registry
from lore.store.base import StoreError, UnknownSessionError
from lore.store.registry import (
    SessionAddress,
    address_of,
    is_store,
    mask_url,
    open_existing,
    open_store,
    print_note_once,
    read_log,
    scheme_of,
)
from lore.store.sqlite import Memory


def test_scheme_is_recognised_in_any_case():
    assert [scheme_of(url) for url in ("memory:", "SQLite:a.db", "postgres://h/d", "postgresql://h/d", "jsonl:d")] == [
        "memory", "sqlite", "postgres", "postgresql", "jsonl",
    ]  # fmt: skip


@each(["", "session.jsonl", "C:\\logs\\a.jsonl", "http://x/y", "gs://b/k", ":memory:", "a:b"])
def test_text_without_a_scheme_is_no_store(text):
    assert scheme_of(text) is None
    with pytest.raises(StoreError) as caught:
        open_store(text)
    assert "sqlite:FILE" in caught.value.hint


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "S3://bucket?endpoint=https://key:hunter2@host"])
def test_bucket_as_store_names_postgresql_instead(url):
    with pytest.raises(StoreError, match="sessions are not stored in buckets") as caught:
        open_existing(url)
    assert "--store postgresql://HOST/DATABASE" in caught.value.hint
    assert "hunter2" not in caught.value.message
    assert not is_store(url)


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@h/db", "postgres://u:hunter2@h/db"])
def test_postgresql_without_its_plug_in_names_the_extra(monkeypatch, url):
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    monkeypatch.delitem(registry.STORES, url.partition(":")[0], raising=False)
    with pytest.raises(StoreError, match="needs lore's plug-in 'postgres'") as caught:
        open_store(url)
    assert caught.value.hint == "in a clone of lore: pipx install --force '.[postgres]', or pip install '.[postgres]'"
    assert "hunter2" not in caught.value.message
    assert is_store(url)


def test_published_store_gets_url_and_tell(monkeypatch):
    calls = []
    monkeypatch.setitem(registry.STORES, "mine", lambda url, tell: calls.append((url, tell)) or Memory())
    assert isinstance(open_store("mine:there", print), Memory)
    assert calls == [("mine:there", print)]


@each("url, expected", [
    ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:se%40cret@host:5432/db?x=1", "postgresql://me:***@host:5432/db?x=1"),
    ("postgresql://host/db?password=secret&user=me", "postgresql://host/db?password=***&user=me"),
    ("postgresql://host/db?user=me&PASSWORD=secret", "postgresql://host/db?user=me&PASSWORD=***"),
    ("postgresql://me:@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me@host/db", "postgresql://me@host/db"),
    ("sqlite:/a:b@c.db", "sqlite:/a:b@c.db"),
    ("jsonl:a", "jsonl:a"),
    ("postgresql://me:sec/ret@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:se@cret@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:se:cret@host/db", "postgresql://me:***@host/db"),
    ("postgresql://me:se?cr#et@host/db", "postgresql://me:***@host/db"),
    ("postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslpassword=***"),
])  # fmt: skip
def test_shown_url_has_no_password(url, expected):
    assert mask_url(url) == expected


# sessions by name


HEADER = b'{"kind":"session_started","v":1,"session_id":"%b"}'

pytestmark = pytest.mark.usefixtures("desk")


@each("name, expected", [
    ("sqlite:a.db#s", ("sqlite:a.db", "s")),
    ("SQLITE:a.db#s", ("SQLITE:a.db", "s")),
    ("jsonl:a/b#s#3", ("jsonl:a/b", "s#3")),
    ("postgresql://u:p@h:1/db?x=1#s", ("postgresql://u:p@h:1/db?x=1", "s")),
    ("memory:#", ("memory:", "")),
    ("sqlite:a.db", None),
    ("a.jsonl#3", None),
    ("C:/logs/a.jsonl#3", None),
    ("./sqlite:a.db#s", None),
    ("of:nobody#s", None),
])  # fmt: skip
def test_name_is_cut_at_the_first_number_sign(name, expected):
    assert address_of(name) == (expected and SessionAddress(*expected))


def test_existing_place_ends_the_url():
    Path("a#b").mkdir()
    assert address_of("jsonl:a#b#s") == SessionAddress("jsonl:a#b", "s")
    assert address_of("jsonl:a#c#s") == SessionAddress("jsonl:a", "c#s")


def test_file_with_the_whole_name_wins():
    Path("sqlite:x#1").write_bytes(b"")
    Path("sqlite:x").write_bytes(b"")
    assert address_of("sqlite:x#1") is None
    assert not is_store("sqlite:x")
    assert is_store("sqlite:y")


@pytest.mark.parametrize("url", ["sqlite:none.db", "jsonl:none", "jsonl:~/none"])
def test_missing_store_is_not_made_by_reading(url):
    with pytest.raises(StoreError, match="there is no store"):
        open_existing(url)
    with pytest.raises(StoreError, match="there is no store"):
        read_log(SessionAddress(url, "s"))
    assert not list(Path().iterdir())


def test_log_of_a_named_session_is_read():
    store = open_store("jsonl:s")
    store.create(HEADER % b"s")
    assert read_log(SessionAddress("jsonl:s", "s")) == HEADER % b"s" + b"\n"
    with pytest.raises(UnknownSessionError, match="jsonl:s has no session 't'"):
        read_log(SessionAddress("jsonl:s", "t"))


def test_note_is_printed_once_without_password(capsys):
    for _ in range(2):
        print_note_once("postgresql://u:hunter2@h/db said\x1b[31m so")
    assert capsys.readouterr().err == "note: postgresql://u:***@h/db said\ufffd[31m so\n"


@pytest.mark.parametrize(("url", "hint"), [
    ("memory:agent", "memory: without a name; or, to keep the sessions, sqlite:FILE"),
    ("memory://x", "memory: without a name"),
    ("memory", "write the kind, a colon, and the place: stores: memory:, jsonl:DIR, sqlite:FILE"),
    (":memory:", "write the kind, a colon, and the place: stores: memory:"),
])  # fmt: skip
def test_misspelt_store_in_memory_names_what_to_type(url, hint):
    """`memory:agent` opened a store that forgot everything."""
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert hint in caught.value.hint


def test_session_of_memory_store_names_a_store_that_stays():
    with pytest.raises(UnknownSessionError) as caught:
        read_log(SessionAddress("memory:", "s1"))
    assert caught.value.hint == "a store in memory is empty in each new process; name one that stays, as in sqlite:FILE"
