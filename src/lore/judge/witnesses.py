"""What the shape of two requests, the clock and who was asked say of a pair.

In: two successive requests of a chain, what they share, their bills. Out: a cause, or None. Rules: the recording says
it (times, bills, the shape of the messages), never a guess; what would explain a break alone is looked for only where
there is one. Each provider, deployment and key has a cache of its own. A router says who answered (OpenRouter's
`provider`, LiteLLM's deployment), or ids tell: answers stand between the two that this recording never received, and
their calls' ids begin as another provider's do than those of the last answer that it received; what older ones in the
history say is told by nobody any more. Answers that were not received and look like all others are weak evidence: the
recording may be cut.

Sources: measured over billed recordings (an entry just written is not yet readable within about 3 seconds: the
breakpoint before it is read instead; verdicts by type; 509 of 715 sessions start warm; calls of `tooluse_` between
calls of `toolu_`: what they added was written to the cache of another cloud); the providers' and routers' documentation
(an entry can be read once the response that writes it has begun).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from lore.cache.counts import (
    FIVE_MINUTES,
    ONE_HOUR,
    SOON,
    TOLERANCE_TOKENS,
    cached,
    expiry,
    first_pass_read,
    prompt_tokens,
)
from lore.cache.transcripts import TurnState
from lore.judge.rewrites import rewritten, sealed
from lore.model import evidence as e
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.providers import named_provider, place_in, provider_by_id
from lore.model.turn import Segment, Turn
from lore.prefix.likeness import is_model_message
from lore.prefix.overlap import Overlap, byte_size
from lore.prefix.purpose import asks_for_summary

# Anthropic's verdicts on a miss, and the section that each is about.
SECTIONS = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
CLIENTS = SECTIONS | {"model_changed": "model"}  # those that say that the client changed something
REASONS = frozenset((*CLIENTS, "previous_message_not_found", "unavailable"))
ESTIMATED = 1.25  # an estimate of tokens from bytes is rarely off by more


class Tally(Struct, frozen=True):
    """How often a session showed something, and how often the read fell then."""

    seen: int = 0
    fell: int = 0

    def plus(self, *, fell: bool) -> Tally:
        """Return the tally with one more occurrence."""
        return Tally(self.seen + 1, self.fell + fell)


class PairContext(NamedTuple):
    """Two successive turns before they are judged.

    `fell` is the bill's fall in tokens (`counts.significant_fall`); `lives` the seconds that what the left wrote lives;
    `positions` the tokens at the breakpoints of the turns before the left, the latest last; `billed`: the two follow
    one another, so that their bills compare. `state` is what a transcript's level model knew before the bill;
    `used` is the last request that had all of the left, where that is a later one: lifetimes count from there. `shown`
    counts the signs of earlier turns and the falls that came with them.
    `moved` is what a client's hashes say that differs from the request of which it noted some before.
    """

    left: Turn
    right: Turn
    found: Overlap
    fell: int | None
    lives: float | None
    positions: tuple[int, ...]
    billed: bool
    state: TurnState | None = None
    used: Turn | None = None
    shown: Mapping[str, Tally] = {}
    moved: tuple[Cause, ...] = ()

    @property
    def read(self) -> int | None:
        """What the right read of what stood before, in tokens; None where no bill says it."""
        return first_pass_read(self.right.usage)

    @property
    def verdict(self) -> e.ProviderSaid | None:
        """The provider's verdict as evidence; a reason that lore does not know is content."""
        said = self.right.verdict
        if said is None:
            return None
        known = said.reason if said.reason in REASONS else ""
        return e.ProviderSaid(known, "" if known else said.reason, said.missed_tokens)


def by_shape(context: PairContext) -> Cause | None:
    """Return the expected cause that the messages show: a restart, a compaction, a rewind."""
    left, right, found = context.left, context.right, context.found
    if left.chain != right.chain and right.given_up == left.chain:
        number = sum(segment.section == "tools" for segment in left.prompt.head)
        return Cause(Code.CHAIN_RESTARTED, "tools", e.ChainRestarted(number), found.common)
    if left.chain != right.chain and (cold := _cold(context)) is not None:
        return cold
    if found.is_covered or right.changes or right.is_rebuilt or right.fidelity == "rendered":
        return None
    begin = left.prompt.messages.common(right.prompt.messages)
    return sealed(left.prompt, right.prompt, begin) or rewritten(left.prompt, right.prompt, found.common)


