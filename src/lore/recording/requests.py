"""Recorded requests as turns: each body is parsed, completed if it continues another, and added to its chain.

A request to the Responses API may continue another one and send only new items (`previous_response_id`, or deltas over
a socket). Its prompt is what the model saw: the messages of the earlier request, the model's answer, its own input, its
own tools and instructions. The history is shared, never parsed again. If the earlier request or its answer is not
recorded, the prompt is partial, and so are those that continue it. A request costs O(its own bytes); `RESPONSE_BYTES`
of the latest responses are held. Source: OpenAI's Responses reference (instructions are not carried over).
"""

from __future__ import annotations

import heapq
import os
from binascii import crc32
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain as chained
from itertools import count, islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from lore.formats.base import Read, Reader
from lore.formats.outputs import output_items
from lore.formats.registry import row_of
from lore.model.canonical import string_in
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern
from lore.model.events import Call, Usage
from lore.model.jsonslice import members_at
from lore.model.limits import HELD_BYTES, HELD_REQUESTS, RESPONSE_BYTES
from lore.model.providers import ENGINES, UNKNOWN, model_in, provider_of
from lore.model.turn import Exchange, Memo, Output, Prompt, Segment, Turn
from lore.model.vector import Vector
from lore.prefix.chains import Chains
from lore.prefix.likeness import drop_unrendered
from lore.prompt.base import Dialect
from lore.prompt.dialects import DIALECTS, dialect_of
from lore.prompt.dialects.messages import Body
from lore.recording.base import HINT_FORMATS, HINT_MEASURED, Problems, Recording, UnrecognisedError

if TYPE_CHECKING:
    from lore.recording.opening import Options

_AUTOMATIC = frozenset(("deepseek", "moonshot", "zai"))  # providers whose caches take no breakpoints
_CHECKED = 8  # messages at each end that the name of a request's copies depends on

# A file with one of these and no request is a damaged recording; with none of them it was no recording at all.
UNREADABLE = (
    Code.UNREADABLE_LINE, Code.TORN_LAST_LINE, Code.LINE_TOO_LONG, Code.CAPTURE_TOO_LARGE, Code.CASSETTE_REFUSED,
    Code.UNDECODABLE_REQUEST, Code.REQUEST_NOT_KEPT, Code.ARCHIVE_REFUSED, Code.BODY_CUT, Code.CONTENT_NOT_RECORDED,
    Code.CALL_FAILED,
)  # fmt: skip


class PromptRecording(Recording):
    """A recording whose values are turns already, with their prompts: the output of `lore assemble --all`."""

    def turns(self) -> Iterator[Turn]:
        return (read.value for read in self.reads() if isinstance(read.value, Turn))


