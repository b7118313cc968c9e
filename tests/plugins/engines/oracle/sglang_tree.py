"""Print the cached tokens of generated sequences in SGLang's own prefix trees, in the oracle's environment.

Each line is a JSON array of a sequence: the seed, then the cached tokens of each request.

SGLang's own are the trees (`RadixCache`, made by `create_simulated`, and `UnifiedRadixCache`, which its server uses),
the allocators, and the functions that match, allocate, evict, publish and release memory (`mem_cache/common.py`,
`mem_cache/allocation.py`). lore's is the order of the calls (`Engine`): prompts are computed one after another, running
requests decode together, one token a step; a request of one token is released when it is computed. No GPU is used.
"""

# SGLang is in an environment of its own.

import argparse
import json
import sys
import types
from array import array
from types import SimpleNamespace

from plugins.engines.oracle.sequences import Operation, Sequence, sequence
from plugins.engines.oracle.sglang_memory import Rows, rows_of, tree_of
from plugins.engines.oracle.sglang_settings import TREES, Settings, priority_of, settings
from plugins.engines.oracle.stand_ins import stand_in

UNUSED = (
    "triton", "transformers", "PIL", "pybase64", "starlette", "tvm_ffi", "zmq", "openai", "dill", "IPython",
    "sglang.kernels", "sglang.jit_kernel",
    *("sglang.srt." + name for name in (
        "layers", "configs", "model_executor", "constrained", "parser", "entrypoints", "disaggregation",
        "speculative", "multimodal", "lora",
    )),
)  # fmt: skip


def prepare() -> None:
    """Make the trees importable, without the package's own `__init__` and without modules that they do not use."""
    import importlib.util

    import torch

    stand_in(*UNUSED)
    spec = importlib.util.find_spec("sglang")
    assert spec is not None
    assert spec.submodule_search_locations
    package = types.ModuleType("sglang")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["sglang"] = package
    torch.compile = lambda function=None, **_: function or (lambda wrapped_function: wrapped_function)
    from sglang.srt.mem_cache import common

    # a stand-in would return something true
    importlib.import_module("sglang.srt.layers.attention.dsv4.unified_kv_gate").is_unified_kv_triton = lambda: False
    common.get_serving = lambda: SimpleNamespace(strip_thinking_cache=False)
    common.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)


def set_server_options(settings: Settings) -> None:
    """Replace the functions by which SGLang reads the server's options."""
    from sglang.srt import runtime_context
    from sglang.srt.managers import schedule_batch
    from sglang.srt.managers.scheduler_components import batch_result_processor
    from sglang.srt.mem_cache.rust_tree_core import adapter
    from sglang.srt.mem_cache.unified_cache.components import mamba

    states = SimpleNamespace(
        mamba_max_states_per_path=-1, enable_mamba_extra_buffer=settings.buffered,
        enable_mamba_extra_buffer_lazy=False, mamba_track_interval=settings.state_interval,
    )  # fmt: skip
    for module in (runtime_context, schedule_batch, batch_result_processor, mamba, adapter):
        module.get_exec = lambda: SimpleNamespace(mamba=states)
        module.mamba_cache_chunk_size = lambda: max(settings.state_chunk or 1, settings.page_size)
    schedule_batch.get_parallel = lambda: SimpleNamespace(dcp_enabled=False)


