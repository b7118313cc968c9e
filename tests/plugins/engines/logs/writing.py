"""Lines as engines print them, by their own format strings."""

import json
from datetime import UTC, datetime

START = datetime(2026, 11, 20, 8, 0, 0, tzinfo=UTC).timestamp()


def when(after: float, form: str) -> str:
    return datetime.fromtimestamp(START + after, UTC).strftime(form)


def join_lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


# vLLM 0.32.0: `_FORMAT` of logger.py, `LoggingStatLogger.log`, `RequestLogger`


def vllm(after: float, message: str, *, place: str = "loggers.py:273", level: str = "INFO") -> str:
    return f"(APIServer pid=17) {level} {when(after, '%m-%d %H:%M:%S')} [{place}] {message}"


def rate(after: float, share: float, *, engine: int = 0, external: float | None = None) -> str:
    beside = "" if external is None else f", External prefix cache hit rate: {external:.1f}%"
    return vllm(
        after,
        f"Engine {engine:03d}: Avg prompt throughput: {1546.5:.1f} tokens/s, Avg generation throughput: {3.3:.1f}"
        f" tokens/s, Running: {1:d} reqs, Waiting: {0:d} reqs, GPU KV cache usage: {3.0:.1f}%,"
        f" Prefix cache hit rate: {share:.1f}%{beside}",
    )


def vllm_body(after: float, name: str, body: dict[str, object]) -> str:
    place = "serve/.../utils/request_logger.py:74"
    return vllm(after, f"Request {name} JSON body: {json.dumps(body)}", place=place, level="DEBUG")


def lookup_line(after: float, name: str, total: int, hit: int, load: int) -> str:
    text = f"Reqid: {name}, Total tokens {total:d}, LMCache hit tokens: {hit:d}, need to load: {load:d}"
    return vllm(after, text, place="vllm_v1_adapter.py:1227")


# SGLang 0.5.23: `configure_logger`, `report_prefill_stats`, `RequestLogger`, `log_json`


def sglang(after: float, message: str, *, rank: str = "") -> str:
    return f"[{when(after, '%Y-%m-%d %H:%M:%S')}{rank}] {message}"


def prefill(after: float, new: int, cached: int) -> str:
    return sglang(
        after,
        f"Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, token usage: 0.00, #running-req: 0,"
        " #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 12.00",
        rank=" TP0",
    )


def meta(name: str, prompt: int, cached: int) -> dict[str, object]:
    return {
        "id": name, "finish_reason": {"type": "length", "length": 8}, "prompt_tokens": prompt,
        "weight_version": "default", "num_retractions": 0, "completion_tokens": 8, "cached_tokens": cached,
        "e2e_latency": 0.4,
    }  # fmt: skip


def finish_line(after: float, name: str, prompt: int, cached: int, *, text: str = "yes") -> str:
    out = {"text": text, "output_ids": [1, 2], "meta_info": meta(name, prompt, cached)}
    return sglang(after, f"Finish: obj=GenerateReqInput(rid={name!r}, text='hi', stream=False), out={out!r}")


def event(after: float, name: str, **members: object) -> str:
    data = {"timestamp": when(after, "%Y-%m-%dT%H:%M:%S.250000"), "event": name, **members}
    return sglang(after, json.dumps(data, ensure_ascii=False))


def served(after: float, name: str, body: dict[str, object], prompt: int, cached: int) -> list[str]:
    """Return the lines of a request at --log-requests-level 3 --log-requests-format json."""
    obj = {"rid": name, "text": None, "input_ids": [1, 2, 3]}
    out = {"text": "yes", "output_ids": [4], "meta_info": meta(name, prompt, cached)}
    return [
        event(after, "request.received.openai", obj=body),
        event(after, "request.received", rid=name, obj=obj),
        event(after + 1, "request.finished", rid=name, obj=obj, out=out),
    ]


# llama.cpp of 2026-11: `SLT_INF`, `print_timings`, `release`


def clock(after: float) -> str:
    micros = round(after * 1e6)
    return f"{micros // 60_000_000:d}.{micros // 1_000_000 % 60:02d}.{micros // 1000 % 1000:03d}.{micros % 1000:03d}"


def slot(after: float, task: int, message: str, *, function: str = "update_slots", level: str = "I") -> str:
    return f"{clock(after)} {level} slot {function[:12]:>12}: id {0:2d} | task {task:d} | {message}"


def timings(after: float, task: int, processed: int, generated: int, final_tokens: int) -> list[str]:
    speeds = f"({1.0:8.2f} ms per token, {2.0:8.2f} tokens per second)"
    printed = (
        f"prompt eval time = {789.03:10.2f} ms / {processed:5d} tokens {speeds}",
        f"       eval time = {612.5:10.2f} ms / {generated:5d} tokens {speeds}",
        f"      total time = {999.0:10.2f} ms / {processed + generated:5d} tokens",
    )
    return [
        *(slot(after, task, text, function="print_timing") for text in printed),
        slot(after, task, f"stop processing: n_tokens = {final_tokens:d}, truncated = 0", function="release"),
    ]


# metrics: prometheus_client's text


def scrape(engine: str, **counters: float) -> list[str]:
    names = {
        "vllm": ("vllm:prefix_cache_queries", "vllm:prefix_cache_hits", "vllm:request_success"),
        "sglang": ("sglang:prompt_tokens", "sglang:cached_tokens", "sglang:num_requests"),
        "llama": ("llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached", ""),
    }[engine]
    labels = "" if engine == "llama" else '{engine="0",model_name="a } \\" {"}'
    lines = list[str]()
    for name, counter in zip(names, ("prompt", "cached", "requests"), strict=True):
        if counter in counters:
            lines += [
                f"# HELP {name}_total Some counter.",
                f"# TYPE {name}_total counter",
                f"{name}_total{labels} {float(counters[counter])}",
            ]
    return lines
