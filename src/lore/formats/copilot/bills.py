"""What requests of Copilot CLI were billed: by the client's database, by checkpoints, by the sums at the end.

In: the records of a log that say so, the line before it (`usage.py`). Out: ends of turns, again where a later
line says more of one; problems where two of them contradict each other. Rules: a checkpoint's bill of a request holds
before the database's; a count that cannot be is unknown; sums are of the requests since the client began to count,
which it does anew when it starts and when it compacts a session, and may count requests that the log does not hold.

A checkpoint is written when a session goes idle, and from version 1.0.83 on says what it knows of prompts by hash
(`promptCacheBreakState`): conversations, each with the last request to each of its models. `points` hash all messages
up to a place, segments and tools each by itself; an entry of another shape is left out and counted.

Sources: as of `reader.py`; public readers of `promptCacheBreakState` (September and October 2026): hashes are 12 hex
digits of SHA-256, `prompt_tokens` include what was read and written, `model_call_id` is the `apiCallId` of the
response, `request_id` and `github_request_id` are its `requestId` and `serviceRequestId`; that a compaction begins the
sums anew: a public reader (October 2026).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.bills import split
from lore.formats.copilot import records
from lore.formats.copilot.usage import COMPACTION, MAIN, StoredUsage
from lore.formats.lines import Line
from lore.formats.transcripts import TranscriptLines, TranscriptTurns
from lore.model import events as e
from lore.model.codes import Code
from lore.model.items import is_absent
from lore.model.jsonslice import array
from lore.model.mask import mask

_NANO_AIU_A_DOLLAR = 10**11  # an AI unit, of GitHub's AI credits, costs a cent
_MOST = 10**15  # of a total; a larger one is not believed


class _Tool(Struct, frozen=True, gc=False):
    name: str = ""
    schema_hash: str = ""


class _Segment(Struct, frozen=True, gc=False):
    segment: str = ""
    hash: str = ""


class _Point(Struct, frozen=True, gc=False):
    index: int = 0
    hash: str = ""


class _Conversation(Struct, frozen=True, gc=False):
    points: tuple[_Point, ...] | None = None


class _CopilotBillsState(Struct, frozen=True, gc=False):
    model_call_id: str | None = None
    request_id: str | None = None
    github_request_id: str | None = None
    prompt_tokens: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    ttl_seconds: int | float | None = None
    tools: tuple[_Tool, ...] | None = None
    system_segments: tuple[_Segment, ...] | None = None
    conversation: _Conversation | None = None


class _Entry(Struct, frozen=True, gc=False):
    models: dict[str, _CopilotBillsState] = {}


class CopilotNoted(Struct, frozen=True):
    """What is noted of a request: its ids and its response's, its bill, how long what it wrote lives, its hashes."""

    model: str
    names: tuple[str, ...]
    usage: records.CopilotUsage
    lifetime: float | None
    hashes: e.PromptHashes | None


_ENTRY = msgspec.json.Decoder(_Entry)


def noted_in(raw: Raw) -> tuple[list[CopilotNoted], int]:
    """Return what a checkpoint notes of requests, and how many of its entries say nothing that can be read."""
    found: list[CopilotNoted] = []
    listed = bytes(memoryview(raw)[:1]) == b"["
    odd = int(not listed and not is_absent(raw))
    for piece in array(bytes(raw)) if listed else ():
        try:
            entry = _ENTRY.decode(piece)
        except ValueError:
            odd += 1
            continue
        found += _requests(entry)
    return found, odd


def _requests(entry: _Entry) -> Iterator[CopilotNoted]:
    for model, state in entry.models.items():
        names = tuple(filter(None, (state.model_call_id, state.request_id, state.github_request_id)))
        if names:
            usage = records.CopilotUsage(state.prompt_tokens, None, state.cache_read, state.cache_write)
            yield CopilotNoted(model, names, usage, state.ttl_seconds, _hashes(state))