def _cold(context: PairContext) -> Cause | None:
    """Return that a request for a summary reads less of its conversation than a cache still holds.

    It begins otherwise and reads no more than both share, or its last breakpoint stands in front of the conversation's.
    """
    left, right, usage = context.left, context.right, context.right.usage
    if not context.fell or usage is None or right.basis is not None or not asks_for_summary(right.prompt, right.call):
        return None
    read, marks = first_pass_read(usage), (left.prompt.breakpoints, right.prompt.breakpoints)
    if all(marks) and context.found.common > marks[0][-1]:  # all that was to be cached stands in this one, too
        differs = ("breakpoints",) if marks[1][-1] < marks[0][-1] else ()
    elif context.found.is_covered or not _reads_little(context, usage, read or 0):
        return None
    else:
        differs = _differing(left, right)
    if not differs or expired(context) or parallel(context):
        return None
    evidence = e.ColdCompaction(differs, cached(left.usage) or 0, read or 0, _warm(left, usage))
    return Cause(Code.COLD_COMPACTION, "messages", evidence, context.found.common, strength="strong")


def _warm(left: Turn, usage: Usage) -> int:
    """Return what a request of this length had read behind the conversation: no more than stood there, or it holds."""
    there = cached(left.usage) or 0
    return there if usage.first_pass.uncached_tokens is None else min(there, prompt_tokens(usage.first_pass))


def _reads_little(context: PairContext, usage: Usage, read: int) -> bool:
    """Tell whether a bill reads less than half of what it could, or no more than the head that both requests share."""
    left, warm = context.left, _warm(context.left, usage)
    if warm - read <= TOLERANCE_TOKENS:
        return False
    if read <= TOLERANCE_TOKENS or 2 * read < warm:
        return True
    head = sum(map(byte_size, left.prompt.head))
    shared = sum(map(byte_size, left.prompt.head[: context.found.common]))
    tokens = prompt_tokens(left.usage) / max(1, head + sum(map(byte_size, left.prompt.messages)))
    return read <= shared * tokens * ESTIMATED + TOLERANCE_TOKENS


def _differing(left: Turn, right: Turn) -> tuple[str, ...]:
    parts = [{
        section: [segment.data for segment in turn.prompt.head if segment.section == section]
        for section in ("tools", "system")
    } for turn in (left, right)]  # fmt: skip
    return tuple([section for section, part in parts[0].items() if part != parts[1][section]]) or ("messages",)


def other_api(context: PairContext) -> Cause | None:
    """Return the cause of a request in another dialect: another model, else another endpoint of the same one."""
    before, after = context.left.prompt, context.right.prompt
    if before.dialect == after.dialect:
        return None
    if before.model != after.model:
        return Cause(Code.MODEL_CHANGED, "model", e.ModelChanged(before.model, after.model))
    other = e.Rerouted(endpoint_before=before.dialect, endpoint_after=after.dialect)
    return Cause(Code.ENDPOINT_CHANGED, "outside", other, strength="strong")


def lives_of(context: PairContext) -> float | None:
    """Return how many seconds what the left wrote lives: as billed, else by the rules of a cache that bills none."""
    seen = context.state
    return seen.lifetime if context.lives is None and seen is not None and seen.implicit else context.lives


def expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired; an entry that the bill shows unread died without any grace."""
    lives = lives_of(context)
    lives = ONE_HOUR if lives is None and _bills_no_lifetime(context) else lives  # the longest that can be had
    gone = expiry(context.used or context.left, context.right, lives, missed=bool(context.fell))
    if gone is None or not context.billed:
        return None
    return Cause(Code.CACHE_EXPIRED, "time", gone, strength="strong")


def perhaps_expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired unless an hour was asked for, where no bill says for how long."""
    if lives_of(context) is not None or not _bills_no_lifetime(context) or not context.billed:
        return None
    gone = expiry(context.used or context.left, context.right, FIVE_MINUTES, missed=bool(context.fell))
    return None if gone is None else Cause(Code.CACHE_EXPIRED, "time", e.Paused(gone.seconds, None), strength="weak")


def _bills_no_lifetime(context: PairContext) -> bool:
    """Tell whether a log's entries stand at breakpoints, and no write of them was billed: a gateway leaves it out."""
    seen, usage = context.state, context.left.usage
    return seen is not None and not seen.implicit and usage is not None and usage.write_tokens is None


def started_in_parallel(left: Turn, right: Turn) -> float | None:
    """Return how many seconds before the left's response began the right was sent; None where it was not."""
    begun = left.answered_at
    if begun is None or right.at is None or left.at is None or left.answered_at == left.at:
        return None
    early = begun - right.at
    return early if early > 0 and right.at >= left.at - _HOUR else None


_HOUR = 3600.0  # clocks of two machines may differ, and a recording may be put together from several


