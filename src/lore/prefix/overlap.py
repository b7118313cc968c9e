"""Compare two prompts: what is common as bytes stand and in canonical form, where they part, how much it is.

In: a left and a right prompt. Out: positions, the first difference, sums. Rules: the left's tail is meant to be
replaced and is not compared; shared segments are compared by identity; only segments that differ are put into
canonical form; a string as content and one text block of it have the same canonical form.

Cost: O(segments that are not shared).

Ends of requests: which earlier request of a recording a prompt goes on from, if that is not its chain's last one. In:
the prompts of all chains, in order. Out: for each the request whose end (its last breakpoint, else all of it) is the
furthest beginning of the prompt, where that lies behind what the prompt shares with its chain's last request; and who
passed that end last, for a cache's lifetime counts from there. Rules: model, dialect, place and key are the same, for
each has a cache of its own; a request that failed ended nowhere. Beginnings are known by a running hash, made once for
as long as a chain sends the same segments again: cost O(segments that are not shared with the chain's last request).
Memory: the latest `ENDED_REQUESTS` requests, and a hash a segment of a chain's latest prompt.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from itertools import islice, takewhile
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from lore.model.canonical import canonical, letters
from lore.model.jsonslice import leaf_in
from lore.model.limits import ENDED_REQUESTS, WORD_BYTES
from lore.model.mask import mask
from lore.model.providers import place_in
from lore.model.results import DivergenceResult
from lore.model.turn import Prompt, Section, Segment, Turn
from lore.model.vector import Vector, common_prefix

Relation: TypeAlias = Literal["identical", "extension", "shrunk", "diverged", "unrelated"]

BEFORE, AFTER = 20, 80
WIDE = 4096  # a credential is shorter, private keys aside, which are looked for from their beginning
_ORDER = ("tools", "system", "messages")


class Overlap(Struct, frozen=True):
    """What two prompts share.

    `common` leading segments are equal byte for byte, `canonical` in canonical form; `inside` counts the
    equal bytes of the first segment that is not. `covered`: the left, without its tail, is a prefix of
    the right; `covered_canonical` likewise in canonical form.
    """

    common: int
    inside: int
    canonical: int
    covered: bool
    covered_canonical: bool


def overlap(left: Prompt, right: Prompt) -> Overlap:
    """Compare two prompts up to the left's tail."""
    common = shared_segments(left, right)
    if common == left.stable:
        return Overlap(common, 0, common, covered=True, covered_canonical=True)
    inside = _inside(left.at(common), right.at(common))
    rest = zip(since(left, common, tail=False), since(right, common, tail=True), strict=False)
    same = common + sum(1 for _ in takewhile(lambda pair: same_content(*pair), rest))
    return Overlap(common, inside, same, covered=False, covered_canonical=same == left.stable)


def limit_of(left: Prompt) -> int:
    """Count the leading segments that the left prompt wanted cached: up to its last breakpoint, or all."""
    if left.breakpoints and not left.auto_breakpoint:
        return left.breakpoints[-1] + 1
    return left.stable


def shared_segments(left: Prompt, right: Prompt) -> int:
    """Count the leading segments that are equal byte for byte, up to the left's tail."""
    if left.head is not right.head:
        same = common_prefix(left.head, right.head)
        if same < max(len(left.head), len(right.head)):
            return same
    shared = left.messages.common(right.messages)
    if shared == len(right.messages):
        shared += common_prefix(tuple(islice(left.messages.since(shared), len(right.tail))), right.tail)
    return len(left.head) + shared


def _inside(left: Segment | None, right: Segment | None) -> int:
    """Count the equal bytes of two segments of one kind."""
    if left is None or right is None or (left.section, left.kind) != (right.section, right.kind):
        return 0
    return common_prefix(left.data, right.data)


