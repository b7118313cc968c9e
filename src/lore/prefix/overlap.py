"""Compare two prompts: how much of the previous one the current one repeats, byte for byte and in canonical form.

The previous prompt's tail is meant to be replaced and is not compared. A string as content and one text block of it
have the same canonical form. Shared segments are compared by identity, and only segments that differ are brought into
canonical form: a comparison costs O(segments that are not shared).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate, islice, takewhile
from itertools import chain as chained
from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.canonical import canonical, encode
from lore.model.jsonslice import leaf_in
from lore.model.limits import WORD_BYTES
from lore.model.mask import mask
from lore.model.results import DivergenceResult
from lore.model.turn import Prompt, Section, Segment
from lore.model.vector import Vector, common_prefix

Relation: TypeAlias = Literal["identical", "extension", "shrunk", "diverged", "unrelated"]

MASKED_BYTES = 4096  # around an excerpt that are masked with it: longer than a credential, except private keys
_EXCERPT_BEFORE, _EXCERPT_AFTER = 20, 80
_PIECE = 24  # bytes before and after a difference
_SECTIONS: tuple[Section, ...] = ("tools", "system", "messages")


class Overlap(Struct, frozen=True):
    """What two prompts have in common, up to the previous one's tail."""

    common: int  # leading segments that are equal byte for byte
    common_bytes: int  # equal leading bytes of the first segment that differs
    canonical: int  # leading segments that are equal in canonical form
    is_covered: bool  # the previous prompt, without its tail, is a prefix of the current one
    is_covered_canonically: bool  # the same, in canonical form


def compare_prompts(previous: Prompt, current: Prompt) -> Overlap:
    """Return what the current prompt repeats of the previous one without its tail; O(segments not shared)."""
    common = count_shared_segments(previous, current)
    if common == previous.stable:
        return Overlap(common, 0, common, is_covered=True, is_covered_canonically=True)
    common_bytes = _count_common_bytes(previous.segment_at(common), current.segment_at(common))
    pairs = zip(iterate_from(previous, common, tail=False), iterate_from(current, common, tail=True), strict=False)
    same = common + sum(1 for _ in takewhile(lambda pair: has_same_content(*pair), pairs))
    return Overlap(common, common_bytes, same, is_covered=False, is_covered_canonically=same == previous.stable)


def count_cached_segments(prompt: Prompt) -> int:
    """Count the leading segments that a prompt asks to be cached: up to its last breakpoint, or all before its tail."""
    if prompt.breakpoints and not prompt.auto_breakpoint:
        return prompt.breakpoints[-1] + 1
    return prompt.stable


def count_shared_segments(previous: Prompt, current: Prompt) -> int:
    """Count the leading segments that are equal byte for byte; the previous prompt's tail is not counted."""
    if previous.head is not current.head:
        same = common_prefix(previous.head, current.head)
        if same < max(len(previous.head), len(current.head)):
            return same
    shared = previous.messages.common(current.messages)
    if shared == len(current.messages):
        shared += common_prefix(tuple(islice(previous.messages.since(shared), len(current.tail))), current.tail)
    return len(previous.head) + shared


def _count_common_bytes(previous: Segment | None, current: Segment | None) -> int:
    if previous is None or current is None or not _are_of_one_kind(previous, current):
        return 0
    return common_prefix(previous.data, current.data)


def _are_of_one_kind(previous: Segment, current: Segment) -> bool:
    return previous.section == current.section and previous.kind == current.kind


def iterate_from(prompt: Prompt, position: int, *, tail: bool) -> Iterator[Segment]:
    """Iterate over a prompt's segments from number `position` (0: the first) on, with or without its tail."""
    head = len(prompt.head)
    if position >= head:
        messages = prompt.messages.since(position - head)
    else:
        messages = chained(islice(prompt.head, position, None), prompt.messages)
    return chained(messages, islice(prompt.tail, max(0, position - prompt.stable), None)) if tail else messages


# Canonical form


