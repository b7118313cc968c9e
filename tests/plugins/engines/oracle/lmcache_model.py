"""Predictions of lore's model of LMCache for the same requests."""

from plugins.engines.oracle.lmcache_settings import CAPACITY, CHUNK, stream
from plugins.engines.oracle.models import reads
from plugins.engines.oracle.sequences import Sequence


def predicted(count: int) -> list[list[int]]:
    """Return lore's predictions for the requests of each seed; one memory serves all seeds."""
    sequences = [stream(seed) for seed in range(count)]
    whole = Sequence(0, tuple(request for requests in sequences for request in requests))
    predictions = iter(reads(whole, "lmcache", chunk_size=CHUNK, capacity=CAPACITY))
    return [[next(predictions) for _ in requests] for requests in sequences]
