"""Read logs of Inspect evaluations: a JSON document with `samples`, or a pack of the samples of an `.eval` archive.

Each `model` event is an exchange, each sample and epoch a session. `call.request` is the provider's body (`parsed`); if
it is not recorded, the event's messages are written as OpenAI's (`structural`). Logs keep long texts and repeated
messages in one place: references to them (`attachment://…`, ranges of a pool) are replaced by their content.
Source: Inspect's log format, versions of 2024 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from lore.formats.base import Read
from lore.formats.beginning import BOM
from lore.formats.bills import decode_usage
from lore.formats.captures.layouts import INSPECT, Record, call_in
from lore.formats.captures.recorders import Documents
from lore.formats.contents import build_array, build_body, object_of, to_openai_messages
from lore.formats.documents import ElementCutter
from lore.formats.folders import PackMember, PackReader
from lore.formats.http import Judged, calls_without_content, exchanges_of
from lore.formats.lines import Line, is_crowded, placed
from lore.formats.values import count_in
from lore.model import lenient
from lore.model.canonical import text_of
from lore.model.codes import Code, Problem
from lore.model.events import Usage
from lore.model.jsonslice import array, is_deep, raw_members
from lore.model.limits import RECORD_BYTES, SAMPLE_BYTES, SAMPLE_VALUES
from lore.model.turn import Fidelity

_OPENING = re.compile(rb'\{\s*"version"\s*:\s*\d+\s*,\s*"status"\s*:\s*"\w+"\s*,\s*"eval"\s*:\s*\{')
_ATTACHED = re.compile(rb'"attachment://([0-9a-zA-Z]{8,64})"')
_MODEL = re.compile(rb'"event"\s*:\s*"model"')
_PARAMS = ("max_tokens", "temperature", "top_p", "seed", "reasoning_effort", "reasoning_tokens", "stop_seqs",
           "parallel_tool_calls", "response_schema", "verbosity")  # fmt: skip


class _Pools(Struct):  # messages that the events of a sample refer to
    messages: list[Raw] = []
    calls: list[Raw] = []  # messages of providers' requests


class _Sample(Struct):
    id: Raw = Raw(b'""')
    epoch: Raw = Raw(b"1")
    events: list[Raw] = []
    attachments: dict[str, Raw] = {}
    message_pool: list[Raw] = []
    call_pool: list[Raw] = []
    events_data: _Pools | None = None


class InspectLog(Documents):
    """Reader of Inspect logs in JSON, sample by sample; a log without samples has nothing to read."""

    name, paths, words = "inspect", (".samples",), (b'"version"', b'"eval"', b'"samples"')
    longest: ClassVar[int] = SAMPLE_BYTES
    max_values: ClassVar[int] = SAMPLE_VALUES

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return _OPENING.match(head.removeprefix(BOM).lstrip(b" \t\r\n")) is not None or super().recognises(head)

    def _report_missing_array(self, records: ElementCutter) -> Iterator[Read]:
        return super()._report_missing_array(records) if records.is_cut else iter(())

    def read_line(self, line: Line) -> Iterable[Read]:  # pyright: ignore[reportIncompatibleMethodOverride] - as it says
        """Yield the calls of a sample one by one, because each has a copy of the messages that it shares."""
        if not line.data or is_crowded(line.data, self.max_values) or is_deep(line.data):
            return super().read_line(line)
        return (placed(value, line) for value in _calls_of_sample(line.data))


class InspectArchive(PackReader):
    """Reader of the samples of an `.eval` archive."""

    name: ClassVar[str] = "inspect-archive"
    max_values: ClassVar[int] = SAMPLE_VALUES

    def _read_member(self, member: PackMember) -> Iterator[Judged]:
        return _calls_of_sample(member.data, member.header.name)


def _calls_of_sample(data: bytes, name: str = "a sample") -> Iterator[Judged]:
    misfits = set[str]()
    try:
        sample = lenient.decode(_Sample, data, misfits)
    except (ValueError, RecursionError) as error:
        yield Problem(Code.UNREADABLE_LINE, f"{name}: unreadable: {str(error).partition(' - at')[0]}")
        return
    if misfits:
        yield Problem(Code.MALFORMED_RECORD, f"{name}: {lenient.describe_misfits(misfits)}")
    pools = sample.events_data or _Pools(sample.message_pool, sample.call_pool)
    session = f"{text_of(bytes(sample.id))}:{text_of(bytes(sample.epoch))}"
    for raw in sample.events:
        event = bytes(raw)
        if _MODEL.search(event):
            yield from _read_event(event, pools, sample.attachments, session)


def _read_event(data: bytes, pools: _Pools, attachments: Mapping[str, Raw], session: str) -> list[Judged]:
    """Return the call of an event; nothing if it is not a call, or Inspect's own cache answered it."""
    event = raw_members(data) or {}
    if event.get("event") != b'"model"' or event.get("cache") == b'"read"':
        return []
    record = Record(event)
    request, refs = record.at("call.request"), record.first(("call.call_refs",))
    members = raw_members(request) or {}
    if refs:  # the provider's body, with its messages from the pool
        key, messages = record.text(("call.call_key",)) or "messages", _messages_in_ranges(refs, pools.calls)
        body = object_of({**members, key: build_array(messages)}), "parsed"
    elif not members.keys().isdisjoint(("messages", "input", "contents")):
        body = request, "parsed"
    else:
        body = _inspect_body(event, pools)
    is_hidden = body is None
    counts = record.first(("call.response.usage", "call.response.usageMetadata"))
    usage = decode_usage(counts, record.at("call.response.service_tier")) or _usage(record)
    body = body or build_body(event.get("model", b""), [])
    call = call_in(record, INSPECT, (_fill_attachments(body[0], attachments), body[1]))
    call = replace(call, session=session, usage=usage)
    if is_hidden:
        return calls_without_content(call, "a model event without the messages that were sent")
    return exchanges_of(call)


