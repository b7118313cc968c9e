"""Pair two sequences, and the messages of two prompts: which of their members correspond, and where they differ.

In: two lists of keys; the segments of both sides from where they part. Out: the gaps between what is equal, in order;
mismatches, each at its place in the left prompt. Rules: the equal beginning first, then keys that stand once on each
side, as long as their order agrees, and what is equal around them. Messages: what is equal in bytes corresponds, then
what is equal in content, then what has one call's id, then what stands at one place.
Cost: O(n log n) of the keys, however much differs; the result is no shortest difference, and need not be. Content is
decoded only where it differs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from lore.model.turn import Segment
from lore.model.vector import common_prefix, common_suffix
from lore.prefix.blocks import by_model, known_by
from lore.prefix.overlap import canonical_of, outline

_LONG = 256  # bytes: two blocks that are longer have one outline only where they have one content, or by rare chance
_BEGINNING = 2048  # bytes of a text whose words are compared


class DifferingRanges(NamedTuple):
    """Half-open ranges of both sides between which nothing corresponds; `open` says that both ends are reached."""

    left: range
    right: range
    open: bool


def gaps(left: Sequence[Hashable], right: Sequence[Hashable], *, grows: bool = False) -> list[DifferingRanges]:
    """Return where two sequences differ. `grows`: the right is expected to go on behind the end of the left."""
    i = j = common_prefix(left, right)
    back = 0 if grows else common_suffix(left, right, min(len(left), len(right)) - i)
    anchors = [(m + i, n + i) for m, n in _anchors(left[i : len(left) - back], right[i : len(right) - back])]
    found: list[DifferingRanges] = []
    for m, n in [*anchors, (len(left), len(right))]:
        if m < i or n < j:  # taken already while the gap before was made smaller
            continue
        last = m == len(left) and n == len(right)
        while i < m and j < n and left[i] == right[j]:
            i, j = i + 1, j + 1
        end, stop = m, n
        while not (last and grows) and end > i and stop > j and left[end - 1] == right[stop - 1]:
            end, stop = end - 1, stop - 1
        if i < end or j < stop:
            found.append(DifferingRanges(range(i, end), range(j, stop), last))
        i, j = (m, n) if last else (m + 1, n + 1)
    return found


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair the keys that stand once on each side: the longest run whose order agrees (patience sorting)."""
    counts = Counter(left), Counter(right)
    places = {key: n for n, key in enumerate(right) if counts[1][key] == 1}
    pairs = [(m, places[key]) for m, key in enumerate(left) if counts[0][key] == 1 and key in places]
    tops: list[int] = []
    holders: list[int] = []
    before: list[int] = []
    for number, (_, value) in enumerate(pairs):
        place = bisect_left(tops, value)
        before.append(holders[place - 1] if place else -1)
        tops[place : place + 1], holders[place : place + 1] = [value], [number]
    run: list[tuple[int, int]] = []
    at = holders[-1] if holders else -1
    while at >= 0:
        run.append(pairs[at])
        at = before[at]
    return run[::-1]


class Group(NamedTuple):
    """A message: its segments, the first of which may be its envelope, and where the first one stands."""

    segments: tuple[Segment, ...]
    position: int

    @property
    def envelope(self) -> bytes:
        """The envelope's bytes; empty where there is none."""
        first = self.segments[0]
        return first.data if first.kind == "envelope" else b""

    @property
    def end(self) -> int:
        """Where the next message begins."""
        return self.position + len(self.segments)

    @property
    def bytes(self) -> tuple[bytes, ...]:
        """What a message is compared by as it stands."""
        return tuple([segment.data for segment in self.segments])

    @property
    def content(self) -> tuple[Hashable, ...]:
        """What it is compared by however it is spelled: long blocks by their outline, which is enough."""
        outlines = ((segment, outline(segment) if len(segment.data) > _LONG else None) for segment in self.segments)
        return tuple([canonical_of(segment) if known is None else known for segment, known in outlines])

    @property
    def calls(self) -> tuple[bytes, ...]:
        """The ids of its calls and results."""
        known = (known_by(segment, self.envelope) for segment in self.segments)
        return tuple([name for name in known if name is not None])


class Mismatch(NamedTuple):
    """Two segments that correspond and differ, or one that the other side lacks; where it stands on the left."""

    left: Segment | None
    right: Segment | None
    position: int
    envelope: bytes
    alone: bool = False  # the message around it is still there

    @property
    def segment(self) -> Segment:
        """The left one, where there is one."""
        segment = self.left or self.right
        assert segment is not None
        return segment


_Pair: TypeAlias = tuple[Group | None, Group | None]


def grouped(segments: Iterable[Segment], start: int) -> list[Group]:
    """Put segments into messages; a part of one stands for itself."""
    messages: list[list[Segment]] = []
    for segment in segments:
        if segment.kind in ("envelope", "opaque") or not messages:
            messages.append([])
        messages[-1].append(segment)
    found: list[Group] = []
    for message in messages:
        found.append(Group(tuple(message), start))
        start += len(message)
    return found


def mismatches(left: Sequence[Group], right: Sequence[Group], *, grows: bool) -> list[Mismatch]:
    """Return where messages differ; where they grow, what comes behind the last one of the left is no difference."""
    found: list[Mismatch] = []
    for old, new in _paired(left, right, grows=grows):
        if old is None and new is not None:
            blocks = [segment for segment in new.segments if segment.kind != "envelope"] or new.segments
            found += [Mismatch(None, block, new.position, new.envelope) for block in blocks]
        elif new is None and old is not None:
            gone = [
                (n, segment)
                for n, segment in enumerate(old.segments)
                if segment.kind != "envelope" or len(old.segments) == 1
            ]
            found += [Mismatch(segment, None, old.position + n, old.envelope) for n, segment in gone]
        elif old is not None and new is not None:
            found += _inside(old, new, last=grows and old is left[-1])
    return sorted(found, key=lambda mismatch: mismatch.position)


