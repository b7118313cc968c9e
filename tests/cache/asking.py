"""Short words for tests of cache models: requests of pieces, rules from a dict, and what a model says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lore.cache.base import Breakpoint, Look, Piece, Prediction, Request
from lore.cache.registry import make
from lore.model.turn import Section


def piece(name: str, tokens: int | None = 16, section: Section = "messages", kind: str = "") -> Piece:
    """A piece that shares no beginning with one of another name."""
    return Piece(f"{name}|{'x' * (tokens or 0)}".encode(), section, kind, tokens)


def pieces(names: str | Sequence[str], tokens: int = 16) -> list[Piece]:
    """One piece for each name, all of one size."""
    return [piece(name, tokens) for name in names]


def request(
    names: str | Sequence[Piece], tokens: int = 16, *, breakpoints: Sequence[int | Breakpoint] = (), **fields: Any
) -> Request:
    """A request of pieces; each letter of a text is one."""
    made = pieces(names, tokens) if isinstance(names, str) else list(names)
    own = tuple(one if isinstance(one, Breakpoint) else Breakpoint(one) for one in breakpoints)
    return Request(fields.pop("chain", "main"), made, breakpoints=own, **fields)


def rules(values: Mapping[str, float] | None = None, **more: float) -> Look:
    """A look-up that answers the same for every model at any time."""
    known = {**(values or {}), **more}
    return lambda rule, model, at: known.get(rule)


def reads(name: str, requests: Sequence[Request], look: Look | None = None, **options: Any) -> list[int | None]:
    """What a model of this name would read for each request in turn."""
    return [one.read for one in predicted(name, requests, look, **options)]


def predicted(name: str, requests: Sequence[Request], look: Look | None = None, **options: Any) -> list[Prediction]:
    """What a model of this name says of each request in turn, without a bill."""
    model = make(name, look or rules(), options)
    found: list[Prediction] = []
    for one in requests:
        found.append(model.predict(one))
        assert model.learn(None) == ""
    return found
