"""The usage of requests of Copilot CLI, from answers, the client's database, checkpoints and the sums at the end.

An answer states its output tokens only. The database (`session-store.db`) has the rest: `copilot_usage.py` in
`recording/agents` reads it and writes one line before the log, `{"lore_usage": {"rows": […], "problem": "…"}}`; a row
is an array of the fields of `UsageRow`.
The rows of one agent are in the order of its requests, and a row belongs to a request if model and output tokens are
the same, as far as both are known. Rows in between belong to requests that the log does not hold (given up, or for a
title); rows of compactions name what started them.

A checkpoint is written when a session goes idle; it states the session's cost so far, and from version 1.0.83 on the
latest request of each conversation and model, with hashes of its prompt (`promptCacheBreakState`); its counts hold over
the database's. The sums at the end are of the requests since the client began to count, which it does again when it
starts and when it compacts a session; they may include requests that the log does not hold. If requests have no counts
of their own, the rest of the sums is a further pass (`RUN`) of the last one. A later source ends a turn again, with
more of its usage; sources that contradict each other are a problem.

Sources: as in `reader.py`; public readers of `promptCacheBreakState` (September and October 2026): hashes are 12 hex
digits of SHA-256, `prompt_tokens` include cached tokens, `model_call_id` is the `apiCallId` of the response,
`request_id` and `github_request_id` are its `requestId` and `serviceRequestId`; a compaction restarts the sums: a
public reader (October 2026); an AI credit costs a cent: GitHub's page on usage-based billing (June 2026).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.bills import usage_with_cached_input
from lore.formats.builder import SessionBuilder
from lore.formats.values import count_in
from lore.model import events as e
from lore.model import lenient
from lore.model.codes import Code
from lore.model.items import NULL
from lore.model.mask import mask

OPENING = b'{"lore_usage":'
COMPACTION = "compaction"
_ROWS_TRIED = 16  # rows of an agent that are compared with one request


class _BilledCount(Struct, frozen=True, gc=False, rename="camel"):
    token_type: str = ""  # `input` (without cached tokens), `cache_read`, `cache_write` or `output`
    token_count: int = 0


class _BilledCounts(Struct, frozen=True, gc=False, rename="camel"):  # the tokens that a request is charged for
    token_details: tuple[_BilledCount, ...] = ()


class CopilotCounts(Struct, frozen=True, gc=False, rename="camel"):
    """Token counts of one request, or of all requests to a model."""

    input_tokens: int | None = None  # cached tokens included
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    duration: int | float | None = None  # in ms
    model: str | None = None
    copilot_usage: _BilledCounts | None = None  # of a compaction: holds over the other counts, which may lack writes


class _CacheState(Struct, frozen=True, gc=False, rename="camel"):
    model_id: str = ""
    cache_ttl_seconds: int | float | None = None  # how long its cache entries live, as the client knows it


class _CopilotMetrics(Struct, frozen=True, gc=False):  # sums of the requests to a model since the client began to count
    requests: dict[str, Raw] = {}  # their `count`
    usage: CopilotCounts | None = None


class CopilotTotals(Struct, frozen=True, gc=False, rename="camel"):
    """A checkpoint, written when the session goes idle, or the end of the client."""

    total_nano_aiu: int | float | None = None  # cost of the whole session
    total_premium_requests: int | float | None = None  # of the whole session
    model_cache_state: tuple[_CacheState, ...] | None = None
    prompt_cache_break_state: tuple[_ConversationState, ...] | None = None
    model_metrics: dict[str, _CopilotMetrics] | None = None  # by model


class UsageRow(Struct, frozen=True, gc=False, array_like=True):
    """The usage of one request in the client's database."""

    agent: str = ""  # the subagent that sent it; empty: the session itself
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    initiator: str = ""  # what started the request, such as `compaction`


class _StoredUsage(Struct, frozen=True):
    rows: tuple[UsageRow, ...] = ()
    problem: str = ""  # why the database could not be read


