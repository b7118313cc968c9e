"""History that was rewritten: compactions, rewinds, and replaced tails, in every dialect.

A compaction: messages became fewer, answers of the model among the removed ones, and a new text is at the divergence.
That text decides: a summary makes the compaction expected; a placeholder, or no new text, is a cut of history and no
compaction; any other text leaves it unattributable.

A replaced tail ended a request (its last messages, or the last blocks of one), and the next request has something else
in its place: the model's next message, or another end if the request was sent again. Content of the same side of the
conversation precedes it in both. A tool result or an answer of the model is no tail.

Cost: O(the tail and new content) if nothing before the tail changed, otherwise O(messages).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lore.model.canonical import text_of
from lore.model.cause import Cause
from lore.model.codes import Code
from lore.model.deferred import pattern
from lore.model.evidence import EditedByProvider, MessagesTakenBack, SummaryFound, TailReplaced
from lore.model.jsonslice import raw_members
from lore.model.labels import find_labels
from lore.model.limits import USER_SEGMENTS
from lore.model.turn import Prompt, Segment, Turn
from lore.prefix import likeness, purpose
from lore.prefix.blocks import block_of, message_start
from lore.prefix.likeness import has_kept_system, has_same_head, is_model_message, is_nearly_equal, mark_answers
from lore.prefix.overlap import has_same_content
from lore.prefix.volatile import find_topic, find_volatile_word

_OPENING = 8  # segments after the divergence among which a summary would be
_LEAST_COMPACTED = 4  # messages that a text of a sentence may sum up: a window that slides removes an exchange of two
_ROLES = frozenset(("user", "system", "developer", "tool", "function"))  # any other is content of the recording
_PLAIN = pattern(rb'[^"\\]{48,}')  # words in JSON, also in JSON within JSON, that are long enough to be of one answer
_CLOCK = pattern(r"(?<![\d:.])(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])")


def find_sealed_summary(previous: Prompt, current: Prompt, begin: int) -> Cause | None:
    """Return the compaction that a new summary by the provider shows; the messages diverge at `begin`."""
    new = [segment for segment in current.messages.since(begin) if purpose.is_sealed_summary(segment)]
    old = {segment.data for segment in previous.messages if purpose.is_sealed_summary(segment)} if new else set[bytes]()
    item = next((segment for segment in new if segment.data not in old), None)
    if item is None:
        return None
    return Cause(Code.COMPACTION, "messages", EditedByProvider("item", item.path), len(previous.head) + begin)


def find_rewrite(previous: Prompt, current: Prompt, common: int, *, is_conversation: bool) -> Cause | None:
    """Return the compaction or rewind that rewritten messages show; `common` segments are equal.

    `is_conversation`: a request of the chain continued an earlier one. Otherwise the answers in its requests may be
    examples of a program (few-shot prompts, as of DSPy), which has others in its next request.
    """
    begin = previous.messages.common(current.messages)
    if previous.dialect != current.dialect or begin == len(previous.messages):
        return None
    cause = _find_rewritten(previous, current, common, begin)
    if is_conversation or not has_same_head(previous, current):
        return cause
    is_clear = cause is not None and cause.code == Code.COMPACTION and cause.override != "unattributable"
    return cause if is_clear else find_rewind(previous, current, begin, are_examples=True) or cause


def _find_rewritten(previous: Prompt, current: Prompt, common: int, begin: int) -> Cause | None:
    """Return the compaction or rewind of a conversation; the messages differ from place `begin` on."""
    if not has_same_head(previous, current):
        # a compaction may put the same instructions after the messages that it keeps
        summary = _summary_after_kept(previous, current, 0) if _has_shrunk(previous, current, 0) else None
        if summary is None or not has_kept_system(previous, current):
            return None
        return replace(_compaction(previous, current, 0, summary, "is-summary"), position=common)
    if not _has_shrunk(previous, current, begin):
        return find_rewind(previous, current, begin)
    summary = _summary_after_kept(previous, current, begin)
    new_texts = [] if _is_edit(previous, current, begin) else list(_new_texts(previous, current, begin))
    if summary is None:
        summary = next((segment for segment, _ in new_texts if purpose.is_summary(segment)), None)
    removed = _list_removed(previous, current, begin)
    if summary is not None and not purpose.is_template(removed):
        return _compaction(previous, current, begin, summary, "is-summary")
    rewind = find_rewind(previous, current, begin)
    if rewind is not None or not new_texts:
        return rewind
    segment, is_by_model = new_texts[0]
    if is_by_model or not any(map(is_model_message, removed)) or purpose.is_placeholder(segment):
        return None
    is_short = purpose.is_short(segment)
    if is_short and sum(part.kind == "envelope" for part in removed) < _LEAST_COMPACTED:
        return None
    if not begin and _contents(previous).isdisjoint(_contents(current)):  # another conversation, perhaps
        return None
    if purpose.has_summary_heading(segment) or purpose.retells(segment, removed, words=is_short):
        return _compaction(previous, current, begin, segment, "sums-up")
    return replace(_compaction(previous, current, begin, segment, "unclear"), override="unattributable")


def _compaction(
    previous: Prompt, current: Prompt, begin: int, text: Segment, says: Literal["is-summary", "sums-up", "unclear"]
) -> Cause:
    evidence = SummaryFound(text.path, says, _count_messages(previous), _count_messages(current))
    return Cause(Code.COMPACTION, "messages", evidence, len(previous.head) + begin)


def find_rewind(
    previous: Prompt, current: Prompt, begin: int, *, is_edit: bool = False, are_examples: bool = False
) -> Cause | None:  # fmt: skip
    """Return the cause if the current prompt has another message of the user in the place of an earlier one.

    Answers of the model after it were removed; with `is_edit` none were, as it was the last message. What a program
    replaces there has a cause of its own. With `are_examples` each prompt has answers of its own before a question of
    its own; a conversation would keep the next answer or the question, or spell the first message otherwise.
    """
    start = _user_message_at(previous, begin)
    if start is None or start != _user_message_at(current, begin) or not purpose.begins_user_turn(current):
        return None
    removed, new = (
        [segment for segment in prompt.messages.since(start) if segment.kind == "envelope"]
        for prompt in (previous, current)
    )
    if any(map(is_model_message, removed)) == is_edit or (is_edit and removed[1:]):
        return None
    before, after = _contents(previous, start), _contents(current, start)
    if are_examples:
        keeps_answer = _first_answer(previous, start) in after or _first_answer(current, start) in before
        keeps_question = not after.isdisjoint(_contents(previous, last_message(previous)))
        is_respelled = any(map(has_same_content, _blocks_since(previous, begin)[:1], _blocks_since(current, begin)[:1]))
        is_summed_up = any(map(purpose.is_summary, current.messages.since(start)))
        is_other = keeps_answer or keeps_question or is_respelled or is_summed_up
        if is_other or not purpose.begins_user_turn(previous):
            return None
    elif any(map(is_model_message, new)) or not before.isdisjoint(after):
        return None
    if not start and likeness.has_grown_text(previous, current):  # a program adds to the only text
        return None
    return Cause(
        Code.REWIND, "messages", MessagesTakenBack(len(removed), are_examples), len(previous.head) + begin
    )  # fmt: skip


def _first_answer(prompt: Prompt, start: int) -> bytes | None:
    """Return the first block of the first answer of the model that follows a place; None without one."""
    marked = mark_answers(prompt.messages.since(start))
    return next((part.data for part, is_answer in marked if is_answer and part.kind != "envelope"), None)


def has_answer_in_text(previous: Turn, current: Turn) -> bool:
    """Return whether the last message quotes the model's previous answer, as ReAct agents write their history in it."""
    old, new = previous.prompt.messages.last(), current.prompt.messages.last()
    if old is None or new is None or previous.generated is None:
        return False
    answer = (segment.data for segment in previous.generated() if segment.kind != "envelope")
    return any(words in new.data and words not in old.data for data in answer for words in _PLAIN.findall(data))


