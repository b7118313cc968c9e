"""Codex CLI's rollouts (`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/`), since 2025.

A response is a run of items that the model made; a request is billed by a change of `total_token_usage`, or since
autumn 2026 by a `token_usage_record`, whose copy for the screen then counts nothing. A bill comes behind its response,
and often behind the first results: so what a response made is held until it is billed. One that is given up before
that (an interrupt, an error) is a request only if the sums grow by more than the next bill: by its own. Where a log
bills nothing at all, every response is one. What else the screen was told is no part of a prompt.

A compaction gives the history that stands in place of all before it; its summary is often encrypted. A rollback takes
the last prompts of the user back, with what the client wrote before each. A log that was forked begins with a copy of
the other: the sums tell which of its requests the other file has, too. A newer one only says where the other stands;
a subagent's says up to which record it inherited its history: what stands before that was asked and billed elsewhere.

The system prompt and the history are in the file, as are tools that the client was given; the schemas of built-in tools
are not.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144; `codex-rs` of October 2026 for newer records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Raw

from lore.formats.base import Clock
from lore.formats.codex import items
from lore.formats.codex.thread import (
    CodexResponse,
    CodexResponses,
    Counts,
    billed,
    counts_of,
    signs_of_context,
    uuid_of,
)
from lore.formats.lines import each
from lore.formats.values import count_in, text_in
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import NULL, OpaqueItem, UserMessage
from lore.model.jsonslice import raw_members
from lore.model.mask import mask
from lore.model.providers import named_provider
from lore.model.state import Sign

_LOCAL = frozenset(("oss", "ollama", "lmstudio"))  # engines on the user's own machine


class Codex(CodexResponses):
    """Reader of Codex CLI's rollouts."""

    name: ClassVar[str] = "codex"
    clock: ClassVar[Clock] = "first_line"
    own_tools: ClassVar[bool] = False  # of the client: their schemas are not in the file
    unseen: ClassVar[str] = "the schemas of built-in tools"
    sealed: ClassVar[str] = "summaries of compactions are encrypted there, or left out"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for line in each(head):
            own = raw_members(line) or {}
            if own.keys() >= {"type", "payload"} and own["payload"][:1] == b"{":
                return own["type"].strip(b'"').decode("utf-8", "replace") in items.TYPES
            return False
        return False

    def _take(self, data: bytes) -> None:
        record = items.LINES.decode(data)
        inherited = record.ordinal is not None and record.ordinal < self._memory.start
        known, self._at = not isinstance(record, items.CodexOther), record.timestamp
        handle = (_INHERITED if inherited else _HANDLERS).get(record.type) if known else None
        if handle is not None:
            handle(self, record)
        elif record.type not in items.SILENT:
            self._unknown("unknown record type", record.type)

    def _last(self) -> None:
        self._settle()

    # lines, by type

    def _session(self, record: items.CodexLine[items.Meta]) -> None:
        memory, meta = self._memory, record.payload
        if memory.thread is None:
            memory.thread, memory.version = meta.id, meta.cli_version
            memory.root, memory.start = meta.forked_from_id or meta.id, meta.subagent_history_start_ordinal or 0
            before = text_in((raw_members(bytes(meta.history_base)) or {}).get("thread_id", b"")) or None
            served = meta.model_provider or ""
            parent = meta.forked_from_id or meta.parent_thread_id or items.parent_of(meta.source) or before
            is_known = named_provider(served) or served in _LOCAL  # people give their own names to proxies
            memory.provider = served if is_known else ""
            tools = tuple([tool for tool in meta.dynamic_tools or () if not items.is_deferred(tool)])
            self._emit(
                e.SessionStarted(
                    session_id=meta.id,
                    at=meta.timestamp or record.timestamp,
                    dialect="openai-responses",
                    system=(meta.base_instructions or {}).get("text", NULL),
                    tools=tools or None,
                    parent_session_id=parent,
                    provider=memory.provider or None,
                )  # fmt: skip
            )
            if before is not None:
                self._inherit(before)
        elif meta.id != memory.thread:  # a fork's copy of the log that it was forked from
            if not memory.billed:
                memory.root = meta.forked_from_id or meta.id
        else:
            signs = [Sign("resume")]
            if meta.cli_version != memory.version:
                signs.append(Sign("client-version", before=memory.version, after=meta.cli_version))
                memory.version = meta.cli_version
            self._observe(*signs, version=memory.version)

    def _inherit(self, thread: str) -> None:
        """Keep a place for the history that another log holds: a fork, or a thread that was taken back to a point."""
        history = self._memory.history
        self._problem(
            Code.DANGLING_PARENT, f"the history before is in the log {mask(thread)[:60]!r}, and not repeated here"
        )
        history.items += 1
        self._emit(e.Append(item=OpaqueItem(uuid_of(history.items), Raw(self._line.data)), at=self._at))

    def _context(self, record: items.CodexLine[dict[str, Raw]]) -> None:
        memory = self._memory
        signs = signs_of_context(memory.context, record.payload)
        model = record.payload.get("model", NULL)
        if bytes(model)[:1] == b'"':
            memory.model = text_in(model)  # half of a character cannot be written again
        memory.asked_in = text_in(record.payload.get("turn_id", b""))
        self._observe(*signs, version=memory.version)

    def _item(self, record: items.ItemLine) -> None:
        memory, payload, noted = self._memory, record.payload, record.metadata
        kind = payload.type
        if noted is not None and noted.delivered_assistant_message is not None:
            return
        if kind == items.CONFIGURATION and (noted is None or not noted.harness_authored_configuration):
            return
        under_way = memory.waiting[-1] if memory.waiting else None
        if kind in items.MADE or (kind == "message" and payload.role == "assistant"):
            if under_way is None or under_way.over or (under_way.results and not memory.billed):
                under_way = self._respond()
            self._append_item(payload, self._line.data, f"line-{under_way.line}")
        elif kind not in items.NEVER_SENT:
            self._answer(payload)

    def _told(self, record: items.CodexLine[items.Communication]) -> None:
        self._answer(items.message_of(record.payload))

    def _answer(self, payload: items.CodexPayload) -> None:
        """Take an item that the model did not make: the next response is asked for with it."""
        memory = self._memory
        for response in memory.waiting[-1:]:
            response.results = True
            response.over = response.over or payload.type not in items.OUTPUTS
        self._append_item(payload, self._line.data)
        memory.asked_at = self._at

    def _append_item(self, payload: items.CodexPayload, raw: bytes, response: str | None = None) -> None:
        """Emit what an item says, and number it."""
        history, at = self._memory.history, self._at
        uuid = uuid_of(history.items + 1)
        found = items.made_of(payload, raw, uuid, response, at)
        if type(found) is e.PatchToolCall:
            self._emit(found)
            if payload.type == "tool_search_output":
                self._observe(items.sign_of_search(payload), version=self._memory.version)
            return
        if found is None and payload.type == "message":
            return
        if found is None:
            self._problem(Code.UNKNOWN_RECORD, f"unknown item type {mask(payload.type)[:60]!r}; kept as opaque")
            found = OpaqueItem(uuid, Raw(self._line.data))
        self._emit(e.Append(item=found, at=at))  # pyright: ignore[reportArgumentType]
        history.items += 1
        if type(found) is UserMessage:
            contextual = items.is_clients(found.blocks or (), developer=payload.role == "developer")
            history.user_message(contextual=contextual, prompt=payload.role != "developer")
        else:
            history.contextual = 0

    def _inherited_item(self, record: items.ItemLine) -> None:
        if record.payload.type not in items.NEVER_SENT:
            self._append_item(record.payload, self._line.data)
            self._memory.asked_at = self._at

    def _inherited_event(self, record: items.CodexLine[items.Happened]) -> None:
        info = record.payload.info
        if info is not None and info.total_token_usage is not None:
            self._memory.totals = counts_of(info.total_token_usage)
        elif record.payload.type == "thread_rolled_back":
            self._rolled_back(record)

    def _compacted(self, record: items.CodexLine[items.CodexCompacted]) -> None:
        memory, compacted = self._memory, record.payload
        self._settle()
        uuid = f"compaction-{memory.history.items + 1}"
        kept: tuple[str, ...] = ()
        if compacted.replacement_history is None:
            kept = memory.history.keep_prompts()
        else:
            memory.history.replace()
        summary = NULL if items.is_empty(compacted.message) else compacted.message
        self._prune(uuid, kept, pre=memory.tokens, summary=summary)
        for raw in map(bytes, compacted.replacement_history or ()):
            payload = items.payload_of(raw)
            if payload.type not in items.NEVER_SENT:
                self._append_item(payload, raw)

    def _rolled_back(self, record: items.CodexLine[items.Happened]) -> None:
        self._settle()
        self._remove(self._memory.history.roll_back(count_in(record.payload.num_turns) or 0))

    def _named(self, record: items.CodexLine[items.Happened]) -> None:
        self._emit(e.SessionChanged(title=text_in(record.payload.thread_name), at=self._at))

    def _stopped(self, record: items.CodexLine[items.Happened]) -> None:
        """Note an interrupt or an error: what is not billed by then is given up."""
        memory = self._memory
        for response in memory.waiting[-1:]:
            response.over = response.given_up = True
        sign = Sign("interrupt" if record.payload.type == "turn_aborted" else "api-error")
        self._observe(sign, version=memory.version)

    def _counted(self, record: items.CodexLine[items.Happened]) -> None:
        """Take the sums that the screen shows: where they changed, the last response is billed."""
        memory, info = self._memory, record.payload.info
        if info is None or info.total_token_usage is None:
            return
        last, totals = info.last_token_usage, counts_of(info.total_token_usage)
        before, memory.totals = memory.totals, totals
        if totals == before or not any(totals) or last is None or memory.recorded is not None:
            return
        name = f"{memory.root}:{'-'.join(map(str, totals))}"
        self._bill_before(before, counts_of(last), totals, name)
        self._bill(last, name)

    def _bill_before(self, before: Counts | None, last: Counts, totals: Counts, name: str) -> None:
        """Bill a response that was given up: the sums grew by more than the last one."""
        if before is None or (
            totals[0] == before[0] + last[0] and totals[1] == before[1] + last[1] and totals[2] == before[2] + last[2]
        ):
            return
        whole, read, output = (now - had - own for had, own, now in zip(before, last, totals, strict=True))
        lost = self._memory.waiting[:-1]
        if lost and 0 <= read <= whole and output >= 0:
            self._release(lost[:-1])
            usage = billed(items.CodexUsage(whole, read, None, output), self._memory.version)
            self._end(lost[-1], usage, f"{name}:before")
            self._memory.waiting = self._memory.waiting[-1:]
            return
        detail = f"the sums grew by {whole:,} input tokens more than the last response was billed"
        self._problem(Code.UNKNOWN_ID, f"{detail}: a bill is not in the log")

    def _record_bill(self, record: items.CodexLine[items.UsageRecord]) -> None:
        memory, bill = self._memory, record.payload
        name = bill.response_id or f"line {self._line.number}"
        if bill.usage is None or name == memory.recorded:
            return
        is_copy = memory.recorded is None and not memory.waiting and bill.usage.total_tokens == memory.tokens
        memory.recorded = name
        if not is_copy:  # of what the screen was told just before, in the first version that records bills
            self._bill(bill.usage, name)

    def _bill(self, usage: items.CodexUsage, name: str) -> None:
        """Bill the response under way; one that made nothing is a request all the same."""
        memory, line = self._memory, self._line
        memory.billed, memory.tokens = True, usage.total_tokens
        if not memory.waiting:
            memory.waiting.append(CodexResponse(memory.asked_at, self._at, memory.model, line.number, line.byte))
        *earlier, response = memory.waiting
        self._release(earlier)
        memory.waiting = []
        self._end(response, billed(usage, memory.version), name)


