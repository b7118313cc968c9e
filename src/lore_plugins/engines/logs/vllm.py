"""The reader of vLLM's log: hit rates printed every ten seconds, LMCache's look-ups, request bodies.

It reads lines of `vllm serve`, plain, coloured or JSON, and returns a `window` for each hit rate (of the latest 1,000
requests, of one engine or all), a `request` for each look-up of LMCache, and an exchange for each logged body. vLLM
reports the tokens that one request read only in its response (`cached_tokens`, with `--enable-prompt-tokens-details`).
Rendered prompts are skipped: they are not requests.

Sources: vLLM 0.32.0 (2026-10), `logger.py` (`VLLM_LOGGING_PREFIX`, `_FORMAT`, `%m-%d %H:%M:%S`: local time without a
year), `v1/metrics/loggers.py` and `stats.py` (`CachingMetrics`), `entrypoints/serve/utils/request_logger.py` (bodies at
`--enable-log-requests` with the level DEBUG, cut by `--max-log-len`; `exclude_unset`, in the order of its own fields),
`vllm_v1_adapter.py` of LMCache; the form `Prefix cache hit rate: GPU: 22.16%, CPU: 0.00%` is vLLM's before 0.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from msgspec.structs import replace

from lore.formats import Line, call_of, is_body
from lore.model import EXTERNAL, PROCESS, Code, Exchange, Measurement, Problem, is_json, raw_members, text_of
from lore_plugins.engines.logs.lines import (
    EngineLog,
    LogTime,
    LogValue,
    count_in,
    local_time,
    remember,
    utc_seconds,
    without_colours,
)

_BEGINNING = 512  # bytes of a line that contain its time and place
_PROCESS = re.compile(rb"^.{0,128}?\(\w{1,64} pid=(\d{1,9})\) ")
_EARLY, _MANY_EARLY = 5.0, 2  # seconds, half of the interval between reports; so often it is not a coincidence
_LMCACHE_TIME = re.compile(rb"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] LMCache ")
_ENGINE_TIME = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?: \[|[ ,.])")
_JSON_TIME = re.compile(rb'"asctime": ?"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.]?(\d{0,6})')
_SIGNS = (b"vllm", b"vLLM", b"[loggers.py:", b"[request_logger.py:", b"Avg prompt throughput")
_MEASURING = (b"refix cache hit rate: ", b"LMCache hit tokens: ", b" JSON body: ")
# The place in the code before a message; only the first match counts, the rest of the line may quote a prompt.
_PLACE = re.compile(rb"[\w./]{1,200}\.py:\d+\] |\bLMCache [A-Z]+\S{0,20}: ")
_REPORT = re.compile(
    rb"(?:Engine (\d{1,6}): |\d{1,6} Engines Aggregated: )?(?:Avg prompt throughput|Prefix cache hit rate)"
)
_RATE = re.compile(rb"Prefix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,4})?)%")
_EXTERNAL = re.compile(rb"External prefix cache hit rate: (\d{1,3}(?:\.\d{1,4})?)%")
_LOOKUP = re.compile(
    rb"Reqid: ([^\s,]{1,200}), Total tokens (\d+),(?: [\w ]+: \d+,)? LMCache hit tokens: (\d+), need to load: (-?\d+)"
)
_BODY = re.compile(rb"Request [^\s]{1,200} JSON body: (.*)", re.DOTALL)


class VllmLog(EngineLog):
    """Reader of vLLM's log."""

    name: ClassVar[str] = "vllm-log"
    engine: ClassVar[str] = "vllm"

    def __init__(self) -> None:
        super().__init__()
        self._report_times: dict[str, float] = {}  # time of the last report by engine
        self._early_reports = 0  # reports that came too early for one engine

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not any(sign in head for sign in _SIGNS):
            return False
        is_json_log = b'"levelname"' in head and _JSON_TIME.search(head) is not None
        return is_json_log or _ENGINE_TIME.search(without_colours(head)) is not None

    def _line(self, text: bytes, line: Line) -> Iterator[LogValue]:
        if not any(sign in text for sign in _MEASURING):
            return
        message, time = _message(text), self._time(text)
        process = _PROCESS.search(text[:_BEGINNING])
        server = "" if process is None else f"{PROCESS}{process[1].decode()}"
        if (match := _REPORT.match(message)) is not None:
            yield from self._rates(message, time, (match[1] or b"").decode(), server)
        elif (match := _LOOKUP.match(message)) is not None:
            prompt, external, load = count_in(match[2]), count_in(match[3]), count_in(match[4].lstrip(b"-"))
            if prompt is None or external is None or load is None:
                return
            load = -load if match[4].startswith(b"-") else load
            # Cached are the tokens in vLLM's own cache, and those loaded from LMCache. If that holds the whole prompt,
            # its last token is computed again and not loaded.
            cached = external - load - (external == prompt) + max(load, 0)
            for request in self._request(time, match[1].decode("utf-8", "replace"), prompt, cached):
                yield replace(request, server=server)
        elif (match := _BODY.match(message)) is not None:
            yield _exchange(match[1].strip(), time)

    def _rates(self, report: bytes, time: LogTime, name: str, server: str) -> Iterator[LogValue]:
        """Yield the hit rates of the engine's cache, and of the external one for the tokens that the first lacked.

        An engine that reports too often may be two unnamed servers, which is reported once.
        """
        has_rate = False
        for engine, pattern in ((self.engine, _RATE), (EXTERNAL, _EXTERNAL)):
            match = pattern.search(report)
            share = None if match is None else float(match[1]) / 100
            if share is not None and share <= 1:
                has_rate = True
                yield Measurement("window", engine, time.at, time.clock, name, share=share, server=server)
        if not has_rate or self._server or server or time.at is None:
            return
        last = self._report_times.get(name)
        remember(self._report_times, name, time.at)
        is_early = last is not None and abs(time.at - last) < _EARLY
        self._early_reports += is_early
        if is_early and self._early_reports == _MANY_EARLY:
            text = f"engine {name or '0'} reports more than once in {_EARLY:g} seconds: if these are two servers, "
            yield Problem(Code.ENGINES_MIXED, text + "their rates are read as one")

    def _engine_time(self, text: bytes) -> LogTime:
        beginning = text[:_BEGINNING]
        if (match := _JSON_TIME.search(beginning) or _LMCACHE_TIME.search(beginning)) is not None:
            return local_time(match)
        match = _ENGINE_TIME.search(beginning)
        return LogTime() if match is None else LogTime(utc_seconds(("2000", *match.groups())), "year")


def _exchange(body: bytes, time: LogTime) -> Exchange | Problem:
    if not is_json(body):
        return Problem(Code.CONTENT_NOT_RECORDED, "the body of a request was cut: --max-log-len")
    members = raw_members(body) or {}
    if not is_body(members, is_call=True):
        return Problem(Code.REQUEST_NOT_JUDGED, "the body of a request that is not a chat")
    at = None if time.clock == "year" else time.at
    return Exchange(body, "structural", at, call=call_of({}, members))


def _message(text: bytes) -> bytes:
    """Return the message of a line, which is JSON or begins with its place in the code; else b""."""
    if text[:1] == b"{":
        message = (raw_members(text) or {}).get("message", b"")
        return text_of(message).encode("utf-8", "replace") if message[:1] == b'"' else b""
    place = _PLACE.search(text[:_BEGINNING])
    return b"" if place is None else text[place.end() :]
