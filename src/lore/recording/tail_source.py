"""Logs that are being written: one name, one log after another, each as the bytes that come.

In: a path and what waits between two looks. Out: logs; of each enough to recognise it, then its bytes
and `None` whenever all that there was has been read, until it is another log. Rules: a file that cannot
be read at the start is an error; what was there at the start and is no recording too; what came later
is waited for, up to 256 KiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from lore.errors import LoreError
from lore.formats.recognition import may_be_recording
from lore.recording import corpus
from lore.recording.opening import kind_of
from lore.recording.tailing import INTERVAL, Change, Tail, Wait

Say = Callable[[str], None]


def every(seconds: float = INTERVAL) -> bool:
    """Wait a moment; what follows a file waits with this unless it is given something else."""
    time.sleep(seconds)
    return True


def check_followable(path: str) -> None:
    """Raise LoreError where an input cannot be followed."""
    if corpus.is_stored(path):
        hint = "run the command again after a while, or `lore store export` it to a file"
        raise LoreError(f"{corpus.show(path)} is a stored session, not a file that grows", hint=hint)
    if corpus.is_stream(path):
        hint = "name the file that is being written"
        raise LoreError(f"{corpus.show(path)} is a stream, not a file that grows", hint=hint)


class Live:
    """Follow a name. `over` once waiting has ended."""

    def __init__(self, path: str, format: str | None, wait: Wait, say: Say) -> None:
        check_followable(path)
        self.shown = corpus.show(path)
        self.over = False
        self._path = path
        self._format = format
        self._say = say
        self._looked = False
        self._quiet = False
        self._held: list[bytes] = []
        try:
            self._tail = iter(Tail(path, wait))
        except OSError as error:
            raise corpus.unreadable(path, error) from None
        except ValueError as error:  # an embedded NUL
            raise LoreError(f"cannot open {self.shown!r}: {error}") from None

    def head(self) -> bytes | None:
        """Wait for the next log; return its beginning, in whole lines, or None where waiting ended."""
        while (one := self._next()) is not None:
            self._quiet = not one
            if isinstance(one, bytes) and one:
                self._held.append(one)
                if sum(map(len, self._held)) < corpus.HEAD:
                    continue
            head, first = self._beginning(), not self._looked
            self._looked = True
            if head and (first or len(head) >= corpus.HEAD // 2 or kind_of(head, self._format) is not None):
                return head
        return None

    def _beginning(self) -> bytes:
        """Return the first lines: 256 KiB, or the first that says anything where that is longer; empty: not yet."""
        data = b"".join(self._held)
        begin = len(data) - len(data.lstrip())
        end = data.rfind(b"\n", begin, corpus.HEAD)
        end = end if end >= 0 else data.find(b"\n", begin)
        if end < 0 and len(data) < corpus.HEAD_LIMIT and may_be_recording(data):
            return b""
        return data[: end + 1] if end >= 0 else data[: corpus.HEAD]

    def pieces(self) -> Iterator[bytes | None]:
        """Yield the bytes of the log whose head was returned, None where there are no more for now."""
        held, self._held = self._held, []
        yield from held
        if self._quiet:
            yield None
        while (one := self._next()) is not None:
            if isinstance(one, Change):
                return
            yield one or None

    def _next(self) -> bytes | Change | None:
        """Return the next bytes (none: all was read), or a change to another log; None where waiting ended."""
        try:
            for one in self._tail:
                if not isinstance(one, Change):
                    return one or b""
                what = "; it is read from its beginning" if one.anew else ""
                self._say(f"{self.shown} {one.said}{what}")
                if one.anew:
                    self._held = []
                    return one
        except OSError as error:
            raise corpus.unreadable(self._path, error) from None
        self.over = True
        return None
