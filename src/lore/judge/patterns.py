"""Patterns for paths and for names: `*` and `?` within one name, `**` any folders; a folder stands for all in it."""

from __future__ import annotations

import re
from functools import lru_cache

_PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)
_ANY = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=1024)
def _path(pattern: str) -> re.Pattern[str]:
    text = pattern.removeprefix("./").rstrip("/")
    if text in ("", "."):  # the folder of the settings
        return re.compile(r"(?!\.\./).*", re.DOTALL)
    return re.compile("".join(map(_part, _PARTS.findall(text))) + "(?:/.*)?", re.DOTALL)


def _part(part: str) -> str:
    if part in _ANY:
        return _ANY[part]
    if len(part) < 3:
        return re.escape(part)
    negated = part[1] == "!"
    return f"[{'^' * negated}{re.escape(part[1 + negated : -1]).replace(re.escape('-'), '-')}]"


def matches_path(pattern: str, path: str) -> bool:
    """Tell whether a path (its parts joined by `/`) is one that a pattern names, or lies below one.

    A pattern also names the path that it spells: cassettes of pytest have brackets in their names.
    """
    if path == pattern or path.startswith(pattern.rstrip("/") + "/"):
        return True
    try:
        return _path(pattern).fullmatch(path) is not None
    except re.error:  # a range that runs backwards: then it is a name
        return False


def matches_name(pattern: str, name: str) -> bool:
    """Tell whether a name is the one that is asked for; `*` stands for any characters, nothing else is special."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None
