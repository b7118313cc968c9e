"""The summariser that a configuration names.

A command reads one JSON object from standard input, `{"v": 1, "prompt", "transcript", "previous", "opening",
"tokens"}`: what to do in words, the messages as text (`transcripts`), the summary that is replaced, how the exchange
began whose end stays, how many tokens the answer may have. It writes the summary as UTF-8; an exit code other than 0 is
a failure. It gets lore's environment (it may need a key) and the mark under which nothing compacts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from lore.compaction.base import GivenUpError, Summarizer, SummaryAnswer, SummaryError, SummaryRequest
from lore.compaction.extractive import Extractive
from lore.compaction.openai import OpenAISummarizer
from lore.compaction.processes import NESTED, CommandError, program_of, run
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import fresh, instructions, transcript
from lore.compaction.wrapping import harmless
from lore.errors import LoreError
from lore.model.canonical import encode
from lore.store.base import Tell
from lore.store.registry import silent


class Command:
    """A summariser that runs a command, without a shell. Safe between threads; each call is a process.

    `tell` hears what the command writes on standard error: its last line, without credentials. Raises LoreError when
    it is made where there is no such command.
    """

    name = "command"

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        seconds: float = 60.0,
        tell: Tell = silent,
    ) -> None:
        program_of(command, environ)
        self._command = tuple(command)
        self._environ = {**environ, NESTED: "summarizer"}
        self._seconds = seconds
        self._tell = tell

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return what the command writes; raises SummaryError where it fails, is too slow or writes too much."""
        try:
            ran = run(self._command, given=_command_input(request), environ=self._environ, seconds=self._seconds)
        except CommandError as error:
            kind = GivenUpError if error.lasting else SummaryError
            raise kind(f"the summary command failed: {error.message}") from None
        if ran.complaint:
            self._tell(f"the summary command says: {ran.complaint}")
        try:
            return SummaryAnswer(ran.output.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise SummaryError(f"the summary command wrote what is no UTF-8, byte {error.start}") from None


def _command_input(request: SummaryRequest) -> bytes:
    question = {
        "v": 1,
        "prompt": instructions(request),
        "transcript": "".join(transcript(fresh(request))),
        "previous": harmless(request.previous),
        "opening": "".join(transcript(request.opening[:1])),
        "tokens": request.tokens,
    }
    return encode(question) + b"\n"


_MAKERS: dict[str, Callable[[Compaction, Mapping[str, str], Tell], Summarizer]] = {
    "extractive": lambda settings, environ, tell: Extractive(),
    "command": lambda settings, environ, tell: Command(
        settings.command, environ=environ, seconds=settings.timeout_secs, tell=tell
    ),
    "openai": lambda settings, environ, tell: OpenAISummarizer(
        settings.endpoint, settings.model, key_env=settings.key_env, environ=environ, seconds=settings.timeout_secs,
        pause=time.sleep, tell=tell,
    ),
}  # fmt: skip


def summarizer_of(settings: Compaction, environ: Mapping[str, str], *, tell: Tell = silent) -> Summarizer:
    """Return the summariser of `settings`; raises LoreError where it cannot be had. Sends no request yet.

    `environ` is the environment that holds the key and the path; `tell` hears what a command complains about.
    """
    fault = settings.fault()
    if fault:
        raise LoreError(fault)
    return _MAKERS[settings.summarizer](settings, environ, tell)
