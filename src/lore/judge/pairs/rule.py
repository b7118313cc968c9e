"""The rule of a pair (`EvidenceRule`), and the second kinds of evidence that make a weak cause certain.

`lore.judge.rules` has the rules themselves, `finders` and `shapes` the functions that look for the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.judge.pairs import finders as find
from lore.judge.pairs.pair import CLIENT_SECTIONS, PairFacts
from lore.model import evidence as e
from lore.model.cause import Cause, RuledOut, Strength
from lore.model.codes import CODES, CauseKind, Code

Check: TypeAlias = Callable[[PairFacts, Cause], bool]


class EvidenceRule(Struct, frozen=True):
    """A rule of a pair: one kind of evidence, and the cause that it explains."""

    code: Code  # the cause; a finder that returns a whole cause names it itself
    find: find.Find  # returns the evidence if the recording shows it
    why: str  # how often reads fell with this evidence, or were right to be explained by it, and the source
    strength: Strength = "strong"
    confirmed_by: tuple[Check, ...] = ()  # second kinds of evidence: any of them makes a weak cause strong, and waste
    ruled_out_by: Callable[[PairFacts], RuledOut | None] | None = None  # what the read itself shows against it
    section: str | None = None  # the section that the cause is about, if it is not the code's
    kind: CauseKind | None = None  # the kind, if it is not the code's
    others: tuple[Code, ...] = ()  # causes that a finder which returns a whole cause may name instead

    @property
    def codes(self) -> tuple[Code, ...]:
        """The causes that it may report."""
        return (self.code, *self.others)

    def explain(self, facts: PairFacts) -> Cause | None:
        """Return the cause if there is evidence for it, with the strength and kind that the evidence has."""
        cause = self.find(facts)
        if cause is None:
            return None
        if not isinstance(cause, Cause):
            cause = Cause(self.code, self.section or CODES[self.code].section, cause)
        is_waste = CODES[cause.code].kind == "waste"
        if any(confirms(facts, cause) for confirms in self.confirmed_by):
            return replace(cause, strength="strong", override=self.kind or (None if is_waste else "waste"))
        strength = "weak" if _is_doubtful(cause.evidence) else self.strength
        kind = self.kind or ("unattributable" if strength == "weak" and is_waste else None)
        return replace(cause, strength=strength, override=kind or cause.override)


def _is_doubtful(evidence: e.Evidence) -> bool:
    """Return whether evidence is weak in whichever rule uses it, as its own numbers do not confirm it.

    The read is not exactly what precedes the dropped reasoning or hook text, no smaller total confirms omitted
    thinking, or the provider may have removed the content itself.
    """
    match evidence:
        case e.ReasoningDropped() | e.HookText():
            return not evidence.exact
        case e.ThinkingOmitted():
            return evidence.tokens_before is None
        case e.TotalShrank():
            return evidence.unsure
        case _:
            return False


# the provider's verdict


# What rewrites tools and system prompt together.
_WHOLE_HEAD = frozenset((Code.CLIENT_UPDATED, Code.CLIENT_RESTARTED, Code.SESSION_CHANGED))


def provider_cause(facts: PairFacts) -> Cause | None:
    """Return the provider's verdict that the client changed something; other verdicts say nothing about the client."""
    verdict = facts.verdict
    section = None if verdict is None else CLIENT_SECTIONS.get(verdict.reason)
    if verdict is None or section is None:
        return None
    return Cause(Code.CLIENT_CAUSE_UNKNOWN, section, verdict, strength="strong")


def can_lead(code: str, cause_section: str | None, section: str | None) -> bool:
    """Return whether a cause about one section may lead although the provider's verdict names `section`."""
    if section not in CLIENT_SECTIONS.values() or cause_section is None:
        return True
    return section in ("tools", "system") if code in _WHOLE_HEAD else cause_section == section


# second kinds of evidence


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


def surely_restarted(facts: PairFacts, _: Cause) -> bool:
    """Return whether the log records that the client's process ended or began, or has two kinds of signals of it."""
    restart = find.signal_of(facts, "restart")
    names = () if restart is None else restart.names
    others = (find.signal_of(facts, name) for name in ("resume", "client-version"))
    return len(names) > 1 or not _UNSURE.issuperset(names) or any(others)


def read_up_to_skill(facts: PairFacts, _: Cause) -> bool:
    """Return whether the read ends where the text of a skill was before it moved."""
    skill = find.state_signal(facts, "skill")
    return skill is not None and facts.read is not None and facts.read == skill.read_if_moved


# Tool servers that are not connected: a process began, or a server dropped out. A desktop app's process had ended: 8 of
# 14 reads fell (47 public sessions).
_UNSURE = frozenset(("pendingMcpServers", "last-prompt"))
