"""Limits of subscription plans as logs of agents show them: how much of a window is used, and when it resets.

Codex CLI writes both with each response (`rate_limits` of a `token_count`, seen in versions 0.118 to 0.142). Claude
Code writes when a limit that was reached resets (`usage limit reached|1782494662`). Only the end of a log is read.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

TAIL = 262_144  # bytes of a log's end
_FIVE_HOURS = 300  # minutes
_REACHED = re.compile(rb"usage limit reached\|(\d{10})\b")
_PLAN = re.compile(rb'"plan_type":"([a-z_]{1,30})"')
_PLANS = ("business", "edu", "enterprise", "free", "go", "plus", "pro", "team")  # another word may be content
_MOST_LOGS = 20  # in which plans are looked for


class LoggedLimit(NamedTuple):
    """One window of a plan, as the last line about it says."""

    minutes: int  # length of the window
    used_percent: float
    resets_at: float  # seconds since the epoch


def limits_in(path: str) -> list[LoggedLimit]:
    """Return the windows that the end of a log shows, the shortest first; empty if it shows none."""
    for line in _latest_lines(path):
        reached = _REACHED.search(line)
        if reached is not None:
            return [LoggedLimit(_FIVE_HOURS, 100.0, float(reached[1]))]
        if windows := sorted(_windows_in(line)):
            return windows
    return []


def plan_notes(paths: Iterable[str]) -> list[str]:
    """Return a sentence for each agent whose logs show a subscription: its cost is at API prices, and is not paid.

    Of many logs only the last ones are read.
    """
    plans: dict[str, set[str]] = {}
    for path in list(paths)[-_MOST_LOGS:]:
        for line in _latest_lines(path):
            if _REACHED.search(line) is not None:
                plans.setdefault("Claude Code", set())
                break
            if (plan := _PLAN.search(line)) is not None or any(_windows_in(line)):
                name = "" if plan is None else plan[1].decode()
                plans.setdefault("Codex CLI", set()).update([name] if name in _PLANS else [])
                break
    named = {agent: f"{agent} is used on a subscription" for agent in plans}
    named |= {agent: f"{named[agent]} ({', '.join(sorted(names))})" for agent, names in plans.items() if names}
    return [f"{text}: its cost here is what its tokens would cost at API prices" for text in named.values()]


def _latest_lines(path: str) -> Iterator[bytes]:
    """Yield the lines about limits at the end of a log, the last one first."""
    try:
        if not os.path.isfile(path):
            return
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read(TAIL).split(b"\n")
    except (OSError, ValueError):
        return
    for line in reversed(lines):
        if b'"rate_limits":{' in line or (b'"isApiErrorMessage":true' in line and _REACHED.search(line) is not None):
            yield line


def _windows_in(line: bytes) -> Iterator[LoggedLimit]:
    """Yield the windows of a `token_count` event of Codex CLI."""
    try:
        limits: dict[str, Any] = json.loads(line)["payload"]["rate_limits"]
        for name in ("primary", "secondary"):
            window = limits.get(name)
            if window is not None:
                yield LoggedLimit(
                    int(window["window_minutes"]), float(window["used_percent"]), float(window["resets_at"])
                )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return
