"""Logs of engines: measurements of their caches, and request bodies."""

import json

import pytest

from helpers.each import each
from helpers.recognising import recognise
from lore.formats.base import Reader
from lore.model.codes import Problem
from lore.model.results.measured import Measurement
from lore.model.turn import Exchange
from lore.testing import ReaderContract, everything
from lore_plugins.engines.logs.llama import LlamaLog
from lore_plugins.engines.logs.prometheus import EngineMetrics
from lore_plugins.engines.logs.sglang import SglangLog
from lore_plugins.engines.logs.vllm import VllmLog
from plugins.engines.logs.writing import (
    START,
    event,
    finish_line,
    join_lines,
    lookup_line,
    meta,
    prefill,
    rate,
    scrape,
    served,
    sglang,
    slot,
    timings,
    vllm,
    vllm_body,
    when,
)

BODY: dict[str, object] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MIXED_ENDS = join_lines(prefill(1, 900, 0), prefill(2, 900, 100))
VLLM = join_lines(
    vllm(0, "vLLM API server version 0.32.0", place="api_server.py:100"),
    rate(10, 0.0),
    vllm_body(15, "chatcmpl-1", BODY),
    rate(20, 48.4, external=3.0),
    lookup_line(21, "chatcmpl-2", 2036, 512, 256),
)
SGLANG = join_lines(
    sglang(0, "server_args=ServerArgs(model_path='m')"),
    prefill(1, 900, 0),
    finish_line(2, "a1", 900, 0),
    *served(3, "a2", BODY, 1000, 900),
)
LLAMA = join_lines(
    "build: 7000 (abc) with cc",
    slot(1, 0, "processing task, is_child = 0", function="launch_slot_"),
    *timings(3, 0, 60, 192, 251),
    *timings(9, 5, 27, 10, 287),
)
METRICS = join_lines(
    f"# {when(0, '%Y-%m-%dT%H:%M:%SZ')}",
    *scrape("vllm", prompt=1000, cached=0, requests=1),
    f"# {when(60, '%Y-%m-%dT%H:%M:%SZ')}",
    *scrape("vllm", prompt=5000, cached=3200, requests=5),
)


class TestVllm(ReaderContract):
    reader = VllmLog
    samples = (VLLM, VLLM + MIXED_ENDS)


class TestSglang(ReaderContract):
    reader = SglangLog
    samples = (SGLANG,)


class TestLlama(ReaderContract):
    reader = LlamaLog
    samples = (LLAMA,)


class TestMetrics(ReaderContract):
    reader = EngineMetrics
    samples = (METRICS, METRICS + METRICS, b"a | " + METRICS)


def read(data: bytes, reader: type[Reader] | None = None) -> list[object]:
    kind = reader or recognise(data)
    assert kind is not None
    return [entry.value for entry in everything(kind(), data)]


def measures(data: bytes, reader: type[Reader] | None = None) -> list[Measurement]:
    return [value for value in read(data, reader) if isinstance(value, Measurement)]


def exchanges(data: bytes, reader: type[Reader] | None = None) -> list[Exchange]:
    return [value for value in read(data, reader) if isinstance(value, Exchange)]


def problems(data: bytes, reader: type[Reader] | None = None) -> list[Problem]:
    return [value for value in read(data, reader) if isinstance(value, Problem)]


def counts(data: bytes, reader: type[Reader] | None = None) -> list[tuple[int | None, int | None]]:
    return [(measure.prompt_tokens, measure.cached_tokens) for measure in measures(data, reader)]


@pytest.mark.parametrize(
    ("data", "reader"), [(VLLM, VllmLog), (SGLANG, SglangLog), (LLAMA, LlamaLog), (METRICS, EngineMetrics)]
)
def test_logs_are_recognised_by_content(data: bytes, reader: type[Reader]):
    assert recognise(data) is reader


