"""History that was rewritten: compactions, rewinds, and replaced tails.

In: two prompts of which one was sent after the other; for tails, those that lore did not assemble. Out: the cause, or
where the left's tail begins; None where neither is so. It holds for every dialect and role.

A compaction: messages became fewer, answers of the model among those that are gone, and a text that nobody sent before
stands where they part. What that text says of itself decides: a summary makes it expected; a placeholder, or no new
text at all, is a cut of history and no compaction; where the text says neither, it is unattributable.

A replaced tail ended a request, is not in the next one, and gave way to what the conversation went on with: the last
messages or the last blocks of one (also behind a tool's result); something of the same side of the conversation stands
before it and stays; in its place the right has the model's next message, or another end where the request was sent
again; nothing of the tail stands in the right behind what both share, but at the right's own end. A result or an answer
of the model is no tail. Cost: O(the tail and what is new) where nothing before the tail changed, else O(messages).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import text_of
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.evidence import EditedByProvider, MessagesTakenBack, SummaryFound, TailReplaced
from lore.model.jsonslice import raw_members
from lore.model.labels import find_labels
from lore.model.limits import USER_SEGMENTS
from lore.model.turn import Prompt, Segment
from lore.prefix import purpose
from lore.prefix.blocks import block_of
from lore.prefix.likeness import has_kept_system, has_same_head, is_model_message, is_nearly_equal
from lore.prefix.volatile import find_topic, find_volatile_word

_OPENING = 8  # segments behind the divergence in which a summary would stand
_ROLES = frozenset(("user", "system", "developer", "tool", "function"))  # another one is a text of the recording
_CLOCK = re.compile(r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])")


def sealed(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return the compaction that a new summary of the provider's own shows; `begin` is where the messages part."""
    new = [segment for segment in right.messages.since(begin) if purpose.is_sealed_summary(segment)]
    sent = {segment.data for segment in left.messages if purpose.is_sealed_summary(segment)} if new else set[bytes]()
    item = next((segment for segment in new if segment.data not in sent), None)
    if item is None:
        return None
    return Cause(Code.COMPACTION, "messages", EditedByProvider("item", item.path), len(left.head) + begin)


def rewritten(left: Prompt, right: Prompt, common: int) -> Cause | None:
    """Return the cause that rewritten messages show: a compaction, a rewind; `common` segments are equal."""
    if left.dialect != right.dialect:
        return None
    begin = left.messages.common(right.messages)
    if begin == len(left.messages):
        return None
    if not has_same_head(left, right):  # a compaction may put the same instructions behind the messages that it keeps
        summary = _behind_kept(left, right, 0) if _shrank(left, right, 0) else None
        if summary is None or not has_kept_system(left, right):
            return None
        return replace(_caused(left, right, 0, summary.path, "is-summary"), position=common)
    return _summed_up(left, right, begin) or _rewound(left, right, begin) or _replaced(left, right, begin)


