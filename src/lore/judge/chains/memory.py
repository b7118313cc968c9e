"""What is remembered of a chain's earlier turns, from which the facts of the next pair are made.

`ChainMemory` has one object for each kind of fact. For example, `LogCaches` remembers that model A answered turn 3 and
model B turn 4, so that turn 5, which asks A again, is compared with turn 3. The cost of a turn is O(its new content).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.log_branches import CacheKey, LogBranches, cache_key
from lore.cache.rules import DatedRules, Lifetime, least_lifetime, lifetime_after
from lore.cache.served import cache_of, served_by
from lore.cache.transcript_history import Growth, growth
from lore.judge.pairs.pair import EXTENDED, NO_SIGNAL, PairFacts, Tally, with_read_tokens
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.events import PromptHashes
from lore.model.items import ToolCall
from lore.model.state import Change, Entry
from lore.model.turn import Turn
from lore.model.vector import Vector
from lore.prefix.overlap import Overlap, compare_prompts
from lore.prefix.tools import explain_hashes

if TYPE_CHECKING:
    from lore.cache.transcripts import TurnState

# Returns what the log shows of a turn before its usage; only asked if the read fell.
StateOf: TypeAlias = Callable[[], "TurnState | None"]

_LONG = 50_000  # tokens: a compaction of so long a prompt surely shortens it
_FALLS = 16  # reads that fell
_LOOPS = 8  # turns that are kept to find those of another loop
_HELD = 16  # turns without usage whose changes are kept for the next one
_REWRITES = (Code.COMPACTION, Code.REWIND, Code.TOOL_RESULT_REWRITTEN)


class ChainMemory:
    """Everything that is remembered of one chain; `ComparedChain` explains the arguments."""

    def __init__(self, rules: Callable[[], DatedRules], *, comparable: bool) -> None:
        self._rules, self._comparable = rules, comparable
        self.last: Turn | None = None
        self.last_read: Turn | None = None  # the last turn of a log that read anything
        self.is_conversation = False  # as in `PairFacts`
        self.changes = LoggedChanges()
        self.caches = LogCaches()
        self.writes = UnreportedWrites()
        self.hashes = ClientHashes()
        self.loops = ConcurrentLoops()
        self.branches = LogBranches()
        self._results = ResultSizes()
        self._reasoning = EarlierReasoning()
        self._first: Turn | None = None  # the first turn of a log with usage
        self._earlier: int | None = None  # tokens that the turn before the last one left in the cache
        self._tallies: dict[str, Tally] = {}  # signals of earlier turns
        self._grown_falls = deque[int](maxlen=_FALLS)  # as in `PairFacts`
        self._lifetime: float | None = None  # seconds that the entries of the last turn live; None: unknown
        # seconds that they surely live; None unless a rule tells the lifetime of a recorded request
        self._least_lifetime: float | None = None
        self._hour_end: int | None = None  # where entries that live an hour end, if others follow them

    def facts(
        self, previous: Turn, current: Turn, state_of: StateOf, overlap: Overlap = EXTENDED,
        last_use: Turn | None = None,
    ) -> PairFacts:  # fmt: skip
        """Return the facts of two turns; `last_use`: a later turn that sent the whole previous prompt again."""
        short = counts.shortfall(previous, current) if self._comparable else None
        fell = counts.significant_fall(previous, short)
        is_compacted = any(change.cause == Code.COMPACTION for change in current.changes)  # that explains a fall
        omits_thinking = False  # the model of a recorded request reads no thinking before the user's latest prompt
        if current.basis is None and (fell or not overlap.is_covered):
            where = served_by(current)
            omits_thinking = self._rules().flag(
                "drops_thinking", where.provider, current.model, where.platform, current.at
            )
        unbilled = [turn for turn in self.changes.unbilled if cache_key(turn) == cache_key(current)]
        return PairFacts(
            previous, current, overlap, fell, comparable=self._comparable, short=short, last_use=last_use,
            tallies=self._tallies, unbilled=tuple(unbilled), first=self._first, omits_thinking=omits_thinking,
            lifetime=self._lifetime if last_use is None else counts.lifetime(previous, self._lifetime),
            least_lifetime=self._least_lifetime, earlier=self._earlier if last_use is None else None,
            hour_end=self._hour_end if previous is self.last else counts.hour_end(previous.usage, None),
            state=state_of() if fell and not is_compacted else None,
            earlier_reasoning=self._reasoning.before(current) if fell else None, grown_falls=tuple(self._grown_falls),
            hash_causes=self.hashes.causes(current), result_bytes=self._results.total(current),
            is_conversation=self.is_conversation,
        )  # fmt: skip

    def add(self, turn: Turn, previous: Turn | None) -> None:
        """Remember a turn as the last one; `previous` is the turn that it was compared with."""
        if self._first is None and turn.basis is not None and counts.prompt_tokens(turn.usage):
            self._first = turn
        if self._comparable:
            self.caches.add(turn)
        self.writes.add(self.last, turn)
        self.hashes.add(turn)
        self.loops.add(turn)
        self.branches.add(turn)
        self._reasoning.add(turn)
        self._earlier = counts.first_pass_read(turn.usage) if previous is None else counts.cached(previous.usage)
        # there is no read to fall at a chain's first turn
        fell = previous is not None and bool(counts.significant_fall(previous, counts.shortfall(previous, turn)))
        if previous is not None and fell and counts.prompt_tokens(turn.usage) >= counts.prompt_tokens(previous.usage):
            self._grown_falls.append(counts.first_pass_read(turn.usage) or 0)
        for name in [sign.name for sign in turn.signs] or [NO_SIGNAL]:
            tally = self._tallies.get(name, Tally())
            self._tallies[name] = tally if previous is None else tally.plus(fell=fell)
        self._hour_end = counts.hour_end(turn.usage, self._hour_end, self._lifetime)
        if turn.basis is not None:
            self._lifetime = counts.lifetime(turn, self._lifetime)
        else:  # its usage shows the lifetime, or a rule tells it
            lifetime = lifetime_after(turn, Lifetime(self._lifetime), self._rules)
            self._lifetime = lifetime.seconds
            is_by_rule = lifetime.seconds is not None and not lifetime.billed
            self._least_lifetime = least_lifetime(self._rules(), served_by(turn), turn) if is_by_rule else None
        self.last, self.changes.unbilled = turn, ()
        if turn.basis is not None and counts.first_pass_read(turn.usage):
            self.last_read = turn


class EarlierReasoning:
    """Reasoning since the user's previous prompt, which the model of an unknown cache may omit at the next one.

    GLM-5.1 in pi: 32 of 37 reads fell at a prompt of the user, 3 of 428 in tool loops; 9 reads ended exactly where
    the first request after the previous prompt of the user had ended.
    """

    def __init__(self) -> None:
        self._entries = 0  # of the latest turn
        self._first: int | None = None  # entries before the first reasoning since the latest prompt; None: without any
        self._tokens = 0  # of the first request after that prompt

    def before(self, turn: Turn) -> tuple[int, int] | None:
        """Return how many entries and tokens precede the reasoning that this prompt may lack; None without any."""
        grown = self._growth(turn)
        if grown is None or not grown.prompted or not (grown.has_thinking or self._first is not None):
            return None
        return self._entries if self._first is None else self._first, self._tokens

    def add(self, turn: Turn) -> None:
        """Remember where the reasoning of a log's turn begins."""
        grown = self._growth(turn)
        if grown is None or turn.basis is None:
            return
        if grown.prompted:
            self._first, self._tokens = None, counts.prompt_tokens(turn.usage)
        elif grown.has_thinking and self._first is None:
            self._first = self._entries
        self._entries = len(turn.basis.entries)

    def _growth(self, turn: Turn) -> Growth | None:
        if turn.basis is None or cache_of(turn, served_by(turn)):
            return None
        return growth(turn.basis.entries, min(self._entries, len(turn.basis.entries)), turn.at)


