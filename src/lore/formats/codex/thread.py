"""What is remembered of a Codex thread: its history, what it was last asked with, responses that wait for their bills.

In: items as they come, compactions, rollbacks, contexts, bills. Out: the uuids that go or stay, signs of what changed
in a context, turns. Rules:

- a rollback drops the last prompts of the user and all behind them, with what the client wrote directly before each:
  contexts and permissions; nothing before the first prompt goes;
- a field of a context that is not noted says nothing; of a long text it is shown that it changed, and not how. All of
  it is prompt content, which Codex appends behind the history, so that a change by itself seldom moves the prefix;
- a bill comes behind its response and often behind the first results: what a response made is held until it is billed,
  up to `UNBILLED_EVENTS` or `UNBILLED_BYTES`; one that is never billed is a request only where the log bills nothing.

Sources: `turn_context` of 697 turns and `input_tokens` of 6,707 requests (all of which include `cached_input_tokens`),
versions 0.118 to 0.144; `drop_last_n_user_turns` in `codex-rs/core/src/context_manager/history.rs` and `updates.rs`
beside it, of October 2026.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Raw, Struct, field

from lore.formats.base import Read
from lore.formats.bills import split
from lore.formats.codex.items import CodexUsage
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.model import events as e
from lore.model.canonical import text_of
from lore.model.items import NULL, is_absent
from lore.model.jsonslice import raw_members
from lore.model.limits import UNBILLED_BYTES, UNBILLED_EVENTS
from lore.model.state import LONGEST, Sign

Counts: TypeAlias = tuple[int, int, int]


def counts_of(usage: CodexUsage) -> Counts:
    """Return what sums are compared by: input, cached input, output; 0 where it is not said."""
    return usage.input_tokens or 0, usage.cached_input_tokens or 0, usage.output_tokens or 0


def billed(usage: CodexUsage, version: str) -> e.Usage:
    """Return the bill of a response, by a client of this version (empty: unknown)."""
    read, write = usage.cached_input_tokens, usage.cache_write_input_tokens
    return split(usage.input_tokens, read, write, usage.output_tokens, client=f"codex {version}".rstrip())


class Boundary(Struct, gc=False):
    """A prompt of the user: the number of its item, and of the first that goes with it when it is taken back."""

    item: int
    cut: int


class History(Struct):
    """Items by number: `items` were made; those from `since` on stand, and those in the ranges of `before`.

    `boundaries` are the prompts among them, `contextual` counts what the client wrote since the last of other items.
    """

    items: int = 0
    since: int = 1
    before: list[tuple[int, int]] = []
    boundaries: list[Boundary] = []
    contextual: int = 0

    def user_message(self, *, contextual: bool, prompt: bool) -> None:
        """Note that the last item is a message that the model did not make: the client's, or a prompt."""
        if contextual:
            self.contextual += 1
            return
        if prompt:
            behind = self.contextual if self.boundaries else 0
            self.boundaries.append(Boundary(self.items, self.items - behind))
        self.contextual = 0

    def roll_back(self, count: int) -> tuple[str, ...]:
        """Drop so many prompts; return the uuids of the items that go."""
        gone = self.boundaries[-count:] if count > 0 else []
        if not gone:
            return ()
        del self.boundaries[-len(gone) :]
        cut, ranges = gone[0].cut, [*self.before, (self.since, self.items)]
        self.before = [(first, min(last, cut - 1)) for first, last in ranges if first < cut and first <= last]
        self.since, self.contextual = self.items + 1, 0
        return tuple([uuid_of(number) for first, last in ranges for number in range(max(first, cut), last + 1)])

    def replace(self) -> None:
        """Drop all: another history comes."""
        self.before, self.boundaries, self.contextual = [], [], 0
        self.since = self.items + 1

    def keep_prompts(self) -> tuple[str, ...]:
        """Drop all but the prompts, as compactions did that noted a summary alone; return the uuids that stay."""
        numbers = [boundary.item for boundary in self.boundaries]
        boundaries = self.boundaries
        self.replace()
        self.before, self.boundaries = [(number, number) for number in numbers], boundaries
        for boundary in boundaries:
            boundary.cut = boundary.item
        return tuple(map(uuid_of, numbers))


def uuid_of(number: int) -> str:
    """Return the uuid of an item."""
    return f"item-{number}"


# A field of the context -> the sign that it changed.
_SIGNS = {
    "effort": "effort",
    "summary": "effort",
    "current_date": "date",
    "timezone": "date",
    "approval_policy": "permission-mode",
    "sandbox_policy": "permission-mode",
    "permission_profile": "permission-mode",
    "cwd": "instructions",
    "personality": "instructions",
    "collaboration_mode": "instructions",
    "multi_agent_mode": "instructions",
    "developer_instructions": "instructions",
    "user_instructions": "memory",
}
_NAMED = ("mode", "type")  # members that an object goes by


class CodexCount(Struct, frozen=True):
    """A field as it was noted: digests of its text and of what counts of it, and how it is shown."""

    text: str
    digest: str
    shown: str


def signs_of_context(known: dict[str, CodexCount], now: dict[str, Raw]) -> list[Sign]:
    """Return what changed since the last context, which `known` remembers; it then knows this one. One sign a name."""
    found: dict[str, Sign] = {}
    for name, sign in _SIGNS.items():
        value = now.get(name, NULL)
        if is_absent(value):
            continue
        text, before = bytes(value), known.get(name)
        if before is not None and before.text == _digest(text):
            continue
        noted = known[name] = _noted(name, text)
        if before is None or before.digest == noted.digest:
            continue
        joined = found.get(sign, Sign(sign))
        shows = (before.shown, noted.shown) if before.shown != noted.shown else ("", "")
        texts = [", ".join(filter(None, pair)) for pair in zip((joined.before, joined.after), shows, strict=True)]
        found[sign] = Sign(sign, (*joined.names, name), before=texts[0], after=texts[1])
    return list(found.values())


