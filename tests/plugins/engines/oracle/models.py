"""Predictions of lore's models of engines for generated sequences, with the settings that the engines got."""

from itertools import chain

from lore.cache.base import Piece, Request
from plugins.engines.loaded import make
from plugins.engines.oracle import lmcache_settings as lmcache
from plugins.engines.oracle import sglang_settings as sglang
from plugins.engines.oracle import vllm_settings as vllm
from plugins.engines.oracle.sequences import Operation, Sequence, Text


def reads(sequence: Sequence, name: str, **options: int | bool | str | None) -> list[int]:
    """Return the predicted reads of each request; sizes are exact, so the predictions are, too."""
    model = make(name, lambda rule, model, at: None, options)
    predictions, before = [], {}
    for operation in sequence.operations:
        priority = sglang.priority_of(operation) if name == "sglang" else 0
        next_request = request(operation, before.get(operation.chain), priority)
        before[operation.chain] = operation
        prediction = model.predict(next_request)
        model.learn(None)
        assert prediction.read is not None
        predictions.append(prediction.read)
    return predictions


def request(operation: Operation, before: Operation | None, priority: int) -> Request:
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
        priority=priority,
    )  # fmt: skip


def _piece(text: Text) -> Piece:
    """Return a piece whose bytes agree with another's as far as the tokens do; all images begin with the same bytes."""
    if text.image:
        return Piece(b"data:image/png;base64,%d" % text.image, "messages", "image", text.length)
    return Piece(b"".join(token.to_bytes(4, "big") for token in text.tokens), "messages", "", text.length)


def of_vllm(drawn: Sequence) -> list[int]:
    return reads(drawn, "vllm", block=vllm.block_of(drawn), capacity=vllm.capacity_of(drawn))


def of_vllm_layers(drawn: Sequence) -> list[int]:
    """Return the reads of a model of vLLM with the layers of `layers_of`."""
    capacity = vllm.mixed_capacity_of(drawn)
    return reads(drawn, "vllm", block=vllm.block_of(drawn), capacity=capacity, **vllm.layers_of(drawn))


def of_served_vllm(count: int) -> list[list[int]]:
    """Return the reads of the requests of each seed; one memory serves all seeds."""
    return _shared([list(chain.from_iterable(vllm.batches(seed))) for seed in range(count)], "vllm", **vllm.ROOM)


def of_lmcache(count: int) -> list[list[int]]:
    """Return the reads of the requests of each seed; one memory serves all seeds."""
    requests = [lmcache.stream(seed) for seed in range(count)]
    return _shared(requests, "lmcache", chunk_size=lmcache.CHUNK, capacity=lmcache.CAPACITY)


def of_sglang(drawn: Sequence, tree: str = "unified") -> list[int]:
    drawn, options = sglang.settings(drawn, tree)
    return reads(drawn, "sglang", **options._asdict())


def _shared(sequences: list[list[Operation]], name: str, **options: int) -> list[list[int]]:
    predictions = iter(reads(Sequence(0, tuple(chain.from_iterable(sequences))), name, **options))
    return [[next(predictions) for _ in operations] for operations in sequences]
