"""Confirm a weak cause by a second kind of evidence: each function returns whether a pair of turns shows it.

`lore.judge.rules` names the functions that make the cause of a rule strong; one that returns True is enough.
"""

from __future__ import annotations

from lore.judge.pairs.finders import placed_signal, read_ends_at, sign_of
from lore.judge.pairs.pair import PairFacts, can_lead, provider_cause
from lore.model import evidence as e
from lore.model.cause import Cause


def verdict_agrees(facts: PairFacts, cause: Cause) -> bool:
    """Return whether the provider says that the client changed the section of the cause."""
    verdict = provider_cause(facts)
    return verdict is not None and can_lead(cause.code, cause.section, verdict.section)


def read_head_alone(facts: PairFacts, _: Cause, most: int = 0) -> bool:
    """Return whether the read is the head that other conversations keep in the cache, or up to `most` tokens more."""
    head = None if facts.state is None else facts.state.shared_head
    return head is not None and facts.read is not None and 0 <= facts.read - head <= most


def fell_each_time(facts: PairFacts, cause: Cause) -> bool:
    """Return whether this session showed the cause's signal at least twice before, and its reads fell each time."""
    signal = cause.evidence.sign if isinstance(cause.evidence, e.SignSeen) else "tools-delta"
    tally = facts.tallies.get(signal)
    return tally is not None and tally.fell == tally.times >= 2


# Signals of a restart that may be something else. Tool servers that are not connected: a process began, or a server
# dropped out. A desktop app's process had ended: 8 of 14 reads fell (47 public sessions).
_AMBIGUOUS = frozenset(("pendingMcpServers", "last-prompt"))


def surely_restarted(facts: PairFacts, _: Cause) -> bool:
    """Return whether the log records that the client's process ended or began, or has two kinds of signals of it."""
    restart = sign_of(facts, "restart")
    names = () if restart is None else restart.names
    others = (sign_of(facts, name) for name in ("resume", "client-version"))
    return len(names) > 1 or not _AMBIGUOUS.issuperset(names) or any(others)


def read_up_to_skill(facts: PairFacts, _: Cause) -> bool:
    """Return whether the read ends where the text of a skill was before it moved."""
    skill = placed_signal(facts, "skill")
    return skill is not None and read_ends_at(facts, skill)


# Signals of changes in tools and system prompt, after which the head may be all that is read.
_HEAD_SIGNALS = frozenset(
    ("client-version", "restart", "tools-delta", "instructions-delta", "remote-control", "resume")
)


def lookback_missed_hook(facts: PairFacts, cause: Cause) -> bool:
    """Return whether a hook's text is out of the lookback's reach, and no other signal explains a read of the head."""
    is_unreached = isinstance(cause.evidence, e.HookText) and cause.evidence.unreached is not None
    return is_unreached and not any(sign.name in _HEAD_SIGNALS for sign in facts.current.signs)
