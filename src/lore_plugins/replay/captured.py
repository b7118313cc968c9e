"""The capture that a replay writes: one record per request, in the format of the recording proxy's captures.

Each line is written whole and flushed to disk before the next request is sent. One process at a time holds the file,
which only its owner can read. A torn last line is cut off when the file is opened again. A sent request is identified
by the SHA-256 of its body, so that a second run can continue. Headers are those of the caller, without keys.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lore.errors import LoreError, Where, reason_of
from lore.files import OTHER_OUTPUT, append, open_capture, write_error
from lore.model import RECORD_BYTES, REPLAY, UTILITY, encode, raw_members, sliced_members, text_of
from lore.recording import show

if TYPE_CHECKING:
    from lore.endpoints import HttpAnswer
    from lore_plugins.replay.plan import PlannedRequest

VERSION = 1
_PIECE = 1 << 20


def digest_of(body: bytes) -> str:
    """Return the SHA-256 by which a request is identified."""
    return hashlib.sha256(body).hexdigest()


def line_of(request: PlannedRequest, url: str, answer: HttpAnswer | None, engine: str = "") -> bytes:
    """Return the record of a request and its answer; `engine` served it ("" if unknown). No answer is null."""
    headers = {"content-type": "application/json"}
    if request.betas:
        headers["anthropic-beta"] = ",".join(request.betas)
    body, sent_at, seconds, response = request.payload.body, request.at or 0.0, 0.0, None
    if answer is not None:
        sent_at, seconds = answer.sent_at, round(answer.ended - answer.sent_at, 6)
        response = {
            "status": answer.status, "headers": answer.headers, "timestamp": answer.began,
            "body": answer.body.decode("utf-8", "replace"),
        }  # fmt: skip
    record = {
        "method": "POST", "url": url, "headers": headers, "body": body.decode("utf-8", "replace"), "timestamp": sent_at,
    }  # fmt: skip
    salt = {"salt": request.salt} if request.salt else {}
    replayed = {
        "v": VERSION, "turn": request.turn, "chain": request.chain, "sha256": digest_of(body), "seconds": seconds,
        **salt,
    }  # fmt: skip
    labels = {"served_by": engine} if engine else {}
    labels["purpose"] = "utility" if request.chain.startswith(UTILITY) else REPLAY
    return encode({"request": record, "response": response, **labels, "replay": replayed}) + b"\n"


class CaptureFile:
    """A capture that this process holds."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self.path, self.label = descriptor, path, show(path)
        self.digests: list[str] = []  # digests of the requests in the file, in order
        self.salt = ""  # of its first request, "" if there is none
        self._end = self._read()
        if self._end < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, self._end)

    def append(self, request: PlannedRequest, url: str, answer: HttpAnswer, engine: str) -> None:
        """Append the record of an answer, whole or not at all. Raises LoreError."""
        line = line_of(request, url, answer, engine)
        if len(line) > RECORD_BYTES:
            message = f"turn {request.turn}: a record longer than {RECORD_BYTES >> 20} MiB, which no reader accepts"
            raise LoreError(message)
        try:
            append(self._descriptor, line, self._end)
        except OSError as error:
            raise write_error(self.label, reason_of(error)) from None
        self._end += len(line)
        self.digests.append(digest_of(request.payload.body))

    def empty(self) -> None:
        """Delete all records; opening the file has verified that it holds nothing else."""
        os.ftruncate(self._descriptor, 0)
        self.digests, self.salt, self._end = [], "", 0

    def _read(self) -> int:
        """Read the whole records, and return the end of the last. Raise LoreError for any other line."""
        end, number, partial_line = 0, 0, b""
        while piece := os.read(self._descriptor, _PIECE):
            *lines, partial_line = (partial_line + piece).split(b"\n")
            for line in lines:
                number += 1
                self.digests.append(self._digest(line, number, end))
                end += len(line) + 1
        return end

    def _digest(self, line: bytes, number: int, at: int) -> str:
        replayed = sliced_members((raw_members(line) or {}).get("replay", b""))
        if replayed.get("v") != str(VERSION).encode() or replayed.get("sha256", b"")[:1] != b'"':
            message = f"{self.label} was not written by lore replay"
            raise LoreError(message, hint=OTHER_OUTPUT, where=Where(self.label, number, at))
        salt = text_of(replayed.get("salt", b'""'))
        self.salt = salt if number == 1 and re.fullmatch("[0-9a-f]{8}", salt) else self.salt
        return text_of(replayed["sha256"])


@contextmanager
def capture_file(path: str, *, resume: bool = False, force: bool = False) -> Generator[CaptureFile]:
    """Open and hold a capture for writing; `resume` continues an existing one, `force` empties it.

    Raise LoreError if it exists (without either), is held by another process, or cannot be written.
    """
    label = show(path)
    try:
        descriptor = open_capture(path, label, "lore replay", is_new=not resume and not force)
    except (OSError, ValueError) as error:
        raise write_error(label, reason_of(error)) from None
    existed = os.fstat(descriptor).st_size > 0
    try:
        if not os.path.isfile(path):
            raise LoreError(f"{label} is not a regular file", hint=OTHER_OUTPUT)
        file = CaptureFile(descriptor, path)
        if force and not resume:
            file.empty()
        yield file
    finally:
        if not existed and os.path.isfile(path) and not os.fstat(descriptor).st_size:
            with suppress(OSError):  # without any answer no file remains
                os.unlink(path)
        os.close(descriptor)
