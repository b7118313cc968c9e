"""`lore statusline`: one line about the session that runs, from what was kept of its log.

In: what was asked for, what Claude Code writes to standard input, the time. Out: the line, and the name of a log or
project that has to be judged by another process. Rules: nothing here fails; what cannot be read is not
known. Standard library alone, so that starting takes as long as reading.

Source: Claude Code's page on status lines, and what public scripts of them read, 2026-11: `transcript_path`, `cwd`,
`model.display_name`, `cost.total_cost_usd`, `context_window.used_percentage` and `.current_usage` (the counts of
the last request; null before the first), `prompt_cache.expires_at` (since 2.1.251; seconds since the epoch).
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, NamedTuple, cast

from lore.formats.claude.answers import MOST_TOKENS
from lore.model.mask import cut_masked
from lore.report.status_line import DEFAULT, ClientStatus, Shown, status_line
from lore.run.live.status_file import KnownLog, claim, look, newest_of

PACE = 10  # judging takes at most this part of the time
LOOKED = 20.0  # seconds for which a project's newest session is believed
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class StatusRequest(NamedTuple):
    """What was asked for. `name` is a log or a project's folder; empty: what Claude Code names, else `project`."""

    name: str = ""
    parts: tuple[str, ...] = DEFAULT
    width: int | None = None
    colour: bool = False
    redact: bool = False


class StatuslineAnswer(NamedTuple):
    """The line, and what another process has to judge (a log, or a project's folder; empty: nothing)."""

    line: str
    behind: str = ""


def answer(request: StatusRequest, given: bytes, project: str, folder: str, now: float) -> StatuslineAnswer:
    """Return the line; `given` is what Claude Code wrote, `folder` where is kept what was read."""
    (client, path), behind = client_and_path(given), ""
    path = request.name or path or project
    if os.path.isdir(path):
        found = newest_of(folder, path)
        if found is None or not now - LOOKED < found.at <= now:
            behind = path if claim(folder, path, now) else ""
        if found is None or not found.path:
            return StatuslineAnswer(_line(request, Shown(None, client, now, judging=found is None)), behind)
        path = found.path
    if not os.path.lexists(path) and not os.path.lexists(path.partition("#")[0]):  # a session before its first line
        return StatuslineAnswer(_line(request, Shown(None, client, now)), behind)
    known, current, _ = look(folder, path)
    if not current and not behind and (known is None or not known.judged_at <= now < known.judged_at + _rest(known)):
        behind = path if claim(folder, path, now) else ""
    return StatuslineAnswer(
        _line(request, Shown(None if known is None else known.running, client, now, not current)), behind
    )


def _rest(known: KnownLog) -> float:
    """Return for how long a log is not judged again, in seconds."""
    return PACE * known.cost


def _line(request: StatusRequest, shown: Shown) -> str:
    return status_line(shown._replace(redact=request.redact), request.parts, width=request.width, colour=request.colour)


def client_and_path(given: bytes) -> tuple[ClientStatus, str]:
    """Return what Claude Code says of its session, and the log or folder that it names (empty: none)."""
    session = _table(_json(given))
    return _client(session), _text(session.get("transcript_path")) or _text(session.get("cwd"))


def _client(session: dict[str, Any]) -> ClientStatus:
    window = _table(session.get("context_window"))
    usage = _table(window.get("current_usage"))
    uncached, read, write = (_count(usage.get(name)) for name in _COUNTS)
    return ClientStatus(
        model=cut_masked(_text(_table(session.get("model")).get("display_name")), 60),
        dollars=_number(_table(session.get("cost")).get("total_cost_usd")),
        used_percentage=_number(window.get("used_percentage")),
        expires_at=_number(_table(session.get("prompt_cache")).get("expires_at")),
        prompt_tokens=None if uncached is None or read is None or write is None else uncached + read + write,
        read_tokens=read,
    )  # fmt: skip


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) and "\0" not in value else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _number(value: object) -> float | None:
    """Return a number that a clock or a bill may hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return float(value) if math.isfinite(value) else None
