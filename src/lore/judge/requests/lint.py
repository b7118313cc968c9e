"""One request: what a cache would keep of it, rules that need sizes, and the cost of each broken rule.

An `Outlook` predicts the request sent twice, half a minute apart: the tokens that a cache would keep, for how long, and
the price. The recorded usage only limits sizes; what was read from a cache is ignored. Nothing is predicted if it is
unknown who serves the request, or if its beginning is not recorded. Some rules of the `Linter` are risks that only
another request could show: text that often varies, unsorted tools, images before text, no cache key.

Tokens are estimated from bytes, or counted by a tokenizer. Cost: O(segments); a head is examined once for all requests
that share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.breakpoint_rules import seconds
from lore.cache.counts import asked_lifetime, has_unseen, lifetime_of, sent_tokens
from lore.cache.lookback import count_positions, kind_of
from lore.cache.registry import cache_named, takes_breakpoints
from lore.cache.rules import MOST, DatedRules, Price, least_cached, minimum_tokens
from lore.cache.served import Served, cache_of, served_by
from lore.cache.tree import estimated_positions
from lore.cache.views import Count, View, Views
from lore.judge.prices import paid_again, price_of
from lore.judge.requests import request_laws as laws
from lore.judge.requests.tool_pairs import ToolHistory
from lore.model import differences as d
from lore.model.canonical import printable, text_of
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.jsonslice import raw_members
from lore.model.mask import mask
from lore.model.results import Finding
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix.blocks import block_of
from lore.prefix.tools import tool_name
from lore.prefix.volatile import find_varying_text

FEWEST_TEXT = 256  # tokens after an image that are worth caching
DOUBT = 2.0  # an estimate is off by less than this factor
_HEADS = 64  # heads that are remembered
_TEXTS = 4096  # texts of heads whose first request is remembered
_BY_SESSION = ("date", "directory")  # usually frozen for a session
# Rules about text that should be new in each request.
NEW_EACH_TIME = (Code.VOLATILE_BEFORE_HISTORY, Code.BREAKPOINT_ON_VOLATILE)
_MINUTE = 60.0  # seconds after which a running clock shows another time
_SAYS_FROZEN = "will not update during the conversation"  # Claude Code, of its git status
SECOND = 30.0  # seconds after the first request: no cache forgets so soon
NEAR = 1.35  # an estimate may be too high by this factor
_VIEW = View(placement="body", drops=True)  # in the order of the prompt's segments


# sizes, and the request sent twice


class MarkedPlace(Struct, frozen=True):
    """A breakpoint."""

    path: str
    tokens: int  # up to it
    lifetime: float | None  # seconds that its entry lives; None: unknown


class Outlook(Struct, frozen=True):
    """What a request would cost if it were sent, and sent again. Tokens are estimated, money is in US dollars."""

    cache: str  # the model of the cache; empty: unknown
    where: Served
    tokens: int
    cached: int | None = None  # tokens that the second request would read; None: unknown
    until: str = ""  # the path of the last segment that is read completely
    minimum: int | None = None  # tokens below which the model caches nothing
    lifetime: float | None = None
    marks: tuple[MarkedPlace, ...] = ()
    sure: bool = False  # False: too near the minimum to tell, or the prompt has content that its bytes do not show
    confidence: str = "ceiling"
    first: float | None = None  # the cost of the first request
    second: float | None = None
    uncached: float | None = None  # the cost without any cache


class Sized(Struct, frozen=True):
    """A request and its size."""

    turn: Turn
    upto: list[int]  # tokens of the prompt from its beginning to the end of each segment
    where: Served
    cache: str  # the model of the cache; empty: unknown
    marked: bool  # the cache keeps entries at breakpoints
    counter: Count | None = None  # what counted its tokens; None: they are estimated from bytes

    @property
    def prompt(self) -> Prompt:
        return self.turn.prompt

    @property
    def last(self) -> int:
        """The index of the last segment that can be cached: at the last breakpoint, else at the prompt's end."""
        prompt = self.prompt
        if self.marked and prompt.breakpoints and not prompt.auto_breakpoint and self.cache != "openai-breakpoint":
            return prompt.breakpoints[-1]
        return len(self.upto) - 1

    def readable_tokens(self, at: int) -> int:
        """Return the tokens that can still be read if the segment at a position changes.

        If only breakpoints have entries, that is up to the last one before it.
        """
        if not self.marked:
            return self.upto[at - 1] if at > 0 else 0
        return max((self.upto[place] for place in self.prompt.breakpoints if place < at), default=0)

    def tokens(self, start: int, end: int) -> int:
        """Return the tokens of the segments from `start` to `end`, both included."""
        return max(0, self.upto[end] - (self.upto[start - 1] if start > 0 else 0)) if self.upto else 0


