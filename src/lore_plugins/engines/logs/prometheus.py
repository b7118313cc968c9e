"""The reader of consecutive scrapes of an engine's metrics: the tokens read between two scrapes.

It reads Prometheus' exposition format or OpenMetrics, of vLLM, SGLang, llama-server or LMCache, and returns an
`interval` for each scrape: the increase of its counters since the previous one, for the first one their values. A
scrape ends where a series repeats, at `# EOF`, or at the end. Its time is that of its samples, else a line before it
that is a time (`date -u +%FT%TZ`, or seconds since 1970, bare or as a comment); engines write none. The increases of
all models or engines are added up. If a counter fell, all with its labels are taken as restarted, and a problem reports
that two servers may be mixed. Servers that a collector names before each line are kept separate.

Sources: Prometheus' page on exposition formats, OpenMetrics 1.0; vLLM 0.32.0 (`v1/metrics/loggers.py`: prefix cache and
connector count tokens, and their hits add up to what was cached; `gpu_prefix_cache_…` before 0.10); SGLang 0.5.23
(`metrics_collector.py`: `cached_tokens_total` by source, without a sample until something was read); llama.cpp of
2026-11 (`server-task.cpp`: `prompt_tokens_total` leaves out cached ones; earlier ones do not count these); LMCache's
`observability.py` of 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from msgspec import Struct

from lore.formats import BOM, SPACE, Line, Read
from lore.model import Code, Measurement, Problem, parse_timestamp
from lore_plugins.engines.logs.lines import LARGEST_COUNT, EngineLog, LogTime, LogValue, remember, split_name


class _Counters(NamedTuple):
    """The names of an engine's counters, the newest name first."""

    prompt: tuple[str, ...]  # tokens of prompts
    cached: tuple[str, ...]  # tokens read
    requests: tuple[str, ...] = ()
    external: tuple[str, ...] = ()  # tokens read from an external cache
    excludes_cached: bool = False  # whether `prompt` does not include `cached`
    sparse: bool = False  # whether `cached` is missing until it is more than 0


