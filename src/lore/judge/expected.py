"""Expected causes that a pair of requests shows by itself: they come before any other.

In: two successive requests of a chain, what they share, their bills. Out: the cause, or None. Rules: the
recording says it (times, bills, the shape of the messages), never a guess; what would explain a break alone
is looked for only where there is one. A compaction: messages became fewer, answers of the model among those that are
gone, and a text that nobody sent before stands where they part. What that text says of itself decides: a summary makes
it expected; a placeholder, or no new text at all, is a cut of history and no compaction; where the text says neither,
it is unattributable.

Sources: measured over billed recordings (an entry just written is not yet readable within about 3 seconds:
the breakpoint before it is read instead); the providers' documentation (an entry can be read once the response
that writes it has begun).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import structs

from lore.cache.levels import Situation
from lore.cache.reach import SOON, expiry
from lore.judge.bills import cached
from lore.model.codes import Code
from lore.model.evidence import (
    ChainRestarted,
    MessagesTakenBack,
    ModelChanged,
    OlderEntry,
    ParallelStart,
    Paused,
    Rerouted,
    SummaryFound,
)
from lore.model.prompt import Prompt, Segment
from lore.model.turn import Turn
from lore.prefix.blocks import block_of
from lore.prefix.cause import Cause
from lore.prefix.likeness import is_models, keeps_system, nearly_same, same_head
from lore.prefix.overlap import Overlap
from lore.prefix.purpose import (
    before_answer,
    begins_user_turn,
    is_headed,
    is_placeholder,
    is_sealed,
    is_summary,
    retells,
)


class PairContext(NamedTuple):
    """Two successive turns before they are judged.

    `fell` is the bill's fall in tokens (`bills.fall`); `lives` the seconds that what the left wrote lives;
    `positions` the tokens at the breakpoints of the turns before the left, the latest last; `billed`: the two follow
    one another, so that their bills compare. `situation` is what a transcript's level model knew before the bill.
    """

    left: Turn
    right: Turn
    found: Overlap
    fell: int | None
    lives: float | None
    positions: tuple[int, ...]
    billed: bool
    situation: Situation | None = None


def by_shape(context: PairContext) -> Cause | None:
    """Return the expected cause that the messages show: a restart, a compaction, a rewind."""
    left, right, found = context.left, context.right, context.found
    if left.chain != right.chain and right.given_up == left.chain:
        number = sum(segment.section == "tools" for segment in left.prompt.head)
        return Cause(Code.CHAIN_RESTARTED, "tools", ChainRestarted(number), found.common)
    if found.covered or right.changes or right.fidelity in ("reconstructed", "rendered"):
        return None
    before, after = left.prompt, right.prompt
    if before.dialect != after.dialect:
        return None
    begin = before.messages.common(after.messages)
    if begin == len(before.messages):
        return None
    if not same_head(before, after):
        return moved_behind(before, after, found.common)
    return summed_up(before, after, begin) or _rewound(before, after, begin) or replaced(before, after, begin)


def other_api(context: PairContext) -> Cause | None:
    """Return the cause of a request in another dialect: another model, else another endpoint of the same one."""
    before, after = context.left.prompt, context.right.prompt
    if before.dialect == after.dialect:
        return None
    if before.model != after.model:
        return Cause(Code.MODEL_CHANGED, "model", ModelChanged(before.model, after.model))
    other = Rerouted(endpoint_before=before.dialect, endpoint_after=after.dialect)
    return Cause(Code.ENDPOINT_CHANGED, "outside", other, strength="strong")


def _rewound(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Tell whether the right goes back to an earlier message of the user and says something else from there."""
    start = _turn_at(left, begin)
    if start is None or start != _turn_at(right, begin) or not begins_user_turn(right):
        return None
    rest = [segment for segment in right.messages.since(start) if segment.kind == "envelope"]
    gone = [segment for segment in left.messages.since(start) if segment.kind == "envelope"]
    if any(map(is_models, rest)) or not any(map(is_models, gone)):
        return None
    old = {segment.data for segment in left.messages.since(start) if segment.kind != "envelope"}
    if any(segment.data in old for segment in right.messages.since(start) if segment.kind != "envelope"):
        return None
    return Cause(Code.REWIND, "messages", MessagesTakenBack(len(gone)), len(left.head) + begin)


def _turn_at(prompt: Prompt, place: int) -> int | None:
    """Return where the message of the user begins that a place is in; None for another message."""
    if place >= len(prompt.messages):
        return None
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    message = prompt.messages[place]
    return place if message.kind == "envelope" and b'"user"' in message.data else None


def expired(context: PairContext) -> Cause | None:
    """Return that what the left wrote had expired; an entry that the bill shows unread died without any grace."""
    gone = expiry(context.left, context.right, context.lives, missed=bool(context.fell))
    if gone is None or not context.billed:
        return None
    return Cause(Code.CACHE_EXPIRED, "time", Paused(gone.pause, gone.lifetime), strength="strong")


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
    soon, read = since(context.left, context.right), context.right.usage and context.right.usage.read_tokens
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


_OPENING = 8  # segments behind the divergence in which a summary would stand


class _Text(NamedTuple):
    """A text that stands where messages part, and whether the model's own message holds it."""

    segment: Segment
    by_model: bool