def sized_of(turn: Turn, cache: str | None = None, count: Count | None = None) -> Sized:
    """Measure a request; `cache` overrides who serves it, which is unknown for rendered text.

    `count` counts tokens, by the tokenizer of the model. If the prompt has fewer tokens by its usage than by these
    sizes, all sizes are scaled down to that number.
    """
    where = served_by(turn) if cache is None else Served(cache_named(cache).provider, "")
    name = cache or ("" if turn.prompt.fidelity == "rendered" else cache_of(turn, where))
    upto = list(estimated_positions(Views(_VIEW, count).iterate_pieces(turn.prompt)))
    billed = sent_tokens(turn.usage)
    if upto and 0 < billed < upto[-1]:
        upto = [tokens * billed // upto[-1] for tokens in upto]
    return Sized(turn, upto, where, name, takes_breakpoints(name), count)


def outlook_of(sized: Sized, rules: DatedRules) -> Outlook:
    """Predict the request sent, and sent again."""
    turn, prompt, where, at = sized.turn, sized.prompt, sized.where, sized.turn.at
    tokens = sized.upto[-1] if sized.upto else 0
    rule = "lifetime_implicit" if sized.cache == "qwen-implicit" else "lifetime"
    lifetime = rules.number(rule, where.provider, turn.model, where.platform, at)
    default = None if lifetime is None else float(lifetime)
    marks = [
        MarkedPlace(laws.path_at(prompt, place), sized.upto[place], lifetime_of(value) or default)
        for place, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=False)
    ]
    unknown = Outlook(sized.cache, where, tokens, marks=tuple(marks))
    if not sized.cache or prompt.partial or (prompt.fidelity == "structural" and sized.marked):
        return unknown
    if at is None and rules.as_of is not None:
        at = seconds(rules.as_of)
    rule = "minimum_implicit" if sized.cache == "qwen-implicit" else "minimum_tokens"
    least = least_cached(rules, turn, where, minimum=rule)
    first, second = _predict_twice(sized, rules, at, least)
    if second.read is None:
        return unknown
    price = price_of(rules, turn, size=tokens) if where == served_by(turn) else None
    size = sized.upto[sized.last] if sized.upto else 0
    near = sized.counter is None and least < MOST and size < least * NEAR
    ends = {*prompt.breakpoints, sized.last} if sized.marked else range(len(sized.upto))
    fitting = [end for end in ends if end < len(sized.upto) and sized.upto[end] <= second.read + 1]
    return replace(unknown,
        cached=second.read, until=laws.path_at(prompt, max(fitting)) if second.read and fitting else "",
        minimum=None if least in (0, MOST) else least,
        lifetime=(asked_lifetime(turn) if sized.marked else None) or default, sure=not near and not has_unseen(prompt),
        confidence=second.confidence, first=_compute_cost(price, first), second=_compute_cost(price, second),
        uncached=_compute_cost(price, Prediction(0, 0, tokens, "ceiling")),
    )  # fmt: skip


