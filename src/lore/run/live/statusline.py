"""`lore statusline`: one line about the session that runs, from what is kept of its growing log in a small file.

In: what was asked for, what Claude Code writes to standard input, the time. Out: the line, and the name of a log or
project that has to be judged by another process. Rules: nothing here fails; what cannot be read or written is as if it
were not there. The file holds numbers and names alone, private, under a checksum of the log's path; it is gone on from
by what was added only where the log's first KiB and the last 4 KiB before the place that was read are what they were,
and what was added plainly goes on (`model/running.py`); else the log has to be judged (`running.py`). Standard library
alone, so that starting takes as long as reading. Cost: a look at the log, 5 KiB of it, what was added.

Source: Claude Code's page on status lines, and what public scripts of them read, 2026-11: `transcript_path`, `cwd`,
`model.display_name`, `cost.total_cost_usd`, `context_window.used_percentage` and `.current_usage` (the counts of
the last request; null before the first), `prompt_cache.expires_at` (since 2.1.251; seconds since the epoch).
"""

from __future__ import annotations

import json
import math
import os
import stat
from contextlib import suppress
from io import FileIO
from typing import Any, NamedTuple, cast
from zlib import crc32

from lore import __version__
from lore.formats.claude.answers import FORMAT, MOST_TOKENS, answers
from lore.model.mask import cut_masked
from lore.model.running import LastBreak, Running, gone_on
from lore.report.status_line import DEFAULT, ClientStatus, Shown, status_line

HEAD, TAIL = 1024, 4096  # bytes that are compared
MOST = 4 * 1024 * 1024  # bytes added since the last answer: with more, the log is judged anew
CLAIMED = 600.0  # seconds that judging may take
KEPT_DAYS = 60  # days that the kept status of a log stays
_PRIVATE = 0o600


class KnownLog(NamedTuple):
    """What was kept of a log: of its first `size` bytes, whole lines.

    `head` and `tail` are checksums of both ends of them; judging them was done at `judged_at` and took `cost` seconds.
    """

    running: Running
    size: int
    head: int
    tail: int
    judged_at: float
    cost: float


class Look(NamedTuple):
    """What is known of a log (None: nothing), whether it is `current`, and how many bytes of the log were read."""

    known: KnownLog | None
    current: bool
    read_bytes: int = 0


def state_of(folder: str, path: str) -> str:
    """Return where a log's state is kept."""
    name = os.path.abspath(path).encode("utf-8", "surrogateescape")
    return os.path.join(folder, f"{crc32(name):08x}{crc32(name[::-1]):08x}")