def since(prompt: Prompt, position: int, *, tail: bool) -> Iterator[Segment]:
    """Iterate over a prompt's segments from a position on."""
    head = len(prompt.head)
    if position >= head:
        messages = prompt.messages.since(position - head)
    else:
        messages = chained(islice(prompt.head, position, None), prompt.messages)
    return chained(messages, islice(prompt.tail, max(0, position - prompt.stable), None)) if tail else messages


def same_content(left: Segment, right: Segment) -> bool:
    """Tell whether two segments are equal in canonical form."""
    if left.section != right.section or left.kind != right.kind:
        return False
    if left.data == right.data:
        return True
    outlines = outline(left), outline(right)
    return (None in outlines or outlines[0] == outlines[1]) and canonical_of(left) == canonical_of(right)


def outline(segment: Segment) -> tuple[int, ...] | None:
    """Return numbers that are the same for all segments of one canonical form; None where they are not known cheaply.

    Two long segments with the same numbers have nearly always the same content.
    """
    data = segment.data
    found = letters(data)
    if found is None:
        return None
    if data[:1] == b'"' and segment.kind in ("block", "text"):
        return found[0] + _WRAPPED, *found[1:]
    return found[0] - (b'put_text"' in data) * _PUT, *found[1:]


# How many letters there are in what a string lacks and its block has (none of those counted apart), and in what the
# Responses API writes before `text`: as many in "output_".
_WRAPPED, _PUT = 4, 2
_TEXTS = (b',"type":"input_text"}', b',"type":"output_text"}')  # how OpenAI's Responses API names a text block


def canonical_of(segment: Segment) -> bytes:
    """Return a segment's canonical encoding."""
    data = segment.json
    if data[:1] == b'"' and segment.kind in ("block", "text"):
        data = b'{"type":"text","text":' + data + b"}"
    made = canonical(data)
    if made.endswith(_TEXTS) and made.startswith(b'{"text":'):
        return made[: made.rindex(b',"type":')] + b',"type":"text"}'
    return made


def relation(left: Prompt, right: Prompt, found: Overlap) -> Relation:
    """Name how the right prompt stands to the left one.

    A request goes on from one that said nothing yet, too: a client may send its tools ahead.
    """
    continues = found.covered and not len(left.messages) and "previous_response_id" in right.params
    if left.dialect != right.dialect or not (continues or _shares_message(left, right)):
        return "unrelated"
    if found.covered:
        same = len(left) == len(right) and list(left.tail) == list(since(right, left.stable, tail=True))
        return "identical" if same else "extension"
    return "shrunk" if found.common == len(right) else "diverged"


def _shares_message(left: Prompt, right: Prompt) -> bool:
    if not len(left.messages) or not len(right.messages):
        return left.head == right.head
    if left.messages[0] == right.messages[0] and left.messages.common(right.messages) > 1:
        return True
    before, after = ([segment for segment in side.messages if segment.kind != "envelope"] for side in (left, right))
    contents = {segment.data for segment in before}
    if any(segment.data in contents for segment in after):
        return True
    contents = set(map(canonical_of, before))
    return any(canonical_of(segment) in contents for segment in after)


class PromptPlace(Struct, frozen=True):
    """A place in a prompt: section, path of the innermost JSON value, byte inside it."""

    section: Section
    path: str
    offset: int


def divergence(left: Prompt, right: Prompt, found: Overlap, before: int) -> DivergenceResult | None:
    """Return the first difference up to the left's tail; None where there is none.

    `before` counts the bytes of the segments before it (punctuation between segments is not counted). The text shown
    is 20 bytes before it and 80 behind, empty where a side has ended.
    """
    where = None if found.covered else place_of(left, right, found.common)
    if where is None:
        return None
    shown = [excerpt(side.at(found.common), found.inside) for side in (left, right)]
    return DivergenceResult(where.section, where.path, where.offset, before + found.inside, *shown)


