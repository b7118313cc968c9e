"""Causes that the shape of two requests shows: a restart, a cold compaction, rewritten history, another API."""

from __future__ import annotations

from lore.cache import counts
from lore.judge.pairs.finders import find_expiry, find_other_provider, find_parallel_start
from lore.judge.pairs.pair import ESTIMATED, PairFacts
from lore.judge.pairs.rewrites import find_rewrite, find_sealed_summary
from lore.model import evidence as e
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.providers import without_platform
from lore.model.turn import Turn
from lore.prefix.overlap import byte_size
from lore.prefix.purpose import asks_for_summary


def find_restart(facts: PairFacts) -> Cause | None:
    """Return that the current chain continues one that was given up for it, whose tools it dropped."""
    previous, current = facts.previous, facts.current
    if previous.chain == current.chain or current.given_up != previous.chain:
        return None
    number = sum(segment.section == "tools" for segment in previous.prompt.head)
    return Cause(Code.CHAIN_RESTARTED, "tools", e.ChainRestarted(number), facts.overlap.common)


def find_rewritten_history(facts: PairFacts) -> Cause | None:
    """Return the compaction or rewind that the messages of two recorded requests show."""
    before, after, overlap = facts.previous.prompt, facts.current.prompt, facts.overlap
    if overlap.is_covered or facts.current.changes or facts.current.is_rebuilt or facts.current.fidelity == "rendered":
        return None
    begin = before.messages.common(after.messages)
    return find_sealed_summary(before, after, begin) or find_rewrite(before, after, overlap.common)


def find_model_of_other_api(facts: PairFacts) -> e.ModelChanged | None:
    """Return that another API and another model were asked."""
    before, after = facts.previous.prompt, facts.current.prompt
    if before.dialect == after.dialect or without_platform(before.model) == without_platform(after.model):
        return None
    return e.ModelChanged(before.model, after.model)


def find_provider_of_other_api(facts: PairFacts) -> e.Evidence | None:
    """Return that the log names another provider, whose API has another form."""
    is_same = facts.previous.prompt.dialect == facts.current.prompt.dialect
    return None if is_same else find_other_provider(facts)


def find_other_api(facts: PairFacts) -> e.Rerouted | None:
    """Return that the requests have the forms of two APIs."""
    before, after = facts.previous.prompt.dialect, facts.current.prompt.dialect
    return None if before == after else e.Rerouted(endpoint_before=before, endpoint_after=after)


def find_cold_compaction(facts: PairFacts) -> Cause | None:
    """Return the cause if the current request asks for a summary of the previous one and reads too little of it.

    It begins differently (other tools, another system prompt) and reads no more than both share, or its last breakpoint
    is at an earlier place.
    """
    previous, current, usage = facts.previous, facts.current, facts.current.usage
    if previous.chain == current.chain or not facts.fell or usage is None or current.basis is not None:
        return None
    if not asks_for_summary(current.prompt, current.call):
        return None
    marks = previous.prompt.breakpoints, current.prompt.breakpoints
    if all(marks) and facts.overlap.common > marks[0][-1]:  # everything that was to be cached is in this one, too
        differs = ("breakpoints",) if marks[1][-1] < marks[0][-1] else ()
    elif facts.overlap.is_covered or not _reads_little(facts, usage):
        differs = ()
    else:
        heads = [
            {name: [part.data for part in turn.prompt.head if part.section == name] for name in ("tools", "system")}
            for turn in (previous, current)
        ]
        differs = tuple([name for name, parts in heads[0].items() if parts != heads[1][name]]) or ("messages",)
    if not differs or find_expiry(facts) is not None or find_parallel_start(facts) is not None:
        return None
    read, cached = counts.first_pass_read(usage) or 0, counts.cached(previous.usage) or 0
    evidence = e.ColdCompaction(differs, cached, read, _warm_read(previous, usage))
    return Cause(Code.COLD_COMPACTION, "messages", evidence, facts.overlap.common, strength="strong")


def _warm_read(previous: Turn, usage: Usage) -> int:
    """Return the tokens that a request of this length could read after the conversation."""
    cached = counts.cached(previous.usage) or 0
    return cached if usage.first_pass.uncached_tokens is None else min(cached, counts.prompt_tokens(usage.first_pass))


def _reads_little(facts: PairFacts, usage: Usage) -> bool:
    """Return whether less than half of what could be read was read, or no more than the head that both share."""
    previous, read = facts.previous, counts.first_pass_read(usage) or 0
    warm = _warm_read(previous, usage)
    if warm - read <= counts.TOLERANCE_TOKENS:
        return False
    if read <= counts.TOLERANCE_TOKENS or 2 * read < warm:
        return True
    head = sum(map(byte_size, previous.prompt.head))
    shared = sum(map(byte_size, previous.prompt.head[: facts.overlap.common]))
    prompt_bytes = head + sum(map(byte_size, previous.prompt.messages))
    tokens_per_byte = counts.prompt_tokens(previous.usage) / max(1, prompt_bytes)
    return read <= shared * tokens_per_byte * ESTIMATED + counts.TOLERANCE_TOKENS
