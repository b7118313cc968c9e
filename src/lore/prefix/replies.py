"""Which chain's latest reply a request holds: what the model said is known where responses are recorded.

In: the output of each response, and requests. Out: what a reply is known by (ids of its calls, texts that no other
reply has), and whether a request's latest answer has some of it. Rules: a reply is read when it is first asked for,
at most once; those that nobody asks for are never put together. Memory: what was not read, up to `ROOM` bytes, the
oldest forgotten first; a few hashes of what was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeAlias, cast

from lore.model.canonical import decode
from lore.model.prompt import Prompt, Segment
from lore.model.turn import Output
from lore.prefix.likeness import is_models

ROOM = 8 * 1024 * 1024
LOOKED_AT = 128  # segments in which answers are sought, from a request's beginning or its end
DISTINCT = 48  # bytes or characters of a text by which an answer is known: "Done." is said in many conversations
_ID = 16  # of a name that a provider makes up; some servers count their calls
_MOST = 64  # texts by which one reply is known
_IDS = ("id", "call_id", "toolUseId")

Keys: TypeAlias = frozenset[int]


class Replies:
    """The latest reply of each chain; `joined` puts one together that came in pieces."""

    def __init__(self, joined: Callable[[Output], bytes], room: int = ROOM) -> None:
        self._joined = joined
        self._room = room
        self._unread: dict[str, Output] = {}  # by chain, the oldest first
        self._read: dict[str, Keys] = {}

    def note(self, chain: str, output: Output) -> None:
        """Take a chain's latest reply; the one before it is nobody's any more."""
        self.forget(chain)
        if output:
            self._unread[chain] = output
            self._room -= _size(output)
        while self._room < 0:
            self.forget(next(iter(self._unread)))

    def forget(self, chain: str) -> None:
        """Forget a chain's reply."""
        self._read.pop(chain, None)
        unread = self._unread.pop(chain, None)
        self._room += 0 if unread is None else _size(unread)

    def of(self, chain: str) -> Keys:
        """Return what a chain's reply is known by."""
        unread = self._unread.get(chain)
        if unread is not None:
            self.forget(chain)
            self._read[chain] = frozenset(islice(_keys(self._joined(unread)), _MOST))
        return self._read.get(chain, frozenset())


def latest_answer(prompt: Prompt) -> Keys:
    """Return what the latest answer that a request holds is known by."""
    size, found = len(prompt.messages), set[int]()
    blocks: list[Segment] = []
    for place in range(size - 1, max(-1, size - 1 - LOOKED_AT), -1):
        segment = prompt.messages[place]
        blocks.append(segment)
        if segment.kind != "envelope":
            continue
        if is_models(segment):
            found.update(*(islice(_keys(block.json), _MOST) for block in blocks))
        elif found:
            break
        blocks = []
    return frozenset(found)


def _keys(raw: bytes) -> Iterator[int]:
    """Yield hashes of the texts and ids by which a reply is known, wherever they stand in it."""
    try:
        waiting: list[tuple[str, object]] = [("", decode(raw))]
    except (ValueError, RecursionError):
        return
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += cast("dict[str, object]", value).items()
        elif isinstance(value, list):
            waiting += [(key, element) for element in cast("list[object]", value)]
        elif isinstance(value, str) and len(text := value.strip()) >= (_ID if key in _IDS else DISTINCT):
            yield hash(text)


def _size(output: Output) -> int:
    return len(output if isinstance(output, bytes) else output.raw)