def _user_message_at(prompt: Prompt, place: int) -> int | None:
    """Return where the message at a place begins, if it is the user's."""
    if place >= len(prompt.messages):
        return None
    start = message_start(prompt, place)
    message = prompt.messages[start]
    return start if message.kind == "envelope" and b'"user"' in message.data else None


def _summary_after_kept(previous: Prompt, current: Prompt, begin: int) -> Segment | None:
    """Return a new summary that follows kept messages of the user, if all answers were removed.

    Codex compacts like this, with a text of its own or an item that only the API can read; its instructions may move.
    """
    new = purpose.segments_before_answer(current.messages.since(begin))
    summaries = [segment for segment in new if purpose.is_summary(segment)]
    sealed = [segment for segment in current.messages.since(begin) if purpose.is_sealed_summary(segment)]
    old = {segment.data for segment in previous.messages} if summaries or sealed else set[bytes]()
    summary = next((segment for segment in summaries if segment.data not in old), None)
    if summary is None:
        return next((segment for segment in sealed if segment.data not in old), None)
    answers, current_answers = (
        {segment.data for segment, is_answer in mark_answers(prompt.messages.since(begin)) if is_answer
         and segment.kind != "envelope"}
        for prompt in (previous, current)
    )  # fmt: skip
    return summary if answers and answers.isdisjoint(current_answers) else None