def _happened(reader: Codex, record: items.CodexLine[items.Happened]) -> None:
    handle = _EVENTS.get(record.payload.type)
    if handle is not None:
        handle(reader, record)


_EVENTS: dict[str, Callable[[Codex, items.CodexLine[items.Happened]], None]] = {
    "token_count": Codex._counted,  # pyright: ignore[reportPrivateUsage]
    "turn_aborted": Codex._stopped,  # pyright: ignore[reportPrivateUsage]
    "error": Codex._stopped,  # pyright: ignore[reportPrivateUsage]
    "stream_error": Codex._stopped,  # pyright: ignore[reportPrivateUsage]
    "thread_name_updated": Codex._named,  # pyright: ignore[reportPrivateUsage]
    "thread_rolled_back": Codex._rolled_back,  # pyright: ignore[reportPrivateUsage]
}
_HANDLERS: dict[str, Callable[[Codex, Any], None]] = {
    "response_item": Codex._item,  # pyright: ignore[reportPrivateUsage]
    "event_msg": _happened,
    "session_meta": Codex._session,  # pyright: ignore[reportPrivateUsage]
    "turn_context": Codex._context,  # pyright: ignore[reportPrivateUsage]
    "compacted": Codex._compacted,  # pyright: ignore[reportPrivateUsage]
    "inter_agent_communication": Codex._told,  # pyright: ignore[reportPrivateUsage]
    "token_usage_record": Codex._record_bill,  # pyright: ignore[reportPrivateUsage]
}
_INHERITED: dict[str, Callable[[Codex, Any], None]] = {
    **_HANDLERS,
    "response_item": Codex._inherited_item,  # pyright: ignore[reportPrivateUsage]
    "event_msg": Codex._inherited_event,  # pyright: ignore[reportPrivateUsage]
    "token_usage_record": lambda reader, record: None,
}