def has_same_content(previous: Segment, current: Segment) -> bool:
    """Return whether two segments have the same section and kind, and are equal in canonical form."""
    if not _are_of_one_kind(previous, current):
        return False
    return previous.data == current.data or canonical_of(previous) == canonical_of(current)


_RESPONSES_TEXT_TYPES = (b',"type":"input_text"}', b',"type":"output_text"}')


def canonical_of(segment: Segment) -> bytes:
    """Return a segment's canonical JSON; a block that is a string, or bare `input_text`/`output_text`, as `text`."""
    data = segment.json
    if data[:1] == b'"' and segment.kind in ("block", "text"):
        data = b'{"type":"text","text":' + data + b"}"
    encoded = canonical(data)
    if encoded.endswith(_RESPONSES_TEXT_TYPES) and encoded.startswith(b'{"text":'):
        return encoded[: encoded.rindex(b',"type":')] + b',"type":"text"}'
    return encoded


def split_fresh_segments(previous: Prompt, current: Prompt, common: int) -> tuple[list[Segment], list[Segment]]:
    """Return the current segments after the first `common`: a list of those that are new, and one of the others."""
    form_of = cache(canonical_of)  # most segments are in both prompts, and most envelopes are equal
    previous_counts = Counter(map(form_of, iterate_from(previous, common, tail=True)))
    fresh, repeated = list[Segment](), list[Segment]()
    for segment in iterate_from(current, common, tail=True):
        form = form_of(segment)
        (repeated if previous_counts[form] > 0 else fresh).append(segment)
        previous_counts[form] -= 1
    return fresh, repeated


def list_new_segments(previous: Prompt, current: Prompt, overlap: Overlap) -> list[Segment]:
    """Return the segments at the end of the current prompt after the last one that the previous prompt has, too.

    If it has none, as with other ids in each, the messages beyond the previous number of messages are new.
    """
    old = {segment.data for segment in iterate_from(previous, overlap.common, tail=True) if segment.kind != "envelope"}
    remaining = list(iterate_from(current, overlap.canonical, tail=True))
    for place in range(len(remaining), 0, -1):
        if remaining[place - 1].data in old:
            return remaining[place:]
    counts = [sum(segment.kind == "envelope" for segment in side.messages) for side in (previous, current)]
    envelopes = [place for place, segment in enumerate(remaining) if segment.kind == "envelope"]
    added = min(counts[1] - counts[0], len(envelopes))
    return remaining[envelopes[-added] :] if added > 0 else []


# Relation, and the first difference


def name_relation(previous: Prompt, current: Prompt, overlap: Overlap) -> Relation:
    """Return how the current prompt relates to the previous one.

    - `extension`: it begins with the previous one up to its tail; `identical`: the tails are equal, too.
    - `shrunk`: the previous prompt begins with the whole current one.
    - `unrelated`: the dialects differ, or they share no message, nor over half of the first message that differs; if
      one has no messages, their heads differ. But a prompt with a `previous_response_id` extends one without messages:
      a client may send tools first.
    """
    continues = overlap.is_covered and not len(previous.messages) and "previous_response_id" in current.params
    if previous.dialect != current.dialect:
        return "unrelated"
    if not continues and not _share_message(previous, current):
        rewritten, place = previous.segment_at(overlap.common), locate_difference(previous, current, overlap.common)
        # the first message that differs may hold a log that grows
        if rewritten is None or place is None or place.section != "messages" or 2 * place.offset <= len(rewritten.data):
            return "unrelated"
    if overlap.is_covered:
        new_segments = list(iterate_from(current, previous.stable, tail=True))
        return "identical" if len(previous) == len(current) and list(previous.tail) == new_segments else "extension"
    return "shrunk" if overlap.common == len(current) else "diverged"


