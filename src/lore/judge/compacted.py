"""Compaction, as two successive prompts show it: a summary stands where messages stood before.

In: two prompts with the same tools and system prompt, and where their messages part. Out: the cause, or None.
Rules: messages became fewer, answers of the model among those that are gone, and a text that nobody sent before
stands where they part. What that text says of itself decides: a summary makes it expected; a placeholder, or no
new text at all, is a cut of history and no compaction; where the text says neither, it is unattributable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from msgspec import structs

from lore.model.codes import Code
from lore.model.evidence import SummaryFound
from lore.model.prompt import Prompt, Segment
from lore.prefix.blocks import block_of
from lore.prefix.causes import Cause
from lore.prefix.likeness import is_models, keeps_system, nearly_same
from lore.prefix.summaries import before_answer, is_headed, is_placeholder, is_sealed, is_summary, retells

_OPENING = 8  # segments behind the divergence in which a summary would stand


class _Text(NamedTuple):
    """A text that stands where messages part, and whether the model's own message holds it."""

    segment: Segment
    by_model: bool


def summed_up(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return the compaction that a summary shows which says what it is; `begin` is where the messages part."""
    if not _shrank(left, right, begin):
        return None
    told = behind_kept(left, right, begin)
    if told is None and not _goes_on_alike(left, right, begin):
        told = next((one.segment for one in _new_texts(left, right, begin) if is_summary(one.segment)), None)
    return None if told is None else _caused(left, right, begin, told.path, "is-summary")


def behind_kept(left: Prompt, right: Prompt, begin: int) -> Segment | None:
    """Return a new summary that stands behind messages of the user that were kept, while all answers are gone.

    So Codex compacts: a text of its own, or an item that only the API can read; its instructions may have moved, too.
    """
    said = [one for one in before_answer(right.messages.since(begin)) if is_summary(one)]
    sealed = [one for one in right.messages.since(begin) if is_sealed(one)]
    sent = {one.data for one in left.messages} if said or sealed else set[bytes]()
    told = next((one for one in said if one.data not in sent), None)
    if told is None:
        return next((one for one in sealed if one.data not in sent), None)
    answers = _answers(left, begin)
    return told if answers and answers.isdisjoint(_answers(right, begin)) else None


def moved_behind(left: Prompt, right: Prompt, common: int) -> Cause | None:
    """Return the compaction that put the same instructions behind the messages it kept; `common` segments are equal."""
    told = behind_kept(left, right, 0) if _shrank(left, right, 0) else None
    if told is None or not keeps_system(left, right):
        return None
    return structs.replace(_caused(left, right, 0, told.path, "is-summary"), position=common)


def _answers(prompt: Prompt, begin: int) -> set[bytes]:
    """Return what the model said or called from a place on."""
    found: set[bytes] = set()
    speaks = False
    for one in prompt.messages.since(begin):
        if one.kind == "envelope":
            speaks = is_models(one)
        elif speaks:
            found.add(one.data)
    return found


def replaced(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return what a new text shows that stands where answers of the model stood; None where it is a cut."""
    said = next(_new_texts(left, right, begin), None)
    if said is None or said.by_model or not _shrank(left, right, begin) or _goes_on_alike(left, right, begin):
        return None
    gone = _gone(left, right, begin)
    if not any(one.kind == "envelope" and is_models(one) for one in gone):
        return None
    if not _kept(left, right, begin) or is_placeholder(said.segment):
        return None
    path = said.segment.path
    if is_headed(said.segment) or retells(said.segment, gone):
        return _caused(left, right, begin, path, "sums-up")
    return structs.replace(_caused(left, right, begin, path, "unclear"), here="unattributable")


def _caused(
    left: Prompt, right: Prompt, begin: int, path: str, says: Literal["is-summary", "sums-up", "unclear"]
) -> Cause:
    found = SummaryFound(path, says, _count(left), _count(right))
    return Cause(Code.COMPACTION, "messages", found, len(left.head) + begin)


def _new_texts(left: Prompt, right: Prompt, begin: int) -> Iterator[_Text]:
    """Iterate over the texts behind the divergence that nobody sent before, up to the first that was sent."""
    sent = {one.data for one in left.messages if one.kind != "envelope"}
    envelope = _envelope_at(right, begin)
    for one in islice(right.messages.since(begin), _OPENING):
        if one.kind == "envelope":
            envelope = one
        elif one.data in sent:
            return
        elif block_of(one, envelope.data if envelope else b"").kind in ("text", "other"):
            yield _Text(one, envelope is not None and is_models(envelope))


def _envelope_at(prompt: Prompt, place: int) -> Segment | None:
    place = min(place, len(prompt.messages) - 1)
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    return prompt.messages[place] if place >= 0 and prompt.messages[place].kind == "envelope" else None


def _gone(left: Prompt, right: Prompt, begin: int) -> list[Segment]:
    """Return what stands in the left alone, envelopes of its messages among it."""
    kept = {one.data for one in right.messages.since(begin) if one.kind != "envelope"}
    found: list[Segment] = []
    envelope: Segment | None = None
    for one in left.messages.since(begin):
        if one.kind == "envelope":
            envelope = one
        elif one.data not in kept:
            found += [one] if envelope is None else [envelope, one]
            envelope = None
    return found


def _kept(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether it is surely the same conversation: its beginning stands there yet, or later messages do."""
    if begin:
        return True
    sent = {one.data for one in left.messages if one.kind != "envelope"}
    return any(one.data in sent for one in right.messages if one.kind != "envelope")


def _goes_on_alike(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether the same message stands behind the one that differs: it was edited, and nothing compacted."""
    mine, theirs = (
        [one for one in islice(side.messages.since(begin), 2 * _OPENING) if one.kind != "envelope"]
        for side in (left, right)
    )
    if len(mine) > 1 and len(theirs) > 1:
        return mine[1] == theirs[1]
    return bool(mine and theirs) and nearly_same(mine[0], theirs[0])


def _shrank(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether messages became fewer, what one turn added set aside: an answer, and what was said to it."""
    if _count(right) <= _count(left):
        return True
    sent = {one.data for one in left.messages if one.kind != "envelope"}
    kept = messages = answers = 0
    spoke = False
    for one in right.messages.since(begin):
        if one.kind != "envelope":
            kept = messages if one.data in sent else kept
            continue
        messages += 1
        models = is_models(one)
        answers += models and not spoke
        spoke = models
    known = sum(one.kind == "envelope" for one in islice(left.messages, begin))
    return answers <= 1 + (kept > 0) and known + max(kept, 1) < _count(left)


def _count(prompt: Prompt) -> int:
    return sum(one.kind == "envelope" for one in prompt.messages)