def _predict_twice(sized: Sized, rules: DatedRules, at: float | None, least: int) -> list[Prediction]:
    """Predict the request sent at a time, and half a minute later; the cache keeps no prefix under `least` tokens."""
    from lore.cache.predictor import Predictor  # noqa: PLC0415 - `check` asks for no outlook

    turn, call = sized.turn, replace(sized.turn.call, status=None)
    blank = replace(turn, usage=None, verdict=None, response_id=None, sent=at, answered=None, call=call)
    repeat = replace(blank, number=turn.number + 1, sent=None if at is None else at + SECOND)
    predictor = Predictor(rules, sized.cache, count=sized.counter)
    predictor.begin_recording()
    predictions, billed = list[Prediction](), sent_tokens(turn.usage)
    for request in (blank, repeat):
        prediction = predictor.predict(request).prediction
        total = prediction.total
        if billed and total is not None and total > billed:  # it has to fit the billed tokens
            counts = prediction.read, prediction.write, prediction.write_1h
            read, write, hour = (round((count or 0) * billed / total) for count in counts)
            if read + write < least:
                read = write = hour = 0
            hour = None if prediction.write_1h is None else hour
            prediction = replace(prediction, read=read, write=write, uncached=billed - read - write, write_1h=hour)
        predictions.append(prediction)
    return predictions


def _compute_cost(price: Price | None, prediction: Prediction) -> float | None:
    if price is None or prediction.uncached is None or prediction.read is None or prediction.write is None:
        return None
    paid = price.of(Usage(prediction.uncached, prediction.read, prediction.write, 0, None, prediction.write_1h))
    return None if paid is None else round(float(paid), 6)


# rules


_REFUSED = (
    Code.TOO_MANY_BREAKPOINTS, Code.BREAKPOINT_NOT_TAKEN, Code.LIFETIMES_OUT_OF_ORDER, Code.CACHE_SETTING,
    Code.ORPHAN_TOOL_PAIR,
)  # fmt: skip


def is_refused(finding: Finding) -> bool:
    """Return whether a finding means that the provider refuses the request."""
    return finding.kind == "waste" and finding.code in _REFUSED


