"""One chain: choose the earlier turn that the next turn is compared with, and compare them.

Usually that is the previous turn. It is an earlier one if the request continues that (`lore.prefix.chains`), or if a
log asked other models in between, as each model has a cache of its own. A failed request wrote no cache, so it is not
compared. `ChainMemory` holds one object for each kind of fact about earlier turns, and the latest turn of each kind.

The cost of a turn is O(its new content).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules, Lifetime, least_lifetime, lifetime_after
from lore.cache.served import served_by
from lore.judge import rules
from lore.judge.pairs.corrections import Remarks
from lore.judge.pairs.pair import EXTENDED, Pair, PairFacts, Tally, judge_unmeasured, with_read_tokens
from lore.judge.pairs.rewrites import cut_messages, find_replaced_tail
from lore.judge.pairs.verdict import explain_by_clock, explain_fall, judge_pair
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.events import PromptHashes
from lore.model.items import ToolCall
from lore.model.providers import provider_of
from lore.model.state import Change, Entry
from lore.model.turn import Turn
from lore.model.vector import Vector
from lore.prefix.causes import lacks_breakpoints, recorded_causes
from lore.prefix.chains import RequestEnd
from lore.prefix.overlap import ChainSums, Overlap, byte_size, compare_prompts
from lore.prefix.tools import explain_hashes

if TYPE_CHECKING:
    from lore.cache.transcripts import TurnState

_ENDS = 16  # turns before compactions that are kept


class Compared(NamedTuple):
    """The result of comparing a turn."""

    pair: Pair | None = None  # None: it was not compared, or `extends` the previous turn without loss
    extends: bool = False  # the turn certainly extends the previous one, so that its prompt was not built


class ComparedChain:
    """Compares the turns of one chain; `comparable`: each follows the previous one, so that usages can be compared.

    `rules` are needed for recorded requests in caches without breakpoints: they state how long prompts are kept.
    """

    def __init__(self, rules: Callable[[], DatedRules], *, comparable: bool = True) -> None:
        self._comparable = comparable
        self._memory = ChainMemory(rules, comparable=comparable)
        self._changes = LoggedChanges()
        self._remarks = Remarks()
        self._before_compaction = deque[Turn](maxlen=_ENDS)
        self._measured: Turn | None = None  # the turn whose bytes are in `_sizes`
        self._sizes = ChainSums(byte_size)

    @property
    def ends(self) -> list[Turn]:
        """The turns at which a history ended: the latest one, and those of a log before each compaction."""
        last = self._memory.last
        return [*self._before_compaction, *([] if last is None else [last])]

    def compare_next(self, turn: Turn, state_of: StateOf = lambda: None, end: RequestEnd | None = None) -> Pair | None:
        """Compare the next turn and remember it; return None for the first turn.

        `end` is the request that it continues, if that is not the chain's last turn. Return None and do not remember
        the turn if it failed, or has no usage in a log that records usage; its changes then count for the next turn.
        """
        if turn.failed:
            return None
        if self._is_unanswered(turn):
            self._changes.unanswered.append(turn)
            return None
        previous, self._memory.unbilled = self._memory.last, tuple(self._changes.unanswered)
        turn = self._changes.place(previous, turn)
        base, pair = None, None
        if previous is not None and self._changes.delayed and turn.basis is not None:
            # lore's timeline has a compaction that the prompts do not show yet: only times and usage are judged
            facts = self._memory.facts(previous, turn, state_of)
            pair = judge_unmeasured(facts, (explain_by_clock(facts),) if facts.fell else ())
        elif end is not None:
            pair = self._compare(end.turn, turn, state_of, end.used)
        elif previous is not None and not self._memory.loops.continue_with(turn):
            base = self._memory.caches.last_of_own_model(previous, turn)
            if base is not None:
                pair = self._compare(base, replace(turn, changes=without_model_change(turn)), state_of, base)
            else:
                pair = self._compare(previous, turn, state_of)
                pair = pair if pair.fell else self._explain_unread(previous, turn, state_of, pair)
        self._remember(turn, base)
        return pair

    def try_compare_extension(self, turn: Turn, state_of: StateOf = lambda: None) -> Compared | None:
        """Compare a turn that certainly extends the previous one, and remember it, without building its prompt.

        Only usage and recorded hashes are compared. Return None if it is not certain; then call `compare_next`.
        """
        memory, changes, previous = self._memory, self._changes, self._memory.last
        if previous is None or changes.delayed or changes.unanswered:
            return None
        if self._is_unanswered(turn) or not turn.extends(previous):
            return None
        cached, read = counts.cached(previous.usage), counts.first_pass_read(turn.usage)
        reads_all = cached is not None and bool(read) and read >= cached
        is_read = reads_all or memory.loops.continue_with(turn)
        if is_read and turn.hashes is None and memory.writes.low is None:  # most turns
            pair = self._explain_unread(previous, turn, state_of, None) if reads_all else None
            pair = None if pair is not None and memory.loops.continue_with(turn) else pair
            self._remember(turn)
            return Compared(pair, extends=True)
        if cached is None and memory.caches.last_of_own_model(previous, turn) is not None:
            return None
        previous = memory.writes.with_cached(previous, turn)
        facts, pair = memory.facts(previous, turn, state_of), None
        fell, moved = facts.fell, facts.hash_causes
        if (fell or moved) and recorded_causes(turn.changes):
            return None
        if fell or (moved and fell is None):
            pair = judge_unmeasured(facts, explain_fall(facts) if fell else moved)
        pair = pair if fell else self._explain_unread(previous, turn, state_of, pair)
        self._remember(turn)
        return Compared(pair, extends=True)

    def _is_unanswered(self, turn: Turn) -> bool:
        """Return whether a log that records usage has none of this turn: it cost nothing, and left no cache."""
        return turn.usage is None and turn.basis is not None and bool(self._memory.caches.latest)

    def _compare(self, previous: Turn, current: Turn, state_of: StateOf, last_use: Turn | None = None) -> Pair:
        """Return the verdict on two turns by their bytes and usage; `last_use` as in `PairFacts`."""
        if self._measured is not previous:  # it is an earlier turn, or turns since the last measured one were skipped
            measured = self._measured
            shared = 0 if measured is None else compare_prompts(measured.prompt, previous.prompt).common
            self._sizes.advance(previous.prompt, shared)
        overlap, tail = compare_prompts(previous.prompt, current.prompt), None
        if not overlap.is_covered and not current.is_rebuilt and current.fidelity != "rendered":
            provider = provider_of(current.call.endpoint, current.model, current.dialect)
            # a request that read nothing can read nothing before its end, if its only breakpoint is there
            if counts.first_pass_read(current.usage) or not lacks_breakpoints(current.prompt, provider):
                tail = find_replaced_tail(previous.prompt, current.prompt)
        if tail is not None:
            size, cut = len(previous.prompt), cut_messages(previous.prompt, tail.begin, tail.segments)
            previous = replace(previous, source=cut)
            self._sizes.advance(previous.prompt, min(size, previous.prompt.stable))
            overlap = compare_prompts(previous.prompt, current.prompt)
        if previous.basis is not None or overlap.is_covered:
            previous = self._memory.writes.with_cached(previous, current)
        self._measured = current
        facts = self._memory.facts(previous, current, state_of, overlap, last_use)
        return judge_pair(facts, self._sizes, self._remarks, tail)

    def _explain_unread(self, previous: Turn, turn: Turn, state_of: StateOf, pair: Pair | None) -> Pair | None:
        """Add a cause to the pair if the log shows why a turn missed what the previous turn did not read either.

        Only in caches without breakpoints whose usage reports no writes. A turn that read nothing is compared with the
        last one that read anything of the same history, whose prompt `previous` used last. A turn that read something
        has a cause only if it is sure: reasoning that the provider omits from this prompt on.
        """
        cached, read = counts.cached(previous.usage), counts.first_pass_read(turn.usage)
        if not self._comparable or turn.basis is None or turn.changes or (pair is not None and pair.is_break):
            return pair
        if read is None or cached is None or (read == 0 and cached > counts.DROP):
            return pair
        if not counts.prompt_tokens(previous.usage) or counts.bills_writes(previous) or counts.bills_writes(turn):
            return pair
        if cache_of(previous) != cache_of(turn) or not turn.extends(previous):
            return pair
        last = self._memory.last_read
        is_same = last is not None and cache_of(last) == cache_of(turn) and turn.extends(last)
        base = last if last is not None and is_same else previous
        if read:
            base = with_read_tokens(previous, counts.prompt_tokens(previous.usage))
        facts = self._memory.facts(base, turn, state_of, last_use=previous)
        state = state_of() if facts.fell or not read else None
        if state is None or not state.implicit or state.unchanged < state.entries:
            return pair  # its cache has breakpoints, or its history changed
        facts = replace(facts, state=state)
        cause = rules.OMITTED_REASONING.explain(facts) if read else explain_by_clock(facts)
        if cause is None or (read and cause.strength == "weak"):
            return pair
        unread = replace(judge_unmeasured(facts, (cause,)), previous=previous)
        return unread if pair is None else replace(
            unread, causes=(cause, *pair.causes), overlap=pair.overlap, bytes=pair.bytes, tail_bytes=pair.tail_bytes,
            bytes_per_token=pair.bytes_per_token,
        )  # fmt: skip

    def _remember(self, turn: Turn, base: Turn | None = None) -> None:
        """Make a turn the last one; `base` is the turn that it was compared with, if not the last one until now."""
        compared = self._memory.last if base is None else base
        if compared is not None and any(change.cause == Code.COMPACTION for change in turn.changes):
            self._before_compaction.append(compared)
        self._memory.note(turn, base)
        self._remarks.wrote_hour |= turn.usage is not None and bool(turn.usage.write_1h_tokens)


# Returns what the log shows of a turn before its usage; only asked if the read fell.
StateOf: TypeAlias = Callable[[], "TurnState | None"]
_Cache: TypeAlias = tuple["str | None", str]  # what separates a transcript's caches: the model, and who answered

_LONG = 50_000  # tokens: a compaction of so long a prompt surely shortens it
_LOOPS = 8  # turns that are kept to find those of another loop
_HELD = 16  # turns without usage whose changes are kept for the next one
_REWRITES = (Code.COMPACTION, Code.REWIND, Code.TOOL_RESULT_REWRITTEN)


def cache_of(turn: Turn) -> _Cache:
    """Return what separates a transcript's caches."""
    return turn.model, turn.call.answered_by


