"""Whole prompts for requests that only continue: `previous_response_id`, and deltas over a socket.

In: the prompt of each request, in order, with its exchange. Out: the prompt that the model saw: what the
request before it sent, what the model answered, then its own input; tools and instructions are its own, as the
API says. Rules: history is shared, never parsed again; a path counts items over the whole prompt; where the
request before or its answer is not recorded, the prompt is partial, and so are those that continue it.

Cost: O(what is new) a request. Memory: the latest responses, up to `REMEMBERED` bytes of what each added.
Source: OpenAI's Responses reference (with `previous_response_id`, instructions are not carried over).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain as chained
from typing import NamedTuple

import msgspec

from lore.formats.said import said
from lore.model.canonical import text_of
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.model.turn import Exchange
from lore.model.vector import Vector
from lore.prompt.base import Dialect, Memo

REMEMBERED = 48 * 1024 * 1024
OVERHEAD = 512  # bytes that a response costs apart from what it added
_ITEM = re.compile(r"input\[(\d+)\]")
CONTINUING = "openai-responses"


class _Response(NamedTuple):
    """What stands behind a response: messages, items before the next one, leading system items, breakpoints."""

    messages: Vector[Segment]
    items: int
    system: tuple[Segment, ...]
    breakpoints: tuple[tuple[int, bytes], ...]
    output: bytes
    partial: bool
    size: int


class Whole(NamedTuple):
    """A prompt that is whole as far as it is recorded; `missing` names the response that is not."""

    prompt: Prompt
    missing: str = ""


class Continuations:
    """Follow what continues what in one recording."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._said: dict[str, _Response] = {}  # the latest last
        self._room = remembered

    def whole(self, prompt: Prompt, exchange: Exchange, dialect: Dialect) -> Whole:
        """Take the next request; a prompt that continues nothing is given back as it is."""
        if prompt.dialect != CONTINUING:
            return Whole(prompt)
        previous = exchange.call.previous or _text(prompt, "previous_response_id")
        talk = _conversation(prompt)
        before = self._said.get(previous or talk)
        if before is None and not previous:
            made, missing, items = prompt, "", _items(prompt)
        elif before is None:
            made, missing, items = msgspec.structs.replace(prompt, partial=True), previous, _items(prompt)
        else:
            made, items = _joined(before, prompt, dialect)
            missing = previous or talk if made.partial and not before.partial else ""
        for name in (exchange.response_id, talk):
            if name:
                self._remember(name, made, items, exchange, len(made.messages) - len(prompt.messages))
        return Whole(made, missing)

    def _remember(self, name: str, prompt: Prompt, items: int, exchange: Exchange, shared: int) -> None:
        system = tuple(one for one in prompt.head if _ITEM.match(one.path))
        heads = len(prompt.head)
        breakpoints = tuple(
            (place - heads, breakpoint)
            for place, breakpoint in zip(prompt.breakpoints, prompt.breakpoint_values, strict=True)
        )
        new = sum(len(one.data) + OVERHEAD for one in prompt.messages.since(max(0, shared)))
        output = said(exchange.output)
        size = new + len(output) + OVERHEAD
        gone = self._said.pop(name, None)
        self._room += (gone.size if gone else 0) - size
        breakpoints = tuple(one for one in breakpoints if one[0] >= 0)
        self._said[name] = _Response(prompt.messages, items, system, breakpoints, output, prompt.partial, size)
        while self._room < 0 and len(self._said) > 1:
            self._room += self._said.pop(next(iter(self._said))).size


def _joined(before: _Response, prompt: Prompt, dialect: Dialect) -> tuple[Prompt, int]:
    """Put a request behind what it continues; also return how many items there are now."""
    answer = dialect.parse(b'{"input":' + (before.output or b"[]") + b"}", prompt.fidelity, Memo())
    said = _renumbered(answer.messages, before.items)
    items = before.items + _items(answer)
    own = [one for one in prompt.head if not _ITEM.match(one.path)]
    lead = list(_renumbered((one for one in prompt.head if _ITEM.match(one.path)), items))
    system = before.system
    if not before.messages and not len(answer.messages):
        system, lead = (*system, *lead), []
    for one in lead:  # what follows a conversation is no part of what stands before it
        one.section = "messages"
    new = [*said, *lead, *_renumbered(prompt.messages, items)]
    head = (*own, *system)
    breakpoints = [
        *((len(head) + place, breakpoint) for place, breakpoint in before.breakpoints),
        *_breakpoints(new, len(head) + len(before.messages)),
    ]
    breakpoints = [*_breakpoints(head, 0), *breakpoints]
    made = msgspec.structs.replace(
        prompt, head=head, messages=before.messages.extend(new), partial=before.partial or not before.output,
        breakpoints=tuple(place for place, _ in breakpoints),
        breakpoint_values=tuple(breakpoint for _, breakpoint in breakpoints),
    )  # fmt: skip
    return made, items + _items(prompt)


def _breakpoints(segments: Iterable[Segment], start: int) -> Iterator[tuple[int, bytes]]:
    return ((place, one.breakpoint) for place, one in enumerate(segments, start) if one.breakpoint is not None)


def _renumbered(segments: Iterable[Segment], by: int) -> Iterator[Segment]:
    """Copy segments with paths that count on from the items before; a text that is all of the input is an item."""
    for one in segments:
        match = _ITEM.match(one.path)
        rest = one.path[match.end() :] if match else ".content" if one.path == "input" else None
        number = int(match[1]) if match else 0
        path = one.path if rest is None else f"input[{number + by}]{rest}"
        yield Segment(one.section, path, one.data, one.kind, one.breakpoint, one.origin)


def _items(prompt: Prompt) -> int:
    """Count the items of a prompt that was read from a body, from its last path."""
    last = next(
        (one for one in reversed(list(chained(prompt.head, _last(prompt.messages)))) if "input" in one.path), None
    )
    match = None if last is None else _ITEM.match(last.path)
    return int(match[1]) + 1 if match else int(last is not None)


def _last(messages: Vector[Segment]) -> tuple[Segment, ...]:
    last = messages.last()
    return () if last is None else (last,)


def _text(prompt: Prompt, name: str) -> str:
    raw = prompt.params.get(name, b"")
    return text_of(raw) if raw[:1] == b'"' else ""


def _conversation(prompt: Prompt) -> str:
    """Return the name of a conversation that the provider keeps; no response is named like that."""
    raw = prompt.params.get("conversation", b"")
    name = text_of(raw) if raw[:1] == b'"' else text_of((table(raw) or {}).get("id", b'""'))
    return f"conversation {name}" if name else ""