def test_coloured_logs_are_recognised():
    line = vllm(0, "Engine 000: Avg prompt throughput").replace("INFO 11-20", "\x1b[32mINFO\x1b[0m \x1b[90m11-20")
    assert recognise(join_lines(line)) is VllmLog
    coloured = [text.replace("slot", "\x1b[32mI \x1b[0mslot") for text in timings(3, 0, 60, 192, 251)]
    assert recognise(join_lines(*coloured)) is LlamaLog


@pytest.mark.parametrize("text", [
    b"a text\nof prose\n", b"INFO 11-20 08:00:00 [app.py:1] started\n", b"[2026-11-20 08:00:00] hello\n",
    b"# TYPE x counter\nx 1\n",
])  # fmt: skip
def test_other_text_is_not_recognised(text: bytes):
    assert recognise(text) is None


def test_hit_rates_have_engine_and_time():
    rates = [measure for measure in measures(VLLM) if measure.extent == "window"]
    assert [(measure.engine, measure.name, measure.share) for measure in rates] == [
        ("vllm", "000", 0.0),
        ("vllm", "000", 0.484),
        ("external", "000", 0.03),
    ]
    assert rates[1].clock == "year"
    assert (rates[1].at or 0) - (rates[0].at or 0) == 10


@each("line, share", [
    ("INFO 05-25 06:50:29 [metrics.py:502] Prefix cache hit rate: GPU: 22.16%, CPU: 90.00%", 0.2216),
    ("[INFO 08-16 11:53:40 metrics.py:434] Prefix cache hit rate: GPU: 22.16%, CPU: 0.00%", 0.2216),
    (rate(0, 12.5).replace("Engine 000: ", "2 Engines Aggregated: "), 0.125),
    ("\x1b[0;36m(APIServer pid=1)\x1b[0;0m \x1b[32mINFO\x1b[0m " + rate(0, 12.5).partition("INFO ")[2], 0.125),
    ("vllm-1  | 2026-11-20T08:00:00.5Z " + rate(0, 12.5), 0.125),
    (json.dumps({"asctime": "2026-11-20 08:00:00,250", "levelname": "INFO", "name": "vllm.v1.metrics.loggers",
                 "processName": "MainProcess", "process": 1, "message": rate(0, 12.5).partition("] ")[2]}), 0.125),
])  # fmt: skip
def test_rate_is_read_from_every_version(line: str, share: float):
    assert [measure.share for measure in measures(join_lines(line), VllmLog)] == [pytest.approx(share)]


def test_collector_time_wins_over_engine_time():
    line = f"{when(7, '%Y-%m-%dT%H:%M:%S')}.5+02:00 stdout F {rate(0, 12.5)}"
    (measure,) = measures(join_lines(line), VllmLog)
    assert (measure.clock, measure.at) == ("utc", START + 7.5 - 7200)


def test_quoted_rates_are_ignored():
    quoted = rate(5, 99.0)
    lines = (
        vllm(5, f"Received request chatcmpl-1: prompt: {quoted!r}, params: None", place="logger.py:39"),
        vllm(6, f"Generated response chatcmpl-1: output: {quoted!r}, finish_reason: stop", place="request_logger.py:1"),
        vllm(7, f"Received request {lookup_line(5, 'x', 9, 9, 0)}", place="logger.py:39"),
    )
    assert measures(join_lines(*lines), VllmLog) == []


@each("hit, load, cached", [
    (512, 256, 512), (512, -128, 640), (512, 0, 512), (2036, 2035, 2035), (2036, 3, 2035), (9999, 1, None),
])  # fmt: skip
def test_lmcache_lookup_adds_both_caches(hit: int, load: int, cached: int | None):
    pairs = counts(join_lines(lookup_line(0, "chatcmpl-2", 2036, hit, load)), VllmLog)
    assert pairs == ([] if cached is None else [(2036, cached)])


