"""Replay the durable deltas of a gateway's table in the messages of a request that it received.

A row of `session_prompt_deltas` has session_id, seq, project_id, selector and content. Its messages are put into the
request byte for byte, and nothing else changes. Its place counts the messages of the request as it came; a place after
the end is the end. A row is never last, never after a call, and never between calls and their results; rows of one
place are in the order of their seq. A row that had to move keeps its new place, with everything else in its selector.
Source: the Lore gateway's table and replay, 2026-06 to 2026-08.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Raw

from lore.model.canonical import encode, text_of
from lore.model.inserts import insert_texts, place_in, with_place
from lore.model.jsonslice import array, element_ranges, is_json, member_ranges, raw_members, sliced_members


class GatewayDelta(NamedTuple):
    """A row of the table."""

    session: str
    seq: int
    selector: Raw  # JSON with the place
    messages: tuple[bytes, ...]  # JSON
    rest: dict[str, bytes]  # all members as they were given

    @property
    def place(self) -> int:
        """The message before which it is put."""
        return place_in(self.selector) or 0

    def moved(self, place: int) -> GatewayDelta:
        """Return the row with another place in its selector."""
        return self._replace(selector=with_place(self.selector, place))

    def line(self) -> bytes:
        """Return the row as one line of JSON, selector and content as texts, as in the table."""
        members = {**self.rest, "selector": encode(bytes(self.selector).decode("utf-8", "replace"))}
        return b"{" + b",".join([encode(key) + b":" + value for key, value in members.items()]) + b"}\n"


def row_of(raw: bytes) -> GatewayDelta | None:
    """Parse a row, its JSON columns as texts or as JSON; None if it is corrupt."""
    own = raw_members(raw) or {}
    seq, session = own.get("seq", b""), own.get("session_id", b"")
    selector, content = (_column(own.get(key, b"")) for key in ("selector", "content"))
    if not seq.isdigit() or len(seq) > 15 or session[:1] != b'"' or place_in(Raw(selector)) is None:
        return None
    texts = insert_texts(Raw(content)) if content else None
    if texts is None or not all(text.message for text in texts):
        return None
    messages = array(content) if content[:1] == b"[" else [content]
    rest = {**own, "content": encode(content.decode("utf-8", "replace"))}
    return GatewayDelta(text_of(session), int(seq), Raw(selector), tuple(messages), rest)


def _column(raw: bytes) -> bytes:
    """Return the JSON in a column; empty if it holds none."""
    value = text_of(raw).encode("utf-8", "surrogatepass") if raw[:1] == b'"' else raw
    return value.strip() if value and is_json(value) else b""


def safe_place(messages: Sequence[bytes], desired: int) -> int:
    """Return the last place up to `desired` at which messages are allowed. Costs O(messages that are passed)."""
    place = max(0, min(desired, len(messages) - 1))
    while place > 0 and (_calls(messages[place - 1]) or _is_result(messages[place])):
        place -= 1
    return place


def _calls(raw: bytes) -> bool:
    """Return whether a message is the model's and calls tools."""
    own = sliced_members(raw)
    if own.get("role") != b'"assistant"':
        return False
    if own.get("tool_calls", b"null").strip(b"[] \t\r\nnul"):
        return True
    content = own.get("content", b"")
    return b"tool_use" in content and _holds(content, b'"tool_use"')


def _is_result(raw: bytes) -> bool:
    """Return whether a message holds results of calls: nothing may come between it and the calls."""
    own = sliced_members(raw)
    content = own.get("content", b"")
    return own.get("role") == b'"tool"' or (b"tool_result" in content and _holds(content, b'"tool_result"'))


def _holds(content: bytes, kind: bytes) -> bool:
    return content[:1] == b"[" and any(sliced_members(block).get("type") == kind for block in array(content))


def replay(body: bytes, rows: Iterable[GatewayDelta]) -> tuple[bytes, tuple[GatewayDelta, ...]]:
    """Return a request body with these rows, and the rows with their places from now on.

    A body without messages is returned as it is.
    """
    listed = tuple(rows)
    at = next(((m.value, m.end) for m in reversed(member_ranges(body)) if m.key == "messages"), (0, 0))
    raw = body[at[0] : at[1]]
    ranges = element_ranges(raw) if raw[:1] == b"[" else []
    if not ranges or not listed:
        return body, listed
    given = [raw[begin:end] for begin, end in ranges]
    placed: list[tuple[int, GatewayDelta]] = []
    for row in listed:
        wanted = min(row.place, len(given))
        place = safe_place(given, wanted)
        placed.append((place, row if place == wanted else row.moved(place)))
    pieces, end = [body[: at[0]]], 0
    for place, row in sorted(placed, key=lambda found: (found[0], found[1].seq)):
        begin = ranges[place][0]
        pieces += [raw[end:begin], *(message + b"," for message in row.messages)]
        end = begin
    return b"".join([*pieces, raw[end:], body[at[1] :]]), tuple([row for _, row in placed])


def messages_of(body: bytes) -> list[bytes]:
    """Return the messages of a request body; none if it has no list of them."""
    raw = sliced_members(body).get("messages", b"")
    return array(raw) if raw[:1] == b"[" else []
