"""What a model said, out of a response as it was recorded.

In: `Exchange.output`. Out: a JSON array of the dialect's own items or messages; nothing where the response says
none. A whole response was sliced when it was read and is given back; a stream is put together now. Whoever needs
the answer asks: most do not, and a stream is read for its bill alone at a fraction of the cost. Rules: total;
events that say nothing are passed over. Cost: O(bytes), each time that it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain as chained

from lore.formats.answers import output_in
from lore.formats.contents import LARGEST, Content, ContentError, events_in, framed_events, is_framed, opened
from lore.formats.json_accumulator import MOST, array_of
from lore.formats.stream_builders import Anthropic, Chat, Converse, Gemini, Speaking
from lore.model.jsonslice import array, table
from lore.model.turn import Output

_DATA = b"data:"
_ITEM = b'"response.output_item.done"'
_TELLING = (b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"response.done"', _ITEM)


def said(output: Output) -> bytes:
    """Return what a model said."""
    if isinstance(output, bytes):
        return output
    if len(output.raw) > LARGEST:
        return b""
    try:
        return said_by(_events(Content(output.raw, output.form), output.encoding))
    except ContentError:
        return b""


def said_by(events: Iterable[bytes]) -> bytes:
    """Put together the events of a stream, each as JSON; the first that a dialect knows says whose they are."""
    left = iter(events)
    for raw in left:
        event = table(raw) or {}
        if event.get("type", b"").startswith(b'"response.'):
            return _responses(chained([raw], left))
        made = next((kind() for knows, kind in _DIALECTS if knows(event)), None)
        if made is not None:
            return _grown(made, event, left)
    return b""


def _grown(made: Speaking, first: dict[str, bytes], rest: Iterable[bytes]) -> bytes:
    made.take(first)
    for raw in rest:
        event = table(raw)
        if event:
            made.take(event)
    answer = made.answer()
    return array_of([answer]) if answer else b""


_DIALECTS: tuple[tuple[Callable[[dict[str, bytes]], bool], Callable[[], Speaking]], ...] = (
    (lambda event: event.get("type", b"").startswith((b'"message_start"', b'"content_block_')), Anthropic),
    (lambda event: "choices" in event, Chat),
    (lambda event: "candidates" in event or b'"candidates"' in event.get("response", b""), Gemini),
    (lambda event: "contentBlockIndex" in event or any(name in event for name in Converse.NAMES), Converse),
)


def _responses(events: Iterable[bytes]) -> bytes:
    """Return the items of the Responses API: its last event says all again; else those that were done."""
    items = list[bytes]()
    output = b""
    for raw in events:
        event = (table(raw) or {}) if any(word in raw for word in _TELLING) else {}
        if event.get("type") == _ITEM:
            items += [event["item"]] if "item" in event else []
        elif "response" in event:
            output = output_in(table(event["response"]) or {}) or output
        if len(items) > MOST:
            return b""
    return array_of(items) if output in (b"", b"[]") and items else output


def _events(content: Content, encoding: str) -> Iterable[bytes]:
    """Return the events of a stream in whatever form it was kept."""
    if content.form == "events":
        events, text = events_in(content.raw)
        return events or _lines(text)
    body = opened(content, encoding, binary=is_framed)
    if is_framed(body):
        return framed_events(body)
    return array(body) if body[:1] == b"[" else _lines(body)


def _lines(text: bytes) -> Iterator[bytes]:
    """Yield the data of server-sent events: one event has one line of it."""
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        if text.startswith(_DATA, at):
            yield text[at + len(_DATA) : end].strip()
        at = end + 1
