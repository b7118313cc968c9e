"""Sessions of OpenCode and Kilo CLI: what `opencode export` writes, and what their database and storage folder hold.

In: one document, `{info, messages: [{info, parts[]}]}`; `recording/agents/opencode_store.py` writes the others so.
Out: events.
A step of an assistant's message is one request (today each message has one step); a message without a step that counts
nothing is none. Counts leave out what was cached. Tools run inside their message: a result is known when it ends.

A compaction is a marker in a user's message, and a response whose text is the summary. Its request has its own system
prompt and no tools: it is a chain of its own. An output that was pruned (`time.compacted`) is cleared before the first
request after that. A changed agent, `tools` map or system prompt of a user's message changes what nobody recorded.

Neither system prompt nor schemas of tools are in the file. Sources: counts over 503 public exports, versions 1.2.16 to
1.18.21; OpenCode's message-v2.ts and compaction.ts, autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.beginning import BOM, SPACE, array_at
from lore.formats.bills import name_of, recorded_dollars
from lore.formats.http import real
from lore.formats.opencode import records
from lore.formats.opencode.records import OpenCodeInfo, OpenCodePart, OpenCodeRecord, OpenCodeTokens
from lore.formats.transcripts import TranscriptDocument, TranscriptTurns
from lore.formats.values import LATEST_MS, count_in, stamp_of, text_in
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import NULL, AssistantMessage, Item, UserMessage, is_absent
from lore.model.jsonslice import raw_members
from lore.model.mask import cut_masked, mask
from lore.model.state import Sign, bounded

_PATHS = (".messages",)
_SIGN = re.compile(rb'^\{\s*"info"\s*:\s*\{[^{}]*"(?:projectID|slug|directory|version)"\s*:')


class Asked(Struct, gc=False):
    """What the last message of the user asked with, besides its text."""

    agent: str | None = None
    variant: str | None = None
    system: str | None = None
    tools: dict[str, bool] | None = None


class Marker(Struct, gc=False):
    """A compaction that was asked for: its message, and from which message on the history stays."""

    id: str
    auto: bool
    tail: str | None = None


class OpenCodeMemory(Struct):
    """All that the reader remembers.

    `live` are the items since the last compaction, each with its message, `pruned` the calls whose output was taken
    out, with the time in ms, until it is cleared. `revert` is the first message that was taken back, `reverted` what
    came from there on.
    """

    session: str | None = None
    client: str = "opencode"
    revert: str = ""
    reverted: list[str] = []
    is_reverted: bool = False
    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    dialect: str | None = None
    tokens: int | None = None
    utilities: int = 0
    asked: Asked = field(default_factory=Asked)
    marker: Marker | None = None
    live: list[tuple[str, str]] = []
    pruned: list[tuple[int, str]] = []


class OpenCode(TranscriptDocument[OpenCodeMemory]):
    """Reader of OpenCode's sessions."""

    name: ClassVar[str] = "opencode"
    paths: ClassVar[tuple[str, ...]] = _PATHS
    memory = OpenCodeMemory

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        begin = head.removeprefix(BOM).lstrip(SPACE)
        return _SIGN.match(begin) is not None and array_at(head, _PATHS) >= 0

    def _head(self, data: bytes) -> None:
        self._begin_session(records.session_of((raw_members(data) or {}).get("info", b"{}")))

    def _begin_session(self, session: records.OpenCodeSession) -> None:
        memory = self._memory
        memory.session, memory.client = session.id, f"opencode {session.version}".rstrip()
        memory.revert = "" if session.revert is None else session.revert.message
        at = stamp_of(session.time.created)
        title = text_in(session.title)
        title = None if title.startswith(records.DEFAULT_TITLES) else title or None
        self._emit(e.SessionStarted(session_id=session.id, at=at, parent_session_id=session.parent, title=title))

    def _take(self, data: bytes) -> None:
        if self._memory.session is None:
            self._begin_session(records.OpenCodeSession())
        record = _with_own_ids(records.decode(data), f"line-{self._line.number}")
        info, memory = record.info, self._memory
        memory.is_reverted = memory.is_reverted or (bool(memory.revert) and info.id == memory.revert)
        if info.role == "user":
            self._user(record)
        elif info.role == "assistant" and info.summary == _TRUE:
            self._summary(record)
        elif info.role == "assistant":
            self._assistant(record)
        else:
            self._unknown("unknown message of role", info.role)

    def _last(self) -> None:
        if self._memory.reverted:
            self._emit(e.Remove(uuids=tuple(self._memory.reverted)))
            self._memory.reverted = []

    def _put(self, item: Item, message: str) -> None:
        memory, uuid = self._memory, item.uuid
        self._append(item)
        memory.live.append((message, uuid))
        if memory.is_reverted:
            memory.reverted.append(uuid)

    # the user

    def _user(self, record: OpenCodeRecord) -> None:
        info = record.info
        self._changes(info)
        for part in record.parts:
            if part.type == "compaction":
                self._mark(Marker(info.id, part.auto is not False, part.tail_start_id), stamp_of(info.time.created))
        self._given(record)

    def _mark(self, marker: Marker, at: str | None) -> None:
        self._memory.marker = marker
        self._emit(e.CompactStarted(trigger=_trigger(marker), pre_tokens=self._memory.tokens, at=at))

    def _given(self, record: OpenCodeRecord) -> None:
        """Put what no model made into the timeline."""
        info, memory = record.info, self._memory
        self._at = stamp_of(info.time.created)
        blocks, unknown = records.given(record.parts)
        self._unknown_parts(unknown)
        if blocks:
            own = any(part.type in ("text", "file") and not part.synthetic for part in record.parts)
            source = "user" if own else "context_injection"
            said = UserMessage(info.id or f"line-{self._line.number}", blocks=blocks, source=source)
            self._put(said, info.id)
        if any(records.is_image(part) for part in record.parts):
            self._observe(Sign("image"))
        memory.turns.asked_at = self._at

    def _unknown_parts(self, types: list[str]) -> None:
        for kind in types:
            self._problem(Code.UNKNOWN_RECORD, f"unknown part of type {mask(kind)[:60]!r}; passed over")

    def _changes(self, info: OpenCodeInfo) -> None:
        """Say what a message of the user asks otherwise than the one before it."""
        asked = self._memory.asked
        variant = (
            text_in((raw_members(bytes(info.model)) or {}).get("variant", b"")) or None
        )  # of the model: its effort
        system = text_in(info.system)
        signs: list[Sign] = []
        if asked.agent is not None and info.agent not in (None, asked.agent):
            signs.append(
                Sign("instructions", before=cut_masked(asked.agent, 80), after=cut_masked(info.agent or "", 80))
            )
        elif asked.system is not None and system != asked.system:
            signs.append(Sign("instructions"))
        if asked.agent is not None and variant != asked.variant:
            signs.append(
                Sign("effort", before=cut_masked(asked.variant or "", 80), after=cut_masked(variant or "", 80))
            )
        tools = None if info.tools is None else {name: bytes(on) == b"true" for name, on in info.tools.items()}
        before, now = asked.tools or {}, tools or {}
        on = [name for name, given in now.items() if given and before.get(name) is False]
        off = [name for name, given in now.items() if not given and before.get(name, True)]
        off = off if asked.agent is not None else []
        back = [name for name, given in before.items() if not given and name not in now]
        if on or off or back:
            signs.append(Sign("tools-delta", bounded([*on, *back]), bounded(off)))
        asked.agent, asked.variant, asked.system, asked.tools = info.agent or asked.agent, variant, system, tools
        self._at = stamp_of(info.time.created)
        self._observe(*signs, version=self._memory.client.partition(" ")[2])

    # responses

    def _assistant(self, record: OpenCodeRecord) -> None:
        info, memory = record.info, self._memory
        steps = _steps(record)
        asked = stamp_of(info.time.created)
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            self._clear(count_in(info.time.created, LATEST_MS))
            turn = self._start(info, asked)
            response = info.id if len(steps) == 1 else f"{info.id}:{number}"
            ended = self._say(info, step, response)
            tokens, cost = _counted(step) or (info.tokens if last else None, NULL)
            cost = info.cost if len(steps) == 1 and is_absent(cost) else cost
            answered = (stamp_of(info.time.completed) if last else None) or ended
            self._end(turn, info, tokens, answered, cost, failed=last)
            asked = ended or asked
        if not steps:
            self._say(info, record.parts, info.id)
        memory.turns.asked_at = None

    def _clear(self, now: int | None) -> None:
        """Clear the outputs that were pruned before a request."""
        memory = self._memory
        due = [call for at, call in memory.pruned if now is None or at <= now]
        if due:
            memory.pruned = [(at, call) for at, call in memory.pruned if now is not None and at > now]
            self._emit(e.ToolResultCleared(call_ids=tuple(due)))

    def _start(self, info: OpenCodeInfo, asked: str | None) -> int:
        """Start a turn, of a summary's chain its only one; return its number."""
        memory, turns, chain = self._memory, self._memory.turns, self._chain
        dialect, own = records.dialect_of(info.provider, info.asked or ""), chain == e.MAIN
        if not own or (info.asked, dialect) != (turns.model, memory.dialect):
            self._emit(e.SessionChanged(model=info.asked, dialect=dialect, chain=chain))
        if own:
            turns.model, memory.dialect = info.asked, dialect
            turns.turn += 1
        turn = turns.turn if own else 1
        self._emit(e.TurnStarted(turn=turn, at=asked, chain=chain))
        return turn

    def _say(self, info: OpenCodeInfo, parts: list[OpenCodePart], response: str) -> str | None:
        """Put what a step says and does into the timeline; return when its last tool ended."""
        ended: str | None = None
        for number, part in enumerate(parts):
            name = part.id or f"{response or f'line-{self._line.number}'}:{number}"
            made = records.said(part, name, response)
            self._at = stamp_of(info.time.created)
            if made is not None:
                self._put(made, info.id)
            elif part.type not in records.SILENT and part.type != "tool":
                self._unknown_parts([part.type])
            if part.type == "tool" and part.state is not None:
                ended = self._outcome(part, part.state) or ended
        return ended

    def _outcome(self, part: OpenCodePart, state: records.OpenCodeState) -> str | None:
        outcome = records.outcome(state)
        time = state.time or records.Time()
        self._at = stamp_of(time.end)
        if outcome is not None:
            self._emit(replace(outcome, call_id=part.call_id, at=self._at))
        compacted = count_in(time.compacted, LATEST_MS)
        if compacted:
            self._memory.pruned.append((compacted, part.call_id))
        if any(map(records.is_image, state.attachments or ())):
            self._observe(Sign("image"))
        return self._at

    def _end(
        self, turn: int, info: OpenCodeInfo, tokens: OpenCodeTokens | None, at: str | None, cost: Raw, *, failed: bool
    ) -> None:
        memory, self._at, chain = self._memory, at, self._chain
        bill = records.billed(tokens, memory.client, records.dialect_of(info.provider, info.asked or ""))
        bill = bill and replace(bill, recorded=recorded_dollars(bytes(cost)))
        error = info.error if failed else None
        if error is None:
            name = name_of(count_in(info.time.created, LATEST_MS), bill)
            self._emit(e.TurnCompleted(turn=turn, at=at, usage=bill, response_id=name, chain=chain))
        else:
            aborted = error.name == "MessageAbortedError"
            ended = e.TurnCanceled if aborted else e.TurnFailed
            self._emit(ended(turn=turn, at=at, usage=bill, error=error.name or None, chain=chain))
            self._observe(Sign("interrupt" if aborted else "api-error"))
        if chain == e.MAIN and tokens is not None:
            memory.tokens = records.size_of(tokens)

    # compactions

    def _summary(self, record: OpenCodeRecord) -> None:
        """Take the response that a compaction asked for: a request of its own, whose text stands for the history."""
        info, memory = record.info, self._memory
        memory.utilities += 1
        self._chain, at = f"utility-{memory.utilities}", stamp_of(info.time.completed)
        turn = self._start(info, stamp_of(info.time.created))
        text = records.text_of_parts(record.parts)
        for number, part in enumerate(record.parts):
            made = records.said(part, part.id or f"{info.id}:{number}", info.id)
            if isinstance(made, AssistantMessage):
                self._emit(e.Append(item=made, chain=self._chain))
        tokens, _ = _counted(record.parts) or (info.tokens, NULL)
        self._end(turn, info, tokens, at, info.cost, failed=True)
        self._chain = e.MAIN
        marker, memory.marker = memory.marker, None
        if info.error is not None or text == NULL:
            return
        marker = marker or Marker(info.id, auto=True)
        kept = self._kept(marker)
        uuid = f"{marker.id}:summary"
        self._prune(uuid, kept, trigger=_trigger(marker), pre=memory.tokens, summary=text)
        live = set(kept)
        memory.live = [(message, uuid) for message, uuid in memory.live if uuid in live]

    def _kept(self, marker: Marker) -> list[str]:
        """Return the items that a compaction keeps: those from its tail on, but for its marker."""
        if not marker.tail:
            return []
        found = [number for number, (message, _) in enumerate(self._memory.live) if message == marker.tail]
        live = self._memory.live[found[0] :] if found else []
        return [uuid for message, uuid in live if message != marker.id]