class RequestRecording(Recording):
    """A recording of requests, which become turns; one that is still written (`growing`) is not sorted by time."""

    def __init__(
        self, path: str, reader: Reader, data: Iterable[bytes], problems: Problems, options: Options, *,
        memos: dict[str, Memo], growing: bool,
    ) -> None:  # fmt: skip
        super().__init__(path, reader, data, problems, options)
        self.dialect = options.requested_dialect  # of all bodies; None: each body shows its own
        self._memos = memos  # values parsed before, by dialect; shared by recordings that are compared
        self._sorts = not growing and row_of(reader.name).by_time
        self._chains = Chains(join=output_items)
        self._continuations = Continuations()

    def forgotten(self) -> list[str]:
        """Return the names of chains that no later turn continues, except those that an earlier call returned."""
        return self._chains.take_forgotten()

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all chains; raises UnrecognisedError at the end if a readable file holds no request."""
        return (turn for _, turn in self.exchanges() if turn is not None)

    def exchanges(self) -> Iterator[tuple[Exchange, Turn | None]]:
        """Yield recorded requests, each with its turn, or None if its dialect is unknown; raises as `turns` does."""
        requests, failed, failure, names = 0, 0, "", set[object]()
        for read in sort_by_time(self.reads()) if self._sorts else self.reads():
            if isinstance(read.value, Exchange):
                requests += 1
                failed, failure = failed + bool(read.value.call.failure), read.value.call.failure or failure
                # a provider never gives an id twice; mocks do, but not at one time
                if (name := _record_name(read.value)) is not None and name in names:
                    copied = Problem(Code.DUPLICATE_UUID, "a request that is recorded twice; passed over")
                    self.problems.add(copied, self.shown, read.line, read.byte)
                    continue
                names.add(name)
                yield read.value, self.turn(read, read.value)
        if requests == failed > 0 and not self.problems.counts[Code.CALL_FAILED, self.shown]:
            text = f"no request was answered ({requests:,} recorded): {failure}"
            self.problems.add(Problem(Code.CALL_FAILED, text), self.shown)
        if not requests and row_of(self.reader.name).measures:
            if not self.measures:
                raise UnrecognisedError(self.measures_nothing, hint=HINT_MEASURED)
            from shlex import quote  # noqa: PLC0415 - only for an error

            path = quote(self.shown)
            hint = f"lore simulate {path} shows that; lore simulate RECORDING --measured {path} compares it"
            message = "measures the reads of a cache, and holds no prompts to judge"
            raise UnrecognisedError(f"{self.shown} ({self.reader.name}) {message}", hint=hint)
        unreadable = any(self.problems.counts[code, self.shown] for code in UNREADABLE)
        if not requests and not unreadable and self.options.format is None:  # the user did not name the format
            raise UnrecognisedError(f"{self.shown} holds no request body that lore knows", hint=HINT_FORMATS, own=True)

    def turn(self, read: Read, exchange: Exchange) -> Turn | None:
        """Add the next request to its chain and return its turn; None, with a problem, if its dialect is unknown."""
        dialect = self.dialect or dialect_of(exchange.body)
        if dialect is None:
            problem = Problem(Code.REQUEST_NOT_JUDGED, "a body of no known dialect")
            self.problems.add(problem, self.shown, read.line, read.byte)
            return None
        parsed = dialect.parse(exchange.body, exchange.fidelity, self._memos.setdefault(dialect.name, Memo()))
        model = (model_in(exchange.call.endpoint) or exchange.call.model) if parsed.model is None else None
        if model:
            parsed = msgspec.structs.replace(parsed, model=model)
        whole, missing = self._continuations.complete(parsed, exchange, dialect)
        if missing:
            text = f"a request continues {missing}, which is not recorded whole: its prompt is partial"
            self.problems.add(Problem(Code.CONTINUATION, text), self.shown, read.line, read.byte)
        prompt = drop_unrendered(whole, exchange.call.endpoint)
        chain, number = self._chains.add(prompt, exchange)
        return Turn(
            chain, number, prompt, sent=exchange.at, answered=exchange.answered,
            usage=_without_uncounted_writes(exchange, prompt), verdict=exchange.verdict,
            call=_with_platform(exchange.call, prompt),
            line=read.line, byte=read.byte,
            file=os.path.join(self.shown, read.file) if read.file else "",
            given_up=self._chains.given_up, response_id=_copy_name(prompt, exchange), ended=exchange.ended,
            generated=partial(_read_answer, prompt, exchange.output) if exchange.output else None,
        )  # fmt: skip


def _with_platform(call: Call, prompt: Prompt) -> Call:
    """Return the call; if it has no endpoint, with the platform that `anthropic_version` names: Bedrock or Vertex."""
    version = prompt.params.get("anthropic_version", b"")
    platform = next((name for name in ("bedrock", "vertex") if version.startswith(b'"' + name.encode() + b"-")), "")
    if not platform or call.endpoint or call.answered_by:
        return call
    return msgspec.structs.replace(call, answered_by=platform)


def _without_uncounted_writes(exchange: Exchange, prompt: Prompt) -> Usage | None:
    """Return an exchange's usage; writes of 0 become None (unknown) if the cache is automatic and counts no writes.

    DeepSeek, Moonshot, Z.ai and engines also serve Anthropic's API, and then always report 0 writes. A host that is not
    listed and serves another maker's model is taken for such a server.
    """
    usage, call, model = exchange.usage, exchange.call, (prompt.model or "").rpartition("/")[2].lower()
    if usage is None or usage.write_tokens != 0:
        return usage
    host, maker = provider_of(call.endpoint, model, prompt.dialect), provider_of("", model, "")
    is_other = bool(call.endpoint) and host == UNKNOWN and maker not in (UNKNOWN, "anthropic")
    is_automatic = not _AUTOMATIC.isdisjoint((host, maker))
    is_automatic |= is_other or call.answered_by in ENGINES
    return msgspec.structs.replace(usage, write_tokens=None) if is_automatic else usage


def _read_answer(prompt: Prompt, output: Output) -> Sequence[Segment]:
    """Return an answer as segments, as the next request would repeat it; empty if it is unknown."""
    dialect, items = DIALECTS.get(prompt.dialect), output_items(output)
    if not isinstance(dialect, Body) or not items:
        return ()
    return [*dialect.parse(b'{"%b":%b}' % (dialect.root.encode(), items), prompt.fidelity, Memo()).messages]


def _record_name(exchange: Exchange) -> object:
    """Return a key by which copies of a record in one file are found; None if there is too little to tell."""
    if not exchange.response_id or exchange.at is None:
        return None
    output = exchange.output if isinstance(exchange.output, bytes) else exchange.output.raw
    return exchange.response_id, exchange.at, exchange.usage, len(exchange.body), len(output)


def _copy_name(prompt: Prompt, exchange: Exchange) -> str | None:
    """Return `Turn.response_id`: a key that two requests share only if they are copies; None if it is unknown.

    A request without an id is a copy if time, prompt, answer and usage are equal.
    """
    # not the id alone: mocked servers give all responses one, and recorders replace ids by placeholders
    usage, name = exchange.usage, exchange.response_id
    if not name and exchange.at is not None:
        output = exchange.output
        name = f"{exchange.at} {crc32(output if isinstance(output, bytes) else output.raw):08x}"
    if not name:
        return None
    usage = usage or Usage()  # of a request that failed
    counts = usage.uncached_tokens, usage.read_tokens, usage.write_tokens, usage.output_tokens
    sum_of_bytes = crc32((prompt.model or "").encode())  # without the middle messages: their length is in the name
    for segment in chained(
        prompt.head, islice(prompt.messages, _CHECKED), prompt.messages.since(max(0, len(prompt.messages) - _CHECKED))
    ):
        sum_of_bytes = crc32(segment.data, sum_of_bytes)
    return f"{name} {len(prompt)} {sum_of_bytes:08x} {' '.join(map(str, counts))}"


def sort_by_time(reads: Iterable[Read]) -> Iterator[Read]:
    """Yield exchanges in the order of their request times, and other values at once.

    Spans are written when they end, and exports list the latest first. An exchange without a time follows the one
    before it; equal times keep their order. At most `HELD_REQUESTS` and `HELD_BYTES` are held: if they are exceeded,
    the earliest one is yielded, and one that is read later with an earlier time comes after it.
    """
    waiting: list[tuple[float, int, int, Read]] = []
    numbers, total_size, latest = count(), 0, 0.0
    for read in reads:
        exchange = read.value
        if not isinstance(exchange, Exchange):
            yield read
            continue
        latest = latest if exchange.at is None else exchange.at
        output = exchange.output
        size = len(exchange.body) + len(output if isinstance(output, bytes) else output.raw)
        heapq.heappush(waiting, (latest, next(numbers), size, read))
        total_size += size
        while total_size > HELD_BYTES or len(waiting) > HELD_REQUESTS:
            *_, size, first = heapq.heappop(waiting)
            total_size -= size
            yield first
    while waiting:
        yield heapq.heappop(waiting)[-1]


OVERHEAD = 512  # bytes that a held response, and each of its new segments, costs on top of its data
_ITEM = pattern(r"input\[(\d+)\]")


class _Response(Struct, frozen=True):
    """A request's prompt and answer, for requests that continue it."""

    messages: Vector[Segment]
    items: int  # number of items in the whole input, without the answer's
    system: tuple[Segment, ...]  # leading items of the input that are instructions
    breakpoints: tuple[tuple[int, bytes], ...]  # index of the message, value
    output: bytes  # the answer's items, a JSON array; empty: unknown
    partial: bool  # the prompt is not recorded whole
    size: int  # bytes that count against the limit, without messages shared with an earlier response


