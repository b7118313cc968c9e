"""Print how many tokens of generated sequences vLLM's block manager finds, used as a library without a model.

As in the engine's scheduler, running requests take a place for one more token at each step, then new ones are looked up
and admitted. Each line is a JSON array of a seed: the seed, then the cached tokens of each request. Needs vLLM
(`make oracle-vllm` installs it); no other test imports this module.
"""

# vLLM is in an environment of its own.
import argparse
import json
from collections.abc import Sequence as Many
from types import SimpleNamespace
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)  # fmt: skip
from vllm.v1.request import Request

from plugins.engines.oracle.sequences import Operation, Sequence, events
from plugins.engines.oracle.vllm_settings import block_of, capacity_of, layers_of, mixed_capacity_of, served

_LONGEST = 8_192  # tokens of a request

init_none_hash(sha256)


class _Scheduler:
    """The attributes of vLLM's scheduler that cut a prompt into chunks for layers with states."""

    def __init__(self, block: int) -> None:
        self.cache_config = SimpleNamespace(block_size=block)
        self.scheduler_config = SimpleNamespace(long_prefill_token_threshold=0)
        self.block_size = self.hash_block_size = block
        self.max_num_scheduled_tokens = _LONGEST
        self.mamba_partial_cache_hit = self.mamba_shared_prefix_checkpoint = self.use_eagle_block_drop = False
        self.mamba_has_prefill_checkpoint_blocks, self.mamba_prefill_checkpoint_alignment = False, None

    def chunk(self, request: Request, tokens: int, cached: int) -> int:
        """Return how many of the tokens are computed next."""
        return Scheduler._mamba_block_aligned_split(self, request, tokens, cached)


def specs(block: int, layers: dict[str, Any]) -> list[KVCacheSpec]:
    """Return the groups of layers of a model, for the values of `layers_of`."""
    kind = {"block_size": block, "num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
    if layers.get("states"):
        other = MambaSpec(block_size=block, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align")
    else:
        other = SlidingWindowSpec(**kind, sliding_window=layers["window"])
    return [full(block)] * layers["full"] + [other] * layers["groups"]


def full(block: int) -> FullAttentionSpec:
    """Return layers with full attention and blocks of `block` tokens."""
    return FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32)


class Engine:
    """A block manager with `capacity` blocks for layers of these kinds."""

    def __init__(
        self, block: int, capacity: int, layers: Many[KVCacheSpec] = (), retention: int = 0,
        states: bool = False,
    ) -> None:  # fmt: skip
        groups = [KVCacheGroupSpec([f"layer {n}"], spec) for n, spec in enumerate(layers or (full(block),))]
        # The first block is vLLM's own.
        config = KVCacheConfig(num_blocks=capacity + 1, kv_cache_tensors=[], kv_cache_groups=groups)
        config.prefix_cache_retention_interval = retention  # vLLM's own default is 0
        self.manager = KVCacheManager(config, max_model_len=_LONGEST, scheduler_block_size=block, hash_block_size=block)
        self.scheduler = _Scheduler(block) if states else None
        self.hasher = get_request_block_hasher(block, sha256)
        self._number = 0

    def request(self, tokens: list[int], operation: Operation | None = None) -> Request:
        """Return a request; its output is added later."""
        self._number += 1
        tenant = operation.tenant if operation is not None else ""
        adapter = operation.adapter if operation is not None else ""
        return Request(
            request_id=str(self._number), prompt_token_ids=tokens, pooling_params=None, block_hasher=self.hasher,
            sampling_params=SamplingParams(max_tokens=1_000, ignore_eos=True),
            cache_salt=tenant or None, lora_request=LoRARequest(adapter, 1, f"/{adapter}") if adapter else None,
            mm_features=_images(operation) if operation is not None else None,
        )  # fmt: skip

    def begin(self, request: Request) -> int:
        """Admit a request; return how many of its tokens are cached. Raise MemoryError if it does not fit."""
        self.manager.new_step_starts()
        blocks, cached, boundary = self.manager.get_computed_blocks(request)
        request.shared_prefix_boundary = boundary
        read_tokens = cached
        while request.num_computed_tokens < request.num_tokens:
            tokens = request.num_tokens - request.num_computed_tokens - read_tokens
            if self.scheduler is not None:
                tokens = self.scheduler.chunk(request, tokens, read_tokens)
            if self.manager.allocate_slots(request, tokens, read_tokens, blocks if read_tokens else None) is None:
                raise MemoryError(f"no room for {request.num_tokens} tokens")
            request.num_computed_tokens += read_tokens + tokens
            read_tokens = 0
            self.manager.new_step_starts()
        return cached

    def generate(self, request: Request, token: int) -> None:
        request.append_output_token_ids(token)
        if self.manager.allocate_slots(request, 1) is None:
            raise MemoryError(f"no room for token {request.num_tokens}")
        request.num_computed_tokens = request.num_tokens

    def end(self, request: Request) -> None:
        self.manager.free(request)


def reads(sequence: Sequence, *, several: bool = False) -> list[int]:
    """Return the cached tokens of each request; `several`: for a model with the layers of `layers_of`."""
    block, layers = block_of(sequence), layers_of(sequence)
    plenty = sum(-(-(len(operation.tokens) + len(operation.output)) // block) for operation in sequence.operations)
    if several:
        kinds = {"retention": layers["retention"], "states": "states" in layers}
        capacity = mixed_capacity_of(sequence)
        plenty *= layers["full"] + layers["groups"]
        engine = Engine(block, plenty if capacity is None else capacity, specs(block, layers), **kinds)
    else:
        capacity = capacity_of(sequence)
        engine = Engine(block, plenty if capacity is None else capacity)
    requests = [engine.request(operation.tokens, operation) for operation in sequence.operations]
    cached, generated = [0] * len(requests), [0] * len(requests)
    for what, number in events(sequence):
        if what == "begin":
            cached[number] = engine.begin(requests[number])
        elif what == "token":
            engine.generate(requests[number], sequence.operations[number].output[generated[number]])
            generated[number] += 1
        else:
            engine.end(requests[number])
    return cached


def _images(operation: Operation) -> list[MultiModalFeatureSpec]:
    images, place = [], 0
    for piece in operation.pieces:
        if piece.image:
            where, name = PlaceholderRange(offset=place, length=piece.length), f"image {piece.image}"
            images.append(MultiModalFeatureSpec(data=None, modality="image", identifier=name, mm_position=where))
        place += piece.length
    return images


def main() -> None:
    parser = argparse.ArgumentParser(description="print what vLLM's block manager finds of generated sequences")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--several", action="store_true", help="serve models with layers of several kinds")
    arguments = parser.parse_args()
    for seed in range(arguments.count):
        print(json.dumps([seed, *reads(served(seed), several=arguments.several)], separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