_NANO_AIU_PER_DOLLAR = 10**11  # an AI unit is an AI credit: a cent
_MOST = 10**15  # of a stated total; a larger one is not believed

# promptCacheBreakState


# A part of a prompt with its hash: a tool, a segment of the system prompt, or a place in the conversation.
class _HashedPart(Struct, frozen=True, gc=False):
    name: str = ""
    schema_hash: str = ""
    segment: str = ""
    index: int = 0
    hash: str = ""


class _Conversation(Struct, frozen=True, gc=False):
    points: tuple[_HashedPart, ...] | None = None


class _StatedRequest(Struct, frozen=True, gc=False):  # the latest one of a conversation to a model
    model_call_id: str | None = None
    request_id: str | None = None
    github_request_id: str | None = None
    prompt_tokens: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    ttl_seconds: int | float | None = None
    tools: tuple[_HashedPart, ...] | None = None
    system_segments: tuple[_HashedPart, ...] | None = None
    conversation: _Conversation | None = None

    @property
    def ids(self) -> list[str]:
        """The ids that its response may have in the log."""
        return list(filter(None, (self.model_call_id, self.request_id, self.github_request_id)))

    @property
    def hashes(self) -> e.PromptHashes | None:
        """The hashes of its prompt's parts, without empty ones; None without any."""
        tools = [(tool.name, tool.schema_hash) for tool in self.tools or () if tool.schema_hash]
        system = [(segment.segment, segment.hash) for segment in self.system_segments or () if segment.hash]
        points = (self.conversation or _Conversation()).points or ()
        places = [(point.index, point.hash) for point in points if point.hash and point.index >= 0]
        return e.PromptHashes(tuple(tools), tuple(system), tuple(places)) if tools or system or places else None


class _ConversationState(Struct, frozen=True, gc=False):
    models: dict[str, _StatedRequest] = {}  # by model


# state


@dataclass(slots=True)
class Answer:
    """The latest response of a chain: later sources complete its usage."""

    turn: int
    at: str | None
    id: str | None
    model: str | None
    usage: e.Usage
    request_ids: tuple[str, ...] = ()  # other ids of it, by which a checkpoint may name it
    hashes: e.PromptHashes | None = None  # of its prompt, once a checkpoint stated them


@dataclass(slots=True)
class CopilotChain:
    """A conversation: the session's own, or a subagent's."""

    last: Answer | None = None
    compacting: int | None = None  # how many messages the running compaction summarises
    compacting_at: str | None = None
    system: str = ""  # digest of the system prompt
    model: str | None = None  # that a subagent was started with
    dialect: str | None = None  # of the latest response