class Continuations:
    """Complete requests that continue an earlier response (`previous_response_id`)."""

    def __init__(self, remembered: int = RESPONSE_BYTES) -> None:
        self._responses: dict[str, _Response] = {}  # by id of the response, and of the conversation; the latest last
        self._room = remembered  # bytes that more responses may have

    def complete(self, prompt: Prompt, exchange: Exchange, dialect: Dialect) -> tuple[Prompt, str]:
        """Return the whole prompt of the next request, and remember it for requests that continue it.

        The second value is the id of the response that it continues, if that is not recorded whole; else empty.
        """
        if prompt.dialect != "openai-responses":
            return prompt, ""
        previous = exchange.call.previous or string_in(prompt.params, "previous_response_id")
        conversation = _conversation(prompt)
        before = self._responses.get(previous or conversation)
        whole, missing = prompt, ""
        if before is not None:
            whole, items = _join_prompts(before, prompt, dialect)
            missing = previous or conversation if whole.partial and not before.partial else ""
        else:
            items = _count_items(prompt)
            if previous:
                whole, missing = msgspec.structs.replace(prompt, partial=True), previous
        for name in (exchange.response_id, conversation):
            if name:
                self._remember(name, whole, items, exchange, len(whole.messages) - len(prompt.messages))
        return whole, missing

    def _remember(self, name: str, prompt: Prompt, items: int, exchange: Exchange, shared: int) -> None:
        """Hold a prompt with its answer, drop the oldest over the limit; `shared` first messages are not counted."""
        heads, marked = len(prompt.head), zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
        new = sum(len(segment.data) + OVERHEAD for segment in prompt.messages.since(max(0, shared)))
        output = output_items(exchange.output)
        size = new + len(output) + OVERHEAD
        previous = self._responses.pop(name, None)
        self._room += (previous.size if previous else 0) - size
        self._responses[name] = _Response(
            prompt.messages, items, tuple(segment for segment in prompt.head if _ITEM.match(segment.path)),
            tuple((place - heads, mark) for place, mark in marked if place >= heads),
            output, prompt.partial, size,
        )  # fmt: skip
        while self._room < 0 and len(self._responses) > 1:
            self._room += self._responses.pop(next(iter(self._responses))).size


