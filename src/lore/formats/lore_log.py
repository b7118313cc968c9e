"""The readers of lore's own JSON Lines: session logs, and the sessions that `lore assemble --all` writes.

A session log, version 1, has one event a line, `session_started` first. A fast decoder reads a line into its struct and
refuses unknown keys; a slow one then reads camelCase keys, unknown keys and lone surrogates. A line that both refuse is
an opaque event.

An assembled session has one turn a line, each a delta against the previous turn of its chain. The segments that a line
keeps are shared with the previous prompt, so reading costs O(bytes) and comparing goes by identity. A line that keeps
more segments or other bytes than its chain has is a problem (LORE204 if the previous turn could not be read, LORE207
otherwise), and so are the lines after it, until one keeps nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

from msgspec import UNSET, Raw, Struct

from lore.formats.base import Read, Yields
from lore.formats.lines import Line, LineReader, nonblank_lines, problem
from lore.model import events as e
from lore.model import items, lenient
from lore.model.canonical import printable, text_of
from lore.model.codes import Code
from lore.model.jsonslice import array, check_text, members_at, sliced_members
from lore.model.mask import cut_masked
from lore.model.results.assemble import AssembledTurn, changes_of_reset
from lore.model.turn import Prompt, Segment, Turn


class LoreLog(LineReader):
    """Reader of lore's own logs."""

    name: ClassVar[str] = "lore"
    yields: ClassVar[Yields] = "events"

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return kind_of(next(nonblank_lines(head), b"{}")) in e.KINDS

    def _record(self, line: Line) -> list[Read] | None:
        event = event_of(line.data)
        if event is None:
            return None
        read = Read(event, line.number, line.byte)
        return [read] if self._begun else [*self._check_header(line, header=isinstance(event, e.SessionStarted)), read]

    def _read_other(self, line: Line) -> list[Read]:
        """Return a record of an unknown kind, or with fields of wrong types, as an opaque event."""
        kind = kind_of(line.data) or "(none)"
        if kind in e.KINDS:
            notice = problem(Code.MALFORMED_RECORD, f"{kind} record has missing or wrong fields; kept as opaque", line)
        else:
            notice = problem(
                Code.UNKNOWN_RECORD, f"unknown record kind {printable(cut_masked(kind, 60))!r}; kept as opaque", line
            )
        opaque = Read(e.OpaqueEvent(record=Raw(line.data)), line.number, line.byte)
        return [*self._check_header(line, header=b'"session_started"' in line.data), notice, opaque]

    def _check_header(self, line: Line, *, header: bool) -> list[Read]:
        has_begun, self._begun = self._begun, True
        if has_begun or header:
            return []
        return [problem(Code.BAD_HEADER, "the log does not begin with session_started", line)]


def event_of(data: bytes) -> e.Event | None:
    """Decode a line; None if it is not an event."""
    try:
        event = lenient.DECODERS[e.Event].decode(data)
        check_text(data)  # msgspec's Raw does not look inside strings
    except (ValueError, RecursionError):
        try:
            kind = e.KINDS.get(kind_of(data)) if data.lstrip(b" \t\r")[:1] == b"{" else None
            event = None if kind is None else lenient.convert(data, kind)
        except (ValueError, RecursionError):
            return None
    return event if event is not None and _is_well_formed(event) else None


def kind_of(line: bytes) -> str:
    """Return a record's kind, as lore spells it; empty if it has none."""
    return lenient.snake(text_of(sliced_members(line).get("kind", b'""')))


def _is_string(raw: Raw) -> bool:
    """Return whether content is a JSON string, or absent."""
    return bytes(raw)[:1] == b'"' or items.is_absent(raw)


def _is_well_formed(event: e.Event) -> bool:
    """Return whether the content that the decoder left raw has the right types."""
    match event.item if isinstance(event, e.Append) else event:
        case items.UserMessage(text=text, blocks=blocks) | items.AssistantMessage(text=text, blocks=blocks):
            return _is_string(text) and (blocks is None or all(_is_good_block(block) for block in blocks))
        case items.ToolCall(output=output, error=error) | e.PatchToolCall(output=output, error=error):
            return _is_good_output(output) and _is_string(error)
        case items.CompactDivider(summary=summary):
            return _is_string(summary)
        case e.PatchText(delta_text=text):
            return bytes(text)[:1] == b'"'
        case e.ToolResultCleared(placeholder=text) | e.CompactApplied(summary=text) | e.Layer(text=text):
            return _is_string(text)
        case e.SessionStarted(system=system, params=params) | e.SessionChanged(system=system, params=params):
            text = bytes(system)  # or a list of texts and blocks
            listed = text[:1] == b"[" and all(element[:1] in (b'"', b"{") for element in array(text))
            return (listed or _is_string(system)) and (items.is_absent(params) or bytes(params)[:1] == b"{")
        case _:
            return True