def _share_message(previous: Prompt, current: Prompt) -> bool:
    if not len(previous.messages) or not len(current.messages):
        return previous.head == current.head
    if previous.messages[0] == current.messages[0] and previous.messages.common(current.messages) > 1:
        return True
    blocks, new_blocks = (
        [segment for segment in side.messages if segment.kind != "envelope"] for side in (previous, current)
    )
    contents = {segment.data for segment in blocks}
    if any(segment.data in contents for segment in new_blocks):
        return True
    return not set(map(canonical_of, blocks)).isdisjoint(map(canonical_of, new_blocks))


class PromptPlace(Struct, frozen=True):
    """A place in a prompt."""

    section: Section  # the part of the prompt
    path: str  # of the innermost JSON value
    offset: int  # in bytes of that value


def find_divergence(previous: Prompt, current: Prompt, overlap: Overlap, bytes_before: int) -> DivergenceResult | None:
    """Return the first differing byte before the previous prompt's tail, with excerpts; None if none differs.

    `bytes_before` is the size of the segments that are equal, without punctuation between them.
    """
    place = None if overlap.is_covered else locate_difference(previous, current, overlap.common)
    if place is None:
        return None
    excerpts = [excerpt(side.segment_at(overlap.common), overlap.common_bytes) for side in (previous, current)]
    return DivergenceResult(place.section, place.path, place.offset, bytes_before + overlap.common_bytes, *excerpts)


def locate_difference(previous: Prompt, current: Prompt, position: int) -> PromptPlace | None:
    """Return where the segments at number `position` begin to differ; None if neither prompt has one."""
    return locate_between(previous.segment_at(position), current.segment_at(position))


def locate_between(*sides: Segment | None) -> PromptPlace | None:
    """Return where two segments begin to differ: at the start of one if the other is missing; None if both are."""
    present = (side for side in sides if side is not None)
    segment = min(present, key=lambda side: _SECTIONS.index(side.section), default=None)
    if segment is None:
        return None
    common_bytes = _count_common_bytes(*sides)
    brace = len(segment.json) > len(segment.data)  # before an envelope's members
    path, start = leaf_in(segment.json, common_bytes + brace)
    return PromptPlace(segment.section, segment.path + path, common_bytes - max(0, start - brace))


def excerpt(segment: Segment | None, at: int, before: int = _EXCERPT_BEFORE, after: int = _EXCERPT_AFTER) -> str:
    """Return `before` bytes before byte `at` of a segment and `after` from it on, as text; empty for None.

    Credentials are masked, also those that reach beyond the excerpt. Code points that are cut at its ends are left out.
    """
    if segment is None:
        return ""
    data = segment.data
    start, key = max(0, at - MASKED_BYTES), data.rfind(b"-----BEGIN", 0, at)
    if start:  # begin with a whole word, which may be a longer credential
        start = max(data.rfind(edge, max(0, start - WORD_BYTES), start) + 1 for edge in (b" ", b'"', b"\n"))
    if key >= 0 and data.find(b"-----END", key, at) < 0:  # inside a private key
        start = min(start, key)
    text = data[start : at + max(MASKED_BYTES, after)].decode("latin-1")  # one character for each byte
    masked = mask(text).encode("latin-1")
    return masked[max(0, at - before) - start : at + after - start].decode("utf-8", "ignore")


def excerpt_pair(previous: Segment, current: Segment) -> tuple[str, str]:
    """Return excerpts of two segments around the first byte in which they differ."""
    at = common_prefix(previous.data, current.data)
    return excerpt(previous, at, _PIECE, _PIECE), excerpt(current, at, _PIECE, _PIECE)


