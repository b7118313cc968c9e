"""Telemetry records, whatever exporter wrote them: names and attributes of spans, their events and log records.

In: one JSON object, flat (`attributes` as an object, as SDKs print it) or OTLP JSON
(`resourceSpans[].scopeSpans[].spans[]`, `resourceLogs[].scopeLogs[].logRecords[]`, attributes as lists of
typed values). Out: each span or log record with its attributes as JSON text. Source: OTLP's JSON encoding.
"""

from __future__ import annotations

from typing import NamedTuple

from lore.formats.times import seconds
from lore.model.canonical import encode, text_of
from lore.model.jsonslice import array, table

_NESTED = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))
_DEEPEST = 64  # of typed values: no message nests deeper
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time", "timeUnixNano", "timestamp", "time",
           "observedTimeUnixNano")  # fmt: skip


class SpanRecord(NamedTuple):
    """A span or log record: its name, its attributes (JSON text by name), when it began."""

    name: str
    attributes: dict[str, bytes]
    at: float | None

    def text(self, *keys: str) -> str:
        """Return the first of these attributes that is there, as text."""
        return next((text_of(self.attributes[key]) for key in keys if key in self.attributes), "")


def told(data: bytes) -> list[SpanRecord]:
    """Return the spans and log records that an object holds; one that is none of these has no attributes."""
    record = table(data) or {}
    found: list[SpanRecord] = []
    for outer, middle, inner in _NESTED:
        for resource in _tables(record.get(outer, b"")):
            shared = attributes((table(resource.get("resource", b"")) or {}).get("attributes", b""))
            for scope in _tables(resource.get(middle, b"")):
                found += [_one(one, shared) for one in _tables(scope.get(inner, b""))]
    return found or [_one(record, {})]


def _one(record: dict[str, bytes], shared: dict[str, bytes]) -> SpanRecord:
    own = {**shared, **attributes(record.get("attributes", b""))}
    for event in _tables(record.get("events", b"")):
        for key, value in attributes(event.get("attributes", b"")).items():
            own.setdefault(key, value)
    body = plain(record["body"]) if "body" in record else b'""'
    name = next((text_of(record[key]) for key in ("name", "eventName", "event_name") if key in record), "")
    at = next((found for key in _STARTS if (found := seconds(record.get(key, b"null"))) is not None), None)
    return SpanRecord(name or (text_of(body) if body[:1] == b'"' else ""), own, at)


def attributes(raw: bytes) -> dict[str, bytes]:
    """Read attributes, as an object or as a list of `{key, value}`."""
    if raw[:1] != b"[":
        return {key: plain(value) for key, value in (table(raw) or {}).items()}
    pairs = ((one.get("key", b'""'), one.get("value", b"null")) for one in _tables(raw))
    return {text_of(key): plain(value) for key, value in pairs}


def plain(raw: bytes, depth: int = 0) -> bytes:
    """Return a typed value as plain JSON; a value that is none of these as it stands."""
    own = table(raw) if raw[:1] == b"{" else None
    if own is None or len(own) != 1 or depth > _DEEPEST:
        return raw
    kind, value = next(iter(own.items()))
    match kind:
        case "stringValue" | "boolValue" | "doubleValue":
            return value
        case "intValue":
            return value.strip(b'"') if value.strip(b'"').lstrip(b"-").isdigit() else value
        case "arrayValue":
            items = array((table(value) or {}).get("values", b"[]"))
            return b"[" + b",".join([plain(one, depth + 1) for one in items]) + b"]"
        case "kvlistValue":
            pairs = _tables((table(value) or {}).get("values", b"[]"))
            return b"{" + b",".join([_member(one, depth) for one in pairs]) + b"}"
        case _:
            return raw


def _member(pair: dict[str, bytes], depth: int) -> bytes:
    return encode(text_of(pair.get("key", b'""'))) + b":" + plain(pair.get("value", b"null"), depth + 1)


def _tables(raw: bytes) -> list[dict[str, bytes]]:
    return [found for one in array(raw) if (found := table(one)) is not None] if raw[:1] == b"[" else []
