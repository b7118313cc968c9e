"""Limits of subscription plans as logs of agents show them: how much of a window is used, and when it resets.

Codex CLI writes both with each response (`rate_limits` of a `token_count`, seen in versions 0.118 to 0.142). Claude
Code writes when a limit that was reached resets (`usage limit reached|1782494662`). Only the end of a log is read.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from lore.model.canonical import decode
from lore.recording import filesystem

TAIL = 262_144  # bytes of a log's end
_FIVE_HOURS = 300  # minutes
_REACHED = re.compile(rb"usage limit reached\|(\d{10})\b")
_PLANS = {"business", "edu", "enterprise", "free", "go", "plus", "pro", "team"}  # another word may be content
_MOST_LOGS = 20  # of an agent, in which plans are looked for


class LoggedLimit(NamedTuple):
    """One window of a plan, as the last line about it says."""

    minutes: int  # length of the window
    used_percent: float
    resets_at: float  # seconds since the epoch
    agent: str
    plan: str = ""  # its name, if it is recorded and known

    @property
    def began_at(self) -> float:
        """When the window began."""
        return self.resets_at - 60 * self.minutes


def limits_in(path: str) -> list[LoggedLimit]:
    """Return the windows that the end of a log shows, the shortest first; empty if it shows none."""
    try:
        lines = filesystem.end_of(path, TAIL).split(b"\n") if os.path.isfile(path) else []
    except (OSError, ValueError):
        return []
    for line in reversed(lines):
        reached = _REACHED.search(line) if b'"isApiErrorMessage":true' in line else None
        if reached is not None:
            return [LoggedLimit(_FIVE_HOURS, 100.0, float(reached[1]), "Claude Code")]
        if b'"rate_limits":{' in line:  # of Codex CLI
            windows: list[LoggedLimit] = []
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
                limits: dict[str, Any] = decode(line)["payload"]["rate_limits"]
                plan = limits["plan_type"] if limits.get("plan_type") in _PLANS else ""
                for window in filter(None, map(limits.get, ("primary", "secondary"))):
                    minutes, used = int(window["window_minutes"]), float(window["used_percent"])
                    windows.append(LoggedLimit(minutes, used, float(window["resets_at"]), "Codex CLI", plan))
            if windows:
                return sorted(windows)
    return []


def plan_notes(logs: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each agent whose logs show a subscription.

    `logs` are agents with paths of their logs; of many only the last ones of each agent are read.
    """
    newest, plans = defaultdict[str, list[str]](list), defaultdict[str, set[str]](set)
    for agent, path in logs:
        newest[agent].append(path)
    for paths in newest.values():
        for limit in (limit for path in paths[-_MOST_LOGS:] for limit in limits_in(path)):
            plans[limit.agent].add(limit.plan)
    known = {agent: ", ".join(sorted(filter(None, names))) for agent, names in plans.items()}
    cost = "its cost here is what its tokens cost at API prices"
    return [f"{agent} is used on a subscription{names and f' ({names})'}: {cost}" for agent, names in known.items()]
