"""Stores as system 003 (flue) means them: lists that load nothing.

Line 10: "`Kept` fills `created_at`, `updated_at` (from the clock it was given) and `leaf_id`; a stored session never
has none." (`Kept` is `StoredSession`; what is appended by lines and imported has them as well.)

Line 11: "`store list` has user, agent, parent, size, turns, last use; `--user --agent --since --json`; `move` takes
several sessions."
"""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from cli.running import lore
from helpers.storing import URLS
from lore.commands.store.appending import SessionAppender
from lore.formats.lines import Line
from lore.store.registry import open_store
from lore.testing.scenarios import add, begin, header, line, message

TURNS = {"a": "2026-02-01T10:00:00Z", "b": "2026-03-01T10:00:00Z"}
FILES = sorted(set(URLS) - {"memory"})


@pytest.fixture(params=FILES)
def url(request, tmp_path):
    """A store with a session of one agent, a fork of it by another agent, and one that nobody used."""
    url = URLS[request.param](tmp_path)
    with closing(open_store(url)) as store:
        parent = None
        for name, at in TURNS.items():
            turns = (line("turn_started", turn=turn, at=at) for turn in range(1, 4))
            facts = {"user_id": "ada", "agent_id": f"agent {name}"}
            facts |= {} if parent is None else {"parent_session_id": parent}
            begin(store, message("u1"), *turns, session_id=name, **facts)
            parent = name
        store.create(header("idle"))
    return url


LINES = (
    b'{"kind":"session_started","session_id":"lines"}',
    b'{"kind":"turn_started","turn":1}',
    *(b'{"kind":"append","item":{"type":"user_message","uuid":"u%d","text":"hi"}}' % number for number in (1, 2, 3)),
    b'{"kind":"append","chain":"agent","item":{"type":"user_message","uuid":"x","text":"hi"}}',
)


def test_a_session_that_is_appended_by_lines_has_times_and_its_last_item(url):
    with closing(open_store(url)) as store:
        appender = SessionAppender(store, "lines", lambda: TURNS["a"])
        for number, data in enumerate(LINES, 1):
            appender.append(Line(number, 0, data), pytest.fail)
            shown = store.load("lines")
            if number > 1:
                assert (shown.created_at, shown.updated_at) == (TURNS["a"], TURNS["a"])
                assert shown.leaf_id == ("lines", "u1", "u2", "u3", "u3")[number - 2]


def test_an_imported_session_has_times_and_its_last_item(url, tmp_path):
    log = tmp_path / "session.jsonl"
    log.write_bytes(b"\n".join((*LINES, b'{"kind":"remove","uuids":["u3"]}', b"")))
    assert lore("store", "import", str(log), "--store", url).code == 0
    with closing(open_store(url)) as store:
        shown = store.load("lines")
    assert shown.leaf_id == "u2"
    assert shown.created_at == shown.updated_at is not None


def listed(url, *args):
    ran = lore("store", "list", *args, "--json", "--store", url)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["sessions"]


def test_a_list_has_user_agent_parent_size_turns_and_last_use(url):
    names = ("session_id", "user_id", "agent_id", "parent_session_id", "turns", "used_at")
    assert [tuple(row[name] for name in names) for row in listed(url)] == [
        ("a", "ada", "agent a", None, 3, TURNS["a"]),
        ("b", "ada", "agent b", "a", 3, TURNS["b"]),
        ("idle", None, None, None, 0, "2026-01-02T03:04:05Z"),
    ]
    with closing(open_store(url)) as store:
        assert [row["bytes"] for row in listed(url)] == [len(store.load(name).log) for name in ("a", "b", "idle")]


def test_a_list_loads_no_log(url, monkeypatch):
    with closing(open_store(url)) as store:
        before = store.list()
        big = [message(f"x{number}", "x" * 400_000) for number in range(20)]
        head = begin(store, *big, session_id="long")
        add(store, line("turn_started", turn=1), session_id="long", base=head)  # the last delta is read again
    with closing(open_store(url)) as store:
        read = count_bytes(monkeypatch)
        assert [one for one in store.list() if one.session_id != "long"] == list(before)
        assert sum(read) < 1_000_000


def count_bytes(monkeypatch):
    """Return what collects the sizes of the files' ranges that are read from here on; sqlite reads no lines at all."""
    from lore.store import jsonl_log, sql

    read, ranges = [], jsonl_log.read_range
    monkeypatch.setattr(jsonl_log, "read_range", lambda *args: read.append(len(data := ranges(*args))) or data)
    for name in ("lines", "digest"):
        monkeypatch.setattr(sql.SqlSession, name, lambda *_: pytest.fail("a list reads no events"))
    return read


def test_a_list_is_narrowed_by_user_agent_and_time(url):
    def names(*args):
        return [row["session_id"] for row in listed(url, *args)]

    assert names("--user", "ada") == ["a", "b"]
    assert names("--agent", "agent b") == ["b"]
    assert names("--since", "2026-02-15") == ["b"]
    assert names("--since", "1d") == []
    assert names("--user", "ada", "--agent", "agent a", "--since", "2026-02-15") == []


def test_several_sessions_are_moved_at_once_or_none(url):
    assert lore("store", "move", "b", "idle", "project", "--store", url).out.count("to project project") == 2
    assert [row["session_id"] for row in listed(url, "--project", "project")] == ["b", "idle"]
    assert lore("store", "move", "a", "unknown", "project", "--store", url).code == 2
    assert [row["session_id"] for row in listed(url, "--project", "project")] == ["b", "idle"]
