"""Engines for self-hosted models: models of their caches, readers of their logs, `--measured`.

This module holds only rows; models, readers and comparisons are imported when they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lore.cache import CacheRow, RuleLookup, View
from lore.formats import Format

if TYPE_CHECKING:
    from lore.model import MeasuredResult
    from lore.recording import Input, Options, Problems
    from lore.report import Console
    from lore_plugins.engines.measuring import MeasuredLogs

_HERE = "lore_plugins.engines"


def _lazy_model(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports a cache model and makes one."""

    def make(find_rule: RuleLookup, **options: Any) -> Any:
        return getattr(import_module(f"{_HERE}.caches.{module}"), name)(find_rule, **options)

    return make


VLLM = CacheRow(
    "vllm", "vllm", _lazy_model("blocks", "Vllm"),
    ("block", "capacity", "window", "states", "groups", "full", "retention", "hybrid"),
    flags=("states", "hybrid"), view=View(scope=("cache_salt",), generates=True),
)  # fmt: skip
SGLANG = CacheRow(
    "sglang", "sglang", _lazy_model("sglang", "SGLang"),
    (
        "page_size", "capacity", "policy", "tree", "chunked_prefill", "window", "window_capacity", "states", "strategy",
        "state_capacity", "state_chunk", "state_interval", "hybrid",
    ),
    flags=("states", "hybrid"),
    words={
        "policy": ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru"),
        "strategy": ("extra_buffer", "no_buffer"),
        "tree": ("unified", "radix"),
    },
    view=View(scope=("cache_salt", "extra_key", "lora_path"), generates=True),
)  # fmt: skip
LLAMA_CPP = CacheRow(
    "llama.cpp", "llama.cpp", _lazy_model("llama_cpp", "LlamaCpp"),
    (
        "slots", "similarity", "cache_reuse", "host_tokens", "unified", "idle", "hybrid", "window", "states",
        "swa_full", "checkpoints", "checkpoint_step", "batch", "ubatch",
    ),
    flags=("unified", "idle", "hybrid", "states", "swa_full"), numbers=("similarity",), view=View(generates=True),
)  # fmt: skip
LMCACHE = CacheRow(
    "lmcache", "lmcache", _lazy_model("blocks", "Lmcache"), ("chunk_size", "capacity", "decoded", "hybrid"),
    flags=("decoded", "hybrid"), view=View(generates=True),
)  # fmt: skip

METRICS = Format(
    f"{_HERE}.logs.prometheus:EngineMetrics", "scrapes of engines' metrics: hit rates over time", "none", "no", "some",
    "no", "no", "no", signs=(b"# HELP", b"# TYPE"), text=True, before="bodies", measures=True,
)  # fmt: skip
VLLM_LOG = Format(
    f"{_HERE}.logs.vllm:VllmLog", "vLLM's log: hit rates over time, bodies at DEBUG", "structural", "some", "no",
    "some", "some", "no", signs=(b'"levelname"',), text=True, before="sglang-log", measures=True,
)  # fmt: skip
SGLANG_LOG = Format(
    f"{_HERE}.logs.sglang:SglangLog", "SGLang's log: what each request read, bodies", "structural", "some", "some",
    "some", "some", "no", signs=(b'"request_parameters"', b'"event"'), text=True, before="llama-log", measures=True,
    by_time=True,
)  # fmt: skip
LLAMA_LOG = Format(
    f"{_HERE}.logs.llama:LlamaLog", "llama-server's log: what each request read", "none", "no", "yes", "no", "no", "no",
    signs=(b'"log"',), text=True, before="bodies", measures=True,
)  # fmt: skip


class _Measures:
    """Reads logs of engines for `lore simulate`, and shows their measurements."""

    def read(self, paths: Sequence[str], files: Sequence[Input], options: Options, problems: Problems) -> MeasuredLogs:
        """Read the logs at `paths`, which measured the run that `files` recorded."""
        from lore_plugins.engines.measuring import MeasuredLogs  # noqa: PLC0415 - few runs have such logs

        return MeasuredLogs(paths, files, options, problems)

    def write(self, result: MeasuredResult, out: Console, *, every: bool) -> None:
        """Write the sums of each log, then the rows: those that differ from their prediction, or every one."""
        from lore_plugins.engines.report import write_measured  # noqa: PLC0415 - as above

        write_measured(result, out, every=every)


MEASURED = _Measures()
