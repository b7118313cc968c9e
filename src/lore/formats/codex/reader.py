"""Codex CLI's rollouts (`~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, `archived_sessions/`), since 2025.

A response is a run of items that the model made. Its usage is a change of `total_token_usage`, or since autumn 2026 a
`token_usage_record`, which an event for the screen repeats. Usage is written after its response, often after the first
tool results, so the events of a response are held until then. An interrupted or failed response is a turn only if the
running totals show that it was billed. Logs of 2025 write usage before the items of its response (12 of 12 logs of 0.39
to 0.65, none of 60 since 0.98); the first usage of a log shows which. If a log has no usage at all, every response is a
turn. Other events for the screen are not part of a prompt.

A compaction states the new history; its summary is often encrypted. A rollback removes the last prompts of the user,
with what the client wrote before each. A fork begins with a copy of the other log, or (newer) names the log that holds
the earlier history; a subagent's log says where its own history starts. Inherited requests were billed elsewhere.

The system prompt and the history are in the file, and so are tools that the client was given. The schemas of built-in
tools are not.

Sources: counts over 89 public rollouts, versions 0.118 to 0.144 (6,707 requests, whose `input_tokens` all include
`cached_input_tokens`); `codex-rs` of October 2026 (`drop_last_n_user_turns` in `core/src/context_manager/history.rs`)
for newer records.
"""

from __future__ import annotations

import re
from typing import ClassVar, TypeAlias

from msgspec import Raw, Struct

from lore.formats.base import Clock, Read
from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import LogReader, SessionBuilder
from lore.formats.codex import items
from lore.formats.codex.items import ContextField, signals_of_context
from lore.formats.lines import Line, nonblank_lines
from lore.formats.values import count_in, opens, text_at, text_in
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import NULL, Item, OpaqueItem, UserMessage, is_absent, is_blank
from lore.model.jsonslice import members_at
from lore.model.mask import mask
from lore.model.providers import named_provider
from lore.model.state import Sign


class _CodexLine(Struct, frozen=True, gc=False):
    type: str
    payload: Raw = NULL
    timestamp: str | None = None
    ordinal: int | None = None  # the number of the line, in newer logs
    metadata: Raw = NULL  # of an item: the client's notes


class _CodexUsage(Struct, frozen=True, gc=False):  # input includes cached tokens, output includes reasoning
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class _CodexCounts(Struct, frozen=True, gc=False):  # of a `token_count` event
    total_token_usage: _CodexUsage | None = None  # sums of the whole thread
    last_token_usage: _CodexUsage | None = None  # of the latest response


class _CodexEvent(Struct, frozen=True, gc=False):  # an event that the screen shows
    type: str = ""
    info: _CodexCounts | None = None
    message: Raw = NULL  # of an error
    num_turns: Raw = NULL  # prompts that a rollback removes
    thread_name: Raw = NULL


class _CodexMeta(Struct, frozen=True, gc=False):  # the header of a thread
    id: str = ""
    timestamp: str | None = None
    cli_version: str = ""
    model_provider: str | None = None
    source: Raw = NULL  # an object if an agent spawned the thread
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    base_instructions: dict[str, Raw] | None = None  # the system prompt as `text`
    dynamic_tools: tuple[Raw, ...] | None = None
    history_base: Raw = NULL  # the log that holds the earlier history, if this one does not repeat it
    subagent_history_start_ordinal: int | None = None  # the first record that is not a copy of the parent's


class _CodexCompacted(Struct, frozen=True, gc=False):  # a compaction: the new history, or (older) a summary alone
    message: Raw = NULL
    replacement_history: tuple[Raw, ...] | None = None


class _CodexUsageRecord(Struct, frozen=True, gc=False):  # the usage of one response
    response_id: str | None = None
    usage: _CodexUsage | None = None


class _CodexResponse(Struct):  # a run of items that the model made, without usage so far
    line: Line  # its first record
    at: str | None  # when that was written
    asked_at: str | None
    model: str | None
    reads: list[Read] = []  # reads of its items and of its tools' results
    has_results: bool = False  # results of tools follow it
    is_over: bool = False  # something else follows it, or it was given up
    is_given_up: bool = False  # interrupted or failed
    usage: e.Usage | None = None  # if it came before its items
    name: str | None = None


