"""Commands of the configuration: sources of outside context and summarisers. They may hang, flood, crash, fork.

A command runs without a shell, in a process group of its own that is killed at the end with whatever it forked; output
and time are bounded. POSIX only. A source has a clean environment (`PATH`, `HOME`, the language, the window, and
`LORE_NESTED`, under which nothing compacts) and reads one JSON object, `{"prompt", "from", "to", "session_id", "agent",
"user"}`; times are RFC 3339 in UTC, as in `LORE_FROM` and `LORE_TO`. A summariser has lore's environment (it may need a
key) and `LORE_NESTED`, and reads `{"v": 1, "prompt", "transcript", "previous", "opening", "tokens"}`: what to do in
words, the messages as text (`transcripts`), the summary that is replaced, how the exchange began whose end stays, how
many tokens the answer may have. Both write UTF-8; an exit code other than 0 is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from lore.asking import GivenUpError, SummaryAnswer, SummaryError, SummaryRequest, UnusableAnswerError
from lore.compaction.base import Window
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.settings import Compaction, ContextSource
from lore.compaction.transcripts import instructions, message_texts, opening_text, truncate
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.model.limits import COMMAND_BYTES, COMMANDS_AT_ONCE, COMPLAINT_BYTES
from lore.model.mask import mask
from lore.model.times import format_timestamp
from lore.store.base import Tell
from lore.store.registry import ignore
from lore.untrusted import SourceText, harmless, neutralise, one_line

NESTED = "LORE_NESTED"  # set for the commands of a compaction: a process that has it does not compact
SECONDS = 30.0  # for each source
_INHERITED = ("PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_TIME", "TZ", "TMPDIR")
_PAUSE = 0.01  # seconds between two looks at a process
_SECRET = re.compile(r"(?:\A|_)(?:KEY|PASS)(?:_|\Z)|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_LEAST_SECRET = 8  # characters of a secret: shorter values are words
_MOST_ERRORS = 64 * COMMAND_BYTES  # only their end is read
_GRACE = 5.0  # seconds for a killed process to end: one of another user cannot be killed


class ProgramError(LoreError):
    """A command failed; `message` is one line without its name. With `lasting` an immediate retry would fail, too."""

    def __init__(self, message: str, *, hint: str = "", lasting: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.lasting = lasting


def is_nested(environ: Mapping[str, str]) -> bool:
    """Return whether this process was started by a compaction: then it must not compact."""
    return bool(environ.get(NESTED))


def program_of(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the file that a command runs; raises ProgramError if it is missing or cannot be run."""
    name = command[0] if command else ""
    if not name or "\0" in "".join(command):
        raise ProgramError(f"{one_line(name)!r} cannot be run: a command has a name, and no NUL", lasting=True)
    program = shutil.which(name, path=environ.get("PATH", os.defpath))
    if program is not None:
        return os.path.abspath(program)
    reason = "it is not on the PATH"
    if os.path.dirname(name):
        reason = "it is not executable" if os.path.exists(name) else "there is no such file"
    hint = "name a program by its path, or one on the PATH"
    raise ProgramError(f"{one_line(name)!r} cannot be run: {reason}", hint=hint, lasting=True)


def run(
    command: Sequence[str], *, input_bytes: bytes, environ: Mapping[str, str], seconds: float,
    stop: threading.Event | None = None,
) -> tuple[bytes, str]:  # fmt: skip
    """Run a command to its end; return its output and the masked last line of its standard error.

    Raises ProgramError if it fails, is too slow, or writes more than `COMMAND_BYTES`; `stop` ends it early. Safe to
    call from several threads. Secrets of the environment are masked in the error.
    """
    try:
        program = program_of(command, environ)
        # Files, not pipes: whatever the command forks may hold a pipe open for ever.
        with TemporaryFile() as stdin, TemporaryFile() as stdout, TemporaryFile() as stderr:
            stdin.write(input_bytes)
            stdin.seek(0)
            process = subprocess.Popen(  # noqa: S603 - no shell; the command comes from the user's configuration
                [program, *command[1:]], stdin=stdin, stdout=stdout, stderr=stderr, env=dict(environ),
                start_new_session=True,
            )  # fmt: skip
            try:
                _wait(process, seconds, stop, (stdout, stderr))
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # it and what it forked
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE)
            stdout.seek(0)
            stderr.seek(max(0, os.fstat(stderr.fileno()).st_size - COMPLAINT_BYTES))
            output, complaint = stdout.read(), _complaint(stderr.read(COMPLAINT_BYTES), environ)
    except OSError as error:
        raise ProgramError(f"cannot be run: {(error.strerror or str(error)).lower()}", lasting=True) from None
    if process.returncode:
        code = process.returncode
        reason = f"exit code {code}" if code > 0 else f"it was ended by signal {-code}"
        raise ProgramError(f"{reason}: {complaint}" if complaint else reason)
    return output, complaint


def _wait(
    process: subprocess.Popen[bytes], seconds: float, stop: threading.Event | None, outputs: Sequence[IO[bytes]]
) -> None:
    """Wait until a process has ended, but not those that it forked; raises ProgramError."""
    deadline = time.monotonic() + seconds
    while True:
        has_ended = process.poll() is not None
        sizes = [os.fstat(file.fileno()).st_size for file in outputs]
        if sizes[0] > COMMAND_BYTES or sizes[1] > _MOST_ERRORS:
            raise ProgramError(f"it wrote more than {COMMAND_BYTES:,} bytes")
        if has_ended:
            return
        if stop is not None and stop.is_set():
            raise ProgramError("it was stopped", lasting=True)
        if time.monotonic() > deadline:
            raise ProgramError(f"no end after {seconds:g} s", lasting=True)
        time.sleep(_PAUSE)