def summed_up(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return the compaction that a summary shows which says what it is; `begin` is where the messages part."""
    if not _shrank(left, right, begin):
        return None
    summary = behind_kept(left, right, begin)
    if summary is None and not _goes_on_alike(left, right, begin):
        summary = next((text.segment for text in _new_texts(left, right, begin) if is_summary(text.segment)), None)
    return None if summary is None else _caused(left, right, begin, summary.path, "is-summary")


def behind_kept(left: Prompt, right: Prompt, begin: int) -> Segment | None:
    """Return a new summary that stands behind messages of the user that were kept, while all answers are gone.

    So Codex compacts: a text of its own, or an item that only the API can read; its instructions may have moved, too.
    """
    summaries = [segment for segment in before_answer(right.messages.since(begin)) if is_summary(segment)]
    sealed = [segment for segment in right.messages.since(begin) if is_sealed(segment)]
    sent = {segment.data for segment in left.messages} if summaries or sealed else set[bytes]()
    summary = next((segment for segment in summaries if segment.data not in sent), None)
    if summary is None:
        return next((segment for segment in sealed if segment.data not in sent), None)
    answers = _answers(left, begin)
    return summary if answers and answers.isdisjoint(_answers(right, begin)) else None


def moved_behind(left: Prompt, right: Prompt, common: int) -> Cause | None:
    """Return the compaction that put the same instructions behind the messages it kept; `common` segments are equal."""
    summary = behind_kept(left, right, 0) if _shrank(left, right, 0) else None
    if summary is None or not keeps_system(left, right):
        return None
    return structs.replace(_caused(left, right, 0, summary.path, "is-summary"), position=common)


def _answers(prompt: Prompt, begin: int) -> set[bytes]:
    """Return what the model said or called from a place on."""
    found: set[bytes] = set()
    speaks = False
    for segment in prompt.messages.since(begin):
        if segment.kind == "envelope":
            speaks = is_models(segment)
        elif speaks:
            found.add(segment.data)
    return found


def replaced(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return what a new text shows that stands where answers of the model stood; None where it is a cut."""
    new = next(_new_texts(left, right, begin), None)
    if new is None or new.by_model or not _shrank(left, right, begin) or _goes_on_alike(left, right, begin):
        return None
    gone = _gone(left, right, begin)
    if not any(segment.kind == "envelope" and is_models(segment) for segment in gone):
        return None
    if not _kept(left, right, begin) or is_placeholder(new.segment):
        return None
    path = new.segment.path
    if is_headed(new.segment) or retells(new.segment, gone):
        return _caused(left, right, begin, path, "sums-up")
    return structs.replace(_caused(left, right, begin, path, "unclear"), override="unattributable")


def _caused(
    left: Prompt, right: Prompt, begin: int, path: str, says: Literal["is-summary", "sums-up", "unclear"]
) -> Cause:
    found = SummaryFound(path, says, _count(left), _count(right))
    return Cause(Code.COMPACTION, "messages", found, len(left.head) + begin)


def _new_texts(left: Prompt, right: Prompt, begin: int) -> Iterator[_Text]:
    """Iterate over the texts behind the divergence that nobody sent before, up to the first that was sent."""
    sent = {segment.data for segment in left.messages if segment.kind != "envelope"}
    envelope = _envelope_at(right, begin)
    for segment in islice(right.messages.since(begin), _OPENING):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data in sent:
            return
        elif block_of(segment, envelope.data if envelope else b"").kind in ("text", "other"):
            yield _Text(segment, envelope is not None and is_models(envelope))


def _envelope_at(prompt: Prompt, place: int) -> Segment | None:
    place = min(place, len(prompt.messages) - 1)
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    return prompt.messages[place] if place >= 0 and prompt.messages[place].kind == "envelope" else None


def _gone(left: Prompt, right: Prompt, begin: int) -> list[Segment]:
    """Return what stands in the left alone, envelopes of its messages among it."""
    kept = {segment.data for segment in right.messages.since(begin) if segment.kind != "envelope"}
    found: list[Segment] = []
    envelope: Segment | None = None
    for segment in left.messages.since(begin):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data not in kept:
            found += [segment] if envelope is None else [envelope, segment]
            envelope = None
    return found


def _kept(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether it is surely the same conversation: its beginning stands there yet, or later messages do."""
    if begin:
        return True
    sent = {segment.data for segment in left.messages if segment.kind != "envelope"}
    return any(segment.data in sent for segment in right.messages if segment.kind != "envelope")


def _goes_on_alike(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether the same message stands behind the one that differs: it was edited, and nothing compacted."""
    before, after = (
        [segment for segment in islice(side.messages.since(begin), 2 * _OPENING) if segment.kind != "envelope"]
        for side in (left, right)
    )
    if len(before) > 1 and len(after) > 1:
        return before[1] == after[1]
    return bool(before and after) and nearly_same(before[0], after[0])


def _shrank(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether messages became fewer, what one turn added set aside: an answer, and what was said to it."""
    if _count(right) <= _count(left):
        return True
    sent = {segment.data for segment in left.messages if segment.kind != "envelope"}
    kept = messages = answers = 0
    spoke = False
    for segment in right.messages.since(begin):
        if segment.kind != "envelope":
            kept = messages if segment.data in sent else kept
            continue
        messages += 1
        models = is_models(segment)
        answers += models and not spoke
        spoke = models
    known = sum(segment.kind == "envelope" for segment in islice(left.messages, begin))
    return answers <= 1 + (kept > 0) and known + max(kept, 1) < _count(left)


def _count(prompt: Prompt) -> int:
    return sum(segment.kind == "envelope" for segment in prompt.messages)
