"""What vLLM serves a seed's sequence with, and what lore's model of it says then. Needs no vLLM."""

from __future__ import annotations

from itertools import groupby

from oracle.engines.models import reads
from oracle.engines.sequences import Operation, Sequence, sequence

_BLOCKS = (16, 16, 16, 32, 8, 64, 1)


def served(seed: int) -> Sequence:
    """Return what is served: where memory is small, the sequences of three seeds in turn, so that each finds it full.

    They begin alike at times, as all sequences do, and have no chain in common.
    """
    first = sequence(seed)
    if first.room is None:
        return first
    turns = [
        (turn, number, [each._replace(chain=f"{number}.{each.chain}") for each in together])
        for number in range(3)
        for turn, together in enumerate(_together(sequence(seed + number).operations))
    ]
    operations: list[Operation] = []
    for _, _, together in sorted(turns, key=lambda each: each[:2]):
        later = max((each.ended for each in operations), default=0) - together[0].at
        operations += [each._replace(at=each.at + later) for each in together]
    return Sequence(seed, tuple(operations), first.room**3)


def _together(operations: tuple[Operation, ...]) -> list[list[Operation]]:
    """Return requests in groups, each of which begins when all before have ended."""
    groups: list[list[Operation]] = []
    for operation in operations:
        if not groups or operation.at >= max(each.ended for each in groups[-1]):
            groups.append([])
        groups[-1].append(operation)
    return groups


def block_of(drawn: Sequence) -> int:
    """Return the tokens of a block."""
    return _BLOCKS[drawn.seed % len(_BLOCKS)]


def capacity_of(drawn: Sequence) -> int | None:
    """Return how many blocks memory has; None: enough."""
    return drawn.capacity(block_of(drawn))


def predicted(drawn: Sequence) -> list[int]:
    """Return what lore's model reads of the cache for each request."""
    return reads(drawn, "vllm", block=block_of(drawn), capacity=capacity_of(drawn))


# What is served with a model: vLLM's attention on a CPU takes blocks of 32.
ROOM = {"block": 32, "capacity": 48}
LONGEST = 1_024  # tokens of a request
FIRST_SERVED = [0, 192, 192, 32]  # of 200 tokens, the same, with 50 more, changed at 60


def batches(seed: int) -> list[list[Operation]]:
    """Return requests that a served model is asked together, each generating one token; images and adapters left out.

    Their times go on from seed to seed, as the engine does.
    """
    drawn = sequence(seed).operations
    plain = [each for each in drawn if not each.adapter and not any(piece.image for piece in each.pieces)]
    together = [list(batch) for _, batch in groupby(plain, key=lambda each: each.at)]
    return [
        [each._replace(at=100 * seed + turn, chain=f"{seed}.{each.chain}", generated=None) for each in batch]
        for turn, batch in enumerate(together)
    ]


def predicted_served(count: int) -> list[list[int]]:
    """Return for each seed what lore's model reads for its requests: one memory holds them all."""
    asked = [[each for batch in batches(seed) for each in batch] for seed in range(count)]
    found = iter(reads(Sequence(0, tuple(each for one in asked for each in one)), "vllm", **ROOM))
    return [[next(found) for _ in one] for one in asked]
