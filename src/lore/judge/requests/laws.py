"""Rules about the recorded requests of one chain.

`request_laws` is asked about each request, `lint` about the first; rules that compare requests are here. Each finding
is reported once, when the chain ends, at its first place and with the number of turns. Only new segments are examined.
Prompts that lore rebuilt from a transcript, and those whose beginning is not recorded, are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.counts import cached, prompt_tokens, sent_tokens
from lore.cache.rules import MOST, least_cached, minimum_tokens
from lore.judge.findings import finding
from lore.judge.pairs.pair import Pair
from lore.judge.requests import request_laws
from lore.judge.requests.tool_pairs import ToolHistory
from lore.judge.runs.reads import Shared, UnreadTokens
from lore.model.canonical import printable
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.differences import VARIES, BreakpointsMissing, ProgramText, TextChanged, Varies, VolatileText
from lore.model.limits import VARYING_TEXT
from lore.model.mask import mask
from lore.model.results import Finding
from lore.model.turn import Segment, Turn
from lore.prefix.blocks import block_of
from lore.prefix.volatile import is_made_by_program

_VOLATILE: dict[str, Varies] = {
    Code.DATE_IN_PREFIX: "date", Code.ID_IN_PREFIX: "id", Code.TOKEN_REMINDER_IN_PREFIX: "token-count",
}  # fmt: skip
# Rules of `lint` that estimate from one request: the next request of the chain is better evidence.
_SHOWN_BY_NEXT = (Code.BREAKPOINTS_MISSING, Code.PROMPT_UNDER_MINIMUM, Code.BREAKPOINTS_FAR_APART)
_NUMBERS = str.maketrans("", "", "0123456789")


class _Breach(Struct, frozen=True):
    """A rule that is broken at one place, in one or several requests."""

    broken: request_laws.Broken  # as in the first request
    turn: Turn  # the first request that breaks it
    latest: Turn  # the last one
    times: int = 1  # number of requests that break it


class Laws:
    """Collects the rules that the requests of one chain break: call `turn` for each, then `findings` at its end."""

    def __init__(self, shared: Shared) -> None:
        self._rules, self._labels, self._linter = shared.rules, shared.labels, shared.linter
        self._cached_chains = shared.cached_chains
        self._advised = shared.advised  # lint findings that were reported for an earlier chain of the recording
        self._unread_texts = shared.unread_texts
        self._breaches: dict[tuple[str, str], _Breach] = {}  # by code, and by place if a request may have several
        self._defects: list[request_laws.Broken] = []  # of the first request
        self._first: Turn | None = None
        self._turns = 0
        self._was_cached = False  # a usage shows a read or a write
        self._below: _Breach | None = None  # every request up to here was too short to be cached
        self._is_long = False  # a request was long enough to be cached, or its length is unknown
        self._unread = UnreadTokens()  # for lack of a breakpoint
        self._tools = ToolHistory()
        self._head: tuple[Segment, ...] = ()
        self._foreign: list[request_laws.Foreign] = []  # of the last request
        self._is_volatile = False  # a head has text that is new in each request
        self._last: Turn | None = None

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        usage = turn.usage
        self._was_cached = self._was_cached or bool(usage and (usage.read_tokens or usage.write_tokens))
        self._turns += 1
        if self._was_cached or (usage is None and turn.basis is None and turn.prompt.has_breakpoints):
            self._cached_chains.add(turn.chain)
        self._find_below_minimum(turn)
        if turn.basis is not None or turn.prompt.partial or turn.prompt.fidelity == "rendered":
            return
        prompt = turn.prompt
        same, head = 0, len(prompt.head)
        if self._first is None and not turn.failed:
            self._first, self._defects = turn, self._linter.defects(turn)
            if usage is not None and usage.read_tokens == 0:
                self._unread_texts.update(_text_after_image(turn, broken) for broken in self._defects)
        if self._last is None:
            seen = range(0)
        else:
            previous = self._last.prompt
            same = previous.messages.common(prompt.messages)
            first = 0 if previous.head is prompt.head else head
            seen = range(first, head + same) if len(previous.head) == head else range(0)  # else positions moved
        self._last = turn
        for cause in () if pair is None else pair.causes:
            if cause.code == Code.BILLING_HEADER_CHANGED and cause.is_harmless:
                header = request_laws.Broken(cause.code, "system", cause.path, cause.evidence, "expected")
                self._count(turn, header, by_place=False)
            elif cause.code in _VOLATILE and pair is not None and cause.position in pair.previous.prompt.breakpoints:
                changed = cause.evidence.what if isinstance(cause.evidence, TextChanged) else _VOLATILE[cause.code]
                marked = VolatileText(VARIES[changed], on_breakpoint=True)
                broken = request_laws.Broken(Code.BREAKPOINT_ON_VOLATILE, cause.section or "", cause.path, marked)
                self._count(turn, broken)
        self._foreign = request_laws.find_foreign(prompt, seen, self._foreign)
        for broken in request_laws.request_laws(turn, self._rules, self._foreign):
            if broken.kind != "expected":
                self._count(turn, broken)
        if not self._is_volatile and prompt.head is not self._head and prompt.head != self._head:
            self._head = prompt.head
            has_cache = least_cached(self._rules(), turn) < MOST
            for broken in request_laws.volatile_head(prompt, self._labels) if has_cache else ():
                self._is_volatile = True
                self._linter.note_sent(turn, broken)
                self._count(turn, broken)
        self._find_in_messages(turn, same)
        self._find_missing_breakpoints(turn, pair)

    def findings(self, place: Place) -> Iterator[Finding]:
        below, is_marked = self._below, (Code.BREAKPOINTS_MISSING, "") not in self._breaches
        if below is not None and not self._is_long and below.times > 1 and is_marked:
            evidence = replace(below.broken.evidence, turns=below.times)
            below = replace(below, broken=replace(below.broken, evidence=evidence))
            self._breaches[Code.PROMPT_UNDER_MINIMUM, ""] = below
        for breach in self._breaches.values():
            broken = breach.broken
            if self._is_frozen(breach):
                continue
            is_missing = broken.code == Code.BREAKPOINTS_MISSING
            unread = self._unread if is_missing and self._unread.tokens else None
            result = finding(
                broken.code, place, broken.evidence, at=breach.turn, section=broken.section or None,
                json_path=broken.path or None, times=breach.times, kind=broken.kind,
                lost_tokens=unread and unread.tokens, lost_dollars=unread and unread.dollars,
                tokens=unread and "estimated",
            )  # fmt: skip
            # As in `lore lint`: an error if no request of the recording is cached; the first ones may be too short.
            is_each = breach.times == self._turns - breach.turn.number + 1
            is_uncached = is_missing and not self._cached_chains and is_each
            yield replace(result, severity="error") if is_uncached else result
        codes = {code for code, _ in self._breaches}
        for broken in self._defects:
            is_known = broken.code in codes or (broken.code in _SHOWN_BY_NEXT and (self._turns > 1 or self._was_cached))
            key = broken.code, broken.kind, broken.evidence.fix_detail(), broken.path.translate(_NUMBERS)
            if is_known or key in self._advised:
                continue
            self._advised.add(key)
            # The comparison of several turns shows what really changed; a request by itself repeats nothing.
            is_shown = broken.code == Code.VARYING_TEXT_IN_PREFIX and self._turns > 1
            kind = "expected" if is_shown or broken.code == Code.BREAKPOINTS_MISSING else broken.kind
            times = self._unread_texts[_text_after_image(self._first, broken)]
            is_repeated = broken.code == Code.IMAGE_BEFORE_TEXT and times > 1
            yield finding(
                broken.code, place, broken.evidence, at=self._first, section=broken.section or None,
                json_path=broken.path or None, kind="unattributable" if is_repeated else kind, tokens="estimated",
                lost_tokens=(broken.tokens or 0) * (times - 1) if is_repeated else None, confidence="rule",
            )  # fmt: skip

    def _count(self, turn: Turn, broken: request_laws.Broken, *, by_place: bool = True) -> None:
        """Count a broken rule, by its place unless `by_place` is false; a place in any message is the same."""
        path = broken.path.translate(_NUMBERS) if broken.section == "messages" else broken.path
        key = broken.code, path if by_place else ""
        known = self._breaches.get(key)
        if known is None:
            self._breaches[key] = _Breach(broken, turn, turn)
        elif known.latest is not turn:
            self._breaches[key] = replace(known, latest=turn, times=known.times + 1)

    def _is_frozen(self, breach: _Breach) -> bool:
        """Return whether a request of any chain repeats text of the head that should be new in each request."""
        key, last = self._linter.note_sent(breach.turn, breach.broken), self._last
        text = breach.turn.prompt.segment_at(breach.broken.at) if key else None
        if text is not None and last is not None and text.data in [part.data for part in last.prompt.head]:
            self._linter.note_sent(last, breach.broken, breach.turn)
        return self._linter.is_frozen(key)

    def _find_below_minimum(self, turn: Turn) -> None:
        """Count the requests with breakpoints, as long as all of them are too short to be cached."""
        prompt, usage = turn.prompt, turn.usage
        if self._is_long or turn.failed:
            return
        if self._was_cached or prompt.partial or turn.fidelity not in ("wire", "parsed"):
            self._is_long = True
        elif usage is not None and None in (usage.read_tokens, usage.write_tokens):
            return  # half of what would show a cache is not recorded
        elif prompt.has_breakpoints:
            shortage, below = request_laws.below_minimum(turn, self._rules), self._below
            self._is_long = shortage is None
            if shortage is not None:
                broken = request_laws.Broken(Code.PROMPT_UNDER_MINIMUM, "messages", "", shortage)
                self._below = _Breach(broken, turn, turn) if below is None else replace(below, times=below.times + 1)

    def _find_in_messages(self, turn: Turn, same: int) -> None:
        """Find calls without results, and a program's text after results, in the new messages."""
        for segment, envelope in self._tools.read(turn.prompt, same):
            block = block_of(segment, envelope)
            text = (block.text or "")[:VARYING_TEXT] if block.kind == "text" else ""
            if is_made_by_program(text, self._labels):
                evidence = ProgramText(printable(mask(text)[:60]))
                text_broken = request_laws.Broken(Code.TEXT_AFTER_TOOL_RESULT, "messages", segment.path, evidence)
                self._count(turn, text_broken, by_place=False)
        orphan = self._tools.find_orphan(turn)
        if orphan is not None:
            self._count(turn, orphan, by_place=False)

    def _find_missing_breakpoints(self, turn: Turn, pair: Pair | None) -> None:
        """Find a prompt that is sent repeatedly without a breakpoint that its cache needs, and add up what that cost.

        The cost is that of the tokens that the request repeats and paid for in full; a cache break has its own. A tool
        may drop breakpoints from its log: then usage that states neither reads nor writes shows that none was sent.
        """
        prompt, usage = turn.prompt, turn.usage
        is_unwritten = usage is not None and usage.write_tokens == usage.read_tokens == 0
        if pair is None or (prompt.fidelity == "structural" and not is_unwritten):
            return
        before, size = pair.previous.usage, pair.bytes.previous
        billed = 0 if before is not None and before.server_tools else sent_tokens(before)  # which adds up passes
        repeated = pair.bytes.common + pair.overlap.common_bytes
        per_token = size / billed if billed and size else pair.bytes_per_token
        common = round(repeated / per_token)
        if cached(usage) or cached(pair.previous.usage):
            missing = self._uncached_history(turn, pair)
        else:
            missing = request_laws.missing_breakpoints(turn, repeated, self._rules, common if billed else 0)
            if missing is not None and missing.behind is None:
                sent = sent_tokens(usage)
                missing = replace(missing, tokens=max(missing.tokens, sent), counted=sent >= missing.tokens)
        if missing is None:
            return
        path = request_laws.path_at(prompt, prompt.breakpoints[-1] if prompt.breakpoints else -1)
        self._count(turn, request_laws.Broken(Code.BREAKPOINTS_MISSING, "messages", path, missing), by_place=False)
        unread = 0 if usage is None else min(common - (usage.read_tokens or 0), usage.first_pass.uncached_tokens or 0)
        if not pair.is_break:
            self._unread = self._unread.plus(turn, unread, self._rules)

    def _uncached_history(self, turn: Turn, pair: Pair) -> BreakpointsMissing | None:
        """Return the evidence if a history is sent repeatedly at full price, as all breakpoints are before it."""
        previous, prompt, usages = pair.previous.prompt, turn.prompt, (pair.previous.usage, turn.usage)
        if not prompt.breakpoints or prompt.auto_breakpoint or previous.breakpoints[-1:] != prompt.breakpoints[-1:]:
            return None
        same = len(prompt.head) + previous.messages.common(prompt.messages)
        is_repeated = previous.head == prompt.head and prompt.breakpoints[-1] < same
        if not is_repeated or not request_laws.needs_breakpoints(turn):
            return None
        minimum = minimum_tokens(self._rules(), turn) or request_laws.UNPUBLISHED
        if any(usage is None or (usage.first_pass.uncached_tokens or 0) < minimum for usage in usages):
            return None
        return BreakpointsMissing(prompt_tokens(turn.usage), minimum, cached(turn.usage) or 0, counted=True)


def _text_after_image(turn: Turn | None, broken: request_laws.Broken) -> bytes:
    """Return a hash of what follows the image that precedes text; empty for other rules."""
    if turn is None or broken.code != Code.IMAGE_BEFORE_TEXT:
        return b""
    segment = turn.prompt.segment_at(broken.at + 1)
    return b"" if segment is None else blake2b(segment.data, digest_size=16).digest()
