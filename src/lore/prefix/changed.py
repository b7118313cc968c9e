"""Classify each difference between two prompts' texts, blocks and envelopes.

In: differences, with what else was taken out and put in. Out: notes. Rules: what a block is decides which reasons
fit (a result is rewritten, thinking is dropped, an image is encoded anew); a text is explained piece by piece; what
is gone at one place and stands at another has moved; only what nothing explains is `LORE100`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lore.model.canonical import canonical, text_of
from lore.model.codes import Code
from lore.model.differences import (
    BlockChanged,
    BlockMoved,
    Difference,
    EmptyMember,
    HeaderChanged,
    IdChanged,
    ImageChanged,
    MessagesGone,
    Respelled,
    ResultRewritten,
    ResultSentEarly,
    TextChanged,
    ThinkingChanged,
    Varies,
)
from lore.model.jsonslice import table
from lore.model.prompt import NO_RESULT, Segment
from lore.model.vector import common_prefix
from lore.prefix.align import Mismatch, near
from lore.prefix.blocks import (
    Block,
    block_of,
    by_model,
    images_in,
    is_header,
    is_message,
    kind_of,
    parts,
    say_the_same,
    says_nothing,
)
from lore.prefix.notes import Note
from lore.prefix.overlap import excerpt, same_content
from lore.prefix.texts import LARGEST, TOPICS, Reason, Room, Spelled, of_segments, of_values, reasons
from lore.prefix.volatile import is_reminder, surely_varies, topic

_HARNESS = frozenset(code for code, _ in TOPICS.values())  # what a program puts in
# What names an item of the Responses API and is no part of what it says; how a call is named in any API.
_ITEMS_OWN = frozenset(("id", "status"))
_CALL_IDS = frozenset(("id", "tool_use_id", "tool_call_id", "call_id"))
MOST = 48  # differences of one kind of block that are explained one by one
_APART = 2  # positions from the last block of a message to the first of the next: its envelope is between
_THOUGHT = frozenset(("reasoning_content", "reasoning", "reasoning_details", "encrypted_content", "summary", "thinking",
                      "thinking_blocks"))  # fmt: skip
_SIGNED = frozenset(("thoughtSignature", "thought_signature", "signature"))


# Members that the APIs name; another one's name is content.
_MEMBERS = _THOUGHT | _SIGNED | _ITEMS_OWN | _CALL_IDS | frozenset((
    "type", "role", "name", "content", "parts", "tool_calls", "function_call", "arguments", "input", "output", "action",
    "refusal", "annotations", "audio", "phase", "execution", "tools",
))  # fmt: skip


class About(NamedTuple):
    """What is known of both prompts beside one section's differences.

    `new` counts the blocks that the right prompt alone has; `cleared` is what a session recorded of the results that
    it cleared; `relocated` are blocks that went from the messages into the system prompt, or back; `templated`: a chat
    template may see which members are there, though they hold nothing.
    """

    new: Counter[bytes]
    cleared: str | None
    relocated: frozenset[bytes]
    templated: bool


class Explained:
    """Explain the differences of one section."""

    def __init__(self, section: str, found: Sequence[Mismatch], about: About) -> None:
        self._section = section
        self._found = found
        self._new, self._cleared, self._relocated, self._templated = about
        self._gone = {one.left.data for one in found if one.right is None and one.left is not None}
        self._room = Room()
        self._seen: Counter[tuple[str, bool, bool]] = Counter()
        self._first: dict[tuple[str, bool, bool], int] = {}
        self._gone_by_model = any(one.right is None and by_model(one.envelope) and not one.alone for one in found)

    def notes(self) -> list[Note]:
        """Return the notes, in the order of their places."""
        found: list[Note] = []
        for run in _runs(self._found):
            cut = self._cut(run)
            if cut is not None:
                found.append(cut)
                continue
            for one in run:
                found += self._counted(one, len(found))
        for kind, number in self._seen.items():
            first = self._first[kind]
            if number > MOST and first < len(found):
                found[first] = found[first]._replace(skipped=found[first].skipped + number - MOST)
        return found

    def _counted(self, one: Mismatch, place: int) -> list[Note]:
        """Explain a difference, but for those of a kind of which many were explained: causes repeat."""
        kind = kind_of(one.segment, one.envelope), one.left is None, one.right is None
        self._seen[kind] += 1
        self._first.setdefault(kind, place)
        return self._notes(one) if self._seen[kind] <= MOST else []

    def _cut(self, run: Sequence[Mismatch]) -> Note | None:
        """Name messages that are gone side by side, answers of the model among them: history was cut there.

        What stood in them (reminders, thinking, images) went with them, and is no cause of its own.
        """
        paths = list(dict.fromkeys([_message_of(one.left) for one in run if one.left is not None]))
        if len(paths) < 2 or not any(by_model(one.envelope) for one in run):
            return None
        if any(one.left is not None and self._new[one.left.data] > 0 for one in run):
            return None
        first = run[0].left
        return self._note(
            run[0], Code.PREFIX_MOVED, lambda: MessagesGone(len(paths), paths[0], paths[-1], _shown(first))
        )

    def _notes(self, one: Mismatch) -> list[Note]:
        if one.left is None or one.right is None:
            return [self._single(one)]
        pair = BlockPair(one.left, one.right, block_of(one.left, one.envelope), block_of(one.right, one.envelope))
        left, right = pair.left, pair.right
        path, kinds = left.path, {pair.before.kind, pair.after.kind}
        if pair.before.text == pair.after.text and same_content(left, right):
            found = of_segments(left, right)
            return [self._spelled(one, found, path)._replace(spelled=True)]
        if left.kind == right.kind and say_the_same(left, right):
            return [self._empty(one, EmptyMember(path, templated=self._templated))]
        if is_header(left) and is_header(right):
            return [self._note(one, Code.BILLING_HEADER_CHANGED, HeaderChanged())]
        named = self._named(one, pair)
        if named is not None:
            return [named]
        if left.kind == "envelope" or right.kind == "envelope":
            return [self._envelope(one, pair)]
        if "thinking" in kinds:
            return [self._note(one, Code.THINKING_CHANGED, ThinkingChanged(path, "changed"))]
        if "image" in kinds:
            return [self._note(one, Code.IMAGE_CHANGED, ImageChanged(path, "replaced" if len(kinds) > 1 else "bytes"))]
        if kinds == {"result"}:
            return self._result(one, pair)
        if len(kinds) == 1 and pair.before.text is not None and pair.after.text is not None:
            return self._text(one, pair, pair.before.text, pair.after.text)
        return [self._other(one, pair)]

    def _note(self, one: Mismatch, code: Code, evidence: Difference | Callable[[], Difference]) -> Note:
        return Note(code, self._section, one.position, evidence, path=one.segment.path)

    def _spelled(self, one: Mismatch, found: Spelled, path: str) -> Note:
        return self._note(one, found.code, Respelled(path, found.spelling))._replace(here=found.here)

    def _empty(self, one: Mismatch, evidence: EmptyMember) -> Note:
        """Say that nothing of a prompt differs; where a template sees it, only a bill can tell."""
        here = "unattributable" if self._templated else "expected"
        return self._note(one, Code.SERIALISATION_CHANGED, evidence)._replace(here=here, spelled=True)

    def _single(self, one: Mismatch) -> Note:
        """Explain a segment that the other side has not, or has elsewhere."""
        segment = one.segment
        path = segment.path
        if (one.alone or not is_message(segment)) and says_nothing(segment):
            return self._empty(one, EmptyMember(path, whole=True, templated=self._templated))
        block = block_of(segment, one.envelope)
        lone = "gone" if one.right is None else "added"
        moved = self._new[segment.data] > 0 if one.right is None else segment.data in self._gone
        change = "moved" if moved or segment.data in self._relocated else lone
        if is_header(segment):
            return self._note(one, Code.BILLING_HEADER_CHANGED, HeaderChanged(change=lone))
        if block.kind == "thinking" or (segment.kind == "envelope" and block.own.get("type") == b'"reasoning"'):
            return self._note(one, Code.THINKING_CHANGED, ThinkingChanged(path, change))
        if block.kind == "image":
            return self._note(one, Code.IMAGE_CHANGED, ImageChanged(path, lone))
        code, what = Code.PREFIX_MOVED, ""
        if block.kind == "text" and not (by_model(one.envelope) and change != "moved"):
            code, what = self._lone_text(one, block.text or "", moved=change == "moved")
        return self._note(one, code, lambda: BlockMoved(path, block.kind, change, _shown(segment), what))

    def _lone_text(self, one: Mismatch, text: str, *, moved: bool) -> tuple[Code, Varies]:
        """Return the code of a text that no text stands against, and what it is about."""
        if moved or is_reminder(text):
            return Code.REMINDER_MOVED, ""
        about = topic("", text[:16_384], "")
        if about is not None:
            return TOPICS[about]
        sent = one.right is None and self._section == "messages"
        if sent and (one.alone or not self._gone_by_model) and not self._ends(one):
            return Code.REMINDER_MOVED, ""
        return Code.PREFIX_MOVED, ""

    def _ends(self, one: Mismatch) -> bool:
        """Tell whether what is gone was the end of what was sent: then nothing stands equal behind it."""
        return not one.alone and one is self._found[-1] and surely_varies(_shown(one.left or one.right)) is None

    def _named(self, one: Mismatch, pair: BlockPair) -> Note | None:
        """Explain blocks and items that differ in nothing but how they are named."""
        changed, path = pair.changed, pair.left.path
        members = tuple(sorted(changed))
        if changed and changed <= _ITEMS_OWN and path.startswith("input[") and pair.left.kind == "envelope":
            note = self._note(one, Code.SERIALISATION_CHANGED, IdChanged(path, "item", members))
            return note._replace(here="unattributable", spelled=True)
        if len(changed) == 1 and changed <= _CALL_IDS and changed <= pair.before.own.keys() & pair.after.own.keys():
            return self._note(one, Code.ID_IN_PREFIX, IdChanged(path, "call", members))
        return None

    def _envelope(self, one: Mismatch, pair: BlockPair) -> Note:
        before, after, path = pair.before.own, pair.after.own, pair.left.path
        changed = [key for key in dict.fromkeys((*before, *after))
                   if canonical(before.get(key, b"")) != canonical(after.get(key, b""))]  # fmt: skip
        members = tuple([key for key in changed if key in _MEMBERS])
        unknown = tuple([key for key in changed if key not in _MEMBERS])
        reasoning = b'"reasoning"' in (before.get("type"), after.get("type"))
        if reasoning or (changed and _THOUGHT.issuperset(changed)):
            return self._note(one, Code.THINKING_CHANGED, ThinkingChanged(path, "changed", members, unknown))
        return self._note(one, Code.PREFIX_MOVED, lambda: BlockChanged(path, *pair.parting(), members, unknown))

    def _result(self, one: Mismatch, pair: BlockPair) -> list[Note]:
        before, after, path = pair.before, pair.after, pair.left.path
        if NO_RESULT in pair.left.data:
            return [self._note(one, Code.LATE_TOOL_RESULT, ResultSentEarly(path))]
        found: list[Note] = []
        if images_in(before) != images_in(after):
            found.append(self._note(one, Code.IMAGE_CHANGED, ImageChanged(path, "in-result")))
        if found and (before.text == after.text or _gave_way(before, after)):
            return found
        around = _around_text(before)
        if around is not None and before.text == after.text and around == _around_text(after):
            return [self._note(one, Code.CONTENT_SHAPE_CHANGED, Respelled(path, "shape"))]
        rewritten = self._note(
            one, Code.TOOL_RESULT_REWRITTEN, lambda: ResultRewritten(path, *pair.parting(), self._cleared or None)
        )
        codes: dict[Code, Note] = {}
        for reason in reasons(before.text or "", after.text or "", self._room)[:16] if pair.fits else ():
            if reason.code in (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.TOKEN_REMINDER_IN_PREFIX):
                codes.setdefault(reason.code, self._reason(one, pair, reason))
            else:
                codes.setdefault(Code.TOOL_RESULT_REWRITTEN, rewritten)
        return [*found, *(codes.values() or [rewritten])]

    def _text(self, one: Mismatch, pair: BlockPair, before: str, after: str) -> list[Note]:
        if before == after:
            return [self._other(one, pair)]
        why = reasons(before, after, self._room) if pair.fits else [Reason(None)]
        found = [self._reason(one, pair, reason) for reason in why]
        shaped = (pair.left.data[:1] == b'"') != (pair.right.data[:1] == b'"')
        if shaped and (
            near(before.encode("utf-8", "replace"), after.encode("utf-8", "replace"), {})
            or any(reason.code is not None for reason in why)
        ):
            found.append(self._note(one, Code.CONTENT_SHAPE_CHANGED, Respelled(pair.left.path, "shape")))
        return found

    def _reason(self, one: Mismatch, pair: BlockPair, reason: Reason) -> Note:
        path, what = pair.left.path, reason.what
        if isinstance(what, Spelled):
            note = self._note(one, what.code, lambda: Respelled(path, what.spelling, *pair.parting(reason)))
            return note._replace(here=what.here)
        if reason.code is None or (reason.code in _HARNESS and by_model(one.envelope)):  # a model only speaks of them
            note = self._note(one, Code.PREFIX_MOVED, lambda: TextChanged(path, "", *pair.parting(reason)))
            return note._replace(differs=True)
        return self._note(one, reason.code, lambda: TextChanged(path, what, *pair.parting(reason)))

    def _other(self, one: Mismatch, pair: BlockPair) -> Note:
        """Explain blocks that are no texts: calls, results in place of texts, blocks of no known kind."""
        path, raw = pair.left.path, (pair.left.data, pair.right.data)
        if pair.changed and pair.changed <= _SIGNED:
            return self._note(one, Code.THINKING_CHANGED, ThinkingChanged(path, "signature"))
        arguments = _arguments(pair.before, pair.after)
        if arguments is not None:
            why = reasons(*arguments, self._room)
            if len(why) == 1 and why[0].code in (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED):
                return self._reason(one, pair, why[0])
        found = of_values(*raw)
        if found is not None:
            return self._spelled(one, found, path)._replace(spelled=found.stored)
        return self._note(one, Code.PREFIX_MOVED, lambda: BlockChanged(path, *pair.parting()))._replace(differs=True)


class BlockPair(NamedTuple):
    """Two segments that correspond, and what each of them is."""

    left: Segment
    right: Segment
    before: Block
    after: Block

    @property
    def changed(self) -> set[str]:
        """The members that are not the same bytes."""
        before, after = self.before.own, self.after.own
        return {key for key in (*before, *after) if before.get(key) != after.get(key)}

    @property
    def fits(self) -> bool:
        """Whether both are small enough to be explained piece by piece."""
        return len(self.left.data) + len(self.right.data) <= LARGEST

    def parting(self, reason: Reason | None = None) -> tuple[str, str]:
        """Show where they part, or (`reason`) two pieces of their texts, as they stand in the segments."""
        if reason is None:
            at = common_prefix(self.left.data, self.right.data)
            return excerpt(self.left, at, 24, 24), excerpt(self.right, at, 24, 24)
        pieces = [text.encode("utf-8", "replace") for text in (reason.left, reason.right)]
        same = common_prefix(*pieces)
        return _around(self.left, pieces[0], same), _around(self.right, pieces[1], same)


def _around(segment: Segment, piece: bytes, same: int) -> str:
    if piece and (at := segment.data.find(piece)) >= 0:
        return excerpt(segment, at + same, 24, 24)
    return excerpt(Segment(segment.section, "", piece or segment.data), same, 24, 24)


def _around_text(block: Block) -> tuple[bytes, ...] | None:
    """Return what a result is apart from its content, where that is one text, plain or in a block; None elsewhere."""
    content = block.own.get("content") or block.own.get("output") or b""
    if content[:1] == b"[":
        only = parts(content)
        if len(only) != 1 or not _PLAIN.issuperset(only[0]):
            return None
    elif content[:1] != b'"':
        return None
    return tuple(sorted(key.encode() + canonical(raw) for key, raw in block.own.items() if raw is not content))


_PLAIN = frozenset(("type", "text"))


def _gave_way(left: Block, right: Block) -> bool:
    """Tell whether a text stands in a result where an image stood, and all other texts are the same."""
    if len(images_in(right)) >= len(images_in(left)):
        return False
    before, after = (
        {part["text"] for part in parts(block.own.get("content", b"")) if "text" in part} for block in (left, right)
    )
    return before <= after


def _runs(found: Sequence[Mismatch]) -> list[list[Mismatch]]:
    """Put what is gone side by side, whole messages of it, into one run; all else stands for itself."""
    runs: list[list[Mismatch]] = []
    for one in found:
        last = runs[-1][-1] if runs else None
        if last is not None and _is_gone(one) and _is_gone(last) and one.position - last.position <= _APART:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _is_gone(one: Mismatch) -> bool:
    return one.right is None and not one.alone


def _message_of(segment: Segment) -> str:
    return segment.path.partition("]")[0] + "]"


def _arguments(left: Block, right: Block) -> tuple[str, str] | None:
    """Return the arguments of two calls that are written as text, where nothing else differs."""
    both = [table(block.own.get("function", b"")) or {} for block in (left, right)]
    raw = [function.pop("arguments", b"") for function in both]
    if both[0] != both[1] or any(arguments[:1] != b'"' for arguments in raw):
        return None
    return text_of(raw[0]), text_of(raw[1])


def _shown(segment: Segment | None) -> str:
    return excerpt(segment, 0, 0, 60)