def load(folder: str, path: str) -> KnownLog | None:
    """Return what was kept of a log; None where nothing was, or by another lore."""
    try:
        with open(state_of(folder, path), "rb") as file:
            kept = json.load(file)
        if kept["lore"] != __version__ or kept["path"] != os.path.abspath(path):
            return None
        fields: dict[str, Any] = kept["running"]
        last = cast("dict[str, Any] | None", fields.pop("last_break"))
        running = Running(**fields, last_break=None if last is None else LastBreak(**last))
        return KnownLog(running, *(kept[name] for name in KnownLog._fields[1:]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def save(folder: str, path: str, known: KnownLog) -> None:
    """Keep what is known of a log, where that can be done."""
    last = known.running.last_break
    running = {**known.running._asdict(), "last_break": None if last is None else last._asdict()}
    state = {"lore": __version__, "path": os.path.abspath(path), **known._asdict(), "running": running}
    write_private(state_of(folder, path), json.dumps(state).encode())


def write_private(place: str, data: bytes) -> None:
    """Write a file of the folder, whole or not at all; it can be made anew, so nothing waits for the disk."""
    temporary = f"{place}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            file.write(data)
        os.replace(temporary, place)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.unlink(temporary)


def look(folder: str, path: str) -> Look:
    """Look at a log: what was kept of it, gone on by what was added; what it comes to then is kept.

    What was kept of a log that was truncated or rewritten is no answer any more.
    """
    known = load(folder, path)
    if known is None:
        return Look(None, current=False)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe would be waited for
            return Look(known, current=False)
        with open(path, "rb", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size < known.size or ends_of(file, known.size) != (known.head, known.tail):
                return Look(None, current=False)
            read = _compared(known.size)
            if size == known.size:
                return Look(known, current=True, read_bytes=read)
            if size - known.size > MOST or known.running.format != FORMAT:
                return Look(known, current=False, read_bytes=read)
            file.seek(known.size)
            data = file.read(size - known.size)
            read += len(data)
            added = data[: data.rfind(b"\n") + 1]  # a line that is being written waits for its end
            if not added:
                return Look(known, current=True, read_bytes=read)
            now = _added(known, added, file)
    except (OSError, ValueError):  # a session of a database, a folder, a file that is gone
        return Look(known, current=False)
    if now is None:
        return Look(known, current=False, read_bytes=read)
    save(folder, path, now)
    return Look(now, current=True, read_bytes=read + _compared(now.size))


def _added(known: KnownLog, added: bytes, file: FileIO) -> KnownLog | None:
    """Return what is known with lines that were added; None where they have to be judged."""
    found = answers(added)
    running = None if found is None else gone_on(known.running, found)
    if running is None:
        return None
    head, tail = ends_of(file, known.size + len(added))
    return known._replace(running=running, size=known.size + len(added), head=head, tail=tail)


def ends_of(file: FileIO, size: int) -> tuple[int, int]:
    """Return checksums of the first KiB and the last 4 KiB of the first `size` bytes of a file."""
    file.seek(0)
    head = crc32(file.read(min(HEAD, size)))
    file.seek(max(0, size - TAIL))
    return head, crc32(file.read(min(TAIL, size)))


def _compared(size: int) -> int:
    return min(HEAD, size) + min(TAIL, size)


# which session a folder's newest is, and who judges a log


class Newest(NamedTuple):
    """The newest session of a project's folder (empty: there is none), and when it was looked for."""

    path: str
    at: float


def newest_of(folder: str, project: str) -> Newest | None:
    """Return what was found last as the newest session of a project; None where nobody looked."""
    try:
        with open(state_of(folder, project) + ".newest", "rb") as file:
            kept = json.load(file)
        return Newest(str(kept["path"]), float(kept["at"])) if kept["project"] == os.path.abspath(project) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def keep_newest(folder: str, project: str, newest: Newest) -> None:
    """Keep which session is the newest of a project."""
    kept = {"project": os.path.abspath(project), **newest._asdict()}
    write_private(state_of(folder, project) + ".newest", json.dumps(kept).encode())


def claim(folder: str, name: str, now: float) -> bool:
    """Take on judging a log, or looking for a project's newest; False where somebody does it already."""
    lock = state_of(folder, name) + ".lock"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            if os.stat(lock).st_mtime < now - CLAIMED:  # who took it on is gone
                os.unlink(lock)
        os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE))
    except OSError:
        return False
    return True


def release(folder: str, name: str) -> None:
    """End a claim."""
    with suppress(OSError):
        os.unlink(state_of(folder, name) + ".lock")


def forget_old(folder: str, now: float) -> None:
    """Delete what nobody wrote for a long time."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.stat().st_mtime < now - KEPT_DAYS * 86_400:
                os.unlink(entry.path)


PACE = 10  # judging takes at most this part of the time
LOOKED = 20.0  # seconds for which a project's newest session is believed
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class StatusRequest(NamedTuple):
    """What was asked for. `name` is a log or a project's folder; empty: what Claude Code names, else `project`."""

    name: str = ""
    parts: tuple[str, ...] = DEFAULT
    width: int | None = None
    colour: bool = False
    redact: bool = False


class StatuslineAnswer(NamedTuple):
    """The line, and what another process has to judge (a log, or a project's folder; empty: nothing)."""

    line: str
    behind: str = ""


def answer(request: StatusRequest, given: bytes, project: str, folder: str, now: float) -> StatuslineAnswer:
    """Return the line; `given` is what Claude Code wrote, `folder` where is kept what was read."""
    (client, path), behind = client_and_path(given), ""
    path = request.name or path or project
    if os.path.isdir(path):
        found = newest_of(folder, path)
        if found is None or not now - LOOKED < found.at <= now:
            behind = path if claim(folder, path, now) else ""
        if found is None or not found.path:
            return StatuslineAnswer(_line(request, Shown(None, client, now, judging=found is None)), behind)
        path = found.path
    if not os.path.lexists(path) and not os.path.lexists(path.partition("#")[0]):  # a session before its first line
        return StatuslineAnswer(_line(request, Shown(None, client, now)), behind)
    known, current, _ = look(folder, path)
    if (
        not current
        and not behind
        and (known is None or not known.judged_at <= now < known.judged_at + PACE * known.cost)
    ):
        behind = path if claim(folder, path, now) else ""
    return StatuslineAnswer(
        _line(request, Shown(None if known is None else known.running, client, now, not current)), behind
    )


def _line(request: StatusRequest, shown: Shown) -> str:
    return status_line(shown._replace(redact=request.redact), request.parts, width=request.width, colour=request.colour)


def client_and_path(given: bytes) -> tuple[ClientStatus, str]:
    """Return what Claude Code says of its session, and the log or folder that it names (empty: none)."""
    session = _table(_json(given))
    return _client(session), _text(session.get("transcript_path")) or _text(session.get("cwd"))


def _client(session: dict[str, Any]) -> ClientStatus:
    window = _table(session.get("context_window"))
    usage = _table(window.get("current_usage"))
    uncached, read, write = (_count(usage.get(name)) for name in _COUNTS)
    return ClientStatus(
        model=cut_masked(_text(_table(session.get("model")).get("display_name")), 60),
        dollars=_number(_table(session.get("cost")).get("total_cost_usd")),
        used_percentage=_number(window.get("used_percentage")),
        expires_at=_number(_table(session.get("prompt_cache")).get("expires_at")),
        prompt_tokens=None if uncached is None or read is None or write is None else uncached + read + write,
        read_tokens=read,
    )  # fmt: skip


def _json(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) and "\0" not in value else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


def _number(value: object) -> float | None:
    """Return a number that a clock or a bill may hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return float(value) if math.isfinite(value) else None
