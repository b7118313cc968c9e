"""SGLang's own prefix trees, asked what they hold of generated sequences: in the oracle's environment, not in lore's.

In: seeds. Out: a line of JSON a sequence: `[seed, cached tokens of each request, …]`.

What is SGLang's own: the trees (`RadixCache`, made by `create_simulated`, and `UnifiedRadixCache`, which its server
uses), the allocators of its memory, and the functions that match, allocate, evict, publish and release a request's
memory (`mem_cache/common.py`, `mem_cache/allocation.py`). What is lore's is the order in which a scheduler calls them
(`Engine`): requests are computed one after another, those that run decode together, a step a token; a request of one
token is released when it was computed. The wheel is read, nothing of it is run on a GPU.
"""

# SGLang is in an environment of its own.

from __future__ import annotations

import argparse
import json
import sys
import types
from array import array
from types import SimpleNamespace

from oracle.engines.sequences import Operation, Sequence, sequence
from oracle.engines.stand_ins import stand_in

PAGES = (1, 16, 64)
POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")
UNUSED = (
    "triton", "transformers", "PIL", "pybase64", "starlette", "tvm_ffi", "zmq", "openai", "dill", "IPython",
    "sglang.kernels", "sglang.jit_kernel",
    *("sglang.srt." + name for name in (
        "layers", "configs", "model_executor", "constrained", "parser", "entrypoints", "disaggregation",
        "speculative", "multimodal", "lora",
    )),
)  # fmt: skip


def prepare() -> None:
    """Let the trees be imported: without the package's own beginning, without what they do not use."""
    import importlib.util

    import torch

    stand_in(*UNUSED)
    found = importlib.util.find_spec("sglang")
    assert found is not None
    assert found.submodule_search_locations
    package = types.ModuleType("sglang")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["sglang"] = package
    torch.compile = lambda function=None, **_: function or (lambda own: own)
    from sglang.srt.mem_cache import common

    common.get_serving = lambda: SimpleNamespace(strip_thinking_cache=False)
    common.get_spec = lambda: SimpleNamespace(speculative_algorithm=None)


class Rows:
    """`ReqToTokenPool` without a device: a row of places a request."""

    def __init__(self, rows: int, width: int) -> None:
        import torch

        self.req_to_token = torch.zeros((rows, width), dtype=torch.int64)

    def write(self, place, values) -> None:
        self.req_to_token[place] = values

    def free(self, request) -> None:
        request.kv.req_pool_idx = None


def tree_of(name: str, page: int, policy: str, capacity: int | None, enough: int, rows: Rows):
    """Return a tree of SGLang's over memory of `capacity` pages, where None is `enough`."""
    import torch
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.radix_cache import RadixCache
    from sglang.srt.mem_cache.unified_cache.components import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache
    from sglang.srt.mem_cache.utils import get_eviction_strategy

    size = (capacity if capacity is not None else enough) * page
    if page == 1:
        allocator = TokenToKVPoolAllocator(size, torch.int64, "cpu", None, need_sort=False)
    else:
        allocator = PagedTokenToKVPoolAllocator(size, page, torch.int64, "cpu", None, need_sort=False)
        allocator.use_triton_kernels = False
    if name == "radix":
        tree = RadixCache.create_simulated(mock_allocator=allocator, page_size=page)
        tree.req_to_token_pool = rows
        tree.eviction_strategy = get_eviction_strategy(policy)
        return tree
    parts = (ComponentType.FULL,)
    return UnifiedRadixCache(
        CacheInitParams(
            disable=False,
            req_to_token_pool=rows,
            token_to_kv_pool_allocator=allocator,
            page_size=page,
            eviction_policy=policy,
            tree_components=parts,
        )  # fmt: skip
    )


