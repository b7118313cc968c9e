"""Helpers for tests of cache models: requests of pieces, rules from a dict, predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

from lore.cache.base import Breakpoint, Look, Piece, Prediction, Request
from lore.cache.registry import make
from lore.model.turn import Section


def piece(name: str, tokens: int | None = 16, section: Section = "messages", kind: str = "") -> Piece:
    """Return a piece that has no common beginning with pieces of other names."""
    return Piece(f"{name}|{'x' * (tokens or 0)}".encode(), section, kind, tokens)


def pieces(names: str | Sequence[str], tokens: int = 16) -> list[Piece]:
    """Return one piece for each name, all of one size."""
    return [piece(name, tokens) for name in names]


def request(
    names: str | Sequence[Piece], tokens: int = 16, *, breakpoints: Sequence[int | Breakpoint] = (), **fields: Any
) -> Request:
    """Return a request of pieces; each letter of a text is one piece."""
    made = pieces(names, tokens) if isinstance(names, str) else list(names)
    own = tuple(one if isinstance(one, Breakpoint) else Breakpoint(one) for one in breakpoints)
    return Request(fields.pop("chain", "main"), made, breakpoints=own, **fields)


def rules(values: Mapping[str, float] | None = None, **more: float) -> Look:
    """Return rules that are the same for every model at any time."""
    known = {**(values or {}), **more}
    return lambda rule, model, at: known.get(rule)


def reads(name: str, requests: Sequence[Request], look: Look | None = None, **options: Any) -> list[int | None]:
    """Return the predicted read of each request."""
    return [one.read for one in predicted(name, requests, look, **options)]


def predicted(name: str, requests: Sequence[Request], look: Look | None = None, **options: Any) -> list[Prediction]:
    """Return the prediction of each request, without usage."""
    model = make(name, look or rules(), options)
    found: list[Prediction] = []
    for one in requests:
        found.append(model.predict(one))
        assert model.learn(None) == ""
    return found
