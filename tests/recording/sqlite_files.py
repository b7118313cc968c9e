"""Databases, written for the tests."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any


def filled(path: Path, schema: str, rows: Iterable[tuple[str, tuple[Any, ...]]]) -> Path:
    """Write a database: its schema, then each statement with its values."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for statement, values in rows:
            connection.execute(statement, values)
        connection.commit()
    return path
