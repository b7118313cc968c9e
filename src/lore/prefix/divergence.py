"""Describe the first place where two prompts differ."""

from __future__ import annotations

from msgspec import Struct

from lore.model.jsonslice import leaf_at
from lore.model.prompt import Prompt, Section, Segment
from lore.prefix.overlap import Overlap

BEFORE, AFTER = 20, 80


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


def divergence(left: Prompt, right: Prompt, found: Overlap, common_bytes: int) -> Divergence | None:
    """Return the first difference up to the left's tail; None where there is none.

    `common_bytes` counts the bytes of the segments before it.
    """
    if found.covered:
        return None
    mine, theirs = left.at(found.common), right.at(found.common)
    segment = theirs if mine is None or (theirs is not None and _earlier(theirs, mine)) else mine
    if segment is None:
        return None
    suffix, start = _leaf(segment, found.inside)
    return Divergence(
        section=segment.section,
        path=segment.path + suffix,
        offset=found.inside - start,
        prompt_offset=common_bytes + found.inside,
        left=excerpt(mine, found.inside),
        right=excerpt(theirs, found.inside),
    )


_ORDER = {"tools": 0, "system": 1, "messages": 2}


def _earlier(one: Segment, other: Segment) -> bool:
    return _ORDER[one.section] < _ORDER[other.section]


def _leaf(segment: Segment, inside: int) -> tuple[str, int]:
    if segment.kind == "envelope":
        leaf = leaf_at(b"{" + segment.data + b"}", inside + 1)
        return leaf.path, max(0, leaf.start - 1)
    leaf = leaf_at(segment.data, inside)
    return leaf.path, leaf.start


def excerpt(segment: Segment | None, at: int, before: int = BEFORE, after: int = AFTER) -> str:
    """Return the text around a byte of a segment; code points that are cut at its ends are left out."""
    if segment is None:
        return ""
    return segment.data[max(0, at - before) : at + after].decode("utf-8", "ignore")