def _is_rewritten(turn: Turn) -> bool:
    """Return whether a log replaces history at this turn."""
    return any(change.cause in _REWRITES for change in turn.changes)


class LogCaches:
    """The last turn of a log in each of its caches: each model, and each provider, has one of its own."""

    def __init__(self) -> None:
        self.latest: dict[CacheKey, Turn] = {}

    def add(self, turn: Turn) -> None:
        """Remember a log's turn with usage as its cache's last; one that has its prompt replaces all others."""
        if turn.is_rebuilt and counts.cached(turn.usage) is not None:
            if turn.basis is None:  # its prompt is in memory
                self.latest.clear()
            self.latest[cache_key(turn)] = turn

    def last_of_own_model(self, previous: Turn, current: Turn) -> Turn | None:
        """Return the last turn in the current turn's cache, to compare it with that; None if that is the previous turn.

        None as well if the current prompt does not extend it, or if all that it left was read although less was read
        than the previous turn left: then the change of model is the cause.
        """
        last = self.latest.get(cache_key(current))
        if last is None or last is previous:
            return None
        is_log = current.basis is not None
        if not (current.extends(last) if is_log else compare_prompts(last.prompt, current.prompt).is_covered):
            return None
        short = counts.shortfall(last, current)
        fall = counts.significant_fall(previous, counts.shortfall(previous, current))
        return last if short is not None and (counts.significant_fall(last, short) or not fall) else None