def test_cut_body_is_a_problem():
    cut = vllm_body(1, "chatcmpl-9", BODY)[:-9]
    data = join_lines(vllm_body(0, "chatcmpl-1", BODY), cut, vllm_body(2, "embd-1", {"input": 5}))
    assert [json.loads(exchange.body) for exchange in exchanges(data, VllmLog)] == [BODY]
    assert [exchange.code for exchange in problems(data, VllmLog)] == ["LORE228", "LORE210"]


def test_prefill_steps_and_ended_requests_are_measured():
    steps = measures(SGLANG)
    assert [(measure.extent, measure.name, measure.prompt_tokens, measure.cached_tokens) for measure in steps] == [
        ("batch", "", 900, 0),
        ("request", "a1", 900, 0),
        ("request", "a2", 1000, 900),
    ]
    assert (steps[1].clock, steps[1].at) == ("local", START + 2)


def test_quoted_measurements_are_ignored():
    quoted = "'meta_info': {'id': 'evil', 'prompt_tokens': 7, 'cached_tokens': 7} " + prefill(0, 1, 1)
    assert counts(join_lines(finish_line(0, "a1", 900, 30, text=quoted)), SglangLog) == [(900, 30)]


def test_body_gets_the_usage_of_its_request():
    (exchange,) = exchanges(SGLANG)
    assert json.loads(exchange.body) == BODY
    bill = exchange.usage
    assert bill is not None
    assert (bill.uncached_tokens, bill.read_tokens, bill.output_tokens) == (100, 900, 8)
    assert (exchange.response_id, exchange.at) == ("a2", START + 3.25)


def test_bodies_that_wait_together_have_no_usage():
    first, second = served(0, "a", BODY, 100, 0), served(0, "b", BODY, 200, 0)
    mixed = [part for pair in zip(first, second, strict=True) for part in pair]
    assert [exchange.usage for exchange in exchanges(join_lines(*mixed), SglangLog)] == [None, None]
    assert counts(join_lines(*mixed), SglangLog) == [(100, 0), (200, 0)]


def test_cut_and_python_bodies_are_problems():
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * 1024 + "..." + "y" * 1024}]}
    python = sglang(1, f"Receive OpenAI: obj={BODY!r}")
    body_problems = problems(join_lines(event(0, "request.received.openai", obj=long), python, python), SglangLog)
    assert [problem.code for problem in body_problems] == ["LORE228", "LORE228"]
    assert all("--log-requests-format json" in problem.message for problem in body_problems)


def test_exported_requests_are_read():
    line = json.dumps({"request_parameters": "{}", **meta("a1", 50, 40)})
    assert recognise(join_lines(line)) is SglangLog
    assert counts(join_lines(line)) == [(50, 40)]


def test_read_tokens_follow_from_final_slot_size():
    assert counts(LLAMA) == [(60, 0), (278, 251)]
    assert [measure.at for measure in measures(LLAMA)] == [3.0, 9.0]


@pytest.mark.parametrize("messages", [
    ["task.n_tokens = 100", "cached n_tokens = 40, memory_seq_rm [40, end)", "memory_seq_rm [80, end)"],
    ["n_prompt_tokens = 100", "kv cache rm [40, end)"],
    ["task.n_tokens = 100"],
])  # fmt: skip
def test_logged_reads_win_over_computed_ones(messages: list[str]):
    prompt, *reads = messages
    lines = [slot(0, 3, f"new prompt, n_ctx_slot = 4096, n_keep = 0, {prompt}"), *(slot(0, 3, text) for text in reads)]
    assert counts(join_lines(*lines, *timings(1, 3, 60, 5, 999)), LlamaLog) == [(100, 40)]


def test_timings_on_separate_lines_are_read():
    lines = timings(1, 3, 60, 5, 104)
    broken = [
        slot(1, 3, "", function="print_timing"),
        *(line.partition("| task 3 | ")[2] for line in lines[:3]),
        lines[3],
    ]
    assert counts(join_lines(*broken), LlamaLog) == [(100, 40)]


