"""Text of one prompt that is often another one in the next request, session or project: found before it changed.

In: text. Out: what varies, by kind and place. Rules: a word alone says nothing (documentation is
full of dates and ids): a date stands in a line that says what it is the date of, an id has a label or is a UUID, a
path is the working directory or a temporary one with digits; a line that gives an example is none. Cost O(text), and
text behind `LONGEST` characters is not looked through.

Source of the forms: those of `volatile.py`; what agents write of a repository: Claude Code 2.1, Gemini CLI, OpenCode.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from lore.model.differences import VaryingKind
from lore.prefix.volatile import EXAMPLE, LABELS, LONGEST, varying_words

_DATED = dict(LABELS)["date"]
_REPOSITORY = re.compile(
    r"(?m)\bgit ?[Ss]tatus\b[^\n]{0,40}:|^(?:On branch |Your branch is |## [\w./-]{1,80}\.\.\.)"
    r"|^(?:Current|Main) branch(?: \([^)\n]{0,80}\))?: |^Recent commits:|^nothing to commit\b"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_TIME = re.compile(r"\d:\d")
_LABELLED = re.compile(r"[:=#][ \t\"'`*]{0,8}(?=\D{0,64}\d\D{0,64}\d)")
MOST = 16  # findings of one prompt: what varies in more places is said of the first ones
_LINE = 400  # characters of a line around a word that are looked at


class VaryingWord(NamedTuple):
    """What is found, where it begins in the text (in characters), and the words."""

    kind: VaryingKind
    start: int
    text: str


def varying(text: str) -> list[VaryingWord]:
    """Return the first `MOST` words of each kind that often vary, in the order of their places."""
    text = text[:LONGEST]
    found: list[VaryingWord] = []
    counts: Counter[VaryingKind] = Counter()
    at = 0
    for before, form, word in varying_words(text):
        at += len(before)
        kind = _kind(form, word, _line(text, at))
        if kind is not None and counts[kind] < MOST:
            counts[kind] += 1
            found.append(VaryingWord(kind, at, word))
        at += len(word)
    repository = _REPOSITORY.search(text)
    if repository is not None:
        found.append(VaryingWord("repository", repository.start(), repository.group()))
    return sorted(found, key=lambda word: word.start)


def _kind(form: str, word: str, line: str) -> VaryingKind | None:
    if not word or EXAMPLE.search(line):
        return None
    digits = sum(map(str.isdigit, word))
    match form:
        case "date" if digits and _DATED.search(line):
            return "clock" if _TIME.search(word) else "date"
        case "place":
            return "directory"
        case "id" if _UUID.fullmatch(word) or _LABELLED.search(word):
            return "id"
        case "temporary" if digits >= 2:  # noqa: PLR2004 - `/tmp` and `/tmp/1` stand in documentation
            return "temporary-path"
        case "process" if word[:1] in "pP":
            return "process-id"
        case "count":
            return "token-count"
        case _:
            return None


def _line(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at) + 1, at - _LINE)
    end = text.find("\n", at, at + _LINE)
    return text[start : end if end >= 0 else at + _LINE]
