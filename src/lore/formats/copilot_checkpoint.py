"""What Copilot CLI notes of prompts by hash when a session goes idle (`promptCacheBreakState`), from version 1.0.83 on.

In: the JSON of it, a list of conversations, each with what is known of the last request to each of its models. Out: one
`Noted` a request: whose response it was, its bill, what its prompt was by hash. Rules: an entry of another shape is
left out and counted; `points` hash all messages up to a place, segments and tools each by itself.

Source: public readers of it (September and October 2026): hashes are 12 hex digits of SHA-256, `prompt_tokens` include
what was read and written, `model_call_id` is the `apiCallId` of the response, `request_id` and `github_request_id` are
its `requestId` and `serviceRequestId`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from lore.formats.copilot_records import Usage
from lore.model import events as e
from lore.model.items import is_absent
from lore.model.jsonslice import array

MOST = 4_096  # tools, segments or points of one request


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
    message_count: int | None = None
    points: tuple[_Point, ...] | None = None


class _State(Struct, frozen=True, gc=False):
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
    conversation: str = "main"
    models: dict[str, _State] = {}


class Noted(Struct, frozen=True):
    """What is noted of a request: its ids and its response's, its bill, how long what it wrote lives, its hashes."""

    model: str
    names: tuple[str, ...]
    usage: Usage
    lifetime: float | None
    hashes: e.PromptHashes | None


_ENTRY = msgspec.json.Decoder(_Entry)


def noted_in(raw: Raw) -> tuple[list[Noted], int]:
    """Return what a checkpoint notes of requests, and how many of its entries say nothing that can be read."""
    found: list[Noted] = []
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


def _requests(entry: _Entry) -> Iterator[Noted]:
    for model, state in entry.models.items():
        names = tuple(filter(None, (state.model_call_id, state.request_id, state.github_request_id)))
        if names:
            usage = Usage(state.prompt_tokens, None, state.cache_read, state.cache_write)
            yield Noted(model, names, usage, state.ttl_seconds, _hashes(state))


def _hashes(state: _State) -> e.PromptHashes | None:
    """Return the hashes of a request; None where there are none, or more than any request has."""
    tools = [(tool.name, tool.schema_hash) for tool in state.tools or () if tool.schema_hash]
    system = [(segment.segment, segment.hash) for segment in state.system_segments or () if segment.hash]
    talk = state.conversation or _Conversation()
    points = [(point.index, point.hash) for point in talk.points or () if point.hash and point.index >= 0]
    if not (tools or system or points) or max(len(tools), len(system), len(points)) > MOST:
        return None
    return e.PromptHashes(tuple(tools), tuple(system), tuple(points))
