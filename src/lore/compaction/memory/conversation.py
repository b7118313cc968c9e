"""What of a timeline is learnt from: what people and the model said to each other, behind the mark of the last time.

Only exchanges that a person began count: 96.9 % of what one system remembered came from its scheduler. What is new is
learnt from with the beginning of its exchange, since what an answer means depends on the question. What a harness wrote
into a user's message between tags whose names have a hyphen (`<system-reminder>`) is passed over.

A mark says up to where a session was learnt from: digests of a few of its entries. It is small however long the session
is; another session of the same name is new as a whole; after a rewind the entries that are left still stand for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

from lore.compaction.activity import Entries, has_real_activity, is_injected, needs_extraction
from lore.model.canonical import printable, text_of
from lore.model.items import AssistantMessage, TextBlock, UserMessage, is_absent
from lore.model.mask import mask
from lore.model.state import Entry
from lore.prompt.layout import TICKS, is_real

Role = Literal["user", "assistant"]
_TAG = re.compile(r"<([a-z]+(?:-[a-z]+)+)(?: [^<>]*)?>")
MOST = 20_000  # characters of one message: a pasted file is no memory


class Message(NamedTuple):
    """One message's words, credentials masked. What is not new only says what the rest answers."""

    role: Role
    text: str
    is_new: bool = True


def transcript_of(entries: Iterable[Entry], old: int = 0) -> Iterator[Message]:
    """Yield what was said, oldest first; the first `old` entries are not new. Costs O(the text)."""
    is_real = False  # whether the exchange was begun by a person; before the first message nobody is known
    for place, entry in enumerate(entries):
        item, text = entry.item, ""
        if isinstance(item, UserMessage) and not is_injected(item):  # that begins no exchange
            text = _without_tags(_words(item))
            is_real = item.source == "user" and not text.lstrip().startswith(TICKS)
        elif isinstance(item, AssistantMessage):
            text = _words(item)
        if is_real and text.strip():
            role: Role = "user" if isinstance(item, UserMessage) else "assistant"
            yield Message(role, mask(printable(text))[:MOST], place >= old)


def _words(item: UserMessage | AssistantMessage) -> str:
    if item.blocks is None:
        return "" if is_absent(item.text) else text_of(bytes(item.text))
    return "\n".join(text_of(bytes(block.text)) for block in item.blocks if isinstance(block, TextBlock))


def _without_tags(text: str) -> str:
    """Leave out what stands between a tag of a harness and its end; a tag without an end goes alone. Linear."""
    kept, begin, endless = list[str](), 0, set[str]()
    for tag in _TAG.finditer(text):
        if tag.start() < begin:
            continue
        end = -1 if tag[1] in endless else text.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            endless.add(tag[1])
        kept.append(text[begin : tag.start()])
        begin = tag.end() if end < 0 else end + len(tag[1]) + 3
    return "".join((*kept, text[begin:]))


Mark: TypeAlias = tuple[str, ...]

BACK = (1, 2, 5, 17, 65, 257)  # how far from the end the entries stand that are noted
DIGITS = 16


def mark_of(entries: Entries, stop: int | None = None) -> Mark:
    """Return the mark of having learnt from all entries before a place; empty where there are none."""
    end = len(entries) if stop is None else stop
    return tuple([_digest(entries[end - back].item.uuid) for back in BACK if back <= end])


def behind(entries: Entries, mark: Mark | None) -> int:
    """Return the place behind a mark; 0 where nothing of it is left. Costs O(what is behind)."""
    noted = frozenset(mark or ())
    for place in range(len(entries) - 1, -1, -1) if noted else ():
        if _digest(entries[place].item.uuid) in noted:
            return place + 1
    return 0


def _digest(uuid: str) -> str:
    return sha256(uuid.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


class Given(NamedTuple):
    """Entries to learn from; the first `old` of them were learnt from before, and say what the others answer."""

    entries: Iterable[Entry] = ()
    old: int = 0


NOTHING = Given()


def to_learn(entries: Entries, mark: Mark | None, stop: int | None = None) -> Given:
    """Return what is new before a place, with the beginning of its exchange; `NOTHING` if no person began any."""
    place, end = behind(entries, mark), len(entries) if stop is None else stop
    if place >= end:
        return NOTHING
    begun = _begun(entries, place)
    old, new = (
        [entries[at] for at in range(*ends) if not is_injected(entries[at].item)]
        for ends in ((begun, place), (place, end))
    )
    return Given([*old, *new], len(old)) if new and has_real_activity([*old, *new]) else NOTHING


def is_enough(entries: Entries, mark: Mark | None, window: int) -> bool:
    """Tell whether enough is new: `activity.needs_extraction` of what stands behind the mark."""
    return needs_extraction([entries[at] for at in range(behind(entries, mark), len(entries))], window)


def _begun(entries: Entries, place: int) -> int:
    """Return where a person's exchange begins that goes on at a place; the place itself where none does."""
    first = next((at for at in range(place, len(entries)) if not is_injected(entries[at].item)), None)
    if first is not None and not isinstance(entries[first].item, UserMessage):
        for at in range(place - 1, -1, -1):
            item = entries[at].item
            if isinstance(item, UserMessage) and not is_injected(item):
                return at if is_real(item) else place
    return place
