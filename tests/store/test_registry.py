"""Stores by their URLs."""

import subprocess
import sys

import pytest

from lore.store import registry
from lore.store.base import StoreError
from lore.store.registry import is_store, open_store, open_there, scheme_of, shown
from lore.store.sqlite import Memory


def test_scheme_is_recognised_in_any_case():
    assert [scheme_of(url) for url in ("memory:", "SQLite:a.db", "postgres://h/d", "postgresql://h/d", "jsonl:d")] == [
        "memory", "sqlite", "postgres", "postgresql", "jsonl",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "session.jsonl", "C:\\logs\\a.jsonl", "http://x/y", "gs://b/k", ":memory:", "a:b"]
)
def test_text_without_a_scheme_is_no_store(text):
    assert scheme_of(text) is None
    with pytest.raises(StoreError) as caught:
        open_store(text)
    assert "sqlite:FILE" in caught.value.hint


@pytest.mark.parametrize("url", ["s3://bucket/prefix", "S3://bucket?endpoint=https://key:hunter2@host"])
def test_bucket_as_store_names_postgresql_instead(url):
    with pytest.raises(StoreError, match="sessions are not stored in buckets") as caught:
        open_there(url)
    assert "--store postgresql://HOST/DATABASE" in caught.value.hint
    assert "hunter2" not in caught.value.message
    assert not is_store(url)


@pytest.mark.parametrize("url", ["postgresql://u:hunter2@h/db", "postgres://u:hunter2@h/db"])
def test_postgresql_without_its_plug_in_names_the_extra(monkeypatch, url):
    monkeypatch.setattr(registry, "published", lambda group: [])
    monkeypatch.setattr(registry, "STORES", {})
    registry._publishes.cache_clear()
    with pytest.raises(StoreError, match="needs lore's plug-in 'postgres'") as caught:
        open_store(url)
    registry._publishes.cache_clear()
    assert caught.value.hint == "in a clone of lore: pipx install --force '.[postgres]', or pip install '.[postgres]'"
    assert "hunter2" not in caught.value.message
    assert is_store(url)


def test_memory_is_a_new_store_each_time():
    one, other = open_store("memory:"), open_store("memory:")
    assert isinstance(one, Memory)
    one.create(b'{"kind":"session_started","session_id":"s"}')
    assert not other.list()


def test_published_store_gets_url_and_tell(monkeypatch):
    seen = []
    monkeypatch.setitem(registry.STORES, "mine", lambda url, tell: seen.append((url, tell)) or Memory())
    assert isinstance(open_store("mine:there", print), Memory)
    assert seen == [("mine:there", print)]


def test_published_store_cannot_replace_lores(monkeypatch):
    monkeypatch.setitem(registry.STORES, "memory", lambda url, tell: None)
    assert isinstance(open_store("memory:"), Memory)


def test_psycopg_is_imported_only_when_needed():
    code = "import sys, lore; lore.open_store('memory:'); print('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    ("url", "said"),
    [
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
    ],
)
def test_shown_url_has_no_password(url, said):
    assert shown(url) == said
