"""The sequences and options that llama.cpp's server and lore's model of it both get.

A session is `TOGETHER` sequences in one server, whose cache is kept. Requests are sent one after another, so `cache_n`
does not depend on the speed of the machine (`llama_parallel.py` sends several at once). Tokens are numbered for a small
vocabulary; the output is one token repeated, chosen by `logit_bias`. If `users` is set, some pieces are user messages:
they begin with the token of a byte that is used for nothing else, which the server gets as `message_delimiters`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lore.cache.base import Piece, Request
from plugins.engines.loaded import make
from plugins.engines.oracle.llama_model import FIRST, WINDOW
from plugins.engines.oracle.sequences import Text, sequence

TOGETHER = 20  # sequences
_STREAMS = 6
_GENERATED = 3400  # the first token of outputs
_IMAGES = 3500
_USER = Text(0, 1, image=9)  # the start of a user message
_BYTES = 3  # the token of byte 0
DELIMITER = "\x01"


class Setting(NamedTuple):
    """Options of the server and of lore's model; the file of the served model."""

    server: tuple[str, ...]
    model: dict[str, int | float | bool]
    slots: int
    file: str = "tiny"
    users: bool = False


_SMALL = ("-b", "128", "-ub", "64")
_BATCHES = {"batch": 128, "ubatch": 64}


def _window(*server: str, tokens: int = WINDOW, users: bool = False, **model: int | bool) -> Setting:
    options = ("--override-kv", f"gemma2.attention.sliding_window=int:{tokens}") if tokens != WINDOW else ()
    return _small("window", (*options, *server), {"window": tokens, **model}, users=users)


def _state(*server: str, users: bool = False, **model: int | bool) -> Setting:
    return _small("state", server, {"states": True, **model}, users=users)


def _small(file: str, server: tuple[str, ...], model: dict[str, int | float | bool], *, users: bool) -> Setting:
    slots = {"slots": int(server[server.index("-np") + 1])} if "-np" in server else {}
    return Setting((*_SMALL, *server), {**_BATCHES, **slots, **model}, slots.get("slots", 4), file, users)


_PLAIN = (
    Setting((), {}, 4),
    Setting(("-np", "1", "--cache-ram", "0"), {"slots": 1, "host_tokens": 0}, 1),
    Setting(("-np", "1"), {"slots": 1}, 1),
    Setting(("-np", "2", "--cache-ram", "0"), {"slots": 2, "host_tokens": 0}, 2),
    Setting(("-np", "3"), {"slots": 3}, 3),
    Setting(("-np", "2", "-sps", "0.5", "--no-cache-idle-slots"), {"slots": 2, "similarity": 0.5, "idle": False}, 2),
    Setting(("-np", "4", "-kvu", "-sps", "0"), {"slots": 4, "unified": True, "similarity": 0.0}, 4),
)
_NO_RAM = ("--cache-ram", "0")
PARALLEL = (*_PLAIN, Setting(("-np", "2", "--cache-reuse", "4"), {"slots": 2, "cache_reuse": 4}, 2))
SETTINGS: dict[str, tuple[Setting, ...]] = {
    "plain": _PLAIN,
    "reuse": (
        Setting(("--cache-reuse", "4"), {"cache_reuse": 4}, 4),
        Setting(("-np", "1", *_NO_RAM, "--cache-reuse", "16"), {"slots": 1, "host_tokens": 0, "cache_reuse": 16}, 1),
        Setting(("-np", "2", "--cache-reuse", "1"), {"slots": 2, "cache_reuse": 1}, 2),
        Setting(("-np", "3", *_NO_RAM, "--cache-reuse", "64"), {"slots": 3, "host_tokens": 0, "cache_reuse": 64}, 3),
    ),
    "window": (
        _window(),
        _window("-np", "1", *_NO_RAM, tokens=16, host_tokens=0),
        _window("-np", "2", "-ctxcp", "2", "-cms", "64", users=True, checkpoints=2, checkpoint_step=64),
        _window("-np", "3", "-kvu", "--no-cache-idle-slots", tokens=200, users=True, unified=True, idle=False),
        _window("-np", "2", "--swa-full", swa_full=True),
        _window("-np", "4", "-kvu", *_NO_RAM, "-cms", "0", users=True, unified=True, host_tokens=0, checkpoint_step=0),
        _window("-np", "1", "-ctxcp", "0", checkpoints=0),
        _window("-np", "2", "--swa-full", "--cache-reuse", "8", swa_full=True, cache_reuse=8),
    ),
    "state": (
        _state(),
        _state("-np", "1", *_NO_RAM, host_tokens=0),
        _state("-np", "2", "-ctxcp", "3", "-cms", "100", users=True, checkpoints=3, checkpoint_step=100),
        _state("-np", "3", "-cms", "0", users=True, checkpoint_step=0),
        _state("-np", "1", "-ctxcp", "0", checkpoints=0),
        _state("-np", "2", "--cache-reuse", "4", cache_reuse=4),
    ),
}  # fmt: skip


