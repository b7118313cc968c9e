"""The reader of SGLang's log: tokens of prefill steps, ended requests with the tokens they read, request bodies.

It reads lines of `sglang.launch_server` and of its files of requests, and returns a `batch` for each prefill step (new
and cached tokens; later chunks of a prompt count as new), a `request` for each one that ended, and an exchange for each
OpenAI body logged as JSON, with its usage if the request is known. Bodies do not contain the request's id; a body's
request is known if no other body waits when the next request is received. Bodies as Python text, and those that level 2
cuts to 2,048 characters, are a problem: `--log-requests-level 3 --log-requests-format json` logs whole ones.

Sources: SGLang 0.5.23 (2026-10), `metrics_reporter.py` (`report_prefill_stats`), `utils/request_logger.py`,
`utils/log_utils.py` (`log_json`, local time), `tokenizer_manager.py` (`meta_info`), `request_metrics_exporter.py`
(`sglang-request-metrics-*.log`), `utils/common.py` (`[%(asctime)s TP0] %(message)s`); `Prefill batch.` is what it wrote
before 0.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from lore.formats import Line, Read, call_of, decode_usage, is_body, object_of
from lore.model import Code, Exchange, Measurement, Problem, Usage, raw_members, text_of
from lore_plugins.engines.logs.lines import EngineLog, LogTime, LogValue, count_in, local_time, remember

_ENGINE_TIME = re.compile(rb"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?: [\w ]+)?\] ")
_SIGNS = (b"] Prefill batch", b"] Receive: obj=", b"] Finish: obj=", b'"event": "request.', b"server_args=ServerArgs(")
_EXPORT_SIGNS = (b'"request_parameters"', b'"prompt_tokens"')
_PREFILL = re.compile(rb"Prefill batch[^#]{0,40}#new-seq: \d+, #new-token: (\d+), #cached-token: (\d+)")
_META = b"'meta_info': {"
_PYTHON_ID, _PYTHON_PROMPT, _PYTHON_CACHED = (
    re.compile(pattern)
    for pattern in (rb"'id': '([^']{1,200})'", rb"'prompt_tokens': (\d+)", rb"'cached_tokens': (\d+)")
)
_EVENT = re.compile(
    rb'\{"timestamp": "(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?", '
    rb'"event": "request\.(received\.openai|received|finished)"'
)
_CUT_TEXT = re.compile(r'"(?:[^"\\]|\\.){1024}\.\.\.(?:[^"\\]|\\.){1024}"')  # a text that level 2 has cut
_BEGINNING = 256  # bytes of a line that contain its time
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_FULL_BODIES_HINT = "--log-requests-level 3 --log-requests-format json logs them whole"


class _SglangBody(Struct, frozen=True):
    body: bytes
    at: float | None
    line: int
    byte: int


class SglangLog(EngineLog):
    """Reader of SGLang's log and of its files of requests."""

    name: ClassVar[str] = "sglang-log"
    engine: ClassVar[str] = "sglang"

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[_SglangBody] = []  # without a request yet
        self._running: dict[str, _SglangBody] = {}  # by request
        self._knows_python = False  # whether bodies as Python text were reported

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        signed = any(sign in head for sign in _SIGNS) and _ENGINE_TIME.search(head) is not None
        return signed or all(sign in head for sign in _EXPORT_SIGNS) and head[:1] == b"{"

    def _engine_time(self, text: bytes) -> LogTime:
        match = _ENGINE_TIME.search(text[:_BEGINNING])
        return LogTime() if match is None else local_time(match)

    def _line(self, text: bytes, line: Line) -> Iterator[LogValue]:
        prefix = _ENGINE_TIME.search(text[:_BEGINNING])
        message = text if prefix is None else text[prefix.end() :]
        if message[:1] == b"{":
            yield from self._record(message, self._time(text), line)
        elif (match := _PREFILL.match(message)) is not None:
            new, cached, time = count_in(match[1]), count_in(match[2]), self._time(text)
            if new is not None and cached is not None:
                yield Measurement(
                    "batch", self.engine, time.at, time.clock, prompt_tokens=new + cached, cached_tokens=cached
                )
        elif message.startswith(b"Finish: obj=") and _META in message:
            meta = message[message.rfind(_META) :]  # everything before the last one may be content
            prompt, cached, name = (pattern.search(meta) for pattern in (_PYTHON_PROMPT, _PYTHON_CACHED, _PYTHON_ID))
            if prompt is not None and cached is not None:
                request_id = "" if name is None else name[1].decode("utf-8", "replace")
                yield from self._request(self._time(text), request_id, count_in(prompt[1]), count_in(cached[1]))
        elif message.startswith(b"Receive OpenAI: obj=") and not self._knows_python:
            self._knows_python = True
            yield Problem(Code.CONTENT_NOT_RECORDED, f"bodies are logged as Python text: {_FULL_BODIES_HINT}")

    def _record(self, message: bytes, time: LogTime, line: Line) -> Iterator[LogValue]:
        """Read an event of a request (body, id or end), or the record of one exported when it ended."""
        event = _EVENT.match(message)
        if event is None and not all(sign in message for sign in _EXPORT_SIGNS):
            return
        record = raw_members(message)
        if record is None:
            yield Problem(Code.UNREADABLE_LINE, "unreadable line: a record that is not JSON")
            return
        if event is None:
            yield from self._end(record, time, None)
            return
        name = text_of(record.get("rid", b'""'))
        time = time if time.clock == "utc" else local_time(event)
        if event[8] == b"received.openai":
            yield from self._received(record.get("obj", b""), time, line)
        elif event[8] == b"received":
            body, self._waiting = self._waiting[:1], self._waiting[1:]
            if body and name:
                remember(self._running, name, body[0])
        else:
            meta = raw_members((raw_members(record.get("out", b"null")) or {}).get("meta_info", b"null")) or {}
            yield from self._end(meta, time, self._running.pop(name, None))

    def _received(self, body: bytes, time: LogTime, line: Line) -> Iterator[LogValue]:
        """Keep a body for the next request; if two wait, yield both without a request."""
        if b"..." in body and _CUT_TEXT.search(body.decode("utf-8", "replace")) is not None:
            yield Problem(Code.CONTENT_NOT_RECORDED, f"the body of a request was cut: {_FULL_BODIES_HINT}")
        elif not is_body(raw_members(body) or {}, is_call=True):
            yield Problem(Code.REQUEST_NOT_JUDGED, "the body of a request that is not a chat")
        else:
            self._waiting.append(_SglangBody(body, time.at, line.number, line.byte))
            if len(self._waiting) > 1:
                yield from (_exchange(waiting_body, None, "") for waiting_body in self._waiting)
                self._waiting = []

    def _end(self, meta: dict[str, bytes], time: LogTime, body: _SglangBody | None) -> Iterator[LogValue]:
        """Yield the measurement of an ended request, and its body if known."""
        usage = decode_usage(object_of({key: meta[key] for key in _COUNTS if key in meta}))
        name = text_of(meta.get("id", b'""'))
        if usage is not None and usage.uncached_tokens is not None and usage.read_tokens is not None:
            yield from self._request(time, name, usage.uncached_tokens + usage.read_tokens, usage.read_tokens)
        if body is not None:
            yield _exchange(body, usage, name)

    def _flush(self) -> list[Read]:
        bodies = [*self._running.values(), *self._waiting]
        self._running, self._waiting = {}, []
        return [*(_exchange(body, None, "") for body in sorted(bodies, key=lambda body: body.byte)), *super()._flush()]


def _exchange(body: _SglangBody, usage: Usage | None, name: str) -> Read:
    call = call_of({}, raw_members(body.body) or {})
    exchange = Exchange(body.body, "structural", body.at, usage, response_id=name, call=call)
    return Read(exchange, body.line, body.byte)
