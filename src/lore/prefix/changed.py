"""Classify each difference between two prompts' texts, blocks and envelopes.

In: differences, with what else was taken out and put in. Out: notes. Rules: what a block is decides which reasons
fit (a result is rewritten, thinking is dropped, an image is encoded anew); a text is explained piece by piece; what
is gone at one place and stands at another has moved; only what nothing explains is `LORE100`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lore.model.canonical import canonical, text_of
from lore.model.common import common_bytes
from lore.model.jsonslice import table
from lore.model.prompt import NO_RESULT, Segment
from lore.prefix.blocks import Block, block_of, by_model, holds_image, images_in, kind_of, parts
from lore.prefix.divergence import excerpt
from lore.prefix.dropped import is_header
from lore.prefix.empty_values import is_message, say_the_same, says_nothing
from lore.prefix.history import Difference, near
from lore.prefix.notes import Note, Words
from lore.prefix.overlap import same_content
from lore.prefix.spelling import of_segments, of_values, same_numbers
from lore.prefix.texts import OTHER, Reason, Room, reasons
from lore.prefix.topics import is_reminder, topic
from lore.prefix.volatile_now import surely_varies

_TOPICS = {"git": ("LORE110", "the state of a repository or directory"), "memory": ("LORE126", "memory or context")}
_HARNESS = frozenset(code for code, _ in _TOPICS.values())  # what a program puts in
# What names an item of the Responses API and is no part of what it says; how a call is named in any API.
_ITEMS_OWN = frozenset(("id", "status"))
_CALL_IDS = frozenset(("id", "tool_use_id", "tool_call_id", "call_id"))
MOST = 48  # differences of one kind of block that are explained one by one
_APART = 2  # positions from the last block of a message to the first of the next: its envelope is between
_LARGEST = 4_194_304  # bytes of a text that is explained piece by piece
_THOUGHT = frozenset(("reasoning_content", "reasoning", "reasoning_details", "encrypted_content", "summary", "thinking",
                      "thinking_blocks"))  # fmt: skip
_SIGNED = frozenset(("thoughtSignature", "thought_signature", "signature"))


class About(NamedTuple):
    """What is known of both prompts beside one section's differences.

    `new` counts the blocks that the right prompt alone has; `cleared` says in words which results a session cleared;
    `relocated` are blocks that went from the messages into the system prompt, or back; `templated`: a chat template
    may see which members are there, though they hold nothing.
    """

    new: Counter[bytes]
    cleared: str | None
    relocated: frozenset[bytes]
    templated: bool


class Explained:
    """Explain the differences of one section."""

    def __init__(self, section: str, found: Sequence[Difference], about: About) -> None:
        self._section = section
        self._found = found
        self._new, self._cleared, self._relocated, self._templated = about
        self._gone = {one.mine.data for one in found if one.theirs is None and one.mine is not None}
        self._room = Room()
        self._seen: Counter[tuple[str, bool, bool]] = Counter()
        self._first: dict[tuple[str, bool, bool], int] = {}
        self._gone_by_model = any(one.theirs is None and by_model(one.envelope) and not one.alone for one in found)

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
                more = f"; {number - MOST} more differences of this kind were not looked at one by one"
                found[first] = found[first].wrapped(after=more)
        return found

    def _counted(self, one: Difference, place: int) -> list[Note]:
        """Explain a difference, but for those of a kind of which many were explained: causes repeat."""
        segment = one.mine or one.theirs
        assert segment is not None
        kind = kind_of(segment, one.envelope), one.mine is None, one.theirs is None
        self._seen[kind] += 1
        self._first.setdefault(kind, place)
        return self._notes(one) if self._seen[kind] <= MOST else []

    def _cut(self, run: Sequence[Difference]) -> Note | None:
        """Name messages that are gone side by side, answers of the model among them: history was cut there.

        What stood in them (reminders, thinking, images) went with them, and is no cause of its own.
        """
        paths = list(dict.fromkeys([_message_of(one.mine) for one in run if one.mine is not None]))
        if len(paths) < 2 or not any(by_model(one.envelope) for one in run):
            return None
        if any(one.mine is not None and self._new[one.mine.data] > 0 for one in run):
            return None
        first = run[0].mine
        return self._note(
            run[0], "LORE100", lambda: f"{len(paths)} messages are gone, {paths[0]} to {paths[-1]}: …{_shown(first)}…"
        )

    def _notes(self, one: Difference) -> list[Note]:
        if one.mine is None or one.theirs is None:
            return [self._single(one)]
        mine, theirs = one.mine, one.theirs
        ours, others = block_of(mine, one.envelope), block_of(theirs, one.envelope)
        if ours.text == others.text and same_content(mine, theirs):
            said = of_segments(mine, theirs)
            return [self._note(one, said.code, said.words)._replace(here=said.here, spelled=True)]
        if mine.kind == theirs.kind and say_the_same(mine, theirs):
            return [self._empty(one, f"{mine.path}: members that hold nothing come or go")]
        if is_header(mine) and is_header(theirs):
            return [self._note(one, "LORE107", "the billing header is another, and here it is content like all other")]
        named = self._named(one, ours, others)
        if named is not None:
            return [named]
        if mine.kind == "envelope" or theirs.kind == "envelope":
            return [self._envelope(one, ours, others)]
        kinds = {ours.kind, others.kind}
        if "thinking" in kinds:
            return [self._note(one, "LORE115", f"{mine.path}: thinking that was sent is another or missing")]
        if "image" in kinds:
            words = "an image became something else" if ours.kind != others.kind else "an image has other bytes"
            return [self._note(one, "LORE118", f"{mine.path}: {words}")]
        if kinds == {"result"}:
            return self._result(one, ours, others)
        if ours.text is not None and others.text is not None and ours.kind == others.kind:
            return self._text(one, ours.text, others.text)
        return [self._other(one, ours, others)]

    def _note(self, one: Difference, code: str, words: Words) -> Note:
        segment = one.mine or one.theirs
        return Note(code, self._section, one.position, words, path="" if segment is None else segment.path)

    def _empty(self, one: Difference, words: str) -> Note:
        """Say that nothing of a prompt differs; where a template sees it, only a bill can tell."""
        if self._templated:
            words += "; an API reads them as absent, the chat template of an open model may print them"
            return self._note(one, "LORE106", words)._replace(here="unattributable", spelled=True)
        return self._note(one, "LORE106", f"{words}: no prompt shows that")._replace(here="expected", spelled=True)

    def _single(self, one: Difference) -> Note:
        """Explain a segment that the other side has not, or has elsewhere."""
        segment = one.mine or one.theirs
        assert segment is not None
        if (one.alone or not is_message(segment)) and says_nothing(segment):
            return self._empty(one, f"{segment.path}: what holds nothing comes or goes")
        block = block_of(segment, one.envelope)
        where = segment.path
        moved = self._new[segment.data] > 0 if one.theirs is None else segment.data in self._gone
        moved = moved or segment.data in self._relocated
        if is_header(segment):
            return self._note(one, "LORE107", f"{where}: the billing header comes or goes")
        if block.kind == "thinking" or (segment.kind == "envelope" and block.own.get("type") == b'"reasoning"'):
            return self._note(one, "LORE115", f"{where}: thinking that was sent is {'moved' if moved else 'missing'}")
        if block.kind == "image":
            return self._note(one, "LORE118", f"{where}: an image {'is gone' if one.theirs is None else 'was put in'}")
        if block.kind == "text" and not (by_model(one.envelope) and not moved):
            return self._lone_text(one, block.text or "", moved=moved)
        what = "stands elsewhere" if moved else "is gone" if one.theirs is None else "was put in before what was sent"
        return self._note(one, "LORE100", lambda: f"{where} {what}: …{_shown(segment)}…")

    def _lone_text(self, one: Difference, text: str, *, moved: bool) -> Note:
        segment = one.mine or one.theirs
        assert segment is not None
        what = "stands elsewhere" if moved else "is gone" if one.theirs is None else "was put in before what was sent"

        def words() -> str:
            return f"{segment.path}: a text {what}: …{_shown(segment)}…"

        if moved or is_reminder(text):
            return self._note(one, "LORE111", words)
        about = topic("", text[:16_384], "")
        if about is not None:
            code, name = _TOPICS[about]
            return self._note(one, code, words).wrapped(before=f"{name}: ")
        sent = one.theirs is None and self._section == "messages"
        if sent and (one.alone or not self._gone_by_model) and not self._ends(one):
            return self._note(one, "LORE111", words)
        return self._note(one, "LORE100", words)

    def _ends(self, one: Difference) -> bool:
        """Tell whether what is gone was the end of what was sent: then nothing stands equal behind it."""
        return not one.alone and one is self._found[-1] and surely_varies(_shown(one.mine or one.theirs)) is None

    def _named(self, one: Difference, ours: Block, others: Block) -> Note | None:
        """Explain blocks and items that differ in nothing but how they are named."""
        changed = {key for key in (*ours.own, *others.own) if ours.own.get(key) != others.own.get(key)}
        assert one.mine is not None
        path = one.mine.path
        if changed and changed <= _ITEMS_OWN and path.startswith("input[") and one.mine.kind == "envelope":
            words = f"{path}: {', '.join(sorted(changed))} of the item is another, its content is the same"
            return self._note(one, "LORE106", words)._replace(here="unattributable", spelled=True)
        if len(changed) == 1 and changed <= _CALL_IDS and changed <= ours.own.keys() & others.own.keys():
            return self._note(one, "LORE108", f"{path}: the id of a call is another, all else is the same")
        return None

    def _envelope(self, one: Difference, ours: Block, others: Block) -> Note:
        changed = [key for key in dict.fromkeys((*ours.own, *others.own))
                   if canonical(ours.own.get(key, b"")) != canonical(others.own.get(key, b""))]  # fmt: skip
        assert one.mine is not None
        path = one.mine.path
        reasoning = b'"reasoning"' in (ours.own.get("type"), others.own.get("type"))
        if reasoning or (changed and _THOUGHT.issuperset(changed)):
            return self._note(
                one, "LORE115", f"{path}: {', '.join(changed)} of the model's message is another or missing"
            )
        what = ", ".join(changed) or "its shape"
        return self._note(one, "LORE100", lambda: f"{path} differs in {what}: {_difference(one)}")

    def _result(self, one: Difference, ours: Block, others: Block) -> list[Note]:
        assert one.mine is not None
        assert one.theirs is not None
        path = one.mine.path
        if NO_RESULT in one.mine.data:
            return [self._note(one, "LORE147", f"{path} was sent before its call had a result")]
        found: list[Note] = []
        if (holds_image(ours) or holds_image(others)) and images_in(ours) != images_in(others):
            found.append(self._note(one, "LORE118", f"{path}: an image in a tool's result is another, or became text"))
        if found and (ours.text == others.text or _gave_way(ours, others)):
            return found

        def rewritten() -> str:
            return self._cleared or f"{path} was sent before with other content: {_difference(one)}"

        told = _told(ours)
        if told is not None and ours.text == others.text and told == _told(others):
            words = f"{path} holds a text on one side and a block of it on the other"
            return [self._note(one, "LORE112", words)]

        codes: dict[str, Note] = {}
        for reason in reasons(ours.text or "", others.text or "", self._room)[:16] if _fits(one) else ():
            if reason.code in ("LORE105", "LORE106", "LORE109"):
                codes.setdefault(reason.code, self._reason(one, reason))
            else:
                codes.setdefault("LORE117", self._note(one, "LORE117", rewritten))
        return [*found, *(codes.values() or [self._note(one, "LORE117", rewritten)])]

    def _text(self, one: Difference, ours: str, others: str) -> list[Note]:
        assert one.mine is not None
        assert one.theirs is not None
        if ours == others:
            return [self._other(one, block_of(one.mine, one.envelope), block_of(one.theirs, one.envelope))]
        why = reasons(ours, others, self._room) if _fits(one) else [Reason(OTHER, "")]
        found = [self._reason(one, reason) for reason in why]
        shaped = (one.mine.data[:1] == b'"') != (one.theirs.data[:1] == b'"')
        if shaped and (
            near(ours.encode("utf-8", "replace"), others.encode("utf-8", "replace"))
            or any(reason.code != OTHER for reason in why)
        ):
            words = f"{one.mine.path} is a text on one side and a block of it on the other"
            found.append(self._note(one, "LORE112", words))
        return found

    def _reason(self, one: Difference, reason: Reason) -> Note:
        assert one.mine is not None
        if reason.code in _HARNESS and by_model(one.envelope):  # the model only speaks of such things
            reason = reason._replace(code=OTHER)
        mine = one.mine
        if reason.code == OTHER:
            words = self._note(one, "LORE100", lambda: f"{mine.path} differs: {_parting(one, reason)}")
            return words._replace(here=reason.here, differs=True)
        note = self._note(one, reason.code, lambda: f"{reason.words} in {mine.path}: {_parting(one, reason)}")
        return note._replace(here=reason.here)

    def _other(self, one: Difference, ours: Block, others: Block) -> Note:
        """Explain blocks that are no texts: calls, results in place of texts, blocks of no known kind."""
        assert one.mine is not None
        assert one.theirs is not None
        changed = {key for key in (*ours.own, *others.own) if ours.own.get(key) != others.own.get(key)}
        if changed and changed <= _SIGNED:
            return self._note(one, "LORE115", f"{one.mine.path}: the signature of thinking is another or missing")
        inner = _arguments(ours, others)
        if inner is not None:
            said = reasons(*inner, self._room)
            if len(said) == 1 and said[0].code in ("LORE105", "LORE106"):
                return self._reason(one, said[0])
        if same_numbers(one.mine.data, one.theirs.data):
            words = f"{one.mine.path}: a number is written otherwise (1.0 or 1)"
            return self._note(one, "LORE106", words)._replace(spelled=True)
        path = one.mine.path
        if _fits(one) and (said := of_values(one.mine.data, one.theirs.data)) is not None:
            return self._note(one, said.code, f"{path}: {said.words}")._replace(here=said.here)
        return self._note(one, "LORE100", lambda: f"{path} differs: {_difference(one)}")._replace(differs=True)


def _told(block: Block) -> tuple[bytes, ...] | None:
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


def _gave_way(ours: Block, others: Block) -> bool:
    """Tell whether a text stands in a result where an image stood, and all other texts are the same."""
    if len(images_in(others)) >= len(images_in(ours)):
        return False
    mine, theirs = (
        [one["text"] for one in parts(side.own.get("content", b"")) if "text" in one] for side in (ours, others)
    )
    return set(mine) <= set(theirs)


def _runs(found: Sequence[Difference]) -> list[list[Difference]]:
    """Put what is gone side by side, whole messages of it, into one run; all else stands for itself."""
    runs: list[list[Difference]] = []
    for one in found:
        last = runs[-1][-1] if runs else None
        if last is not None and _is_gone(one) and _is_gone(last) and one.position - last.position <= _APART:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _is_gone(one: Difference) -> bool:
    return one.theirs is None and not one.alone


def _message_of(segment: Segment) -> str:
    return segment.path.partition("]")[0] + "]"


def _arguments(ours: Block, others: Block) -> tuple[str, str] | None:
    """Return the arguments of two calls that are written as text, where nothing else differs."""
    both = [table(one.own.get("function", b"")) or {} for one in (ours, others)]
    raw = [one.pop("arguments", b"") for one in both]
    if both[0] != both[1] or any(one[:1] != b'"' for one in raw):
        return None
    return text_of(raw[0]), text_of(raw[1])


def _fits(one: Difference) -> bool:
    assert one.mine is not None
    assert one.theirs is not None
    return len(one.mine.data) + len(one.theirs.data) <= _LARGEST


def _shown(segment: Segment | None) -> str:
    return excerpt(segment, 0, 0, 60)


def _parting(one: Difference, reason: Reason) -> str:
    """Show where two pieces of text part, as they stand in their segments."""
    assert one.mine is not None
    assert one.theirs is not None
    return f"…{_around(one.mine, reason.mine, reason)}… became …{_around(one.theirs, reason.theirs, reason)}…"


def _around(segment: Segment, piece: str, reason: Reason) -> str:
    at, raw = 0, piece.encode("utf-8", "replace")
    same = common_bytes(reason.mine.encode("utf-8", "replace"), reason.theirs.encode("utf-8", "replace"))
    if raw and (at := segment.data.find(raw)) >= 0:
        return excerpt(segment, at + same, 24, 24)
    return excerpt(Segment(segment.section, "", raw or segment.data), same, 24, 24)


def _difference(one: Difference) -> str:
    assert one.mine is not None
    assert one.theirs is not None
    at = common_bytes(one.mine.data, one.theirs.data)
    return f"…{excerpt(one.mine, at, 24, 24)}… became …{excerpt(one.theirs, at, 24, 24)}…"
