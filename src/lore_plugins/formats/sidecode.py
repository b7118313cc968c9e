"""sidecode's event deltas, as JSON Lines: its daemon keeps them of a live session and sends them to its app.

A line is one delta, whose `kind` is append, patch_text, patch_tool_call, turn_started, turn_completed, turn_failed,
turn_canceled, compact_started or compact_applied. Deltas are lore's own events in camelCase, without a header; the item
of an `append` has a `kind` or a `type`. Missing fields are filled in, and reported once (LORE229): a call's uuid is its
call id, its input `{}`, its output the `output` of its detail; a turn that starts is the next one, a turn that ends the
latest. `stopReason: null` means that an answer was interrupted, `images` are blocks after the text; a call's `summary`
is a label for the screen and is ignored.

A turn of sidecode is a user's message with all that follows; a turn of lore is one request. An answer after a tool's
result is therefore another response (`response_id`). The agent SDK sums the usage of such a turn over its requests, so
it is kept as a sum of passes, and the usage of the last request is unknown.

Source: sidecode's protocol (EventDelta, TimelineItem, TurnUsage), August 2026, in our words.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from lore.formats import Line, LoreLog, Read, build_array, decode_usage, event_of, nonblank_lines, object_of, problem
from lore.model import Code, Usage, array, encode, lenient, members_at, raw_members, text_of

Members = dict[str, bytes]

NOTE = (
    "sidecode's deltas: there is no header, turns are numbered as they start, a call's uuid is its call id, its input "
    "{}, its output that of its detail"
)
INTERRUPTED = b'"interrupted"'
_FIRST_LINES = 64  # of a file, which are searched for the format's marks
_ANSWER_ITEMS = ("assistant_message", "tool_call")
_ITEMS = ("user_message", *_ANSWER_ITEMS, "compact_divider")


class Sidecode(LoreLog):
    """Reader of sidecode's event deltas."""

    name: ClassVar[str] = "sidecode"

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0  # the latest
        self._answers = 0  # of this turn
        self._has_results = False  # a result came after the last answer

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Return whether a file holds deltas, not lore's own events or lines of other programs.

        All lines are deltas without another member; one changes the timeline, and one lacks fields of lore's events.
        """
        is_own = changes_timeline = False
        for number, line in enumerate(nonblank_lines(head)):
            members = raw_members(line)
            if members is None or number == _FIRST_LINES:
                break
            kind = text_of(members.get("kind", b""))
            if kind not in _KINDS or not _KINDS[kind] >= set(map(lenient.snake, members)):
                return False
            item = members_at(members, "item")
            if kind == "append" and text_of(item.get("type", item.get("kind", b""))) not in _ITEMS:
                continue
            changes_timeline = changes_timeline or not kind.startswith("turn_")
            is_own = is_own or _is_own(kind, members, item)
        return is_own and changes_timeline

    def _record(self, line: Line) -> list[Read] | None:
        members = raw_members(line.data)
        kind = "" if members is None else text_of(members.get("kind", b""))
        if members is None or kind not in _KINDS:
            return super()._record(line)
        renamed = {lenient.snake(key): value for key, value in members.items()}
        event = event_of(object_of(self._fill_in(kind, renamed)))
        return None if event is None else [*self._check_header(line, header=False), Read(event, line.number, line.byte)]

    def _check_header(self, line: Line, *, header: bool) -> list[Read]:
        del header
        has_begun, self._begun = self._begun, True
        return [] if has_begun else [problem(Code.FIELDS_FILLED_IN, NOTE, line)]

    def _fill_in(self, kind: str, members: Members) -> Members:
        """Return a delta with the fields of lore's events."""
        match kind:
            case "append":
                return {**members, "item": object_of(self._item_of(members))}
            case "patch_tool_call":
                self._has_results = True
                return _add_output(members)
            case "turn_started":
                members = {"turn": encode(self._turn + 1), **members}
                number = members["turn"]
                self._turn = int(number) if number.isdigit() else self._turn + 1
                self._answers, self._has_results = 0, False
            case "turn_completed" | "turn_failed" | "turn_canceled":
                members = {"turn": encode(self._turn), **members}
                counters = members_at(members, "usage")
                usage = decode_usage(object_of({lenient.snake(key): value for key, value in counters.items()}))
                if usage is not None and self._answers > 1:  # only the sum of several requests is known
                    usage = Usage(iterations=(Usage(kind="sum").with_counts(usage),))
                members |= {} if usage is None else {"usage": msgspec.json.encode(usage)}
            case _:
                pass
        return members

    def _item_of(self, members: Members) -> Members:
        item = {lenient.snake(key): value for key, value in members_at(members, "item").items()}
        item.setdefault("type", item.pop("kind", b"null"))
        kind = text_of(item["type"])
        if kind == "tool_call":
            item = {"uuid": item.get("call_id", b"null"), "input": b"{}", **_add_output(item)}
        elif kind == "assistant_message" and item.get("stop_reason") == b"null":
            item["stop_reason"] = INTERRUPTED
        elif kind == "user_message" and item.get("images", b"null") != b"null":
            item = _add_images(item)
        if kind in _ANSWER_ITEMS:
            self._answers += self._has_results or not self._answers
            self._has_results = False
            if self._answers > 1:
                item.setdefault("response_id", encode(f"turn-{self._turn}-answer-{self._answers}"))
        return item


def _add_output(members: Members) -> Members:
    """Return a call, or a patch of one, with the output of its detail, unless it has an error."""
    output = members_at(members, "detail").get("output", b"")
    has_text = output[:1] == b'"' and output != b'""' and members.get("error", b"null") == b"null"
    return {"output": output, **members} if has_text else members


def _add_images(item: Members) -> Members:
    """Return a user's message as blocks of its text and images; an image of an unknown shape stays as it is."""
    blocks = [object_of({"type": b'"text"', "text": item.pop("text", b'""')})]
    for image in array(item.pop("images")):
        members = {lenient.snake(key): value for key, value in members_at(image).items()}
        if members.get("media_type", b"")[:1] == members.get("data", b"")[:1] == b'"':
            block = {"type": b'"image"', "media_type": members["media_type"], "data": members["data"]}
        else:
            block = {"type": b'"raw"', "json": image}
        blocks.append(object_of(block))
    return {**item, "blocks": build_array(blocks)}


# The members that a delta may have, in either spelling: a line with any other member is not a delta.
_KINDS: dict[str, frozenset[str]] = {
    kind: frozenset(("kind", *names.split()))
    for kind, names in {
        "append": "item", "patch_text": "uuid delta_text", "patch_tool_call": "call_id status error detail",
        "turn_started": "", "turn_completed": "usage", "turn_failed": "error", "turn_canceled": "",
        "compact_started": "", "compact_applied": "trigger pre_tokens post_tokens duration_ms preserved_uuids uuid",
    }.items()
}  # fmt: skip


def _is_own(kind: str, members: Members, item: Members) -> bool:
    """Return whether a delta lacks fields of lore's own events, or spells them in another way."""
    if kind != "append":
        is_renamed = any(lenient.snake(key) != key for key in members)
        return kind.startswith("turn_") or kind == "compact_started" or is_renamed
    if text_of(item.get("type", b"")) == "tool_call":
        return "uuid" not in item
    return "kind" in item or "stopReason" in item
