"""Explain how one text became another: line by line, sentence by sentence, word by word.

In: two decoded texts. Out: each reason once, in the order in which they are met, with how often. Rules: what is
equal once words that vary are taken out is named by these words; the rest by what it is about; what nothing
explains is left to the caller (`OTHER`). Cost: O(text), and nothing of it is looked at twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.codes import CauseKind
from lore.prefix.align import Gap, gaps
from lore.prefix.spelling import of_texts
from lore.prefix.topics import topic
from lore.prefix.volatile import NAMES, equal_back, equal_front, numbered, varied

OTHER = ""  # the code of what nothing explains
MOST = 64  # differing lines that are looked at one by one; what differs in more is another text
BEFORE = 24_000  # characters before the first difference in which the heading is sought that it stands under
WINDOW = 131_072  # characters behind the first difference that are compared line by line: causes repeat
_EACH = 64  # characters that a look costs by itself
ROOM = 24_576  # characters that are looked through for words and headings, in all differences of a pair

_SENTENCES = re.compile(r"(?<=[.!?;>|])[ \t]+|(?<=>)(?=[^\s<])|(?<=[^\s>])(?=<)|[\t|]")


class Reason(NamedTuple):
    """A code, what it is in words, the kind where it is not the code's own, and the texts that differ."""

    code: str
    words: str
    here: CauseKind | None = None
    mine: str = ""
    theirs: str = ""


_TOPICS = {
    "git": ("LORE110", "the state of a repository or directory"),
    "memory": ("LORE126", "recalled memory or context"),
}


class Room:
    """How many characters may still be looked through: a pair in which all is different is not worth more."""

    def __init__(self, left: int = ROOM) -> None:
        self.left = left

    def take(self, *texts: str) -> bool:
        """Take the room for some texts; False where there is too little: then smaller ones may still find some."""
        size = sum(map(len, texts))
        fits = size + _EACH < self.left
        self.left -= size + _EACH if fits else _EACH
        return fits


def reasons(mine: str, theirs: str, room: Room) -> list[Reason]:
    """Return why two texts differ; empty where they are equal."""
    if mine == theirs:
        return []
    spelled = of_texts(mine, theirs)
    if spelled is not None:
        return [Reason(spelled.code, spelled.words, spelled.here, mine, theirs)]
    found: list[Reason] = []
    lines, others, more = _cut(mine, theirs)
    parts = gaps(lines, others)
    if more and len(parts) > 1:  # where the windows end, the lines of both need not be the same
        parts.pop()
    for number, gap in enumerate(parts):
        if number == MOST:
            found.append(Reason(OTHER, "and in more places"))
            break
        found += _of_lines(lines, others, gap, room)
    return list({one.code + one.words: one for one in reversed(found)}.values())[::-1]


class _Lines(NamedTuple):
    """The lines of both texts around where they differ; `more` says that they go on differing behind."""

    mine: list[str]
    theirs: list[str]
    more: bool


def _cut(mine: str, theirs: str) -> _Lines:
    """Cut both texts into lines, from some before the first difference to some behind the last, or to enough."""
    front = equal_front(mine, theirs)
    room = min(len(mine), len(theirs)) - front
    back = equal_back(mine, theirs, room)
    begin = _line_start(mine, max(0, front - BEFORE))
    ends = [_line_end(one, max(front, len(one) - back)) for one in (mine, theirs)]
    cut = [min(end, _line_end(one, front + WINDOW)) for one, end in zip((mine, theirs), ends, strict=True)]
    if all(end <= front + 2 * WINDOW for end in ends):
        cut = ends
    return _Lines(mine[begin : cut[0]].split("\n"), theirs[begin : cut[1]].split("\n"), cut != ends)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _of_lines(lines: list[str], others: list[str], gap: Gap, room: Room) -> list[Reason]:
    mine, theirs = "\n".join(lines[gap.left.start : gap.left.stop]), "\n".join(others[gap.right.start : gap.right.stop])
    whole = _known(mine, theirs, room)
    if room.left <= 0 and not whole:
        return [Reason(OTHER, "", None, mine[:400], theirs[:400])]
    if whole:
        return whole
    before = _before(lines, gap.left.start)
    if len(gap.left) == len(gap.right) <= MOST:
        found: list[Reason] = []
        for at, other in zip(gap.left, gap.right, strict=True):
            if lines[at] != others[other]:
                found += _known(lines[at], others[other], room) or _of_sentences(before, lines[at], others[other], room)
        return found
    return [_about(before, mine, theirs, room)]


def _before(lines: list[str], at: int) -> str:
    return "".join([line[:400] + "\n" for line in lines[max(0, at - 60) : at]])


def _known(mine: str, theirs: str, room: Room) -> list[Reason]:
    if not room.take(mine, theirs):
        return []
    kinds = varied(mine, theirs)
    if kinds is not None:
        return [Reason(*NAMES[kind], None, mine, theirs) for kind in kinds]
    spelled = of_texts(mine, theirs)
    return [] if spelled is None else [Reason(spelled.code, spelled.words, spelled.here, mine, theirs)]


def _of_sentences(before: str, mine: str, theirs: str, room: Room) -> list[Reason]:
    """Explain one line, sentence by sentence: a system prompt is often one long line."""
    ours, others = _SENTENCES.split(mine), _SENTENCES.split(theirs)
    if len(ours) == len(others) == 1:
        return [_about(before, mine, theirs, room)]
    found: list[Reason] = []
    for gap in gaps(ours, others):
        one, other = " ".join(ours[gap.left.start : gap.left.stop]), " ".join(others[gap.right.start : gap.right.stop])
        known = _known(one, other, room)
        if not known and len(gap.left) == len(gap.right) <= MOST:
            for at, to in zip(gap.left, gap.right, strict=True):
                if ours[at] != others[to]:
                    context = before + " ".join(ours[max(0, at - 20) : at])[-4000:] + "\n"
                    found += _known(ours[at], others[to], room) or [_about(context, ours[at], others[to], room)]
            continue
        found += known or [_about(before, one, other, room)]
    return found


def _about(before: str, mine: str, theirs: str, room: Room) -> Reason:
    if not room.take(mine[:2048], theirs[:2048], before[-2048:]):
        return Reason(OTHER, "", None, mine, theirs)
    what = topic(before, mine, theirs)
    if what is not None:
        return Reason(*_TOPICS[what], None, mine, theirs)
    kind = numbered(mine, theirs)
    return Reason(*(NAMES[kind] if kind else (OTHER, "")), None, mine, theirs)