class Linter:
    """Examines requests, one by one. `cache` overrides who serves them; `labels` are those of the settings.

    `rules` returns the dated rules in force; `count` counts tokens of OpenAI's models, if an estimate is too close to
    their minimum.
    """

    def __init__(
        self, rules: Callable[[], DatedRules], labels: tuple[str, ...] = (), cache: str | None = None,
        count: Count | None = None,
    ) -> None:  # fmt: skip
        self._rules, self._labels, self._cache, self._count = rules, labels, cache, count
        self._heads: dict[tuple[tuple[Segment, ...], tuple[int, ...]], list[laws.Broken]] = {}
        # By digest of a text: the time (or size of the prompt) with which it was first sent; None: also with another.
        self._sent: dict[bytes, float | None] = {}
        if cache is not None:
            cache_named(cache)  # an unknown name raises before anything is read

    def note_sent(self, turn: Turn, broken: laws.Broken, found_in: Turn | None = None) -> bytes:
        """Remember a text that should be new in each request, with the time or the size of its prompt.

        Return its key for `is_frozen`; empty if the rule is not about such text. The text is read from `found_in`, if
        `turn` has it at another place.
        """
        has_text = broken.code in NEW_EACH_TIME and broken.at >= 0
        part = (found_in or turn).prompt.segment_at(broken.at) if has_text else None
        if part is None:
            return b""
        is_clock = isinstance(broken.evidence, d.VolatileText) and broken.evidence.what == "a clock"
        key, now = blake2b(part.data, digest_size=16).digest(), turn.answered_at if turn.at is None else turn.at
        place = now if is_clock else float(len(turn.prompt))  # the id or count of another prompt differs at once
        if place is not None and (first := self._sent.setdefault(key, place)) is not None:
            is_later = abs(place - first) >= (_MINUTE if is_clock else 1)
            self._sent[key] = None if is_later else first
            if len(self._sent) > _TEXTS:
                del self._sent[next(iter(self._sent))]
        return key

    def is_frozen(self, key: bytes) -> bool:
        """Return whether a clock was the same a minute later, or an id or count in a prompt of another size."""
        return self._sent.get(key, 0.0) is None

    def defects(self, turn: Turn) -> list[laws.Broken]:
        """Return the rules that a request breaks, each with its cost; its usage only limits the sizes (`sized_of`)."""
        sized = self._sized(turn)
        price = None if self._cache else price_of(self._rules(), turn, size=sized.upto[-1] if sized.upto else 0)
        faults = [
            *laws.request_laws(turn, self._rules, laws.find_foreign(turn.prompt)),
        ]
        if self._cache or least_cached(self._rules(), turn) < MOST:  # else it has no cache, and advice is of no use
            faults += [*self._check_head(turn), *self._check_sizes(sized)]
        tools = ToolHistory()
        tools.read(turn.prompt)
        faults += filter(None, [tools.find_orphan(turn)])
        is_cached = all(broken.code != Code.PROMPT_UNDER_MINIMUM for broken in faults)  # else nothing can be lost
        defects: list[laws.Broken] = []
        for broken in faults:
            tokens, dollars = _cost(broken, sized, price) if is_cached else (None, None)
            segment = turn.prompt.segment_at(broken.at) if broken.start and broken.at >= 0 else None
            text = "" if segment is None else _text_of(segment)
            defects.append(replace(broken, tokens=tokens, dollars=dollars, text=text))
        return defects

    def outlook(self, turn: Turn) -> Outlook:
        """Return what the cache would keep of a request that is sent twice, and the costs."""
        sized = self._sized(turn)
        outlook = outlook_of(sized, self._rules())
        if not outlook.cached or self._find_short_prefix(sized) is None:
            return outlook
        return replace(outlook, cached=0, until="", first=outlook.uncached, second=outlook.uncached)  # surely too short

    def _sized(self, turn: Turn) -> Sized:
        sized = sized_of(turn, self._cache)
        least = minimum_tokens(self._rules(), turn) if self._count and sized.where.provider == "openai" else None
        if least is not None and sized.upto and least / DOUBT < sized.upto[-1] < least * DOUBT:
            return sized_of(turn, self._cache, self._count)
        return sized

    # content of the head, and sizes

    def _check_head(self, turn: Turn) -> list[laws.Broken]:
        prompt, head = turn.prompt, turn.prompt.head
        key = head, tuple([place for place in prompt.breakpoints if place < len(head)])
        faults = self._heads.get(key)
        if faults is None:
            certain_faults = list(laws.volatile_head(prompt, self._labels))
            faults = [*certain_faults, *_find_varying(head, certain_faults), *_find_unsorted(head)]
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            self._heads[key] = faults
        return faults

    def _check_sizes(self, sized: Sized) -> Iterator[laws.Broken]:
        """Yield the rules about sizes that a request breaks."""
        turn, prompt = sized.turn, sized.prompt
        yield from _find_images(sized)
        is_kept = bool(sized.upto) and sized.upto[-1] >= least_cached(self._rules(), turn)
        provider = sized.where.provider
        if turn.dialect.startswith("openai") and laws.lacks_cache_key(turn, provider) and is_kept:
            per_minute = self._rules().number(
                "requests_per_minute", provider, turn.model, sized.where.platform, turn.at
            )
            evidence = d.CacheKeyMissing(None if per_minute is None else int(per_minute), laws.ROUTING_KEYS[provider])
            yield laws.Broken(Code.CACHE_KEY_MISSING, "parameters", "", evidence)
        if prompt.partial or not sized.cache or prompt.fidelity == "structural":
            return  # its beginning, or its breakpoints, are not recorded
        yield from laws.ignored_breakpoints(turn)
        few = self._find_missing_breakpoint(sized) or self._find_short_prefix(sized)
        yield from self._find_far_breakpoints(sized) if few is None else (few,)

    def _find_short_prefix(self, sized: Sized) -> laws.Broken | None:
        """Return the fault if the prefix up to the last breakpoint, or the prompt, is under the model's minimum."""
        turn, least = sized.turn, minimum_tokens(self._rules(), sized.turn)
        shortage = None if self._cache else laws.below_minimum(turn, self._rules)
        if sized.counter is not None and least is not None and not self._cache:
            short = sized.upto[sized.last] < least
            shortage = d.BelowMinimum(0, least, turn.model, counted=False) if short else None
        if shortage is None or not sized.upto:
            return None
        marked = sized.marked and bool(sized.prompt.breakpoints)
        at = sized.last if marked else -1
        tokens = min(sized.upto[sized.last], shortage.minimum - 1)
        evidence = replace(shortage, tokens=tokens, turns=0, marked=marked, counted=False)
        kind = None if marked else "expected"  # nothing was asked for
        return laws.Broken(Code.PROMPT_UNDER_MINIMUM, "messages", laws.path_at(sized.prompt, at), evidence, kind, at)

    def _find_missing_breakpoint(self, sized: Sized) -> laws.Broken | None:
        """Return the fault if missing breakpoints leave the whole prompt, or the conversation's history, uncached."""
        turn, prompt, upto = sized.turn, sized.prompt, sized.upto
        if self._cache or prompt.auto_breakpoint or not upto or not laws.needs_breakpoints(turn):
            return None
        minimum = minimum_tokens(self._rules(), turn) or laws.UNPUBLISHED
        if not prompt.breakpoints:
            billed = sent_tokens(turn.usage)
            if min(upto[-1], billed or upto[-1]) < minimum:
                return None
            head = len(prompt.head)
            is_first = not _latest_answer(prompt)  # nothing is repeated yet; others may share tools and system prompt
            kind = "expected" if is_first and (not head or upto[head - 1] < minimum) else None
            evidence = d.BreakpointsMissing(billed or upto[-1], minimum, None, is_first, bool(billed))
            return laws.Broken(Code.BREAKPOINTS_MISSING, "messages", "", evidence, kind)
        last, answer = prompt.breakpoints[-1], _latest_answer(prompt)
        size = sum(len(segment.data) for segment in prompt)
        is_early = laws.missing_breakpoints(turn, size, self._rules) is not None
        if not is_early and (last >= answer or sized.tokens(last + 1, answer - 1) < minimum):
            return None
        evidence = d.BreakpointsMissing(upto[-1], minimum, upto[last])
        return laws.Broken(Code.BREAKPOINTS_MISSING, "messages", laws.path_at(prompt, last), evidence, at=last)

    def _find_far_breakpoints(self, sized: Sized) -> Iterator[laws.Broken]:
        """Yield the fault if the cache looks back too few positions to reach the entry of the previous request."""
        turn, prompt, where = sized.turn, sized.prompt, sized.where
        allowed = self._rules().number("lookback", where.provider, turn.model, where.platform, turn.at)
        if not sized.marked or not allowed or not len(prompt.messages):
            return
        row = self._rules().find("lookback_runs", where.provider, turn.model, where.platform, turn.at)
        runs, head, most = row is not None and row.value is True, len(prompt.head), int(allowed)
        places = sorted({*prompt.breakpoints, *([len(sized.upto) - 1] if prompt.auto_breakpoint else ())})
        if not places or places[-1] < head:
            return
        end = _latest_answer(prompt) - 1  # where the request before ended
        spans: list[tuple[int, int, bool]] = []  # where one begins and ends, and whether it is since that request
        if end >= head and places[-1] > end:
            spans.append((end + 1, next(place for place in places if place >= end), True))
        if len(places) > 1:
            spans.append((max(places[-2] + 1, head), places[-1], False))
        for start, at, is_step in spans:
            if (new := count_positions(prompt, start, at, runs=runs)) > most:
                evidence, kind = d.BreakpointsApart(new, most, step=is_step), None if is_step else "expected"
                yield laws.Broken(Code.BREAKPOINTS_FAR_APART, "messages", laws.path_at(prompt, at), evidence, kind, at)
                return


