"""The sequences and settings of both sides of the comparison with vLLM. Needs neither vLLM nor lore."""

import random
from itertools import groupby

from plugins.engines.oracle.sequences import Operation, Sequence, sequence

_BLOCKS = (16, 16, 16, 32, 8, 64, 1)


def served(seed: int) -> Sequence:
    """Return the sequence of a seed; if memory is small, interleaved with two more, so that it is full."""
    first = sequence(seed)
    if first.room is None:
        return first
    turns = [
        (turn, number, [operation._replace(chain=f"{number}.{operation.chain}") for operation in together])
        for number in range(3)
        for turn, together in enumerate(_together(sequence(seed + number).operations))
    ]
    operations: list[Operation] = []
    for _, _, together in sorted(turns, key=lambda operation: operation[:2]):
        later = max((operation.ended for operation in operations), default=0) - together[0].at
        operations += [operation._replace(at=operation.at + later) for operation in together]
    return Sequence(seed, tuple(operations), first.room**3)


def _together(operations: tuple[Operation, ...]) -> list[list[Operation]]:
    """Return groups of requests; each group begins when all earlier ones have ended."""
    groups: list[list[Operation]] = []
    for operation in operations:
        if not groups or operation.at >= max(earlier.ended for earlier in groups[-1]):
            groups.append([])
        groups[-1].append(operation)
    return groups


def block_of(drawn: Sequence) -> int:
    return _BLOCKS[drawn.seed % len(_BLOCKS)]


def capacity_of(drawn: Sequence) -> int | None:
    """Return the capacity in blocks; None: unlimited."""
    return drawn.capacity(block_of(drawn))


def layers_of(drawn: Sequence) -> dict[str, int | bool]:
    """Return the layers of the model that serves the sequence, as options of lore's model."""
    chance = random.Random(f"layers {drawn.seed}")
    groups, full = chance.choice((1, 1, 2, 5)), chance.choice((1, 1, 1, 2))
    retention = chance.choice((0, 0, 0, 1, 2, 4)) * block_of(drawn)
    if chance.random() < 0.4:
        return {"states": True, "groups": groups, "full": full, "retention": retention}
    if chance.random() < 0.15:
        groups, full = 1, 0
    window = chance.choice((2, 8, 16, 17, 33, 48, 64, 100, 200))
    return {"window": window, "groups": groups, "full": full, "retention": retention}


def mixed_capacity_of(drawn: Sequence) -> int | None:
    """Return the capacity in blocks for the layers of `layers_of`; None: unlimited."""
    layers, blocks = layers_of(drawn), capacity_of(drawn)
    if blocks is None:
        return None
    if "window" in layers:
        return blocks * (layers["full"] + layers["groups"])
    running = max(
        sum(other.at <= operation.at < other.ended for other in drawn.operations) for operation in drawn.operations
    )
    return blocks * layers["full"] + 2 * running * layers["groups"]


# For a served model: vLLM's attention on a CPU takes blocks of 32.
ROOM = {"block": 32, "capacity": 48}
LONGEST = 1_024  # tokens of a request
FIRST_SERVED = [0, 192, 192, 32]  # of 200 tokens, the same, with 50 more, changed at 60


def batches(seed: int) -> list[list[Operation]]:
    """Return groups of simultaneous requests for a served model, one output token each, without images and adapters.

    Times continue from seed to seed, since one engine serves all.
    """
    drawn = sequence(seed).operations
    plain = [
        operation for operation in drawn if not operation.adapter and not any(piece.image for piece in operation.pieces)
    ]
    together = [list(batch) for _, batch in groupby(plain, key=lambda operation: operation.at)]
    return [
        [
            operation._replace(at=100 * seed + turn, chain=f"{seed}.{operation.chain}", generated=None)
            for operation in batch
        ]
        for turn, batch in enumerate(together)
    ]
