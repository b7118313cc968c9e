"""vLLM's block manager as a library, without a model: how many tokens of each request of a sequence it finds.

In: a sequence, the size of a block. Out: cached tokens, a number a request, as the engine's scheduler would see them:
at each step the requests that run take a place for one more token, then those that come are looked up and admitted.
As a program it prints a line for each of the first `--count` seeds, a JSON array: the seed, then the cached tokens.
Needs vLLM (`make oracle-vllm` brings it); nothing else of lore's tests imports this module.
"""

# vLLM is in an environment of its own.
from __future__ import annotations

import argparse
import json
from collections.abc import Sequence as Many
from typing import Any

import torch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheSpec
from vllm.v1.request import Request

from oracle.engines.sequences import Operation, Sequence, events
from oracle.engines.vllm_settings import block_of, capacity_of, served

_PLENTY = 2_000  # blocks
_LONGEST = 8_192  # tokens of a request

init_none_hash(sha256)


def full(block: int) -> FullAttentionSpec:
    """Return layers that attend to all tokens, with blocks of so many."""
    return FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32)


class Engine:
    """A block manager with `capacity` blocks, None: plenty, for layers of these kinds."""

    def __init__(self, block: int, capacity: int | None = None, layers: Many[KVCacheSpec] = (), **options: Any) -> None:
        groups = [KVCacheGroupSpec([f"layer {n}"], spec) for n, spec in enumerate(layers or (full(block),))]
        blocks = (_PLENTY if capacity is None else capacity) + 1  # the first is vLLM's own
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        self.manager = KVCacheManager(
            config, max_model_len=_LONGEST, scheduler_block_size=options.pop("aligned", block), hash_block_size=block,
            **options,
        )  # fmt: skip
        self.hasher = get_request_block_hasher(block, sha256)
        self._number = 0

    def request(self, tokens: list[int], operation: Operation | None = None) -> Request:
        """Return a request; what it generates is added later."""
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
        """Admit a request; return how many of its tokens are cached. Raises where there is no room."""
        self.manager.new_step_starts()
        blocks, cached, boundary = self.manager.get_computed_blocks(request)
        request.shared_prefix_boundary = boundary
        if self.manager.allocate_slots(request, request.num_tokens - cached, cached, blocks) is None:
            raise MemoryError(f"no room for {request.num_tokens} tokens")
        request.num_computed_tokens = request.num_tokens
        return cached

    def generate(self, request: Request, token: int) -> None:
        """Take a place for a token that was generated."""
        request.append_output_token_ids(token)
        if self.manager.allocate_slots(request, 1) is None:
            raise MemoryError(f"no room for token {request.num_tokens}")
        request.num_computed_tokens = request.num_tokens

    def end(self, request: Request) -> None:
        """Give its blocks back."""
        self.manager.free(request)


def reads(sequence: Sequence) -> list[int]:
    """Return how many tokens of each request are cached when it comes."""
    engine = Engine(block_of(sequence), capacity_of(sequence))
    requests = [engine.request(each.tokens, each) for each in sequence.operations]
    found, generated = [0] * len(requests), [0] * len(requests)
    for what, number in events(sequence):
        if what == "begin":
            found[number] = engine.begin(requests[number])
        elif what == "token":
            engine.generate(requests[number], sequence.operations[number].output[generated[number]])
            generated[number] += 1
        else:
            engine.end(requests[number])
    return found


def _images(operation: Operation) -> list[MultiModalFeatureSpec]:
    found, place = [], 0
    for piece in operation.pieces:
        if piece.image:
            where, name = PlaceholderRange(offset=place, length=piece.length), f"image {piece.image}"
            found.append(MultiModalFeatureSpec(data=None, modality="image", identifier=name, mm_position=where))
        place += piece.length
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="print what vLLM's block manager finds of generated sequences")
    parser.add_argument("--count", type=int, required=True)
    for seed in range(parser.parse_args().count):
        print(json.dumps([seed, *reads(served(seed))], separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