def _noted(name: str, text: bytes) -> CodexCount:
    """Note a field: a short text as it is, an object by its name, a long text by nothing but its digest."""
    counts, own = text, raw_members(text) if text[:1] == b"{" else None
    if own is None:
        shown = text_of(text) if text[:1] == b'"' else text.decode("utf-8", "replace")
    else:
        named = next((own[key] for key in _NAMED if own.get(key, b"")[:1] == b'"'), b'""')
        inner = raw_members(own.get("settings", b"")) if name == "collaboration_mode" else None
        if inner is not None:  # what else these are stands beside it
            counts = named + inner.get("developer_instructions", b"")
        shown = text_of(named)
    return CodexCount(_digest(text), _digest(counts), "" if len(shown) > LONGEST or "\n" in shown else shown)


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=8).hexdigest()


class Held(Struct, gc=False):
    """An event that waits for the bill of its response, and its place."""

    event: e.Event
    line: int
    byte: int


class CodexResponse(Struct):
    """A response that is not billed yet: when it was asked for and when it began, by what model, where.

    `results` came behind it, or it is `over`: something else did. It was `given_up` where an interrupt or an error did.
    `turn` is its number where it has begun already, since too much waited; `held` is what it and its tools made.
    """

    asked: str | None
    at: str | None
    model: str | None
    line: int
    byte: int
    held: list[Held] = []
    size: int = 0
    results: bool = False
    over: bool = False
    given_up: bool = False
    turn: int = 0


_TIMED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")


class CodexMemory(Struct):
    """All that the reader remembers.

    `thread` is the session's id, `root` the thread that its sums began in; `waiting` are the responses since the last
    bill, the one under way last; `totals` the sums so far, `tokens` all of the last response; `billed` says that a
    response was, `recorded` which the last record billed; `context` what the last turn of the user was asked with;
    `start` is the ordinal of the first record that is no copy of another thread's.
    """

    thread: str | None = None
    root: str = ""
    provider: str = ""  # where its name tells who serves the thread
    asked_in: str = ""  # the id of the user's turn
    version: str = ""
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    waiting: list[CodexResponse] = []
    asked_at: str | None = None
    model: str | None = None
    totals: Counts | None = None
    tokens: int | None = None
    billed: bool = False
    recorded: str | None = None
    context: dict[str, CodexCount] = {}
    history: History = field(default_factory=History)
    start: int = 0

    @property
    def is_inherited(self) -> bool:
        """Whether another thread, of which this one is a fork, sent the current request.

        Ids of threads and of turns begin with their time (UUID version 7), and a copy keeps those of its turns.
        """
        ids = self.asked_in, self.thread or ""
        return self.root != self.thread and all(map(_TIMED_ID.match, ids)) and ids[0] < ids[1]


class CodexResponses(TranscriptLines[CodexMemory]):
    """What holds events back until the response that made them is billed."""

    memory = CodexMemory

    def _emit(self, event: e.Event) -> None:
        waiting, line = self._memory.waiting, self._line
        if not waiting or waiting[-1].turn:
            self._found.append(Read(event, line.number, line.byte))
            return
        response = waiting[-1]
        response.held.append(Held(event, line.number, line.byte))
        response.size += len(line.data)
        if len(response.held) > UNBILLED_EVENTS or response.size > UNBILLED_BYTES:
            self._release(waiting[:-1])
            self._memory.waiting = [response]
            self._start(response)

    def _release(self, responses: Iterable[CodexResponse]) -> None:
        """Let go of what waited with responses."""
        for response in responses:
            self._found += [Read(held.event, held.line, held.byte) for held in response.held]
            response.held = []

    def _start(self, response: CodexResponse) -> None:
        """Start the turn of a response at its first line, and let go of what waited with it."""
        turns, place = self._memory.turns, (response.line, response.byte)
        turns.turn = response.turn = turns.turn + 1
        if response.model is not None and response.model != turns.model:
            turns.model = response.model
            self._found.append(Read(e.SessionChanged(model=response.model), *place))
        asked_at, call = response.asked or response.at, None
        if self._memory.is_inherited:
            call = e.Call(answered_by=self._memory.provider, inherited_from=self._memory.root)
        self._found.append(Read(e.TurnStarted(turn=response.turn, at=asked_at, call=call), *place))
        self._release((response,))

    def _end(self, response: CodexResponse, usage: e.Usage | None, name: str | None = None) -> None:
        """End a response as a request."""
        if not response.turn:
            self._start(response)
        end = e.TurnCompleted(turn=response.turn, at=response.at, usage=usage, response_id=name)
        self._found.append(Read(end, self._line.number, self._line.byte))

    def _settle(self) -> None:
        """End the responses that no bill came for: requests where the log bills none and they were not given up."""
        memory = self._memory
        waiting, memory.waiting = memory.waiting, []
        for response in waiting:
            if response.turn or not (memory.billed or response.given_up):
                self._end(response, None)
            else:
                self._release((response,))

    def _respond(self) -> CodexResponse:
        """Begin a response."""
        memory, line = self._memory, self._line
        if not memory.billed:
            self._settle()
        response = CodexResponse(memory.asked_at, self._at, memory.model, line.number, line.byte)
        memory.waiting.append(response)
        return response
