"""The events, requests and problems that a reader returns for a recording, without names of classes or modules.

A row is one read: its place (`line` from 1, `byte` from 0), its `kind`, and the fields that differ from their
defaults. Recorded JSON is shown as JSON if encoding it gives the same bytes, otherwise as text. Long values are
replaced by their digest. `rows_of` is the only function that knows how lore opens a recording.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from golden.commands import work_in

LONG = 1000  # characters of a value that is shown
KINDS = {"Exchange": "request", "Turn": "prompt", "Measurement": "measurement", "Problem": "problem"}
REQUESTS = ("turn_started", "request", "prompt")
TOKENS = {"in": "uncached_tokens", "out": "output_tokens", "read": "read_tokens", "write": "write_tokens"}

Row = dict[str, Any]


def rows_of(name: str, folder: Path) -> list[Row]:
    """Return a row for each read of the recording `name` in `folder`; one row if lore does not recognise it."""
    from lore.errors import LoreError
    from lore.recording.opening import Options

    with work_in(folder):
        try:
            recording = Options().open(name)
        except LoreError:
            return [{"kind": "unrecognised"}]
        return [row_of(read) for read in recording.every_read()]


def row_of(read: Any) -> Row:
    """Return the row of a read."""
    row = _fields(read)
    value = row.pop("value")
    kind = KINDS.get(type(read.value).__name__)
    return {"line": read.line, "byte": read.byte, **({"kind": kind} if kind else {}), **value, **row}


def lines(rows: list[Row]) -> bytes:
    """Write rows as JSON Lines."""
    return b"".join(_json(row).encode() + b"\n" for row in rows)


def summary(rows: list[Row]) -> Row:
    """Return a digest of rows, and counts: rows by kind, requests, tokens, problems by code.

    The wording of problems is left out of the digest.
    """
    kinds, problems, tokens = Counter[str](), Counter[str](), Counter[str]()
    digest = hashlib.sha256()
    for row in rows:
        kinds[row["kind"]] += 1
        if row["kind"] == "problem":
            problems[row["code"]] += row.get("times", 1)
            row = {key: value for key, value in row.items() if key != "message"}
        for name, field in TOKENS.items():
            tokens[name] += row.get("usage", {}).get(field, 0)
        digest.update(_json(row).encode())
    return {
        "digest": digest.hexdigest()[:16],
        "kinds": dict(sorted(kinds.items())),
        "requests": sum(kinds[kind] for kind in REQUESTS),
        "tokens": {name: tokens[name] for name in TOKENS},
        "problems": dict(sorted(problems.items())),
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _short(str(value))
    if isinstance(value, bytes | msgspec.Raw):
        return _recorded(bytes(value))
    if isinstance(value, msgspec.Struct):
        return _fields(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if callable(value):
        return "(made on demand)"
    return [_plain(one) for one in value]


def _fields(struct: msgspec.Struct) -> Row:
    config = struct.__struct_config__
    row: Row = {config.tag_field: config.tag} if config.tag_field else {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if type(value) is not type(default) or value != default:
            row[field.name] = _plain(value)
    return row


def _recorded(data: bytes) -> Any:
    """Return recorded JSON as a value if encoding it gives the same text, otherwise as text."""
    text = data.decode("utf-8", "backslashreplace")
    if len(text) <= LONG:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if _json(value) == text:
            return value
        return {"text": text}
    return _short(text)


def _short(text: str) -> str:
    if len(text) <= LONG:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return f"{text[:60]}… {len(text)} characters, sha256 {digest}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
