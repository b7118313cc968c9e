"""Generated sequences of requests, on which engines are compared with lore's models of them.

A seed gives the same `Sequence` on every machine and for every engine; an engine without a feature (adapters, tenants,
images) ignores its field. A prompt consists of pieces, each a part of a stream of tokens that no other stream shares,
so two prompts have a common prefix of tokens if and only if their pieces have it. There are few streams, so pieces
occur again elsewhere, prompts are repeated, and an output sometimes equals that of another request.

Time is counted in steps of the engine. A request admitted at step `at` that generates n tokens is computed at steps
`at` to `at + n - 1` (without known output: at one step) and has `ended` when step `at + n` begins. At each step running
requests are served first, in order of admission, then new ones are admitted.
"""

import random
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

_STREAMS = 6  # few, so that beginnings are repeated
_PAUSE = 1_000  # steps between requests that do not overlap
_LENGTHS = (1, 3, 7, 15, 16, 17, 31, 32, 33, 48, 64, 100)
_GENERATED = (1, 1, 2, 5, 15, 16, 17, 31, 40)
_IMAGES = (8, 20, 40)  # placeholders of each


class Text(NamedTuple):
    """The first `length` tokens of a stream, from `edited` on those of the edit number `edit`.

    An image (number `image`) is `length` placeholders, the same tokens for every image.
    """

    stream: int
    length: int
    edited: int = 0
    edit: int = 0
    image: int = 0

    @property
    def tokens(self) -> list[int]:
        """Return token ids, from 1 to below 75,000."""
        if self.image:
            return [1] * self.length
        return [self._token(place) for place in range(self.length)]

    def _token(self, place: int) -> int:
        edit = self.edit if place >= self.edited else 0
        return 2 + place + 512 * (edit + 16 * self.stream)


class Operation(NamedTuple):
    """One request: its pieces, its output, and the tenant and adapter that separate it from others."""

    chain: str
    pieces: tuple[Text, ...]
    generated: Text | None
    at: int
    tenant: str = ""
    adapter: str = ""

    @property
    def tokens(self) -> list[int]:
        return [token for piece in self.pieces for token in piece.tokens]

    @property
    def output(self) -> list[int]:
        return self.generated.tokens if self.generated is not None else []

    @property
    def ended(self) -> int:
        return self.at + max(1, self.generated.length if self.generated is not None else 1)