def _new_texts(previous: Prompt, current: Prompt, begin: int) -> Iterator[tuple[Segment, bool]]:
    """Yield the new texts after the divergence, up to the first old one, and whether the model wrote each."""
    old = _contents(previous)
    first = next(current.messages.since(message_start(current, begin)), None)
    envelope = first if first is not None and first.kind == "envelope" else None
    for segment in islice(current.messages.since(begin), _OPENING):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data in old:
            return
        elif block_of(segment, envelope.data if envelope else b"").kind in ("text", "other"):
            yield segment, envelope is not None and is_model_message(envelope)


def _list_removed(previous: Prompt, current: Prompt, begin: int) -> list[Segment]:
    """Return the content that only the previous prompt has, each with the envelope of its message."""
    current_contents = _contents(current, begin)
    removed: list[Segment] = []
    envelope: Segment | None = None
    for segment in previous.messages.since(begin):
        if segment.kind == "envelope":
            envelope = segment
        elif segment.data not in current_contents:
            removed += [segment] if envelope is None else [envelope, segment]
            envelope = None
    return removed


def _is_edit(previous: Prompt, current: Prompt, begin: int) -> bool:
    """Return whether the same message follows the one that differs: it was edited, and nothing was compacted."""
    before, after = _blocks_since(previous, begin), _blocks_since(current, begin)
    if len(before) > 1 and len(after) > 1:
        return before[1] == after[1]
    if not before or not after:
        return False
    return has_same_content(before[0], after[0]) or is_nearly_equal(before[0], after[0])


def _blocks_since(prompt: Prompt, begin: int) -> list[Segment]:
    """Return the first blocks of the messages from a place on."""
    return [segment for segment in islice(prompt.messages.since(begin), 2 * _OPENING) if segment.kind != "envelope"]


def _has_shrunk(previous: Prompt, current: Prompt, begin: int) -> bool:
    """Return whether messages became fewer, apart from those that one turn adds: an answer and its results."""
    if _count_messages(current) <= _count_messages(previous):
        return True
    old = _contents(previous)
    kept_messages = messages = answers = 0
    is_answer = False
    for segment in current.messages.since(begin):
        if segment.kind != "envelope":
            kept_messages = messages if segment.data in old else kept_messages
            continue
        messages += 1
        was_answer, is_answer = is_answer, is_model_message(segment)
        answers += is_answer and not was_answer
    shared = sum(segment.kind == "envelope" for segment in islice(previous.messages, begin))
    return answers <= 1 + (kept_messages > 0) and shared + max(kept_messages, 1) < _count_messages(previous)


def _contents(prompt: Prompt, begin: int = 0) -> set[bytes]:
    """Return the content of messages from a place on, without envelopes."""
    return {segment.data for segment in prompt.messages.since(begin) if segment.kind != "envelope"}


def _count_messages(prompt: Prompt, place: int = 0) -> int:
    """Return the number of messages that begin at a place or after it."""
    return sum(segment.kind == "envelope" for segment in prompt.messages.since(place))


# replaced tails


class ReplacedTail(Struct, frozen=True):
    """The end of a prompt that the next one does not have."""

    begin: int  # its place among the previous prompt's messages
    segments: tuple[Segment, ...]
    role: str  # of its first message; empty: not text
    repeated: bool  # it ends the current prompt again
    retried: bool  # the current prompt is the same request with another end


def find_replaced_tail(previous: Prompt, current: Prompt) -> ReplacedTail | None:
    """Return the tail of the previous prompt that the current one does not have."""
    if previous.dialect != current.dialect or previous.tail or not previous.messages or not current.messages:
        return None
    start, end = _last_user_messages(previous), _last_user_messages(current)
    last = list(islice(previous.messages.since(start), USER_SEGMENTS + 1))
    if not last or len(last) > USER_SEGMENTS or last[0].kind != "envelope" or is_model_message(last[0]):
        return None
    places = _tail_places(previous, current, start, end)
    if places is None:
        return None
    begin, place = places
    tail = tuple(previous.messages.since(begin))
    if not _may_be_tail(tail):
        return None
    blocks = {segment.data for segment in tail if segment.kind != "envelope"}
    ends = last_message(current, max(1, _count_messages(previous, begin)))
    same = previous.messages.common(current.messages)
    new = islice(current.messages.since(same), max(0, ends - same))
    if not blocks or any(segment.data in blocks for segment in new):
        return None
    is_retried = place > end
    is_repeated = any(segment.data in blocks for segment in current.messages.since(ends))
    if is_repeated and is_retried:  # sent again with the same end: the change precedes it
        return None
    envelope = previous.messages[message_start(previous, begin)]
    role = (raw_members(b"{" + envelope.data + b"}") or {}).get("role", b"")
    return ReplacedTail(begin, tail, text_of(role) if role[:1] == b'"' else "", is_repeated, is_retried)


