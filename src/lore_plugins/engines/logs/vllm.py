"""vLLM's log: the hit rate that it prints every ten seconds, what LMCache found of each request, requests' bodies.

In: lines of `vllm serve`, plain, coloured or JSON. Out: a `window` each time that a hit rate is printed (of the most
recent 1,000 requests, one or all engines), a `request` for each that LMCache looked up, an exchange for each body that
is logged. What vLLM read of one request by itself stands in its answers, not in its log (`cached_tokens`, with
`--enable-prompt-tokens-details`). Rendered prompts are passed over: they are no request.

Sources: vLLM 0.32.0 (2026-10), `logger.py` (`VLLM_LOGGING_PREFIX`, `_FORMAT`, `%m-%d %H:%M:%S`: local time without a
year), `v1/metrics/loggers.py` and `stats.py` (`CachingMetrics`), `entrypoints/serve/utils/request_logger.py` (bodies at
`--enable-log-requests` with the level DEBUG, cut by `--max-log-len`; `exclude_unset`, in the order of its own fields),
`vllm_v1_adapter.py` of LMCache; the form `Prefix cache hit rate: GPU: 22.16%, CPU: 0.00%` is vLLM's before 0.9.
"""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from lore.formats import Line, Read, call_of, is_body, placed, problem
from lore.model import EXTERNAL, PROCESS, Code, Exchange, Measurement, Problem, is_json, table, text_of
from lore_plugins.engines.logs.lines import EngineLog, LogTime, count_in, moment, plain, remember

ENGINE = "vllm"
_BEGINNING = 512  # bytes of a line in which its time and place stand
_PROCESS = re.compile(rb"^.{0,128}?\(\w{1,64} pid=(\d{1,9})\) ")
_EARLY, _SURELY = 5.0, 2  # seconds: half of what vLLM waits between two reports; as often, it is no chance
_LMCACHE_TIME = re.compile(rb"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d),(\d{3})\] LMCache ")
_OWN = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?: \[|[ ,.])")
_JSON_TIME = re.compile(rb'"asctime": ?"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.]?(\d{0,6})')
_SIGNS = (b"vllm", b"vLLM", b"[loggers.py:", b"[request_logger.py:", b"Avg prompt throughput")
# What stands before a message: where in the code it is logged. What comes behind the first may quote a prompt.
_PLACE = re.compile(rb"[\w./]{1,200}\.py:\d+\] |\bLMCache [A-Z]+\S{0,20}: ")
_REPORT = re.compile(
    rb"(?:Engine (\d{1,6}): |\d{1,6} Engines Aggregated: )?(?:Avg prompt throughput|Prefix cache hit rate)"
)
_RATE = re.compile(rb"Prefix cache hit rate: (?:GPU: )?(\d{1,3}(?:\.\d{1,4})?)%")
_EXTERNAL = re.compile(rb"External prefix cache hit rate: (\d{1,3}(?:\.\d{1,4})?)%")
_LOOKED_UP = re.compile(
    rb"Reqid: ([^\s,]{1,200}), Total tokens (\d+),(?: [\w ]+: \d+,)? LMCache hit tokens: (\d+), need to load: (-?\d+)"
)
_BODY = re.compile(rb"Request [^\s]{1,200} JSON body: (.*)", re.DOTALL)


class _VllmState(Struct):
    """When engines reported last; how often one did too early to be one alone."""

    last: dict[str, float] = {}
    early: int = 0