class Engine:
    """One sequence in one tree."""

    def __init__(self, tree, rows: Rows, page: int) -> None:
        from sglang.srt.managers.schedule_batch import Req, ReqKvInfo

        class Request(Req):
            """A request of SGLang's, with what its memory needs alone."""

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
                self.reasoning_tokens = 0
                self.done = False
                self.output = array("q", operation.output)

            def is_dllm(self) -> bool:
                return False

            def finished(self) -> bool:
                return self.done

            def owned_kv_len(self) -> int:
                return self.kv.kv_committed_len

        self.tree, self.rows, self.page, self.request = tree, rows, page, Request

    def begin(self, number: int, operation: Operation):
        """Match a request and compute it; return it with what was cached of it, in tokens."""
        import torch
        from sglang.srt.mem_cache.allocation import alloc_paged_token_slots_extend, alloc_token_slots
        from sglang.srt.mem_cache.common import checkpoint_kv_cache

        request = self.request(number, operation)
        request.init_next_round_input(self.tree, cow_mamba=False)
        cached, total = request.prefix_len, len(request.origin_input_ids)
        request.lock = self.tree.lock(request.last_node)
        row = self.rows.req_to_token[number]
        if cached:
            row[:cached] = self.tree.prefix_device_indices(request)
        if self.page == 1:
            made = alloc_token_slots(self.tree, total - cached)
        else:
            before, whole = torch.tensor([cached]), torch.tensor([total])
            last = row[cached - 1 : cached].clone() if cached else torch.tensor([-1])
            made = alloc_paged_token_slots_extend(self.tree, before, before, whole, whole, last, total - cached)
        row[cached:total] = made
        request.kv.kv_allocated_len = request.kv.kv_committed_len = request.extend_end = total
        request.output_ids.extend(request.output[:1])
        if len(request.output) <= 1:
            self.end(request)
        else:
            checkpoint_kv_cache(request, self.tree)
        return request, cached

    def decode(self, requests: list) -> None:
        """Compute one more token of each request that runs."""
        import torch
        from sglang.srt.mem_cache.allocation import alloc_paged_token_slots_decode, alloc_token_slots

        before = [request.kv.kv_committed_len for request in requests]
        if self.page == 1:
            made = alloc_token_slots(self.tree, len(requests))
        else:
            lengths = torch.tensor([length + 1 for length in before])
            pairs = zip(requests, before, strict=True)
            last = torch.stack([self.rows.req_to_token[int(own.rid), length - 1] for own, length in pairs])
            made = alloc_paged_token_slots_decode(self.tree, lengths, lengths, last)
        for request, length, place in zip(requests, before, made, strict=True):
            self.rows.req_to_token[int(request.rid), length] = place
            request.kv.kv_allocated_len = request.kv.kv_committed_len = length + 1
            request.output_ids.extend(request.output[len(request.output_ids) : len(request.output_ids) + 1])

    def end(self, request) -> None:
        from sglang.srt.mem_cache.common import release_kv_cache

        request.done = True
        release_kv_cache(request, self.tree, checkpoint=True)


def tokens_of(operation: Operation) -> list[int]:
    """Return a prompt's tokens; an image's placeholders are its own padding value, as SGLang has it."""
    return [token for piece in operation.pieces for token in (
        [1_000_000 + piece.image] * piece.length if piece.image else piece.tokens
    )]  # fmt: skip


def settings(drawn: Sequence) -> tuple[int, str]:
    """Return the page size and the policy that a sequence is asked with: by its seed, so that all come together."""
    return PAGES[drawn.seed % len(PAGES)], POLICIES[drawn.seed % len(POLICIES)]


def priority_of(operation: Operation) -> int:
    """Return a request's priority: 0 to 2, by its chain."""
    return int(operation.chain) % 3


def cached(drawn: Sequence, name: str, page: int, policy: str) -> list[int]:
    """Return what is cached of each request of a sequence, in tokens."""
    operations = drawn.operations
    widths = [len(each.tokens) + len(each.output) + 1 for each in operations]
    rows = Rows(len(operations), max(widths))
    enough = sum(width // page + 3 for width in widths)
    engine = Engine(tree_of(name, page, policy, drawn.capacity(page), enough, rows), rows, page)
    found: list[int] = []
    running: dict[int, object] = {}  # by number, ascending
    steps = sorted({step for each in operations for step in range(each.at, each.ended + 1)})
    for step in steps:
        for number in [number for number in running if operations[number].ended == step]:
            engine.end(running.pop(number))
        if running:
            engine.decode(list(running.values()))
        for number, operation in enumerate(operations):
            if operation.at == step:
                request, tokens = engine.begin(number, operation)
                found.append(tokens)
                if len(operation.output) > 1:
                    running[number] = request
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="what SGLang's trees hold of generated sequences")
    parser.add_argument("--tree", choices=("radix", "unified"), default="unified")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    asked = parser.parse_args()
    prepare()
    for seed in range(asked.first, asked.first + asked.count):
        drawn = sequence(seed)
        print(json.dumps([seed, *cached(drawn, asked.tree, *settings(drawn))], separators=(",", ":")))


if __name__ == "__main__":
    main()
