"""What lore's model of an engine says of a generated sequence.

In: a sequence, the name of a cache model, its options. Out: the tokens that each request reads, in order.
"""

from __future__ import annotations

from lore.cache.base import Piece, Request
from plugins.engines.loaded import make
from plugins.engines.oracle.sequences import Operation, Sequence, Text


def reads(sequence: Sequence, name: str, **options: int | bool | None) -> list[int]:
    """Return what would be read of the cache for each request; sizes are exact and so is every prediction."""
    model = make(name, lambda rule, model, at: None, options)
    found, before = [], {}
    for operation in sequence.operations:
        made = request(operation, before.get(operation.chain))
        before[operation.chain] = operation
        prediction = model.predict(made)
        model.learn(None)
        assert prediction.read is not None
        found.append(prediction.read)
    return found


def request(operation: Operation, before: Operation | None) -> Request:
    """Return an operation as lore's models see it; `before` is the one before in its chain."""
    same = 0
    for left, right in zip(operation.pieces, before.pieces if before is not None else (), strict=False):
        if left != right:
            break
        same += 1
    output = [] if operation.generated is None else [_piece(operation.generated)]
    return Request(
        operation.chain, [_piece(text) for text in operation.pieces], same, at=float(operation.at),
        space=f"{operation.tenant}/{operation.adapter}".encode(), output=output, ended=float(operation.ended),
    )  # fmt: skip


def _piece(text: Text) -> Piece:
    """Return a text whose bytes are alike as far as its tokens are; images begin alike, as those of one format do."""
    if text.image:
        return Piece(b"data:image/png;base64,%d" % text.image, "messages", "image", text.length)
    return Piece(b"".join(token.to_bytes(4, "big") for token in text.tokens), "messages", "", text.length)
