"""What each witness says of a pair: its bytes, its shape, the clock, the bill, the provider's verdict.

In: two successive requests of a chain, what they share, their bills. Out: an expected cause, which comes before any
other, or None; three columns, for bytes, bill and verdict, and how they contradict one another. Rules: the recording
says it (times, bills, the shape of the messages), never a guess; what would explain a break alone is looked for only
where there is one; each witness speaks for itself; where they contradict, that is said and never smoothed over. What is
normal is no contradiction: a verdict `unavailable` is often no miss at all; a transcript lacks tools and system
prompt, so a verdict about them is the only witness. A read beyond what the bytes share was warmed by another request,
or the provider does not mind the change: which one, the recording cannot tell.

Sources: measured over billed recordings (an entry just written is not yet readable within about 3 seconds: the
breakpoint before it is read instead; verdicts by type; 509 of 715 sessions start warm); the providers' documentation
(an entry can be read once the response that writes it has begun).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lore.cache.bills import (
    FIVE_MINUTES,
    ONE_HOUR,
    SOON,
    TOLERANCE_TOKENS,
    cached,
    expiry,
    met_read,
    prompt_tokens,
)
from lore.cache.forecast import Situation
from lore.cache.habits import Habits, Tally
from lore.judge.rewrites import rewritten, sealed
from lore.model.cause import Cause
from lore.model.codes import UNEXPLAINED, Code
from lore.model.events import Billed, Verdict
from lore.model.evidence import (
    ChainRestarted,
    ColdCompaction,
    Disputed,
    ModelChanged,
    OlderEntry,
    ParallelStart,
    Paused,
    ProviderSaid,
    Rerouted,
)
from lore.model.turn import Turn
from lore.prefix.causes import limit_of
from lore.prefix.overlap import Overlap, place_of, size
from lore.prefix.purpose import compacts

# Anthropic's verdicts on a miss, and the section that each is about.
SECTIONS = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
CLIENTS = SECTIONS | {"model_changed": "model"}  # those that say that the client changed something
REASONS = frozenset((*CLIENTS, "previous_message_not_found", "unavailable"))
_CLEARLY = 1.25  # an estimate of tokens from bytes is rarely off by more


class PairContext(NamedTuple):
    """Two successive turns before they are judged.

    `fell` is the bill's fall in tokens (`bills.fall`); `lives` the seconds that what the left wrote lives;
    `positions` the tokens at the breakpoints of the turns before the left, the latest last; `billed`: the two follow
    one another, so that their bills compare. `situation` is what a transcript's level model knew before the bill;
    `used` is the last request that had all of the left, where that is a later one: lifetimes count from there. `shown`
    counts the signs of earlier turns and the falls that came with them; `habits` gives what was counted of clients.
    `moved` is what a client's hashes say that differs from the request of which it noted some before.
    """

    left: Turn
    right: Turn
    found: Overlap
    fell: int | None
    lives: float | None
    positions: tuple[int, ...]
    billed: bool
    situation: Situation | None = None
    used: Turn | None = None
    shown: Mapping[str, Tally] = {}
    habits: Callable[[], Habits] = Habits
    moved: tuple[Cause, ...] = ()


def by_shape(context: PairContext) -> Cause | None:
    """Return the expected cause that the messages show: a restart, a compaction, a rewind."""
    left, right, found = context.left, context.right, context.found
    if left.chain != right.chain and right.given_up == left.chain:
        number = sum(segment.section == "tools" for segment in left.prompt.head)
        return Cause(Code.CHAIN_RESTARTED, "tools", ChainRestarted(number), found.common)
    if left.chain != right.chain and (cold := _cold(context)) is not None:
        return cold
    if found.covered or right.changes or right.is_rebuilt or right.fidelity == "rendered":
        return None
    begin = left.prompt.messages.common(right.prompt.messages)
    return sealed(left.prompt, right.prompt, begin) or rewritten(left.prompt, right.prompt, found.common)


def _cold(context: PairContext) -> Cause | None:
    """Return that a request for a summary reads less of its conversation than a cache still holds.

    It begins otherwise and reads no more than both share, or its last breakpoint stands in front of the conversation's.
    """
    left, right, usage = context.left, context.right, context.right.usage
    if not context.fell or usage is None or right.basis is not None or not compacts(right.prompt, right.call):
        return None
    read, marks = met_read(usage), (left.prompt.breakpoints, right.prompt.breakpoints)
    if all(marks) and context.found.common > marks[0][-1]:  # all that was to be cached stands in this one, too
        differs = ("breakpoints",) if marks[1][-1] < marks[0][-1] else ()
    elif context.found.covered or not _reads_little(context, usage, read or 0):
        return None
    else:
        differs = tuple([part for part in HEAD if _part(left, part) != _part(right, part)]) or ("messages",)
    if not differs or expired(context) or parallel(context):
        return None
    evidence = ColdCompaction(differs, cached(left.usage) or 0, read or 0, _warm(left, usage))
    return Cause(Code.COLD_COMPACTION, "messages", evidence, context.found.common, strength="strong")


def _warm(left: Turn, usage: Billed) -> int:
    """Return what a request of this length had read behind the conversation: no more than stood there, or it holds."""
    there = cached(left.usage) or 0
    return there if usage.met.uncached_tokens is None else min(there, prompt_tokens(usage.met))


def _reads_little(context: PairContext, usage: Billed, read: int) -> bool:
    """Tell whether a bill reads less than half of what it could, or no more than the head that both requests share."""
    left, warm = context.left, _warm(context.left, usage)
    if warm - read <= TOLERANCE_TOKENS:
        return False
    if read <= TOLERANCE_TOKENS or 2 * read < warm:
        return True
    head = sum(map(size, left.prompt.head))
    shared = sum(map(size, left.prompt.head[: context.found.common]))
    tokens = prompt_tokens(left.usage) / max(1, head + sum(map(size, left.prompt.messages)))
    return read <= shared * tokens * _CLEARLY + TOLERANCE_TOKENS


def _part(turn: Turn, section: str) -> list[bytes]:
    return [segment.data for segment in turn.prompt.head if segment.section == section]


HEAD = ("tools", "system")


def other_api(context: PairContext) -> Cause | None:
    """Return the cause of a request in another dialect: another model, else another endpoint of the same one."""
    before, after = context.left.prompt, context.right.prompt
    if before.dialect == after.dialect:
        return None
    if before.model != after.model:
        return Cause(Code.MODEL_CHANGED, "model", ModelChanged(before.model, after.model))
    other = Rerouted(endpoint_before=before.dialect, endpoint_after=after.dialect)
    return Cause(Code.ENDPOINT_CHANGED, "outside", other, strength="strong")


def lives_of(context: PairContext) -> float | None:
    """Return how many seconds what the left wrote lives: as billed, else by the rules of a cache that bills none."""
    seen = context.situation
    return seen.lifetime if context.lives is None and seen is not None and seen.implicit else context.lives


def expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired; an entry that the bill shows unread died without any grace."""
    lives = lives_of(context)
    lives = ONE_HOUR if lives is None and _bills_no_lifetime(context) else lives  # the longest that can be had
    gone = expiry(context.used or context.left, context.right, lives, missed=bool(context.fell))
    if gone is None or not context.billed:
        return None
    return Cause(Code.CACHE_EXPIRED, "time", Paused(gone.pause, gone.lifetime), strength="strong")