def excerpt_pieces(
    previous: Segment, current: Segment, texts: tuple[str, str], pieces: tuple[str, str]
) -> tuple[str, str]:
    """Return excerpts of two segments around the first byte in which `pieces` of their decoded `texts` differ.

    If a piece is empty, something was inserted or removed: both show that place.
    """
    before, after = _json_text(pieces[0]), _json_text(pieces[1])
    if before and after:
        at = common_prefix(before, after)
        excerpts: list[str] = []
        for segment, text, piece in ((previous, texts[0], before), (current, texts[1], after)):
            # with the piece's surroundings in the segment, else in the decoded text, else without any
            holder = next(data for data in (segment.data, _json_text(text), piece) if piece in data)
            start = holder.find(piece) + at
            excerpts.append(excerpt(Segment(segment.section, "", holder), start, _PIECE, _PIECE))
        return excerpts[0], excerpts[1]
    holder, other = (previous, current) if before else (current, previous)
    start = max(0, holder.data.find(before or after))
    leading = holder.data[max(0, start - 2 * _PIECE) : start]
    at = other.data.find(leading)
    if not leading or at < 0:
        return excerpt_pair(previous, current)
    pair = excerpt(holder, start, _PIECE, _PIECE), excerpt(other, at + len(leading), _PIECE, _PIECE)
    if pair[0] == pair[1]:  # what was inserted repeats what follows it
        return excerpt_pair(previous, current)
    return pair if before else (pair[1], pair[0])


def _json_text(text: str) -> bytes:
    """Return a text as JSON writes it, without quotes."""
    return encode(text.encode("utf-8", "replace").decode())[1:-1]


# Sums over a chain


class PairSums(Struct, frozen=True):
    """The sums of one figure (bytes, tokens) over two prompts."""

    previous: int  # for the whole previous prompt, its tail included
    current: int  # for the whole current prompt, its tail included
    common: int  # for the segments that they share


class ChainSums:
    """The sums of one figure (bytes, tokens) over the successive prompts of a chain.

    A segment is measured once while it stays in the prefix: each step costs O(new segments). Head and messages are
    summed separately, so that a head that changes in every turn does not make the history new.
    """

    def __init__(self, measure: Callable[[Segment], int]) -> None:
        self._measure = measure
        self._head = [0]  # the sums over the first 0, 1, … segments of the head
        self._sums = [0]  # the same for the messages
        self._messages: Vector[Segment] = Vector()
        self.tail = 0  # the figure for the latest prompt's tail

    def advance(self, prompt: Prompt, common: int) -> PairSums:
        """Add the next prompt; its first `common` segments are those of the latest one. Return both sums."""
        previous = self._head[-1] + self._sums[-1] + self.tail
        size = len(prompt.head)
        same_head = min(common, size, len(self._head) - 1)
        same = common - size if common > size else self._messages.common(prompt.messages)
        same = min(same, len(self._sums) - 1)
        new_head, new_messages = prompt.head[same_head:], prompt.messages.since(same)
        for sums, first, new in ((self._head, same_head, new_head), (self._sums, same, new_messages)):
            del sums[first + 1 :]
            sums += islice(accumulate(map(self._measure, new), initial=sums[-1]), 1, None)
        self._messages = prompt.messages
        self.tail = sum(map(self._measure, prompt.tail)) if prompt.tail else 0
        shared = self.sum_before(common)
        if prompt.tail and common > prompt.stable:
            shared += sum(self._measure(segment) for segment in prompt.tail[: common - prompt.stable])
        return PairSums(previous, self._head[-1] + self._sums[-1] + self.tail, shared)

    def sum_before(self, position: int) -> int:
        """Return the sum over the first `position` segments of the latest prompt, without its tail's."""
        size = len(self._head) - 1
        if position <= size:
            return self._head[position]
        return self._head[-1] + self._sums[min(position - size, len(self._sums) - 1)]


def byte_size(segment: Segment) -> int:
    """Return the number of bytes of a segment's data."""
    return len(segment.data)


def count_canonical_bytes(sums: ChainSums, previous: Prompt, current: Prompt, overlap: Overlap) -> int:
    """Return the canonical bytes that two prompts share; `sums` are of canonical sizes, advanced up to `previous`."""
    position, shared = overlap.canonical, sums.sum_before(overlap.canonical)
    before, after = previous.segment_at(position), current.segment_at(position)
    if position < previous.stable and before is not None and after is not None and _are_of_one_kind(before, after):
        shared += common_prefix(canonical_of(before), canonical_of(after))  # of the first segment that differs
    return shared
