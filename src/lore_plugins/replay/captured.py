"""The capture that a replay writes: a record a request, read by every command as the log of a recording proxy.

In: requests as they were sent, their answers. Out: lines, each written whole and synchronised before the next request
is sent. Rules: one writer at a time holds the file; a last line that is torn is cut off when the file is opened again;
what was sent is known by the SHA-256 of its body, so that a second run goes on behind it. Headers are those that are
handed in: no key is among them. The file is its owner's alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from lore.errors import LoreError, Where, reason_of
from lore.files import append, synchronise_folder, try_lock
from lore.model import RECORD_BYTES, UTILITY, encode, parts, table, text_of
from lore.prefix import REPLAY
from lore.recording import show

VERSION = 1
_PIECE = 1 << 20


class Captured(NamedTuple):
    """One request with its answer. Times are seconds since the epoch; `served_by` is empty where nobody knows.

    `turn` and `chain` name what was replayed; `salt` kept its cache apart (empty: none).
    """

    url: str
    headers: dict[str, str]
    body: bytes
    sent: float
    status: int
    answer_headers: dict[str, str]
    answer: bytes
    began: float
    ended: float
    turn: int
    chain: str
    served_by: str = ""
    salt: str = ""


def digest_of(body: bytes) -> str:
    """Return what a request is known by."""
    return hashlib.sha256(body).hexdigest()


def line_of(record: Captured) -> bytes:
    """Write a record, with its end; both bodies are UTF-8. Without an answer (status 0) `response` is null."""
    request = {
        "method": "POST", "url": record.url, "headers": record.headers, "body": record.body.decode("utf-8", "replace"),
        "timestamp": record.sent,
    }  # fmt: skip
    response: dict[str, Any] | None = None
    if record.status:
        response = {
            "status": record.status, "headers": record.answer_headers, "timestamp": record.began,
            "body": record.answer.decode("utf-8", "replace"),
        }  # fmt: skip
    replayed = {
        "v": VERSION, "turn": record.turn, "chain": record.chain, "sha256": digest_of(record.body),
        "seconds": round(record.ended - record.sent, 6), **({"salt": record.salt} if record.salt else {}),
    }  # fmt: skip
    known = {"served_by": record.served_by} if record.served_by else {}
    known["purpose"] = "utility" if record.chain.startswith(UTILITY) else REPLAY
    return encode({"request": request, "response": response, **known, "replay": replayed}) + b"\n"


def salt_in(path: str) -> str:
    """Return the salt of the first record of a capture; empty where there is none."""
    try:
        with open(path, "rb") as file:
            first = file.readline(RECORD_BYTES)
    except (OSError, ValueError):
        return ""
    salt = text_of(parts((table(first) or {}).get("replay", b"")).get("salt", b'""'))
    return salt if re.fullmatch("[0-9a-f]{8}", salt) else ""


class CaptureFile:
    """A capture that is held by this process; `sent` are the digests of what it says was sent, in order."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self.path, self.shown = descriptor, path, show(path)
        self.sent: list[str] = []
        self._end = self._read()
        if self._end < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, self._end)

    def append(self, record: Captured) -> None:
        """Write a record behind the others; what cannot be written whole is taken back. Raises LoreError."""
        line = line_of(record)
        if len(line) > RECORD_BYTES:
            raise LoreError(
                f"turn {record.turn}: a record longer than {RECORD_BYTES >> 20} MiB, which no reader would take"
            )
        try:
            append(self._descriptor, line, self._end)
        except OSError as error:
            raise _refused(self.shown, error) from None
        self._end += len(line)
        self.sent.append(digest_of(record.body))

    def empty(self) -> None:
        """Throw away what it holds: it was seen to be a capture of a replay, and nothing else is thrown away."""
        os.ftruncate(self._descriptor, 0)
        self.sent, self._end = [], 0

    def _read(self) -> int:
        """Take the whole records, and return where the last one ends. Raises LoreError for any other line."""
        end, number, rest = 0, 0, b""
        while piece := os.read(self._descriptor, _PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                number += 1
                self.sent.append(self._digest(line, number, end))
                end += len(line) + 1
        return end

    def _digest(self, line: bytes, number: int, at: int) -> str:
        replayed = parts((table(line) or {}).get("replay", b""))
        if replayed.get("v") != str(VERSION).encode() or replayed.get("sha256", b"")[:1] != b'"':
            hint = "name another --output, or overwrite this one with --force"
            raise LoreError(
                f"{self.shown} is no capture of lore replay", hint=hint, where=Where(self.shown, number, at)
            )
        return text_of(replayed["sha256"])


@contextmanager
def capture_file(path: str, *, resume: bool = False, force: bool = False) -> Generator[CaptureFile]:
    """Open a capture to write to, and hold it; `resume` goes on with one that is there, `force` empties it.

    Raises LoreError where it exists and neither was asked for, is held by another process, or cannot be written.
    """
    shown = show(path)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    new = 0 if resume or force else os.O_EXCL
    try:
        descriptor = os.open(path, flags | new, 0o600)
    except FileExistsError:
        raise taken(shown) from None
    except (OSError, ValueError) as error:
        raise _refused(shown, error) from None
    existed = os.fstat(descriptor).st_size > 0
    try:
        if not os.path.isfile(path):
            raise LoreError(f"{shown} is not a regular file", hint="name another --output")
        if not try_lock(descriptor):
            raise LoreError(f"{shown} is being written by another lore replay", hint="name another --output")
        synchronise_folder(os.path.dirname(os.path.abspath(path)))
        file = CaptureFile(descriptor, path)
        if force and not resume:
            file.empty()
        yield file
    finally:
        if not existed and os.path.isfile(path) and not os.fstat(descriptor).st_size:
            with suppress(OSError):  # nothing was answered: no file is left of it
                os.unlink(path)
        os.close(descriptor)


def taken(shown: str) -> LoreError:
    """Return the error for a capture that exists."""
    hint = "go on with it by --resume, overwrite it by --force, or name another --output"
    return LoreError(f"{shown} exists", hint=hint)


def _refused(shown: str, error: OSError | ValueError) -> LoreError:
    return LoreError(f"cannot write {shown}: {reason_of(error)}", hint="name another file with --output")
