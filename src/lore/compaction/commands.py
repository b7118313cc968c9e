"""Commands of the configuration: sources of outside context and summarisers. They may hang, flood, crash, fork.

A command runs without a shell, in a process group of its own that is killed at the end with whatever it forked; output
and time are bounded. POSIX only. A source has a clean environment (`PATH`, `HOME`, the language, the window, the mark
under which nothing compacts) and reads one JSON object, `{"prompt", "from", "to", "session_id", "agent", "user"}`;
times are RFC 3339 in UTC, as in `LORE_FROM` and `LORE_TO`. A summariser has lore's environment (it may need a key) and
the mark, and reads `{"v": 1, "prompt", "transcript", "previous", "opening", "tokens"}`: what to do in words, the
messages as text (`transcripts`), the summary that is replaced, how the exchange began whose end stays, how many tokens
the answer may have. Both write UTF-8; an exit code other than 0 is a failure.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from lore.asking import GivenUpError, SummaryAnswer, SummaryError, SummaryRequest, UnusableAnswerError
from lore.compaction.base import Window
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.settings import Compaction, ContextSource
from lore.compaction.transcripts import fresh, instructions, transcript, truncated
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.model.limits import COMMAND_BYTES, COMMANDS_AT_ONCE, COMPLAINT_BYTES
from lore.model.mask import mask
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import SourceText, harmless, inert, one_line

NESTED = "LORE_NESTED"  # set for what lore runs while it compacts: whoever sees it does not compact
_SLICE = 0.05  # seconds between two looks at a process that is silent
_PIECE = 64 * 1024
_SECRET = re.compile(r"(?:\A|_)(?:KEY|PASS)(?:_|\Z)|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_LEAST_SECRET = 8  # characters of a secret: shorter values are words
_GRACE = 5.0  # seconds for a process that was killed to be gone: one of another user is not ours to kill
_PIPES = 32  # pieces that a pipe can hold when its writer has ended: others may go on writing for ever


class ProgramError(LoreError):
    """A command failed: `message` says how in one line, without its name. `lasting`: again at once would not help."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class Ran(NamedTuple):
    """What a command wrote before it ended well; `complaint` is the last line of standard error, as it may be shown."""

    output: bytes
    complaint: str


def is_nested(environ: Mapping[str, str]) -> bool:
    """Tell whether this process was started by a compaction: then it must not compact."""
    return bool(environ.get(NESTED))


