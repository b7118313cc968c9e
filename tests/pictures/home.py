"""A made home folder: two weeks of Claude Code, Codex and pi, with what makes bills rise, up to a given time.

It is what the pictures of the README and the tests of the guide look at. The figures are made up; the shapes are those
of the logs. The same time gives the same bytes.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from formats import pi
from formats.claude import answered, asked, counts, result, text, use
from formats.codex import Rollout
from model.making import dumps

MODEL, HEAD = "claude-opus-5", 18_000


class Session:
    """A session of Claude Code that grows: prompts, tools, breaks; each request reads what the one before left."""

    def __init__(self, name: str, project: str, start: datetime, version: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self._envelope = {"sessionId": name, "cwd": f"/home/dev/{project}", "version": version}
        self._now, self._cached, self._left, self._hooked = start, HEAD, 0, False

    def prompt(self, words: str, requests: int, tokens: int = 1_800, *, hook: str = "") -> Session:
        """Add a prompt and the requests of its loop, each writing this number of tokens.

        With `hook` a hook's text follows each result; the next prompt lacks the first of them, so everything after it
        is written again.
        """
        self._line(asked, words)
        read = self._left if self._hooked else self._cached
        again = self._cached - read
        for number in range(requests):
            call, last = f"toolu_{len(self.lines)}", number == requests - 1
            block = text("It is done.") if last else use(call)
            self._answer(block, read, tokens + again)
            read, again = self._cached, 0
            if not last:
                self._line(asked, [result(call, "ok")])
                if hook:
                    self._left = self._left if number else self._cached
                    added = {"type": "hook_additional_context", "hookName": hook, "hookEvent": hook.partition(":")[0]}
                    self._line(_attachment, {**added, "toolUseID": call, "content": ["2 files were formatted."]})
        self._hooked = bool(hook)
        return self

    def pause(self, minutes: int) -> Session:
        """Advance the clock; an hour and more empties the cache."""
        self._now += timedelta(minutes=minutes)
        if minutes > 60:
            self._left, self._hooked = 0, True
        return self

    def _answer(self, block: dict[str, Any], read: int, written: int) -> None:
        usage: dict[str, Any] = counts(4, read, written, 350)
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": written}
        self._cached = read + written
        name = f"msg_{self._envelope['sessionId']}_{len(self.lines)}"
        self._line(answered, name, block, usage=usage, model=MODEL)

    def _line(self, make: Any, *parts: Any, **fields: Any) -> None:
        before = self.lines[-1]["uuid"] if self.lines else None
        made = make(f"{self._envelope['sessionId']}-{len(self.lines)}", *parts, before, **fields)
        self._now += timedelta(seconds=20)
        made |= self._envelope | {"timestamp": self._now.strftime("%Y-%m-%dT%H:%M:%S.000Z")}
        self.lines.append(made)


def _attachment(uuid: str, attachment: dict[str, Any], before: str | None) -> dict[str, Any]:
    return asked(uuid, "", before) | {"type": "attachment", "attachment": attachment, "message": None}


def make(home: Path, now: datetime) -> None:
    """Write the logs of the two weeks before a time below a home folder."""

    def session(days: float, name: str, project: str, version: str = "2.1.216") -> Session:
        return Session(name, project, now - timedelta(days=days), version)

    sessions = {
        ("shop", "checkout"): session(1.4, "checkout", "shop").prompt("Move the checkout to the new API.", 30, 4_200)
        .pause(95).prompt("Continue with the tests.", 20, 3_000).pause(140).prompt("Now the emails.", 12),
        ("shop", "search"): session(2.2, "search", "shop").prompt("Why is search slow?", 6)
        .prompt("Mend it.", 2, 40_000, hook="PostToolUse:Edit").prompt("And the index?", 9),
        ("billing", "invoices"): session(3.1, "invoices", "billing").prompt("Round invoices to cents.", 18, 2_000)
        .prompt("Add a test.", 9).pause(75).prompt("Ship it.", 3),
        ("billing", "tax"): session(4.6, "tax", "billing").prompt("Which tax rates are out of date?", 12)
        .prompt("Take the new ones.", 8),
        ("shop", "older"): session(9, "older", "shop", "2.1.214").prompt("Update the dependencies.", 16)
        .pause(80).prompt("Go on.", 9),
    }  # fmt: skip
    for (project, name), made in sessions.items():
        _write(home / f".claude/projects/-home-dev-{project}/{name}.jsonl", made.lines)
    codex = Rollout().meta(cwd="/home/dev/shop").context().user("Review the diff.")
    for number in range(14):
        codex.call(f"c{number}").count(16_000 + 2_100 * number, max(0, 13_900 + 2_100 * number - 100), 400)
        codex.result(f"c{number}")
    codex.message("assistant", "Two remarks.").count(48_000, 43_200, 600)
    _write(home / ".codex/sessions/2026/04/08/rollout-1.jsonl", _moved(codex.lines, now - timedelta(days=2)))
    _write(home / ".pi/agent/sessions/--w--/1.jsonl", _moved(pi.plain().lines, now - timedelta(days=1)))


_PI_COST = 0.0176  # dollars of each request of `pi.plain`, on average


def _moved(lines: list[dict[str, Any]], start: datetime) -> list[dict[str, Any]]:
    """Return the lines a second apart from a time on."""
    moved: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        time = start + timedelta(seconds=number)
        made = line | {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z")}
        if "timestamp" in line.get("message", {}):  # pi's, in milliseconds
            message = line["message"] | {"timestamp": int(time.timestamp() * 1000)}
            if "usage" in message:  # at list prices, as pi computes it
                message["usage"] = message["usage"] | {"cost": {"total": _PI_COST}}
            made["message"] = message
        moved.append(made)
    return moved


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    make(Path(sys.argv[1]), datetime.fromtimestamp(time.time(), UTC))
