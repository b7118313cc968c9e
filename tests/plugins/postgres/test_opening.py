"""Opening a store in PostgreSQL: it is created, or refused without a change, with a hint."""

import sys

import pytest

from lore.store import SCHEMA_VERSION, TABLES
from lore.store.base import FormatError, StoreError
from lore.store.registry import ignore, open_store
from lore.testing.stores import add, begin, header, message
from lore_plugins.postgres.store import Postgres

READ_ONLY = "&options=-cdefault_transaction_read_only%3Don"


@pytest.fixture
def opened(database):
    store = Postgres.open(database, ignore)
    yield store
    store.close()


def refused(url):
    with pytest.raises(StoreError) as caught:
        Postgres.open(url, ignore)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("before", ["SELECT 1", "CREATE SCHEMA lore"])
def test_new_database_is_given_the_schema(bare, postgres, before):
    postgres.run(before, bare)
    assert "takes no writes" in refused(bare + READ_ONLY).message
    open_store(bare).close()
    open_store(bare.replace("postgresql:", "postgres:")).close()
    names = postgres.run("SELECT tablename FROM pg_tables WHERE schemaname = 'lore'", bare)
    assert {name for (name,) in names} == {*TABLES, "lore_store"}
    assert postgres.run("SELECT version FROM lore.lore_store", bare) == [(SCHEMA_VERSION,)]


def test_newer_schema_is_refused_at_any_time(bare, postgres):
    store = Postgres.open(bare, ignore)
    head = begin(store)
    postgres.run("UPDATE lore.lore_store SET version = 99", bare)
    for call in (lambda: add(store, message("u1"), base=head), lambda: store.load("s"), lambda: open_store(bare)):
        with pytest.raises(FormatError, match="99"):
            call()
    store.close()
    assert postgres.run("SELECT count(*) FROM lore.events", bare) == [(1,)]


@pytest.mark.parametrize("table", ["kept (n int)", "lore_store (n int)", "sessions (session int)"])
def test_schema_of_another_program_is_refused(bare, postgres, table):
    postgres.run("CREATE SCHEMA lore", bare)
    postgres.run(f"CREATE TABLE lore.{table}", bare)
    assert isinstance(refused(bare), FormatError)
    names = postgres.run("SELECT tablename FROM pg_tables WHERE schemaname = 'lore'", bare)
    assert names == [(table.split()[0],)]


def test_user_with_select_only_can_list_and_load(bare, postgres):
    store = Postgres.open(bare, ignore)
    head = begin(store, message("u1"))
    before = store.load("s")
    store.close()
    postgres.run("CREATE ROLE reader LOGIN")
    try:
        assert "permission denied" in refused(postgres.lend().replace("//lore@", "//reader@")).message
        refusal = refused(bare.replace("//lore@", "//reader@"))
        assert "GRANT" in refusal.hint
        postgres.run("GRANT USAGE ON SCHEMA lore TO reader", bare)
        postgres.run("GRANT SELECT ON ALL TABLES IN SCHEMA lore TO reader", bare)
        store = Postgres.open(bare.replace("//lore@", "//reader@"), ignore)
        assert store.load("s") == before
        assert [one.session_id for one in store.list()] == ["s"]
        assert store.verify().damage == ()
        with pytest.raises(StoreError) as caught:
            add(store, message("u2"), base=head)
        assert "GRANT" in caught.value.hint
        store.close()
    finally:
        postgres.run("DROP OWNED BY reader", bare)
        postgres.run("DROP ROLE reader")


def test_read_only_database_can_be_read(database, opened):
    head = begin(opened, message("u1"))
    store = Postgres.open(database + READ_ONLY, ignore)
    assert store.load("s").head == head
    for call in (lambda: add(store, message("u2"), base=head), lambda: store.create(header("t"))):
        with pytest.raises(StoreError) as caught:
            call()
        assert "takes no writes" in caught.value.message
        assert caught.value.hint
    store.close()
    assert opened.load("s").head == head


def test_database_of_another_encoding_is_refused(postgres):
    for encoding in ("LATIN1", "SQL_ASCII"):
        url = postgres.database(options=f"ENCODING '{encoding}' TEMPLATE template0")
        error = refused(url)
        assert encoding in error.message
        assert "UTF8" in error.hint


def test_ids_are_listed_by_code_point(postgres):
    if postgres.run("SELECT 1 FROM pg_collation WHERE collname = 'en-US-x-icu'") == []:
        pytest.skip("a PostgreSQL without ICU")
    url = postgres.database(options="LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C' TEMPLATE template0")
    store = Postgres.open(url, ignore)
    names = ["a", "B", "é", "z", "Z", "e\u0301", "_", "\U0001f600", "\uffe6"]
    for name in names:
        store.create(header(name))
    assert [one.session_id for one in store.list()] == sorted(names)
    store.close()


def test_wrong_password_is_not_shown(postgres):
    postgres.run("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    try:
        url = postgres.url("postgres", user="guarded", password="wr0ng/s3cret@#")
        error = refused(url)
        assert "guarded:***@" in error.message
        assert "password" in error.hint
        for part in ("wr0ng", "s3cret", "wr0ng%2Fs3cret"):
            assert part not in error.message + error.hint
        query = postgres.url("postgres", user="guarded") + "&password=s3cret"
        assert "s3cret" not in refused(query).message
    finally:
        postgres.run("DROP ROLE guarded")


@pytest.mark.parametrize("url", [
    "postgresql://u:s3cret@w@h/db", "postgresql://u:s3cret/w@h/db", "postgresql://u:s3cret%zz@h/db",
    "postgresql://u:p@h:s3cret/db", "postgresql://u:p@h/db?s3cret=1", "postgresql://[s3cret/db",
])  # fmt: skip
def test_unreadable_url_is_not_quoted(url):
    error = refused(url)
    assert "s3c" not in error.message + error.hint
    assert "percent-encode special characters" in error.hint


def test_unencoded_password_is_not_shown(postgres):
    """The client accepts some of these URLs, perhaps as another host."""
    for password in ("s3cr?et", "s3cr#et", "s3cr@et", "s3cr/et", "s3cr:et", "s3cr et"):
        url = f"postgresql://u:{password}@/db?host={postgres.folder}/none"
        assert "s3c" not in refused(url).message


def test_missing_database_user_and_server_are_named(postgres):
    assert "createdb" in refused(postgres.url("none_such")).hint
    assert "createuser" in refused(postgres.url(user="nobody_such")).hint
    gone = refused(f"postgresql://lore@/db?host={postgres.folder}/none")
    assert "server" in gone.hint
    assert "no connection to postgresql://lore@/db" in gone.message


INSTALL = "in a clone of lore: pipx install --force '.[postgres]', or pip install '.[postgres]'"


def test_missing_client_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in ("store", "link", "errors"):
        monkeypatch.delitem(sys.modules, f"lore_plugins.postgres.{name}", raising=False)
    with pytest.raises(StoreError, match="needs psycopg") as caught:
        open_store("postgresql://u:hunter2@h/db")
    assert caught.value.hint == INSTALL
