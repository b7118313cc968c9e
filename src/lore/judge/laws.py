"""The assembler's laws as rules for other people's bodies, and breakpoints in prompts too short to be cached (LORE306).

In: the turns of one chain that were recorded as request bodies. Out: findings when the chain ends, each with its
first place and how often it was seen. Rules: only segments that are new are looked at; what lore assembled itself
or rebuilt from a transcript is not judged (the laws hold there, or the body is not known); nothing is said of a
body whose beginning is missing. Cost: O(what is new); a history that was rewritten is read again from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.counts import cached, prompt_tokens
from lore.cache.rules import DatedRules, minimum_tokens
from lore.judge.base import finding
from lore.judge.pair import Pair
from lore.judge.request_laws import (
    UNPUBLISHED,
    Broken,
    below_minimum,
    missing_breakpoints,
    needs_breakpoints,
    path_at,
    request_laws,
    volatile_head,
)
from lore.judge.tool_pairs import ToolPairs, ToolPart
from lore.model.canonical import printable, text_of
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.differences import BreakpointsMissing, OrphanPair, ProgramText, VolatileText
from lore.model.jsonslice import raw_members
from lore.model.limits import ENVELOPE_BYTES, VARYING_TEXT
from lore.model.mask import mask
from lore.model.results import Finding
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix.blocks import block_of
from lore.prefix.volatile import is_made_by_program

_VOLATILE: dict[str, str] = {
    Code.DATE_IN_PREFIX: "a date or time",
    Code.ID_IN_PREFIX: "an id",
    Code.TOKEN_REMINDER_IN_PREFIX: "a count of tokens",
}


class _HeldLaw(NamedTuple):
    """A law that does not hold: how it was first broken, at which turn, and in how many turns of the chain."""

    broken: Broken
    turn: Turn
    times: int = 1


class _RoleMessage(NamedTuple):
    """Where a message begins, and the envelope that it begins with."""

    start: int
    envelope: bytes


class Laws:
    """Follow the turns of one chain and remember where they break a law; `rules` gives the dated rules in force.

    `labels` are those of the settings, by which a program's own text is known besides those of `model/labels.py`.
    """

    def __init__(self, rules: Callable[[], DatedRules], labels: tuple[str, ...] = ()) -> None:
        self._rules, self._labels = rules, labels
        self._held: dict[Code, _HeldLaw] = {}
        self._pairs = ToolPairs()
        self._seen: list[_RoleMessage] = []  # the messages of the chain's last prompt
        self._head: tuple[Segment, ...] = ()
        self._before: Prompt | None = None  # the chain's last one

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn; `pair` is what came of comparing it with the one before."""
        if turn.basis is not None or turn.prompt.partial or turn.prompt.fidelity == "rendered":
            return
        prompt = turn.prompt
        same = 0 if self._before is None else self._before.messages.common(prompt.messages)
        self._before = prompt
        for cause in () if pair is None else pair.causes:
            if cause.code == Code.BILLING_HEADER_CHANGED and cause.is_harmless:
                self._say(turn, Broken(cause.code, "system", cause.path, cause.evidence, "expected"))
            elif cause.code in _VOLATILE and pair is not None and cause.position in pair.left.prompt.breakpoints:
                marked = VolatileText(_VOLATILE[cause.code], on_breakpoint=True)
                self._say(turn, Broken(Code.BREAKPOINT_ON_VOLATILE, cause.section or "", cause.path, marked))
        first = len(prompt.head) + same if prompt.head is self._head else 0
        for broken in request_laws(turn, self._rules, first):
            if broken.kind != "expected":  # advice is for who looks at one request
                self._say(turn, broken)
        self._volatile(turn)
        self._messages(turn, same)
        self._missing(turn, pair)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say what was found, each once."""
        for broken, turn, times in self._held.values():
            yield finding(
                broken.code, place, broken.evidence, at=turn, section=broken.section or None,
                json_path=broken.path or None, times=times, kind=broken.kind,
            )  # fmt: skip

    def _say(self, turn: Turn, broken: Broken) -> None:
        before = self._held.get(broken.code)
        self._held[broken.code] = _HeldLaw(broken, turn) if before is None else before._replace(times=before.times + 1)

    def _volatile(self, turn: Turn) -> None:
        """Look for text in the head that is made anew for each request, and for breakpoints on it."""
        prompt = turn.prompt
        if prompt.head is self._head or prompt.head == self._head or Code.VOLATILE_BEFORE_HISTORY in self._held:
            return
        self._head = prompt.head
        for broken in volatile_head(prompt, self._labels):
            self._say(turn, broken)

    def _messages(self, turn: Turn, same: int) -> None:
        self._pairs.cut(same)
        while self._seen and self._seen[-1].start >= same:
            self._seen.pop()
        start, envelope = self._seen[-1] if self._seen else (0, b"")
        results, before = self._pairs.answers_since(start), False
        for at, segment in enumerate(turn.prompt.messages.since(same), same):
            if segment.kind in ("envelope", "opaque"):
                envelope, before, results = segment.data, results, False
                self._seen.append(_RoleMessage(at, envelope))
            made = _call_of(segment, envelope)
            if made is not None:
                results = results or made.answers
                self._pairs.add(made._replace(position=at))
            elif before and segment.kind == "block" and b'"user"' in envelope[:ENVELOPE_BYTES]:
                self._reads_as_a_turn(turn, segment, envelope)
        self._orphans(turn)

    def _reads_as_a_turn(self, turn: Turn, segment: Segment, envelope: bytes) -> None:
        block = block_of(segment, envelope)
        if block.kind != "text" or block.text is None:
            return
        text = block.text[:VARYING_TEXT]
        if is_made_by_program(text, self._labels):
            shown = ProgramText(printable(mask(text)[:60]))
            self._say(turn, Broken(Code.TEXT_AFTER_TOOL_RESULT, "messages", segment.path, shown))

    def _orphans(self, turn: Turn) -> None:
        if turn.call.previous or b'"item_reference"' in turn.prompt.params.get("input", b""):
            return
        last = self._seen[-1].start if self._seen else 0
        if self._pairs.is_sound(last):
            return
        part = None if Code.ORPHAN_TOOL_PAIR in self._held else self._pairs.orphan(last)  # what it is is said once
        name = "" if part is None else printable(part.name)
        kind = "result" if part is not None and part.answers else "call"
        path = "" if part is None else part.path
        self._say(turn, Broken(Code.ORPHAN_TOOL_PAIR, "messages", path, OrphanPair(kind, name)))

    def _missing(self, turn: Turn, pair: Pair | None) -> None:
        """Find a long prompt that is sent again and again without a breakpoint where nothing is cached without one."""
        prompt = turn.prompt
        if pair is None or Code.BREAKPOINTS_MISSING in self._held:
            return
        if prompt.fidelity == "structural":  # breakpoints are not in such bodies
            return
        if any(bill is not None and (bill.read_tokens or bill.write_tokens) for bill in (turn.usage, pair.left.usage)):
            self._history_uncached(turn, pair)
            return
        missing = missing_breakpoints(turn, pair.bytes.previous, self._rules)
        if missing is not None:
            last = path_at(prompt, prompt.breakpoints[-1] if prompt.breakpoints else -1)
            self._say(turn, Broken(Code.BREAKPOINTS_MISSING, "messages", last, missing))

    def _history_uncached(self, turn: Turn, pair: Pair) -> None:
        """Find a history that is sent again and paid in full, since its only breakpoints are before it."""
        left, prompt = pair.left.prompt, turn.prompt
        if not prompt.breakpoints or prompt.auto_breakpoint or left.breakpoints[-1:] != prompt.breakpoints[-1:]:
            return
        at, usages = prompt.breakpoints[-1], (pair.left.usage, turn.usage)
        same = len(prompt.head) + left.messages.common(prompt.messages)
        if left.head != prompt.head or not at < same or not needs_breakpoints(turn):
            return
        minimum = minimum_tokens(self._rules(), turn) or UNPUBLISHED
        if all(usage is not None and (usage.first_pass.uncached_tokens or 0) >= minimum for usage in usages):
            tokens = prompt_tokens(turn.usage)
            missing = BreakpointsMissing(tokens, minimum, cached(turn.usage) or 0)
            self._say(turn, Broken(Code.BREAKPOINTS_MISSING, "messages", path_at(prompt, at), missing))


_CALL_IDS = ((b'"tool_use"', "id", False), (b'"tool_result"', "tool_use_id", True))
_ENDS = 512  # bytes of a long block at whose beginning or end its own type or member stands
_SIGNS = (b"tool_use", b"tool_result", b"tool_call", b"call_id", b"toolUse", b"toolResult", b"functionCall",
          b"functionResponse", b"function_call", b"function_response", b'"function"')  # fmt: skip
_MEMBERS = (
    ("toolUse", "toolUseId", False), ("toolResult", "toolUseId", True), ("functionCall", "name", False),
    ("function_call", "name", False), ("functionResponse", "name", True), ("function_response", "name", True),
)  # fmt: skip


def _call_of(segment: Segment, envelope: bytes) -> ToolPart | None:
    """Return the call or the result that a segment is; None for all else."""
    data, path = segment.data, segment.path
    ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
    if not any(sign in ends for sign in _SIGNS):
        return None
    if segment.kind == "envelope":
        return _of_envelope(segment)
    own = raw_members(data) or {}
    for kind, key, answers in _CALL_IDS:
        if own.get("type") == kind and key in own:
            return ToolPart(0, text_of(own[key]), answers, path)
    for member, key, answers in _MEMBERS:
        inner = raw_members(own.get(member, b"")) or {}
        if key in inner:
            return ToolPart(0, text_of(inner[key]), answers, path)
    return ToolPart(0, text_of(own["id"]), False, path) if ".tool_calls[" in path and "id" in own else None  # noqa: FBT003


def _of_envelope(segment: Segment) -> ToolPart | None:
    own = raw_members(b"{" + segment.data + b"}") or {}
    kind = own.get("type", b"").strip(b'"')
    if own.get("role") == b'"tool"' and "tool_call_id" in own:
        return ToolPart(0, text_of(own["tool_call_id"]), answers=True, path=segment.path)
    if own.get("call_id", b"")[:1] != b'"' or not kind.endswith((b"_call", b"_call_output", b"_output")):
        return None
    return ToolPart(0, text_of(own["call_id"]), kind.endswith(b"_output"), segment.path)


class UnderMinimum:
    """Follow the turns of one chain; `heads` counts the chains that sent the same beginning too short."""

    def __init__(self, rules: Callable[[], DatedRules], heads: dict[int, int]) -> None:
        self._rules = rules
        self._heads = heads
        self._silent = False
        self._held: _HeldLaw | None = None

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn."""
        if self._silent or turn.failed:
            return
        prompt, usage = turn.prompt, turn.usage
        was_cached = usage is not None and (usage.read_tokens or usage.write_tokens)
        if was_cached or prompt.partial or turn.fidelity not in ("wire", "parsed"):
            self._silent = True
        elif usage is not None and None in (usage.read_tokens, usage.write_tokens):
            return  # half of what would show a cache is not told
        elif prompt.breakpoints or prompt.auto_breakpoint:
            found, held = below_minimum(turn, self._rules), self._held
            if found is None:
                self._silent = True
            else:
                made = _HeldLaw(Broken(Code.PROMPT_UNDER_MINIMUM, "messages", "", found), turn)
                self._held = made if held is None else held._replace(times=held.times + 1)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say it once: of the chain, or of a beginning that several chains sent."""
        held = self._held
        if self._silent or held is None:
            return
        if held.times == 1:  # said once of all chains that sent the same tools and system prompt as short
            key, head = hash((held.turn.model, held.turn.prompt.head)), held.turn.prompt.head
            self._heads[key] = self._heads.get(key, 0) + bool(head)
            if not head or self._heads[key] != 2:
                return
        evidence = replace(held.broken.evidence, turns=held.times)
        yield finding(Code.PROMPT_UNDER_MINIMUM, place, evidence, at=held.turn, section="messages")
