"""Write turns as `lore assemble --all` does: one line a turn, a delta against the turn before of its chain.

In: turns, in the order recorded. Out: lines with their ends. Cost: O(segments that are new), so output
and work grow with the session and not with its prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UNSET, Raw

from lore.model.assembled import AssembledSegment, AssembledTurn, WholeTurn, reset_of
from lore.model.canonical import encode
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.model.turn import Turn
from lore.prefix.overlap import Measure, overlap, since, size
from lore.prompt.base import Dialect

PIECE = 1024 * 1024  # lines are written in pieces of about this size
_ENCODER = msgspec.json.Encoder()


class Deltas:
    """Follow the chains of one session."""

    def __init__(self) -> None:
        self._chains: dict[str, tuple[Prompt, Measure]] = {}

    def line(self, turn: Turn) -> bytes:
        """Write the next turn of a chain."""
        prompt = turn.prompt
        before, measure = self._chains.get(turn.chain, (None, Measure(size)))
        kept = 0 if before is None else _kept(before, prompt)
        measured = measure.advance(prompt, kept)
        self._chains[turn.chain] = prompt, measure
        values = dict(zip(prompt.breakpoints, map(Raw, prompt.breakpoint_values), strict=True))
        told = AssembledTurn(
            turn=turn.number, chain=turn.chain, dialect=prompt.dialect, keep_segments=kept,
            keep_bytes=measured.common, tail_segments=len(prompt.tail), tail_bytes=measure.tail,
            append=tuple([_told(one, values.get(at)) for at, one in enumerate(since(prompt, kept, tail=True), kept)]),
            reset=reset_of(turn.changes), model=prompt.model, fidelity=prompt.fidelity,
            breakpoints=tuple(values.items()),
            params=_params(before, prompt),  # pyright: ignore[reportArgumentType] - an object, written already
            auto_breakpoint=True if prompt.auto_breakpoint else UNSET,
        )  # fmt: skip
        return _ENCODER.encode(told) + b"\n"


def _kept(before: Prompt, prompt: Prompt) -> int:
    """Count the leading segments that stay; what a turn has in its tail is never kept."""
    if before.dialect != prompt.dialect:
        return 0
    return _alike(before, prompt, min(overlap(before, prompt).common, prompt.stable))


def _alike(before: Prompt, prompt: Prompt, kept: int) -> int:
    """Leave out what has the same bytes but came from elsewhere: a summary where a user's message stood.

    Looks back to the first segment that both prompts share: what stands before it was never made anew.
    """
    place = kept
    while place > 0:
        place -= 1
        mine, theirs = before.at(place), prompt.at(place)
        if mine is theirs or mine is None or theirs is None:
            break
        if mine.origin != theirs.origin or mine.path != theirs.path:
            kept = place
    return kept


def _params(before: Prompt | None, prompt: Prompt) -> Raw | msgspec.UnsetType:
    """Return the request's other fields where they are new: values as spelled, names that may be any text."""
    known = {} if before is None else before.params
    if known is prompt.params or known == prompt.params:
        return UNSET
    return Raw(b"{" + b",".join([encode(key) + b":" + value for key, value in prompt.params.items()]) + b"}")


def _told(one: Segment, breakpoint: Raw | None) -> AssembledSegment:
    shown = UNSET if breakpoint is None else breakpoint
    return AssembledSegment(one.section, one.path, one.kind, one.data.decode("utf-8"), shown, one.origin)


def whole(turn: Turn, dialect: Dialect) -> bytes:
    """Write a turn with its whole body, verbatim; text that is no JSON as a JSON string."""
    body = dialect.write(turn.prompt)
    is_text = turn.prompt.fidelity == "rendered" or table(body) is None
    shown = Raw(encode(body.decode("utf-8")) if is_text else body)
    return _ENCODER.encode(WholeTurn(turn.number, turn.chain, turn.prompt.dialect, shown)) + b"\n"


def in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into few big pieces."""
    waiting: list[bytes] = []
    held = 0
    for line in lines:
        waiting.append(line)
        held += len(line)
        if held >= PIECE:
            yield b"".join(waiting)
            waiting, held = [], 0
    if waiting:
        yield b"".join(waiting)