class VllmLog(EngineLog[_VllmState]):
    """Reader of vLLM's log."""

    name: ClassVar[str] = "vllm-log"
    remembers: ClassVar[type[Struct]] = _VllmState

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        if not any(sign in head for sign in _SIGNS):
            return False
        return _OWN.search(plain(head)) is not None or (b'"levelname"' in head and _JSON_TIME.search(head) is not None)

    def _line(self, text: bytes, line: Line) -> list[Read]:
        kinds = ((b"refix cache hit rate: ", _rates), (b"LMCache hit tokens: ", _lookup), (b" JSON body: ", _body))
        for sign, values in kinds:
            if sign in text:
                found = [self._of_server(value, text) for value in values(_message(text), self._time(text))]
                return [*(placed(value, line) for value in found), *self._mixed(found, line)]
        return []

    def _mixed(self, found: list[Measurement | Exchange | Problem], line: Line) -> list[Read]:
        """Say once where reports of an engine come too often, and no line says that they are of two servers."""
        first = found[0] if found else None
        if not isinstance(first, Measurement) or first.extent != "window" or first.server or first.at is None:
            return []
        last, state = self._kept.last.get(first.name), self._kept
        remember(state.last, first.name, first.at)
        state.early += last is not None and abs(first.at - last) < _EARLY
        if state.early != _SURELY or last is None or abs(first.at - last) >= _EARLY:
            return []
        text = f"engine {first.name or '0'} reports more than once in {_EARLY:g} seconds: if these are two servers, "
        return [problem(Code.ENGINES_MIXED, text + "their rates are read as one", line)]

    def _of_server(self, value: Measurement | Exchange | Problem, text: bytes) -> Measurement | Exchange | Problem:
        """Return a measurement with whose it is: as its collector names it, else the process that wrote it."""
        if not isinstance(value, Measurement):
            return value
        process = _PROCESS.search(text[:_BEGINNING])
        return replace(value, server=self._server or (f"{PROCESS}{process[1].decode()}" if process else ""))

    def _own_time(self, text: bytes) -> LogTime:
        beginning = text[:_BEGINNING]
        if (match := _JSON_TIME.search(beginning) or _LMCACHE_TIME.search(beginning)) is not None:
            return LogTime(moment(match.groups()[:6], match[7]), "local")
        match = _OWN.search(beginning)
        return LogTime() if match is None else LogTime(moment(("2000", *match.groups())), "year")


def _rates(text: bytes, time: LogTime) -> list[Measurement]:
    """Return the rate of this engine's own cache, and that of what a connector found of the rest."""
    report = _REPORT.match(text)
    if report is None:
        return []
    name = "" if report[1] is None else report[1].decode()
    found: list[Measurement] = []
    for engine, pattern in ((ENGINE, _RATE), (EXTERNAL, _EXTERNAL)):
        match = pattern.search(text)
        share = None if match is None else float(match[1]) / 100
        if share is not None and share <= 1:
            found.append(Measurement("window", engine, time.at, time.clock, name, share=share))
    return found


def _lookup(text: bytes, time: LogTime) -> list[Measurement]:
    """Return what a request found in both caches: computed here, and loaded on top of that.

    A prompt that stands there whole has its last token computed again, and that is taken off what is loaded.
    """
    match = _LOOKED_UP.match(text)
    if match is None:
        return []
    prompt, external, load = count_in(match[2]), count_in(match[3]), count_in(match[4].lstrip(b"-"))
    if prompt is None or external is None or load is None:
        return []
    load = -load if match[4].startswith(b"-") else load
    cached = external - load - (external == prompt) + max(load, 0)
    if not 0 <= cached <= prompt:
        return []
    name = match[1].decode("utf-8", "replace")
    return [Measurement("request", ENGINE, time.at, time.clock, name, 1, prompt, cached)]


def _body(text: bytes, time: LogTime) -> list[Exchange | Problem]:
    match = _BODY.match(text)
    if match is None:
        return []
    body = match[1].strip()
    if not is_json(body):
        return [Problem(Code.CONTENT_NOT_RECORDED, "the body of a request was cut: --max-log-len")]
    members = table(body) or {}
    if not is_body(members, sent=True):
        return [Problem(Code.REQUEST_NOT_JUDGED, "the body of a request that is no chat")]
    at = None if time.clock == "year" else time.at
    return [Exchange(body, "structural", at, call=call_of({}, members))]


def _message(text: bytes) -> bytes:
    """Return the message of a line, which is JSON or begins with where it was logged; empty where there is none."""
    if text[:1] == b"{":
        message = (table(text) or {}).get("message", b"")
        return text_of(message).encode("utf-8", "replace") if message[:1] == b'"' else b""
    place = _PLACE.search(text[:_BEGINNING])
    return b"" if place is None else text[place.end() :]