class Sequence(NamedTuple):
    """Requests in the order of their admission.

    `room` is the share of all requests' memory, beyond that of concurrent ones, that fits: 0 to 1; None: enough.
    """

    seed: int
    operations: tuple[Operation, ...]
    room: float | None = None

    def capacity(self, unit: int) -> int | None:
        """Return memory in blocks of `unit` tokens, at least for concurrent requests; None: all fit."""
        if self.room is None:
            return None
        sizes = [-(-(len(operation.tokens) + len(operation.output)) // unit) for operation in self.operations]
        running = [
            sum(
                size
                for size, other in zip(sizes, self.operations, strict=True)
                if other.at <= operation.at < other.ended
            )
            for operation in self.operations
        ]
        return max(running) + round(self.room * (sum(sizes) - max(running)))


class Event(NamedTuple):
    """A request begins, gets a place for another output token, or ends."""

    what: Literal["begin", "token", "end"]
    number: int


def events(sequence: Sequence) -> Iterator[Event]:
    """Yield the events in an engine's order. The last output token never gets a place."""
    operations = sequence.operations
    happenings: list[tuple[int, int, int, Event]] = []
    for number, operation in enumerate(operations):
        happenings.append((operation.at, 2, number, Event("begin", number)))
        happenings.append((operation.ended, 0, number, Event("end", number)))
        happenings += [(step, 1, number, Event("token", number)) for step in range(operation.at + 1, operation.ended)]
    for *_, event in sorted(happenings):
        yield event


def sequence(seed: int) -> Sequence:
    """Return the sequence of a seed: 2 to 14 requests of 1 to some hundred tokens."""
    return _Draw(seed).sequence


class _Draw:
    """Draws requests of parallel conversations, which are continued, edited, forked and repeated."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(f"engines {seed}")
        self.tenants = ("", "a", "b") if self.chance.random() < 0.25 else ("",)
        self.adapters = ("", "x") if self.chance.random() < 0.15 else ("",)
        self.images = self.chance.random() < 0.15
        self.generates = self.chance.random() < 0.8
        self.parallel = self.chance.random() < 0.5
        self.chains: list[Operation] = []  # the latest request of each

    @cached_property
    def sequence(self) -> Sequence:
        chance = self.chance
        operations: list[Operation] = []
        at = 0
        for _ in range(chance.randrange(2, 15)):
            together = self.parallel and operations and chance.random() < 0.6
            at += chance.choice((0, 0, 1, 2, 5, 17)) if together else _PAUSE
            operations.append(self._operation(at))
        return Sequence(self.seed, tuple(operations), chance.random() ** 2 if chance.random() < 0.6 else None)

    def _operation(self, at: int) -> Operation:
        chance = self.chance
        kinds = (self._continued, self._again, self._edited, self._forked, self._new)
        operation = chance.choices(kinds, (8, 2, 2, 2, 2))[0](at) if self.chains else self._new(at)
        if operation.chain == str(len(self.chains)):
            self.chains.append(operation)
        else:
            self.chains[int(operation.chain)] = operation
        return operation

    def _new(self, at: int) -> Operation:
        chance, pieces = self.chance, [self._text() for _ in range(self.chance.randrange(1, 5))]
        if self.chains and chance.random() < 0.6:  # a system prompt that others have too
            pieces[0] = chance.choice(self.chains).pieces[0]
        tenant, adapter = chance.choice(self.tenants), chance.choice(self.adapters)
        return Operation(str(len(self.chains)), tuple(pieces), self._output(), at, tenant, adapter)

    def _continued(self, at: int) -> Operation:
        """Continue a conversation with more pieces, mostly after its output."""
        before = self.chance.choice(self.chains)
        output = before.generated if self.chance.random() < 0.85 else None
        more = [self._text() for _ in range(self.chance.randrange(1, 3))]
        return self._next(before, (*before.pieces, *([output] if output is not None else []), *more), at)

    def _again(self, at: int) -> Operation:
        before = self.chance.choice(self.chains)
        return self._next(before, before.pieces, at)

    def _edited(self, at: int) -> Operation:
        """Change one piece from some token on, or shorten it."""
        before = self.chance.choice(self.chains)
        place = self.chance.randrange(len(before.pieces))
        piece = before.pieces[place]
        if piece.image or self.chance.random() < 0.2:
            changed = self._text()
        elif self.chance.random() < 0.3:
            changed = piece._replace(length=self.chance.randrange(1, piece.length + 1))
        else:
            changed = piece._replace(edited=self.chance.randrange(piece.length), edit=self.chance.randrange(1, 4))
        return self._next(before, (*before.pieces[:place], changed, *before.pieces[place + 1 :]), at)

    def _forked(self, at: int) -> Operation:
        """Begin another conversation with the first pieces of one."""
        before = self.chance.choice(self.chains)
        common = before.pieces[: self.chance.randrange(1, len(before.pieces) + 1)]
        operation = self._next(before, (*common, self._text()), at)
        return operation._replace(chain=str(len(self.chains)))

    def _next(self, before: Operation, pieces: tuple[Text, ...], at: int) -> Operation:
        return before._replace(pieces=pieces, generated=self._output(), at=at)

    def _text(self) -> Text:
        chance = self.chance
        if self.images and chance.random() < 0.3:
            image = chance.randrange(len(_IMAGES))
            return Text(0, _IMAGES[image], image=image + 1)
        return Text(chance.randrange(_STREAMS), chance.choice(_LENGTHS))

    def _output(self) -> Text | None:
        if not self.generates:
            return None
        return Text(_STREAMS + self.chance.randrange(3), self.chance.choice(_GENERATED))