def _may_be_tail(tail: Sequence[Segment]) -> bool:
    """Return whether a tail has only texts and images; text that follows a result in its message is no result."""
    envelope = b""
    for segment in tail:
        if segment.kind == "envelope":
            envelope = segment.data
            if b"_output" in envelope or b"tool_call_id" in envelope:  # the message is a tool result
                return False
        if block_of(segment, envelope).kind not in ("text", "image", "envelope", "other"):
            return False
    return True


def _tail_places(previous: Prompt, current: Prompt, start: int, end: int) -> tuple[int, int] | None:
    """Return where the tail begins, and where the current prompt continues: after the last segment before it.

    The last messages that are not the model's begin at `start` in the previous prompt, at `end` in the current one.
    """
    messages, common = previous.messages, previous.messages.common(current.messages)
    if common and messages[common - 1].kind == "envelope":  # two messages of one role share only that
        common -= 1
    candidates = [(common, common)]
    if common <= start:  # something before it changed
        places = {segment.data: at for at, segment in enumerate(current.messages) if segment.kind != "envelope"}
        earlier = ((begin, places.get(messages[begin - 1].data)) for begin in range(start + 1, len(messages)))
        candidates = [(begin, at + 1) for begin, at in earlier if at is not None]
    for begin, place in candidates:
        if begin >= len(messages) or messages[begin - 1].kind == "envelope" or place >= len(current.messages):
            continue
        if place > end:  # another end is in its place
            is_replaced = _count_messages(previous, begin) == _count_messages(current, place)
        else:
            is_replaced = is_model_message(current.messages[place])
        if is_replaced:
            return begin, place
    return None


def _last_user_messages(prompt: Prompt) -> int:
    """Return where the messages after the model's last one begin."""
    start = len(prompt.messages)
    for place in range(start - 1, max(-1, start - USER_SEGMENTS - 2), -1):
        if prompt.messages[place].kind in ("envelope", "opaque"):
            if is_model_message(prompt.messages[place]):
                break
            start = place
    return start


def last_message(prompt: Prompt, number: int = 1) -> int:
    """Return where the last `number` messages begin."""
    place = len(prompt.messages)
    while place > 0 and number:
        place -= 1
        number -= prompt.messages[place].kind in ("envelope", "opaque")
    return place


def cut_messages(prompt: Prompt, begin: int, tail: tuple[Segment, ...] = ()) -> Prompt:
    """Return the prompt without its messages from `begin` on and their breakpoints, and with another tail."""
    count = sum(place < len(prompt.head) + begin for place in prompt.breakpoints)
    return replace(
        prompt, messages=prompt.messages.cut(begin), tail=tail,
        breakpoints=prompt.breakpoints[:count], breakpoint_values=prompt.breakpoint_values[:count],
    )  # fmt: skip


def describe_tail(tail: ReplacedTail, per_token: float, billed: int = 0) -> TailReplaced:
    """Return the evidence of a tail: `per_token` bytes are a token; the prompt has `billed` tokens (0: unknown).

    It names what makes the tail differ each turn: its labels, a clock, an id, a token count, a topic.
    """
    size = sum(len(segment.data) for segment in tail.segments)
    tokens = round(size / per_token)
    holds: list[str] = []
    for segment in tail.segments:
        if segment.kind == "envelope":
            continue
        text = block_of(segment, b"").text or ""
        labels, varies = find_labels(text), find_volatile_word(text)
        holds += labels
        if varies is not None:
            holds.append(varies[0])
        elif _CLOCK.search(text) is not None:  # the tail was replaced, so the clock need not be shown to differ
            holds.append("a clock")
        topic = None if labels else find_topic("", text, "")
        holds += [] if topic is None else [topic]
    role = tail.role or "user"
    return TailReplaced(
        tail.segments[0].path, size, min(tokens, billed) if billed else tokens, role if role in _ROLES else "",
        tuple(dict.fromkeys(holds)), tail.repeated, tail.retried,
    )  # fmt: skip