class ConcurrentLoops:
    """Whether requests of two loops of a client alternate in one chain of a log, each loop with its own history.

    A read that is exactly what an earlier turn left, and more than the previous turn did, shows it: in 1 of 560 public
    sessions of Claude Code, in which the user wrote while a teammate's message was being answered.
    """

    def __init__(self) -> None:
        self._left = deque[tuple[CacheKey, int | None]](maxlen=_LOOPS)  # tokens that the latest turns left in the cache
        self._remaining = 0  # turns for which the latest read that shows a loop counts

    def add(self, turn: Turn) -> None:
        """Remember a turn, and whether its read shows a loop; in a cache without breakpoints it never does."""
        self._remaining -= 1
        if counts.bills_writes(turn) and self._is_left_earlier(turn):
            outruns = (counts.first_pass_read(turn.usage) or 0) > (self._left[-1][1] or 0)
            self._remaining = _LOOPS if outruns else self._remaining
        self._left.append((cache_key(turn), counts.cached(turn.usage)))

    def is_of_other_loop(self, turn: Turn) -> bool:
        """Return whether a turn is of another loop than the last one: it read all of an earlier turn and is shorter."""
        if self._remaining <= 0 or turn.changes or not self._is_left_earlier(turn):
            return False
        return counts.prompt_tokens(turn.usage) < (self._left[-1][1] or 0)

    def _is_left_earlier(self, turn: Turn) -> bool:
        read = counts.first_pass_read(turn.usage)
        return bool(read) and (cache_key(turn), read) in list(self._left)[:-1]


class UnreportedWrites:
    """How much of a prompt is cached although its usage reports no writes: earlier reads show it."""

    def __init__(self) -> None:
        self._reads_all = False  # the latest read reached the end of the previous prompt
        self.low: tuple[int, int] | None = None  # after a read that fell: its tokens, and those read before the fall

    def add(self, previous: Turn | None, turn: Turn) -> None:
        """Add a turn after the previous one.

        A read that fell does not show whether reads reach the ends of prompts. It is remembered with the tokens before
        the fall while reads stay below these and change: then requests reach machines with caches of their own. Nor
        does a read of Gemini: its entries end some 8,000 tokens apart, and the next request may count one up to 400
        tokens shorter.
        """
        read, low, self.low = counts.first_pass_read(turn.usage), self.low, None
        if previous is None or read is None or cache_key(previous) != cache_key(turn) or counts.bills_writes(previous):
            return
        size, cached = counts.prompt_tokens(previous.usage), counts.cached(previous.usage) or 0
        block = counts.block_tokens(turn)
        level = 0 if low is None or abs(read - low[0]) < block else low[1]
        if max(cached, level) - read > counts.DROP:
            self.low = read, 0 if _is_rewritten(turn) else max(cached, level)  # rewritten history was not cached before
        elif read:
            is_near = 0 <= size - read <= max(2 * block, counts.TOLERANCE_SHARE * size)
            self._reads_all = is_near and served_by(turn).provider != "gemini"

    def is_short(self, previous: Turn, current: Turn) -> bool:
        """Return whether a request may have read less than earlier reads show to be cached of the previous prompt.

        That is the whole prompt if reads reached the ends of prompts: then a read a block smaller than the last one
        fell as well. After a fall, a request that reads as little, or still less than before it, missed the same.
        """
        low, usage, read = self.low, previous.usage, counts.first_pass_read(current.usage)
        if (not self._reads_all and low is None) or usage is None or usage.iterations:
            return False
        if read is None or counts.bills_writes(previous):
            return False
        block = counts.block_tokens(previous)
        is_low = low is not None and (abs(read - low[0]) < block or read < low[1] - counts.DROP)
        is_short = self._reads_all and (counts.cached(usage) or 0) - read >= block
        return (is_low or is_short) and cache_key(previous) == cache_key(current)

    def with_unreported_writes(self, previous: Turn, current: Turn) -> Turn:
        """Return the previous turn with as much cached as earlier reads show, if `is_short`; else unchanged."""
        if not self.is_short(previous, current):
            return previous
        block, low, read = counts.block_tokens(previous), self.low, counts.first_pass_read(current.usage) or 0
        end = read + (counts.prompt_tokens(previous.usage) - read) // block * block  # whole blocks after the read
        return with_read_tokens(previous, end if self._reads_all or low is None else min(low[1], end))


