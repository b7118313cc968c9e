"""Which earlier turn each turn is compared with, and the facts that are known about the two.

Usually that is the previous turn of its chain. It is another one if the request continues an earlier request
(`lore.prefix.chains`); if a log asked other models in between, as each model has a cache of its own; if its chain
is new, and restarts another one without its tools, was sent at the same time as others with the same tools and system
prompt, or asks for a summary of another chain. A call that is recorded twice is judged once, and a failed request wrote
no cache: neither is compared.

Memory: of each chain one turn a model, the heads of 16 first turns, the response ids of 4,096 calls. The cost of a turn
is O(its new content).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules, Lifetime, least_lifetime, lifetime_after
from lore.cache.served import served_by
from lore.cache.transcript_history import TokenRate, growth
from lore.judge.pairs.answers import explain_answer
from lore.judge.pairs.attribution import PARALLEL, explain_by_clock, explain_unread
from lore.judge.pairs.finders import seconds_before_answer
from lore.judge.pairs.pair import Pair, PairFacts, Tally, is_remark
from lore.judge.pairs.rewrites import cut_messages, find_replaced_tail
from lore.judge.pairs.verdict import Remarks, explain_fall, judge_pair, judge_unmeasured
from lore.judge.runs.siblings import lost_of_head
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.events import MAIN, PromptHashes, Usage
from lore.model.evidence import ColdCompaction
from lore.model.items import ToolCall
from lore.model.state import UTILITY, Change, Entry
from lore.model.turn import Turn
from lore.model.vector import Vector
from lore.prefix.causes import recorded_causes
from lore.prefix.chains import RequestEnd, RequestEnds, cache_scope
from lore.prefix.overlap import ChainSums, Overlap, byte_size, compare_prompts
from lore.prefix.purpose import asks_for_summary, quoted_share
from lore.prefix.tools import explain_hashes

if TYPE_CHECKING:
    from lore.cache.transcripts import TurnState

# Returns what the log shows of a turn before its usage; only asked if the read fell.
StateOf: TypeAlias = Callable[[], "TurnState | None"]
_Cache: TypeAlias = tuple["str | None", str]  # what separates a transcript's caches: the model, and who answered

_LONG = 50_000  # tokens: a compaction of so long a prompt surely shortens it
_QUOTED = 0.5  # a request for a summary holds more than this share of the conversation's texts
_COPIES = 4096  # calls of a recording by which a copy of one is recognised
SIBLINGS = 16  # first turns of chains, among which requests that were sent at the same time are searched
_TRIED = 4  # of them, with which a head is compared
# What differs in the heads of requests that one program sends.
_BY_CHANCE = frozenset((
    Code.DATE_IN_PREFIX, Code.ID_IN_PREFIX, Code.TOKEN_REMINDER_IN_PREFIX, Code.TOOLS_REORDERED, Code.KEY_ORDER_CHANGED,
    Code.PARALLEL_START,
))  # fmt: skip
_REWRITES = (Code.COMPACTION, Code.REWIND, Code.TOOL_RESULT_REWRITTEN)
_COVERED = Overlap(0, 0, 0, is_covered=True, is_covered_canonically=True)


class Compared(NamedTuple):
    """The result of comparing a turn."""

    pair: Pair | None = None
    extends: bool = False  # it extends the previous turn and read everything: no pair was made


class _Hashed(NamedTuple):
    """The hashes that a client recorded of a request."""

    turn: int
    hashes: PromptHashes
    rewritten: bool = False  # the history was replaced since, as the log says


class ComparedChain:
    """The memory of one chain; `billed`: each turn follows the previous one, so that usages can be compared.

    `rules` tell how long caches without breakpoints keep the prompts of recorded requests.
    """

    def __init__(self, *, billed: bool = True, rules: Callable[[], DatedRules] | None = None) -> None:
        self._billed = billed
        self._rules = rules
        self._first: Turn | None = None  # the first billed turn of a log
        self._last: Turn | None = None
        self._last_read: Turn | None = None  # the last turn of a log that read anything
        self._by_cache: dict[_Cache, Turn] = {}  # the last billed turn of a log in each cache
        self._hashed: dict[_Cache, _Hashed] = {}
        self._shown: dict[str, Tally] = {}
        self._lifetime: float | None = None
        self._least_lifetime: float | None = None  # of recorded requests, if a rule tells the lifetime
        self._earlier: int | None = None  # tokens that the turn before the last one left in the cache
        self._reads_all = False  # the latest read reached the end of the previous prompt, whose writes are unknown
        self._low: tuple[int, int] | None = None  # tokens that the last turn read, if fewer than the second number were
        self._remarks = Remarks()
        self._history: Vector[Entry] = Vector()  # the latest one that was searched for a tool call
        self._first_call: int | None = None  # its place in that history
        self._before_compaction = deque[Turn](maxlen=SIBLINGS)
        self._delayed: tuple[Change, ...] = ()  # compactions in the log that have not shortened a prompt yet
        self._unanswered = deque[Turn](maxlen=SIBLINGS)  # since the last turn: what they show is the next one's
        self._measured: Turn | None = None  # the turn whose bytes are in `_sizes`
        self._sizes = ChainSums(byte_size)

    @property
    def ends(self) -> list[Turn]:
        """The latest turn, and those of a log that preceded a compaction."""
        return [*self._before_compaction, *([] if self._last is None else [self._last])]

    def advance(self, turn: Turn, state_of: StateOf = lambda: None, end: RequestEnd | None = None) -> Pair | None:
        """Judge the next turn; None for the first, and for one that failed.

        `end` is the request that it continues, if that is not its chain's last turn.
        """
        if turn.failed:
            return None
        if self._is_unanswered(turn):
            self._unanswered.append(turn)
            return None
        if self._unanswered:
            turns = [*self._unanswered, turn]
            self._unanswered.clear()
            changes = tuple([change for one in turns for change in _without_model_change(one)])
            turn = replace(turn, changes=changes, signs=tuple([sign for one in turns for sign in one.signs]))
        previous, own, pair = self._last, None, None
        if turn.basis is not None and previous is not None:
            turn = self._place_compaction(previous, turn)
        if previous is not None and self._delayed and turn.basis is not None:  # lore's timeline is ahead of the prompt
            short = counts.shortfall(previous, turn)
            fell = counts.significant_fall(previous, short)
            facts = self._facts(previous, turn, _COVERED, fell, state_of)
            pair = judge_unmeasured(facts, (explain_by_clock(facts),) if fell else (), short)
        elif end is not None:
            pair = self._compare(end.turn, turn, state_of, end.used)
        elif previous is not None:
            own = self._last_of_own_model(previous, turn)
            if own is not None:
                pair = self._compare(own, replace(turn, changes=_without_model_change(turn)), state_of, own)
            else:
                pair = self._compare(previous, turn, state_of)
                if not pair.fell and self._billed and _reads_nothing(previous, turn):
                    pair = self._explain_unread(previous, turn, state_of, pair)
        self._remember(turn, own)
        return pair

    def extend(self, turn: Turn, state_of: StateOf = lambda: None) -> Compared | None:
        """Judge the next turn if it surely extends the last one; None if that is not sure.

        No prompt is made then and nothing is measured: only the read can have fallen, and usage shows by how much.
        """
        previous = self._last
        if (
            previous is None
            or self._delayed
            or self._unanswered
            or self._is_unanswered(turn)
            or not turn.extends(previous)
        ):
            return None
        there, read = counts.cached(previous.usage), counts.first_pass_read(turn.usage)
        if there is not None and read and read >= there and turn.hashes is None and self._low is None:  # most turns
            self._remember(turn)
            return Compared(extends=True)
        if there is None and self._last_of_own_model(previous, turn) is not None:
            return None
        previous = self._with_cached(previous, turn)
        short = counts.shortfall(previous, turn) if self._billed else None
        fell = counts.significant_fall(previous, short)
        moved = self._hash_causes(turn)
        if (fell or moved) and recorded_causes(turn.changes):
            return None
        pair = None
        if fell or (moved and fell is None):
            facts = self._facts(previous, turn, _COVERED, fell, state_of)
            pair = judge_unmeasured(facts, explain_fall(facts) if fell else moved, short)
        if not fell and self._billed and _reads_nothing(previous, turn):
            pair = self._explain_unread(previous, turn, state_of, pair)
        self._remember(turn)
        return Compared(pair, extends=True)

    def _is_unanswered(self, turn: Turn) -> bool:
        """Return whether a log with usage has none of this request: it was billed nothing, and left no cache."""
        return turn.usage is None and turn.basis is not None and bool(self._by_cache)

    def _place_compaction(self, previous: Turn, turn: Turn) -> Turn:
        """Return the turn with the compaction that shortened its prompt, and without one that did not yet.

        pi wrote a compaction after a pause whose request still sent 372,732 tokens; a later one sent 46,657.
        """
        before, after = counts.prompt_tokens(previous.usage), counts.prompt_tokens(turn.usage)
        late = tuple([change for change in turn.changes if change.cause == Code.COMPACTION])
        if late and after >= before >= _LONG:
            self._delayed = late
            rest = tuple([change for change in turn.changes if change.cause != Code.COMPACTION])
            return replace(turn, changes=rest)
        if self._delayed and after and (after < before - counts.DROP or late):
            delayed, self._delayed = self._delayed, ()
            return turn if late else replace(turn, changes=(*turn.changes, *delayed))
        return turn

    def _compare(self, previous: Turn, current: Turn, state_of: StateOf, last_use: Turn | None = None) -> Pair:
        if self._measured is not previous:  # turns passed since the last one that was measured
            before = self._measured
            shared = 0 if before is None else compare_prompts(before.prompt, previous.prompt).common
            self._sizes.advance(previous.prompt, shared)
        overlap, tail = compare_prompts(previous.prompt, current.prompt), None
        if not overlap.is_covered and not current.is_rebuilt and current.fidelity != "rendered":
            tail = find_replaced_tail(previous.prompt, current.prompt)
        if tail is not None:
            size, cut = len(previous.prompt), cut_messages(previous.prompt, tail.begin, tail.segments)
            previous = replace(previous, source=cut)
            self._sizes.advance(previous.prompt, min(size, previous.prompt.stable))
            overlap = compare_prompts(previous.prompt, current.prompt)
        if previous.basis is not None or overlap.is_covered:
            previous = self._with_cached(previous, current)
        short = counts.shortfall(previous, current) if self._billed else None
        fell = counts.significant_fall(previous, short)
        facts = self._facts(previous, current, overlap, fell, state_of, last_use)
        self._measured = current
        return judge_pair(facts, self._sizes, self._remarks, short, tail)

    def _facts(
        self, previous: Turn, current: Turn, overlap: Overlap, fell: int | None, state_of: StateOf,
        last_use: Turn | None = None,
    ) -> PairFacts:  # fmt: skip
        is_compacted = any(change.cause == Code.COMPACTION for change in current.changes)  # that explains a fall
        return PairFacts(
            previous, current, overlap, fell, billed=self._billed, last_use=last_use, shown=self._shown,
            lifetime=self._lifetime if last_use is None else counts.lifetime(previous, self._lifetime),
            least_lifetime=self._least_lifetime, earlier=self._earlier if last_use is None else None,
            state=state_of() if fell and not is_compacted else None, first=self._first,
            hash_causes=self._hash_causes(current), has_tool_call=self._has_tool_call(current),
        )  # fmt: skip

    def _explain_unread(self, previous: Turn, turn: Turn, state_of: StateOf, pair: Pair | None) -> Pair | None:
        """Return the pair with the cause of a turn that read nothing, like the previous one.

        It is compared with the last turn that read anything of the same history; `previous` is the last use of that.
        """
        if pair is not None and pair.is_break:
            return pair
        last = self._last_read
        base = last if last is not None and _cache_of(last) == _cache_of(turn) and turn.extends(last) else previous
        short = counts.shortfall(base, turn)
        fell = counts.significant_fall(base, short)
        facts = replace(self._facts(base, turn, _COVERED, fell, state_of, previous), state=state_of())
        cause = explain_unread(facts)
        if cause is None:
            return pair
        unread = judge_unmeasured(facts, (cause,), short)
        if pair is None:
            return unread
        return replace(
            pair, causes=(cause, *pair.causes), fell=unread.fell, short=short, available=unread.available
        )  # fmt: skip

    def _last_of_own_model(self, previous: Turn, current: Turn) -> Turn | None:
        """Return the last billed turn of the current one's model, if others are in between and usage shows its read.

        A read of less than that turn left fell in its own cache. If all of that was read and the chain has grown by
        more since, the change of model explains the rest. A turn without usage removes nothing from that cache.
        """
        own = self._by_cache.get(_cache_of(current))
        if own is None or own is previous:
            return None
        is_same = _cache_of(previous) == _cache_of(current)
        is_log = current.basis is not None
        extends = current.extends(own) if is_log else compare_prompts(own.prompt, current.prompt).is_covered
        if not extends or (is_same and counts.cached(previous.usage) is not None):
            return None
        short = counts.shortfall(own, current)
        beyond = counts.significant_fall(previous, counts.shortfall(previous, current))
        return own if short is not None and (counts.significant_fall(own, short) or not beyond) else None

    def _has_tool_call(self, turn: Turn) -> bool:
        """Return whether a log's history has a tool call; only entries since the last call are searched."""
        if turn.basis is None:
            return False
        history = turn.basis.entries
        same = self._history.common(history)
        if self._first_call is None or self._first_call >= same:
            new = enumerate(history.since(same), same)
            self._first_call = next((place for place, entry in new if isinstance(entry.item, ToolCall)), None)
        self._history = history
        return self._first_call is not None

    def _hash_causes(self, current: Turn) -> tuple[Cause, ...]:
        """Return what differs by hash from the last request to the same model that has hashes."""
        before = None if current.hashes is None else self._hashed.get(_cache_of(current))
        if current.hashes is None or before is None:
            return ()
        moved = explain_hashes(before.hashes, current.hashes, current.number - before.turn)
        rewritten = before.rewritten or any(change.cause in _REWRITES for change in current.changes)
        return tuple([cause for cause in moved if not (rewritten and cause.section == "messages")])

    # what usage omits

    def _note_reads(self, turn: Turn) -> None:
        """Remember whether the latest read reached the end of the previous prompt, whose writes are not reported.

        A read that fell says nothing of that. It is remembered, as the next request may read no more.
        """
        previous, read = self._last, counts.first_pass_read(turn.usage)
        self._low = None
        if previous is None or read is None or _cache_of(previous) != _cache_of(turn) or counts.bills_writes(previous):
            return
        whole, stood = counts.prompt_tokens(previous.usage), counts.cached(previous.usage) or 0
        unread = whole - read
        if stood - read > counts.DROP:
            self._low = read, stood
        elif read:
            self._reads_all = 0 <= unread <= max(2 * counts.block_tokens(turn), counts.TOLERANCE_SHARE * whole)

    def _with_cached(self, previous: Turn, current: Turn) -> Turn:
        """Return the previous turn with all of its prompt cached, if reads fell and earlier ones show that.

        After a read that fell, one that is as low, or still lower than before the fall, missed the same.
        """
        usage, read, low = previous.usage, counts.first_pass_read(current.usage), self._low
        if usage is None or usage.iterations or counts.bills_writes(previous):
            return previous
        block, whole = counts.block_tokens(previous), counts.prompt_tokens(usage)
        is_low = low is not None and read is not None and (abs(read - low[0]) < block or read < low[1] - counts.DROP)
        is_fallen = bool(counts.significant_fall(previous, counts.shortfall(previous, current)))
        is_short = is_low or (is_fallen and self._reads_all and previous.basis is not None)
        if not is_short or _cache_of(previous) != _cache_of(current):
            return previous
        return _keep_cached(previous, whole // block * block if self._reads_all or low is None else min(low[1], whole))

    # memory

    def _remember(self, turn: Turn, own: Turn | None = None) -> None:
        """Make a turn the last one; `own` is the turn that it was compared with, if that was not the last."""
        previous = self._last if own is None else own
        if previous is not None and any(change.cause == Code.COMPACTION for change in turn.changes):
            self._before_compaction.append(previous)
        if self._first is None and turn.basis is not None and counts.prompt_tokens(turn.usage):
            self._first = turn
        if turn.is_rebuilt and self._billed and counts.cached(turn.usage) is not None:
            if turn.basis is None:  # its prompt is in memory
                self._by_cache.clear()
            self._by_cache[_cache_of(turn)] = turn
        self._note_reads(turn)
        if self._low is not None and any(change.cause in _REWRITES for change in turn.changes):
            self._low = self._low[0], 0  # what was cached before is not in this history
        if self._hashed and any(change.cause in _REWRITES for change in turn.changes):
            self._hashed = {cache: before._replace(rewritten=True) for cache, before in self._hashed.items()}
        if turn.hashes is not None:
            self._hashed[_cache_of(turn)] = _Hashed(turn.number, turn.hashes)
        self._earlier = counts.first_pass_read(turn.usage) if previous is None else counts.cached(previous.usage)
        if turn.signs:
            fell = previous is not None and bool(counts.significant_fall(previous, counts.shortfall(previous, turn)))
            for sign in turn.signs:
                tally = self._shown.get(sign.name, Tally())
                self._shown[sign.name] = tally if previous is None else tally.plus(fell=fell)
        self._last = turn
        if turn.basis is not None and counts.first_pass_read(turn.usage):
            self._last_read = turn
        if turn.basis is None and self._rules is not None:
            kept = lifetime_after(turn, Lifetime(self._lifetime), self._rules)
            self._lifetime = kept.seconds
            is_by_rule = kept.seconds is not None and not kept.billed
            self._least_lifetime = least_lifetime(self._rules(), served_by(turn), turn) if is_by_rule else None
        else:
            self._lifetime = counts.lifetime(turn, self._lifetime)
        self._remarks.note(turn)


def _keep_cached(turn: Turn, kept: int) -> Turn:
    """Return a turn as if the first `kept` tokens of its prompt, or more that it read, were read."""
    usage = turn.usage or Usage()
    end = max(kept, usage.read_tokens or 0)
    uncached = counts.prompt_tokens(usage) - end
    return replace(turn, usage=replace(usage, read_tokens=end, uncached_tokens=uncached))


def _cache_of(turn: Turn) -> _Cache:
    return turn.model, turn.call.answered_by


def _without_model_change(turn: Turn) -> tuple[Change, ...]:
    """Return a turn's changes but for one of the model, as it is compared with another turn than the previous one."""
    return tuple([change for change in turn.changes if change.cause != Code.MODEL_CHANGED])


def _reads_nothing(previous: Turn, current: Turn) -> bool:
    """Return whether a turn of a log read nothing although it extends the previous one, which left little to read."""
    if current.basis is None or counts.first_pass_read(current.usage) != 0 or current.changes:
        return False
    there = counts.cached(previous.usage)
    if there is None or there > counts.DROP or not counts.prompt_tokens(previous.usage):
        return False
    if counts.bills_writes(previous) or counts.bills_writes(current):
        return False
    return _cache_of(previous) == _cache_of(current) and current.extends(previous)


class ComparedChains:
    """The chains of one recording; `seen` counts them."""

    def __init__(self, rules: Callable[[], DatedRules] | None = None) -> None:
        self._rules = rules
        self._chains: dict[str, ComparedChain] = {}
        self._latest: dict[str, Turn] = {}  # the last recorded request of each chain
        self._starts: deque[Turn] = deque(maxlen=SIBLINGS)
        self._log_starts: deque[Turn] = deque(maxlen=SIBLINGS)
        self._ends = RequestEnds()  # recorded requests that a later one may continue
        self._known: OrderedDict[tuple[str, float, int], str] = OrderedDict()  # the latest calls, and their chains
        self.seen = 0

    def compare(self, turn: Turn, state_of: StateOf = lambda: None, *, quick: bool = False) -> Compared:
        """Judge the next turn against the one that it is compared with; `quick`: without measuring, if that is safe."""
        chain = self._chains.get(turn.chain)
        if quick and chain is not None and (extension := chain.extend(turn, state_of)) is not None:
            return extension
        is_new = chain is None
        if chain is None:
            chain = self._begin(turn)
        if turn.basis is not None or turn.failed:
            pair = chain.advance(turn, state_of)
            return Compared((self._find_cold_summary(turn) or self._compare_with_parallel(turn)) if is_new else pair)
        before, self._latest[turn.chain] = self._latest.get(turn.chain), turn
        answer = turn.response_id, len(turn.prompt)  # a mocked client gives every response the same id
        if before is not None and turn.response_id and (before.response_id, len(before.prompt)) == answer:
            return Compared()
        original = self._chain_of_original(turn)
        if original is not None:
            if original != turn.chain:
                chain.advance(turn)  # the next request may continue it
            return Compared()
        end = self._ends.add(turn)
        flips = _flips_back(before, end, turn)
        pair = chain.advance(turn, state_of, None if flips else end)
        if flips and pair is not None:  # usage shows more than these bytes share
            pair = replace(pair, causes=tuple([
                replace(one, qualifiers=(*one.qualifiers, "alternates"))
                for one in pair.causes if one.code != Code.VERDICT_DISAGREES
            ]))  # fmt: skip
        pair = None if pair is None else explain_answer(pair)
        return Compared(self._compare_with_summarised(turn) or pair or (self._compare_heads(turn) if is_new else None))

    def forget(self, name: str) -> None:
        """Forget a chain that no turn will continue."""
        self._chains.pop(name, None)
        self._latest.pop(name, None)
        self._ends.forget([name])

    def _begin(self, turn: Turn) -> ComparedChain:
        """Begin a chain, with the turn of another chain that its first turn is compared with."""
        chain = self._chains[turn.chain] = ComparedChain(rules=self._rules)
        self.seen += 1
        if turn.basis is not None or turn.failed:
            return chain
        previous = self._latest.get(turn.given_up)
        if previous is not None:
            chain.advance(previous)
        if turn.prompt.head:  # only tools and system prompt, which it may share with others
            self._starts.append(replace(turn, source=cut_messages(turn.prompt, 0)))
        return chain

    def _compare_heads(self, turn: Turn) -> Pair | None:
        """Return the verdict on the first request of a chain against the same program's head in another one.

        The heads differ by a clock, an id, a count or an order: without it, the later request would have read the other
        one. Or they are equal, and were sent together. A head that was the same for longer than the cache keeps it, as
        one with today's date, changes too seldom to cost anything.
        """
        head, scope = turn.prompt.head, cache_scope(turn)
        alike = (
            start for start in [*self._starts][-2::-1]
            if cache_scope(start) == scope and [one.path for one in start.prompt.head] == [one.path for one in head]
            and (pause := counts.pause_between(start, turn)) is not None
            and pause <= (counts.lifetime(start, None) or counts.FIVE_MINUTES)
        )  # fmt: skip
        for start in islice(alike, _TRIED if head else 0):
            chain = ComparedChain(rules=self._rules)
            chain.advance(start)
            pair = chain.advance(turn)
            causes = () if pair is None else tuple([cause for cause in pair.causes if not is_remark(cause)])
            by_chance = [one.code in _BY_CHANCE or one.evidence.fix_detail() == "order" for one in causes]
            lost = lost_of_head(pair, self._rules) if pair is not None and causes and all(by_chance) else 0
            if pair is not None and lost > counts.DROP and not self._has_lasted(start):
                sent = (counts.cached if counts.bills_writes(start) else counts.prompt_tokens)(start.usage) or 0
                has_more = sent - (counts.first_pass_read(turn.usage) or 0) - lost > 2 * counts.block_tokens(start)
                return replace(pair, causes=causes, rebilled=lost if has_more else None)
        return None

    def _has_lasted(self, start: Turn) -> bool:
        """Return whether another conversation began with the same head, longer before than its cache entry lives."""
        lifetime = counts.lifetime(start, None) or counts.FIVE_MINUTES
        same = (other for other in self._starts if other.prompt.head == start.prompt.head)
        return any((counts.pause_between(other, start) or 0.0) > lifetime for other in same)

    def _chain_of_original(self, turn: Turn) -> str | None:
        """Return the chain of the call that this one is a copy of: the same response to as long a prompt, at that time.

        The time separates the calls of a server that gives every response the same id.
        """
        if not turn.response_id or turn.at is None:
            return None
        key = turn.response_id, turn.at, len(turn.prompt)
        if key in self._known:
            return self._known[key]
        self._known[key] = turn.chain
        if len(self._known) > _COPIES:
            self._known.popitem(last=False)
        return None

    def _compare_with_summarised(self, turn: Turn) -> Pair | None:
        """Return the verdict on a request for a summary against the conversation that it quotes, if that is cold."""
        usage = turn.usage
        if usage is None or usage.read_tokens is None or len(self._latest) < 2:
            return None
        if not asks_for_summary(turn.prompt, turn.call):
            return None
        others = [
            other for chain, other in self._latest.items()
            if chain != turn.chain and cache_scope(other) == cache_scope(turn)
            and (counts.cached(other.usage) or 0) > counts.TOLERANCE_TOKENS
            and not asks_for_summary(other.prompt, other.call)
        ]  # fmt: skip
        quoted = max(others[-SIBLINGS:], key=lambda other: quoted_share(other.prompt, turn.prompt), default=None)
        if quoted is None or quoted_share(quoted.prompt, turn.prompt) <= _QUOTED:
            return None
        whole, block = counts.prompt_tokens(quoted.usage), counts.block_tokens(quoted)
        chain = ComparedChain()
        chain.advance(quoted if counts.bills_writes(quoted) else _keep_cached(quoted, whole // block * block))
        pair = chain.advance(turn)
        is_cold = pair is not None and pair.causes[:1] and pair.causes[0].code == Code.COLD_COMPACTION
        return pair if is_cold else None

    def _find_cold_summary(self, turn: Turn) -> Pair | None:
        """Return the verdict on a log's request for a summary that read less than half of what its conversation left.

        It is a call of the client's own that sends most of the conversation to the same model within five minutes.
        Chains of a file's second document are `main-2` and `utility-N-2`.
        """
        document = turn.chain.removeprefix(UTILITY).partition("-")[2]
        main = self._chains.get(f"{MAIN}-{document}" if document else MAIN)
        read = counts.first_pass_read(turn.usage)
        if main is None or read is None or not turn.chain.startswith(UTILITY):
            return None
        pauses = [(counts.pause_between(end, turn), end) for end in main.ends]  # the log may have the next turns before
        earlier = [(pause, end) for pause, end in pauses if pause is not None and pause >= 0]
        if not earlier:
            return None
        pause, last = min(earlier, key=itemgetter(0))
        there, size = counts.cached(last.usage) or 0, counts.prompt_tokens(turn.usage)
        warm, is_long = min(there, size), 2 * size > counts.prompt_tokens(last.usage)
        is_cold = warm - read > counts.TOLERANCE_TOKENS and 2 * read < warm
        if not (is_cold and is_long and pause <= counts.FIVE_MINUTES and last.model == turn.model):
            return None
        cause = Cause(Code.COLD_COMPACTION, "messages", ColdCompaction((), there, read, warm), strength="strong")
        facts = PairFacts(last, turn, _COVERED, counts.shortfall(last, turn), billed=True)
        return judge_unmeasured(facts, (cause,), facts.fell)

    def _compare_with_parallel(self, turn: Turn) -> Pair | None:
        """Return the verdict on the first request of a log's chain that another chain's began too late to serve."""
        usage = turn.usage
        if turn.failed or usage is None or usage.read_tokens is None or not usage.write_tokens:
            return None
        starts = [start for start in self._log_starts if seconds_before_answer(start, turn) is not None]
        self._log_starts.append(turn)
        size = _head_tokens(turn)
        for start in starts:
            is_same = abs(size - _head_tokens(start)) <= counts.TOLERANCE_SHARE * size and start.model == turn.model
            lost = min(size, _head_tokens(start)) - usage.read_tokens
            if not is_same or lost <= counts.DROP or usage.read_tokens > (counts.first_pass_read(start.usage) or 0):
                continue
            facts = PairFacts(start, turn, _COVERED, counts.shortfall(start, turn), billed=True)
            cause = PARALLEL.explain(facts)
            return None if cause is None else replace(judge_unmeasured(facts, (cause,), facts.fell), rebilled=lost)
        return None


def _flips_back(before: Turn | None, end: RequestEnd | None, turn: Turn) -> bool:
    """Return whether a request continues the last one's messages with tools and system prompt of an earlier one.

    It read what that one left; the messages in between were sent with the other head, so that they are billed again.
    """
    read = counts.first_pass_read(turn.usage)
    if before is None or end is None or read is None or read < (counts.cached(end.turn.usage) or 0):
        return False
    sent = (counts.cached if counts.bills_writes(before) else counts.prompt_tokens)(before.usage) or 0
    shared, known = before.prompt.messages, len(end.turn.prompt.messages)
    return sent - read > 2 * counts.block_tokens(before) and known < len(shared) == shared.common(turn.prompt.messages)


def _head_tokens(turn: Turn) -> int:
    """Estimate the tokens before the history in the first request of a log's chain."""
    entries = Vector[Entry]() if turn.basis is None else turn.basis.entries
    return counts.prompt_tokens(turn.usage) - TokenRate().tokens(growth(entries, 0, turn.at), None)
