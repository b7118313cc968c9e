"""Generated prompt sequences, the same for every engine: its answers are compared with those of lore's model of it.

In: a seed. Out: a `Sequence` of requests in the order of their admission. Rules: the same seed gives the same sequence
on every machine and for every engine; an engine that lacks a feature (adapters, tenants, images) ignores its field. A
prompt is pieces, each a stretch of a stream of tokens that no other stream shares, so that two prompts are alike up
to a token if and only if their pieces are: what lore sees and what an engine sees differ in nothing. Streams are few,
so pieces come again elsewhere, prompts are sent again, and what is generated is at times what another request
generated.

Time is steps of the engine. A request that is admitted at step `at` and generates n tokens is computed at steps `at`
to `at + n - 1` (one without known output: at one step) and has `ended` when step `at + n` begins. At each step the
requests that run are served first, in the order of their admission, then those that come are admitted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

_STREAMS = 6  # so few that beginnings come again
_PAUSE = 1_000  # steps between requests that do not overlap
_LENGTHS = (1, 3, 7, 15, 16, 17, 31, 32, 33, 48, 64, 100)
_GENERATED = (1, 1, 2, 5, 15, 16, 17, 31, 40)
_IMAGES = (8, 20, 40)  # placeholders of each


class Text(NamedTuple):
    """The first `length` tokens of a stream; from `edited` on they are those of the stream's edit number `edit`.

    An image (`image` is its number) is `length` placeholders, which are the same tokens for every image.
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
    """One request: its pieces, what it generates, and what keeps it apart from others."""

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

    `room` is how much memory has of what all of them need, above what runs at once: 0 to 1; None: enough.
    """

    seed: int
    operations: tuple[Operation, ...]
    room: float | None = None

    def capacity(self, unit: int) -> int | None:
        """Return memory in blocks of `unit` tokens: at least what runs at once needs, None where all has its place."""
        if self.room is None:
            return None
        sizes = [-(-(len(each.tokens) + len(each.output)) // unit) for each in self.operations]
        running = [
            sum(size for size, other in zip(sizes, self.operations, strict=True) if other.at <= each.at < other.ended)
            for each in self.operations
        ]
        return max(running) + round(self.room * (sum(sizes) - max(running)))


class Event(NamedTuple):
    """The request of a number begins, gets a place for one more of its generated tokens, or ends."""

    what: Literal["begin", "token", "end"]
    number: int


def events(sequence: Sequence) -> Iterator[Event]:
    """Yield what happens, in the order in which an engine does it. The last generated token never gets a place."""
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
    """Draw requests: conversations that go on, are edited, forked, sent again, beside each other."""

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
        kinds = (self._goes_on, self._again, self._edited, self._forked, self._new)
        made = chance.choices(kinds, (8, 2, 2, 2, 2))[0](at) if self.chains else self._new(at)
        if made.chain == str(len(self.chains)):
            self.chains.append(made)
        else:
            self.chains[int(made.chain)] = made
        return made

    def _new(self, at: int) -> Operation:
        chance, pieces = self.chance, [self._text() for _ in range(self.chance.randrange(1, 5))]
        if self.chains and chance.random() < 0.6:  # a system prompt that others have too
            pieces[0] = chance.choice(self.chains).pieces[0]
        tenant, adapter = chance.choice(self.tenants), chance.choice(self.adapters)
        return Operation(str(len(self.chains)), tuple(pieces), self._output(), at, tenant, adapter)

    def _goes_on(self, at: int) -> Operation:
        """Continue a conversation: with what was generated, if it is not left out, and more."""
        before = self.chance.choice(self.chains)
        said = before.generated if self.chance.random() < 0.85 else None
        more = [self._text() for _ in range(self.chance.randrange(1, 3))]
        return self._next(before, (*before.pieces, *([said] if said is not None else []), *more), at)

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
        kept = before.pieces[: self.chance.randrange(1, len(before.pieces) + 1)]
        made = self._next(before, (*kept, self._text()), at)
        return made._replace(chain=str(len(self.chains)))

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
