"""What PostgreSQL and its client say, in lore's words: by SQLSTATE, and for connections by what libpq says.

Source of the codes: PostgreSQL's documentation, appendix A. Passwords are never repeated: what libpq says of a URL
that it cannot parse quotes it, and is not passed on; from everything else the password is taken out.
"""

from __future__ import annotations

from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lore.model.canonical import printable
from lore.store.base import DamagedError, FormatError, StoreError

SHAPE = "postgresql://HOST:PORT/DATABASE, a user and password before the host; percent-encode what is special in them"
DAMAGED = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
CLASHES = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03"})  # the server ends, crashed, starts, or gave us up
STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting connections")
RESERVED = frozenset({"3F000", "42703", "42P01"})  # a schema, column or table that is ours is not there


class _Said(NamedTuple):
    message: str
    hint: str


_BY_STATE = {
    "25006": _Said("it takes no writes: a standby, or set to read only", "give the URL of the server that is written"),
    "42501": _Said("this user may not do that", "GRANT the user what it needs in schema lore, or use another user"),
    "53100": _Said("its disk is full", "make room; nothing of this call is stored"),
    "53200": _Said("it has no memory left", "save less at once; nothing of this call is stored"),
    "53300": _Said("it has no connection left", "close stores that are not used, or raise max_connections"),
    "54000": _Said("this is more than it can store at once", "save less at once"),
    "55P03": _Said(
        "another writer holds what this call needs, longer than it may wait",
        "try again; pg_stat_activity shows who holds it, and `options=-clock_timeout=60s` in the URL waits longer",
    ),
    "57014": _Said("the statement was canceled", "raise statement_timeout, or try again"),
}
_BY_TEXT = {  # what a server or libpq says while connecting has no SQLSTATE
    "password": "see the password in the URL, in PGPASSWORD or in ~/.pgpass",
    "no pg_hba.conf entry": "let this user and host in, in the server's pg_hba.conf",
    "database": "create the database: `createdb NAME`",
    "role": "create the user: `createuser NAME`",
    "too many": "close stores that are not used, or raise max_connections",
    "translate host name": "see the host in the URL",
    "timeout expired": "see that the host can be reached; `connect_timeout=30` in the URL waits longer",
}
_ELSE = "see that the server runs, and that the URL names its host and port"


class LostError(Exception):
    """The connection broke; `committing`: during COMMIT, so that what is stored is unknown."""

    def __init__(self, message: str, *, committing: bool = False) -> None:
        super().__init__(message)
        self.said = message
        self.committing = committing


class ClashError(Exception):
    """The server undid the transaction to let another go on: do it again."""


class UnreachableError(StoreError):
    """No connection; `soon`: the server says that it will accept one."""

    def __init__(self, message: str, *, hint: str, soon: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.soon = soon


def parsed(url: str) -> dict[str, str]:
    """Return what libpq reads from a URL; raises StoreError, that quotes nothing of it."""
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        found = {"port": "?"}
    doubtful = "@" in found.get("host", "") + found.get("dbname", "")  # a password's, that was not encoded
    ports = found.get("port", "").split(",")
    if doubtful or not all(port.isdecimal() or not port for port in ports):
        raise StoreError("the URL of the PostgreSQL store cannot be read", hint=SHAPE)
    return found


def unreachable(error: psycopg.Error, url: str, password: str) -> UnreachableError:
    """Return the error for a connection that cannot be made."""
    message = masked(str(error), password)
    soon = any(words in message for words in STARTING)
    hint = next((hint for words, hint in _BY_TEXT.items() if words in message.partition("FATAL:")[2]), "")
    hint = hint or next((hint for words, hint in _BY_TEXT.items() if " " in words and words in message), _ELSE)
    return UnreachableError(f"no connection to {url}: {message}", hint=hint, soon=soon)


def translated(error: psycopg.Error, url: str, password: str) -> StoreError:
    """Return lore's error for one of the database's."""
    state = error.sqlstate or ""
    message = masked(error.diag.message_primary or str(error), password)
    if state in DAMAGED:
        return DamagedError(f"{url}: the database cannot read what is stored: {message}", hint="restore a backup")
    if state in RESERVED:
        return FormatError(f"{url}: schema lore is not one of lore's stores: {message}", hint="give another database")
    known = _BY_STATE.get(state)
    if known is None:
        return StoreError(f"{url}: PostgreSQL says: {message}", hint="nothing of this call is stored")
    return StoreError(f"{url}: {known.message} ({message})", hint=known.hint)


def masked(text: str, password: str) -> str:
    """Return a message on one line, without the password."""
    line = printable(" ".join(text.split()))
    return line.replace(password, "***") if password else line
