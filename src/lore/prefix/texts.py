"""Explain how one text became another: line by line, sentence by sentence, word by word.

In: two decoded texts. Out: each reason once, in the order in which they are met, with how often. Rules: what is
equal once words that vary are taken out is named by these words; the rest by what it is about; what nothing
explains is left to the caller (`OTHER`). Cost: O(text), and nothing of it is looked at twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lore.model.codes import Code
from lore.model.differences import Varies
from lore.prefix.align import Gap, gaps
from lore.prefix.spelling import Spelled, of_texts
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
    """A code, what varies or is spelled otherwise, and the texts that differ."""

    code: str
    what: Varies | Spelled = ""
    left: str = ""
    right: str = ""


TOPICS: dict[str, tuple[str, Varies]] = {
    "git": (Code.GIT_STATUS_IN_PREFIX, "repository"),
    "memory": (Code.MEMORY_IN_PREFIX, "memory"),
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


def reasons(left: str, right: str, room: Room) -> list[Reason]:
    """Return why two texts differ; empty where they are equal."""
    if left == right:
        return []
    spelled = of_texts(left, right)
    if spelled is not None:
        return [Reason(spelled.code, spelled, left, right)]
    found: list[Reason] = []
    lines = _cut(left, right)
    parts = gaps(lines.left, lines.right)
    if lines.more and len(parts) > 1:  # where the windows end, the lines of both need not be the same
        parts.pop()
    for number, gap in enumerate(parts):
        if number == MOST:
            found.append(Reason(OTHER))
            break
        found += _of_lines(lines, gap, room)
    return list({(reason.code, reason.what): reason for reason in reversed(found)}.values())[::-1]


class _Lines(NamedTuple):
    """The lines of both texts around where they differ; `more` says that they go on differing behind."""

    left: list[str]
    right: list[str]
    more: bool


def _cut(left: str, right: str) -> _Lines:
    """Cut both texts into lines, from some before the first difference to some behind the last, or to enough."""
    front = equal_front(left, right)
    room = min(len(left), len(right)) - front
    back = equal_back(left, right, room)
    begin = _line_start(left, max(0, front - BEFORE))
    ends = [_line_end(text, max(front, len(text) - back)) for text in (left, right)]
    cut = [min(end, _line_end(text, front + WINDOW)) for text, end in zip((left, right), ends, strict=True)]
    if all(end <= front + 2 * WINDOW for end in ends):
        cut = ends
    return _Lines(left[begin : cut[0]].split("\n"), right[begin : cut[1]].split("\n"), cut != ends)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _of_lines(lines: _Lines, gap: Gap, room: Room) -> list[Reason]:
    left, right = ("\n".join(lines.left[gap.left.start : gap.left.stop]),
                   "\n".join(lines.right[gap.right.start : gap.right.stop]))  # fmt: skip
    whole = _known(left, right, room)
    if room.left <= 0 and not whole:
        return [Reason(OTHER, "", left[:400], right[:400])]
    if whole:
        return whole
    before = _before(lines.left, gap.left.start)
    if len(gap.left) == len(gap.right) <= MOST:
        found: list[Reason] = []
        for at, other in zip(gap.left, gap.right, strict=True):
            left, right = lines.left[at], lines.right[other]
            if left != right:
                found += _known(left, right, room) or _of_sentences(before, left, right, room)
        return found
    return [_about(before, left, right, room)]


def _before(lines: list[str], at: int) -> str:
    return "".join([line[:400] + "\n" for line in lines[max(0, at - 60) : at]])


def _known(left: str, right: str, room: Room) -> list[Reason]:
    if not room.take(left, right):
        return []
    kinds = varied(left, right)
    if kinds is not None:
        return [Reason(*NAMES[kind], left, right) for kind in kinds]
    spelled = of_texts(left, right)
    return [] if spelled is None else [Reason(spelled.code, spelled, left, right)]


def _of_sentences(before: str, left: str, right: str, room: Room) -> list[Reason]:
    """Explain one line, sentence by sentence: a system prompt is often one long line."""
    sentences, others = _SENTENCES.split(left), _SENTENCES.split(right)
    if len(sentences) == len(others) == 1:
        return [_about(before, left, right, room)]
    found: list[Reason] = []
    for gap in gaps(sentences, others):
        left = " ".join(sentences[gap.left.start : gap.left.stop])
        right = " ".join(others[gap.right.start : gap.right.stop])
        known = _known(left, right, room)
        if not known and len(gap.left) == len(gap.right) <= MOST:
            for at, to in zip(gap.left, gap.right, strict=True):
                left, right = sentences[at], others[to]
                if left != right:
                    context = before + " ".join(sentences[max(0, at - 20) : at])[-4000:] + "\n"
                    found += _known(left, right, room) or [_about(context, left, right, room)]
            continue
        found += known or [_about(before, left, right, room)]
    return found


def _about(before: str, left: str, right: str, room: Room) -> Reason:
    if not room.take(left[:2048], right[:2048], before[-2048:]):
        return Reason(OTHER, "", left, right)
    about = topic(before, left, right)
    if about is not None:
        return Reason(*TOPICS[about], left, right)
    kind = numbered(left, right)
    return Reason(*(NAMES[kind] if kind else (OTHER, "")), left, right)