def program_of(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the file that a command runs; raises LoreError where there is none, or it cannot be run."""
    name = command[0] if command else ""
    if not name or "\0" in "".join(command):
        raise LoreError(f"{one_line(name)!r} cannot be run: a command has a name, and no NUL")
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is not None:
        return os.path.abspath(found)
    reason = "it is not on the PATH"
    if os.path.dirname(name):
        reason = "it is not executable" if os.path.exists(name) else "there is no such file"
    hint = "name a program by its path, or one on the PATH"
    raise LoreError(f"{one_line(name)!r} cannot be run: {reason}", hint=hint)


def run(
    command: Sequence[str], *, given: bytes, environ: Mapping[str, str], seconds: float,
    stop: threading.Event | None = None,
) -> Ran:  # fmt: skip
    """Run a command to its end; raises ProgramError where it fails, is too slow, or writes more than `COMMAND_BYTES`.

    Safe to call from several threads. `stop` ends it early, as a time-out does. Nothing that is secret by its name in
    the environment is in what it complains about.
    """
    pipe = subprocess.PIPE
    try:
        program = program_of(command, environ)
        process = subprocess.Popen(  # noqa: S603 - no shell; the command comes from the user's configuration
            [program, *command[1:]], stdin=pipe, stdout=pipe, stderr=pipe, env=dict(environ), start_new_session=True
        )
    except OSError as error:
        raise ProgramError(f"cannot be run: {(error.strerror or str(error)).lower()}", lasting=True) from None
    except LoreError as error:
        raise ProgramError(error.message, lasting=True) from None
    try:
        output, stderr = _talk(process, given, seconds=seconds, stop=stop)
    finally:
        _end(process)
    last = harmless(stderr.decode("utf-8", "replace")).strip().split("\n")[-1]
    secrets = {value for name, value in environ.items() if len(value) >= _LEAST_SECRET and _SECRET.search(name)}
    for value in sorted(secrets, key=len, reverse=True):
        last = last.replace(value, "***")
    why = one_line(mask(last))  # cut only when no secret is left in it
    code = process.returncode
    if code:
        reason = f"exit code {code}" if code > 0 else f"it was ended by signal {-code}"
        raise ProgramError(f"{reason}: {why}" if why else reason)
    return Ran(bytes(output), why)


def _talk(
    process: subprocess.Popen[bytes], given: bytes, *, seconds: float, stop: threading.Event | None
) -> tuple[bytearray, bytearray]:  # fmt: skip
    """Feed a process and read what it writes until it has ended; those that it forked are not waited for."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    output, stderr, unsent = bytearray(), bytearray(), memoryview(given)
    heard = {process.stdout.fileno(): output, process.stderr.fileno(): stderr}

    def hear(number: int) -> bool:
        """Read what is available; False at the end, or, of an ended process, when nothing is available."""
        try:
            piece = os.read(number, _PIECE)
        except BlockingIOError:
            return False
        heard[number].extend(piece)
        del stderr[:-COMPLAINT_BYTES]
        if len(output) > COMMAND_BYTES:
            raise ProgramError(f"it wrote more than {COMMAND_BYTES:,} bytes")
        return bool(piece)

    def feed(number: int) -> bool:
        """Write what the pipe takes; False when all is written, or the reader is gone."""
        nonlocal unsent
        with suppress(BlockingIOError):
            try:
                unsent = unsent[os.write(number, unsent[:_PIECE]) if unsent else 0 :]
            except BrokenPipeError:
                return False
        return bool(unsent)

    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_WRITE if pipe is process.stdin else selectors.EVENT_READ)
        while not _has_ended(process):
            if stop is not None and stop.is_set():
                raise ProgramError("it was stopped", lasting=True)
            left = deadline - time.monotonic()
            if left <= 0:
                raise ProgramError(f"no end after {seconds:g} s", lasting=True)
            for key, _ in selector.select(min(left, _SLICE)):
                if not (hear(key.fd) if key.fd in heard else feed(key.fd)):
                    selector.unregister(key.fd)
                    if key.fd not in heard:
                        process.stdin.close()
    _kill(process)
    for number in heard:
        for _ in range(_PIPES):
            if not hear(number):
                break
    return output, stderr


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Tell whether a process has ended, without reaping it: its id cannot be reused until then."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        _kill(process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None and not pipe.closed:
            with suppress(OSError):
                pipe.close()


SECONDS = 30.0  # for each source
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ", "TMPDIR")


class _SourceAnswer(NamedTuple):
    """What a source said, or why it is skipped."""

    text: str
    why: str = ""


class ContextRequest(NamedTuple):
    """For whom outside context is asked, and about what time."""

    session_id: str
    window: Window
    agent: str = ""
    user: str = ""


def check_sources(settings: Compaction, environ: Mapping[str, str]) -> None:
    """Raise LoreError, one line, for the first source that is missing or not executable. Runs nothing."""
    for source in settings.context_sources:
        try:
            program_of(source.command, environ)
        except LoreError as error:
            raise LoreError(f"context source {source.name!r}: {error.message}", hint=error.hint) from None


