"""Describe the first place where two prompts differ."""

from __future__ import annotations

from msgspec import Struct

from lore.model.jsonslice import leaf_in
from lore.model.mask import mask
from lore.model.prompt import Prompt, Section, Segment
from lore.model.vector import common_prefix
from lore.prefix.overlap import Overlap

BEFORE, AFTER = 20, 80
WIDE = 4096  # a credential is shorter, private keys aside, which are looked for from their beginning


class Place(Struct, frozen=True):
    """A place in a prompt: section, path of the innermost JSON value, byte inside it."""

    section: Section
    path: str
    offset: int


class Divergence(Struct, frozen=True):
    """Where two prompts part.

    `path` names the innermost JSON value, `offset` the byte inside it, `prompt_offset` the byte in the
    prompt (punctuation between segments not counted); `left` and `right` are the text around it, 20
    bytes before and 80 after, empty where a side has ended.
    """

    section: Section
    path: str
    offset: int
    prompt_offset: int
    left: str
    right: str


def divergence(left: Prompt, right: Prompt, found: Overlap, before: int) -> Divergence | None:
    """Return the first difference up to the left's tail; None where there is none.

    `before` counts the bytes of the segments before it.
    """
    if found.covered:
        return None
    where = place_of(left, right, found.common)
    if where is None:
        return None
    return Divergence(
        section=where.section,
        path=where.path,
        offset=where.offset,
        prompt_offset=before + found.inside,
        left=excerpt(left.at(found.common), found.inside),
        right=excerpt(right.at(found.common), found.inside),
    )


_ORDER = {"tools": 0, "system": 1, "messages": 2}


def place_of(left: Prompt, right: Prompt, position: int) -> Place | None:
    """Return where the segments at a position begin to differ."""
    mine, theirs = left.at(position), right.at(position)
    segment = theirs if mine is None or (theirs is not None and _earlier(theirs, mine)) else mine
    if segment is None:
        return None
    inside = 0
    if mine is not None and theirs is not None and (mine.section, mine.kind) == (theirs.section, theirs.kind):
        inside = common_prefix(mine.data, theirs.data)
    suffix, start = _leaf(segment, inside)
    return Place(segment.section, segment.path + suffix, inside - start)


def _earlier(one: Segment, other: Segment) -> bool:
    return _ORDER[one.section] < _ORDER[other.section]


def _leaf(segment: Segment, inside: int) -> tuple[str, int]:
    if segment.kind == "envelope":
        leaf = leaf_in(b"{" + segment.data + b"}", inside + 1)
        return leaf.path, max(0, leaf.start - 1)
    leaf = leaf_in(segment.data, inside)
    return leaf.path, leaf.start


def _open_key(data: bytes, at: int) -> int:
    """Return where a private key begins that is still open at a byte; the byte itself where none is."""
    begin = data.rfind(b"-----BEGIN", 0, at)
    return at if begin < 0 or data.find(b"-----END", begin, at) >= 0 else begin


def excerpt(segment: Segment | None, at: int, before: int = BEFORE, after: int = AFTER) -> str:
    """Return the text around a byte of a segment, credentials masked, also one that reaches over its ends.

    Code points that are cut at the ends are left out.
    """
    if segment is None:
        return ""
    start = min(max(0, at - WIDE), _open_key(segment.data, at))
    hidden = mask(segment.data[start : at + WIDE].decode("latin-1")).encode("latin-1")  # one character a byte
    return hidden[max(0, at - before) - start : at + after - start].decode("utf-8", "ignore")
