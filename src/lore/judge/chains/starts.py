"""Comparisons with other chains: requests that another chain's entries in the cache could have served.

Each function returns the verdict on a turn if another chain explains it: a request for a summary of another chain's
conversation, a head that the same program sent before, chains that a log began together. `ComparedChains` calls them
in the order of `lore.judge.rules`. What chains share without a breakpoint is reported by `lore.judge.runs.plateaus`.
"""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.transcript_history import TokenRate, growth
from lore.judge.pairs.outside import seconds_before_answer
from lore.judge.pairs.pair import EXTENDED, Pair, PairFacts, is_remark, judge_unmeasured, lost_of_head, with_read_tokens
from lore.model.cause import Cause
from lore.model.codes import CODES, Code
from lore.model.events import MAIN
from lore.model.evidence import ColdCompaction, ParallelStart
from lore.model.state import UTILITY, Entry
from lore.model.turn import Turn
from lore.model.vector import Vector
from lore.prefix.chains import cache_scope
from lore.prefix.purpose import asks_for_summary, quoted_share

if TYPE_CHECKING:
    from lore.judge.judge import ComparedChains

SIBLINGS = 16  # turns of other chains that are remembered, or searched
_QUOTED = 0.5  # a request for a summary holds more than this share of the conversation's texts
_TRIED = 4  # first turns with which a head is compared
# Causes of differences between the heads of requests that one program sends.
BY_CHANCE = (
    Code.DATE_IN_PREFIX, Code.ID_IN_PREFIX, Code.TOKEN_REMINDER_IN_PREFIX, Code.TOOLS_REORDERED, Code.KEY_ORDER_CHANGED,
    Code.PARALLEL_START,
)  # fmt: skip


