"""Summaries by a command of the user's own: JSON in on standard input, the summary as text on standard output.

In: one JSON object, `{"v": 1, "prompt", "transcript", "previous", "opening", "tokens"}`: what to do in words, the
messages as text (`transcripts`), the summary that is replaced, how the exchange began whose end stays, and how many
tokens the answer may have. Out: UTF-8 text; an exit code that is not 0 is a failure. Whether it is deterministic is
the command's affair. It gets lore's environment (it may need a key) and the mark under which nothing compacts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lore.compaction.base import GivenUpError, SummaryAnswer, SummaryError, SummaryRequest
from lore.compaction.processes import NESTED, CommandError, program_of, run
from lore.compaction.transcripts import fresh, instructions, transcript
from lore.compaction.wrapping import harmless
from lore.model.canonical import encode


def _silent(_: str) -> None: ...


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
        tell: Callable[[str], None] = _silent,
    ) -> None:
        program_of(command, environ)
        self._command = tuple(command)
        self._environ = {**environ, NESTED: "summarizer"}
        self._seconds = seconds
        self._tell = tell

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return what the command writes; raises SummaryError where it fails, is too slow or writes too much."""
        try:
            ran = run(self._command, given=_question(request), environ=self._environ, seconds=self._seconds)
        except CommandError as error:
            kind = GivenUpError if error.lasting else SummaryError
            raise kind(f"the summary command failed: {error.message}") from None
        if ran.complaint:
            self._tell(f"the summary command says: {ran.complaint}")
        try:
            return SummaryAnswer(ran.output.decode("utf-8").strip())
        except UnicodeDecodeError as error:
            raise SummaryError(f"the summary command wrote what is no UTF-8, byte {error.start}") from None


def _question(request: SummaryRequest) -> bytes:
    question = {
        "v": 1,
        "prompt": instructions(request),
        "transcript": "".join(transcript(fresh(request))),
        "previous": harmless(request.previous),
        "opening": "".join(transcript(request.opening[:1])),
        "tokens": request.tokens,
    }
    return encode(question) + b"\n"