def _is_rewritten(turn: Turn) -> bool:
    """Return whether a log replaces history at this turn."""
    return any(change.cause in _REWRITES for change in turn.changes)


class ChainMemory:
    """Everything that is remembered of one chain; arguments as of `ComparedChain`."""

    def __init__(self, rules: Callable[[], DatedRules], *, comparable: bool) -> None:
        self._comparable = comparable
        self.last: Turn | None = None
        self.last_read: Turn | None = None  # the last turn of a log that read anything
        self.unbilled: tuple[Turn, ...] = ()  # requests of a log since the last turn whose usage is unknown
        self.caches = LogCaches()
        self.writes = UnreportedWrites()
        self.hashes = ClientHashes()
        self.loops = ConcurrentLoops()
        self._first: Turn | None = None  # the first turn of a log with usage
        self._earlier: int | None = None  # tokens that the turn before the last one left in the cache
        self._tallies: dict[str, Tally] = {}  # signals of earlier turns
        self._calls = ToolCallSearch()
        self._rules = rules
        self._lifetime: float | None = None  # seconds that the entries of the last turn live; None: unknown
        # seconds that they surely live; None unless a rule tells the lifetime of a recorded request
        self._least_lifetime: float | None = None
        self._hour_end: int | None = None  # where entries that live an hour end, if others follow them

    def facts(
        self, previous: Turn, current: Turn, state_of: StateOf, overlap: Overlap = EXTENDED,
        last_use: Turn | None = None,
    ) -> PairFacts:  # fmt: skip
        """Return the facts of two turns; `last_use` sent all of the previous prompt again, if it is a later turn."""
        short = counts.shortfall(previous, current) if self._comparable else None
        fell = counts.significant_fall(previous, short)
        is_compacted = any(change.cause == Code.COMPACTION for change in current.changes)  # that explains a fall
        omits_thinking = False  # the model of a recorded request reads no thinking before the user's latest prompt
        if current.basis is None and (fell or not overlap.is_covered):
            where = served_by(current)
            omits_thinking = self._rules().flag(
                "drops_thinking", where.provider, current.model, where.platform, current.at
            )
        return PairFacts(
            previous, current, overlap, fell, comparable=self._comparable, short=short, last_use=last_use,
            tallies=self._tallies,
            lifetime=self._lifetime if last_use is None else counts.lifetime(previous, self._lifetime),
            least_lifetime=self._least_lifetime, earlier=self._earlier if last_use is None else None,
            unbilled=tuple([turn for turn in self.unbilled if cache_of(turn) == cache_of(current)]),
            hour_end=self._hour_end if previous is self.last else counts.hour_end(previous.usage, None),
            state=state_of() if fell and not is_compacted else None, first=self._first,
            hash_causes=self.hashes.causes(current), has_tool_call=self._calls.is_in(current),
            omits_thinking=omits_thinking,
        )  # fmt: skip

    def note(self, turn: Turn, base: Turn | None = None) -> None:
        """Make a turn the last one; `base` is the turn that it was compared with, if that was not the last."""
        previous = self.last if base is None else base
        if self._first is None and turn.basis is not None and counts.prompt_tokens(turn.usage):
            self._first = turn
        if self._comparable:
            self.caches.note(turn)
        self.writes.note(self.last, turn)
        self.hashes.note(turn)
        self.loops.note(turn)
        self._earlier = counts.first_pass_read(turn.usage) if previous is None else counts.cached(previous.usage)
        if turn.signs:  # there is no read to fall at a chain's first turn
            fell = previous is not None and bool(counts.significant_fall(previous, counts.shortfall(previous, turn)))
            for sign in turn.signs:
                tally = self._tallies.get(sign.name, Tally())
                self._tallies[sign.name] = tally if previous is None else tally.plus(fell=fell)
        self._hour_end = counts.hour_end(turn.usage, self._hour_end, self._lifetime)
        if turn.basis is not None:
            self._lifetime = counts.lifetime(turn, self._lifetime)
        else:  # its usage shows the lifetime, or a rule tells it
            lifetime = lifetime_after(turn, Lifetime(self._lifetime), self._rules)
            self._lifetime = lifetime.seconds
            is_by_rule = lifetime.seconds is not None and not lifetime.billed
            self._least_lifetime = least_lifetime(self._rules(), served_by(turn), turn) if is_by_rule else None
        self.last, self.unbilled = turn, ()
        if turn.basis is not None and counts.first_pass_read(turn.usage):
            self.last_read = turn