def _messages_in_ranges(refs: bytes, pool: Sequence[Raw]) -> Iterator[bytes]:
    """Yield the messages in ranges of a pool, up to the length that a line may have."""
    room = RECORD_BYTES
    for span in array(refs) if refs[:1] == b"[" else []:
        ends = array(span) if span[:1] == b"[" else []
        is_range = len(ends) == 2 and all(end.isdigit() and len(end) < 10 for end in ends)
        for raw in map(bytes, pool[int(ends[0]) : int(ends[1])] if is_range else ()):
            room -= len(raw)
            if room < 0:
                return
            yield raw


def _inspect_body(event: dict[str, bytes], pools: _Pools) -> tuple[bytes, Fidelity] | None:
    """Return a body made of the messages that Inspect passed to the provider's client."""
    raw_input = event.get("input", b"")
    listed = array(raw_input) if raw_input[:1] == b"[" else []
    listed = listed or list(_messages_in_ranges(event.get("input_refs", b""), pools.messages))
    messages = [message for raw in listed for message in to_openai_messages(raw_members(raw) or {})]
    if not messages:
        return None
    config = raw_members(event.get("config", b"null")) or {}
    params = {key: value for key, value in config.items() if key in _PARAMS and value != b"null"}
    if "tool_choice" in event:
        params["tool_choice"] = event["tool_choice"]
    return build_body(event.get("model", b"null"), messages, event.get("tools", b""), params)


def _fill_attachments(body: bytes, attachments: Mapping[str, Raw]) -> bytes:
    """Return a body with attachments in their places, as many as fit into the length of a record."""
    room = RECORD_BYTES - len(body)

    def put(match: re.Match[bytes]) -> bytes:
        nonlocal room
        attachment = attachments.get(match[1].decode())
        if attachment is None or len(text := bytes(attachment)) > room or text[:1] != b'"':
            return match[0]
        room -= len(text)
        return text

    return _ATTACHED.sub(put, body)


def _usage(record: Record) -> Usage | None:
    """Return Inspect's own counts; their total shows whether the input includes cached tokens."""
    names = ("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write", "output_tokens", "total_tokens")
    uncached, read, write, output, total = (count_in(record.at(f"output.usage.{name}")) for name in names)
    if uncached is None and read is None:
        return None
    cached = (read or 0) + (write or 0)
    if uncached is not None and cached <= uncached and total == uncached + (output or 0):
        uncached -= cached
    return Usage(uncached, read, write, output)
