"""lore's model of SGLang, asked what its trees were asked: the same sequences, the same settings."""

from lore.cache.base import Piece, Request
from plugins.engines.loaded import make
from plugins.engines.oracle.sequences import Operation, Sequence, Text
from plugins.engines.oracle.sglang_settings import priority_of, settings


def piece_of(text: Text) -> Piece:
    """Return a text as a piece, with four bytes a token, so that common prefixes of bytes and tokens agree."""
    if text.image:
        return Piece(b"image %d" % text.image, "messages", "image", text.length)
    return Piece(b"".join([token.to_bytes(4, "big") for token in text.tokens]), "messages", "", text.length)


def request_of(operation: Operation, before: Operation | None) -> Request:
    """Return an operation as lore's models see it; `before` is the one before in its chain."""
    pairs = zip(operation.pieces, before.pieces if before is not None else (), strict=False)
    same = next((place for place, (current, previous) in enumerate(pairs) if current != previous), None)
    if same is None:
        same = min(len(operation.pieces), len(before.pieces)) if before is not None else 0
    output = (piece_of(operation.generated),) if operation.generated is not None else ()
    return Request(
        operation.chain, [piece_of(text) for text in operation.pieces], same, at=float(operation.at),
        ended=float(operation.ended), output=output, space=f"{operation.tenant}|{operation.adapter}".encode(),
        priority=priority_of(operation),
    )  # fmt: skip


def read(drawn: Sequence, kind: str = "unified") -> list[int | None]:
    """Return lore's prediction for each request of a sequence, in tokens."""
    drawn, options = settings(drawn, kind)
    model = make("sglang", lambda rule, model, at: None, options._asdict())
    predictions, before = [], {}
    for operation in drawn.operations:
        predictions.append(model.predict(request_of(operation, before.get(operation.chain))).read)
        before[operation.chain] = operation
    return predictions
