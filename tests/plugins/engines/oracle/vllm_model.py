"""Predictions of lore's model of vLLM for the same sequences and settings."""

from itertools import chain

from plugins.engines.oracle.models import reads
from plugins.engines.oracle.sequences import Sequence
from plugins.engines.oracle.vllm_settings import ROOM, batches, block_of, capacity_of, layers_of, mixed_capacity_of


def mixed(drawn: Sequence) -> list[int]:
    """Return lore's prediction for each request, for a model with the layers of `layers_of`."""
    return reads(drawn, "vllm", block=block_of(drawn), capacity=mixed_capacity_of(drawn), **layers_of(drawn))


def predicted(drawn: Sequence) -> list[int]:
    return reads(drawn, "vllm", block=block_of(drawn), capacity=capacity_of(drawn))


def predicted_served(count: int) -> list[list[int]]:
    """Return lore's predictions for the requests of each seed; one memory serves all seeds."""
    sequences = [list(chain.from_iterable(batches(seed))) for seed in range(count)]
    predictions = iter(reads(Sequence(0, tuple(chain.from_iterable(sequences))), "vllm", **ROOM))
    return [[next(predictions) for _ in operations] for operations in sequences]
