"""Explain what changed between one section of two prompts: which messages and blocks correspond, and why each differs.

Messages with equal bytes correspond, then those with equal content, then those that hold the same calls, then those at
the same place. What a block is decides which reasons fit: a result is rewritten, thinking is dropped, an image is
encoded again; a text is explained piece by piece (`texts.py`). A block that is gone at one place and present at another
has moved. What nothing explains is `LORE100`.

Positions are those of segments in the previous prompt. Cost: O(n log n) of the messages; content is decoded only where
it differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lore.model import differences as d
from lore.model.canonical import canonical
from lore.model.cause import Cause
from lore.model.codes import CauseKind, Code
from lore.model.deferred import pattern
from lore.model.jsonslice import raw_members
from lore.model.limits import DIFFERING_TEXT_BYTES, EXPLAINED_DIFFERENCES
from lore.model.turn import NO_RESULT, Segment
from lore.prefix import blocks, texts
from lore.prefix.overlap import canonical_of, excerpt, excerpt_pair, excerpt_pieces, has_same_content
from lore.prefix.volatile import find_topic, find_volatile_addition, find_volatile_word, find_wrapper, is_reminder

T = TypeVar("T")

_COMPARED_WORDS = 2048  # bytes at a text's beginning whose words are compared
_WORD = pattern(rb'[^\s"\\,:{}\[\]]+')  # also of compact JSON, which has no white space
_PAIRS_OF_CALL = 2  # that hold its id: the call and its result
_SEARCHED_MESSAGES = 8  # in which the counterpart of a message is looked for
_STARTS = ("envelope", "opaque")  # kinds of a message's first segment
# Codes of text that programs insert; a model that writes about git or memory is not one.
_INSERTED = frozenset(code for code, _ in texts.TOPICS.values())
_ITEM_IDS = frozenset(("id", "status"))  # members that name an item of the Responses API
_CALL_IDS = frozenset(("id", "tool_use_id", "tool_call_id", "call_id"))
_RESULT_CODES = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.TOKEN_REMINDER_IN_PREFIX)
_THOUGHT = frozenset(("reasoning_content", "reasoning", "reasoning_details", "encrypted_content", "summary", "thinking",
                      "thinking_blocks"))  # fmt: skip
_SIGNATURES = frozenset(("thoughtSignature", "thought_signature", "signature"))
_IMAGE_SETTINGS = frozenset(
    ("citations", "title", "context", "detail", "filename")
)  # of an image, apart from its bytes
# Members that the APIs define; the name of any other one is content.
_API_MEMBERS = _THOUGHT | _IMAGE_SETTINGS | _SIGNATURES | _ITEM_IDS | _CALL_IDS | frozenset((
    "type", "role", "name", "content", "parts", "tool_calls", "function_call", "arguments", "input", "output", "action",
    "refusal", "annotations", "audio", "phase", "execution", "tools", "image_url",
))  # fmt: skip


class PromptContext(Struct, frozen=True):
    """Facts about two prompts as a whole."""

    new_blocks: Counter[bytes]  # blocks that only the current prompt has, with their number
    cleared: str | None  # what the session recorded of tool results that it cleared
    relocated: frozenset[bytes]  # blocks that went from the messages into the system prompt, or back
    has_template: bool  # a chat template may print members that hold nothing


def explain_section(
    context: PromptContext, section: str, previous: Sequence[Segment], current: Sequence[Segment], start: int
) -> list[Cause]:
    """Return the causes of the differences of a section, by place; `start` is the position of its first segment.

    Messages that follow the last one of the previous prompt are no difference.
    """
    can_grow, size = section == "messages", len(previous)
    if previous == current[:size] and (size == len(current) or (can_grow and current[size].kind in _STARTS)):
        return []
    messages, new_messages = _split_messages(previous, start), _split_messages(current, start)
    mismatches: list[_Mismatch] = []
    for old, new in _pair_messages(messages, new_messages, can_grow=can_grow):
        if old is not None and new is not None:
            is_last, is_followed = can_grow and old is messages[-1], new.position != new_messages[-1].position
            mismatches += _compare_messages(old, new, is_last=is_last, is_followed=is_followed)
        elif new is not None:
            inserted = [segment for segment in new.segments if segment.kind != "envelope"] or new.segments
            mismatches += [_Mismatch(None, segment, new.position, new.envelope) for segment in inserted]
        elif old is not None:
            mismatches += [
                _Mismatch(segment, None, position, old.envelope)
                for position, segment in enumerate(old.segments, old.position)
                if segment.kind != "envelope" or len(old.segments) == 1
            ]
    mismatches.sort(key=lambda mismatch: mismatch.position)
    only_previous = Counter([segment.data for segment in previous]) - Counter([segment.data for segment in current])
    return _SectionExplainer(section, mismatches, context, only_previous).causes()


def _join_placeholders(causes: list[Cause]) -> list[Cause]:
    """Return the causes with those of a placeholder's text, in a message that lost an image, as part of the image's."""
    gone = {message_path(cause.path): cause for cause in reversed(causes)
            if isinstance(cause.evidence, d.ImageChanged) and cause.evidence.change == "gone"}  # fmt: skip
    joined: list[Cause] = []
    for cause in causes:
        image = gone.get(message_path(cause.path))
        if image is None or (cause is not image and cause.code != Code.PREFIX_MOVED):
            joined.append(cause)
        elif all(other.evidence is not image.evidence for other in joined):
            joined.append(replace(image, position=min(cause.position, image.position)))
    return joined


def message_path(path: str) -> str:
    """Return the path of the message that holds a block."""
    return path.partition("]")[0] + "]"


# Which segments correspond


class _Message(Struct, frozen=True):
    """A message, or a part of one."""

    segments: tuple[Segment, ...]  # the first one may be its envelope
    position: int  # of the first segment

    @property
    def envelope(self) -> bytes:
        first = self.segments[0]
        return first.data if first.kind == "envelope" else b""

    @property
    def bytes(self) -> tuple[bytes, ...]:
        return tuple([segment.data for segment in self.segments])

    @property
    def call_ids(self) -> tuple[bytes, ...]:
        """The ids of its calls and results."""
        ids = (blocks.call_id_of(segment, self.envelope) for segment in self.segments)
        return tuple([call_id for call_id in ids if call_id is not None])


class _Mismatch(Struct, frozen=True):
    """Two corresponding segments that differ, or a segment without a counterpart."""

    previous: Segment | None  # None: the segment was inserted
    current: Segment | None  # None: the segment was removed
    position: int  # in the previous prompt; an inserted segment has that of the next one
    envelope: bytes  # of the message that holds it
    in_kept_message: bool = False  # the message around it is on both sides
    is_followed: bool = False  # the current prompt continues after this message

    @property
    def segment(self) -> Segment:
        """The previous segment; the current one if there is no previous one."""
        segment = self.previous or self.current
        assert segment is not None
        return segment


_MessagePair: TypeAlias = tuple[_Message | None, _Message | None]


def _split_messages(segments: Iterable[Segment], start: int) -> list[_Message]:
    split: list[tuple[int, list[Segment]]] = []
    for position, segment in enumerate(segments, start):
        if segment.kind in _STARTS or not split:
            split.append((position, []))
        split[-1][1].append(segment)
    return [_Message(tuple(message), position) for position, message in split]


def _pair_messages(previous: Sequence[_Message], current: Sequence[_Message], *, can_grow: bool) -> list[_MessagePair]:
    """Pair the messages that differ. An inserted one gets the position before which it was inserted."""
    pairs: list[_MessagePair] = []
    old_bytes, new_bytes = ([message.bytes for message in side] for side in (previous, current))
    for gap in texts.find_gaps(old_bytes, new_bytes, can_grow=can_grow):
        old, new = previous[gap.previous], current[gap.current]
        may_grow = can_grow and gap.reaches_end
        if may_grow and len(old) == 1 and new and _may_correspond(old[0], new[0], {}):
            pairs.append((old[0], new[0]))  # the last message changed, and the others followed it
            continue
        i = j = 0
        in_gap: list[_MessagePair] = []
        contents, new_contents = ([tuple(map(canonical_of, m.segments)) for m in side] for side in (old, new))
        parts = texts.find_gaps(contents, new_contents, can_grow=may_grow)
        for part in [*parts, texts.Gap(slice(len(old), len(old)), slice(len(new), len(new)), reaches_end=True)]:
            in_gap += zip(old[i : part.previous.start], new[j : part.current.start], strict=False)  # equal content
            i, j = part.previous.stop, part.current.stop
            in_gap += _pair_different(
                old[part.previous.start : i], new[part.current.start : j], can_grow=may_grow and part.reaches_end
            )
        last = previous[gap.previous.stop - 1] if gap.previous.stop else None
        position = last.position + len(last.segments) if last else previous[0].position if previous else 0
        for before, after in reversed(in_gap):
            position = position if before is None else before.position
            pairs.append((before, after) if before or not after else (None, _Message(after.segments, position)))
    return pairs


def _pair_different(previous: Sequence[_Message], current: Sequence[_Message], *, can_grow: bool) -> list[_MessagePair]:
    """Pair messages without equal content: by their calls, else by place, role and words."""
    call_ids, new_ids = [message.call_ids for message in previous], [message.call_ids for message in current]
    size = len(previous)
    if can_grow and size <= len(current) and any(call_ids) and call_ids == new_ids[:size]:
        return list(zip(previous, current, strict=False))
    words: dict[bytes, frozenset[bytes]] = {}
    places = {ids: n for n, ids in reversed(list(enumerate(new_ids))) if ids}

    def find_counterpart(old: _Message, start: int) -> int:
        ids = old.call_ids
        if ids and places.get(ids, -1) >= start:
            return places[ids]
        nearby = range(start, min(start + _SEARCHED_MESSAGES, len(current)))
        similar = (n for n in nearby if bool(ids) == bool(new_ids[n]))
        return next((n for n in similar if _may_correspond(old, current[n], words)), -1)

    return _pair_in_order(previous, current, find_counterpart, can_grow=can_grow)


def _pair_in_order(
    previous: Sequence[T], current: Sequence[T], find_counterpart: Callable[[T, int], int], *, can_grow: bool
) -> list[tuple[T | None, T | None]]:
    """Pair members by place if their numbers are equal, else with the place from `start` on that is found (-1: none).

    If the sequence can grow, members that only the current one has at its end are left out.
    """
    if len(previous) == len(current):
        return list(zip(previous, current, strict=True))
    pairs: list[tuple[T | None, T | None]] = []
    next_place = 0
    for old in previous:
        place = find_counterpart(old, next_place)
        if place < 0:
            pairs.append((old, None))
        else:
            pairs += [(None, new) for new in current[next_place:place]]
            pairs.append((old, current[place]))
            next_place = place + 1
    return pairs if can_grow else [*pairs, *((None, new) for new in current[next_place:])]


def _may_correspond(old: _Message, new: _Message, words: dict[bytes, frozenset[bytes]]) -> bool:
    """Return whether one message may have become the other: same role, and an equal block or mostly equal words."""
    before, after = ([segment.data for segment in side.segments if segment.kind != "envelope"] for side in (old, new))
    if not before or not after or blocks.is_by_model(old.envelope) != blocks.is_by_model(new.envelope):
        return old.envelope == new.envelope
    if any(part in after for part in before):
        return True
    return _share_words(before[0], after[0], words) or _share_words(before[-1], after[-1], words)


def _share_words(previous: bytes, current: bytes, words: dict[bytes, frozenset[bytes]]) -> bool:
    """Return whether two texts share half of their words; `words` remembers those of earlier texts."""
    for text in (previous, current):
        if text not in words:
            words[text] = frozenset(_WORD.findall(text[:_COMPARED_WORDS]))
    before, after = words[previous], words[current]
    return 2 * len(before & after) >= max(1, min(len(before), len(after)))


def _compare_messages(old: _Message, new: _Message, *, is_last: bool, is_followed: bool) -> list[_Mismatch]:
    """Return how one message became another; blocks that the last one gained at its end are no difference."""
    mismatches: list[_Mismatch] = []
    envelope = new.envelope or old.envelope
    for gap in texts.find_gaps(old.bytes, new.bytes, can_grow=is_last):
        segments, new_segments = old.segments[gap.previous], new.segments[gap.current]
        find_counterpart = partial(_find_same_role, new_segments, envelope)
        position = old.position + gap.previous.start
        for segment, new_segment in _pair_in_order(
            segments, new_segments, find_counterpart, can_grow=is_last and gap.reaches_end
        ):
            mismatches.append(
                _Mismatch(segment, new_segment, position, envelope, in_kept_message=True, is_followed=is_followed)
            )
            position += segment is not None
    return mismatches


def _find_same_role(segments: Sequence[Segment], envelope: bytes, old: Segment, start: int) -> int:
    """Return the first place from `start` on of a segment that may have been `old`, else -1."""
    call_id = blocks.call_id_of(old, envelope)
    for place, new in enumerate(segments[start:], start):
        if old.kind != new.kind:
            continue
        new_id = blocks.call_id_of(new, envelope)
        if call_id is None and new_id is None:
            if _share_words(old.data, new.data, {}):
                return place
        elif call_id == new_id and old.path.count(".") == new.path.count("."):
            return place
    return -1


# Why each pair differs


class _BlockPair:
    """Two corresponding segments that differ, with their parts."""

    def __init__(self, previous: Segment, current: Segment, mismatch: _Mismatch) -> None:
        self.previous, self.current, self.mismatch = previous, current, mismatch
        self.before = blocks.block_of(previous, mismatch.envelope)
        self.after = blocks.block_of(current, mismatch.envelope)
        self.path = previous.path
        self.kinds = {self.before.kind, self.after.kind}
        self.is_small = len(previous.data) + len(current.data) <= DIFFERING_TEXT_BYTES
        before, after = self.before.members, self.after.members
        self.changed_members = {key for key in (*before, *after) if before.get(key) != after.get(key)}

    def has_same_image(self) -> bool:
        """Return whether two images or documents have the same bytes, and other settings."""
        changed = self.changed_members
        if changed == {"image_url"}:
            urls = [raw_members(side.members["image_url"]) or {} for side in (self.before, self.after)]
            changed = {key for key in urls[0] | urls[1] if urls[0].get(key) != urls[1].get(key)}
        return self.kinds == {"image"} and bool(changed) and changed <= _IMAGE_SETTINGS

    def excerpts(self, reason: texts.TextReason | None = None) -> tuple[str, str]:
        """Return both sides around the first byte in which the segments, or the pieces of `reason`, differ."""
        if reason is None:
            return excerpt_pair(self.previous, self.current)
        both_texts = self.before.text or "", self.after.text or ""
        return excerpt_pieces(self.previous, self.current, both_texts, (reason.previous, reason.current))


class _SectionExplainer:
    """Explains the mismatches of one section."""

    def __init__(
        self, section: str, mismatches: Sequence[_Mismatch], context: PromptContext, only_previous: Counter[bytes]
    ) -> None:
        self._only_previous = only_previous  # segments that only the previous prompt has, with their number
        self._section = section
        self._mismatches = mismatches
        self._context = context
        self._budget = texts.SearchBudget()
        cuts = [mismatch for mismatch in mismatches if mismatch.current is None]
        self._removed_blocks = {mismatch.segment.data for mismatch in cuts}
        self._is_answer_gone = any(blocks.is_by_model(cut.envelope) and not cut.in_kept_message for cut in cuts)

    def causes(self) -> list[Cause]:
        """Return the causes by place: the first of each kind (changed, gone or added; by the model or not)."""
        causes: list[Cause] = []
        kind_counts: Counter[tuple[bool, bool, bool]] = Counter()
        first_cause: dict[tuple[bool, bool, bool], int] = {}
        runs: list[list[_Mismatch]] = []  # adjacent messages that are gone; every other mismatch is a run of its own
        for last, mismatch in zip([None, *self._mismatches], self._mismatches, strict=False):
            is_adjacent = last is not None and mismatch.position - last.position <= 2  # an envelope lies between two
            if not is_adjacent or any(side and (side.current or side.in_kept_message) for side in (last, mismatch)):
                runs.append([])
            runs[-1].append(mismatch)
        for run in runs:
            cut = self._explain_cut(run)
            if cut is not None:
                causes.append(cut)
                continue
            for mismatch in run:
                kind = mismatch.previous is None, mismatch.current is None, blocks.is_by_model(mismatch.envelope)
                kind_counts[kind] += 1
                first_cause.setdefault(kind, len(causes))
                if kind_counts[kind] <= EXPLAINED_DIFFERENCES:
                    causes += self._explain(mismatch)
        for kind, number in kind_counts.items():
            skipped, at = number - EXPLAINED_DIFFERENCES, first_cause[kind]
            if skipped > 0 and at < len(causes):
                causes[at] = replace(causes[at], skipped=causes[at].skipped + skipped)
        return _join_placeholders(causes)

    def _cause(
        self, mismatch: _Mismatch, code: str, evidence: d.Difference, *, override: CauseKind | None = None,
        respelled: bool = False, differs: bool = False,
    ) -> Cause:  # fmt: skip
        path = mismatch.segment.path
        return Cause(
            code, self._section, evidence, mismatch.position, override, path, respelled=respelled, differs=differs
        )

    def _explain_cut(self, run: Sequence[_Mismatch]) -> Cause | None:
        """Return the cause of adjacent messages that are gone with an answer: history was cut. It hides others."""
        removed = [mismatch.previous for mismatch in run if mismatch.previous is not None]
        paths = list(dict.fromkeys([message_path(segment.path) for segment in removed]))
        if len(paths) < 2 or not any(blocks.is_by_model(mismatch.envelope) for mismatch in run):
            return None
        if any(self._context.new_blocks[segment.data] > 0 for segment in removed):
            return None
        evidence = d.MessagesGone(len(paths), paths[0], paths[-1], excerpt(run[0].previous, 0, 0, 60))
        return self._cause(run[0], Code.PREFIX_MOVED, evidence)

    def _explain(self, mismatch: _Mismatch) -> list[Cause]:
        previous, current = mismatch.previous, mismatch.current
        if previous is None or current is None:
            return [self._explain_unpaired(mismatch)]
        pair = _BlockPair(previous, current, mismatch)
        before, after, path = pair.before, pair.after, pair.path
        if before.text == after.text and has_same_content(previous, current):
            return [texts.name_segment_spelling(previous, current).cause(self._section, mismatch.position, path)]
        if previous.kind == current.kind and blocks.differ_in_empty_members(previous, current):
            return [self._explain_empty(mismatch, whole=False)]
        if blocks.is_header(previous) and blocks.is_header(current):
            return [self._cause(mismatch, Code.BILLING_HEADER_CHANGED, d.HeaderChanged())]
        renamed = self._explain_renaming(pair)
        if renamed is not None:
            return [renamed]
        if "envelope" in (previous.kind, current.kind) or ("thinking" not in pair.kinds and pair.has_same_image()):
            return [self._explain_envelope(pair)]
        if "thinking" in pair.kinds:
            return [self._cause(mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(path, "changed"))]
        if "image" in pair.kinds:
            change = "replaced" if len(pair.kinds) > 1 else "bytes"
            return [self._cause(mismatch, Code.IMAGE_CHANGED, d.ImageChanged(path, change, *pair.excerpts()))]
        if pair.kinds == {"result"}:
            return self._explain_result(pair)
        if len(pair.kinds) == 1 and before.text is not None and after.text is not None and before.text != after.text:
            return self._explain_text(pair, before.text, after.text)
        return [self._explain_other(pair)]

    def _explain_empty(self, mismatch: _Mismatch, *, whole: bool) -> Cause:
        """Return the cause of members that hold nothing; whether a chat template prints them, only usage can tell."""
        has_template = self._context.has_template
        evidence = d.EmptyMember(mismatch.segment.path, whole=whole, templated=has_template)
        override = "unattributable" if has_template else "expected"
        return self._cause(mismatch, Code.SERIALISATION_CHANGED, evidence, override=override, respelled=True)

    def _explain_unpaired(self, mismatch: _Mismatch) -> Cause:
        """Return the cause of a segment that the other side lacks or has elsewhere."""
        segment, is_gone, context = mismatch.segment, mismatch.current is None, self._context
        path = segment.path
        is_alone = not path.startswith(blocks.MESSAGE_PATHS)  # an empty message still has a role
        if (mismatch.in_kept_message or is_alone) and blocks.is_empty(segment):
            if segment.kind == "envelope" and path.startswith("input["):  # a text as input is a message of the user's
                shape = d.Respelled("input", "shape")
                return self._cause(mismatch, Code.CONTENT_SHAPE_CHANGED, shape, override="expected", respelled=True)
            return self._explain_empty(mismatch, whole=True)
        if is_gone:
            has_moved = context.new_blocks[segment.data] > 0 or not self._only_previous[segment.data]
        else:
            has_moved = segment.data in self._removed_blocks
        has_moved = has_moved or segment.data in context.relocated
        change = "gone" if is_gone else "added"
        if blocks.is_header(segment):
            return self._cause(mismatch, Code.BILLING_HEADER_CHANGED, d.HeaderChanged(change=change))
        block, by_model = blocks.block_of(segment, mismatch.envelope), blocks.is_by_model(mismatch.envelope)
        is_reasoning_item = segment.kind == "envelope" and block.members.get("type") == b'"reasoning"'
        is_thought = by_model and blocks.differ_in_inline_thought(block.text or "", "")
        if block.kind == "thinking" or is_reasoning_item or is_thought:
            evidence = d.ThinkingChanged(path, "moved" if has_moved else change)
            return self._cause(mismatch, Code.THINKING_CHANGED, evidence)
        if block.kind == "image":
            return self._cause(mismatch, Code.IMAGE_CHANGED, d.ImageChanged(path, change))
        code, what = Code.PREFIX_MOVED, ""
        if block.kind == "text" and (has_moved or not by_model):
            code, what = self._name_unpaired_text(mismatch, block.text or "", has_moved=has_moved)
        moved = d.BlockMoved(path, block.kind, "moved" if has_moved else change, excerpt(segment, 0, 0, 60), what)
        return self._cause(mismatch, code, moved)

    def _name_unpaired_text(self, mismatch: _Mismatch, text: str, *, has_moved: bool) -> tuple[str, d.Varies]:
        """Return the code and topic of a text block that the other side lacks."""
        if not text.strip():
            return Code.PREFIX_MOVED, "white-space"
        if not has_moved and self._section == "system" and (added := find_volatile_addition("", text)) is not None:
            return added
        if has_moved or is_reminder(text):
            return Code.REMINDER_MOVED, ""
        topic = find_topic("", text, "")
        if topic is not None:
            return texts.TOPICS[topic]
        was_sent = mismatch.current is None and self._section == "messages"
        if was_sent and (mismatch.in_kept_message or not self._is_answer_gone):
            was_last = not mismatch.in_kept_message and mismatch is self._mismatches[-1]  # nothing equal follows it
            if not was_last or find_volatile_word(excerpt(mismatch.segment, 0, 0, 60)) is not None:
                return Code.REMINDER_MOVED, ""
        return Code.PREFIX_MOVED, ""

    def _explain_renaming(self, pair: _BlockPair) -> Cause | None:
        """Return the cause if only the id of an item or call differs."""
        changed, members = pair.changed_members, tuple(sorted(pair.changed_members))
        if changed and changed <= _ITEM_IDS and pair.path.startswith("input[") and pair.previous.kind == "envelope":
            evidence = d.IdChanged(pair.path, "item", members)
            code = Code.SERIALISATION_CHANGED
            return self._cause(pair.mismatch, code, evidence, override="unattributable", respelled=True)
        in_both = pair.before.members.keys() & pair.after.members.keys()
        if len(changed) != 1 or not changed <= _CALL_IDS or not changed <= in_both:
            return None
        evidence = d.IdChanged(pair.path, "call", members)
        pairs = [
            [side.data for side in (mismatch.previous, mismatch.current) if side is not None]
            for mismatch in self._mismatches
        ]
        for side in (pair.before, pair.after):
            call_id = side.members[members[0]]
            # several calls share it: whoever stored the prompt replaced the ids that were sent
            if sum(any(call_id in data for data in sides) for sides in pairs) > _PAIRS_OF_CALL:
                cause = self._cause(pair.mismatch, Code.ID_IN_PREFIX, evidence, override="expected", respelled=True)
                return replace(cause, qualifiers=("stored-otherwise",))
        return self._cause(pair.mismatch, Code.ID_IN_PREFIX, evidence)

    def _explain_envelope(self, pair: _BlockPair) -> Cause:
        before, after, path = pair.before.members, pair.after.members, pair.path
        changed = [key for key in dict.fromkeys((*before, *after))
                   if canonical(before.get(key, b"")) != canonical(after.get(key, b""))]  # fmt: skip
        members = tuple([key for key in changed if key in _API_MEMBERS])
        unknown = tuple([key for key in changed if key not in _API_MEMBERS])
        if b'"reasoning"' in (before.get("type"), after.get("type")) or (changed and _THOUGHT.issuperset(changed)):
            is_gone = bool(changed) and after.keys().isdisjoint(changed)
            evidence = d.ThinkingChanged(path, "gone" if is_gone else "changed", members, unknown)
            return self._cause(pair.mismatch, Code.THINKING_CHANGED, evidence)
        return self._cause(pair.mismatch, Code.PREFIX_MOVED, d.BlockChanged(path, *pair.excerpts(), members, unknown))

    def _explain_result(self, pair: _BlockPair) -> list[Cause]:
        before, after, path = pair.before, pair.after, pair.path
        if NO_RESULT in pair.previous.data:
            return [self._cause(pair.mismatch, Code.LATE_TOOL_RESULT, d.ResultSentEarly(path))]
        causes: list[Cause] = []
        if blocks.images_in(before) != blocks.images_in(after):
            changed = d.ImageChanged(path, "in-result", *pair.excerpts())
            causes.append(self._cause(pair.mismatch, Code.IMAGE_CHANGED, changed))
            if before.text == after.text or blocks.has_text_for_image(before, after):
                return causes
        members = blocks.members_around_text(before)
        if members is not None and before.text == after.text and members == blocks.members_around_text(after):
            return [self._cause(pair.mismatch, Code.CONTENT_SHAPE_CHANGED, d.Respelled(path, "shape"))]
        wrapper = self._explain_wrapper(pair, before.text or "", after.text or "")
        if wrapper is not None:
            return [*causes, wrapper]
        evidence = d.ResultRewritten(path, *pair.excerpts(), self._context.cleared or None)
        rewritten = self._cause(pair.mismatch, Code.TOOL_RESULT_REWRITTEN, evidence)
        by_code: dict[str, Cause] = {}
        is_searched = pair.is_small and not self._context.cleared  # the log says why
        reasons = texts.explain_text(before.text or "", after.text or "", self._budget) if is_searched else []
        for reason in reasons[:16]:
            if reason.code is not None and reason.code in _RESULT_CODES:
                by_code.setdefault(reason.code, self._reason_cause(pair, reason))
            else:
                by_code.setdefault(Code.TOOL_RESULT_REWRITTEN, rewritten)
        return [*causes, *(by_code.values() or [rewritten])]

    def _explain_wrapper(self, pair: _BlockPair, before: str, after: str) -> Cause | None:
        """Return the cause if text that a program had put before or after a text is gone."""
        if self._section != "messages" or blocks.is_by_model(pair.mismatch.envelope):
            return None
        is_result = pair.kinds == {"result"}  # the end of a result may be cut, by its tool or to save tokens
        wrapper = find_wrapper(before, after, any_end=pair.mismatch.is_followed and not is_result)
        if wrapper is None or (is_result and not is_reminder(wrapper[0])):
            return None
        text, holds = wrapper
        wrapper_excerpt = excerpt(Segment("messages", "", text.encode("utf-8", "replace")), 0, 0, 60)
        return self._cause(pair.mismatch, Code.REMINDER_MOVED, d.WrapperGone(pair.path, wrapper_excerpt, holds))

    def _explain_text(self, pair: _BlockPair, before: str, after: str) -> list[Cause]:
        wrapper = self._explain_wrapper(pair, before, after)
        if wrapper is not None:
            return [wrapper]
        if blocks.is_by_model(pair.mismatch.envelope) and blocks.differ_in_inline_thought(before, after):
            change = "gone" if len(after) < len(before) else "added"
            return [self._cause(pair.mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(pair.path, change))]
        reasons = texts.explain_text(before, after, self._budget) if pair.is_small else [texts.TextReason(None)]
        causes = [self._reason_cause(pair, reason) for reason in reasons]
        if (pair.previous.data[:1] == b'"') != (pair.current.data[:1] == b'"') and (
            _share_words(before.encode("utf-8", "replace"), after.encode("utf-8", "replace"), {})
            or any(reason.code is not None for reason in reasons)
        ):
            causes.append(self._cause(pair.mismatch, Code.CONTENT_SHAPE_CHANGED, d.Respelled(pair.path, "shape")))
        return causes

    def _reason_cause(self, pair: _BlockPair, reason: texts.TextReason) -> Cause:
        path, code, what, excerpts = pair.path, reason.code, reason.what, pair.excerpts(reason)
        if isinstance(what, texts.SpellingChange):
            evidence = d.Respelled(path, what.spelling, *excerpts)
            return self._cause(pair.mismatch, what.code, evidence, override=what.override)
        if code is None or (code in _INSERTED and blocks.is_by_model(pair.mismatch.envelope)):
            return self._cause(pair.mismatch, Code.PREFIX_MOVED, d.TextChanged(path, "", *excerpts), differs=True)
        return self._cause(pair.mismatch, code, d.TextChanged(path, what, *excerpts))

    def _explain_other(self, pair: _BlockPair) -> Cause:
        """Return the cause for calls, results in place of texts, and blocks of unknown kinds."""
        if pair.changed_members and pair.changed_members <= _SIGNATURES:
            return self._cause(pair.mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(pair.path, "signature"))
        arguments = blocks.read_argument_texts(pair.before, pair.after)
        if arguments is not None:
            reasons = texts.explain_text(*arguments, self._budget)
            if len(reasons) == 1 and reasons[0].code in (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED):
                return self._reason_cause(pair, reasons[0])
        spelling = texts.name_value_spelling(pair.previous.data, pair.current.data)
        if spelling is not None:
            return spelling.cause(self._section, pair.mismatch.position, pair.path)
        return self._cause(pair.mismatch, Code.PREFIX_MOVED, d.BlockChanged(pair.path, *pair.excerpts()), differs=True)
