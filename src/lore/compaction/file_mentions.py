"""Which files a tool call reads or changes, by the names that agents give to tools and to their inputs.

In: a call's name and its decoded input. Out: paths as they are spelled. Rules: pure; a guess from the call alone, and
cautious: what is not surely a path is left out. The tools behind the tables: Claude Code, Codex, Gemini CLI, opencode,
pi, Copilot, OpenHands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from lore.compaction.wrapping import one_line

_PATHS = ("file_path", "filePath", "path", "file", "filename", "notebook_path", "absolute_path", "target_file")
_COMMANDS = ("command", "cmd", "script")
_SAYS = ("old_string", "new_string", "old_str", "new_str", "file_text", "content", "patch", "edits", "new_source")
_CHANGES = re.compile(r"write|edit|create|patch|replace|update|insert|delete|remove|rename|move|save", re.IGNORECASE)
_SEARCHES = re.compile(r"grep|glob|search|find|list|\bls\b|tree|screenshot|navigate", re.IGNORECASE)
_READS = re.compile(r"read|view|open|cat|show|get|load", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]{1,400})$", re.MULTILINE)
_HEREDOC = re.compile(r"<<-?\s*\\?['\"]?(\w{1,40})['\"]?")
_PATH = re.compile(r"(?=[^\s]*[A-Za-z])[\w./~+@:\\-]{1,300}")
_SEPARATORS = re.compile(r"&&|\|\||[;|\n]")
_INTO = re.compile(r"(?<![0-9&])>{1,2}\s*([^\s;&|<>]{1,300})")
_VERBS: dict[str, bool] = {
    **dict.fromkeys(("cat", "head", "tail", "less", "more", "nl", "bat"), False),
    **dict.fromkeys(("rm", "mv", "cp", "touch", "tee"), True),
}
_LOOKS = re.compile(r"(?:ls|find|grep|rg|which|test|cat|head|tail|diff|git (?:grep|diff|show|log|status))\b")
_MOST_COMMAND = 4_000  # characters of a command that are looked at
_PIECES = 40


class FileMentions(NamedTuple):
    """What a call is about in a few words, and the files that it reads and changes. `looks`: it only looks."""

    about: str
    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    looks: bool = False


def file_mentions(name: str, given: Mapping[str, Any]) -> FileMentions:
    """Return what a call touches."""
    patched = tuple(_patched(given))
    if patched:
        return FileMentions(", ".join(patched[:3]), changed=patched)
    command = _command(given)
    path = next((given[key] for key in _PATHS if isinstance(given.get(key), str)), "")
    if path:
        return _by_path(name, given, path)
    if command:
        read, changed = _by_command(command)
        head = _head(command)
        return FileMentions(head, read, changed, bool(_LOOKS.match(head)))
    first = next((value for value in given.values() if isinstance(value, str) and value), "")
    return FileMentions(one_line(first, 60), looks=bool(_SEARCHES.search(name)))


def _by_path(name: str, given: Mapping[str, Any], path: str) -> FileMentions:
    shown = one_line(path, 300)
    verb = given.get("command")
    what = f"{name} {verb}" if isinstance(verb, str) and len(verb) < 40 else name
    if _SEARCHES.search(name):
        pattern = given.get("pattern") or given.get("query") or ""
        about = f"{pattern} in {shown}" if isinstance(pattern, str) and pattern else shown
        return FileMentions(one_line(about, 120), looks=True)
    if verb != "view" and (_CHANGES.search(what) or any(key in given for key in _SAYS)):
        return FileMentions(shown, changed=(shown,))
    reads = bool(_READS.search(what))
    return FileMentions(shown, read=(shown,) if reads else (), looks=reads)


def _command(given: Mapping[str, Any]) -> str:
    for key in _COMMANDS:
        value = given.get(key)
        if isinstance(value, str):
            return value[:_MOST_COMMAND]
        if isinstance(value, list):
            words = [word for word in cast("list[object]", value) if isinstance(word, str)]
            return (words[-1] if words[1:2] in (["-lc"], ["-c"]) else " ".join(words))[:_MOST_COMMAND]
    return ""


def _head(command: str) -> str:
    """Return the words by which a command is known again: the first three, without a change of folder before them."""
    pieces = [piece.strip() for piece in _SEPARATORS.split(command, _PIECES) if piece.strip()]
    chosen = next((piece for piece in pieces if not piece.startswith(("cd ", "export ", "#"))), command)
    return one_line(" ".join(chosen.split()[:3]), 80)


def _by_command(command: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that a simple shell command reads and changes; a here-document's text is not a command."""
    first = _HEREDOC.search(command)
    if first is not None:
        line_end = command.find("\n", first.end())
        command = command if line_end < 0 else command[:line_end]
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    for piece in _SEPARATORS.split(command, _PIECES)[:_PIECES]:
        words = [word.strip("'\"") for word in _INTO.sub(" ", piece).split()]
        if words:
            _sort(words, read, changed)
        changed.update(dict.fromkeys(_files([found.strip("'\"") for found in _INTO.findall(piece)])))
    return tuple(read), tuple(changed)


def _sort(words: list[str], read: dict[str, None], changed: dict[str, None]) -> None:
    if words[0] == "sed":
        into = changed if any(word.startswith("-i") for word in words) else read
        into.update(dict.fromkeys(_files(words[-1:] if len(words) > 2 else [])))
    elif words[0] in _VERBS:
        (changed if _VERBS[words[0]] else read).update(dict.fromkeys(_files(words[1:])))


def _files(words: list[str]) -> Iterator[str]:
    for word in words:
        is_path = _PATH.fullmatch(word) and not word.startswith(("-", "/dev/", "http:", "https:"))
        if is_path and ("." in word.strip("./") or "/" in word.strip("/")):
            yield word


def _patched(given: Mapping[str, Any]) -> Iterator[str]:
    for value in given.values():
        for text in cast("list[object]", value) if isinstance(value, list) else [value]:
            if isinstance(text, str) and "*** " in text:
                yield from (one_line(found, 300) for found in _PATCHED.findall(text))