# places


def _text_of(segment: Segment) -> str:
    """Return the text of a system block, or the description of a tool."""
    if segment.section != "tools":
        return block_of(segment).text or ""
    members = raw_members(segment.json) or {}
    for key in ("function", "toolSpec"):
        members = raw_members(members.get(key, b"")) or members
    return text_of(members["description"]) if members.get("description", b"")[:1] == b'"' else ""


def _find_varying(head: tuple[Segment, ...], certain_faults: list[laws.Broken]) -> Iterator[laws.Broken]:
    """Find text in tools and system prompt that often varies, each kind once, except text of the `certain_faults`."""
    kinds: set[str] = set()
    for at, segment in enumerate(head):
        if segment.kind == "envelope":
            continue
        words = find_varying_text(text := _text_of(segment), in_tool=segment.section == "tools")
        masked_text = mask(text) if words else ""
        for word in words:
            if word.kind in kinds:
                continue
            kinds.add(word.kind)
            if any(
                isinstance(fault.evidence, d.VolatileText) and fault.at == at
                and 0 <= word.start - fault.start < len(fault.evidence.excerpt)
                for fault in certain_faults
            ):  # fmt: skip
                continue
            masked_word = masked_text[word.start : word.start + len(word.text)]
            evidence = d.VaryingText(word.kind, printable(masked_word[:80]))
            kind = "expected" if word.kind in _BY_SESSION or _SAYS_FROZEN in text else None
            yield laws.Broken(
                Code.VARYING_TEXT_IN_PREFIX, segment.section, segment.path, evidence, kind, at, word.start
            )