class ServerRequest(NamedTuple):
    """A request: its tokens, the number and id of output tokens, the slot that it names, its sequence and steps."""

    tokens: list[int]
    generated: int
    token: int
    slot: int | None
    request: Request
    sequence: int
    at: int
    ended: int


def setting_of(kind: str, session: int) -> Setting:
    return SETTINGS[kind][session % len(SETTINGS[kind])]


def tokens_of(text: Text) -> list[int]:
    if text is _USER:
        return [_BYTES + ord(DELIMITER)]
    if text.image:
        return [_IMAGES + text.image] * text.length
    return [_token(text, place) for place in range(text.length)]


def _token(text: Text, place: int) -> int:
    edit = text.edit if place >= text.edited else 0
    if text.stream >= _STREAMS:
        return _GENERATED + edit + 8 * (text.stream - _STREAMS)
    return FIRST + place + 128 * (edit + 4 * text.stream)


def _piece(text: Text) -> Piece:
    if text is _USER:
        return Piece(b'"role":"user"', "messages", "envelope", 1)
    return Piece(b"".join([token.to_bytes(4, "big") for token in tokens_of(text)]), "messages", "", text.length)


def requests_of(setting: Setting, session: int) -> Iterator[ServerRequest]:
    for seed in range(session * TOGETHER, (session + 1) * TOGETHER):
        before: dict[str, Sequence[Piece]] = {}
        for number, operation in enumerate(sequence(seed).operations):
            slot = (seed + number) % setting.slots if (seed + number) % 7 == 0 else None
            output = operation.generated or Text(_STREAMS, 1)
            texts = [text for text in operation.pieces for text in (*_opening(setting, text), text)]
            pieces = [_piece(text) for text in texts]
            same = same_in(pieces, before.get(operation.chain, ()))
            before[operation.chain] = pieces
            request = Request(f"{seed} {operation.chain}", pieces, same, output=(_piece(output),), slot=slot)
            tokens = [token for text in texts for token in tokens_of(text)]
            yield ServerRequest(
                tokens, output.length, _token(output, 0), slot, request, seed, operation.at, operation.ended
            )  # fmt: skip


def _opening(setting: Setting, text: Text) -> Sequence[Text]:
    return [_USER] if setting.users and not text.image and text.stream % 3 == 0 else []


def same_in(pieces: Sequence[Piece], before: Sequence[Piece]) -> int:
    pairs = enumerate(zip(pieces, before, strict=False))
    return next((place for place, (current, previous) in pairs if current != previous), min(len(pieces), len(before)))


def read(setting: Setting, session: int) -> list[int | None]:
    """Return lore's prediction for each request of a session, in tokens."""
    model = make("llama.cpp", lambda rule, name, at: None, setting.model)
    return [model.predict(request.request).read for request in requests_of(setting, session)]
