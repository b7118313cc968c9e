"""llama-server's log: of each request how many tokens its prompt had, and how many its slot already held.

In: lines of llama-server, plain, with prefix and time, or `--log-jsonl`. Out: a `request` for each task that a slot was
released of. How much it read is said (`memory_seq_rm [N, end)`, of versions before 2026 and at `--verbosity`), or
follows from the counts: a prompt's tokens without those that were processed, else all that the slot holds at the end
without those that were processed and generated (the last token is not kept). Where neither is known for sure (a draft
model guessed several at a time, the context was cut, the lines of two servers are mixed) the request is left out. Times
count from the server's start.

Sources: llama.cpp, `tools/server/server-context.cpp` (`print_timings`, `release`, `SLOT_STATE_STARTED`),
`server-common.h` (`SLT_INF`), `common/log.cpp` (`M.s.ms.us`, `--log-jsonl`), of 2026-11 and, by its logs in public
threads, since 2024-09 (`kv cache rm [N, end)`, `n_prompt_tokens = N`).
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from lore.formats import Line, Read, placed
from lore.model import Measurement, table, text_of
from lore_plugins.engines.logs.lines import EngineLog, LogTime, count_in, plain, remember

ENGINE = "llama.cpp"
_OWN = re.compile(rb"(?:^|[\] ])(\d{1,7})\.(\d\d)\.(\d{3})\.(\d{3}) ")
_JSONL = re.compile(rb'\{"type": ?"log", ?"time": ?(\d{1,16}),')
_SLOT = re.compile(rb"^.{0,96}?\bslot +[\w ]{1,14}: id +\d{1,6} \| task (-?\d{1,9}) \| ")
_SERVER = re.compile(rb"\b(?:slot|srv) {1,12}\w{1,12}: ")
_PROMPT = re.compile(rb"new prompt, .{0,200}(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_KEPT = re.compile(rb"(?:memory_seq_rm|kv cache rm) \[(\d+), end\)")
_PROCESSED = re.compile(rb"\s*prompt eval time = +[\d.]+ ms / +(\d+) tokens")
_GENERATED = re.compile(rb"\s*eval time = +[\d.]+ ms / +(\d+) (?:tokens|runs)")
_RELEASED = re.compile(rb"stop processing: n_(?:tokens|past) = (\d+), truncated = ([01])")


class _Task(Struct):
    """What is known of a request: tokens of its prompt, kept of what the slot held, processed, generated."""

    prompt: int | None = None
    kept: int | None = None
    processed: int | None = None
    generated: int | None = None
    drafted: bool = False
    mixed: bool = False  # two prompts under one number: those of two servers

    def measure(self, held: int | None, time: LogTime, *, truncated: bool) -> Measurement | None:
        """Return what it read, where `held` tokens stand in its slot at the end; None where that is not sure."""
        prompt, kept = self.prompt, self.kept
        if kept is None and prompt is not None and self.processed is not None:
            kept = prompt - self.processed
        sure = not (self.drafted or truncated) and None not in (held, self.processed, self.generated)
        if kept is None and sure:
            kept = (held or 0) + 1 - (self.processed or 0) - (self.generated or 0)
        if prompt is None and kept is not None and self.processed is not None:
            prompt = kept + self.processed
        if prompt is None or kept is None or self.mixed or not 0 <= kept <= prompt:
            return None
        return Measurement("request", ENGINE, time.at, time.clock, "", 1, prompt, kept)


class _LlamaState(Struct):
    tasks: dict[str, _Task] = {}
    timed: dict[str, str] = {}  # by server


class LlamaLog(EngineLog[_LlamaState]):
    """Reader of llama-server's log."""

    name: ClassVar[str] = "llama-log"
    remembers: ClassVar[type[Struct]] = _LlamaState

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return _SERVER.search(plain(head)) is not None and (b"| task " in head or b"llama_" in head or b"srv  " in head)

    def _own_time(self, text: bytes) -> LogTime:
        if (match := _JSONL.match(text)) is not None:
            return LogTime(int(match[1]) / 1e6, "start")
        match = _OWN.search(text[:96])
        if match is None:
            return LogTime(None, "start")
        minutes, seconds, milliseconds, microseconds = map(int, match.groups())
        return LogTime(minutes * 60 + seconds + milliseconds / 1e3 + microseconds / 1e6, "start")

    def _line(self, text: bytes, line: Line) -> list[Read]:
        time = self._time(text)
        if text[:1] != b"{":
            return self._said(text, time, line)
        if _JSONL.match(text) is None:
            return []
        message = text_of((table(text) or {}).get("msg", b'""')).encode("utf-8", "replace")
        return [read for piece in message.split(b"\n") for read in self._said(piece, time, line)]

    def _said(self, text: bytes, time: LogTime, line: Line) -> list[Read]:
        """Take what a line says of a task; its timings may stand on lines of their own behind the one that names it."""
        match = _SLOT.match(text)
        server, timed = self._server, self._kept.timed
        name = timed.get(server, "") if match is None else f"{match[1].decode()} {server}"
        text = text if match is None else text[match.end() :]
        if match is None and not name:
            return []
        task = self._kept.tasks.get(name)
        if match is not None:
            remember(timed, server, name)
            if task is None:
                task = _Task()
                remember(self._kept.tasks, name, task)
        if task is None:
            return []
        if (found := _PROMPT.match(text)) is not None:
            task.mixed = task.prompt is not None
            task.prompt = count_in(found[1])
        elif (found := _KEPT.search(text[:96])) is not None:
            task.kept = count_in(found[1]) if task.kept is None else task.kept
        elif (found := _PROCESSED.match(text)) is not None:
            task.processed = count_in(found[1])
        elif (found := _GENERATED.match(text)) is not None:
            task.generated = count_in(found[1])
        elif text.startswith((b"draft acceptance", b"accepted ")):
            task.drafted = True
        elif match is not None and (found := _RELEASED.match(text)) is not None:
            del self._kept.tasks[name]
            timed.pop(server, None)
            measure = task.measure(count_in(found[1]), time, truncated=found[2] == b"1")
            return [] if measure is None else [placed(replace(measure, server=server), line)]
        return []