def outside_context(
    settings: Compaction, request: ContextRequest, *, environ: Mapping[str, str], tell: Tell, seconds: float = SECONDS
) -> tuple[SourceText, ...]:
    """Return what each source says, harmless, all of them cut to `context_token_cap`; none that is silent. Never fails.

    Runs nothing where the cap is 0, or inside a source (`is_nested`). `tell` is called here, not in threads, in the
    order of the configuration. Takes as long as the slowest source, at most `seconds` each 16 sources.
    """
    sources = settings.context_sources
    if not sources or not settings.context_token_cap:
        return ()
    if is_nested(environ):
        tell(f"context sources are not asked: this runs inside one ({NESTED} is set)")
        return ()
    stop = threading.Event()
    begin, end = map(stamp, request.window)
    kept = {name: environ[name] for name in _KEPT if name in environ}
    clean = {**kept, "LORE_FROM": begin, "LORE_TO": end, NESTED: "source"}
    named = {"session_id": request.session_id, "agent": request.agent, "user": request.user}

    def ask(source: ContextSource) -> _SourceAnswer:
        question = encode({"prompt": source.prompt, "from": begin, "to": end, **named}) + b"\n"
        try:
            ran = run(source.command, given=question, environ=clean, seconds=seconds, stop=stop)
            text = inert(ran.output.decode("utf-8").strip())
        except ProgramError as error:
            return _SourceAnswer("", error.message)
        except UnicodeDecodeError as error:
            return _SourceAnswer("", f"what it wrote is no UTF-8, byte {error.start}")
        why = f"; on standard error: {ran.complaint}" if ran.complaint else ""
        return _SourceAnswer(text, "" if text else f"it said nothing{why}")

    with ThreadPoolExecutor(min(len(sources), COMMANDS_AT_ONCE), "lore-source") as pool:
        try:
            answers = list(pool.map(ask, sources))
        finally:
            stop.set()  # an interrupt does not wait for sources that hang
    for source, answer in zip(sources, answers, strict=True):
        if answer.why:
            tell(f"context source {source.name!r} is skipped: {answer.why}")
    texts = [SourceText(source.name, answer.text) for source, answer in zip(sources, answers, strict=True)]
    return _capped([text for text in texts if text.text], settings.context_token_cap)


def _capped(answers: Sequence[SourceText], cap: int) -> tuple[SourceText, ...]:
    """Cut answers to so many tokens in all: the shortest first, so that none is crowded out by one that floods."""
    sizes = {answer.name: -(-len(answer.text.encode()) // BYTES_PER_TOKEN) for answer in answers}
    shares, left = dict[str, int](), cap
    for count, name in zip(range(len(sizes), 0, -1), sorted(sizes, key=lambda name: sizes[name]), strict=True):
        shares[name] = min(sizes[name], left // count)
        left -= shares[name]
    return tuple([SourceText(name, truncated(text, shares[name])) for name, text in answers])


def stamp(seconds: float) -> str:
    """Write a time as RFC 3339 in UTC, in whole seconds."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"


class SummaryCommand:
    """A summariser that runs a command, without a shell. Safe between threads; each call is a process.

    `tell` hears what the command writes on standard error: its last line, without credentials. Raises LoreError when
    it is made where there is no such command.
    """

    name = "command"

    def __init__(
        self, command: Sequence[str], *, environ: Mapping[str, str], seconds: float = 60.0, tell: Tell = ignore
    ) -> None:  # fmt: skip
        program_of(command, environ)
        self._command, self._environ = tuple(command), {**environ, NESTED: "summarizer"}
        self._seconds, self._tell = seconds, tell

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return what the command writes; raises SummaryError where it fails, is too slow or writes too much."""
        question = {
            "v": 1,
            "prompt": instructions(request),
            "transcript": "".join(transcript(fresh(request))),
            "previous": harmless(request.previous),
            "opening": "".join(transcript(request.opening[:1])),
            "tokens": request.tokens,
        }
        given = encode(question) + b"\n"
        try:
            ran = run(self._command, given=given, environ=self._environ, seconds=self._seconds)
        except ProgramError as error:
            kind = GivenUpError if error.lasting else SummaryError
            raise kind(f"the summary command failed: {error.message}") from None
        if ran.complaint:
            self._tell(f"the summary command says: {ran.complaint}")
        try:
            return SummaryAnswer(ran.output.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise UnusableAnswerError(f"the summary command wrote what is no UTF-8, byte {error.start}") from None