def compare_with_summarised(chains: ComparedChains, turn: Turn) -> Pair | None:
    """Compare a request for a summary with the conversation that it quotes.

    Return the verdict if the request read (almost) nothing of what that conversation left in the cache; else None.
    """
    usage = turn.usage
    if turn.basis is not None or usage is None or usage.read_tokens is None or len(chains.latest) < 2:
        return None
    if not asks_for_summary(turn.prompt, turn.call):
        return None
    conversations = [  # the latest requests of other chains that left something in the turn's cache
        other for chain, other in chains.latest.items()
        if chain != turn.chain and (counts.cached(other.usage) or 0) > counts.TOLERANCE_TOKENS
        and cache_scope(other) == cache_scope(turn) and not asks_for_summary(other.prompt, other.call)
    ][-SIBLINGS:]  # fmt: skip
    shares = [(quoted_share(other.prompt, turn.prompt), other) for other in conversations]
    share, quoted = max(shares, key=itemgetter(0), default=(0.0, turn))
    if share <= _QUOTED:
        return None
    if not counts.bills_writes(quoted):
        prompt_size, block = counts.prompt_tokens(quoted.usage), counts.block_tokens(quoted)
        quoted = with_read_tokens(quoted, prompt_size // block * block)
    pair = chains.compare_alone(quoted, turn)
    is_cold = pair is not None and pair.causes[:1] and pair.causes[0].code == Code.COLD_COMPACTION
    return pair if is_cold else None


def compare_heads(chains: ComparedChains, turn: Turn) -> Pair | None:
    """Return the verdict on the first request of a chain against the same program's head in another one.

    The heads differ only by a clock, an id, a count or an order, without which the later request would have read the
    earlier one's entry; or they are equal, and were sent together. A head that stayed equal for longer than the cache
    keeps an entry (it holds a date, for instance) changes too rarely to cost anything, and is skipped.
    """
    if turn.basis is not None or not turn.prompt.head:
        return None
    paths = [segment.path for segment in turn.prompt.head]
    similar = (  # whose head has the same parts, and may still be in the cache; the last start is the turn's own
        start for start in [*chains.starts][-2::-1]
        if (pause := counts.pause_between(start, turn)) is not None and pause <= _lifetime(start)
        and cache_scope(start) == cache_scope(turn) and [segment.path for segment in start.prompt.head] == paths
    )  # fmt: skip
    for start in islice(similar, _TRIED):
        pair = chains.compare_alone(start, turn)
        causes = () if pair is None else tuple([cause for cause in pair.causes if not is_remark(cause)])
        if pair is None or not causes:
            continue
        found = [cause for lead in causes for cause in (lead, *lead.also)]  # requests sent together may differ, too
        if not all(cause.code in BY_CHANCE or cause.evidence.fix_detail() == "order" for cause in found):
            continue
        lost = lost_of_head(pair, chains.dated)
        has_lasted = any(
            (counts.pause_between(other, start) or 0.0) > _lifetime(start)
            for other in chains.starts if other.prompt.head == start.prompt.head
        )  # fmt: skip
        if lost > counts.DROP and not has_lasted:
            cacheable = (counts.cached if counts.bills_writes(start) else counts.prompt_tokens)(start.usage) or 0
            has_more = cacheable - (counts.first_pass_read(turn.usage) or 0) - lost > 2 * counts.block_tokens(start)
            causes = tuple([
                replace(entry, qualifiers=(*entry.qualifiers, "another-conversation")) for entry in causes
            ])  # fmt: skip
            return replace(pair, causes=causes, rebilled=lost if has_more else None)
    return None


def _lifetime(turn: Turn) -> float:
    return counts.lifetime(turn, None) or counts.FIVE_MINUTES


def compare_log_summary(chains: ComparedChains, turn: Turn) -> Pair | None:
    """Return the verdict on a log's request for a summary that read less than half of its conversation's cached tokens.

    It is a call of the client's own that sends most of the conversation to the same model within five minutes. Chains
    of a file's second document are `main-2` and `utility-N-2`.
    """
    document, read = turn.chain.removeprefix(UTILITY).partition("-")[2], counts.first_pass_read(turn.usage)
    if turn.basis is None or read is None or not turn.chain.startswith(UTILITY):
        return None
    ends = chains.ends_of(f"{MAIN}-{document}" if document else MAIN)
    pauses = [(counts.pause_between(end, turn), end) for end in ends]  # the log may have the next turns before
    earlier = [(pause, end) for pause, end in pauses if pause is not None and pause >= 0]
    if not earlier:
        return None
    pause, last = min(earlier, key=itemgetter(0))
    cached, size = counts.cached(last.usage) or 0, counts.prompt_tokens(turn.usage)
    warm, is_long = min(cached, size), 2 * size > counts.prompt_tokens(last.usage)
    is_cold = warm - read > counts.TOLERANCE_TOKENS and 2 * read < warm
    if not (is_cold and is_long and pause <= counts.FIVE_MINUTES and last.model == turn.model):
        return None
    cause = Cause(Code.COLD_COMPACTION, "messages", ColdCompaction((), cached, read, warm), strength="strong")
    return _judge_across_chains(last, turn, cause)


def compare_parallel(chains: ComparedChains, turn: Turn) -> Pair | None:
    """Return the verdict on the first request of a log's chain that another chain's began too late to serve."""
    usage = turn.usage
    if turn.basis is None or usage is None or usage.read_tokens is None or not may_be_read(turn):
        return None
    size = _head_tokens(turn)
    for start in [*chains.log_starts][:-1]:  # the last one is the turn's own
        seconds = seconds_before_answer(start, turn)
        if seconds is None or start.model != turn.model:
            continue
        head, lost = _head_tokens(start), min(size, _head_tokens(start)) - usage.read_tokens
        if abs(size - head) > counts.TOLERANCE_SHARE * size or lost <= counts.DROP:
            continue
        if usage.read_tokens <= (counts.first_pass_read(start.usage) or 0):
            section = CODES[Code.PARALLEL_START].section
            cause = Cause(Code.PARALLEL_START, section, ParallelStart(seconds), strength="strong")
            return replace(_judge_across_chains(start, turn, cause), rebilled=lost)
    return None


def may_be_read(turn: Turn) -> bool:
    """Return whether a turn wrote entries to the cache, as far as its usage shows."""
    return not turn.failed and turn.usage is not None and bool(turn.usage.write_tokens)


def _judge_across_chains(previous: Turn, turn: Turn, cause: Cause) -> Pair:
    """Return the verdict on turns of two chains of a log, whose prompts are not compared."""
    short = counts.shortfall(previous, turn)
    return judge_unmeasured(PairFacts(previous, turn, EXTENDED, short, comparable=True, short=short), (cause,))


def _head_tokens(turn: Turn) -> int:
    """Estimate the tokens before the history in the first request of a log's chain."""
    entries = Vector[Entry]() if turn.basis is None else turn.basis.entries
    return counts.prompt_tokens(turn.usage) - TokenRate().tokens(growth(entries, 0, turn.at), None)
