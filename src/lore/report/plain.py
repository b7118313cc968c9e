"""Text of recordings made harmless for terminals and CI runners; words for numbers, times and names."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import BinaryIO

from lore.files import current_folder, relative
from lore.model.deferred import pattern
from lore.model.fact import count_of
from lore.model.mask import INVISIBLE, INVISIBLE_BEYOND, mask
from lore.model.turn import Prompt

_NAMES = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛", "\x00": "␀"}
# Characters that count as printable and show nothing: fillers, and marks that only change others.
_BLANKS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_BLANK = pattern(f"[{_BLANKS}]")

_UNSEEN = pattern(rf"[\x7f-\x9f{INVISIBLE}{INVISIBLE_BEYOND}]")  # characters that a terminal obeys or hides
_WORKTREE = pattern(r"([^/]+)/(?:\.claude/|\.)?worktrees/([^/]+)/?\Z")
_PARTING = frozenset('",')  # quotes and separators of names


def visible(text: str) -> str:
    """Make invisible characters visible and mask credentials."""
    text = escape_commands(mask(text))
    if text.isprintable() and (text.isascii() or _BLANK.search(text) is None):
        return text
    return "".join([
        char if char.isprintable() and _BLANK.match(char) is None else _NAMES.get(char) or f"<U+{ord(char):04X}>"
        for char in text
    ])  # fmt: skip


def escaped(text: str) -> str:
    """Return JSON text with invisible characters as JSON escapes (`\\u202e`); it parses to the same values."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", text)


class Escaping(io.RawIOBase):
    """A stream for bytes of JSON lines, which writes invisible characters to a terminal as escapes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - no other buffer
        self._stream.write(escaped(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def format_count(number: int | None) -> str:
    """Return a count with separators; a dash if it is unknown."""
    return "–" if number is None else f"{number:,}"


def turn_of(number: int, chain: str | None) -> str:
    """Name a turn: `turn 3`, of another chain than the main one `turn 3 of agent-1`."""
    return f"turn {number}" + ("" if chain in (None, "main") else f" of {chain}")


def place_of(path: str, line: int | None) -> str:
    """Return `PATH:LINE`, or `PATH` if the line is unknown.

    An absolute path is shown from the current folder if that is a project in the home folder, else from `~`.
    """
    home, shown = os.path.expanduser("~") + os.sep, path_below(path)
    if path.startswith(home) and (shown == path or not current_folder().startswith(home)):
        shown = f"~{path[len(home) - 1 :]}"
    return shown if line is None else f"{shown}:{line}"


def path_below(path: str, folder: str = "") -> str:
    """Return an absolute path as a relative one if it is below a folder (empty: the current one), else unchanged."""
    relative_path = relative(path, folder) if os.path.isabs(path) else os.pardir
    return path if relative_path.startswith(os.pardir) else relative_path


def when(
    at: float | None, form: str = "%Y-%m-%d %H:%M", *, unknown: str = "", zone: tzinfo | None = UTC
) -> str:  # fmt: skip
    """Return a time in UTC, or of this machine for no zone; `unknown` if it is not known or out of range."""
    try:
        return unknown if at is None else f"{datetime.fromtimestamp(at, zone):{form}}"
    except (ValueError, OverflowError, OSError):
        return unknown


def day_of(at: float | None) -> str:
    """Return the day of a time on this machine, or `unknown`."""
    return local_time(at, "%Y-%m-%d") or "unknown"


def local_time(at: float | None, form: str = "%H:%M:%S") -> str:
    """Return a time in this machine's time zone; empty if it is unknown, or no calendar holds it."""
    return when(at, form, zone=None)


def quote(name: str) -> str:
    """Return a name; in quotes, with escapes, if it could be taken for another one, such as `"ann "`."""
    from unicodedata import normalize  # noqa: PLC0415 - few reports write names of users

    plain = " ".join(normalize("NFKC", name).split())
    return name if name == plain and not set(name) & _PARTING else json.dumps(name)


def escape_commands(text: str) -> str:
    """Return a line without markers of workflow commands: GitHub's runner obeys them anywhere in a log."""
    return text.replace("##[", "##<U+005B>") if "##[" in text else text


def prompt_notes(prompt: Prompt, omitted: Iterable[str], dialect_notes: Iterable[str]) -> list[str]:
    """Return what a prompt leaves out, and why a provider would refuse it."""
    notes = [
        f"{count_of(count, f'{what} block')} left out: {prompt.dialect} has no place for them"
        for what, count in sorted(Counter(omitted).items())
    ]
    notes += dialect_notes
    if prompt.dialect == "anthropic" and "max_tokens" not in prompt.params:
        notes.append("the session has no params.max_tokens, which Anthropic's API requires")
    if prompt.fidelity != "rendered" and not any(segment.section == "messages" for segment in prompt):
        notes.append("the prompt holds no message: providers refuse such a request")
    return notes


def list_unrecorded(records: Iterable[str], *, system: bool, tools: bool, completes: bool) -> list[str]:
    """Return which parts of a prompt are not recorded or of unknown form (`records`); `completes`: options add them."""
    notes, missing = list[str](), {"the system prompt": "--system"} if not system else {}
    missing |= {"the tools": "--tools"} if not tools else {}
    if missing:
        advice = f" (give {' and '.join(missing.values())})" if completes else ""
        notes.append(f"not in this recording: {' and '.join(missing)}{advice}")
    kinds = [count_of(count, kind) for kind, count in sorted(Counter(records).items())]
    if kinds:
        notes.append(f"{', '.join(kinds)} left out: the recording does not show how the model saw them")
    return notes


def project_name(folder: str) -> str:
    """Return the last part of a project's folder; of a worktree (`app/.worktrees/3`) also the project's name."""
    worktree = _WORKTREE.search(mask(folder).replace("\\", "/"))
    return last_part(folder) if worktree is None else f"{worktree[1]}/…/{worktree[2]}"


def last_part(path: str) -> str:
    """Return the last part of a path, else the path; credentials are masked first, as one may hold a slash."""
    masked_path = mask(path).replace("\\", "/").rstrip("/")
    return masked_path.rpartition("/")[2] or path