_ENGINES: dict[str, _Counters] = {
    "vllm": _Counters(("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
                      ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
                      ("vllm:request_success",), ("vllm:external_prefix_cache_hits",)),
    "sglang": _Counters(("sglang:prompt_tokens",), ("sglang:cached_tokens",), ("sglang:num_requests",), sparse=True),
    "llama.cpp": _Counters(("llamacpp:prompt_tokens",), ("llamacpp:prompt_tokens_cached",), excludes_cached=True),
    "lmcache": _Counters(("lmcache:num_requested_tokens",), ("lmcache:num_hit_tokens",)),
}  # fmt: skip
_COUNTER_NAMES = frozenset(name for counters in _ENGINES.values() for part in counters[:4] for name in part)
_PREFIXES = (b"vllm:", b"sglang:", b"llamacpp:", b"lmcache:")
_SAMPLE = re.compile(
    rb'((?:vllm|sglang|llamacpp|lmcache):[a-z_]{1,80})(\{(?:[^"}]|"(?:[^"\\]|\\.)*+")*+\})?'
    rb" +(\S{1,32})(?: +(\d{1,16}))?\s*$"
)
_COMMENT = re.compile(rb"# (?:HELP|TYPE|EOF)\b")
_FALLEN_MESSAGE = "counters fell: the server was restarted, or two servers without labels are scraped to this file"
_MOST_SERIES = 10_000  # of one scrape; the counters read here have a few for each model
_LONGEST_SAMPLE = 4096  # bytes of a sample
_MILLISECONDS = 1e11  # a larger time is in milliseconds


class _Scrape(Struct):
    series: dict[bytes, float] = {}
    at: float | None = None
    is_cut: bool = False  # whether series were skipped


class _ServerState(Struct):
    scrape: _Scrape  # the scrape whose lines are read
    previous: dict[bytes, float]  # the values of all earlier scrapes


class EngineMetrics(EngineLog):
    """Reader of scrapes of engines' metrics."""

    name: ClassVar[str] = "engine-metrics"

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[str, _ServerState] = {}
        self._has_fallen = False  # whether fallen counters were reported

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        lines = [line for line in head.removeprefix(BOM).split(b"\n", 8)[:8] if line.strip(SPACE)]
        lines = [split_name(line)[1] for line in lines]
        has_metric_line = any(_COMMENT.match(line) or line.startswith(_PREFIXES) for line in lines)
        return has_metric_line and any(prefix in head for prefix in _PREFIXES)

    @property
    def _state(self) -> _ServerState:
        """The scrapes of the server whose line is read."""
        if self._server not in self._servers:
            remember(self._servers, self._server, _ServerState(_Scrape(), {}))
        return self._servers[self._server]

    def _engine_time(self, text: bytes) -> LogTime:
        return LogTime(_time_in(text))

    def _line(self, text: bytes, line: Line) -> Iterator[LogValue]:
        if text.startswith(_PREFIXES):
            yield from self._sample(text)
        elif text.startswith(b"# EOF"):
            yield from self._end_scrape()
        elif (at := _time_in(text)) is not None:
            yield from self._end_scrape()
            self._state.scrape.at = at

    def _sample(self, text: bytes) -> Iterator[LogValue]:
        match = _SAMPLE.match(text) if len(text) <= _LONGEST_SAMPLE else None
        if match is None or match[1].decode().removesuffix("_total") not in _COUNTER_NAMES:
            return
        value = _parse_count(match[3])
        if value is None:
            yield Problem(Code.UNREADABLE_LINE, "unreadable line: a sample that is not a count")
            return
        series = match[1] + (match[2] or b"")
        if series in self._state.scrape.series:
            yield from self._end_scrape()
        scrape = self._state.scrape
        if len(scrape.series) >= _MOST_SERIES:
            if not scrape.is_cut:
                message = f"series of a scrape are skipped: it has more than {_MOST_SERIES:,}"
                yield Problem(Code.CAPTURE_TOO_LARGE, message)
            scrape.is_cut = True
            return
        scrape.series[series] = value
        if match[4] is not None:
            scrape.at = int(match[4]) / 1e3

    def _end_scrape(self) -> Iterator[LogValue]:
        """Yield the increases of the counters since the previous scrape."""
        state = self._state
        scrape, previous = state.scrape, state.previous
        if not scrape.series:
            return
        latest = {**previous, **scrape.series}
        state.scrape, state.previous = _Scrape(), latest if len(latest) <= _MOST_SERIES else scrape.series
        fallen = {_labels(series) for series, value in scrape.series.items() if value < previous.get(series, 0.0)}
        increases: dict[str, float] = {}
        for series, value in scrape.series.items():
            name = series.partition(b"{")[0].decode().removesuffix("_total")
            start = 0.0 if _labels(series) in fallen else previous.get(series, 0.0)
            increases[name] = increases.get(name, 0.0) + value - start
        measures = [_measure(engine, counters, increases, scrape.at) for engine, counters in _ENGINES.items()]
        yield from filter(None, measures)
        if fallen and not self._has_fallen:
            self._has_fallen = True
            yield Problem(Code.ENGINES_MIXED, _FALLEN_MESSAGE)

    def _flush(self) -> list[Read]:
        reads: list[Read] = []
        for server in list(self._servers):
            self._server = server
            reads += self._placed(self._end_scrape())
        return reads + super()._flush()


def _labels(series: bytes) -> bytes:
    return series.partition(b"{")[2]


def _measure(engine: str, counters: _Counters, increases: dict[str, float], at: float | None) -> Measurement | None:
    prompt, cached, requests, external = (
        next((increases[name] for name in names if name in increases), None) for names in counters[:4]
    )
    cached = 0.0 if cached is None and counters.sparse else cached
    if prompt is None or cached is None:
        return None
    cached += external or 0.0
    prompt = prompt + cached if counters.excludes_cached else prompt
    if not prompt:
        return None
    number = None if requests is None else int(requests)
    return Measurement("interval", engine, at, "utc", "", number, int(prompt), int(min(cached, prompt)))


def _parse_count(digits: bytes) -> float | None:
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if 0 <= value <= LARGEST_COUNT else None


def _time_in(text: bytes) -> float | None:
    """Return the time of a line that contains only a time, bare or as a comment; else None."""
    if len(text) > 64:
        return None
    piece = text.lstrip(b"# \t").rstrip(SPACE).decode("utf-8", "replace")
    if piece.replace(".", "", 1).isdigit() and piece.isascii():
        seconds = float(piece)
        return seconds / 1e3 if seconds > _MILLISECONDS else seconds if seconds > 1e8 else None
    return parse_timestamp(piece) if piece[:4].isdigit() and piece[4:5] == "-" else None