class Engine:
    def __init__(self, tree, rows: Rows, options: Settings) -> None:
        from sglang.srt.managers.schedule_batch import Req, ReqKvInfo, ScheduleBatch
        from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor
        from sglang.srt.mem_cache import common

        class Request(Req):
            """SGLang's request with only the fields that its memory needs."""

            def __init__(self, number: int, operation: Operation) -> None:
                self.rid = str(number)
                self.origin_input_ids = array("q", tokens_of(operation))
                self.output_ids = array("q")
                self.full_untruncated_fill_ids = array("q")
                self.extra_key = operation.adapter or None
                self.cache_salt = operation.tenant or None
                self.priority = priority_of(operation)
                self.kv = ReqKvInfo(req_pool_idx=number)
                self.lock = self.session = self.session_id = self.kv_rotation_base = None
                self.dllm_config = self.positional_embed_overrides = self.multimodal_inputs = None
                self.return_logprob = self.is_retracted = self.skip_radix_cache_insert = False
                self.finished_len = None
                self.reasoning_tokens = self.decode_batch_idx = 0
                self.prefix_len = 0
                self.swa_branching_seqlen = self.mamba_branching_seqlen = None
                self.done = False
                self.output = array("q", operation.output)

            def is_dllm(self) -> bool:
                return False

            def finished(self) -> bool:
                return self.done

            def owned_kv_len(self) -> int:
                return self.kv.kv_committed_len

        self.tree, self.rows, self.page, self.request = tree, rows, options.page_size, Request
        self.settings, self.common = options, common
        batch = self.steps = ScheduleBatch.__new__(ScheduleBatch)
        batch.tree_cache, batch.req_to_token_pool = tree, rows
        batch.token_to_kv_pool_allocator = tree.token_to_kv_pool_allocator
        batch.forward_mode = SimpleNamespace(is_decode=lambda: True)
        batch.model_config = SimpleNamespace(hf_text_config=SimpleNamespace(mamba_chunk_size=options.state_chunk))
        batch.spec_algorithm = SimpleNamespace(is_none=lambda: True)
        batch.mamba_track_buffer_indices = None
        self.results = SchedulerBatchResultProcessor.__new__(SchedulerBatchResultProcessor)
        object.__setattr__(self.results, "tree_cache", tree)

    def begin(self, number: int, operation: Operation):
        """Match a request and compute it chunk by chunk; return it and its cached tokens."""
        request = self.request(number, operation)
        request.init_next_round_input(self.tree)
        cached, total = request.prefix_len, len(request.origin_input_ids)
        request.lock = self.tree.lock(request.last_node)
        if cached:
            self.rows.req_to_token[number, :cached] = self.tree.prefix_device_indices(request)
        self.rows.states(request)
        step = (
            total
            if self.settings.chunked_prefill is None
            else max(self.page, self.settings.chunked_prefill // self.page * self.page)
        )
        for end in range(cached + step, total, step):
            self.extend(request, end)
            self.common.checkpoint_kv_cache(request, self.tree)
        self.extend(request, total)
        request.output_ids.extend(request.output[:1])
        if len(request.output) <= 1:
            self.end(request)
        else:
            self.common.checkpoint_kv_cache(request, self.tree)
        return request, cached

    def extend(self, request, end: int) -> None:
        import torch
        from sglang.srt.mem_cache.allocation import alloc_paged_token_slots_extend, alloc_token_slots

        begin, row = request.prefix_len, self.rows.req_to_token[int(request.rid)]
        if self.page == 1:
            slots = alloc_token_slots(self.tree, end - begin)
        else:
            before, whole = torch.tensor([begin]), torch.tensor([end])
            last = row[begin - 1 : begin].clone() if begin else torch.tensor([-1])
            slots = alloc_paged_token_slots_extend(self.tree, before, before, whole, whole, last, end - begin)
        row[begin:end] = slots
        request.kv.kv_allocated_len = request.kv.kv_committed_len = request.extend_end = end
        if self.settings.buffered:
            self.steps._mamba_radix_cache_v2_req_prepare_for_extend(request)

    def decode(self, requests: list) -> None:
        """Compute one more token of each running request."""
        import torch
        from sglang.srt.mem_cache.allocation import alloc_paged_token_slots_decode, alloc_token_slots

        self.steps.reqs = requests
        self.steps.maybe_evict_swa()
        before = [request.kv.kv_committed_len for request in requests]
        if self.page == 1:
            slots = alloc_token_slots(self.tree, len(requests))
        else:
            lengths = torch.tensor([length + 1 for length in before])
            pairs = zip(requests, before, strict=True)
            last = torch.stack([self.rows.req_to_token[int(request.rid), length - 1] for request, length in pairs])
            slots = alloc_paged_token_slots_decode(self.tree, lengths, lengths, last)
        for request, length, place in zip(requests, before, slots, strict=True):
            self.rows.req_to_token[int(request.rid), length] = place
            request.kv.kv_allocated_len = request.kv.kv_committed_len = length + 1
            request.decode_batch_idx += 1
            request.output_ids.extend(request.output[len(request.output_ids) : len(request.output_ids) + 1])
            self.steps.mamba_decode_batch_idx_cpu = [request.decode_batch_idx]
            self.results._mamba_prefix_cache_update(request, self.steps, None, 0)

    def end(self, request) -> None:
        from sglang.srt.mem_cache.common import release_kv_cache

        request.done = True
        release_kv_cache(request, self.tree, checkpoint=True)


def tokens_of(operation: Operation) -> list[int]:
    """Return a prompt's tokens; as in SGLang, each image has its own padding value."""
    return [token for piece in operation.pieces for token in (
        [1_000_000 + piece.image] * piece.length if piece.image else piece.tokens
    )]  # fmt: skip


def cached(drawn: Sequence, options: Settings) -> list[int]:
    """Return the cached tokens of each request of a sequence."""
    operations, page = drawn.operations, options.page_size
    widths = [len(operation.tokens) + len(operation.output) + 1 for operation in operations]
    set_server_options(options)
    enough = sum(width // page + 3 for width in widths)
    rows = rows_of(options, len(operations), max(widths), enough + 8 * len(operations))
    engine = Engine(tree_of(options, enough, rows), rows, options)
    reads: list[int] = []
    running: dict[int, object] = {}  # by number, ascending
    steps = sorted({step for operation in operations for step in range(operation.at, operation.ended + 1)})
    for step in steps:
        for number in [number for number in running if operations[number].ended == step]:
            engine.end(running.pop(number))
        if running:
            engine.decode(list(running.values()))
        for number, operation in enumerate(operations):
            if operation.at == step:
                request, tokens = engine.begin(number, operation)
                reads.append(tokens)
                if len(operation.output) > 1:
                    running[number] = request
    return reads


def main() -> None:
    parser = argparse.ArgumentParser(description="what SGLang's trees hold of generated sequences")
    parser.add_argument("--tree", choices=TREES, default="unified")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    prepare()
    for seed in range(arguments.first, arguments.first + arguments.count):
        drawn, server = settings(sequence(seed), arguments.tree)
        print(json.dumps([seed, *cached(drawn, server)], separators=(",", ":")))


if __name__ == "__main__":
    main()