def test_json_lines_log_gives_the_same_measurements():
    plain = timings(1, 3, 60, 5, 104)
    lines = [
        json.dumps({"type": "log", "time": 1_000_000, "level": "info", "msg": line.partition(" I ")[2] + "\n"})
        for line in plain
    ]
    assert recognise(join_lines(*lines)) is LlamaLog
    (measure,) = measures(join_lines(*lines))
    assert (measure.prompt_tokens, measure.cached_tokens, measure.at, measure.clock) == (100, 40, 1.0, "start")


@pytest.mark.parametrize("doubt", ["draft acceptance = 0.9 (   9 accepted /    10 generated)", ""])
def test_uncertain_requests_are_left_out(doubt: str):
    lines = timings(1, 3, 60, 5, 104)
    if doubt:
        lines.insert(3, slot(1, 3, doubt, function="print_timing"))
    else:
        lines[3] = lines[3].replace("truncated = 0", "truncated = 1")
    assert counts(join_lines(*lines), LlamaLog) == []


def test_scrapes_give_counter_increases():
    assert [
        (measure.at, measure.requests, measure.prompt_tokens, measure.cached_tokens) for measure in measures(METRICS)
    ] == [(START, 1, 1000, 0), (START + 60, 4, 4000, 3200)]


@pytest.mark.parametrize(("engine", "counters", "expected"), [
    ("sglang", {"prompt": 100}, [(100, 0)]),
    ("sglang", {"prompt": 100, "cached": 30}, [(100, 30)]),
    ("llama", {"prompt": 70, "cached": 30}, [(100, 30)]),
    ("llama", {"prompt": 70}, []),
    ("vllm", {"prompt": 0, "cached": 0}, []),
])  # fmt: skip
def test_counters_follow_each_engines_definition(
    engine: str, counters: dict[str, float], expected: list[tuple[int, int]]
):
    assert counts(join_lines(*scrape(engine, **counters)), EngineMetrics) == expected


def test_counters_of_engines_and_caches_are_added():
    data = join_lines(
        'vllm:prefix_cache_queries_total{engine="0"} 100',
        'vllm:prefix_cache_queries_total{engine="1"} 300',
        'vllm:prefix_cache_hits_total{engine="0"} 50',
        'vllm:prefix_cache_hits_total{engine="1"} 50',
        'vllm:external_prefix_cache_hits_total{engine="0"} 20 1763625600000',
        "vllm:prefix_cache_hits_created 1.7e9",
    )
    assert [(measure.at, measure.prompt_tokens, measure.cached_tokens) for measure in measures(data)] == [
        (1763625600.0, 400, 120)
    ]


def test_fallen_counters_are_reported_once():
    """llama-server writes no labels, so scrapes of two servers look like restarts."""
    both = [line for n in range(3) for base in (1000, 10) for line in scrape("llama", prompt=base + n, cached=base)]
    assert [(problem.code, problem.message[:13]) for problem in problems(join_lines(*both))] == [
        ("LORE230", "counters fell")
    ]


def test_named_servers_have_separate_scrapes():
    lines = [
        f"llama-{name}-1  | {line}"
        for n in range(3)
        for name, base in (("a", 1000), ("b", 10))
        for line in scrape("llama", prompt=base + n * 10, cached=base)
    ]
    increases = measures(join_lines(*lines))
    by_server = {
        name: [measure.prompt_tokens for measure in increases if measure.server == f"llama-{name}-1"] for name in "ab"
    }
    assert by_server == {"a": [2000, 10, 10], "b": [20, 10, 10]}
    assert problems(join_lines(*lines)) == []


NAMED = (lambda line: f"vllm-1  | {line}", lambda line: f"[pod/vllm-7d9/server] {line}")


@pytest.mark.parametrize("name", NAMED)
def test_line_has_the_collectors_server_name(name):
    lines = [name(rate(0, 5.0)), name(json.dumps({"levelname": "INFO"}))]
    (measure,) = measures(join_lines(*lines), VllmLog)
    assert measure.server == name("").split("|")[0].strip(" []").removeprefix("pod/")
    assert measure.share == 0.05