class ClientHashes:
    """The hashes that the client recorded of its latest request in each cache."""

    def __init__(self) -> None:
        self._latest: dict[CacheKey, tuple[int, PromptHashes]] = {}  # the number of a turn, and its hashes
        self._rewritten: set[CacheKey] = set()  # those whose history was replaced since, as the log says

    def add(self, turn: Turn) -> None:
        """Remember a turn's hashes, and whether the log rewrote the history since earlier ones."""
        if _is_rewritten(turn):
            self._rewritten.update(self._latest)
        if turn.hashes is not None:
            self._latest[cache_key(turn)] = turn.number, turn.hashes
            self._rewritten.discard(cache_key(turn))

    def causes(self, current: Turn) -> tuple[Cause, ...]:
        """Return what differs by hash from the last hashed request in the same cache, except rewritten messages."""
        last = None if current.hashes is None else self._latest.get(cache_key(current))
        if current.hashes is None or last is None:
            return ()
        number, hashes = last
        moved = explain_hashes(hashes, current.hashes, current.number - number)
        is_rewritten = cache_key(current) in self._rewritten or _is_rewritten(current)
        return tuple([cause for cause in moved if not (is_rewritten and cause.section == "messages")])


class ResultSizes:
    """How many bytes the results of tools have in a log's history; only new entries are measured."""

    def __init__(self) -> None:
        self._history: Vector[Entry] = Vector()  # the latest one that was measured
        self._sums: list[tuple[int, int]] = []  # of each call its place, and the bytes of the results up to it

    def total(self, turn: Turn) -> int:
        """Return the bytes of all results in the history of a log's turn; 0 for a recorded request."""
        if turn.basis is None:
            return 0
        history, same = turn.basis.entries, self._history.common(turn.basis.entries)
        del self._sums[bisect_left(self._sums, (same, 0)) :]
        size = self._sums[-1][1] if self._sums else 0
        for place, entry in enumerate(history.since(same), same):
            if isinstance(entry.item, ToolCall):
                size += len(entry.item.output) + len(entry.item.error)
                self._sums.append((place, size))
        self._history = history
        return size


class LoggedChanges:
    """Move the changes of a log to the turn whose prompt has them.

    A request without usage left no cache, so its changes count for the next turn. A compaction belongs to the
    turn whose prompt it shortened: pi wrote one after a pause whose request still sent 372,732 tokens; a later one sent
    46,657.
    """

    def __init__(self) -> None:
        self.waiting = deque[Turn](maxlen=_HELD)  # turns without usage, since the last one that has some
        self.unbilled: tuple[Turn, ...] = ()  # those that waited for the turn that is compared now
        self.delayed: tuple[Change, ...] = ()  # compactions that have not shortened a prompt yet

    def move_to(self, turn: Turn, previous: Turn | None) -> Turn:
        """Return a turn with the changes that its prompt shows: those of `waiting` turns, and a delayed compaction."""
        self.unbilled = tuple(self.waiting)
        if self.waiting:
            turns = [*self.waiting, turn]
            self.waiting.clear()
            changes = tuple([change for source in turns for change in without_change(source)])
            turn = replace(turn, changes=changes, signs=tuple([sign for source in turns for sign in source.signs]))
        if turn.basis is None or previous is None:
            return turn
        before, after = counts.prompt_tokens(previous.usage), counts.prompt_tokens(turn.usage)
        compactions = tuple([change for change in turn.changes if change.cause == Code.COMPACTION])
        read, left = counts.first_pass_read(turn.usage) or 0, counts.cached(previous.usage) or 0
        # a part is read after no pause: that shows the compaction, however much the next message added
        is_sent = (counts.pause_between(previous, turn) or 0) <= counts.FIVE_MINUTES and 0 < read < left - counts.DROP
        if compactions and after >= before >= _LONG and not is_sent:
            self.delayed = compactions
            return replace(turn, changes=tuple([change for change in turn.changes if change not in compactions]))
        if self.delayed and after and (after < before - counts.DROP or compactions):
            delayed, self.delayed = self.delayed, ()
            return turn if compactions else replace(turn, changes=(*turn.changes, *delayed))
        return turn


def without_change(turn: Turn, cause: str = Code.MODEL_CHANGED) -> tuple[Change, ...]:
    """Return a turn's changes except those by `cause`, to compare it with another turn than the previous one."""
    return tuple([change for change in turn.changes if change.cause != cause])
