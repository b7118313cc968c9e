"""What LMCache is asked of a seed's sequence, and what lore's model of it says then. Needs no LMCache."""

from __future__ import annotations

from oracle.engines.models import reads
from oracle.engines.sequences import Operation, Sequence, sequence

CHUNK = 16  # tokens
CAPACITY = 64  # chunks


def stream(seed: int) -> list[Operation]:
    """Return the requests of a seed: one after the other, as one tenant and without adapters and images."""
    return [
        each._replace(at=1_000 * seed + place, chain=f"{seed}.{each.chain}", generated=None, tenant="", adapter="")
        for place, each in enumerate(sequence(seed).operations)
        if not any(piece.image for piece in each.pieces)
    ]


def predicted(count: int) -> list[list[int]]:
    """Return for each seed what lore's model finds for its requests: one memory holds them all."""
    asked = [stream(seed) for seed in range(count)]
    whole = Sequence(0, tuple(each for one in asked for each in one))
    found = iter(reads(whole, "lmcache", chunk_size=CHUNK, capacity=CAPACITY))
    return [[next(found) for _ in one] for one in asked]