def place_of(left: Prompt, right: Prompt, position: int) -> PromptPlace | None:
    """Return where the segments at a position begin to differ."""
    sides = left.at(position), right.at(position)
    held = (side for side in sides if side is not None)
    segment = min(held, key=lambda side: _ORDER.index(side.section), default=None)
    if segment is None:
        return None
    inside = _inside(*sides)
    brace = len(segment.json) > len(segment.data)  # before an envelope's members
    path, start = leaf_in(segment.json, inside + brace)
    return PromptPlace(segment.section, segment.path + path, inside - max(0, start - brace))


def excerpt(segment: Segment | None, at: int, before: int = BEFORE, after: int = AFTER) -> str:
    """Return the text around a byte of a segment, credentials masked, also one that reaches over its ends.

    Code points that are cut at the ends are left out.
    """
    if segment is None:
        return ""
    start, key = max(0, at - WIDE), segment.data.rfind(b"-----BEGIN", 0, at)
    if start:  # not from within a word, which may be a longer credential
        start = max(segment.data.rfind(edge, max(0, start - WORD_BYTES), start) + 1 for edge in (b" ", b'"', b"\n"))
    if key >= 0 and segment.data.find(b"-----END", key, at) < 0:  # a private key that is still open
        start = min(start, key)
    plain = segment.data[start : at + max(WIDE, after)].decode("latin-1")  # one character a byte
    hidden = mask(plain).encode("latin-1")
    return hidden[max(0, at - before) - start : at + after - start].decode("utf-8", "ignore")


class PairSums(NamedTuple):
    """The figure for the prompt before, the prompt now (both with their tails), and what is common."""

    left: int
    right: int
    common: int


class ChainSums:
    """Follow the sum of one figure (bytes, tokens) through the prompts of a chain.

    A segment is weighed when it is new, never again while it stays in the prefix; each step costs O(segments that are
    new). Head and messages are summed apart: a head that changes every turn does not make the history new.
    """

    def __init__(self, weigh: Callable[[Segment], int]) -> None:
        self._weigh = weigh
        self._head = [0]
        self._sums = [0]
        self._messages: Vector[Segment] = Vector()
        self.tail = 0  # the figure for the latest prompt's tail

    def advance(self, prompt: Prompt, common: int) -> PairSums:
        """Go on to the next prompt, whose first `common` segments are those of the last one."""
        left = self._head[-1] + self._sums[-1] + self.tail
        size = len(prompt.head)
        same = common - size if common > size else self._messages.common(prompt.messages)
        kept = min(common, size, len(self._head) - 1)
        self._go_on(self._head, kept, prompt.head[kept:])
        same = min(same, len(self._sums) - 1)
        self._go_on(self._sums, same, prompt.messages.since(same))
        self._messages = prompt.messages
        self.tail = sum(map(self._weigh, prompt.tail)) if prompt.tail else 0
        shared = self.upto(common)
        if prompt.tail and common > prompt.stable:
            shared += sum(self._weigh(segment) for segment in prompt.tail[: common - prompt.stable])
        return PairSums(left, self._head[-1] + self._sums[-1] + self.tail, shared)

    def _go_on(self, sums: list[int], kept: int, new: Iterable[Segment]) -> None:
        del sums[kept + 1 :]
        total, weigh = sums[-1], self._weigh
        for segment in new:
            total += weigh(segment)
            sums.append(total)

    def upto(self, position: int) -> int:
        """Return the sum over the latest prompt's first `position` segments, tail excluded."""
        size = len(self._head) - 1
        if position <= size:
            return self._head[position]
        return self._head[-1] + self._sums[min(position - size, len(self._sums) - 1)]


def size(segment: Segment) -> int:
    """Weigh a segment in bytes."""
    return len(segment.data)


