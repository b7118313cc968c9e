"""Name why a prompt did not extend the one before it.

In: two prompts, their overlap, the changes that the session recorded between them. Out: causes, the
expected ones first. Rules: an expected cause explains the whole break; what only differs in spelling is
serialisation; a difference that a rule explains has that rule's code; the rest is `prefix-moved`.

Source of the causes and their numbers: the catalogue of known cache breaks (public issue threads).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from lore.model.canonical import canonical, decode, encode, printable, text_of
from lore.model.codes import CODES, CauseKind
from lore.model.jsonslice import table
from lore.model.prompt import NO_RESULT, Prompt, Segment
from lore.model.state import Change
from lore.prefix.divergence import excerpt
from lore.prefix.overlap import Overlap, common_bytes, same_content


class Cause(Struct, frozen=True):
    """A finding code, the section it is about, the evidence in words, and the segment where it begins.

    `here` is the kind where it is not the code's own: what is waste at one provider is harmless at another.
    """

    code: str
    section: str | None
    evidence: str
    position: int = 0
    here: CauseKind | None = None

    @property
    def kind(self) -> CauseKind:
        """The kind: the code's own, or what it is here."""
        return self.here or CODES[self.code].kind


def limit_of(left: Prompt) -> int:
    """Count the leading segments that the left prompt wanted cached: up to its last mark, or all."""
    if left.marks and not left.auto_mark:
        return left.marks[-1] + 1
    return left.stable


def causes(left: Prompt, right: Prompt, found: Overlap, changes: Iterable[Change]) -> tuple[Cause, ...]:
    """Return the causes of a bust; empty where the left is reused up to its tail."""
    if left.dialect != right.dialect:  # two request shapes: nothing one says explains the other
        return ()
    known = recorded(changes)
    moved = left.model != right.model and left.model is not None and right.model is not None
    if not moved:  # changed and changed back between the two
        known = tuple(cause for cause in known if cause.code != "LORE119")
    elif not any(cause.code == "LORE119" for cause in known):
        known = (*known, Cause("LORE119", None, f"model changed from {left.model} to {right.model}"))
    if found.covered and not moved:
        return ()
    if known:
        return tuple(msgspec.structs.replace(cause, position=_begins(cause, found)) for cause in known)
    if (left.partial or right.partial) and found.common >= len(left.head):
        return (Cause("LORE132", "messages", _CONTINUES, found.common),)
    if found.common >= limit_of(left):
        section = _section(left, right, found.common)
        return (Cause("LORE146", section, "the change is behind the last cache mark", found.common),)
    return _explained(left, right, found, changes)


_CONTINUES = "it continues a response that is not recorded whole: both prompts may be the same there"


def _begins(cause: Cause, found: Overlap) -> int:
    return 0 if cause.code == "LORE119" else found.common  # another model reads nothing of this cache


def recorded(changes: Iterable[Change]) -> tuple[Cause, ...]:
    """Return the expected causes among the changes that a session recorded."""
    return tuple(Cause(change.cause, None, change.detail) for change in changes if change.cause in _EXPECTED)


_EXPECTED = frozenset(("LORE119", "LORE125", "LORE143", "LORE144", "LORE145"))


def _section(left: Prompt, right: Prompt, position: int) -> str | None:
    mine, theirs = left.at(position), right.at(position)
    sections = [one.section for one in (mine, theirs) if one is not None]
    return min(sections, key=("tools", "system", "messages").index, default=None)


def _explained(left: Prompt, right: Prompt, found: Overlap, changes: Iterable[Change]) -> tuple[Cause, ...]:
    """Explain the spelling first, then what differs behind it in content."""
    causes: list[Cause] = []
    if found.canonical > found.common:
        mine, theirs = left.at(found.common), right.at(found.common)
        if mine is not None and theirs is not None:
            causes.append(msgspec.structs.replace(_spelling(mine, theirs), position=found.common))
    if not found.covered_canonical and found.canonical < limit_of(left):
        cause = _content(left, right, found.canonical, changes)
        causes.append(msgspec.structs.replace(cause, position=found.canonical))
    return tuple(causes)


def _spelling(mine: Segment, theirs: Segment) -> Cause:
    where = mine.path
    if (mine.data[:1] == b'"') != (theirs.data[:1] == b'"') and mine.kind != "envelope":
        return Cause("LORE112", mine.section, f"{where} is a text on one side and a block of it on the other")
    wrapped = [b"{" + one.data + b"}" if one.kind == "envelope" else one.data for one in (mine, theirs)]
    if encode(decode(wrapped[0])) != encode(decode(wrapped[1])):
        return Cause("LORE105", mine.section, f"{where} has the same members in another order")
    return Cause("LORE106", mine.section, f"{where} has the same content in another spelling")


