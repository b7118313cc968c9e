"""Helpers for tests of sqlite files: opening, changing rows by other means, comparing folders."""

import os
import sqlite3
from contextlib import closing

from lore.store.sqlite import Sqlite


def opened(path, tell=lambda _: None, patience=10.0):
    return closing(Sqlite(str(path), tell, patience=patience))


def run_sql(path, *statements):
    """Run statements on a file by other means, and return the last one's rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def picture(folder):
    """Return the content, time and mode of each file in a folder."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_mode) for path in folder.iterdir()}


def half_done(path, *statements):
    """Make a file as a process does that is killed when it has written a transaction and not removed its journal."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (
            "PRAGMA journal_mode = DELETE", "PRAGMA journal_mode = PERSIST", "PRAGMA cache_size = 1",
            "BEGIN IMMEDIATE", *statements, "INSERT INTO more VALUES (zeroblob(100000))",
        ):  # fmt: skip
            connection.execute(statement)
        journal = path.with_name(f"{path.name}-journal").read_bytes()
        connection.execute("COMMIT")
    path.with_name(f"{path.name}-journal").write_bytes(journal)


def locked_down(folder, monkeypatch):
    """Make a folder and its files unwritable, for the superuser, too."""
    real = os.access

    def access(path, mode, **more):
        return real(path, mode, **more) and not (mode & os.W_OK and str(path).startswith(str(folder)))

    monkeypatch.setattr(os, "access", access)