class CommonCanonical:
    """Count the common canonical bytes of the successive prompts of a chain, in the left's canonical encoding.

    Sums are made as far as they are asked for: a prompt that parts early costs what it shares; what two prompts share
    is weighed once.
    """

    def __init__(self, first: Prompt) -> None:
        self._sums = [0]
        self._prompt = first

    def advance(self, left: Prompt, right: Prompt, found: Overlap) -> int:
        """Go on to the right prompt."""
        position, sums = found.canonical, self._sums
        known = len(sums) - 1
        for segment in islice(since(self._prompt, known, tail=True), max(0, position - known)):
            sums.append(sums[-1] + len(canonical_of(segment)))
        shared = sums[min(position, len(sums) - 1)]
        before, after = left.at(position), right.at(position)
        if position < left.stable and before is not None and after is not None:
            alike = (before.section, before.kind) == (after.section, after.kind)
            shared += common_prefix(canonical_of(before), canonical_of(after)) if alike else 0
        del sums[found.common + 1 :]
        self._prompt = right
        return shared


# ends of requests

_ON_PATH = 8  # of a chain: a request rarely takes back more than a few


@dataclass(slots=True, eq=False)
class End:
    """Where a request ended: its first `size` segments, known by `key`. `used` is the last request that had them."""

    turn: Turn
    key: int
    size: int
    used: Turn


@dataclass(slots=True, eq=False)
class _Path:
    """A chain's latest request: a running hash behind each of its segments, and the ends that it passes."""

    turn: Turn
    hashes: list[int]
    ends: list[End] = field(default_factory=list[End])


class Ends:
    """The ends of the requests of one recording."""

    def __init__(self, kept: int = ENDED_REQUESTS) -> None:
        self._kept = kept
        self._ends: OrderedDict[int, End] = OrderedDict()
        self._paths: dict[str, _Path] = {}

    def take(self, turn: Turn) -> End | None:
        """Take the next request; return the end that it goes on from, None where that is no other than its chain's."""
        prompt, path = turn.prompt, self._paths.get(turn.chain)
        limit = limit_of(prompt)
        shared = 0 if path is None else _shared(path.turn, turn)
        hashes = [] if path is None else path.hashes
        passed = [] if path is None else [end for end in path.ends if end.size <= shared]
        del hashes[shared:]
        found = self._walk(turn, hashes)
        own = End(turn, hashes[limit - 1], limit, turn) if limit else None
        if own is not None:
            self._ends.pop(own.key, None)
            self._ends[own.key] = own
            if len(self._ends) > self._kept:
                self._ends.popitem(last=False)
        earlier = None if found is None else replace(found)
        ends = [*passed, *([] if found is None else [found]), *([] if own is None else [own])][-_ON_PATH:]
        for end in ends:
            end.used = turn
        self._paths[turn.chain] = _Path(turn, hashes, ends)
        return None if path is None else earlier

    def forget(self, chains: Iterable[str]) -> None:
        """Let go of chains that no request continues."""
        for chain in chains:
            self._paths.pop(chain, None)

    def _walk(self, turn: Turn, hashes: list[int]) -> End | None:
        """Add the hashes of what is new; return the furthest end among it that another request had."""
        place, found = len(hashes), None
        running = hashes[-1] if hashes else hash(_space(turn))
        for size, segment in enumerate(since(turn.prompt, place, tail=False), place + 1):
            running = hash((running, segment))
            hashes.append(running)
            end = self._ends.get(running)
            if end is not None and end.size == size and shared_segments(end.turn.prompt, turn.prompt) >= size:
                found = end
        return found


def _space(turn: Turn) -> tuple[str | None, ...]:
    """Return what keeps caches apart, whatever stands in the prompt."""
    call = turn.call
    asked = place_in(call.endpoint), call.account, call.answered_by, call.deployment
    return turn.prompt.model, turn.prompt.dialect, *asked


def _shared(left: Turn, right: Turn) -> int:
    """Count the leading segments that two requests share; none where their caches are kept apart."""
    if _space(left) != _space(right):
        return 0
    return min(shared_segments(left.prompt, right.prompt), left.prompt.stable, right.prompt.stable)