def _paired(left: Sequence[Group], right: Sequence[Group], *, grows: bool) -> list[_Pair]:
    """Pair the messages that differ; one that was put in has the position before which it stands on the left."""
    found: list[_Pair] = []
    for gap in gaps([message.bytes for message in left], [message.bytes for message in right], grows=grows):
        old, new = left[gap.left.start : gap.left.stop], right[gap.right.start : gap.right.stop]
        end = left[gap.left.start].position if gap.left.start < len(left) else left[-1].end if left else 0
        if grows and gap.open and len(old) == 1 and new and _alike(old[0], new[0], {}):
            found.append((old[0], new[0]))  # the last one of the left, in its place: what is new came behind it
            continue
        i = j = 0
        contents = [[message.content for message in messages] for messages in (old, new)]
        inner = gaps(*contents, grows=grows and gap.open)
        for part in [*inner, DifferingRanges(range(len(old), len(old)), range(len(new), len(new)), open=True)]:
            found += zip(old[i : part.left.start], new[j : part.right.start], strict=False)  # spelled otherwise
            i, j = part.left.stop, part.right.stop
        for part in inner:
            begin = old[part.left.start].position if part.left.start < len(old) else end
            found += _guessed(
                old[part.left.start : part.left.stop], new[part.right.start : part.right.stop], begin,
                grows=grows and gap.open and part.open,
            )  # fmt: skip
    return found


def _guessed(left: Sequence[Group], right: Sequence[Group], end: int, *, grows: bool) -> list[_Pair]:
    """Pair messages of which none is equal: by their calls, else by their place and role."""
    if len(left) == len(right):
        return list(zip(left, right, strict=False))
    found: list[_Pair] = []
    calls, others = [message.calls for message in left], [message.calls for message in right]
    if grows and len(left) <= len(right) and any(calls) and calls == others[: len(calls)]:
        return list(zip(left, right, strict=False))  # the calls say which message is which
    words: dict[bytes, frozenset[bytes]] = {}
    places = {ids: n for n, ids in reversed(list(enumerate(others))) if ids}
    to = 0
    for old, ids in zip(left, calls, strict=True):
        place = places.get(ids, -1) if ids else -1
        if place < to:
            near_by = range(to, min(to + 8, len(right)))
            place = next(
                (n for n in near_by if bool(ids) == bool(others[n]) and _alike(old, right[n], words)), -1
            )  # fmt: skip
        if place < 0:
            found.append((old, None))
            continue
        found += [(None, Group(new.segments, old.position)) for new in right[to:place]]
        found.append((old, right[place]))
        to = place + 1
    if not grows:
        found += [(None, Group(new.segments, left[-1].end if left else end)) for new in right[to:]]
    return found


def _alike(old: Group, new: Group, words: dict[bytes, frozenset[bytes]]) -> bool:
    """Tell whether a message may have become another: of one role, some of its content or most of its text the same."""
    before, after = ([segment.data for segment in side.segments if segment.kind != "envelope"] for side in (old, new))
    if not before or not after or by_model(old.envelope) != by_model(new.envelope):
        return old.envelope == new.envelope
    if any(part in after for part in before):
        return True
    return near(before[0], after[0], words) or near(before[-1], after[-1], words)


def near(left: bytes, right: bytes, words: dict[bytes, frozenset[bytes]]) -> bool:
    """Tell whether two texts share much of their words; `words` holds those of texts that were compared before."""
    for text in (left, right):
        if text not in words:
            words[text] = frozenset(text[:_BEGINNING].split())
    return 2 * len(words[left] & words[right]) >= max(1, min(len(words[left]), len(words[right])))


def _inside(left: Group, right: Group, *, last: bool) -> list[Mismatch]:
    """Return how one message became another; what the last one gained at its end is no difference."""
    found: list[Mismatch] = []
    envelope = right.envelope or left.envelope
    for gap in gaps(left.bytes, right.bytes, grows=last):
        pairs = _matched(
            left.segments[gap.left.start : gap.left.stop], right.segments[gap.right.start : gap.right.stop], envelope
        )
        while last and gap.open and pairs and pairs[-1][0] is None:
            pairs.pop()
        at = left.position + gap.left.start
        for old, new in pairs:
            found.append(Mismatch(old, new, at, envelope, alone=True))
            at += old is not None
    return found


def _matched(
    left: Sequence[Segment], right: Sequence[Segment], envelope: bytes
) -> list[tuple[Segment | None, Segment | None]]:
    if len(left) == len(right):
        return list(zip(left, right, strict=True))
    free = list(right)
    found: list[tuple[Segment | None, Segment | None]] = []
    for old in left:
        place = next((n for n, new in enumerate(free) if _of_one_kind(old, new, envelope)), None)
        if place is None:
            found.append((old, None))
            continue
        found += [(None, new) for new in free[:place]]
        found.append((old, free[place]))
        free = free[place + 1 :]
    return [*found, *((None, new) for new in free)]


def _of_one_kind(old: Segment, new: Segment, envelope: bytes) -> bool:
    if old.kind != new.kind:
        return False
    ids = known_by(old, envelope), known_by(new, envelope)
    if ids != (None, None):
        return ids[0] == ids[1] and old.path.count(".") == new.path.count(".")
    return near(old.data, new.data, {})
