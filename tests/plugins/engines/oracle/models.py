"""Predictions of lore's model of an engine for a generated sequence."""

from lore.cache.base import Piece, Request
from plugins.engines.loaded import make
from plugins.engines.oracle.sequences import Operation, Sequence, Text


def reads(sequence: Sequence, name: str, **options: int | bool | None) -> list[int]:
    """Return the predicted reads of each request; sizes are exact, so the predictions are, too."""
    model = make(name, lambda rule, model, at: None, options)
    predictions, before = [], {}
    for operation in sequence.operations:
        next_request = request(operation, before.get(operation.chain))
        before[operation.chain] = operation
        prediction = model.predict(next_request)
        model.learn(None)
        assert prediction.read is not None
        predictions.append(prediction.read)
    return predictions


def request(operation: Operation, before: Operation | None) -> Request:
    """Return an operation as a request of lore's models; `before` is the previous one of its chain."""
    same = 0
    for current, previous in zip(operation.pieces, before.pieces if before is not None else (), strict=False):
        if current != previous:
            break
        same += 1
    output = [] if operation.generated is None else [_piece(operation.generated)]
    return Request(
        operation.chain, [_piece(text) for text in operation.pieces], same, at=float(operation.at),
        space=f"{operation.tenant}/{operation.adapter}".encode(), output=output, ended=float(operation.ended),
    )  # fmt: skip


def _piece(text: Text) -> Piece:
    """Return a piece whose bytes agree with another's as far as the tokens do; all images begin with the same bytes."""
    if text.image:
        return Piece(b"data:image/png;base64,%d" % text.image, "messages", "image", text.length)
    return Piece(b"".join(token.to_bytes(4, "big") for token in text.tokens), "messages", "", text.length)