def _content(left: Prompt, right: Prompt, position: int, changes: Iterable[Change]) -> Cause:
    mine, theirs = left.at(position), right.at(position)
    section = _section(left, right, position)
    if section == "tools":
        return _tools(left, right)
    if mine is None or theirs is None:
        gone = left.stable - position
        return Cause("LORE100", section, f"the prompt ends where {gone} segments stood before")
    cleared = next((change.detail for change in changes if change.cause == "LORE117"), None)
    if _is_result(left, position, mine) and _is_result(right, position, theirs):
        if NO_RESULT in mine.data:
            return Cause("LORE147", section, f"{mine.path} was sent before its call had a result")
        return Cause("LORE117", section, cleared or f"{mine.path} was sent before with other content")
    if mine.kind == theirs.kind:
        one, other = _plain(mine.data), _plain(theirs.data)
        for code, what, pattern in _MASKS:  # a ladder: each rung masks what the one below did, too
            one, other = pattern.sub(b"\x00", one), pattern.sub(b"\x00", other)
            if one == other:
                return Cause(code, section, f"{what} in {mine.path}: {_difference(mine, theirs)}")
    return Cause("LORE100", section, f"{mine.path} differs: {_difference(mine, theirs)}")


def _difference(mine: Segment, theirs: Segment) -> str:
    at = common_bytes(mine.data, theirs.data)
    return f"…{excerpt(mine, at, 24, 24)}… became …{excerpt(theirs, at, 24, 24)}…"


def _is_result(prompt: Prompt, position: int, segment: Segment) -> bool:
    """Tell whether a segment is a tool's result: a block of that type, or content of a tool message."""
    if segment.kind == "envelope":
        return False
    if any(sign in segment.data for sign in _RESULTS):
        own = table(segment.data) or {}
        if own.get("type") == b'"tool_result"' or not _RESULT_MEMBERS.isdisjoint(own):
            return True
    while position > 0 and (before := prompt.at(position - 1)) is not None:
        if before.kind == "envelope":
            return _RESULT_ENVELOPE.search(before.data) is not None
        position -= 1
    return False


# A result is a block of its own (Anthropic's, Gemini's, Bedrock's) or the content of a message of its own (OpenAI's).
_RESULTS = (b'"tool_result"', b'"functionResponse"', b'"function_response"', b'"toolResult"')
_RESULT_MEMBERS = frozenset(("functionResponse", "function_response", "toolResult"))
_RESULT_ENVELOPE = re.compile(rb'"role"\s*:\s*"tool"|"type"\s*:\s*"\w+_output"')


def _tools(left: Prompt, right: Prompt) -> Cause:
    mine = [one for one in left.head if one.section == "tools"]
    theirs = [one for one in right.head if one.section == "tools"]
    if Counter(one.data for one in mine) == Counter(one.data for one in theirs):
        return Cause("LORE102", "tools", f"the same {len(mine)} tools in another order")
    names, others = Counter(map(_name, mine)), Counter(map(_name, theirs))
    held = {_name(one): one for one in theirs}
    changed = [_name(one) for one in mine if _name(one) in held and not same_content(one, held[_name(one)])]
    parts = [
        f"{word} {', '.join(some[:5])}{' …' if len(some) > 5 else ''}"
        for word, some in (
            ("added", list((others - names).elements())),
            ("removed", list((names - others).elements())),
            ("changed", changed),
        )
        if some
    ]
    if names != others:
        return Cause("LORE103", "tools", "; ".join(parts))
    if changed:
        return Cause("LORE104", "tools", "; ".join(parts))
    return Cause("LORE102", "tools", f"the same {len(mine)} tools in another order and spelling")


def _name(tool: Segment) -> str:
    own = table(tool.data) or {}
    inner = table(own.get("function", b"null")) or table(own.get("toolSpec", b"null")) or own
    if "name" not in inner and "type" not in inner and len(own) == 1:  # one of the provider's own: its only member
        return printable(next(iter(own)))
    return printable(text_of(inner.get("name", inner.get("type", b'"(unnamed)"'))))


_ESCAPES = re.compile(rb"\\(?:u[0-9a-f]{4}|.)")


def _plain(data: bytes) -> bytes:
    """Return text in which words end where they do for a reader: escapes become spaces."""
    return _ESCAPES.sub(b" ", canonical(data))


_MONTH = (
    rb"\b(Jan(uary)?|Feb(ruary)?|Mar(ch)?|Apr(il)?|May|June?|July?|Aug(ust)?|Sep(tember)?|Oct(ober)?"
    rb"|Nov(ember)?|Dec(ember)?)"
)
_DATES = re.compile(
    rb"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
    rb"|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{1,2}\.\d{1,2}\.\d{4}\b|\b\d{1,2}:\d{2}(:\d{2})?( ?[AaPp][Mm])?\b"
    rb"|\b(Mon|Tues?|Wed(nes)?|Thu(rs)?|Fri|Sat(ur)?|Sun)(day)?\b"
    rb"|\b(\d{1,2}(st|nd|rd|th)? )?" + _MONTH + rb"\.?( \d{1,2}(st|nd|rd|th)?)?(,? \d{4})?\b|\b1[5-9]\d{8}(\d{3})?\b"
)
_REMINDER = re.compile(rb"<total_tokens>[^<]*</total_tokens>|\b[\d,]+ tokens (left|remaining)\b")
_IDS = re.compile(
    rb"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|/tmp/[\w./-]+|\bpid[ =:]+\d+"
    rb"|\b(?=(?:[a-zA-Z_-]*\d){4})[0-9a-zA-Z_-]{16,}\b|\b[0-9a-f]{12,}\b"
)


_MASKS: tuple[tuple[str, str, re.Pattern[bytes]], ...] = (
    ("LORE101", "a date or time", _DATES),
    ("LORE109", "a token count", _REMINDER),
    ("LORE108", "an id", _IDS),
)
