"""Complete the prompts of sessions whose format records neither system prompt nor tools (`--system`, `--tools`).

The given parts become a change of the session before its first turn. They belong to the main chain, because subagents
have other prompts. A session that records its own parts keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Raw

from lore.errors import LoreError, Where
from lore.formats.base import Read, Reader
from lore.model.codes import Problem
from lore.model.events import MAIN, OpaqueEvent, SessionChanged, SessionStarted
from lore.model.items import NULL, is_absent
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange

HINT_COMPLETE = "leave --system and --tools out"


class Completion(NamedTuple):
    """The parts that complete a session's prompts."""

    system: bytes | None = None  # a JSON string, or an array of them
    tools: tuple[bytes, ...] | None = None  # each as JSON
    strict: bool = True  # one session was named: its own parts are an error, and a subagent's log is completed too

    def chain(self, kind: type[Reader], head: bytes) -> str | None:
        """Return the chain to complete, read from the beginning of a log; None if it has none."""
        first: str | None = None
        for read in kind().read([head]):
            event = read.value
            if isinstance(event, Problem | Exchange | Measurement | OpaqueEvent):
                continue
            if event.chain == MAIN:
                return MAIN
            first = first or event.chain
        return first if self.strict else None


def complete_reads(reads: Iterator[Read], completion: Completion, chain: str, label: str) -> Iterator[Read]:
    """Yield a log's events, and after its header the change that completes it.

    Raises LoreError if a session that the user named (`completion.strict`) records these parts itself.
    """
    is_done = False
    for read in reads:
        event = read.value
        if isinstance(event, SessionStarted | SessionChanged) and (completion.strict or not is_done):
            has_system = completion.system is not None and not is_absent(event.system)
            has_tools = completion.tools is not None and event.tools is not None
            if completion.strict and (has_system or has_tools):
                name, what = ("system", "system prompt") if has_system else ("tools", "tools")
                hint = f"leave --{name} out: the recorded ones are those that were sent"
                raise LoreError(f"{label} records its own {what}", hint=hint, where=Where(label, read.line, read.byte))
            completion = completion._replace(
                system=None if has_system else completion.system, tools=None if has_tools else completion.tools
            )
        yield read
        if isinstance(event, SessionStarted) and not is_done:
            is_done = True
            system = NULL if completion.system is None else Raw(completion.system)
            tools = None if completion.tools is None else tuple(map(Raw, completion.tools))
            if completion.system is not None or tools is not None:
                yield Read(SessionChanged(chain=chain, at=event.at, system=system, tools=tools), read.line, read.byte)
