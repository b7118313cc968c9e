"""Stores for tests of commands: both kinds of files, answers that keep to their schemas, a fed standard input."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cli.running import Ran, lore
from helpers.schemas import valid

URLS = ("sqlite:s.db", "jsonl:s")
each_store = pytest.mark.parametrize("url", URLS)


def store(command: str, *args: str, url: str) -> Ran:
    """Run one command of `lore store`."""
    return lore("store", command, *args, "--store", url)


def answered(command: str, *args: str, url: str, schema: str = "", code: int = 0) -> Any:
    """Return a command's answer, which its schema describes."""
    result = store(command, *args, "--json", url=url)
    assert result.code == code, result.err
    valid(result.json, schema or f"store-{command}")
    return result.json


def fed(data: bytes, *args: str) -> Ran:
    """Run a command in this process, with these bytes on its standard input."""
    Path("fed").write_bytes(data)
    before = sys.stdin
    with open("fed", encoding="utf-8") as sys.stdin:
        try:
            return lore(*args)
        finally:
            sys.stdin = before


def appended(session_id: str, *lines: bytes, url: str) -> Ran:
    """Append lines to a session."""
    return fed(b"".join(line + b"\n" for line in lines), "store", "append", session_id, "--store", url)


def exported(session_id: str, url: str) -> bytes:
    """Return a session's log as it is stored."""
    result = store("export", session_id, "-o", "exported", "--force", url=url)
    assert result.code == 0, result.err
    return Path("exported").read_bytes()