class UsageReporter:
    """Ends the turns of a session with the usage that the four sources state, and reports where these disagree."""

    def __init__(self, session: SessionBuilder) -> None:
        self.session = session
        self.chains: dict[str, CopilotChain] = {}  # by name; the reader adds them
        self._rows: dict[str, list[UsageRow]] = {}  # that belong to no request yet, by agent, the next one last
        self._skipped = 0  # rows that belong to no request of the log
        self._missing = 0  # requests of the log without a row; 0 if there is no database
        # Requests since the client began to count, when the reader empties it: by model, then by chain and turn.
        self.summed: dict[str, dict[tuple[str, int], e.Usage]] = {}
        self.compactions = 0  # so far: they name the chains
        self._stated: dict[str, float] = {}  # the client's latest totals, by field of `RecordedCost`
        self._lifetimes: dict[str, float] = {}  # by model: seconds that its cache entries live

    def read_database(self, line: bytes) -> None:
        """Keep the rows in the line before the log; report why the database could not be read."""
        try:
            usage = lenient.decode(dict[str, _StoredUsage], line)["lore_usage"]
        except ValueError:
            usage = _StoredUsage(problem="the usage in its database cannot be read")
        if usage.problem:
            self.session.problem(Code.UNREADABLE_FILE, usage.problem)
        for row in reversed(usage.rows):
            self._rows.setdefault(COMPACTION if row.initiator == COMPACTION else row.agent, []).append(row)

    def _take_row(self, agents: tuple[str, ...], model: str | None, output: int | None) -> UsageRow | None:
        """Remove and return the row of an agent's next request, with the rows before it; None if no row fits.

        `agents` are names of the agent: the first one with rows is used. Counts dropped rows and requests without one.
        """
        if not self._rows:
            return None
        rows = next((self._rows[agent] for agent in agents if self._rows.get(agent)), list[UsageRow]())
        for back, row in enumerate(islice(reversed(rows), _ROWS_TRIED), 1):
            is_same_model = None in (row.model, model) or row.model == model
            if is_same_model and (None in (row.output_tokens, output) or row.output_tokens == output):
                self._skipped += back - 1
                del rows[-back:]
                return row
        self._missing += 1
        return None

    def usage_of_answer(self, model: str | None, output: int | None, agents: Iterable[str | None]) -> e.Usage:
        """Return the usage of the next request of an agent: its database row, which is used up, or `output` alone.

        `agents` are names of the subagent that sent it; the session's own requests have none.
        """
        names = ("",) if self.session.chain == e.MAIN else tuple(filter(None, agents))
        row = self._take_row(names, model, output)
        if row is None:
            return self._usage(CopilotCounts(output_tokens=output))
        output = output if row.output_tokens is None else row.output_tokens
        counts = CopilotCounts(row.input_tokens, output, row.cache_read_tokens, row.cache_write_tokens)
        return self._usage(counts, model)

    def _usage(self, counts: CopilotCounts, model: str | None = None) -> e.Usage:
        """Return counts as `Usage`; written tokens have the lifetime that a checkpoint stated for the model, if any."""
        read, write = counts.cache_read_tokens, counts.cache_write_tokens
        client = f"copilot {self.session.version}".rstrip()
        usage = usage_with_cached_input(counts.input_tokens, read, write, counts.output_tokens, client=client)
        lifetime = self._lifetimes.get(model or "") if write and not usage.contradiction else None
        short, long = write if lifetime == 300 else None, write if lifetime == 3_600 else None
        return usage if short is long else replace(usage, write_5m_tokens=short, write_1h_tokens=long)

    def add_to_sums(self, chain: str, turn: int, model: str | None, usage: e.Usage) -> None:
        """Keep or replace the usage of a turn, to be compared with the client's sums at the end."""
        self.summed.setdefault(model or "", {})[chain, turn] = usage

    def end_turn(self, chain: str, last: Answer) -> None:
        """End the turn of a response. A later call for the same turn replaces its usage."""
        usage = None if last.usage == e.Usage(client=last.usage.client) else last.usage
        details = {"at": last.at, "chain": chain, "agent_id": None, "hashes": last.hashes}
        self.session.end_turn(usage, last.id, number=last.turn, **details)

    def add_compaction(self, used: CopilotCounts, asked_at: str | None, *, model: str | None, response: str) -> None:
        """Emit the turn of the request for a summary, on a chain of its own, and add it to the sums."""
        self.compactions += 1
        chain, at = f"utility-{self.compactions}", self.session.at
        if model is not None:
            self.session.emit(e.SessionChanged(model=model, chain=chain))
        self.session.emit(e.TurnStarted(turn=1, at=asked_at or at, chain=chain))
        if COMPACTION in self._rows:
            self._take_row((COMPACTION,), used.model, used.output_tokens)
        usage = self._usage(used, model)
        charged = used.copilot_usage.token_details if used.copilot_usage is not None else ()
        if charged:
            counts = {detail.token_type: detail.token_count for detail in charged}
            read, write = counts.get("cache_read"), counts.get("cache_write")
            prompt = counts.get("input", 0) + (read or 0) + (write or 0)
            billed = self._usage(CopilotCounts(prompt, counts.get("output"), read, write), model)
            if billed.write_tokens != usage.write_tokens:
                stated = f"written tokens: {usage.write_tokens or 0:,} in compactionTokensUsed"
                message = f"{stated}, {billed.write_tokens or 0:,} in its copilotUsage, which count"
                self.session.problem(Code.FIELDS_FILLED_IN, message)
            usage = billed
        self.end_turn(chain, Answer(1, at, response, model, usage))
        self.add_to_sums(chain, 1, model, usage)

    # checkpoints

    def read_checkpoint(self, checkpoint: CopilotTotals) -> None:
        """End the latest turns again with what a checkpoint states; keep the lifetimes of cache entries."""
        for state in checkpoint.model_cache_state or ():
            if state.cache_ttl_seconds is not None:
                self._lifetimes[state.model_id] = state.cache_ttl_seconds
        conversations = checkpoint.prompt_cache_break_state or ()
        for model, request in (pair for conversation in conversations for pair in conversation.models.items()):
            if request.ids and request.ttl_seconds is not None:
                self._lifetimes[model] = request.ttl_seconds
            for name, chain in self.chains.items():
                if chain.last is not None and not {chain.last.id, *chain.last.request_ids}.isdisjoint(request.ids):
                    self._complete_answer(name, chain.last, model, request)
        self._record_cost(checkpoint.total_nano_aiu, checkpoint.total_premium_requests)

    def _complete_answer(self, chain: str, last: Answer, model: str, request: _StatedRequest) -> None:
        """End the turn of `last` with the counts and hashes of a checkpoint; report if its read tokens differed."""
        counts = CopilotCounts(request.prompt_tokens, None, request.cache_read, request.cache_write)
        noted, usage = self._usage(counts, model), last.usage
        if usage.read_tokens is not None and noted.read_tokens not in (None, usage.read_tokens):
            detail = f"{noted.read_tokens} tokens read by the checkpoint, {usage.read_tokens} by session-store.db"
            message = f"two sources disagree about {mask(request.ids[0])[:80]!r}: {detail}"
            self.session.problem(Code.UNKNOWN_ID, message)
        if noted.read_tokens is not None:
            stated = {"iterations": usage.iterations, "recorded": usage.recorded}
            last.usage = replace(noted, output_tokens=usage.output_tokens, **stated)
        last.hashes = request.hashes
        self.end_turn(chain, last)

    def _record_cost(self, nano_aiu: float | None, premium: float | None, requests: int | None = None) -> None:
        """Add the cost since the previous totals (one that fell was reset to 0) to the main chain's latest response."""
        dollars = None if nano_aiu is None else nano_aiu / _NANO_AIU_PER_DOLLAR
        new: dict[str, float] = {}
        for name, total in (("dollars", dollars), ("requests", requests), ("premium_requests", premium)):
            if total is not None and 0 <= total < _MOST:
                before = self._stated.get(name, 0)
                new[name] = total - before if total >= before else total
                self._stated[name] = total
        answered = {name: chain.last for name, chain in self.chains.items() if chain.last is not None}
        if answered and (new.get("dollars") or new.get("premium_requests")):
            name = e.MAIN if e.MAIN in answered else next(reversed(answered))
            last = answered[name]
            previous = last.usage.recorded or e.RecordedCost(requests=0)
            sums = {name: (getattr(previous, name) or 0) + value for name, value in new.items() if value}
            last.usage = replace(last.usage, recorded=replace(previous, **sums))
            self.end_turn(name, last)

    # sums at the end

    def read_shutdown(self, shutdown: CopilotTotals) -> None:
        """Compare the client's sums with `summed`, which is emptied.

        A sum of one request completes its turn; what else is known only as a sum is a further pass of the last turn.
        """
        metrics = shutdown.model_metrics or {}
        for model, sums in metrics.items():
            usages, usage, requests = self.summed.get(model), sums.usage, count_in(sums.requests.get("count", NULL))
            if usages is None or requests is None or usage is None:
                continue
            name = next(reversed(usages))[0]
            last = self.chains[name].last if name in self.chains else None
            logged = _sums_of(usages.values())
            stated = usage.input_tokens, usage.cache_read_tokens, usage.output_tokens
            differ = any(None not in pair and pair[0] != pair[1] for pair in zip(logged, stated, strict=True))
            is_only = requests == len(usages) == 1 and last is not None and last.model == model
            if is_only and last is not None and last.usage.read_tokens is None:
                last.usage = replace(self._usage(usage, model), recorded=last.usage.recorded)
                self.end_turn(name, last)
            elif requests < len(usages) or (requests == len(usages) and differ):
                client_sums, log_sums = _describe_sums(requests, stated), _describe_sums(len(usages), logged)
                message = f"{model}: {client_sums} by the client's sums at the end, {log_sums} by its log, which counts"
                self.session.problem(Code.UNKNOWN_ID, message)
            elif last is not None and (run := self._sum_of_unknown(usage, usages.values())) is not None:
                run = replace(run, kind=e.RUN, model=None if last.model == model else model)
                last.usage = replace(last.usage, iterations=(*last.usage.iterations, run))
                self.end_turn(name, last)
        self.summed = {}
        requests = sum(count_in(sums.requests.get("count", NULL)) or 0 for sums in metrics.values())
        self._record_cost(shutdown.total_nano_aiu, shutdown.total_premium_requests, requests or None)

    def _sum_of_unknown(self, stated: CopilotCounts, usages: Collection[e.Usage]) -> e.Usage | None:
        """Return the stated sum of a model's requests without the counts that are known; None if all are."""
        prompts = [usage for usage in usages if usage.read_tokens is not None]
        if len(prompts) == len(usages) or stated.input_tokens is None or stated.cache_read_tokens is None:
            return None
        read, write = (sum(getattr(usage, name) or 0 for usage in prompts) for name in ("read_tokens", "write_tokens"))
        whole = read + write + sum(usage.uncached_tokens or 0 for usage in prompts)
        output = (stated.output_tokens or 0) - sum(usage.output_tokens or 0 for usage in usages)
        counts = (
            stated.input_tokens - whole,
            output,
            stated.cache_read_tokens - read,
            (stated.cache_write_tokens or 0) - write,
        )
        return self._usage(CopilotCounts(*counts)) if min(counts) >= 0 else None

    def report_missing(self) -> None:
        """Report the requests of the log for which the database has no row."""
        if self._missing:
            unused_rows = sum(map(len, self._rows.values())) + self._skipped
            requests = f"{self._missing} requests of the log have no usage in session-store.db"
            self.session.problem(Code.UNKNOWN_ID, f"{requests}; {unused_rows} of its rows belong to no request")


def _sums_of(usages: Iterable[e.Usage]) -> list[int | None]:
    """Return three sums: whole prompts, their read tokens, output; None for a sum with an unknown count."""
    counts = [
        (usage.uncached_tokens, usage.read_tokens, usage.output_tokens, usage.write_tokens or 0) for usage in usages
    ]
    columns: Iterable[tuple[int | None, ...]] = zip(*counts, strict=True)
    new, read, output, written = (None if None in column else sum(filter(None, column)) for column in columns)
    return [None if new is None or read is None else new + read + (written or 0), read, output]


def _describe_sums(requests: int, sums: Iterable[int | None]) -> str:
    pairs = zip(sums, ("input", "read", "output"), strict=True)
    counts = [f"{count:,} {word}" for count, word in pairs if count is not None]
    noun = "request" if requests == 1 else "requests"
    return f"{requests} {noun} ({', '.join(counts)} tokens)" if counts else f"{requests} {noun}"