def _hashes(state: _CopilotBillsState) -> e.PromptHashes | None:
    """Return the hashes of a request; None where there are none, or more than any request has."""
    tools = [(tool.name, tool.schema_hash) for tool in state.tools or () if tool.schema_hash]
    system = [(segment.segment, segment.hash) for segment in state.system_segments or () if segment.hash]
    talk = state.conversation or _Conversation()
    points = [(point.index, point.hash) for point in talk.points or () if point.hash and point.index >= 0]
    if not (tools or system or points):
        return None
    return e.PromptHashes(tuple(tools), tuple(system), tuple(points))


class CopilotAnswered(Struct):
    """The last response of a chain, so that a later line can say more of it; `requests` are the ids of its request."""

    turn: int
    at: str | None
    name: str | None
    model: str | None
    usage: e.Usage
    hashes: e.PromptHashes | None = None
    requests: tuple[str, ...] = ()


class CopilotChainMemory(Struct):
    """What is remembered of a chain.

    `live` are its items' ids in order, `since` how many of them a compaction that is under way sums up; `system` is the
    digest of its system prompt, `model` what a subagent was begun with, `dialect` that of its last model.
    """

    turns: TranscriptTurns = field(default_factory=TranscriptTurns)
    last: CopilotAnswered | None = None
    live: list[str] = []
    since: int | None = None
    compacting_at: str | None = None
    system: str = ""
    model: str | None = None
    dialect: str | None = None


class CopilotSpent(Struct):
    """What requests to a model were since the client began to count, and the chain of the last one.

    Tokens are unknown as soon as those of one request are; input includes what was read and written.
    """

    requests: int = 0
    input_tokens: int | None = 0
    cache_read_tokens: int | None = 0
    output_tokens: int | None = 0
    chain: str = e.MAIN

    def add(self, bill: e.Usage, sign: int = 1) -> None:
        """Count a bill, or take one out again."""
        self.requests += sign
        parts = bill.uncached_tokens, bill.read_tokens, bill.write_tokens
        whole = None if None in parts[:2] else sum(part or 0 for part in parts)
        self.input_tokens = _sum(self.input_tokens, whole, sign)
        self.cache_read_tokens = _sum(self.cache_read_tokens, bill.read_tokens, sign)
        self.output_tokens = _sum(self.output_tokens, bill.output_tokens, sign)

    def contradicts(self, requests: int, usage: records.CopilotUsage) -> bool:
        """Tell whether these cannot be the same requests: a client may count some that its log does not hold."""
        if requests != self.requests:
            return requests < self.requests
        pairs = zip(_tokens(self), _tokens(usage), strict=True)
        return any(own != others for own, others in pairs if own is not None and others is not None)


class CopilotMemory(Struct):
    """All that the reader remembers; `header` waits for the session's first message, by when its model is known.

    `lifetimes` are the seconds that what a model writes lives, as the client reckons; `stated` is the cost that the
    client stated last, by field of `RecordedCost`.
    """

    header: records.Start | None = None
    begun: bool = False
    version: str = ""
    model: str | None = None
    effort: str | None = None
    chains: dict[str, CopilotChainMemory] = {}
    compactions: int = 0
    spent: dict[str, CopilotSpent] = {}
    stored: StoredUsage = field(default_factory=StoredUsage)
    stated: dict[str, float] = {}
    lifetimes: dict[str, float] = {}


