# LMCache is in an environment of its own.
"""Print how many tokens of generated sequences LMCache's engine finds, on a CPU and without a model.

Each line is a JSON array of a sequence: the seed, then the tokens found for each request. Requests are looked up and
stored as vLLM's connector does, with a connector that copies nothing; output is not stored, which is the default. One
engine serves all sequences in turn, so they share beginnings and find the memory full. Needs LMCache
(`make oracle-lmcache` installs it).
"""

import argparse
import json
import os

# Before it is imported: no usage is sent.
os.environ |= {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_LOG_LEVEL": "ERROR", "PYTHONHASHSEED": "0"}

import torch
from lmcache.v1.cache_engine import LMCacheEngine, LMCacheEngineBuilder
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.gpu_connector.mock_gpu_connector import MockGPUConnector
from lmcache.v1.metadata import LMCacheMetadata

from plugins.engines.oracle.lmcache_settings import CAPACITY, CHUNK, stream

_SHAPE = (1, 2, CHUNK, 1, 64)
_BYTES = 2 * CHUNK * 64 * 4  # of a chunk


def engine() -> LMCacheEngine:
    """Return an engine whose memory holds `CAPACITY` chunks."""
    config = LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK, local_cpu=True, max_local_cpu_size=CAPACITY * _BYTES / 1024**3, save_unfull_chunk=False
    )
    metadata = LMCacheMetadata("model", 1, 1, 0, 0, torch.float32, _SHAPE, chunk_size=CHUNK)
    cache_engine = LMCacheEngineBuilder.get_or_create(
        "oracle", config, metadata, MockGPUConnector(_SHAPE), lambda tensor, rank: None, lambda value, rank: value
    )
    cache_engine.post_init()
    return cache_engine


def lookup_and_store(engine: LMCacheEngine, tokens: list[int]) -> int:
    """Look up tokens; return how many are found, and store the whole chunks of the rest."""
    hit = engine.lookup(tokens, lookup_id="request", pin=True)
    engine.lookup_unpin("request")
    whole = tokens[: len(tokens) // CHUNK * CHUNK]
    if hit < len(whole):
        mask = torch.ones(len(whole), dtype=torch.bool)
        mask[:hit] = False
        places = torch.zeros(len(whole), dtype=torch.long)
        engine.store(whole, mask=mask, kvcaches=[], slot_mapping=places, offset=hit, req_id="request")
    return hit


def main() -> None:
    parser = argparse.ArgumentParser(description="print what LMCache finds of generated sequences")
    parser.add_argument("--count", type=int, required=True)
    served = engine()
    for seed in range(parser.parse_args().count):
        hits = [lookup_and_store(served, request.tokens) for request in stream(seed)]
        print(json.dumps([seed, *hits], separators=(",", ":")), flush=True)
    served.close()


if __name__ == "__main__":
    main()
