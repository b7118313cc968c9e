"""Write the database that a lore of an older schema version left: `python old_schemas.py` makes the fixtures.

What a version wrote is written here by its own statements, so that it stays as it was. Each holds two sessions, a
fork among them, prompt deltas in the log, and where there were tables for them bindings and a checkpoint.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from lore.store.lines import SEED, follow, note
from lore.store.sql_tables import SQLITE, STEPS
from lore.store.sqlite import APPLICATION

FOLDER = Path(__file__).parents[2] / "fixtures" / "stores"
PARENT = (
    b'{"kind":"session_started","v":1,"session_id":"s1","project_id":"p1","at":"2026-01-02T03:04:05Z"}',
    b'{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"hello"}}',
    (
        b'{"kind":"prompt_delta","seq":0,"selector":{"target":"messages","insert_at":1,"mine":[1.0]},'
        b'"content":[{"role":"user","text":"first"}]}'
    ),
    b'{"kind":"prompt_delta","seq":0,"selector":{"target":"messages","insert_at":2},"content":null}',
    b'{"kind":"append","item":{"type":"assistant_message","uuid":"u2","text":"\\ud83d"}}',
)
FORK = (
    b'{"kind":"session_started","v":1,"session_id":"s2","parent_session_id":"s1"}',
    b'{"kind":"prompt_delta", "seq":7,"selector":{"target":"messages","insert_at":0},"content":[]}',
)
NOTES = (("s1", "p2", None, b"u2", b'{"title":"two"}'), ("s2", None, "s1", None, b"{}"))


class _Plain:
    """A transaction of a connection, without lore's words for errors."""

    def __init__(self, connection):
        self._connection = connection

    def execute(self, sql, values=()):
        return self._connection.execute(sql, values).fetchall()

    def executemany(self, sql, values):
        self._connection.executemany(sql, values)


def make(path, version):
    """Make the database of a version, with its rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for step in STEPS[:version]:
            for statement in step.statements:
                connection.execute(statement.format_map(SQLITE).strip())
        tx = _Plain(connection)
        tx.execute(f"PRAGMA application_id = {APPLICATION}")
        tx.execute(f"PRAGMA user_version = {version}")
        for fill in _ROWS[:version]:
            fill(tx)
        tx.execute("PRAGMA journal_mode = WAL")


def _sessions(tx):
    for key, ((session_id, project_id, parent, leaf, metadata), lines) in enumerate(
        zip(NOTES, (PARENT, FORK), strict=True), 1
    ):
        digests = follow(SEED, lines)
        noted = bytes.fromhex(note(None if leaf is None else leaf.decode(), metadata))
        at = b"2026-01-02T03:04:05Z" if session_id == "s1" else None
        tx.execute(
            "INSERT INTO sessions (session, session_id, project_id, parent_session_id, created_at, updated_at, "
            "leaf_id, metadata, head_number, head_digest, head_note, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, session_id, project_id, parent, at, at, leaf, metadata, len(lines), digests[-1], noted,
             sum(map(len, lines)) + len(lines)),
        )  # fmt: skip
        rows = [
            (key, number, line, digest) for number, (line, digest) in enumerate(zip(lines, digests, strict=True), 1)
        ]
        tx.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)


def _deltas(tx):
    kept = (
        ("s1", 0, "p2", b'{"target":"messages","insert_at":2}', b'[{"role":"user","text":"first"}]'),
        ("s2", 7, None, b'{"target":"messages","insert_at":0}', b"[]"),
    )
    tx.executemany("INSERT INTO prompt_deltas VALUES (?, ?, ?, ?, ?)", kept)
    tx.execute("INSERT INTO bindings VALUES ('client', 2)")


def _checkpoints(tx):
    digest = follow(SEED, PARENT[:2])[-1].hex().encode()
    tx.execute("INSERT INTO checkpoints VALUES (1, 2, ?, ?, ?)", (digest, b"a reader", b"folded"))


def _used(tx):
    tx.execute("UPDATE sessions SET used_at = created_at WHERE session_id = 's1'")


_ROWS = (_sessions, _deltas, _checkpoints, _used)

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in list(map(int, sys.argv[1:])) or range(1, len(STEPS) + 1):
        make(FOLDER / f"sqlite-v{one}.db", one)