def _rewound(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Tell whether the right goes back to an earlier message of the user and says something else from there."""
    start = _turn_at(left, begin)
    if start is None or start != _turn_at(right, begin) or not purpose.begins_user_turn(right):
        return None
    rest = [segment for segment in right.messages.since(start) if segment.kind == "envelope"]
    gone = [segment for segment in left.messages.since(start) if segment.kind == "envelope"]
    if any(map(is_model_message, rest)) or not any(map(is_model_message, gone)):
        return None
    if not _sent(left, start).isdisjoint(_sent(right, start)):
        return None
    return Cause(Code.REWIND, "messages", MessagesTakenBack(len(gone)), len(left.head) + begin)


def _turn_at(prompt: Prompt, place: int) -> int | None:
    """Return where the message of the user begins that a place is in; None for another message."""
    if place >= len(prompt.messages):
        return None
    start = _message_at(prompt, place)
    message = prompt.messages[start]
    return start if message.kind == "envelope" and b'"user"' in message.data else None


class _Text(Struct, frozen=True):
    """A text that stands where messages part, and whether the model's own message holds it."""

    segment: Segment
    by_model: bool


def _summed_up(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return the compaction that a summary shows which says what it is; `begin` is where the messages part."""
    if not _shrank(left, right, begin):
        return None
    summary = _behind_kept(left, right, begin)
    if summary is None and not _goes_on_alike(left, right, begin):
        summary = next(
            (text.segment for text in _new_texts(left, right, begin) if purpose.is_summary(text.segment)), None
        )
    return None if summary is None else _caused(left, right, begin, summary.path, "is-summary")


def _behind_kept(left: Prompt, right: Prompt, begin: int) -> Segment | None:
    """Return a new summary that stands behind messages of the user that were kept, while all answers are gone.

    So Codex compacts: a text of its own, or an item that only the API can read; its instructions may have moved, too.
    """
    summaries = [
        segment
        for segment in purpose.segments_before_answer(right.messages.since(begin))
        if purpose.is_summary(segment)
    ]
    sealed = [segment for segment in right.messages.since(begin) if purpose.is_sealed_summary(segment)]
    sent = {segment.data for segment in left.messages} if summaries or sealed else set[bytes]()
    summary = next((segment for segment in summaries if segment.data not in sent), None)
    if summary is None:
        return next((segment for segment in sealed if segment.data not in sent), None)
    answers = _answers(left, begin)
    return summary if answers and answers.isdisjoint(_answers(right, begin)) else None


def _answers(prompt: Prompt, begin: int) -> set[bytes]:
    """Return what the model said or called from a place on."""
    found: set[bytes] = set()
    speaks = False
    for segment in prompt.messages.since(begin):
        if segment.kind == "envelope":
            speaks = is_model_message(segment)
        elif speaks:
            found.add(segment.data)
    return found


def _replaced(left: Prompt, right: Prompt, begin: int) -> Cause | None:
    """Return what a new text shows that stands where answers of the model stood; None where it is a cut."""
    new = next(_new_texts(left, right, begin), None)
    if new is None or new.by_model or not _shrank(left, right, begin) or _goes_on_alike(left, right, begin):
        return None
    gone = _gone(left, right, begin)
    if not any(segment.kind == "envelope" and is_model_message(segment) for segment in gone):
        return None
    if not begin and _sent(left).isdisjoint(_sent(right)):  # another conversation, perhaps
        return None
    if purpose.is_placeholder(new.segment):
        return None
    path = new.segment.path
    if purpose.has_summary_heading(new.segment) or purpose.retells(new.segment, gone):
        return _caused(left, right, begin, path, "sums-up")
    return replace(_caused(left, right, begin, path, "unclear"), override="unattributable")


def _caused(
    left: Prompt, right: Prompt, begin: int, path: str, says: Literal["is-summary", "sums-up", "unclear"]
) -> Cause:
    found = SummaryFound(path, says, _messages(left), _messages(right))
    return Cause(Code.COMPACTION, "messages", found, len(left.head) + begin)


def _new_texts(left: Prompt, right: Prompt, begin: int) -> Iterator[_Text]:
    """Iterate over the texts behind the divergence that nobody sent before, up to the first that was sent."""
    sent = _sent(left)
    at = _message_at(right, begin)
    envelope = right.messages[at] if at >= 0 and right.messages[at].kind == "envelope" else None
    for segment in islice(right.messages.since(begin), _OPENING):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data in sent:
            return
        elif block_of(segment, envelope.data if envelope else b"").kind in ("text", "other"):
            yield _Text(segment, envelope is not None and is_model_message(envelope))


def _message_at(prompt: Prompt, place: int) -> int:
    """Return the place of the envelope of the message that a place is in; 0 where there is none before it."""
    place = min(place, len(prompt.messages) - 1)
    while place > 0 and prompt.messages[place].kind != "envelope":
        place -= 1
    return place


def _gone(left: Prompt, right: Prompt, begin: int) -> list[Segment]:
    """Return what stands in the left alone, envelopes of its messages among it."""
    kept = _sent(right, begin)
    found: list[Segment] = []
    envelope: Segment | None = None
    for segment in left.messages.since(begin):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data not in kept:
            found += [segment] if envelope is None else [envelope, segment]
            envelope = None
    return found


def _goes_on_alike(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether the same message stands behind the one that differs: it was edited, and nothing compacted."""
    before, after = (
        [segment for segment in islice(side.messages.since(begin), 2 * _OPENING) if segment.kind != "envelope"]
        for side in (left, right)
    )
    if len(before) > 1 and len(after) > 1:
        return before[1] == after[1]
    return bool(before and after) and is_nearly_equal(before[0], after[0])


def _shrank(left: Prompt, right: Prompt, begin: int) -> bool:
    """Tell whether messages became fewer, what one turn added set aside: an answer, and what was said to it."""
    if _messages(right) <= _messages(left):
        return True
    sent = _sent(left)
    kept = messages = answers = 0
    spoke = False
    for segment in right.messages.since(begin):
        if segment.kind != "envelope":
            kept = messages if segment.data in sent else kept
            continue
        messages += 1
        models = is_model_message(segment)
        answers += models and not spoke
        spoke = models
    known = sum(segment.kind == "envelope" for segment in islice(left.messages, begin))
    return answers <= 1 + (kept > 0) and known + max(kept, 1) < _messages(left)


def _sent(prompt: Prompt, begin: int = 0) -> set[bytes]:
    """Return what stands in messages from a place on, without their envelopes."""
    return {segment.data for segment in prompt.messages.since(begin) if segment.kind != "envelope"}


# replaced tails


class ReplacedTail(Struct, frozen=True):
    """Where the tail begins among the left's messages, its segments and role.

    `repeated`: it ends the right again; `retried`: the right is the same request with another end.
    """

    begin: int
    segments: tuple[Segment, ...]
    role: str
    repeated: bool
    retried: bool


def replaced_tail(left: Prompt, right: Prompt) -> ReplacedTail | None:
    """Return the tail of the left that the right does not hold any more."""
    if left.dialect != right.dialect or left.tail or not left.messages or not right.messages:
        return None
    start, end = _users_run(left), _users_run(right)
    segments = list(islice(left.messages.since(start), USER_SEGMENTS + 1))
    if not segments or len(segments) > USER_SEGMENTS or segments[0].kind != "envelope" or is_model_message(segments[0]):
        return None
    found = _begin(left, right, start, end)
    if found is None:
        return None
    begin, place = found
    tail = tuple(left.messages.since(begin))
    envelope, around = (
        left.messages[_message_at(left, begin)],
        b"",
    )  # behind a result in its own message, text is no result
    for segment in tail:
        around = segment.data if segment.kind == "envelope" else around
        if segment.kind == "envelope" and (b"_output" in around or b"tool_call_id" in around):  # a result is a message
            return None
        if block_of(segment, around).kind not in ("text", "image", "envelope", "other"):
            return None
    blocks = {segment.data for segment in tail if segment.kind != "envelope"}
    ends = last_message(right, max(1, _messages(left, begin)))
    same = left.messages.common(right.messages)
    new = islice(right.messages.since(same), max(0, ends - same))
    if not blocks or any(segment.data in blocks for segment in new):
        return None
    repeated = any(segment.data in blocks for segment in right.messages.since(ends))
    if repeated and place > end:  # sent again with the same end: what changed stands before it
        return None
    role = (raw_members(b"{" + envelope.data + b"}") or {}).get("role", b"")
    return ReplacedTail(begin, tail, text_of(role) if role[:1] == b'"' else "", repeated, place > end)


def _begin(left: Prompt, right: Prompt, start: int, end: int) -> tuple[int, int] | None:
    """Return where the tail begins, and where the right goes on: both behind the last segment of it that stays.

    `start` and `end` are where the left's and the right's last messages that are not the model's begin.
    """
    common = left.messages.common(right.messages)
    if common and left.messages[common - 1].kind == "envelope":  # two messages of one role share no more than that
        common -= 1
    if common > start:  # nothing before it changed
        return (common, common) if _gives_way(left, right, common, common, end) else None
    places = {segment.data: at for at, segment in enumerate(right.messages) if segment.kind != "envelope"}
    for begin in range(start + 1, len(left.messages)):
        at = places.get(left.messages[begin - 1].data)
        if at is not None and _gives_way(left, right, begin, at + 1, end):
            return begin, at + 1
    return None


def _gives_way(left: Prompt, right: Prompt, begin: int, place: int, end: int) -> bool:
    """Tell whether in the right the model speaks (at `place`), or another end stands, where the left's tail stood."""
    if begin >= len(left.messages) or left.messages[begin - 1].kind == "envelope" or place >= len(right.messages):
        return False
    follows = right.messages[place]
    if place > end:
        return _messages(left, begin) == _messages(right, place)
    return follows.kind == "envelope" and is_model_message(follows)


def _messages(prompt: Prompt, place: int = 0) -> int:
    """Count the messages that begin at a place or behind it."""
    return sum(segment.kind == "envelope" for segment in prompt.messages.since(place))


def _users_run(prompt: Prompt) -> int:
    """Return where the messages behind the model's last one begin."""
    start = len(prompt.messages)
    for place in range(start - 1, max(-1, start - USER_SEGMENTS - 2), -1):
        if prompt.messages[place].kind in ("envelope", "opaque"):
            if is_model_message(prompt.messages[place]):
                break
            start = place
    return start


def last_message(prompt: Prompt, number: int = 1) -> int:
    """Return where the last messages begin, so many, among the messages."""
    place = len(prompt.messages)
    while place > 0 and number:
        place -= 1
        number -= prompt.messages[place].kind in ("envelope", "opaque")
    return place


def without_tail(left: Prompt, tail: ReplacedTail) -> Prompt:
    """Return the left with its tail apart, as lore's own prompts hold it."""
    stable = len(left.head) + tail.begin
    kept = sum(place < stable for place in left.breakpoints)
    return replace(
        left, messages=left.messages.cut(tail.begin), tail=tail.segments, breakpoints=left.breakpoints[:kept],
        breakpoint_values=left.breakpoint_values[:kept],
    )  # fmt: skip


def evidence_of(tail: ReplacedTail, per_token: float, billed: int = 0) -> TailReplaced:
    """Describe a tail; `per_token` is the bytes of a token, `billed` the tokens of the whole prompt, 0: not known."""
    size = sum(len(segment.data) for segment in tail.segments)
    tokens = round(size / per_token)
    role = tail.role or "user"
    return TailReplaced(
        tail.segments[0].path, size, min(tokens, billed) if billed else tokens, role if role in _ROLES else "",
        tuple(dict.fromkeys(_volatile(tail.segments))), tail.repeated, tail.retried,
    )  # fmt: skip


def _volatile(segments: Sequence[Segment]) -> list[str]:
    """Name what makes a tail another one each turn: what its labels say, a clock, an id, a token count, a topic."""
    found: list[str] = []
    for segment in segments:
        if segment.kind == "envelope":
            continue
        text = block_of(segment, b"").text or ""
        varies = find_volatile_word(text)
        clock = varies is None and _CLOCK.search(text) is not None  # it need not vary surely: it was replaced
        labels = find_labels(text)
        about = None if labels else find_topic("", text, "")
        found += [
            *[label.holds for label in labels],
            *([varies.what] if varies is not None else ["a clock"] if clock else ()),
            *([about] if about is not None else ()),
        ]
    return found