class LogCaches:
    """The last turn of a log in each of its caches: each model, and each provider, has one of its own."""

    def __init__(self) -> None:
        self.latest: dict[_Cache, Turn] = {}

    def note(self, turn: Turn) -> None:
        """Remember a log's turn with usage as its cache's last; one that has its prompt replaces all others."""
        if turn.is_rebuilt and counts.cached(turn.usage) is not None:
            if turn.basis is None:  # its prompt is in memory
                self.latest.clear()
            self.latest[cache_of(turn)] = turn

    def last_of_own_model(self, previous: Turn, current: Turn) -> Turn | None:
        """Return the last billed turn of the current one's model, if others are in between and usage shows its read.

        If less was read than that turn left in the cache, the read fell there. If all of it was read and the chain has
        grown by more since, the change of model explains the rest.
        """
        last = self.latest.get(cache_of(current))
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
        self._left = deque[tuple[_Cache, int | None]](maxlen=_LOOPS)  # tokens that the latest turns left in the cache
        self._remaining = 0  # turns for which the latest such read counts

    def note(self, turn: Turn) -> None:
        """Add a turn; in a cache without breakpoints its read shows no loop."""
        self._remaining -= 1
        if counts.bills_writes(turn) and self._is_left_earlier(turn):
            outruns = (counts.first_pass_read(turn.usage) or 0) > (self._left[-1][1] or 0)
            self._remaining = _LOOPS if outruns else self._remaining
        self._left.append((cache_of(turn), counts.cached(turn.usage)))

    def continue_with(self, turn: Turn) -> bool:
        """Return whether a turn continues an earlier one and read all of it; its prompt lacks the previous turn's."""
        if self._remaining <= 0 or turn.changes or not self._is_left_earlier(turn):
            return False
        return counts.prompt_tokens(turn.usage) < (self._left[-1][1] or 0)

    def _is_left_earlier(self, turn: Turn) -> bool:
        read = counts.first_pass_read(turn.usage)
        return bool(read) and (cache_of(turn), read) in list(self._left)[:-1]