def _is_good_block(block: object) -> bool:
    match block:
        case items.TextBlock(text=text) | items.ThinkingBlock(text=text) | items.ImageBlock(data=text):
            return bytes(text)[:1] == b'"'
        case _:
            return True


def _is_good_output(output: Raw) -> bool:
    if _is_string(output):
        return True
    try:
        return all(_is_good_block(block) for block in items.blocks_of(bytes(output)))
    except (ValueError, RecursionError):
        return False


_OPENING = frozenset(("turn", "chain", "keep_segments", "append"))


class _ChainPrompt(Struct, frozen=True):
    prompt: Prompt  # the latest of its chain
    sums: list[int]  # bytes of its first 0, 1, 2, … segments; shared by all prompts of the chain


class AssembledLog(LineReader):
    """Reader of assembled sessions."""

    name: ClassVar[str] = "assembled"
    yields: ClassVar[Yields] = "turns"

    def __init__(self) -> None:
        super().__init__()
        self._lost = False  # a line could not be read; its chain is unknown
        self._chains: dict[str, _ChainPrompt] = {}

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return members_at(next(nonblank_lines(head), b"")).keys() >= _OPENING

    def _record(self, line: Line) -> list[Read] | None:
        try:
            check_text(line.data)  # as above
            record = lenient.decode(AssembledTurn, line.data)
        except (ValueError, RecursionError):
            return None
        return [self._read_turn(record, line)]

    def _read_other(self, line: Line) -> list[Read]:
        self._chains.pop(text_of(members_at(line.data).get("chain", b"")), None)
        return [problem(Code.MALFORMED_RECORD, "no turn of an assembled session: missing or wrong fields", line)]

    def _unreadable(self, line: Line, reason: str = "") -> Sequence[Read]:
        self._lost = True
        return super()._unreadable(line, reason)

    def _read_turn(self, record: AssembledTurn, line: Line) -> Read:
        previous = self._chains.pop(record.chain, None)
        before = previous or _ChainPrompt(Prompt(record.dialect, record.fidelity), [0])
        keep, where = record.keep_segments, f"turn {record.turn} of chain {printable(cut_masked(record.chain, 60))!r}"
        if keep > before.prompt.stable or before.sums[keep] != record.keep_bytes:
            code = Code.UNKNOWN_ID if self._lost or previous is None else Code.MALFORMED_RECORD
            text = f"{where} keeps {keep} segments of {record.keep_bytes} bytes, which the turn before does not have"
            return problem(code, text, line)
        chain_prompt = _continue_prompt(record, before)
        if chain_prompt is None:
            text = f"{where} has a tail, breakpoints or a dialect that do not fit its segments"
            return problem(Code.MALFORMED_RECORD, text, line)
        self._chains[record.chain] = chain_prompt
        changes = changes_of_reset(record.reset)
        turn = Turn(record.chain, record.turn, chain_prompt.prompt, changes, line=line.number, byte=line.byte)
        return Read(turn, line.number, line.byte)


def _continue_prompt(record: AssembledTurn, previous: _ChainPrompt) -> _ChainPrompt | None:
    """Return the prompt of a line, given the previous one; None if the line contradicts itself."""
    new = [
        Segment(addition.section, addition.path, addition.data.encode(), addition.kind,
                None if addition.breakpoint is UNSET else bytes(addition.breakpoint), addition.origin)
        for addition in record.append
    ]  # fmt: skip
    before, sums, keep, fixed = previous.prompt, previous.sums, record.keep_segments, len(new) - record.tail_segments
    tail, places = tuple(new[max(0, fixed) :]), [place for place, _ in record.breakpoints]
    is_sound = (
        fixed >= 0
        and sum(len(segment.data) for segment in tail) == record.tail_bytes
        and (not keep or record.dialect == before.dialect)
        and all(place < after for place, after in pairwise((*places, keep + fixed)))
    )
    if not is_sound:
        return None
    new, size, added = new[:fixed], len(before.head), 0
    if keep <= size:  # the first of the new segments belong to the head
        added = next((place for place, segment in enumerate(new) if segment.section == "messages"), len(new))
    head = before.head if keep >= size and not added else (*before.head[:keep], *new[:added])
    prompt = Prompt(
        dialect=record.dialect, fidelity=record.fidelity, model=record.model, head=head,
        messages=before.messages.cut(max(0, keep - size)).extend(new[added:]), tail=tail,
        breakpoints=tuple(places),
        breakpoint_values=tuple([bytes(value) for _, value in record.breakpoints]),
        auto_breakpoint=record.auto_breakpoint is True,
        params=before.params if record.params is UNSET else {key: bytes(value) for key, value in record.params.items()},
    )  # fmt: skip
    sums[keep:] = accumulate((len(segment.data) for segment in new), initial=sums[keep])
    return _ChainPrompt(prompt, sums)
