"""Explain how system prompt or messages became others: message by message, block by block.

In: the segments of both sides from where they part. Out: notes, each at its place in the left prompt. Rules: what
is equal in bytes corresponds, then what is equal in content, then what has one call's id, then what stands at one
place; each piece that differs is explained apart; text that is gone at one place and stands at another has moved.
Cost: O(n log n) of the segments from the first difference on; content is decoded only where it differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from lore.model.prompt import Segment
from lore.prefix.align import equal_pairs, gaps
from lore.prefix.blocks import by_model, known_by
from lore.prefix.overlap import canonical_of, outline

_LONG = 256  # bytes: two blocks that are longer have one outline only where they have one content, or by rare chance


class Group(NamedTuple):
    """A message: its segments, the first of which may be its envelope, and where the first one stands."""

    segments: tuple[Segment, ...]
    position: int

    @property
    def envelope(self) -> bytes:
        """The envelope's bytes; empty where there is none."""
        first = self.segments[0]
        return first.data if first.kind == "envelope" else b""


class Mismatch(NamedTuple):
    """Two segments that correspond and differ, or one that the other side lacks; where it stands on the left."""

    left: Segment | None
    right: Segment | None
    position: int
    envelope: bytes
    alone: bool = False  # the message around it is still there


def grouped(segments: Iterable[Segment], start: int) -> list[Group]:
    """Put segments into messages; a part of one stands for itself."""
    found: list[Group] = []
    held: list[Segment] = []
    begin = at = start
    for at, segment in enumerate(segments, start):
        if segment.kind in ("envelope", "opaque") and held:
            found.append(Group(tuple(held), begin))
            held, begin = [], at
        held.append(segment)
    if held:
        found.append(Group(tuple(held), begin))
    return found


def mismatches(left: Sequence[Group], right: Sequence[Group], *, grows: bool) -> list[Mismatch]:
    """Return where messages differ; where they grow, what comes behind the last one of the left is no difference."""
    found: list[Mismatch] = []
    for old, new in _paired(left, right, grows=grows):
        if old is None and new is not None:
            blocks = [one for one in new.segments if one.kind != "envelope"] or new.segments
            found += [Mismatch(None, one, new.position, new.envelope) for one in blocks]
        elif new is None and old is not None:
            gone = [(n, one) for n, one in enumerate(old.segments) if one.kind != "envelope" or len(old.segments) == 1]
            found += [Mismatch(one, None, old.position + n, old.envelope) for n, one in gone]
        elif old is not None and new is not None:
            found += _inside(old, new, last=grows and old is left[-1])
    return sorted(found, key=lambda one: one.position)


def _paired(left: Sequence[Group], right: Sequence[Group], *, grows: bool) -> list[tuple[Group | None, Group | None]]:
    """Pair the messages that differ; one that was put in has the position before which it stands on the left."""
    found: list[tuple[Group | None, Group | None]] = []
    for gap in gaps([_bytes(one) for one in left], [_bytes(one) for one in right], grows=grows):
        mine, theirs = left[gap.left.start : gap.left.stop], right[gap.right.start : gap.right.stop]
        here = left[gap.left.start].position if gap.left.start < len(left) else _end(left)
        inner = gaps([_content(one) for one in mine], [_content(one) for one in theirs], grows=grows and gap.open)
        found += [(mine[n], theirs[m]) for n, m in equal_pairs(inner, len(mine))]  # spelled otherwise
        for part in inner:
            ours, others = mine[part.left.start : part.left.stop], theirs[part.right.start : part.right.stop]
            begin = mine[part.left.start].position if part.left.start < len(mine) else here
            found += _guessed(ours, others, begin, grows=grows and gap.open and part.open)
    return found


def _bytes(group: Group) -> tuple[bytes, ...]:
    return tuple([one.data for one in group.segments])


def _content(group: Group) -> Hashable:
    """Return what a message is compared by, however it is spelled: long blocks by their outline, which is enough."""
    return tuple([_spelled(one) for one in group.segments])


def _spelled(segment: Segment) -> Hashable:
    found = outline(segment) if len(segment.data) > _LONG else None
    return canonical_of(segment) if found is None else found


def _end(left: Sequence[Group]) -> int:
    return left[-1].position + len(left[-1].segments) if left else 0