def perhaps_expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired unless an hour was asked for, where no bill says for how long."""
    if lives_of(context) is not None or not _bills_no_lifetime(context) or not context.billed:
        return None
    gone = expiry(context.used or context.left, context.right, FIVE_MINUTES, missed=bool(context.fell))
    return None if gone is None else Cause(Code.CACHE_EXPIRED, "time", Paused(gone.pause, None), strength="weak")


def _bills_no_lifetime(context: PairContext) -> bool:
    """Tell whether a log's entries stand at breakpoints, and no write of them was billed: a gateway leaves it out."""
    seen, usage = context.situation, context.left.usage
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
    return None if early is None else Cause(Code.PARALLEL_START, "time", ParallelStart(early), strength="strong")


def older_entry(context: PairContext) -> Cause | None:
    """Return that exactly the entry before the last one was served, as happens within seconds."""
    soon, read = since(context.left, context.right), met_read(context.right.usage)
    if soon is None or not 0 <= soon <= SOON or not read or not context.billed:
        return None
    earlier = None if context.situation is None else context.situation.earlier
    if (read not in context.positions and read != earlier) or read == cached(context.left.usage):
        return None
    return Cause(Code.OLDER_ENTRY_SERVED, "time", OlderEntry(soon, read), strength="strong")


def since(left: Turn, right: Turn) -> float | None:
    """Return the seconds from the left's answer (its request where that is not known) to the right's request."""
    begun = left.answered_at if left.answered_at is not None else left.at
    return None if begun is None or right.at is None else right.at - begun


class BytesColumn(NamedTuple):
    """Whether the prompt goes on, and where the two part: `behind` all breakpoints or not; None is not measured."""

    goes_on: bool
    shared: int | None = None
    total: int | None = None
    path: str = ""
    behind: bool = False


class BilledColumn(NamedTuple):
    """Tokens read of those that were cached, and by how many the bill fell; None is not known."""

    read: int | None
    cached: int | None
    fell: int | None


class Columns(NamedTuple):
    """What each witness says. `agree` is None where bytes speak alone; `dispute` says how they contradict."""

    bytes: BytesColumn
    billed: BilledColumn
    verdict: ProviderSaid | None
    agree: bool | None
    dispute: Disputed | None = None