class CopilotBills(TranscriptLines[CopilotMemory]):
    """The part of the reader that bills requests."""

    memory = CopilotMemory

    def _known(self, name: str = "") -> CopilotChainMemory:
        """Return what is known of a chain, that of the line if none is named."""
        chains, name = self._memory.chains, name or self._chain
        return chains.get(name) or chains.setdefault(name, CopilotChainMemory())

    def _id(self, record: records.CopilotLine[object]) -> str:
        return record.id or f"line-{self._line.number}"

    def _store(self, line: bytes) -> list[Read]:
        """Take what a database bills."""
        self._line = Line(1, 0, b"")
        try:
            self._memory.stored, fault = StoredUsage.read(line)
        except ValueError:
            fault = "what its database bills cannot be read"
        if fault:
            self._problem(Code.UNREADABLE_FILE, fault)
        return self._taken()

    def _bill(self, name: str, record: records.CopilotLine[records.CopilotAnswer]) -> e.Usage:
        """Return what the database bills of a request; without one, what the log says."""
        answer = record.data
        agents = (MAIN,) if name == e.MAIN else tuple(filter(None, (record.agent_id, answer.parent_tool_call_id)))
        row = self._memory.stored.take(agents, answer.model, answer.output_tokens)
        if row is None:
            return self._billed(records.CopilotUsage(output_tokens=answer.output_tokens))
        output = answer.output_tokens if row.output_tokens is None else row.output_tokens
        counts = row.input_tokens, output, row.cache_read_tokens, row.cache_write_tokens
        return self._billed(records.CopilotUsage(*counts), answer.model)

    def _complete(self, name: str, last: CopilotAnswered) -> None:
        usage = None if last.usage == e.Usage(client=last.usage.client) else last.usage
        self._emit(
            e.TurnCompleted(
                turn=last.turn, at=last.at, chain=name, usage=usage, response_id=last.name, hashes=last.hashes
            )
        )

    def _bill_compaction(
        self, record: records.CopilotLine[records.CopilotCompaction], used: records.CopilotUsage, asked_at: str | None
    ) -> None:
        """Bill the request that summed up, on a chain of its own."""
        memory = self._memory
        memory.compactions += 1
        name, model = f"utility-{memory.compactions}", used.model or memory.model
        if model is not None:
            self._emit(e.SessionChanged(model=model, chain=name))
        self._emit(e.TurnStarted(turn=1, at=asked_at or record.timestamp, chain=name))
        if COMPACTION in memory.stored.rows:
            memory.stored.take((COMPACTION,), used.model, used.output_tokens)
        usage, response = self._billed(used, model), record.data.request_id or self._id(record)
        self._emit(e.TurnCompleted(turn=1, at=record.timestamp, chain=name, usage=usage, response_id=response))
        self._spend(name, model, usage)

    def _billed(self, usage: records.CopilotUsage, model: str | None = None) -> e.Usage:
        """Split counts whose input includes what was read and written; what was written lives as long as is known."""
        read, write, client = usage.cache_read_tokens, usage.cache_write_tokens, f"copilot {self._memory.version}"
        bill = split(usage.input_tokens, read, write, usage.output_tokens, client=client.rstrip())
        life = self._memory.lifetimes.get(model or "") if write and not bill.contradiction else None
        short, long = write if life == 300 else None, write if life == 3_600 else None
        return bill if short is None and long is None else replace(bill, write_5m_tokens=short, write_1h_tokens=long)

    def _spend(self, name: str, model: str | None, bill: e.Usage) -> None:
        spent = self._memory.spent.setdefault(model or "", CopilotSpent())
        spent.chain = name
        spent.add(bill)

    def _checkpoint(self, record: records.CopilotLine[records.CopilotCheckpoint]) -> None:
        """Take what is noted as a session goes idle: of the last requests what they were billed, and hashes."""
        memory = self._memory
        for state in record.data.model_cache_state or ():
            if state.cache_ttl_seconds is not None:
                memory.lifetimes[state.model_id] = state.cache_ttl_seconds
        found, odd = noted_in(record.data.prompt_cache_break_state)
        if odd:
            self._problem(Code.MALFORMED_RECORD, f"{odd} conversations of promptCacheBreakState cannot be read")
        for noted in found:
            if noted.lifetime is not None:
                memory.lifetimes[noted.model] = noted.lifetime
            for name, chain in memory.chains.items():
                if chain.last is not None and not {chain.last.name, *chain.last.requests}.isdisjoint(noted.names):
                    self._note(name, chain.last, noted)
        self._state_cost(record.data)

    def _note(self, name: str, last: CopilotAnswered, noted: CopilotNoted) -> None:
        """Complete a request again, with what a checkpoint notes of it."""
        bill, known = self._billed(noted.usage, noted.model), last.usage
        if known.read_tokens is not None and bill.read_tokens not in (None, known.read_tokens):
            detail = f"{bill.read_tokens} tokens read by the checkpoint, {known.read_tokens} by session-store.db"
            self._problem(Code.UNKNOWN_ID, f"the bill of {mask(noted.names[0])[:80]!r} is not clear: {detail}")
        if bill.read_tokens is not None:
            last.usage = replace(bill, output_tokens=known.output_tokens, recorded=known.recorded)
        last.hashes = noted.hashes
        self._complete(name, last)

    def _shut_down(self, record: records.CopilotLine[records.Shutdown]) -> None:
        """Compare what a client sums up with the requests of the log; where a sum is of one request, it is its bill."""
        memory = self._memory
        metrics_of = record.data.model_metrics or {}
        for model, metrics in metrics_of.items():
            spent, count = memory.spent.get(model), metrics.requests.count if metrics.requests else None
            usage = metrics.usage
            if spent is None or count is None or usage is None:
                continue
            chain = memory.chains.get(spent.chain)
            last = None if chain is None or chain.last is None or chain.last.model != model else chain.last
            if count == spent.requests == 1 and last is not None and last.usage.read_tokens is None:
                last.usage = replace(self._billed(usage, model), recorded=last.usage.recorded)
                self._complete(spent.chain, last)
            elif spent.contradicts(count, usage):
                detail = f"{_sums(count, usage)} by the sums at the end, {_sums(spent.requests, spent)} in the log"
                self._problem(Code.UNKNOWN_ID, f"{model}: {detail}: one is incomplete")
        memory.spent = {}
        requests = [metrics.requests.count for metrics in metrics_of.values() if metrics.requests is not None]
        self._state_cost(record.data, sum(count or 0 for count in requests) or None)

    def _state_cost(self, totals: records.CopilotCheckpoint | records.Shutdown, requests: int | None = None) -> None:
        """Record what the client says that requests cost since it last said so, with the last request of the log.

        Its totals are of the whole session; one that fell began again at 0.
        """
        stated = self._memory.stated
        dollars = None if totals.total_nano_aiu is None else totals.total_nano_aiu / _NANO_AIU_A_DOLLAR
        new: dict[str, float] = {}
        named = {"dollars": dollars, "requests": requests, "premium_requests": totals.total_premium_requests}
        for name, total in named.items():
            if total is not None and 0 <= total < _MOST:
                before = stated.get(name, 0)
                new[name] = total - before if total >= before else total
                stated[name] = total
        chains = [(name, chain.last) for name, chain in self._memory.chains.items() if chain.last is not None]
        name, last = next((found for found in chains if found[0] == e.MAIN), chains[-1] if chains else ("", None))
        if last is None or not (new.get("dollars") or new.get("premium_requests")):
            return
        known = last.usage.recorded or e.RecordedCost(requests=0)
        last.usage = replace(last.usage, recorded=_added(known, new))
        self._complete(name, last)


def _added(known: e.RecordedCost, new: dict[str, float]) -> e.RecordedCost:
    parts = {name: (getattr(known, name) or 0) + value for name, value in new.items() if value}
    return replace(known, **parts)


def chain_of(agent: str | None) -> str:
    """Name the chain of an agent, which may be called as the main chain is."""
    return e.MAIN if not agent else f"agent-{agent}" if agent == e.MAIN else agent


def _tokens(found: CopilotSpent | records.CopilotUsage) -> tuple[int | None, ...]:
    return found.input_tokens, found.cache_read_tokens, found.output_tokens


def _sum(before: int | None, more: int | None, sign: int) -> int | None:
    return None if before is None or more is None else before + sign * more


def _sums(requests: int, found: CopilotSpent | records.CopilotUsage) -> str:
    words = zip(_tokens(found), ("input", "read", "output"), strict=True)
    known = [f"{count:,} {word}" for count, word in words if count is not None]
    return f"{requests} requests ({', '.join(known)} tokens)" if known else f"{requests} requests"
