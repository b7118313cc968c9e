"""How llama.cpp's server and lore's model of it are asked: the same sequences with the same options.

Sequences are asked one after another within a session of `TOGETHER`, in which a server keeps what it has; requests are
asked one after another, too, so that `cache_n` does not hang on how fast a machine is. Tokens are numbered for a small
vocabulary; what is generated is one token again and again, which a request asks for (`logit_bias`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lore.cache.base import Piece, Request
from lore.cache.registry import make
from oracle.engines.llama_model import FIRST
from oracle.engines.sequences import Operation, Text, sequence

TOGETHER = 20  # sequences
_STREAMS = 6
_GENERATED = 3400  # the first of the tokens that are generated
_IMAGES = 3500


class Setting(NamedTuple):
    """Options of the server, and of the model."""

    server: tuple[str, ...]
    model: dict[str, int | float | bool]
    slots: int


SETTINGS = (
    Setting((), {}, 4),
    Setting(("-np", "1", "--cache-ram", "0"), {"slots": 1, "host_tokens": 0}, 1),
    Setting(("-np", "1"), {"slots": 1}, 1),
    Setting(("-np", "2", "--cache-ram", "0"), {"slots": 2, "host_tokens": 0}, 2),
    Setting(("-np", "3"), {"slots": 3}, 3),
    Setting(("-np", "2", "-sps", "0.5", "--no-cache-idle-slots"), {"slots": 2, "similarity": 0.5, "idle": False}, 2),
    Setting(("-np", "4", "-kvu", "-sps", "0"), {"slots": 4, "unified": True, "similarity": 0.0}, 4),
)


class Asked(NamedTuple):
    """A request: its tokens, how many more of which token are generated, the slot that it asks for."""

    tokens: list[int]
    generated: int
    token: int
    slot: int | None
    request: Request


def setting_of(session: int) -> Setting:
    return SETTINGS[session % len(SETTINGS)]


def tokens_of(text: Text) -> list[int]:
    if text.image:
        return [_IMAGES + text.image] * text.length
    return [_token(text, place) for place in range(text.length)]


def _token(text: Text, place: int) -> int:
    edit = text.edit if place >= text.edited else 0
    if text.stream >= _STREAMS:
        return _GENERATED + edit + 8 * (text.stream - _STREAMS)
    return FIRST + place + 128 * (edit + 4 * text.stream)


def _piece(text: Text) -> Piece:
    return Piece(b"".join([token.to_bytes(4, "big") for token in tokens_of(text)]), "messages", "", text.length)


def asked(session: int) -> Iterator[Asked]:
    """Yield the requests of a session."""
    setting = setting_of(session)
    for seed in range(session * TOGETHER, (session + 1) * TOGETHER):
        before: dict[str, Operation] = {}
        for number, operation in enumerate(sequence(seed).operations):
            slot = (seed + number) % setting.slots if (seed + number) % 7 == 0 else None
            output = operation.generated or Text(_STREAMS, 1)
            same = _same(operation, before.get(operation.chain))
            before[operation.chain] = operation
            pieces = [_piece(text) for text in operation.pieces]
            request = Request(f"{seed} {operation.chain}", pieces, same, output=(_piece(output),), slot=slot)
            tokens = [token for text in operation.pieces for token in tokens_of(text)]
            yield Asked(tokens, output.length, _token(output, 0), slot, request)


def _same(operation: Operation, before: Operation | None) -> int:
    pieces = before.pieces if before is not None else ()
    pairs = enumerate(zip(operation.pieces, pieces, strict=False))
    shorter = min(len(operation.pieces), len(pieces))
    return next((place for place, (left, right) in pairs if left != right), shorter)


def read(session: int) -> list[int | None]:
    """Return what lore's model reads for each request of a session, in tokens."""
    model = make("llama.cpp", lambda rule, name, at: None, setting_of(session).model)
    return [model.predict(each.request).read for each in asked(session)]
