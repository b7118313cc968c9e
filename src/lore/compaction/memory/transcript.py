"""Entries of a timeline -> what people and the model said to each other.

Rules: streamed, an entry at a time; only real words count: what a harness or lore put in (`context_injection`), any
other source than a user, ticks, and what the model answered to a tick are passed over, as are reasoning, calls,
their results and summaries of compactions. 96.9 % of what one system remembered came from its scheduler: what no
person began is not transcript_of. Harnesses also write into a user's message, between tags whose names have a hyphen
(`<system-reminder>`, `<task-notification>`, `<command-name>`): that is no more what a person said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from lore.model.canonical import printable, text_of
from lore.model.items import AssistantMessage, TextBlock, UserMessage, is_absent
from lore.model.mask import mask
from lore.model.state import Entry
from lore.prompt.layout import TICKS

Role = Literal["user", "assistant"]
_TAG = re.compile(r"<([a-z]+(?:-[a-z]+)+)(?: [^<>]*)?>")
MOST = 20_000  # characters of one message: a pasted file is no memory


class Message(NamedTuple):
    """One message's words; credentials in them are masked, for they are not to be remembered.

    What is not new was learnt from before, and only says what the rest answers.
    """

    role: Role
    text: str
    is_new: bool = True


def transcript_of(entries: Iterable[Entry], old: int = 0) -> Iterator[Message]:
    """Yield what was said, oldest first; the first `old` entries are not new. Costs O(the text)."""
    is_real = False  # whether the exchange was begun by a person; before the first message nobody is known
    for place, entry in enumerate(entries):
        item = entry.item
        if isinstance(item, UserMessage):
            text = _without_tags(_words(item))
            if item.source == "context_injection":
                continue  # it stands before the message of a person, and begins no exchange
            is_real = item.source == "user" and not text.lstrip().startswith(TICKS)
            if is_real and text.strip():
                yield Message("user", _safe(text), place >= old)
        elif isinstance(item, AssistantMessage) and is_real:
            text = _words(item)
            if text.strip():
                yield Message("assistant", _safe(text), place >= old)


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


def _safe(text: str) -> str:
    return mask(printable(text))[:MOST]