class UnreportedWrites:
    """How much of a prompt is cached although its usage reports no writes: earlier reads show it."""

    def __init__(self) -> None:
        self._reads_all = False  # the latest read reached the end of the previous prompt
        self.low: tuple[int, int] | None = None  # tokens that the last turn read, if fewer than the second number were

    def note(self, previous: Turn | None, turn: Turn) -> None:
        """Add a turn after the previous one.

        A read that fell does not show whether ends are read. It is remembered, as the next request may read no more.
        """
        read, self.low = counts.first_pass_read(turn.usage), None
        if previous is None or read is None or cache_of(previous) != cache_of(turn) or counts.bills_writes(previous):
            return
        size, cached = counts.prompt_tokens(previous.usage), counts.cached(previous.usage) or 0
        unread = size - read
        if cached - read > counts.DROP:
            self.low = read, 0 if _is_rewritten(turn) else cached  # rewritten history was not cached before
        elif read:
            self._reads_all = 0 <= unread <= max(2 * counts.block_tokens(turn), counts.TOLERANCE_SHARE * size)

    def with_cached(self, previous: Turn, current: Turn) -> Turn:
        """Return the previous turn with as much cached as earlier reads show, if reads fell; else unchanged.

        After a read that fell, one that is as low, or still lower than before the fall, missed the same.
        """
        usage, read, low = previous.usage, counts.first_pass_read(current.usage), self.low
        if usage is None or usage.iterations or counts.bills_writes(previous):
            return previous
        block, size = counts.block_tokens(previous), counts.prompt_tokens(usage)
        is_low = low is not None and read is not None and (abs(read - low[0]) < block or read < low[1] - counts.DROP)
        is_fallen = bool(counts.significant_fall(previous, counts.shortfall(previous, current)))
        is_short = is_low or (is_fallen and self._reads_all and previous.basis is not None)
        if not is_short or cache_of(previous) != cache_of(current):
            return previous
        return with_read_tokens(
            previous, size // block * block if self._reads_all or low is None else min(low[1], size)
        )


