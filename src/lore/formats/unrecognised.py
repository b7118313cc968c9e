"""What to call a file that no reader takes: by its first bytes, a database by its tables, JSON by its members."""

from __future__ import annotations

import re
from itertools import islice

from lore.formats.beginning import BOM, SPACE, SQLITE
from lore.formats.lines import each
from lore.model.jsonslice import raw_members

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]:,]', re.DOTALL)
_TABLE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w{1,64})", re.IGNORECASE)
_KINDS = (
    (b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstandard archive of no recording", ""),
    (b"PK\x03\x04", "a zip archive of no recording", "unpack it first"),
    (b"%PDF", "a PDF document", ""),
    (b"\x89PNG", "a picture", ""),
    (b"PAR1", "a Parquet file", "write its rows as JSON Lines"),
)
_LOOKED_AT = 4_096  # bytes at a file's beginning: a NUL there shows that it is not text
_SHOWN = 6  # members or tables that are named


def tables(head: bytes) -> list[str]:
    """Name the tables that the beginning of a SQLite database defines, those of its own left out."""
    found = {match[1].decode() for match in _TABLE.finditer(head)}
    return sorted(name for name in found if not name.startswith("sqlite_"))


def members(head: bytes) -> dict[str, None]:
    """Name the members of the JSON object that a file begins with, as far as its beginning holds them."""
    start = head.find(b"{")
    if start < 0 or head[:start].strip(SPACE + BOM):
        return {}
    found: dict[str, None] = {}
    depth, key = 0, b""
    for match in _TOKEN.finditer(head, start):
        token = match.group()
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
            if not depth:
                break
        elif depth == 1 and token == b":" and key:
            found[key[1:-1].decode("utf-8", "replace")] = None
        key = token if depth == 1 and token[:1] == b'"' else b""
    return found


def looks_like(head: bytes) -> tuple[str, str]:
    """Say what the beginning of a file shows, and what to do with it first; both may be empty."""
    if head.startswith(SQLITE):
        return _with("a SQLite database", "tables", tables(head)), ""
    for magic, what, hint in _KINDS:
        if head.startswith(magic):
            return what, hint
    if b"\x00" in head[:_LOOKED_AT]:
        return "a binary file", ""
    first = head.removeprefix(BOM).lstrip(SPACE)[:1]
    if first not in (b"{", b"["):
        return "text", ""
    lines = [line.strip(SPACE) for line in islice(each(head), 2)]
    if first == b"[":
        return "a JSON array", ""
    what = "JSON Lines" if len(lines) == 2 and all(raw_members(line) is not None for line in lines) else "a JSON object"
    names = list(members(head))
    return (_with(what, "members", names), "") if names else ("", "")


def _with(what: str, of: str, names: list[str]) -> str:
    more = ", …" if len(names) > _SHOWN else ""
    return f"{what} with the {of} {', '.join(names[:_SHOWN])}{more}" if names else what