def _complaint(errors: bytes, environ: Mapping[str, str]) -> str:
    """Return the last line of a command's standard error without secrets; cut only once no secret is left in it."""
    last = harmless(errors.decode("utf-8", "replace")).strip().split("\n")[-1]
    secrets = {value for name, value in environ.items() if len(value) >= _LEAST_SECRET and _SECRET.search(name)}
    for value in sorted(secrets, key=len, reverse=True):
        last = last.replace(value, "***")
    return one_line(mask(last))


def check_sources(settings: Compaction, environ: Mapping[str, str]) -> None:
    """Raise LoreError, one line, for the first source that is missing or not executable. Runs nothing."""
    for source in settings.context_sources:
        try:
            program_of(source.command, environ)
        except LoreError as error:
            raise LoreError(f"context source {source.name!r}: {error.message}", hint=error.hint) from None


def outside_context(
    settings: Compaction, session: Mapping[str, str], window: Window, *, environ: Mapping[str, str], tell: Tell,
    seconds: float = SECONDS,
) -> tuple[SourceText, ...]:  # fmt: skip
    """Return the answer of each source that has one, harmless, all of them cut to `context_token_cap`. Never fails.

    `session` has what the sources get besides the window: `session_id`, `agent`, `user`. Runs nothing if the cap is 0,
    or inside a source (`is_nested`). `tell` is called here, not in threads, in the order of the configuration. Takes as
    long as the slowest source, at most `seconds` for each 16 sources.
    """
    sources = settings.context_sources
    if not sources or not settings.context_token_cap:
        return ()
    if is_nested(environ):
        tell(f"context sources are not asked: this runs inside one ({NESTED} is set)")
        return ()
    stop = threading.Event()
    begin, end = (f"{format_timestamp(at)[:19]}Z" for at in window)  # in whole seconds
    inherited = {name: environ[name] for name in _INHERITED if name in environ}
    clean = {**inherited, "LORE_FROM": begin, "LORE_TO": end, NESTED: "source"}

    def ask(source: ContextSource) -> tuple[str, str]:
        """Return the answer of a source, and if it is empty the reason."""
        question = encode({"prompt": source.prompt, "from": begin, "to": end, **session}) + b"\n"
        try:
            output, complaint = run(source.command, input_bytes=question, environ=clean, seconds=seconds, stop=stop)
            text = neutralise(output.decode("utf-8").strip())
        except ProgramError as error:
            return "", error.message
        except UnicodeDecodeError as error:
            return "", f"its output is not UTF-8, byte {error.start}"
        return text, "its output is empty" + (f"; on standard error: {complaint}" if complaint else "")

    with ThreadPoolExecutor(min(len(sources), COMMANDS_AT_ONCE), "lore-source") as pool:
        try:
            answers = list(pool.map(ask, sources))
        finally:
            stop.set()  # an interrupt does not wait for sources that hang
    texts: list[SourceText] = []
    for source, (text, reason) in zip(sources, answers, strict=True):
        if text:
            texts.append(SourceText(source.name, text))
        else:
            tell(f"context source {source.name!r} is skipped: {reason}")
    return _cap_answers(texts, settings.context_token_cap)


def _cap_answers(answers: Sequence[SourceText], cap: int) -> tuple[SourceText, ...]:
    """Cut answers to `cap` tokens in all: the shortest first, so that a long one leaves room for the others."""
    sizes = {answer.name: -(-len(answer.text.encode()) // BYTES_PER_TOKEN) for answer in answers}
    shares = dict[str, int]()
    for count, name in zip(range(len(sizes), 0, -1), sorted(sizes, key=lambda name: sizes[name]), strict=True):
        shares[name] = min(sizes[name], (cap - sum(shares.values())) // count)
    return tuple([SourceText(name, truncate(text, shares[name])) for name, text in answers])


class SummaryCommand:
    """A summariser that runs a command, without a shell. Safe between threads; each call is a process.

    `tell` receives the last line of the command's standard error, without credentials. Raises LoreError when it is made
    if there is no such command.
    """

    name = "command"

    def __init__(
        self, command: Sequence[str], *, environ: Mapping[str, str], seconds: float = 60.0, tell: Tell = ignore
    ) -> None:  # fmt: skip
        program_of(command, environ)
        self._command, self._environ = tuple(command), {**environ, NESTED: "summarizer"}
        self._seconds, self._tell = seconds, tell

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return what the command writes; raises SummaryError if it fails, is too slow or writes too much."""
        question = {
            "v": 1,
            "prompt": instructions(request),
            "transcript": "".join(message_texts(request)),
            "previous": harmless(request.previous),
            "opening": opening_text(request),
            "tokens": request.tokens,
        }
        payload = encode(question) + b"\n"
        try:
            output, complaint = run(self._command, input_bytes=payload, environ=self._environ, seconds=self._seconds)
        except ProgramError as error:
            kind = GivenUpError if error.lasting else SummaryError
            raise kind(f"the summary command failed: {error.message}") from None
        if complaint:
            self._tell(f"the summary command writes: {complaint}")
        try:
            return SummaryAnswer(output.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise UnusableAnswerError(f"the summary command's output is not UTF-8, byte {error.start}") from None
