"""Classify each difference between two prompts' texts, blocks and envelopes.

In: mismatches, with what else was taken out and put in. Out: causes, each at its place in the left prompt. Rules: what
a block is decides which reasons fit (a result is rewritten, thinking is dropped, an image is encoded anew); a text is
explained piece by piece; what is gone at one place and stands at another has moved; only what nothing explains is
`LORE100`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from lore.model import differences as d
from lore.model.canonical import canonical, text_of
from lore.model.cause import Cause
from lore.model.codes import CauseKind, Code
from lore.model.jsonslice import table
from lore.model.limits import DIFFERING_TEXT_BYTES, EXPLAINED_DIFFERENCES
from lore.model.turn import NO_RESULT, Segment
from lore.model.vector import common_prefix
from lore.prefix import blocks
from lore.prefix.align import Mismatch, near
from lore.prefix.overlap import excerpt, same_content
from lore.prefix.texts import TOPICS, Reason, Room, Spelled, of_segments, of_values, reasons
from lore.prefix.volatile import is_reminder, surely_varies, topic, wrapping

_HARNESS = frozenset(code for code, _ in TOPICS.values())  # what a program puts in
# What names an item of the Responses API and is no part of what it says; how a call is named in any API.
_ITEMS_OWN = frozenset(("id", "status"))
_CALL_IDS = frozenset(("id", "tool_use_id", "tool_call_id", "call_id"))
_PLAIN = frozenset(("type", "text"))
_OWN_REASONS = (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.TOKEN_REMINDER_IN_PREFIX)  # of a result
_APART = 2  # positions from the last block of a message to the first of the next: its envelope is between
_THOUGHT = frozenset(("reasoning_content", "reasoning", "reasoning_details", "encrypted_content", "summary", "thinking",
                      "thinking_blocks"))  # fmt: skip
_SIGNED = frozenset(("thoughtSignature", "thought_signature", "signature"))
# Members that the APIs name; another one's name is content.
_MEMBERS = _THOUGHT | _SIGNED | _ITEMS_OWN | _CALL_IDS | frozenset((
    "type", "role", "name", "content", "parts", "tool_calls", "function_call", "arguments", "input", "output", "action",
    "refusal", "annotations", "audio", "phase", "execution", "tools",
))  # fmt: skip


class PromptContext(NamedTuple):
    """What is known of both prompts beside one section's differences.

    `new` counts the blocks that the right prompt alone has; `cleared` is what a session recorded of the results that
    it cleared; `relocated` are blocks that went from the messages into the system prompt, or back; `templated`: a chat
    template may see which members are there, though they hold nothing.
    """

    new: Counter[bytes]
    cleared: str | None
    relocated: frozenset[bytes]
    templated: bool


class BlockPair(NamedTuple):
    """Two segments that correspond, and what each of them is."""

    left: Segment
    right: Segment
    before: blocks.BlockParts
    after: blocks.BlockParts

    @property
    def changed(self) -> set[str]:
        """The members that are not the same bytes."""
        before, after = self.before.own, self.after.own
        return {key for key in (*before, *after) if before.get(key) != after.get(key)}

    @property
    def fits(self) -> bool:
        """Whether both are small enough to be explained piece by piece."""
        return len(self.left.data) + len(self.right.data) <= DIFFERING_TEXT_BYTES

    def parting(self, reason: Reason | None = None) -> tuple[str, str]:
        """Show where they part, or (`reason`) two pieces of their texts, as they stand in the segments."""
        if reason is None:
            at = common_prefix(self.left.data, self.right.data)
            return excerpt(self.left, at, 24, 24), excerpt(self.right, at, 24, 24)
        pieces = [text.encode("utf-8", "replace") for text in (reason.left, reason.right)]
        same = common_prefix(*pieces)
        return (
            _around(self.left, self.before.text, pieces[0], same),
            _around(self.right, self.after.text, pieces[1], same),
        )


def _around(segment: Segment, text: str | None, piece: bytes, same: int) -> str:
    """Show a piece of a segment, as it is spelled there or in its text; never the piece alone, which may be cut."""
    for data in (segment.data, (text or "").encode("utf-8", "replace")):
        if piece and (at := data.find(piece)) >= 0:
            return excerpt(Segment(segment.section, "", data), at + same, 24, 24)
    return excerpt(Segment(segment.section, "", piece or segment.data), same, 24, 24)


class BlockChanges:
    """Explain the differences of one section."""

    def __init__(self, section: str, found: Sequence[Mismatch], context: PromptContext) -> None:
        self._section = section
        self._found = found
        self._context = context
        gone = [mismatch for mismatch in found if mismatch.right is None]
        self._gone = {mismatch.segment.data for mismatch in gone}
        self._gone_by_model = any(blocks.by_model(mismatch.envelope) and not mismatch.alone for mismatch in gone)
        self._room = Room()

    def causes(self) -> list[Cause]:
        """Return the causes by place, of each kind of difference the first `EXPLAINED_DIFFERENCES`: they repeat."""
        found: list[Cause] = []
        seen: Counter[tuple[str, bool, bool]] = Counter()
        first: dict[tuple[str, bool, bool], int] = {}
        for run in _runs(self._found):
            cut = self._cut(run)
            if cut is not None:
                found.append(cut)
                continue
            for mismatch in run:
                kind = (
                    blocks.kind_of(mismatch.segment, mismatch.envelope),
                    mismatch.left is None,
                    mismatch.right is None,
                )
                seen[kind] += 1
                first.setdefault(kind, len(found))
                if seen[kind] <= EXPLAINED_DIFFERENCES:
                    found += self._explained(mismatch)
        for kind, number in seen.items():
            at = first[kind]
            if number > EXPLAINED_DIFFERENCES and at < len(found):
                found[at] = replace(found[at], skipped=found[at].skipped + number - EXPLAINED_DIFFERENCES)
        return found

    def _cut(self, run: Sequence[Mismatch]) -> Cause | None:
        """Name messages that are gone side by side, answers of the model among them: history was cut there.

        What stood in them (reminders, thinking, images) went with them, and is no cause of its own.
        """
        gone = [mismatch.left for mismatch in run if mismatch.left is not None]
        paths = list(dict.fromkeys([segment.path.partition("]")[0] + "]" for segment in gone]))
        if len(paths) < 2 or not any(blocks.by_model(mismatch.envelope) for mismatch in run):
            return None
        if any(self._context.new[segment.data] > 0 for segment in gone):
            return None
        evidence = d.MessagesGone(len(paths), paths[0], paths[-1], excerpt(run[0].left, 0, 0, 60))
        return self._cause(run[0], Code.PREFIX_MOVED, evidence)

    def _cause(
        self, mismatch: Mismatch, code: Code, evidence: d.Difference, *, override: CauseKind | None = None,
        respelled: bool = False, differs: bool = False,
    ) -> Cause:  # fmt: skip
        return Cause(
            code, self._section, evidence, mismatch.position, override, mismatch.segment.path, respelled=respelled,
            differs=differs,
        )  # fmt: skip

    def _explained(self, mismatch: Mismatch) -> list[Cause]:
        left, right = mismatch.left, mismatch.right
        if left is None or right is None:
            return [self._single(mismatch)]
        pair = BlockPair(
            left, right, blocks.block_of(left, mismatch.envelope), blocks.block_of(right, mismatch.envelope)
        )
        path, before, after = left.path, pair.before, pair.after
        kinds = {before.kind, after.kind}
        if before.text == after.text and same_content(left, right):
            return [of_segments(left, right).cause(self._section, mismatch.position, path)]
        if left.kind == right.kind and blocks.say_the_same(left, right):
            return [self._empty(mismatch, d.EmptyMember(path, templated=self._context.templated))]
        if blocks.is_header(left) and blocks.is_header(right):
            return [self._cause(mismatch, Code.BILLING_HEADER_CHANGED, d.HeaderChanged())]
        named = self._named(mismatch, pair)
        if named is not None:
            return [named]
        if "envelope" in (left.kind, right.kind):
            return [self._envelope(mismatch, pair)]
        if "thinking" in kinds:
            return [self._cause(mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(path, "changed"))]
        if "image" in kinds:
            change = "replaced" if len(kinds) > 1 else "bytes"
            return [self._cause(mismatch, Code.IMAGE_CHANGED, d.ImageChanged(path, change))]
        if kinds == {"result"}:
            return self._result(mismatch, pair)
        if len(kinds) == 1 and before.text is not None and after.text is not None and before.text != after.text:
            return self._text(mismatch, pair, before.text, after.text)
        return [self._other(mismatch, pair)]

    def _empty(self, mismatch: Mismatch, evidence: d.EmptyMember) -> Cause:
        """Say that nothing of a prompt differs; where a template sees it, only a bill can tell."""
        override = "unattributable" if self._context.templated else "expected"
        return self._cause(mismatch, Code.SERIALISATION_CHANGED, evidence, override=override, respelled=True)

    def _single(self, mismatch: Mismatch) -> Cause:
        """Explain a segment that the other side has not, or has elsewhere."""
        segment, gone, context = mismatch.segment, mismatch.right is None, self._context
        path = segment.path
        if (mismatch.alone or not blocks.is_message(segment)) and blocks.says_nothing(segment):
            return self._empty(mismatch, d.EmptyMember(path, whole=True, templated=context.templated))
        block = blocks.block_of(segment, mismatch.envelope)
        lone = "gone" if gone else "added"
        moved = context.new[segment.data] > 0 if gone else segment.data in self._gone
        change = "moved" if moved or segment.data in context.relocated else lone
        if blocks.is_header(segment):
            return self._cause(mismatch, Code.BILLING_HEADER_CHANGED, d.HeaderChanged(change=lone))
        if block.kind == "thinking" or (segment.kind == "envelope" and block.own.get("type") == b'"reasoning"'):
            return self._cause(mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(path, change))
        if block.kind == "image":
            return self._cause(mismatch, Code.IMAGE_CHANGED, d.ImageChanged(path, lone))
        code, what = Code.PREFIX_MOVED, ""
        if block.kind == "text" and not (blocks.by_model(mismatch.envelope) and change != "moved"):
            code, what = self._lone_text(mismatch, block.text or "", moved=change == "moved")
        return self._cause(mismatch, code, d.BlockMoved(path, block.kind, change, excerpt(segment, 0, 0, 60), what))

    def _lone_text(self, mismatch: Mismatch, text: str, *, moved: bool) -> tuple[Code, d.Varies]:
        """Return the code of a text that no text stands against, and what it is about.

        What is gone may have been the end of what was sent: then nothing stands equal behind it.
        """
        if moved or is_reminder(text):
            return Code.REMINDER_MOVED, ""
        about = topic("", text, "")
        if about is not None:
            return TOPICS[about]
        sent = mismatch.right is None and self._section == "messages"
        if sent and (mismatch.alone or not self._gone_by_model):
            last = not mismatch.alone and mismatch is self._found[-1]
            if not last or surely_varies(excerpt(mismatch.segment, 0, 0, 60)) is not None:
                return Code.REMINDER_MOVED, ""
        return Code.PREFIX_MOVED, ""

    def _named(self, mismatch: Mismatch, pair: BlockPair) -> Cause | None:
        """Explain blocks and items that differ in nothing but how they are named."""
        changed, path = pair.changed, pair.left.path
        members = tuple(sorted(changed))
        if changed and changed <= _ITEMS_OWN and path.startswith("input[") and pair.left.kind == "envelope":
            evidence = d.IdChanged(path, "item", members)
            return self._cause(
                mismatch, Code.SERIALISATION_CHANGED, evidence, override="unattributable", respelled=True
            )  # fmt: skip
        if len(changed) == 1 and changed <= _CALL_IDS and changed <= pair.before.own.keys() & pair.after.own.keys():
            return self._cause(mismatch, Code.ID_IN_PREFIX, d.IdChanged(path, "call", members))
        return None

    def _envelope(self, mismatch: Mismatch, pair: BlockPair) -> Cause:
        before, after, path = pair.before.own, pair.after.own, pair.left.path
        changed = [key for key in dict.fromkeys((*before, *after))
                   if canonical(before.get(key, b"")) != canonical(after.get(key, b""))]  # fmt: skip
        members = tuple([key for key in changed if key in _MEMBERS])
        unknown = tuple([key for key in changed if key not in _MEMBERS])
        if b'"reasoning"' in (before.get("type"), after.get("type")) or (changed and _THOUGHT.issuperset(changed)):
            return self._cause(mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(path, "changed", members, unknown))
        return self._cause(mismatch, Code.PREFIX_MOVED, d.BlockChanged(path, *pair.parting(), members, unknown))

    def _result(self, mismatch: Mismatch, pair: BlockPair) -> list[Cause]:
        before, after, path = pair.before, pair.after, pair.left.path
        if NO_RESULT in pair.left.data:
            return [self._cause(mismatch, Code.LATE_TOOL_RESULT, d.ResultSentEarly(path))]
        found: list[Cause] = []
        if blocks.images_in(before) != blocks.images_in(after):
            found.append(self._cause(mismatch, Code.IMAGE_CHANGED, d.ImageChanged(path, "in-result")))
            if before.text == after.text or _gave_way(before, after):
                return found
        around = _around_text(before)
        if around is not None and before.text == after.text and around == _around_text(after):
            return [self._cause(mismatch, Code.CONTENT_SHAPE_CHANGED, d.Respelled(path, "shape"))]
        evidence = d.ResultRewritten(path, *pair.parting(), self._context.cleared or None)
        rewritten = self._cause(mismatch, Code.TOOL_RESULT_REWRITTEN, evidence)
        codes: dict[Code, Cause] = {}
        for reason in reasons(before.text or "", after.text or "", self._room)[:16] if pair.fits else ():
            if reason.code is not None and reason.code in _OWN_REASONS:
                codes.setdefault(reason.code, self._reason(mismatch, pair, reason))
            else:
                codes.setdefault(Code.TOOL_RESULT_REWRITTEN, rewritten)
        return [*found, *(codes.values() or [rewritten])]

    def _text(self, mismatch: Mismatch, pair: BlockPair, before: str, after: str) -> list[Cause]:
        wrapper = None if blocks.by_model(mismatch.envelope) or self._section != "messages" else wrapping(before, after)
        if wrapper is not None:
            shown = excerpt(Segment("messages", "", wrapper.text.encode("utf-8", "replace")), 0, 0, 60)
            return [self._cause(mismatch, Code.REMINDER_MOVED, d.WrapperGone(pair.left.path, shown, wrapper.holds))]
        why = reasons(before, after, self._room) if pair.fits else [Reason(None)]
        found = [self._reason(mismatch, pair, reason) for reason in why]
        if (pair.left.data[:1] == b'"') != (pair.right.data[:1] == b'"') and (
            near(before.encode("utf-8", "replace"), after.encode("utf-8", "replace"), {})
            or any(reason.code is not None for reason in why)
        ):
            found.append(self._cause(mismatch, Code.CONTENT_SHAPE_CHANGED, d.Respelled(pair.left.path, "shape")))
        return found

    def _reason(self, mismatch: Mismatch, pair: BlockPair, reason: Reason) -> Cause:
        path, code, what, parting = pair.left.path, reason.code, reason.what, pair.parting(reason)
        if isinstance(what, Spelled):
            return self._cause(mismatch, what.code, d.Respelled(path, what.spelling, *parting), override=what.override)
        if code is None or (code in _HARNESS and blocks.by_model(mismatch.envelope)):  # a model only speaks of them
            return self._cause(mismatch, Code.PREFIX_MOVED, d.TextChanged(path, "", *parting), differs=True)
        return self._cause(mismatch, code, d.TextChanged(path, what, *parting))

    def _other(self, mismatch: Mismatch, pair: BlockPair) -> Cause:
        """Explain blocks that are no texts: calls, results in place of texts, blocks of no known kind."""
        path = pair.left.path
        if pair.changed and pair.changed <= _SIGNED:
            return self._cause(mismatch, Code.THINKING_CHANGED, d.ThinkingChanged(path, "signature"))
        arguments = _arguments(pair.before, pair.after)
        if arguments is not None:
            why = reasons(*arguments, self._room)
            if len(why) == 1 and why[0].code in (Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED):
                return self._reason(mismatch, pair, why[0])
        found = of_values(pair.left.data, pair.right.data)
        if found is not None:
            return found.cause(self._section, mismatch.position, path)
        return self._cause(mismatch, Code.PREFIX_MOVED, d.BlockChanged(path, *pair.parting()), differs=True)


def _around_text(block: blocks.BlockParts) -> tuple[bytes, ...] | None:
    """Return what a result is apart from its content, where that is one text, plain or in a block; None elsewhere."""
    content = block.own.get("content") or block.own.get("output") or b""
    if content[:1] == b"[":
        only = blocks.parts(content)
        if len(only) != 1 or not _PLAIN.issuperset(only[0]):
            return None
    elif content[:1] != b'"':
        return None
    return tuple(sorted(key.encode() + canonical(raw) for key, raw in block.own.items() if raw is not content))


def _gave_way(left: blocks.BlockParts, right: blocks.BlockParts) -> bool:
    """Tell whether a text stands in a result where an image stood, and all other texts are the same."""
    if len(blocks.images_in(right)) >= len(blocks.images_in(left)):
        return False
    before, after = (
        {part["text"] for part in blocks.parts(block.own.get("content", b"")) if "text" in part}
        for block in (left, right)
    )
    return before <= after


def _runs(found: Sequence[Mismatch]) -> list[list[Mismatch]]:
    """Put what is gone side by side, whole messages of it, into one run; all else stands for itself."""
    runs: list[list[Mismatch]] = []
    for mismatch in found:
        last = runs[-1][-1] if runs else None
        if (
            last is None
            or mismatch.position - last.position > _APART
            or any(side.right or side.alone for side in (last, mismatch))
        ):
            runs.append([mismatch])
        else:
            runs[-1].append(mismatch)
    return runs


def _arguments(left: blocks.BlockParts, right: blocks.BlockParts) -> tuple[str, str] | None:
    """Return the arguments of two calls that are written as text, where nothing else differs."""
    both = [table(block.own.get("function", b"")) or {} for block in (left, right)]
    raw = [function.pop("arguments", b"") for function in both]
    if both[0] != both[1] or any(arguments[:1] != b'"' for arguments in raw):
        return None
    return text_of(raw[0]), text_of(raw[1])
