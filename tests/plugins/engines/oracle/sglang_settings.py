"""With which settings a generated sequence is asked of SGLang and of lore's model of it: by its seed, so that all meet.

In: a sequence, a kind of tree (`TREES`). Out: its `Settings`, and the sequence as it is asked: where windows and states
are kept every second one generates eight times as much, for these are given back and kept far apart.
"""

import random
from typing import NamedTuple

from plugins.engines.oracle.sequences import Operation, Sequence, Text

TREES = ("unified", "radix", "chunks", "windows", "states")
PAGES = (1, 16, 64)
POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")
_GENERATED = 6  # streams from here on are outputs


class Settings(NamedTuple):
    """What a server is started with; the names are those of lore's options."""

    page_size: int
    policy: str
    capacity: int | None
    tree: str = "unified"
    chunked_prefill: int | None = None
    window: int | None = None
    window_capacity: int | None = None
    states: bool = False
    strategy: str | None = None
    state_capacity: int | None = None
    state_chunk: int | None = None
    state_interval: int | None = None

    @property
    def buffered(self) -> bool:
        """Whether a request keeps states apart from the one that it resumes from."""
        return self.states and self.strategy == "extra_buffer"


def settings(drawn: Sequence, kind: str) -> tuple[Sequence, Settings]:
    """Return a sequence as it is asked of a kind of tree, and the settings of that."""
    page, policy = PAGES[drawn.seed % len(PAGES)], POLICIES[drawn.seed % len(POLICIES)]
    if kind in ("unified", "radix"):
        return drawn, Settings(page, policy, drawn.capacity(page), kind)
    chance = random.Random(f"{kind} {drawn.seed}")
    if kind != "chunks" and chance.random() < 0.5:
        drawn = drawn._replace(operations=tuple([_longer(operation) for operation in drawn.operations]))
    chunk = chance.choice((64, 100, 128)) if kind == "chunks" else chance.choice((None, None, 64, 128))
    engine_settings = Settings(page, policy, drawn.capacity(page), chunked_prefill=chunk)
    if kind == "windows":
        window = chance.choice((1, 8, 16, 40, 64, 100, 150))
        room = chance.choice((None, 0.0, chance.random() ** 2, chance.random() ** 2))
        return drawn, engine_settings._replace(window=window, window_capacity=drawn._replace(room=room).capacity(page))
    if kind == "states":
        strategy = chance.choice(("no_buffer", "extra_buffer"))
        if strategy == "no_buffer":
            engine_settings = engine_settings._replace(page_size=1, capacity=drawn.capacity(1))
        places = 4 if strategy == "extra_buffer" else 2
        least = places * _together(drawn) + 1
        capacity = chance.choice((None, least, least + chance.randrange(4), least + chance.randrange(20)))
        return drawn, engine_settings._replace(
            states=True, strategy=strategy, state_capacity=capacity, state_chunk=chance.choice((16, 64)),
            state_interval=chance.choice((32, 256)),
        )  # fmt: skip
    return drawn, engine_settings


def priority_of(operation: Operation) -> int:
    """Return a request's priority: 0 to 2, by its chain."""
    return int(operation.chain) % 3


def _longer(operation: Operation) -> Operation:
    generated = None if operation.generated is None else _text(operation.generated)
    return operation._replace(pieces=tuple([_text(piece) for piece in operation.pieces]), generated=generated)


def _text(text: Text) -> Text:
    return text._replace(length=text.length * 8) if text.stream >= _GENERATED else text


def _together(drawn: Sequence) -> int:
    """Return how many requests run at once, at most."""
    return max(
        sum(other.at <= operation.at < other.ended for other in drawn.operations) for operation in drawn.operations
    )