class Sizes(NamedTuple):
    """Bytes of the left, of the left up to where it wants to be cached, and of what both share."""

    left: int
    wanted: int
    shared: int
    per_token: float


def columns(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes | None) -> Columns:
    """Put a pair into its three columns; `sizes` is None where its bytes were not measured."""
    disagreement = next((cause.evidence for cause in causes if cause.code == Code.VERDICT_DISAGREES), None)
    dispute = disagreement if isinstance(disagreement, Disputed) else _unexplained(context, causes)
    alone = context.right.verdict is None and (context.fell is None or not context.billed)
    agree = None if alone else dispute is None
    return Columns(_bytes(context, sizes), _billed(context), verdict_evidence(context.right.verdict), agree, dispute)


def verdict_evidence(verdict: Verdict | None) -> ProviderSaid | None:
    """Return the provider's verdict as evidence; a reason that lore does not know is content."""
    if verdict is None:
        return None
    known = verdict.reason if verdict.reason in REASONS else ""
    return ProviderSaid(known, "" if known else verdict.reason, verdict.missed_tokens)


def _unexplained(context: PairContext, causes: tuple[Cause, ...]) -> Disputed | None:
    """Return that bytes and bill contradict where nothing that was recorded explains it."""
    if not any(cause.code in UNEXPLAINED for cause in causes):
        return None
    return Disputed("unexplained", tokens=context.fell)


def _bytes(context: PairContext, sizes: Sizes | None) -> BytesColumn:
    left, right, found = context.left, context.right, context.found
    if sizes is None:
        return BytesColumn(goes_on=True)
    if found.covered:
        return BytesColumn(goes_on=True, shared=sizes.left, total=sizes.left)
    where = place_of(left.prompt, right.prompt, found.common)
    behind = found.common >= limit_of(left.prompt)
    return BytesColumn(False, sizes.shared, sizes.left, "" if where is None else where.path, behind)  # noqa: FBT003


def _billed(context: PairContext) -> BilledColumn:
    read, there = met_read(context.right.usage), cached(context.left.usage)
    if read is None or not context.billed or there is None or context.fell is None:
        return BilledColumn(read, None, None)
    return BilledColumn(read, there, context.fell)


def dispute(context: PairContext, causes: tuple[Cause, ...], sizes: Sizes, *, broken: bool) -> Disputed | None:
    """Return how bytes, bill and verdict contradict one another; None where they do not.

    `broken` says that a cause was found, in the bytes or in the bill.
    """
    if not context.billed or context.right.is_rebuilt or context.right.fidelity == "rendered":
        return None
    if any(cause.code in _OTHER for cause in causes):  # one witness speaks of another request, or of nothing
        return None
    bytes_part = broken and not context.found.covered
    return (_against_bill(context, sizes) if bytes_part else None) or _against_verdict(context, bytes_part=bytes_part)


_OTHER = frozenset(
    (
        Code.MODEL_CHANGED,
        Code.CACHE_EXPIRED,
        Code.PARALLEL_START,
        Code.ENDPOINT_CHANGED,
        Code.ROUTED_ELSEWHERE,
        Code.CONTINUATION,
        Code.CHAIN_RESTARTED,
    )
)


def _against_bill(context: PairContext, sizes: Sizes) -> Disputed | None:
    """Compare what the bytes share with what was read, in tokens by the bill's own measure."""
    read, there = met_read(context.right.usage), cached(context.left.usage)
    if context.fell != 0 or not read or not there:
        return None
    if context.found.common >= limit_of(context.left.prompt) or there < TOLERANCE_TOKENS:
        return None
    held = sizes.shared / sizes.per_token
    if read <= held * _CLEARLY + TOLERANCE_TOKENS:
        return None
    return Disputed("bill-reads-more", tokens=round(held), read_tokens=read)


def _against_verdict(context: PairContext, *, bytes_part: bool) -> Disputed | None:
    verdict, found = context.right.verdict, context.found
    if verdict is None:
        return None
    left, right = context.left.prompt, context.right.prompt
    missed = verdict.missed_tokens or 0
    if verdict.reason == "model_changed" and left.model == right.model:
        return Disputed("same-model", verdict.reason, model=right.model)
    section = SECTIONS.get(verdict.reason)
    if section is None:
        return None
    if not bytes_part:
        return Disputed("no-change-in-bytes", verdict.reason)
    if context.fell == 0 and missed > TOLERANCE_TOKENS and cached(context.left.usage):
        return Disputed("nothing-missed", verdict.reason, tokens=missed)
    where = place_of(left, right, found.common)
    if where is not None and where.section != section and found.common < limit_of(left):
        return Disputed("other-section", verdict.reason, section=where.section, path=where.path)
    return None
