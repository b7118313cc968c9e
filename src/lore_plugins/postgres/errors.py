"""Turns errors of PostgreSQL, and of connecting to it, into errors of lore.

Errors of statements are recognised by SQLSTATE (appendix A of PostgreSQL's documentation), those of connecting by text.
No message contains a password: libpq's message about a URL that it cannot parse is not shown.
"""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lore.store import DamagedError, FormatError, StoreError

_SHAPE = "postgresql://HOST:PORT/DATABASE, with USER:PASSWORD@ before HOST; percent-encode special characters in them"
_DAMAGED = frozenset({"XX001", "XX002"})  # data_corrupted, index_corrupted
_STARTING = ("starting up", "shutting down", "recovery mode", "not yet accepting connections")
_MISSING = frozenset({"3F000", "42703", "42P01"})  # a missing schema, column or table
_BY_STATE = {  # SQLSTATE: the message and the hint
    "25006": ("it takes no writes: a standby, or set to read only", "give the URL of the primary server"),
    "42501": ("this user may not do that", "GRANT the user the permissions in schema lore, or use another user"),
    "53100": ("its disk is full", "make room; nothing of this call is stored"),
    "53200": ("it is out of memory", "save less at once; nothing of this call is stored"),
    "53300": ("it has no free connection", "close stores that are not used, or raise max_connections"),
    "54000": ("this is more than it can store at once", "save less at once"),
    "55P03": (
        "another writer has locked the same session for too long",
        "try again; pg_stat_activity shows the other client, and `options=-clock_timeout=60s` in the URL waits longer",
    ),
    "57014": ("the statement was canceled", "raise statement_timeout, or try again"),
}
_BY_TEXT = {  # part of a message while connecting: the hint
    "password": "check the password in the URL, in PGPASSWORD or in ~/.pgpass",
    "no pg_hba.conf entry": "allow this user and host in pg_hba.conf of the server",
    "database": "create the database: `createdb NAME`",
    "role": "create the user: `createuser NAME`",
    "too many": "close stores that are not used, or raise max_connections",
    "translate host name": "check the host in the URL",
    "timeout expired": "check that the host can be reached; `connect_timeout=30` in the URL waits longer",
}
_ELSE = "check that the server runs, and that the URL names its host and port"


class UnreachableError(StoreError):
    """There is no connection."""


def parse_url(url: str) -> dict[str, str]:
    """Return the connection options in a URL; raises StoreError, which does not quote the URL."""
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.Error:
        found = {"port": "?"}
    is_doubtful = "@" in found.get("host", "") + found.get("dbname", "")  # perhaps of an unencoded password
    ports = found.get("port", "").split(",")
    if is_doubtful or not all(port.isdecimal() or not port for port in ports):
        raise StoreError("the URL of the PostgreSQL store cannot be read", hint=_SHAPE)
    return found


def unreachable(error: psycopg.Error, url: str, password: str) -> tuple[UnreachableError, bool]:
    """Return the error for a failed connection, and whether the server is only starting."""
    message = _masked(str(error), password)
    hint = next((hint for words, hint in _BY_TEXT.items() if words in message.partition("FATAL:")[2]), "")
    hint = hint or next((hint for words, hint in _BY_TEXT.items() if " " in words and words in message), _ELSE)
    is_starting = any(words in message for words in _STARTING)
    return UnreachableError(f"no connection to {url}: {message}", hint=hint), is_starting


def is_damage(error: psycopg.Error) -> bool:
    """Return whether the database cannot read its own files."""
    return error.sqlstate in _DAMAGED


def translate(error: psycopg.Error, url: str, password: str) -> StoreError:
    """Return the error of lore for an error of the database."""
    state = error.sqlstate or ""
    message = _masked(error.diag.message_primary or str(error), password)
    if is_damage(error):
        return DamagedError(f"{url}: the database cannot read stored data: {message}", hint="restore a backup")
    if state in _MISSING:
        return FormatError(f"{url}: schema lore is not a store of lore: {message}", hint="give another database")
    if state not in _BY_STATE:
        return StoreError(f"{url}: PostgreSQL says: {message}", hint="nothing of this call is stored")
    words, hint = _BY_STATE[state]
    return StoreError(f"{url}: {words} ({message})", hint=hint)


def _masked(text: str, password: str) -> str:
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return line.replace(password, "***") if password else line