def _join_prompts(before: _Response, prompt: Prompt, dialect: Dialect) -> tuple[Prompt, int]:
    """Return a prompt preceded by the one that it continues and its answer, and the number of items in its input."""
    answer = dialect.parse(b'{"input":' + (before.output or b"[]") + b"}", prompt.fidelity, Memo())
    answered = _renumber(answer.messages, before.items)
    items = before.items + _count_items(answer)
    own_head = [segment for segment in prompt.head if not _ITEM.match(segment.path)]
    lead = list(_renumber((segment for segment in prompt.head if _ITEM.match(segment.path)), items))
    system = before.system
    if not before.messages and not len(answer.messages):
        system, lead = (*system, *lead), []
    for segment in lead:  # instructions in the middle of a conversation are not part of its head
        segment.section = "messages"
    new = [*answered, *lead, *_renumber(prompt.messages, items)]
    head = (*own_head, *system)
    breakpoints = [
        *_breakpoints_of(head, 0),
        *((len(head) + place, mark) for place, mark in before.breakpoints),
        *_breakpoints_of(new, len(head) + len(before.messages)),
    ]
    whole = msgspec.structs.replace(
        prompt, head=head, messages=before.messages.extend(new), partial=before.partial or not before.output,
        breakpoints=tuple(place for place, _ in breakpoints),
        breakpoint_values=tuple(mark for _, mark in breakpoints),
    )  # fmt: skip
    return whole, items + _count_items(prompt)


def _breakpoints_of(segments: Iterable[Segment], start: int) -> Iterator[tuple[int, bytes]]:
    """Yield the index, counted from `start`, and the value of each breakpoint."""
    return (
        (place, segment.breakpoint) for place, segment in enumerate(segments, start) if segment.breakpoint is not None
    )


def _renumber(segments: Iterable[Segment], by: int) -> Iterator[Segment]:
    """Yield copies of segments with `by` added to the item numbers in their paths; a text input becomes one item."""
    for segment in segments:
        match = _ITEM.match(segment.path)
        suffix = segment.path[match.end() :] if match else ".content" if segment.path == "input" else None
        number = int(match[1]) if match else 0
        path = segment.path if suffix is None else f"input[{number + by}]{suffix}"
        yield Segment(segment.section, path, segment.data, segment.kind, segment.breakpoint, segment.origin)


def _count_items(prompt: Prompt) -> int:
    """Return the number of items of a parsed prompt, from its last path."""
    ends = (prompt.messages.last(), *reversed(prompt.head))
    last = next((segment for segment in ends if segment is not None and "input" in segment.path), None)
    match = None if last is None else _ITEM.match(last.path)
    return int(match[1]) + 1 if match else int(last is not None)


def _conversation(prompt: Prompt) -> str:
    """Return the key of a request's stored conversation, which equals no response id; empty if it has none."""
    name = string_in(prompt.params, "conversation") or string_in(members_at(prompt.params, "conversation"), "id")
    return f"conversation {name}" if name else ""
