"""Helpers for tests of cache models: requests of pieces, rules from a dict, predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

from lore.cache.base import Breakpoint, Piece, Prediction, Request, RuleLookup
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
    request_pieces = pieces(names, tokens) if isinstance(names, str) else list(names)
    points = tuple(place if isinstance(place, Breakpoint) else Breakpoint(place) for place in breakpoints)
    return Request(fields.pop("chain", "main"), request_pieces, breakpoints=points, **fields)


def rules(values: Mapping[str, float] | None = None, **more: float) -> RuleLookup:
    """Return rules that are the same for every model at any time."""
    table = {**(values or {}), **more}
    return lambda rule, model, at: table.get(rule)


def reads(
    name: str, requests: Sequence[Request], find_rule: RuleLookup | None = None, **options: Any
) -> list[int | None]:
    """Return the predicted read of each request."""
    return [prediction.read for prediction in predicted(name, requests, find_rule, **options)]


def predicted(
    name: str, requests: Sequence[Request], find_rule: RuleLookup | None = None, **options: Any
) -> list[Prediction]:
    """Return the prediction of each request, without usage."""
    model = make(name, find_rule or rules(), options)
    predictions: list[Prediction] = []
    for request in requests:
        predictions.append(model.predict(request))
        assert model.learn(None) == ""
    return predictions
