"""Small makers of events, states, logs and bodies that the room tests share."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from helpers.states import step
from lore.commands.fold import TURNS, TurnRows
from lore.model.codes import Problem
from lore.model.events import Event
from lore.model.results.store import SessionUsage
from lore.model.state import FoldedSession
from lore.model.turn import Memo, Prompt, Turn
from lore.prompt.assemble import Assembler
from lore.prompt.base import Rules
from lore.prompt.dialects import DIALECTS

_EVENT = msgspec.json.Decoder(Event)


def dumps(value: Any) -> bytes:
    """Compact JSON with the characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def event(kind: str, **fields: Any) -> Event:
    """An event of this kind."""
    return _EVENT.decode(dumps({"kind": kind, **fields}))


def started(**fields: Any) -> Event:
    """A header."""
    return event("session_started", **{"v": 1, "session_id": "s-1", **fields})


def user(uuid: str, text: str = "hello", **fields: Any) -> dict[str, Any]:
    """A user's message, as a log spells it."""
    return {"type": "user_message", "uuid": uuid, "text": text, **fields}


def said(uuid: str, text: str = "hi", **fields: Any) -> dict[str, Any]:
    """An assistant's message."""
    return {"type": "assistant_message", "uuid": uuid, "text": text, **fields}


ANSWER = "The reader takes each line as it comes, and the writer keeps it. " * 5
"""An answer that is longer than a summary of a few has to be."""


def call(uuid: str, call_id: str, **fields: Any) -> dict[str, Any]:
    """A tool call."""
    base = {"type": "tool_call", "uuid": uuid, "call_id": call_id, "name": "ls", "input": {"p": 1}, "status": "running"}
    return {**base, **fields}


def append(item: dict[str, Any], **fields: Any) -> Event:
    """An append event."""
    return event("append", item=item, **fields)


class Fold:
    """Folds events one by one and keeps their problems."""

    def __init__(self, *events: Event) -> None:
        self.state = FoldedSession(format="lore")
        self.problems: list[Problem] = []
        self._turns = TurnRows()
        self.take(*events)

    def take(self, *events: Event) -> Fold:
        """Fold more events."""
        for one in events:
            self.state, problems = step(self.state, one)
            self.problems.extend(problems)
            if isinstance(one, TURNS):
                self._turns.take(one)
        return self

    @property
    def usage(self) -> SessionUsage:
        """The usage of all chains, as `lore fold` sums it."""
        return self._turns.usage()

    @property
    def uuids(self) -> list[str]:
        """The uuids of the main chain's timeline."""
        return [entry.item.uuid for entry in self.state.main().entries]

    @property
    def codes(self) -> list[str]:
        """The codes of all problems."""
        return [problem.code for problem in self.problems]

    def item(self, place: int) -> Any:
        """The item at a place of the main chain."""
        return self.state.main().entries[place].item


def log(*records: dict[str, Any]) -> bytes:
    """A session log from records."""
    return b"".join(dumps(record) + b"\n" for record in records)


def record(kind: str, **fields: Any) -> dict[str, Any]:
    """A record of a log."""
    return {"kind": kind, **fields}


def header(**fields: Any) -> dict[str, Any]:
    """The first record of a log."""
    return record(
        "session_started",
        **{"v": 1, "session_id": "s-1", "model": "m-1", "dialect": "anthropic", "system": "Be brief.", **fields},
    )


def assembled(state: FoldedSession, dialect: str = "anthropic", policy: str = "system", chain: str = "main") -> Prompt:
    """The prompt of a chain's latest turn, from a fresh assembler."""
    made = Assembler(DIALECTS[dialect], Rules(tail=policy))  # pyright: ignore[reportArgumentType]
    return made.assemble(state, state.chain(chain)).prompt


def bare(prompt: Prompt) -> Prompt:
    """The prompt without its cache breakpoints."""
    return msgspec.structs.replace(prompt, breakpoints=(), breakpoint_values=())


def parsed(body: Any, dialect: str = "anthropic", memo: Memo | None = None) -> Prompt:
    """A prompt from a request body (bytes, or a value to be encoded)."""
    raw = body if isinstance(body, bytes) else dumps(body)
    return DIALECTS[dialect].parse(raw, "wire", memo or Memo())


def turn(prompt: Prompt, number: int = 1, **fields: Any) -> Turn:
    """A turn of the main chain."""
    return Turn("main", number, prompt, **fields)


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    """An Anthropic body; a text stands for a message of that user."""
    listed = [{"role": "user", "content": one} if isinstance(one, str) else one for one in messages]
    return {"model": "claude-x", "system": "Be brief.", **fields, "messages": listed}


def assistant(text: str) -> dict[str, Any]:
    """An assistant's message of a body."""
    return {"role": "assistant", "content": text}
