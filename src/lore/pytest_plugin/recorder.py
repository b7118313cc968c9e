"""Record what HTTP clients send: `httpx`, `httpx2`, `requests`, `aiohttp`, `botocore` and `urllib3`, sync and async.

Rules: a request is recorded before it goes on, once, and changed by nothing; of a response is kept what its client
reads, when it reads it; no key is kept: of headers those in `listening.HEADERS`, of the URL neither query nor user, nor
what looks like a key. Bodies are kept verbatim. Where requests pass is in `seams.py`, how they are heard in
`listening.py`: both are imported by the first recording, and not by each run of pytest.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from os import PathLike
from time import time
from typing import Any, cast

from lore.pytest_plugin.running import LoreWarning

_PACKED = ("gzip", "x-gzip", "deflate", "br", "zstd")


@dataclass(slots=True)
class Recorded:
    """One request; `body` are its bytes on the wire (None: a stream), times are seconds since the epoch.

    `status` is None where no response came. `response` is what the client has read of the response's body, unpacked;
    None where it has read nothing of it.
    """

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None
    at: float
    answered: float | None = None
    status: int | None = None
    _encoding: str = field(default="", repr=False)
    _pieces: list[bytes] = field(default_factory=list[bytes], repr=False)

    @property
    def may_be_prompt(self) -> bool:
        """Whether it is worth to keep its response: a POST of a JSON object, or of what cannot be seen."""
        if self.method != "POST":
            return False
        packed = self.headers.get("content-encoding", "").lower() in _PACKED
        return self.body is None or packed or self.body[:64].lstrip()[:1] == b"{"

    @property
    def response(self) -> bytes | None:
        """What the client has read of the response's body so far."""
        return _unpacked(b"".join(self._pieces), self._encoding) if self._pieces else None

    def take(self, status: int | None, encoding: str, pieces: list[bytes]) -> None:
        """Take the response; `pieces` grows while the client reads it."""
        self.answered = time()
        self.status, self._encoding, self._pieces = status, encoding, pieces

    def record(self) -> dict[str, Any]:
        """Return it as a record that lore reads: `{request, response, timestamp, …}`."""
        body = None if self.body is None else _unpacked(self.body, self.headers.get("content-encoding", ""))
        return {
            "timestamp": self.at, "method": self.method, "url": self.url, "headers": self.headers,
            "request": None if body is None else body.decode("utf-8", "backslashreplace"),
            "status": self.status, "answered": self.answered, "response": _json(self.response),
        }  # fmt: skip


class Recorder:
    """What was sent, in order. `watched` names the client libraries that are recorded and installed.

    `faults` counts what went wrong inside lore while it listened. Clients may send from any thread and task; read it
    when they have sent.
    """

    def __init__(self, watched: tuple[str, ...] = ()) -> None:
        self.watched = watched
        self.requests: list[Recorded] = []
        self.faults: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    def clear(self) -> None:
        """Forget what was recorded so far."""
        self.requests.clear()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the prompts among them as JSON Lines that `lore check` reads; bodies verbatim, with what they hold."""
        lines = (json.dumps(request.record()).encode() + b"\n" for request in self.requests)
        with open(path, "wb") as file:
            file.writelines(filter(_is_prompt, lines))


@contextmanager
def recording() -> Generator[Recorder]:
    """Record what this process sends until the block ends; then everything is as it was before.

    Recordings may stand in one another, and run in several threads: each records all that the process sends. What goes
    wrong inside lore changes nothing for the client: a LoreWarning says so at the end.
    """
    from lore.pytest_plugin.listening import LISTENING  # noqa: PLC0415
    from lore.pytest_plugin.seams import LIBRARIES  # noqa: PLC0415

    recorder = Recorder(tuple(library for library in LIBRARIES if is_installed(library)))
    LISTENING.begin(recorder)
    try:
        yield recorder
    finally:
        LISTENING.end(recorder)
    for fault, times in recorder.faults.items():
        warnings.warn(LoreWarning(f"lore failed to record, {times} times: {fault}; report it"), stacklevel=3)


def is_installed(library: str) -> bool:
    """Tell whether a library can be imported, without importing it."""
    try:
        return find_spec(library) is not None
    except ValueError:  # it is imported already, from nowhere
        return True


def _is_prompt(line: bytes) -> bool:
    from lore.formats.captures.bodies import Bodies  # noqa: PLC0415 - a recorder alone needs no reader
    from lore.model.turn import Exchange  # noqa: PLC0415

    return any(isinstance(read.value, Exchange) for read in Bodies().read([line]))


def _unpacked(data: bytes, encoding: str) -> bytes:
    """Return a body as it was before it was packed; one that cannot be unpacked, or is damaged, as it is."""
    from lore.formats.contents import ContentError, decompress  # noqa: PLC0415 - only what is read needs it

    try:
        return decompress(data, encoding)
    except ContentError:
        return data


def _json(body: bytes | None) -> object:
    """Return a response as JSON where it is an object, the events of a binary stream as a list, else text."""
    from lore.formats.contents import framed_events, is_framed  # noqa: PLC0415

    if body is None:
        return None
    if is_framed(body):
        return [_json(event) for event in framed_events(body)]
    text = body.decode("utf-8", "backslashreplace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return cast("object", value) if isinstance(value, dict) else text
