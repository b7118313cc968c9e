"""The requests that LMCache gets for a seed. Needs neither LMCache nor lore."""

from plugins.engines.oracle.sequences import Operation, sequence

CHUNK = 16  # tokens
CAPACITY = 64  # chunks


def stream(seed: int) -> list[Operation]:
    """Return the requests of a seed: one after the other, as one tenant and without adapters and images."""
    return [
        operation._replace(
            at=1_000 * seed + place, chain=f"{seed}.{operation.chain}", generated=None, tenant="", adapter=""
        )
        for place, operation in enumerate(sequence(seed).operations)
        if not any(piece.image for piece in operation.pieces)
    ]
