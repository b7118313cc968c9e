"""Chains: which recorded request continues which.

In: prompts in the order they were recorded. Out: the chain of each, and whether it is new. Rules: a
request continues the latest one whose messages are a prefix of its own (system, tools and marks aside);
else the latest that begins with the same first message; only among requests of one dialect that both
have tools or both have none. A request for hardly any output is a utility call, a chain of its own.

Cost: O(chains that begin alike) comparisons of shared messages a request.
"""

from __future__ import annotations

from itertools import count, islice
from typing import NamedTuple

from lore.model.events import MAIN
from lore.model.prompt import Prompt

LOOK_BACK = 64  # chains that begin alike and are compared: a thousand forks must not cost a million looks
UTILITY_TOKENS = 16  # quota probes and topic checks ask for 1 to 8 tokens


class Link(NamedTuple):
    """A request's chain and its number in it, from 1."""

    chain: str
    turn: int


class Chains:
    """Follow the chains of one recording."""

    def __init__(self) -> None:
        self._alike: dict[tuple[object, ...], list[str]] = {}
        self._last: dict[str, Prompt] = {}
        self._turns: dict[str, int] = {}
        self._numbers = count(2)

    def link(self, prompt: Prompt) -> Link:
        """Take the next request."""
        utility = _is_utility(prompt)
        key = (prompt.dialect, utility, _has_tools(prompt), _first_message(prompt))
        alike = self._alike.setdefault(key, [])
        name = self._continued(prompt, alike)
        if name is None:
            name = self._new(utility=utility)
        else:
            alike.remove(name)
        alike.append(name)
        self._last[name] = prompt
        self._turns[name] = self._turns.get(name, 0) + 1
        return Link(name, self._turns[name])

    def _new(self, *, utility: bool) -> str:
        if MAIN not in self._turns and not utility:
            return MAIN
        return f"{'utility' if utility else 'chain'}-{next(self._numbers)}"

    def _continued(self, prompt: Prompt, alike: list[str]) -> str | None:
        """Find the chain; a request that only repeats the beginning of one starts another (a fork)."""
        latest: str | None = None
        for name in reversed(alike[-LOOK_BACK:]):
            before = self._last[name].messages
            shared = before.common(prompt.messages)
            if shared == len(before):
                return name
            if latest is None and shared < len(prompt.messages):
                latest = name
        return latest


def _is_utility(prompt: Prompt) -> bool:
    for name in ("max_tokens", "max_completion_tokens"):
        raw = prompt.params.get(name, b"")
        if raw.isdigit() and len(raw) < 9 and int(raw) <= UTILITY_TOKENS:
            return True
    return False


def _has_tools(prompt: Prompt) -> bool:
    return bool(prompt.head) and prompt.head[0].section == "tools"


def _first_message(prompt: Prompt) -> tuple[bytes, ...]:
    """The first message's content, as bytes; its envelope ends where the next one begins."""
    found: list[bytes] = []
    for segment in islice(prompt.messages, 1, None):
        if segment.kind == "envelope":
            break
        found.append(segment.data)
    return tuple(found)
