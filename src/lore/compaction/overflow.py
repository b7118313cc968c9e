"""What an overflow does, by stages: drop, drop more, cut results, give up.

In: entries and the model's window, in tokens. Out: a plan, or None where nothing is to be done. Stages: above 70 % of
the window, but not above 90 %, the last 10 messages stay, if that brings it to 70 %; else the last 4, if that brings
it to 90 %; else results of more than 2,000 characters are cut to 1,920 as well; else it is final: more cannot be
done. Limits and texts: openfang's overflow recovery. Unlike there, what is at most 90 % full is never final,
all that goes is counted whichever stage drops it, and characters are characters. What would free less than 5 % waits
until 90 % are full: where the head alone is long, a message would go with every turn, and the cache with it.

What is dropped, its count and the number in the marker are one list: `Stages.drained`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Raw
from msgspec.structs import replace

from lore.compaction.activity import Entries, bytes_of, in_tokens, is_message, tokens_of
from lore.compaction.base import Cut, Shortened
from lore.compaction.cutting import cut, kept, pruned
from lore.model.canonical import encode, text_of
from lore.model.items import NULL, TextBlock, ToolCall, blocks_of, is_absent
from lore.model.state import Entry

CALM, FULL, LEAST = 70, 90, 5  # percent of the window
FIRST, SECOND = 10, 4  # messages that stay
RESULT_LIMIT, RESULT_KEPT = 2_000, 1_920  # characters

MARKER = (
    "[System: {} earlier messages were removed due to context overflow. The conversation continues from here. "
    "Use /compact for smarter summarization.]"
)
TRUNCATED = "[OVERFLOW RECOVERY: truncated from {} to {} chars]"


class Stages(NamedTuple):
    """A plan. `cut` is None where no message goes; `drained` are the uuids of the messages that do; `marker` stands in
    their place where they are not summed up; `tokens` is the estimate afterwards, with what comes before messages.
    `full`: more than 90 % were used, so that room has to be made even where no summary can be had.
    """

    cut: Cut | None
    drained: tuple[str, ...]
    marker: str
    shortened: tuple[Shortened, ...]
    tokens: int
    final: bool
    full: bool = False


def stages(
    entries: Entries, window: int, *, overhead: int = 0, tokens: int | None = None, reserve: int = 0
) -> Stages | None:
    """Return what an overflow does; None below 70 %, and where it is calm enough and nothing can go.

    `tokens` estimates the entries where that is known, `overhead` what stands before them; `reserve` is kept free
    for a summary that is longer than the marker. A `window` of 0 is unknown: it never overflows.
    """
    before = overhead + (tokens_of(entries) if tokens is None else tokens)
    if _share(before, window) <= CALM:
        return None
    if _share(before, window) <= FULL:
        first = _drop(entries, FIRST, overhead, reserve)
        if first is not None and _share(first.tokens, window) <= CALM:
            return first if _share(before - first.tokens, window) >= LEAST else None
    second = _drop(entries, SECOND, overhead, reserve) or Stages(None, (), "", (), before, final=False)
    second = second._replace(full=_share(before, window) > FULL)
    if _share(second.tokens, window) <= FULL:
        gains = second.full or _share(before - second.tokens, window) >= LEAST
        return second if second.cut is not None and gains else None
    third = _shorten(entries, second, overhead, reserve)
    return third._replace(final=_share(third.tokens, window) > FULL)


def drain_count(entries: Entries, window: int, *, overhead: int = 0, reserve: int = 0) -> int:
    """Count the messages that an overflow drops now."""
    plan = stages(entries, window, overhead=overhead, reserve=reserve)
    return 0 if plan is None else len(plan.drained)


def _share(tokens: int, window: int) -> float:
    return 100 * tokens / window if window > 0 else 0


def _drop(entries: Entries, keep: int, overhead: int, reserve: int) -> Stages | None:
    made = cut(entries, keep)
    if made is None:
        return None
    drained = tuple([entry.item.uuid for entry in pruned(entries, made) if is_message(entry.item)])
    marker = MARKER.format(len(drained))
    after = overhead + _with_summary(kept(entries, made), marker, reserve)
    return Stages(made, drained, marker, (), after, final=False)


def _with_summary(entries: Entries, marker: str, reserve: int) -> int:
    size = sum(map(bytes_of, entries))
    return max(in_tokens(size + len(marker)), in_tokens(size) + reserve)


def _shorten(entries: Entries, plan: Stages, overhead: int, reserve: int) -> Stages:
    """Cut the long results of what stays. Of calls that share an id only the most recent can be named."""
    stay = entries if plan.cut is None else kept(entries, plan.cut)
    cuts = [Shortened(name, text) for name, call in latest(stay).items() if (text := shortened(call)) is not None]
    after = _with_summary(with_results(stay, cuts), plan.marker, 0 if plan.cut is None else reserve)
    return plan._replace(shortened=tuple(cuts), tokens=overhead + after)


def latest(entries: Entries) -> dict[str, ToolCall]:
    """Return the most recent call of each id."""
    return {entry.item.call_id: entry.item for entry in entries if isinstance(entry.item, ToolCall)}


def with_results(entries: Entries, cuts: Iterable[Shortened]) -> list[Entry]:
    """Return entries as they are once these results are cut."""
    calls = latest(entries)
    texts = {calls[name].uuid: text for name, text in cuts if name in calls}
    return [_with_result(entry, texts.get(entry.item.uuid)) for entry in entries]


def _with_result(entry: Entry, text: str | None) -> Entry:
    if text is None or not isinstance(entry.item, ToolCall):
        return entry
    result = Raw(encode(text))
    error = NULL if is_absent(entry.item.error) else result
    return replace(entry, item=replace(entry.item, output=result, error=error))


def shortened(call: ToolCall) -> str | None:
    """Return a call's result as it is cut; None where it is short, still to come, or more than text."""
    if call.status == "running":
        return None
    text = _text(call)
    if text is None or len(text) <= RESULT_LIMIT:
        return None
    return text[:RESULT_KEPT] + "\n" + TRUNCATED.format(len(text), RESULT_KEPT)


def _text(call: ToolCall) -> str | None:
    raw = bytes(call.output if is_absent(call.error) else call.error)
    if raw[:1] == b'"':
        return text_of(raw)
    if raw[:1] != b"[":
        return None
    try:
        blocks = blocks_of(raw)
    except (ValueError, RecursionError):
        return None
    texts = [text_of(bytes(block.text)) for block in blocks if isinstance(block, TextBlock)]
    return "\n".join(texts) if len(texts) == len(blocks) else None