_TRUE = Raw(b"true")


def _with_own_ids(record: OpenCodeRecord, line: str) -> OpenCodeRecord:
    """Return a message with an id of its own for each that a redactor replaced: one placeholder is many ids."""
    ids = (record.info.id, *(name for part in record.parts for name in (part.id, part.call_id)))
    if all(not name or real(name) for name in ids):
        return record
    parts = [
        replace(part, id=real(part.id), call_id=real(part.call_id) or (part.call_id and f"{line}:{number}:call"))
        for number, part in enumerate(record.parts)
    ]
    return OpenCodeRecord(replace(record.info, id=real(record.info.id)), parts)


def _trigger(marker: Marker) -> str:
    return "auto" if marker.auto else "manual"


def _steps(record: OpenCodeRecord) -> list[list[OpenCodePart]]:
    """Cut a message into its steps: requests. A message without any, which counts tokens or failed, is one itself."""
    starts = [place for place, part in enumerate(record.parts) if part.type == "step-start"]
    if not starts:
        return [record.parts] if records.billed(record.info.tokens, "") is not None or record.info.error else []
    starts[0] = 0
    ends = [*starts[1:], len(record.parts)]
    return [record.parts[start:end] for start, end in zip(starts, ends, strict=True)]


def _counted(parts: list[OpenCodePart]) -> tuple[OpenCodeTokens, Raw] | None:
    """Return tokens and cost of a step, by its last `step-finish`."""
    counted: Iterator[tuple[OpenCodeTokens, Raw]] = (
        (part.tokens, part.cost) for part in reversed(parts) if part.type == "step-finish" and part.tokens is not None
    )
    return next(counted, None)