def test_too_frequent_reports_are_a_problem():
    def bare(after: float) -> str:
        return rate(after, 5.0).replace("(APIServer pid=17) ", "")

    two = [bare(after) for n in range(4) for after in (n * 10, n * 10 + 4)]
    (problem,) = problems(join_lines(*two))
    assert "engine 000 reports more than once in 5 seconds" in problem.message
    assert problems(join_lines(*(bare(n * 10) for n in range(9)))) == []


def test_requests_of_two_servers_are_separate():
    """Tasks of both have the same numbers; once neither was measured."""
    lines = timings(3, 0, 60, 192, 251)
    mixed = [f"{name} | {line}" for line in lines for name in ("a", "b")]
    assert counts(join_lines(*mixed), LlamaLog) == counts(join_lines(*lines), LlamaLog) * 2
    assert {measure.server for measure in measures(join_lines(*mixed), LlamaLog)} == {"a", "b"}


def test_prompt_without_kept_state_is_recomputed():
    forced = slot(2, 0, "forcing full prompt re-processing due to lack of cache data (likely due to SWA …)")
    (measure,) = measures(join_lines(forced, *timings(3, 0, 60, 192, 251)), LlamaLog)
    assert (measure.cached_tokens, measure.recomputed) == (0, 1)


def test_lines_of_other_engines_are_reported():
    data = VLLM + join_lines(prefill(1, 900, 0), prefill(2, 900, 100), *timings(3, 0, 60, 192, 251))
    (problem,) = problems(data, VllmLog)
    llama = len([line for line in timings(3, 0, 60, 192, 251) if "| task " in line])
    assert problem.code == "LORE230"
    assert f"({llama} of llama-log, 2 of sglang-log): this file is read as vllm-log" in problem.message
    quoted = {"model": "m", "messages": [{"role": "user", "content": "[2026] Prefill batch, slot a: id 1 | task 2 |"}]}
    assert problems(VLLM + join_lines(vllm_body(1, "c", quoted)), VllmLog) == []


def test_restarted_engine_is_not_counted_twice():
    """After a restart the other engine's old counts were once added again."""

    def both(first: tuple[int, int], second: tuple[int, int]) -> list[str]:
        return [
            f'vllm:prefix_cache_{name}_total{{engine="{engine}"}} {counts[at]}'
            for at, name in enumerate(("queries", "hits"))
            for engine, counts in enumerate((first, second))
        ]

    data = join_lines(*both((1000, 500), (1000, 500)), *both((1100, 600), (10, 0)), *both((1200, 700), (110, 100)))
    assert counts(data) == [(2000, 1000), (110, 100), (200, 200)]


def test_labelled_servers_in_one_file_are_separate():
    """A server with low counters after one with high ones once looked like a restart in each scrape."""
    servers = [[f'vllm:prefix_cache_{name}_total{{model_name="{m}"}} %s' for name in ("queries", "hits")] for m in "ab"]
    data = "".join(
        join_lines(f"176362560{minute}", *(line % (base + minute * 10) for line in server)).decode()
        for minute in range(3)
        for server, base in zip(servers, (100_000, 100), strict=True)
    )
    assert counts(data.encode()) == [(100_000, 100_000), (100, 100), *[(10, 10)] * 4]


def test_scrape_with_too_many_series_is_a_problem():
    lines = [f'vllm:prefix_cache_queries_total{{engine="{engine}"}} 1' for engine in range(10_005)]
    assert [problem.code for problem in problems(join_lines(*lines), EngineMetrics)] == ["LORE220"]


@each(["1e999", "e", "1e16", "NaN", "-5", "+Inf"])
def test_invalid_sample_is_a_problem(value: str):
    sample_problems = problems(join_lines(f"vllm:prefix_cache_hits_total {value}"), EngineMetrics)
    assert [problem.code for problem in sample_problems] == ["LORE201"]