class ClientHashes:
    """The hashes that the client recorded of its latest request in each cache."""

    def __init__(self) -> None:
        self._latest: dict[_Cache, tuple[int, PromptHashes]] = {}  # the number of a turn, and its hashes
        self._rewritten: set[_Cache] = set()  # those whose history was replaced since, as the log says

    def note(self, turn: Turn) -> None:
        """Remember a turn's hashes, and whether the log rewrote the history since earlier ones."""
        if _is_rewritten(turn):
            self._rewritten.update(self._latest)
        if turn.hashes is not None:
            self._latest[cache_of(turn)] = turn.number, turn.hashes
            self._rewritten.discard(cache_of(turn))

    def causes(self, current: Turn) -> tuple[Cause, ...]:
        """Return what differs by hash from the last hashed request in the same cache, except rewritten messages."""
        last = None if current.hashes is None else self._latest.get(cache_of(current))
        if current.hashes is None or last is None:
            return ()
        number, hashes = last
        moved = explain_hashes(hashes, current.hashes, current.number - number)
        is_rewritten = cache_of(current) in self._rewritten or _is_rewritten(current)
        return tuple([cause for cause in moved if not (is_rewritten and cause.section == "messages")])


class ToolCallSearch:
    """Whether a log's history has a tool call; only entries since the first call are searched again."""

    def __init__(self) -> None:
        self._history: Vector[Entry] = Vector()  # the latest one that was searched
        self._first_call: int | None = None  # its place in that history

    def is_in(self, turn: Turn) -> bool:
        """Return whether the history of a log's turn has a tool call; False for a recorded request."""
        if turn.basis is None:
            return False
        history = turn.basis.entries
        same = self._history.common(history)
        if self._first_call is None or self._first_call >= same:
            new = enumerate(history.since(same), same)
            self._first_call = next((place for place, entry in new if isinstance(entry.item, ToolCall)), None)
        self._history = history
        return self._first_call is not None


class LoggedChanges:
    """Moves the changes of a log to the turn whose prompt has them.

    A request that was never billed left no cache, so that the next turn has its changes. A compaction belongs to the
    turn whose prompt it shortened: pi wrote one after a pause whose request still sent 372,732 tokens; a later one sent
    46,657.
    """

    def __init__(self) -> None:
        self.unanswered = deque[Turn](maxlen=_HELD)  # turns that were never billed, since the last one with usage
        self.delayed: tuple[Change, ...] = ()  # compactions that have not shortened a prompt yet

    def place(self, previous: Turn | None, turn: Turn) -> Turn:
        """Return the turn with the changes that its prompt has: with held ones, which are then forgotten."""
        if self.unanswered:
            turns = [*self.unanswered, turn]
            self.unanswered.clear()
            changes = tuple([change for source in turns for change in without_model_change(source)])
            turn = replace(turn, changes=changes, signs=tuple([sign for source in turns for sign in source.signs]))
        if turn.basis is None or previous is None:
            return turn
        before, after = counts.prompt_tokens(previous.usage), counts.prompt_tokens(turn.usage)
        compactions = tuple([change for change in turn.changes if change.cause == Code.COMPACTION])
        if compactions and after >= before >= _LONG:
            self.delayed = compactions
            return replace(turn, changes=tuple([change for change in turn.changes if change not in compactions]))
        if self.delayed and after and (after < before - counts.DROP or compactions):
            delayed, self.delayed = self.delayed, ()
            return turn if compactions else replace(turn, changes=(*turn.changes, *delayed))
        return turn


def without_model_change(turn: Turn) -> tuple[Change, ...]:
    """Return a turn's changes except one of the model, as it is compared with another turn than the previous one."""
    return tuple([change for change in turn.changes if change.cause != Code.MODEL_CHANGED])