def _guessed(
    mine: Sequence[Group], theirs: Sequence[Group], here: int, *, grows: bool
) -> list[tuple[Group | None, Group | None]]:
    """Pair messages of which none is equal: by their calls, else by their place and role."""
    if len(mine) == len(theirs) or (grows and len(mine) == 1 and theirs and _alike(mine[0], theirs[0], _Words())):
        return list(zip(mine, theirs, strict=False))
    found: list[tuple[Group | None, Group | None]] = []
    known, others = [_ids(one) for one in mine], [_ids(one) for one in theirs]
    if grows and len(mine) <= len(theirs) and any(known) and known == others[: len(known)]:
        return list(zip(mine, theirs, strict=False))  # the calls say which message is which
    words = _Words()
    ids = {one: n for n, one in reversed(list(enumerate(others))) if one}
    to = 0
    for one, own in zip(mine, known, strict=True):
        other = ids.get(own, -1) if own else -1
        if other < to:
            near_by = range(to, min(to + 8, len(theirs)))
            other = next((n for n in near_by if bool(own) == bool(others[n]) and _may_be(one, theirs[n], words)), -1)
        if other < 0:
            found.append((one, None))
            continue
        found += [(None, Group(new.segments, one.position)) for new in theirs[to:other]]
        found.append((one, theirs[other]))
        to = other + 1
    if not grows:
        end = here if not mine else mine[-1].position + len(mine[-1].segments)
        found += [(None, Group(new.segments, end)) for new in theirs[to:]]
    return found


def _ids(group: Group) -> tuple[bytes, ...]:
    return tuple([one for one in (known_by(part, group.envelope) for part in group.segments) if one is not None])


def _may_be(one: Group, other: Group, words: _Words) -> bool:
    """Tell whether a message may have become another: of one role, some of its content or most of its text the same."""
    return by_model(one.envelope) == by_model(other.envelope) and _alike(one, other, words)


def _alike(one: Group, other: Group, words: _Words) -> bool:
    mine = [part.data for part in one.segments if part.kind != "envelope"]
    theirs = [part.data for part in other.segments if part.kind != "envelope"]
    if not mine or not theirs or by_model(one.envelope) != by_model(other.envelope):
        return one.envelope == other.envelope
    if any(part in theirs for part in mine):
        return True
    return words.near(mine[0], theirs[0]) or words.near(mine[-1], theirs[-1])


class _Words:
    """The words of texts that are compared with several others: each text is cut once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, frozenset[bytes]]] = {}

    def near(self, one: bytes, other: bytes) -> bool:
        """Tell whether two texts share much of their words."""
        mine, theirs = self._of(one), self._of(other)
        return 2 * len(mine & theirs) >= max(1, min(len(mine), len(theirs)))

    def _of(self, text: bytes) -> frozenset[bytes]:
        held = self._known.get(id(text))
        if held is None or held[0] is not text:
            held = self._known[id(text)] = text, frozenset(text[:_NEAR].split())
        return held[1]


_NEAR = 2048  # bytes of a text whose words are compared


def near(one: bytes, other: bytes) -> bool:
    """Tell whether two texts share much of their words."""
    return _Words().near(one, other)


def _inside(left: Group, right: Group, *, last: bool) -> list[Mismatch]:
    """Return how one message became another; what the last one gained at its end is no difference."""
    found: list[Mismatch] = []
    around = right.envelope or left.envelope
    for gap in gaps(_bytes(left), _bytes(right), grows=last):
        pairs = _matched(
            left.segments[gap.left.start : gap.left.stop], right.segments[gap.right.start : gap.right.stop], around
        )
        while last and gap.open and pairs and pairs[-1][0] is None:
            pairs.pop()
        at = left.position + gap.left.start
        for one, other in pairs:
            found.append(Mismatch(one, other, at, around, alone=True))
            at += one is not None
    return found


def _matched(
    left: Sequence[Segment], right: Sequence[Segment], envelope: bytes
) -> list[tuple[Segment | None, Segment | None]]:
    if len(left) == len(right):
        return list(zip(left, right, strict=True))
    free = list(right)
    found: list[tuple[Segment | None, Segment | None]] = []
    for one in left:
        other = next((peer for peer in free if _of_one_kind(one, peer, envelope)), None)
        if other is not None:
            before = free.index(other)
            found += [(None, new) for new in free[:before]]
            free = free[before + 1 :]
        found.append((one, other))
    return [*found, *((None, new) for new in free)]


def _of_one_kind(one: Segment, other: Segment, envelope: bytes) -> bool:
    if one.kind != other.kind:
        return False
    mine, theirs = known_by(one, envelope), known_by(other, envelope)
    if mine is not None or theirs is not None:
        return mine == theirs and one.path.count(".") == other.path.count(".")
    return near(one.data, other.data)
