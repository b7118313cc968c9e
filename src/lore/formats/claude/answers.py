"""The answers in a few added lines of Claude Code's log, read without its reader: what a status line has time for.

In: whole lines that were added. Out: the bill of each answer, or None where they hold anything that only reading the
log as a whole tells: a chain beside the main one, an answer that is no request, one of several passes, a line that is
no JSON. Rules: those of `reader.py` (an answer is several lines with one `message.id` and one bill). Standard
library alone. Cost: O(the lines), and decoding those that hold a bill.
"""

from __future__ import annotations

import json
from typing import Any, cast

from lore.model.running import Answer

FORMAT = "claude-code"
MOST_TOKENS = 20_000_000  # tokens of a prompt: none is longer, as `cache/bills.py` has it
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_LIFETIMES = ("ephemeral_1h_input_tokens", "ephemeral_5m_input_tokens")
_ASSISTANT = b'"assistant"'
_HOUR, _FIVE_MINUTES = 3600.0, 300.0
_ELSEWHERE = (b'"isSidechain":true', b'"isSidechain": true', b"compact_boundary", b"isCompactSummary")


def answers(data: bytes) -> list[Answer] | None:
    """Return the answers of whole lines, each once; None where only the whole log tells what they are."""
    found: dict[str, Answer] = {}
    if any(mark in data for mark in _ELSEWHERE):
        return None
    for line in data.split(b"\n"):
        if _ASSISTANT not in line and b'"usage"' not in line:
            if line.strip()[-1:] not in (b"", b"}"):
                return None
            continue
        try:
            record = _table(json.loads(line))
        except (ValueError, RecursionError):
            return None
        if record.get("type") != "assistant":
            continue
        answer = _answer(record)
        if answer is None:
            return None
        found.setdefault(answer.response, answer)
    return list(found.values())


def _answer(record: dict[str, Any]) -> Answer | None:
    """Return the answer of a line; None for one that is not plainly a single request."""
    message = _table(record.get("message"))
    usage = _table(message.get("usage"))
    response, model, at = message.get("id"), message.get("model"), _seconds(record.get("timestamp"))
    if not isinstance(response, str) or not isinstance(model, str) or model == "<synthetic>" or at is None:
        return None
    uncached, read, write = (usage.get(name) for name in _COUNTS)
    if type(uncached) is not int or type(read) is not int or type(write) is not int:
        return None
    if not 0 <= min(uncached, read, write) <= max(uncached, read, write) <= MOST_TOKENS:
        return None
    if not _is_single(usage.get("iterations")) or any(_table(usage.get("server_tool_use")).values()):
        return None
    parts = _table(usage.get("cache_creation"))
    hour, short = (parts.get(name) or 0 for name in _LIFETIMES)
    if (hour or short) and hour + short != write:
        return None
    return Answer(response, model, at, uncached, read, write, _HOUR if hour else _FIVE_MINUTES if write else None)


def _is_single(passes: object) -> bool:
    """Tell whether a bill is of one pass, which versions of 2026 list, too."""
    listed = cast("list[object]", passes) if isinstance(passes, list) else [passes]
    return not passes or (len(listed) == 1 and _table(listed[0]).get("type") == "message")


def _table(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _seconds(time: object) -> float | None:
    """Return a time of the log in seconds since the epoch; None where it is none, or names no zone."""
    from datetime import datetime  # noqa: PLC0415 - most looks find no new answer

    try:
        parsed = datetime.fromisoformat(time) if isinstance(time, str) else None
        return None if parsed is None or parsed.tzinfo is None else parsed.timestamp()
    except (ValueError, OverflowError):
        return None