class CodexSession(SessionBuilder):
    """Emits the events of a Codex session."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[_CodexResponse] = []  # responses since the latest usage, the last one under way
        self.has_usage = False  # a response had
        self.has_items = False  # the model made some
        self.is_usage_first = False  # usage comes before the items of its response
        self.model: str | None = None  # of the next request
        self.asked_at: str | None = None  # when it is asked for
        self.call: e.Call | None = None  # facts about it

    def emit(self, event: e.Event) -> None:
        reads = self.waiting[-1].reads if self.waiting else self._reads
        reads.append(Read(event, self.line.number, self.line.byte, self.file))

    def append(self, item: Item) -> None:
        self.emit(e.Append(item=item, chain=self.chain, at=self.at, agent_id=self.agent))  # may be kept back

    def begin_response(self) -> _CodexResponse:
        """Return a new response, whose first item comes."""
        if not self.has_usage:
            self.end_responses()
        self.has_items = True
        response = _CodexResponse(self.line, self.at, self.asked_at, self.model)
        self.waiting.append(response)
        return response

    def attach_usage(self, usage: e.Usage, name: str, *, to_interrupted: bool = False) -> None:
        """Complete the current response, which may have no items, as a turn with this usage.

        In logs that write usage first, begin a response with it instead. `to_interrupted`: complete the response
        before the current one, which was interrupted or failed, but billed.
        """
        if not (self.has_usage or self.has_items):  # a fork may copy usage without its items
            self.is_usage_first = _SINCE_ITEMS_FIRST.match(self.version) is None
        self.has_usage = True
        new = _CodexResponse(self.line, self.at, self.asked_at, self.model, usage=usage, name=name)
        if self.is_usage_first:
            self.waiting.append(new)
            return
        waiting, self.waiting = self.waiting, []
        current = [waiting.pop()] if to_interrupted else []
        response = waiting.pop() if waiting else new
        for given_up in waiting:
            self._reads += given_up.reads
        response.usage, response.name = usage, name
        self._complete(response)
        self.waiting = current

    def end_responses(self) -> None:
        """End the responses; those without usage are requests if the log has none at all."""
        waiting, self.waiting = self.waiting, []
        for response in waiting:
            if response.usage is None and (self.has_usage or response.is_given_up):
                self._reads += response.reads
            else:
                self._complete(response)

    def _complete(self, response: _CodexResponse) -> None:
        """Emit the turn of a response: its start at its first record, its waiting events, its end."""
        line, self.line = self.line, response.line
        self.counter.asked_at = response.asked_at or response.at
        turn = self.start_turn(response.model, self.call)
        self.line = line
        self._reads += response.reads
        self.emit(e.TurnCompleted(turn=turn, at=response.at, usage=response.usage, response_id=response.name))


_SINCE_ITEMS_FIRST = re.compile(r"0\.(?:9[89]|\d{3,})\.|[1-9]")  # versions
_LOCAL = frozenset(("oss", "ollama", "lmstudio"))  # engines on the user's own machine
_CLIENT_TEXT = "client"  # the name of messages that the client wrote
_TIMED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")  # a UUID of version 7 begins with its time

CodexSums: TypeAlias = tuple[int, int, int]  # input, cached input, output


class Codex(LogReader):
    """Reader of Codex CLI's rollouts."""

    name: ClassVar[str] = "codex"
    clock: ClassVar[Clock] = "first_line"
    records_builtin_tools: ClassVar[bool] = False  # of the client: their schemas are not in the file
    unseen: ClassVar[str] = "the schemas of built-in tools"
    sealed: ClassVar[str] = "summaries of compactions are encrypted there, or left out"

    def __init__(self) -> None:
        super().__init__()
        self._session = self.session = CodexSession()
        self._thread: str | None = None  # the id of the session
        self._root = ""  # the thread in which its sums of usage began
        self._start = 0  # the number of the first record that is not another thread's
        self._provider = ""
        self._context: dict[str, ContextField] = {}
        self._items = 0  # made so far
        self._sums: CodexSums | None = None  # of usage
        self._tokens: int | None = None  # of the latest request and response
        self._recorded: str | None = None  # the response of the latest usage record

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        members = members_at(next(nonblank_lines(head), b""))
        if not members.keys() >= {"type", "payload"} or members["payload"][:1] != b"{":
            return False
        return members["type"].strip(b'"').decode("utf-8", "replace") in items.TYPES

    def handle(self, data: bytes) -> None:
        record, session = self._session.decode(_CodexLine, data), self._session
        session.at, payload = record.timestamp, record.payload
        is_inherited = record.ordinal is not None and record.ordinal < self._start
        match record.type:
            case "response_item":
                self._read_item(session.decode(items.CodexPayload, payload), record.metadata, is_inherited=is_inherited)
            case "event_msg":
                self._read_event(session.decode(_CodexEvent, payload), is_inherited=is_inherited)
            case "session_meta":
                self._read_meta(session.decode(_CodexMeta, payload))
            case "turn_context":
                self._read_context(session.decode(dict[str, Raw], payload))
            case "compacted":
                self._compact(session.decode(_CodexCompacted, payload))
            case "token_usage_record":
                self._read_usage(session.decode(_CodexUsageRecord, payload), is_inherited=is_inherited)
            case "inter_agent_communication":
                self._add_input(items.agent_message_of(session.decode(items.CodexCommunication, payload)))
            case kind if kind not in items.SILENT:
                session.keep_unknown("unknown record type", kind)
            case _:
                pass

    def finish(self) -> None:
        self._session.end_responses()

    # the thread

    def _read_meta(self, meta: _CodexMeta) -> None:
        """Start the session; a later header is a resume, or the other log's that a fork copied."""
        session = self._session
        if self._thread is not None:
            if meta.id == self._thread:
                session.signal(Sign("resume"))
                session.version = meta.cli_version
                session.setting("client-version", session.version)
            elif not session.has_usage:
                self._root = meta.forked_from_id or meta.id
            return
        session.version = meta.cli_version
        session.setting("client-version", session.version)
        self._thread, self._root = meta.id, meta.forked_from_id or meta.id
        self._start = meta.subagent_history_start_ordinal or 0
        base = text_at(members_at(meta.history_base), "thread_id") or None
        spawner = text_at(members_at(meta.source, "subagent", "thread_spawn"), "parent_thread_id") or None
        served = meta.model_provider or ""
        if named_provider(served) or served in _LOCAL:  # people give their own names to proxies
            self._provider = served
        session.start_session(
            meta.id, at=meta.timestamp or session.at, dialect="openai-responses",
            system=(meta.base_instructions or {}).get("text", NULL),
            tools=tuple([tool for tool in meta.dynamic_tools or () if not items.is_deferred(tool)]) or None,
            parent_session_id=meta.forked_from_id or meta.parent_thread_id or spawner or base,
            provider=self._provider or None,
        )  # fmt: skip
        if base is not None:
            text = f"the history before is in the log {mask(base)[:60]!r}, and not repeated here"
            session.problem(Code.DANGLING_PARENT, text)
            self._items += 1
            session.add_message(OpaqueItem(f"item-{self._items}", Raw(session.line.data)))

    def _read_context(self, context: dict[str, Raw]) -> None:
        session, thread = self._session, self._thread or ""
        if bytes(context.get("model", NULL))[:1] == b'"':
            session.model = text_in(context["model"])  # without lone surrogates, which cannot be written again
        # a fork's copy keeps the ids of its turns, which are older than that of the thread
        turn = text_at(context, "turn_id")
        is_timed = _TIMED_ID.match(turn) and _TIMED_ID.match(thread)
        is_inherited = self._root != self._thread and is_timed and turn < thread
        session.call = e.Call(answered_by=self._provider, inherited_from=self._root) if is_inherited else None
        session.signal(*signals_of_context(self._context, context))

    # the history

    def _read_item(self, item: items.CodexPayload, metadata: Raw, *, is_inherited: bool) -> None:
        session, kind = self._session, item.type
        if kind in items.NEVER_SENT:
            return
        notes = items.CodexNotes() if is_absent(metadata) else session.decode(items.CodexNotes, metadata)
        is_unsent = kind == items.CONFIGURATION and not notes.harness_authored_configuration
        if not is_inherited and (is_unsent or notes.delivered_assistant_message is not None):
            return
        if is_inherited:
            self._add_item(item, session.line.data)
            session.asked_at = session.at
        elif kind in items.MADE_BY_MODEL or (kind == "message" and item.role == "assistant"):
            response = session.waiting[-1] if session.waiting else None
            if response is None or response.is_over or (response.has_results and not session.has_usage):
                response = session.begin_response()
            self._add_item(item, session.line.data, f"line-{response.line.number}")
        else:
            self._add_input(item)

    def _add_input(self, item: items.CodexPayload) -> None:
        """Add an item that the model did not make: the next response is asked for with it."""
        session = self._session
        for response in session.waiting[-1:]:
            response.has_results = True
            response.is_over = response.is_over or item.type not in items.RESULTS
        self._add_item(item, session.line.data)
        session.asked_at = session.at

    def _add_item(self, payload: items.CodexPayload, raw: bytes, response: str | None = None) -> None:
        session = self._session
        if payload.type in items.RESULTS:
            session.add_result(payload.call_id or "", items.output_of(payload), failed=False)
            if payload.type == "tool_search_output":
                session.signal(items.signal_of_search(payload))
            return
        item = items.item_of(payload, raw, f"item-{self._items + 1}", response)
        if item is None:
            return
        if isinstance(item, OpaqueItem):
            session.problem(Code.UNKNOWN_RECORD, f"unknown item type {mask(payload.type)[:60]!r}; kept as opaque")
        is_client = is_prompt = False
        if isinstance(item, UserMessage):
            is_developer = payload.role == "developer"
            beginning = items.DEVELOPER_TEXT if is_developer else items.CLIENT_TEXT
            is_client = items.has_text_like(item.blocks or (), beginning)
            is_prompt = not is_client and not is_developer
        self._items += 1
        session.add_message(item, is_prompt=is_prompt, name=_CLIENT_TEXT if is_client else "")

    def _compact(self, compacted: _CodexCompacted) -> None:
        session = self._session
        session.end_responses()
        is_older = compacted.replacement_history is None  # the prompts stay, and a summary
        prompts = [message for message in session.history if message.is_prompt] if is_older else []
        message = compacted.message  # newer compactions leave it empty
        summary = message if opens(message) == '"' and not is_blank(message) else NULL
        session.compact(f"compaction-{self._items + 1}", prompts, pre_tokens=self._tokens, summary=summary)
        for raw in map(bytes, compacted.replacement_history or ()):
            payload = session.decode(items.CodexPayload, raw)
            if payload.type not in items.NEVER_SENT:
                self._add_item(payload, raw)

    def _roll_back(self, count: int) -> None:
        """Remove the last prompts, each with the client's messages directly before it, except before the first one."""
        history = self._session.history
        prompts = [at for at, message in enumerate(history) if message.is_prompt]
        if count and prompts:
            at = prompts[-min(count, len(prompts))]
            while at > prompts[0] and history[at - 1].name == _CLIENT_TEXT:
                at -= 1
            self._session.rewind_to(at)

    # events and usage

    def _read_event(self, event: _CodexEvent, *, is_inherited: bool) -> None:
        session = self._session
        match event.type:
            case "token_count" if event.info is not None:
                if not is_inherited:
                    self._read_counts(event.info)
                elif event.info.total_token_usage is not None:
                    self._sums = _sums_of(event.info.total_token_usage)
            case "thread_rolled_back":
                session.end_responses()
                self._roll_back(count_in(event.num_turns) or 0)
            case "thread_name_updated" if not is_inherited:
                session.emit(e.SessionChanged(title=text_in(event.thread_name), at=session.at))
            case "turn_aborted" | "error" | "stream_error" if not is_inherited:
                for response in session.waiting[-1:]:
                    response.is_over = response.is_given_up = True
                if event.type == "turn_aborted":
                    session.signal(Sign("interrupt"))
                else:  # after a stream's error the client sends the request again
                    session.fail(text_in(event.message) if event.type == "error" else "")
            case _:
                session.misfits.clear()  # nothing else is in it

    def _read_counts(self, counts: _CodexCounts) -> None:
        """Read the sums that the screen shows: if they changed, the latest response has usage."""
        total, latest, before = counts.total_token_usage, counts.last_token_usage, self._sums
        if total is None:
            return
        sums = self._sums = _sums_of(total)
        if sums == before or not any(sums) or latest is None or self._recorded is not None:
            return
        if self._session.is_usage_first:
            self._session.end_responses()
        name = f"{self._root}:{'-'.join(map(str, sums))}"  # the same in every copy of the log
        if before is not None:
            self._add_missing_usage(before, _sums_of(latest), sums, name)
        self._tokens = latest.total_tokens
        self._session.attach_usage(self._billed(latest), name)

    def _add_missing_usage(self, before: CodexSums, latest: CodexSums, sums: CodexSums, name: str) -> None:
        """Bill a response that was given up, if the sums grew by more than the latest usage."""
        whole, read, output = (now - had - last for had, last, now in zip(before, latest, sums, strict=True))
        if not (whole or read or output):
            return
        if len(self._session.waiting) > 1 and 0 <= read <= whole and output >= 0:
            usage = self._billed(_CodexUsage(whole, read, None, output))
            self._session.attach_usage(usage, f"{name}:before", to_interrupted=True)
            return
        growth = ((whole, "input"), (read, "cached"), (output, "output"))
        more = next(f"{count:,} {what} tokens" for count, what in growth if count)
        detail = f"the sums grew by {more} more than the last response was billed: a bill is not in the log"
        self._session.problem(Code.UNKNOWN_ID, detail)

    def _read_usage(self, record: _CodexUsageRecord, *, is_inherited: bool) -> None:
        usage, name = record.usage, record.response_id or f"line-{self._session.line.number}"
        if is_inherited or usage is None or usage.input_tokens is None or name == self._recorded:
            return
        # The first version that wrote these records wrote the screen's counts of the same response before them.
        is_copy = self._recorded is None and not self._session.waiting and usage.total_tokens == self._tokens
        self._recorded = name
        if not is_copy:
            self._tokens = usage.total_tokens
            self._session.attach_usage(self._billed(usage), name)

    def _billed(self, usage: _CodexUsage) -> e.Usage:
        return usage_with_cached_input(
            usage.input_tokens, usage.cached_input_tokens, usage.cache_write_input_tokens, usage.output_tokens,
            client=f"codex {self._session.version}".rstrip(),
        )  # fmt: skip


def _sums_of(usage: _CodexUsage) -> CodexSums:
    return usage.input_tokens or 0, usage.cached_input_tokens or 0, usage.output_tokens or 0
