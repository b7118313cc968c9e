"""One chain: choose the earlier turn that the next turn is compared with, and compare them.

Usually that is the previous turn. It is an earlier one if the request continues that (`lore.prefix.chains`), or if a
log asked other models in between, as each model has a cache of its own. A failed request wrote no cache, so it is not
compared. `ChainMemory` remembers what the next comparison needs of earlier turns.

The cost of a turn is O(its new content).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.log_branches import cache_key, without_settings
from lore.cache.rules import DatedRules
from lore.judge import rules
from lore.judge.chains.memory import ChainMemory, StateOf, without_change
from lore.judge.pairs.corrections import Remarks
from lore.judge.pairs.pair import Pair, judge_unmeasured, with_read_tokens
from lore.judge.pairs.rewrites import cut_messages, find_replaced_tail
from lore.judge.pairs.verdict import explain_by_clock, explain_fall, judge_pair
from lore.model.codes import Code
from lore.model.evidence import Paused
from lore.model.providers import provider_of
from lore.model.turn import Turn
from lore.prefix.causes import lacks_breakpoints, recorded_causes
from lore.prefix.chains import RequestEnd
from lore.prefix.overlap import ChainSums, byte_size, compare_prompts

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
        self._remarks = Remarks()
        self._before_compaction = deque[Turn](maxlen=_ENDS)
        self._is_unread_told = False  # that nothing was read, and never was before
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
        memory, previous = self._memory, self._memory.last
        if self._is_unanswered(turn):
            memory.changes.waiting.append(turn)
            return None
        turn = memory.changes.move_to(turn, previous)
        compared, pair = previous, None
        if previous is not None and memory.changes.delayed and turn.basis is not None:
            # lore's timeline has a compaction that the prompts do not show yet: only times and usage are judged
            facts = memory.facts(previous, turn, state_of)
            pair = judge_unmeasured(facts, (explain_by_clock(facts),) if facts.fell else ())
        elif end is not None:
            pair = self._compare(end.turn, turn, state_of, end.used)
        elif (branch := memory.branches.find(turn)) is not None:
            # the history has items of both branches, so that it is not compared
            compared, facts = branch, memory.facts(branch, without_settings(turn), lambda: None, last_use=branch)
            pair = judge_unmeasured(facts, explain_fall(facts) if facts.fell else ())
        elif previous is not None and (before := memory.branches.before_rewind(turn)) is not None:
            compared, pair = before, self._compare_rewound(before, previous, turn, state_of)
        elif previous is not None and not memory.loops.is_of_other_loop(turn):
            if (last := memory.caches.last_of_own_model(previous, turn)) is not None:
                compared, of_own_model = last, replace(turn, changes=without_change(turn))
                pair = _name_model(self._compare(last, of_own_model, state_of, last))
            else:
                pair = self._compare(previous, turn, state_of)
                pair = pair if pair.fell else self._explain_unread(previous, turn, state_of, pair)
        if pair is not None and turn.basis is None and pair.overlap.is_covered:
            memory.is_conversation |= len(turn.prompt.messages) > len(pair.previous.prompt.messages)
        self._remember(turn, compared)
        return pair

    def try_compare_extension(self, turn: Turn, state_of: StateOf = lambda: None) -> Compared | None:
        """Compare a turn that certainly extends the previous one, and remember it, without building its prompt.

        Only usage and recorded hashes are compared. Return None if it is not certain; then call `compare_next`.
        """
        memory, previous = self._memory, self._memory.last
        if previous is None or memory.changes.delayed or memory.changes.waiting or turn.continues is not None:
            return None
        if self._is_unanswered(turn) or not turn.extends(previous):
            return None
        cached, read, pair = counts.cached(previous.usage), counts.first_pass_read(turn.usage), None
        reads_all = cached is not None and bool(read) and read >= cached
        is_of_other_loop = memory.loops.is_of_other_loop(turn)
        if (reads_all or is_of_other_loop) and turn.hashes is None and not memory.writes.is_short(previous, turn):
            pair = None if is_of_other_loop else self._explain_unread(previous, turn, state_of, None)
            self._remember(turn, previous)
            return Compared(pair, extends=True)
        if cached is None and memory.caches.last_of_own_model(previous, turn) is not None:
            return None
        left = memory.writes.with_unreported_writes(previous, turn)
        facts = memory.facts(left, turn, state_of)
        fell, moved = facts.fell, facts.hash_causes
        if (fell or moved) and recorded_causes(turn.changes):
            return None
        if fell or (moved and fell is None):
            pair = judge_unmeasured(facts, explain_fall(facts) if fell else moved)
        pair = pair if fell else self._explain_unread(left, turn, state_of, pair)
        self._remember(turn, previous)
        return Compared(pair, extends=True)

    def _is_unanswered(self, turn: Turn) -> bool:
        """Return whether a log that records usage has none of this turn: it cost nothing, and left no cache."""
        return turn.usage is None and turn.basis is not None and bool(self._memory.caches.latest)

    def _compare(
        self, previous: Turn, current: Turn, state_of: StateOf = lambda: None, last_use: Turn | None = None
    ) -> Pair:  # fmt: skip
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
            previous = self._memory.writes.with_unreported_writes(previous, current)
        self._measured = current
        facts = self._memory.facts(previous, current, state_of, overlap, last_use)
        return judge_pair(facts, self._sizes, self._remarks, tail)

    def _compare_rewound(self, before: Turn, previous: Turn, turn: Turn, state_of: StateOf) -> Pair:
        """Return the verdict on the first turn after a rewind: `before` left what it should read, and lost is the rest.

        What was taken back is no longer in the prompt, so that it is not re-billed.
        """
        continued = replace(turn, changes=without_change(turn, Code.REWIND))
        pair = self._compare(
            before, continued, lambda: (state := state_of()) and replace(state, entries=state.unchanged), previous
        )
        rewind = self._compare(previous, turn)
        if not pair.is_break:
            return replace(rewind, rebilled=0)
        lead, *others = pair.causes
        return replace(pair, current=turn, causes=(replace(lead, also=(*lead.also, *rewind.causes)), *others))

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
        if cache_key(previous) != cache_key(turn) or not turn.extends(previous):
            return pair
        last = self._memory.last_read
        is_same = last is not None and cache_key(last) == cache_key(turn) and turn.extends(last)
        base = last if last is not None and is_same else previous
        if read:
            base = with_read_tokens(previous, counts.prompt_tokens(previous.usage))
        facts = self._memory.facts(base, turn, state_of, last_use=previous)
        state = state_of() if facts.fell or not read else None
        if state is None or not state.implicit or state.unchanged < state.entries:
            return pair  # its cache has breakpoints, or its history changed
        facts = replace(facts, state=state)
        cause = rules.OMITTED_REASONING.explain(facts) if read else explain_by_clock(facts)
        is_first_unread = not read and last is None  # a cache that never reads is one finding, not one a turn
        if cause is None or (read and cause.strength == "weak") or (is_first_unread and self._is_unread_told):
            return pair
        self._is_unread_told = is_first_unread
        unread = replace(judge_unmeasured(facts, (cause,)), previous=previous)
        return unread if pair is None else replace(
            unread, causes=(cause, *pair.causes), overlap=pair.overlap, bytes=pair.bytes, tail_bytes=pair.tail_bytes,
            bytes_per_token=pair.bytes_per_token,
        )  # fmt: skip

    def _remember(self, turn: Turn, compared: Turn | None) -> None:
        """Make a turn the last one; `compared` is the turn that it was compared with, if there was one."""
        if compared is not None and any(change.cause == Code.COMPACTION for change in turn.changes):
            self._before_compaction.append(compared)
        self._memory.add(turn, compared)
        self._remarks.wrote_hour |= turn.usage is not None and bool(turn.usage.write_1h_tokens)


def _name_model(pair: Pair) -> Pair:
    """Return the pair with the model named in a pause: it is the time since that model's latest request."""
    causes = [
        replace(cause, evidence=replace(cause.evidence, model=pair.current.model))
        if isinstance(cause.evidence, Paused) else cause for cause in pair.causes
    ]  # fmt: skip
    return replace(pair, causes=tuple(causes))
