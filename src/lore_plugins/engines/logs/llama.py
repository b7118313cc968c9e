"""The reader of llama-server's log: the tokens of each prompt, and how many of them its slot already held.

It reads plain lines, lines with prefix and time, and `--log-jsonl`, and returns a `request` for each task that a slot
finished. The read tokens are logged (`memory_seq_rm [N, end)`, before 2026 and with `--verbosity`), or follow from the
counts: the prompt without the processed tokens, else the slot's final tokens without those processed and generated (the
last token is not kept). If neither is certain (a draft model, a truncated context, mixed lines of two servers), the
request is left out. Times count from the server's start.

Sources: llama.cpp, `tools/server/server-context.cpp` (`print_timings`, `release`, `SLOT_STATE_STARTED`),
`server-common.h` (`SLT_INF`), `common/log.cpp` (`M.s.ms.us`, `--log-jsonl`), of 2026-11 and, by its logs in public
threads, since 2024-09 (`kv cache rm [N, end)`, `n_prompt_tokens = N`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from lore.formats import Line
from lore.model import Measurement, raw_members, text_of
from lore_plugins.engines.logs.lines import EngineLog, LogTime, count_in, remember, without_colours

_ENGINE_TIME = re.compile(rb"(?:^|[\] ])(\d{1,7})\.(\d\d)\.(\d{3})\.(\d{3}) ")
_JSONL = re.compile(rb'\{"type": ?"log", ?"time": ?(\d{1,16}),')
_SLOT = re.compile(rb"^.{0,96}?\bslot +[\w ]{1,14}: id +\d{1,6} \| task (-?\d{1,9}) \| ")
_SERVER = re.compile(rb"\b(?:slot|srv) {1,12}\w{1,12}: ")
_PROMPT = re.compile(rb"new prompt, .{0,200}(?:task\.n_tokens|n_prompt_tokens) = (\d+)")
_READ_TOKENS = re.compile(rb"(?:memory_seq_rm|kv cache rm) \[(\d+), end\)")
_PROCESSED_TOKENS = re.compile(rb"\s*prompt eval time = +[\d.]+ ms / +(\d+) tokens")
_GENERATED_TOKENS = re.compile(rb"\s*eval time = +[\d.]+ ms / +(\d+) (?:tokens|runs)")
_SLOT_RELEASE = re.compile(rb"stop processing: n_(?:tokens|past) = (\d+), truncated = ([01])")


class _Task(Struct):
    """The token counts of a request."""

    prompt: int | None = None
    read_tokens: int | None = None  # of the slot's earlier contents
    processed: int | None = None
    generated: int | None = None
    has_draft: bool = False
    is_recomputed: bool = False  # the server found no state from which it could continue
    is_mixed: bool = False  # two prompts with one number: from two servers

    def counts(self, final_tokens: int | None, *, truncated: bool) -> tuple[int | None, int | None]:
        """Return the tokens of the prompt and those read, None if uncertain; the slot ends with `final_tokens`."""
        if self.is_mixed:
            return None, None
        prompt, read_tokens = self.prompt, self.read_tokens
        if read_tokens is None and prompt is not None and self.processed is not None:
            read_tokens = prompt - self.processed
        is_certain = not (self.has_draft or truncated) and None not in (final_tokens, self.processed, self.generated)
        if read_tokens is None and is_certain:
            read_tokens = (final_tokens or 0) + 1 - (self.processed or 0) - (self.generated or 0)
        if prompt is None and read_tokens is not None and self.processed is not None:
            prompt = read_tokens + self.processed
        return prompt, read_tokens


class LlamaLog(EngineLog):
    """Reader of llama-server's log."""

    name: ClassVar[str] = "llama-log"
    engine: ClassVar[str] = "llama.cpp"

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[str, _Task] = {}  # by number and server
        self._current_tasks: dict[str, str] = {}  # by server, the task that the next timings belong to

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        is_server = _SERVER.search(without_colours(head)) is not None
        return is_server and (b"| task " in head or b"llama_" in head or b"srv  " in head)

    def _engine_time(self, text: bytes) -> LogTime:
        if (match := _JSONL.match(text)) is not None:
            return LogTime(int(match[1]) / 1e6, "start")
        match = _ENGINE_TIME.search(text[:96])
        if match is None:
            return LogTime(None, "start")
        minutes, seconds, milliseconds, microseconds = map(int, match.groups())
        return LogTime(minutes * 60 + seconds + milliseconds / 1e3 + microseconds / 1e6, "start")

    def _line(self, text: bytes, line: Line) -> Iterator[Measurement]:
        time = self._time(text)
        if text[:1] != b"{":
            yield from self._message(text, time)
        elif _JSONL.match(text) is not None:
            message = text_of((raw_members(text) or {}).get("msg", b'""')).encode("utf-8", "replace")
            for piece in message.split(b"\n"):
                yield from self._message(piece, time)

    def _message(self, text: bytes, time: LogTime) -> Iterator[Measurement]:
        """Read a message about a task; its timings may be on lines of their own after the one that names it."""
        slot_match, server = _SLOT.match(text), self._server
        name = self._current_tasks.get(server, "")
        if slot_match is not None:
            name, text = f"{slot_match[1].decode()} {server}", text[slot_match.end() :]
            remember(self._current_tasks, server, name)
            if name not in self._tasks:
                remember(self._tasks, name, _Task())
        task = self._tasks.get(name)
        if task is None:
            return
        if (match := _PROMPT.match(text)) is not None:
            task.is_mixed = task.prompt is not None
            task.prompt = count_in(match[1])
        elif (match := _READ_TOKENS.search(text[:96])) is not None:
            task.read_tokens = count_in(match[1]) if task.read_tokens is None else task.read_tokens
        elif (match := _PROCESSED_TOKENS.match(text)) is not None:
            task.processed = count_in(match[1])
        elif (match := _GENERATED_TOKENS.match(text)) is not None:
            task.generated = count_in(match[1])
        elif text.startswith(b"forcing full prompt re-processing"):
            task.is_recomputed = True
        elif text.startswith((b"draft acceptance", b"accepted ")):
            task.has_draft = True
        elif slot_match is not None and (match := _SLOT_RELEASE.match(text)) is not None:
            del self._tasks[name], self._current_tasks[server]
            for measure in self._request(time, "", *task.counts(count_in(match[1]), truncated=match[2] == b"1")):
                yield replace(measure, recomputed=int(task.is_recomputed))
