"""Appended and imported sessions have times and a leaf, and listing sessions loads no log."""

from contextlib import closing

import pytest

from cli.running import lore
from helpers.storing import URLS
from lore.commands.store import writing
from lore.commands.store.writing import SessionAppender
from lore.formats.lines import Line
from lore.store.registry import open_store
from lore.testing.stores import add, begin, line, message

AT = "2026-02-01T10:00:00Z"
FILES = sorted(set(URLS) - {"memory"})


@pytest.fixture(params=FILES)
def url(request, tmp_path):
    """Return the URL of an empty store."""
    url = URLS[request.param](tmp_path)
    open_store(url).close()
    return url


LINES = (
    b'{"kind":"session_started","session_id":"lines"}',
    b'{"kind":"turn_started","turn":1}',
    *(b'{"kind":"append","item":{"type":"user_message","uuid":"u%d","text":"hi"}}' % number for number in (1, 2, 3)),
    b'{"kind":"append","chain":"agent","item":{"type":"user_message","uuid":"x","text":"hi"}}',
)


def test_session_appended_by_lines_has_times_and_leaf(url, monkeypatch):
    monkeypatch.setattr(writing, "now", lambda: AT)
    with closing(open_store(url)) as store:
        appender = SessionAppender(store, "lines", pytest.fail)
        for number, data in enumerate(LINES, 1):
            appender.append(Line(number, 0, data))
            shown = store.load("lines")
            assert (shown.created_at, shown.updated_at) == (AT, AT)
            assert shown.leaf_id == ("lines", "lines", "u1", "u2", "u3", "u3")[number - 1]


def test_imported_session_has_times_and_leaf(url, tmp_path):
    log = tmp_path / "session.jsonl"
    log.write_bytes(b"\n".join((*LINES, b'{"kind":"remove","uuids":["u3"]}', b"")))
    assert lore("store", "import", str(log), "--store", url).code == 0
    with closing(open_store(url)) as store:
        shown = store.load("lines")
    assert shown.leaf_id == "u2"
    assert shown.created_at == shown.updated_at is not None


def test_listing_sessions_loads_no_log(url, monkeypatch):
    with closing(open_store(url)) as store:
        begin(store, message("u1"), session_id="short")
        before = store.list()
        big = [message(f"x{number}", "x" * 400_000) for number in range(20)]
        head = begin(store, *big, session_id="long")
        add(store, line("turn_started", turn=1), session_id="long", base=head)  # the last delta is read again
    with closing(open_store(url)) as store:
        read = count_bytes(monkeypatch)
        assert [one for one in store.list() if one.session_id != "long"] == list(before)
        assert sum(read) < 1_000_000


def count_bytes(monkeypatch):
    """Return a list that collects the sizes of later file reads; sqlite must read no lines at all."""
    from lore.store import jsonl_log, sql

    read, found = [], jsonl_log.LogFile.read
    monkeypatch.setattr(jsonl_log.LogFile, "read", lambda *args: read.append(len(data := found(*args))) or data)
    for name in ("lines", "digest"):
        monkeypatch.setattr(sql.SqlSession, name, lambda *_: pytest.fail("a list reads no events"))
    return read
