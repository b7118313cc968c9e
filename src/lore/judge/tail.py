"""A replaced tail: what ended a request, is not in the next one, and gave way to what the conversation went on with.

In: two prompts that lore did not assemble. Out: where the left's tail begins, or None. Rules: the tail is the last
message or its last blocks (also behind a tool's result); something of the same side of the conversation stands
before it and stays; in its place the right has the model's next message; nothing of the tail stands in the right behind
what both share, but at the right's own end. A result or an answer of the model is no tail. It holds for every dialect
and role.
Cost: O(the tail and what is new) where nothing before the tail changed, else O(messages).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from lore.model.canonical import text_of
from lore.model.evidence import TailReplaced
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.prefix.blocks import block_of
from lore.prefix.likeness import is_models
from lore.prefix.topics import topic
from lore.prefix.volatile_now import surely_varies

LONGEST = 16_384  # segments of a last message that are looked at
_ROLES = frozenset(("user", "system", "developer", "tool", "function"))  # another one is a text of the recording
_LARGE = 262_144  # bytes of a block that is not looked into for what varies


class Tail(NamedTuple):
    """Where the tail begins among the left's messages, its segments, its role, whether it ends the right again."""

    begin: int
    segments: tuple[Segment, ...]
    role: str
    repeated: bool


def replaced_tail(left: Prompt, right: Prompt) -> Tail | None:
    """Return the tail of the left that the right does not hold any more."""
    if left.dialect != right.dialect or left.tail or not left.messages or not right.messages:
        return None
    start = last_message(left)
    segments = list(left.messages.since(start))
    envelope = segments[0]
    if len(segments) > LONGEST or envelope.kind != "envelope" or is_models(envelope):
        return None
    begin = _begin(left, right, start, segments)
    if begin is None:
        return None
    tail = tuple(left.messages.since(begin))
    around = envelope.data if begin == start else b""  # behind a result in its own message, text is no result
    if any(block_of(segment, around).kind not in ("text", "image", "envelope", "other") for segment in tail):
        return None
    if begin == start and (b"_output" in envelope.data or b"tool_call_id" in envelope.data):  # a result is a message
        return None
    blocks = {segment.data for segment in tail if segment.kind != "envelope"}
    ends, same = last_message(right), left.messages.common(right.messages)
    new = islice(right.messages.since(same), max(0, ends - same))
    if not blocks or any(segment.data in blocks for segment in new):
        return None
    repeated = any(segment.data in blocks for segment in right.messages.since(ends))
    role = (table(b"{" + envelope.data + b"}") or {}).get("role", b"")
    return Tail(begin, tail, text_of(role) if role[:1] == b'"' else "", repeated)


def _begin(left: Prompt, right: Prompt, start: int, segments: Sequence[Segment]) -> int | None:
    """Return where the tail begins: behind the last segment of the left behind which the right's model speaks."""
    common = left.messages.common(right.messages)
    if common >= start:  # nothing before it changed
        return common if _gives_way(left, right, common, common, start) else None
    places = {segment.data: at for at, segment in enumerate(right.messages) if segment.kind != "envelope"}
    for begin in range(start, start + len(segments)):
        at = places.get(left.messages[begin - 1].data)
        if at is not None and _gives_way(left, right, begin, at + 1, start):
            return begin
    return None


def _gives_way(left: Prompt, right: Prompt, begin: int, place: int, start: int) -> bool:
    """Tell whether the model speaks in the right (at `place`) where the left's tail stood (at `begin`)."""
    if not 0 < begin < len(left.messages) or begin == start + 1 or place >= len(right.messages):
        return False
    follows = right.messages[place]
    if follows.kind != "envelope" or not is_models(follows):
        return False
    if begin > start:  # behind a block of the user's own message
        return True
    before = begin - 1
    while before > 0 and left.messages[before].kind != "envelope":
        before -= 1
    return not is_models(left.messages[before])


def last_message(prompt: Prompt) -> int:
    """Return where the last message begins, among the messages."""
    place = len(prompt.messages) - 1
    while place > 0 and prompt.messages[place].kind not in ("envelope", "opaque"):
        place -= 1
    return max(0, place)


def without_tail(left: Prompt, tail: Tail) -> Prompt:
    """Return the left with its tail apart, as lore's own prompts hold it."""
    stable = len(left.head) + tail.begin
    kept = sum(place < stable for place in left.breakpoints)
    return msgspec.structs.replace(
        left, messages=left.messages.cut(tail.begin), tail=tail.segments, breakpoints=left.breakpoints[:kept],
        breakpoint_values=left.breakpoint_values[:kept],
    )  # fmt: skip


def evidence_of(tail: Tail, per_token: float) -> TailReplaced:
    """Describe a tail; `per_token` is the bytes of a token."""
    size = sum(len(segment.data) for segment in tail.segments)
    role = tail.role or "user"
    return TailReplaced(
        tail.segments[0].path, size, round(size / per_token), role if role in _ROLES else "",
        tuple(dict.fromkeys(_volatile(tail.segments))), tail.repeated,
    )  # fmt: skip


def _volatile(segments: Sequence[Segment]) -> list[str]:
    """Name what makes a tail another one each turn: a clock, an id, a token count, recalled memory."""
    found: list[str] = []
    for segment in segments:
        if segment.kind == "envelope" or len(segment.data) > _LARGE:
            continue
        text = block_of(segment, b"").text or ""
        varies = surely_varies(text)
        about = topic("", text[:16_384], "")
        found += [*([varies.what] if varies is not None else ()), *([about] if about is not None else ())]
    return found
