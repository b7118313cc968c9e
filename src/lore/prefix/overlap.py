"""Compare two prompts: the longest common prefix, as bytes stand and in canonical form.

In: a left and a right prompt. Out: positions. Rules: the left's tail is meant to be replaced and is not
compared; shared segments are compared by identity; only segments that differ are put into canonical
form; a string as content and one text block of it have the same canonical form.

Cost: O(segments that are not shared).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as chained
from itertools import islice, zip_longest
from typing import Literal, TypeAlias

from msgspec import Struct

from lore.model.canonical import canonical, letters
from lore.model.prompt import Prompt, Segment
from lore.model.vector import common_prefix

Relation: TypeAlias = Literal["identical", "extension", "shrunk", "diverged", "unrelated"]


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
    common = _common(left, right)
    if common == left.stable:
        return Overlap(common, 0, common, covered=True, covered_canonical=True)
    mine, theirs = left.at(common), right.at(common)
    inside = 0
    if mine is not None and theirs is not None and mine.section == theirs.section and mine.kind == theirs.kind:
        inside = common_prefix(mine.data, theirs.data)
    same = common
    pairs = zip_longest(since(left, common, tail=False), since(right, common, tail=True))
    for mine, theirs in pairs:
        if mine is None or theirs is None or not same_content(mine, theirs):
            break
        same += 1
    return Overlap(common, inside, same, covered=False, covered_canonical=same == left.stable)


def _common(left: Prompt, right: Prompt) -> int:
    if left.head is not right.head:
        count = 0
        for mine, theirs in zip(left.head, right.head, strict=False):
            if mine != theirs:
                return count
            count += 1
        if len(left.head) != len(right.head):
            return count
    shared = left.messages.common(right.messages)
    count = len(left.head) + shared
    if shared == len(right.messages):
        for mine, theirs in zip(left.messages.since(shared), right.tail, strict=False):
            if mine != theirs:
                break
            count += 1
    return count


def since(prompt: Prompt, position: int, *, tail: bool) -> Iterator[Segment]:
    """Iterate over a prompt's segments from a position on."""
    head = len(prompt.head)
    if position >= head:
        messages = prompt.messages.since(position - head)
    else:
        messages = chained(islice(prompt.head, position, None), prompt.messages)
    return chained(messages, islice(prompt.tail, max(0, position - prompt.stable), None)) if tail else messages


def same_content(mine: Segment, theirs: Segment) -> bool:
    """Tell whether two segments are equal in canonical form."""
    if mine.section != theirs.section or mine.kind != theirs.kind:
        return False
    if mine.data == theirs.data:
        return True
    one, other = outline(mine), outline(theirs)
    return (one is None or other is None or one == other) and canonical_of(mine) == canonical_of(theirs)


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


def canonical_of(segment: Segment) -> bytes:
    """Return a segment's canonical encoding."""
    data = segment.data
    if segment.kind == "envelope":
        return canonical(b"{" + data + b"}")
    if data[:1] == b'"' and segment.kind in ("block", "text"):
        data = b'{"type":"text","text":' + data + b"}"
    made = canonical(data)
    if made.endswith(_TEXTS) and made.startswith(b'{"text":'):
        return made[: made.rindex(b',"type":')] + b',"type":"text"}'
    return made


_TEXTS = (b',"type":"input_text"}', b',"type":"output_text"}')  # how OpenAI's Responses API names a text block


def relation(left: Prompt, right: Prompt, found: Overlap) -> Relation:
    """Name how the right prompt stands to the left one."""
    if left.dialect != right.dialect or not (_shares_message(left, right) or _continues(left, right, found)):
        return "unrelated"
    if found.covered:
        same = len(left) == len(right) and list(left.tail) == list(since(right, left.stable, tail=True))
        return "identical" if same else "extension"
    return "shrunk" if found.common == len(right) else "diverged"


def _continues(left: Prompt, right: Prompt, found: Overlap) -> bool:
    """Tell whether a request goes on from one that said nothing yet: a client may send its tools ahead."""
    return found.covered and not len(left.messages) and "previous_response_id" in right.params


def _shares_message(left: Prompt, right: Prompt) -> bool:
    if not len(left.messages) or not len(right.messages):
        return left.head == right.head
    if left.messages[0] == right.messages[0] and left.messages.common(right.messages) > 1:
        return True
    mine, theirs = ([one for one in side.messages if one.kind != "envelope"] for side in (left, right))
    contents = {segment.data for segment in mine}
    if any(segment.data in contents for segment in theirs):
        return True
    return _same_content_among(mine, theirs)


def _same_content_among(mine: list[Segment], theirs: list[Segment]) -> bool:
    """Tell whether any two segments have one content; each is put into canonical form once at most."""
    alike: dict[tuple[int, ...] | None, list[Segment]] = {}
    for segment in mine:
        alike.setdefault(outline(segment), []).append(segment)
    spelled: dict[tuple[int, ...] | None, set[bytes]] = {}
    for segment in theirs:
        own = outline(segment)
        made = b""
        for key in alike if own is None else {own, None} & alike.keys():
            made = made or canonical_of(segment)
            if key not in spelled:
                spelled[key] = {canonical_of(one) for one in alike[key]}
            if made in spelled[key]:
                return True
    return False