def parallel(context: PairContext) -> Cause | None:
    """Return that the right was sent before the entry that it would read was written."""
    early = started_in_parallel(context.left, context.right) if context.billed else None
    return None if early is None else Cause(Code.PARALLEL_START, "time", e.ParallelStart(early), strength="strong")


def older_entry(context: PairContext) -> Cause | None:
    """Return that exactly the entry before the last one was served, as happens within seconds."""
    soon, read = since(context.left, context.right), context.read
    if soon is None or not 0 <= soon <= SOON or not read or not context.billed:
        return None
    earlier = None if context.state is None else context.state.earlier_position
    if (read not in context.positions and read != earlier) or read == cached(context.left.usage):
        return None
    return Cause(Code.OLDER_ENTRY_SERVED, "time", e.OlderEntry(soon, read), strength="strong")


def since(left: Turn, right: Turn) -> float | None:
    """Return the seconds from the left's answer (its request where that is not known) to the right's request."""
    begun = left.answered_at if left.answered_at is not None else left.at
    return None if begun is None or right.at is None else right.at - begun


# which cache was asked


_ID = re.compile(rb'"(?:id|call_id|toolUseId)"\s*:\s*"([a-z]{1,12}(?:_|-tool-)(?:bdrk_|vrtx_)?)')
_ENDS = 512  # bytes at either end of a block in which its id stands
_CALLS = (b"tool_use", b"tool_call", b"toolUse", b"function")


def rerouted(context: PairContext) -> Cause | None:
    """Tell whether a request went to another host or account than the one before."""
    before, after = context.left.call, context.right.call
    hosts = [call.endpoint.partition("/")[0] for call in (before, after)]
    other_key = bool(before.account and after.account and before.account != after.account)
    if all(hosts) and hosts[0] != hosts[1]:
        found = e.Rerouted(host_before=hosts[0], host_after=hosts[1], account=other_key)
    elif before.endpoint and after.endpoint and place_in(before.endpoint) != place_in(after.endpoint):
        found = e.Rerouted(endpoint_before=before.endpoint, endpoint_after=after.endpoint, account=other_key)
    elif other_key:
        found = e.Rerouted(account=True)
    else:
        return None
    return Cause(Code.ENDPOINT_CHANGED, "outside", found, strength="strong")


def routed(context: PairContext) -> Cause | None:
    """Tell whether another provider, or another deployment, stands behind the router."""
    before, after = context.left.call, context.right.call
    found, who = None, [named_provider(call.answered_by) or call.answered_by for call in (before, after)]
    if all(who) and who[0] != who[1]:
        found = e.RoutedElsewhere(before.answered_by, after.answered_by)
    elif before.deployment and after.deployment and before.deployment != after.deployment:
        found = e.RoutedElsewhere(deployment_before=before.deployment, deployment_after=after.deployment)
    if found is not None:
        return Cause(Code.ROUTED_ELSEWHERE, "outside", found, strength="strong")
    if context.right.basis is not None or not context.found.is_covered or not context.billed:
        return None
    return _between(context)


def _between(context: PairContext) -> Cause | None:
    """Return what the answers between two requests show, but for the first, which the left one received.

    Where the request goes on from an earlier one than its chain's last, others of the recording received them.
    """
    left, right = context.left.prompt, context.right.prompt
    answers = [] if context.used is not None else list(_answers(right.messages.since(len(left.messages))))
    if len(answers) < 2:
        return None
    own = next((ids for ids in (answers[0], *reversed(list(_answers(left.messages)))) if ids), list[str]())
    between = {begin for ids in answers[1:] for begin in ids}
    known, others = ({*map(provider_by_id, begins)} - {""} for begins in (own, between))
    foreign = bool(known and others - known)
    evidence = e.RoutedElsewhere(unreceived=len(answers) - 1, ids=tuple(sorted({*own, *between})) if foreign else ())
    if foreign:
        return Cause(Code.ROUTED_ELSEWHERE, "outside", evidence, strength="strong")
    return Cause(Code.ROUTED_ELSEWHERE, "outside", evidence, override="unattributable", strength="weak")


def _answers(segments: Iterable[Segment]) -> Iterator[list[str]]:
    """Yield for each of the model's answers what the ids of its calls begin with."""
    ids: list[str] | None = None
    for segment in segments:
        if segment.kind == "envelope":
            if not is_model_message(segment):
                if ids is not None:
                    yield ids
                ids = None
                continue
            ids = [] if ids is None else ids
        if ids is not None and any(sign in segment.data for sign in _CALLS):
            data = segment.data
            ends = data if len(data) <= 2 * _ENDS else data[:_ENDS] + data[-_ENDS:]
            ids += [begin.decode() for begin in dict.fromkeys(_ID.findall(ends))]
    if ids is not None:
        yield ids