def _find_unsorted(head: tuple[Segment, ...]) -> Iterator[laws.Broken]:
    """Find the first tool that follows one with a later name; capitals may come first, as most languages sort."""
    tools = [(at, tool_name(part)) for at, part in enumerate(head) if part.section == "tools" and part.kind == "tool"]
    is_sorted = all(before <= name for (_, before), (_, name) in zip(tools, tools[1:], strict=False))
    for (_, before), (at, name) in zip(tools, tools[1:], strict=False):
        if not is_sorted and name.casefold() < before.casefold():
            evidence = d.ToolsUnsorted(len(tools), before, name)
            yield laws.Broken(Code.TOOLS_UNSORTED, "tools", head[at].path, evidence, at=tools[0][0])
            return


def _find_images(sized: Sized) -> Iterator[laws.Broken]:
    """Find images in the first user message that come before enough text to be cached."""
    head, envelope, images, first, text = len(sized.prompt.head), b"", 0, -1, 0
    for number, segment in enumerate(sized.prompt.messages):
        if segment.kind == "envelope":
            if envelope:
                break
            envelope = segment.data
        elif kind_of(segment, envelope) == "image":
            images, first = images + 1, number if first < 0 else first
        elif first >= 0 and block_of(segment).kind == "text":
            text += sized.tokens(head + number, head + number)
    if images and text >= FEWEST_TEXT and b'"assistant"' not in envelope:
        path = sized.prompt.messages[first].path
        yield laws.Broken(Code.IMAGE_BEFORE_TEXT, "messages", path, d.ImageBeforeText(images, text), at=head + first)


def _latest_answer(prompt: Prompt) -> int:
    """Return where the model's last message begins, which the previous request did not have; 0 without one."""
    for place in range(len(prompt.messages) - 1, -1, -1):
        segment = prompt.messages[place]
        if segment.kind == "envelope" and (raw_members(segment.json) or {}).get("role") in (b'"assistant"', b'"model"'):
            return len(prompt.head) + place
    return 0


# money


def _cost(broken: laws.Broken, sized: Sized, price: Price | None) -> tuple[int | None, float | None]:
    """Return the tokens that are re-billed in each request that breaks a rule, and their cost; None if unknown."""
    upto, last, at = sized.upto, sized.last, broken.at
    if not upto:
        return None, None
    match broken.code:
        case Code.VOLATILE_BEFORE_HISTORY | Code.BREAKPOINT_ON_VOLATILE | Code.VARYING_TEXT_IN_PREFIX:
            tokens = upto[last] - sized.readable_tokens(at) if at <= last else 0
        case Code.TOOLS_UNSORTED:
            tokens = sized.tokens(at, last)
        case Code.BREAKPOINTS_MISSING if isinstance(evidence := broken.evidence, d.BreakpointsMissing):
            if broken.kind == "expected":
                return None, None
            end = len(sized.prompt.head) - 1 if evidence.is_first else -1
            tokens = upto[end] - (upto[at] if at >= 0 and (evidence.behind or 0) >= evidence.minimum else 0)
        case Code.BREAKPOINTS_FAR_APART:
            tokens = upto[at] - sized.readable_tokens(min(at, len(sized.prompt.head)))
        case Code.IMAGE_BEFORE_TEXT if isinstance(broken.evidence, d.ImageBeforeText):
            tokens = broken.evidence.tokens
        case _:
            return None, None
    writes = tokens if sized.marked and broken.code != Code.BREAKPOINTS_MISSING else 0
    dollars = paid_again(price, Usage(tokens - writes, 0, writes), tokens)
    return tokens, dollars if dollars is None else round(dollars, 6)
