"""A replaced tail: what ended a request, is not in the next one, and gave way to what the conversation went on with.

In: two prompts that lore did not assemble. Out: where the left's tail begins, or None. Rules: the tail is the last
messages or the last blocks of one (also behind a tool's result); something of the same side of the conversation stands
before it and stays; in its place the right has the model's next message, or another end where the request was sent
again; nothing of the tail stands in the right behind what both share, but at the right's own end. A result or an answer
of the model is no tail. It holds for every dialect and role.
Cost: O(the tail and what is new) where nothing before the tail changed, else O(messages).
"""

from __future__ import annotations

import re
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
from lore.prefix.volatile import surely_varies, topic

LONGEST = 16_384  # segments behind the model's last message that are looked at
_ROLES = frozenset(("user", "system", "developer", "tool", "function"))  # another one is a text of the recording
_CLOCK = re.compile(r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])")
_LARGE = 262_144  # bytes of a block that is not looked into for what varies


class Tail(NamedTuple):
    """Where the tail begins among the left's messages, its segments and role.

    `repeated`: it ends the right again; `retried`: the right is the same request with another end.
    """

    begin: int
    segments: tuple[Segment, ...]
    role: str
    repeated: bool
    retried: bool


def replaced_tail(left: Prompt, right: Prompt) -> Tail | None:
    """Return the tail of the left that the right does not hold any more."""
    if left.dialect != right.dialect or left.tail or not left.messages or not right.messages:
        return None
    start, end = _users_run(left), _users_run(right)
    segments = list(islice(left.messages.since(start), LONGEST + 1))
    if not segments or len(segments) > LONGEST or segments[0].kind != "envelope" or is_models(segments[0]):
        return None
    found = _begin(left, right, start, end)
    if found is None:
        return None
    begin, place = found
    tail = tuple(left.messages.since(begin))
    envelope, around = _envelope_of(left, begin), b""  # behind a result in its own message, text is no result
    for segment in tail:
        around = segment.data if segment.kind == "envelope" else around
        if segment.kind == "envelope" and (b"_output" in around or b"tool_call_id" in around):  # a result is a message
            return None
        if block_of(segment, around).kind not in ("text", "image", "envelope", "other"):
            return None
    blocks = {segment.data for segment in tail if segment.kind != "envelope"}
    ends = last_message(right, max(1, _messages(left, begin)))
    same = left.messages.common(right.messages)
    new = islice(right.messages.since(same), max(0, ends - same))
    if not blocks or any(segment.data in blocks for segment in new):
        return None
    repeated = any(segment.data in blocks for segment in right.messages.since(ends))
    if repeated and place > end:  # sent again with the same end: what changed stands before it
        return None
    role = (table(b"{" + envelope.data + b"}") or {}).get("role", b"")
    return Tail(begin, tail, text_of(role) if role[:1] == b'"' else "", repeated, place > end)


def _begin(left: Prompt, right: Prompt, start: int, end: int) -> tuple[int, int] | None:
    """Return where the tail begins, and where the right goes on: both behind the last segment of it that stays.

    `start` and `end` are where the left's and the right's last messages that are not the model's begin.
    """
    common = left.messages.common(right.messages)
    if common and left.messages[common - 1].kind == "envelope":  # two messages of one role share no more than that
        common -= 1
    if common > start:  # nothing before it changed
        return (common, common) if _gives_way(left, right, common, common, end) else None
    places = {segment.data: at for at, segment in enumerate(right.messages) if segment.kind != "envelope"}
    for begin in range(start + 1, len(left.messages)):
        at = places.get(left.messages[begin - 1].data)
        if at is not None and _gives_way(left, right, begin, at + 1, end):
            return begin, at + 1
    return None


def _gives_way(left: Prompt, right: Prompt, begin: int, place: int, end: int) -> bool:
    """Tell whether in the right the model speaks (at `place`), or another end stands, where the left's tail stood."""
    if begin >= len(left.messages) or left.messages[begin - 1].kind == "envelope" or place >= len(right.messages):
        return False
    follows = right.messages[place]
    if place > end:
        return _messages(left, begin) == _messages(right, place)
    return follows.kind == "envelope" and is_models(follows)


def _messages(prompt: Prompt, place: int) -> int:
    """Count the messages that begin at a place or behind it."""
    return sum(segment.kind == "envelope" for segment in prompt.messages.since(place))


def _envelope_of(prompt: Prompt, place: int) -> Segment:
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    return prompt.messages[place]


def _users_run(prompt: Prompt) -> int:
    """Return where the messages behind the model's last one begin."""
    start = len(prompt.messages)
    for place in range(start - 1, max(-1, start - LONGEST - 2), -1):
        if prompt.messages[place].kind in ("envelope", "opaque"):
            if is_models(prompt.messages[place]):
                break
            start = place
    return start


def last_message(prompt: Prompt, number: int = 1) -> int:
    """Return where the last messages begin, so many, among the messages."""
    place = len(prompt.messages)
    while place > 0 and number:
        place -= 1
        number -= prompt.messages[place].kind in ("envelope", "opaque")
    return place


def without_tail(left: Prompt, tail: Tail) -> Prompt:
    """Return the left with its tail apart, as lore's own prompts hold it."""
    stable = len(left.head) + tail.begin
    kept = sum(place < stable for place in left.breakpoints)
    return msgspec.structs.replace(
        left, messages=left.messages.cut(tail.begin), tail=tail.segments, breakpoints=left.breakpoints[:kept],
        breakpoint_values=left.breakpoint_values[:kept],
    )  # fmt: skip


def evidence_of(tail: Tail, per_token: float, billed: int = 0) -> TailReplaced:
    """Describe a tail; `per_token` is the bytes of a token, `billed` the tokens of the whole prompt, 0: not known."""
    size = sum(len(segment.data) for segment in tail.segments)
    tokens = round(size / per_token)
    role = tail.role or "user"
    return TailReplaced(
        tail.segments[0].path, size, min(tokens, billed) if billed else tokens, role if role in _ROLES else "",
        tuple(dict.fromkeys(_volatile(tail.segments))), tail.repeated, tail.retried,
    )  # fmt: skip


def _volatile(segments: Sequence[Segment]) -> list[str]:
    """Name what makes a tail another one each turn: a clock, an id, a token count, recalled memory."""
    found: list[str] = []
    for segment in segments:
        if segment.kind == "envelope" or len(segment.data) > _LARGE:
            continue
        text = block_of(segment, b"").text or ""
        varies = surely_varies(text)
        clock = varies is None and _CLOCK.search(text) is not None  # it need not vary surely: it was replaced
        about = topic("", text[:16_384], "")
        found += [
            *([varies.what] if varies is not None else ["a clock"] if clock else ()),
            *([about] if about is not None else ()),
        ]
    return found
