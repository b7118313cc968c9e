"""Texts that stand between the items of a timeline: durable prompt deltas and persisted context.

Shape of their `content`: a list of `{"role", "text"}` (one such object and a plain text are read as
well). Rule: what cannot be read is None, never a guess.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, cast

from msgspec import Raw

from lore.model.canonical import encode, text_of
from lore.model.jsonslice import array, elements, table
from lore.model.state import Insert

Speaker: TypeAlias = Literal["user", "assistant"]
_SPEAKERS: dict[bytes, Speaker] = {b'"user"': "user", b'"assistant"': "assistant"}


class Said(NamedTuple):
    """One text of an insert, as a JSON string, and whose turn it takes."""

    role: Speaker
    text: bytes


def said(content: Raw) -> tuple[Said, ...] | None:
    """Return the texts of an insert's content; None where it cannot be read or says nothing."""
    raw = bytes(content)
    if raw[:1] == b'"':
        return (Said("user", raw),) if raw != b'""' else None
    listed = elements(raw) if raw[:1] == b"[" else [raw]
    found: list[Said] = []
    for one in listed:
        own = table(one) or {}
        role = _SPEAKERS.get(own.get("role", b'"user"'))
        text = own.get("text", b"")
        if role is None or text[:1] != b'"':
            return None
        if text != b'""':
            found.append(Said(role, text))
    return tuple(found) or None


def place_in(selector: Raw) -> int | None:
    """Return the place that a selector names; None where it cannot be read."""
    own = table(bytes(selector)) or {}
    place = own.get("insert_at", own.get("insertAt", b""))
    readable = own.get("target") == b'"messages"' and place.isdigit() and len(place) <= 15
    return int(place) if readable else None


def moved(selector: Raw, place: int) -> Raw:
    """Return a selector that names another place; all its other fields stay as they are."""
    own = table(bytes(selector)) or {}
    own["insertAt" if "insertAt" in own and "insert_at" not in own else "insert_at"] = str(place).encode()
    return Raw(b"{" + b",".join(encode(key) + b":" + value for key, value in own.items()) + b"}")


class Told(NamedTuple):
    """What a delta brought up to date: entries with their signatures, entries taken back, layers."""

    changed: dict[str, str]
    removed: tuple[str, ...]
    layers: dict[str, str]


def told(delta: Insert) -> Told:
    """Return what a delta says that it told (`mut` of its selector); a foreign or damaged one told nothing."""
    mut = table((table(bytes(delta.selector)) or {}).get("mut", b"null")) or {}
    return Told(
        _signs(mut.get("changed", b"[]"), "id"),
        tuple([text_of(one) for one in array(mut.get("removed", b"[]")) if one[:1] == b'"']),
        _signs(mut.get("layers", b"[]"), "name"),
    )


def _signs(raw: bytes, key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in array(raw):
        own = table(one) or {}
        name, sign = own.get(key, b""), own.get("h", b'""')
        if name[:1] == b'"' and sign[:1] == b'"':
            found[text_of(name)] = text_of(sign)
    return found


def selector(place: int, news: Told) -> Raw:
    """Write the selector of a new delta."""
    mut: dict[str, object] = {"changed": [{"id": name, "h": sign} for name, sign in news.changed.items()]}
    if news.removed:
        mut["removed"] = list(news.removed)
    if news.layers:
        mut["layers"] = [{"name": name, "h": sign} for name, sign in news.layers.items()]
    return Raw(encode(cast("object", {"target": "messages", "insert_at": place, "mut": mut})))
