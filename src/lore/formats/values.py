"""Values as agents write them, read leniently: texts, times, what a message says.

In: JSON values as they stand in a record. Out: what lore's events hold. Rules: content stays a slice; a value of
another type says nothing; no function raises but `blocks_in`, where content is neither a text nor a list, and
`decoded`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from lore.formats.bills import MOST
from lore.model import lenient
from lore.model.canonical import decode, printable
from lore.model.items import NULL, Block, RawBlock, TextBlock, ToolCall

T = TypeVar("T")
_LATEST = 32_503_680_000  # seconds: the year 3000
LATEST_MS = _LATEST * 1000
_MILLISECONDS = _LATEST  # a larger number counts milliseconds, as JavaScript does
_SECOND = [f"{number:02}" for number in range(60)]  # written before: a format costs more than all else of a time
_THOUSANDTH = [f".{number:03}Z" for number in range(1_000)]
_TEXTS = frozenset(("text", "input_text", "output_text"))


class _Text(Struct, frozen=True):
    """A block, as far as it says whether it is a text."""

    type: str = ""
    text: Raw = NULL


_TEXT = msgspec.json.Decoder(str)
_TIME = msgspec.json.Decoder(int | float | str)
_COUNT = msgspec.json.Decoder(int)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_BLOCK = msgspec.json.Decoder(_Text)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T:
    """Decode a record that may hold lone surrogates, as many programs write them; ValueError where it is none."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except ValueError:
        return lenient.convert(bytes(data), decoder.type)


def opens(raw: Raw | bytes) -> str:
    """Return the first character of a JSON value: what type it has. Copies nothing."""
    view = memoryview(raw)
    return chr(view[0]) if view.nbytes else ""


def text_in(raw: Raw | bytes) -> str:
    """Return a text that can be written again; empty for a value of another type."""
    if opens(raw) != '"':
        return ""
    try:
        return _TEXT.decode(raw)
    except msgspec.DecodeError:
        pass
    try:
        return printable(decode(bytes(raw)))
    except (ValueError, RecursionError):
        return ""


def count_in(raw: Raw | bytes, most: int = MOST) -> int | None:
    """Return a count: a whole number from 0 on, and no more than `most`; None for anything else."""
    try:
        found = _COUNT.decode(raw)
    except msgspec.DecodeError:
        return None
    return found if 0 <= found <= most else None


def stamp_of(raw: Raw | bytes) -> str | None:
    """Return a time as RFC 3339 (UTC, milliseconds), of a number of seconds or milliseconds; a text is one already."""
    try:
        return stamp_at(_TIME.decode(raw))
    except msgspec.DecodeError:
        return text_in(raw) or None


def stamp_at(found: float | str | None) -> str | None:
    """Return a time as RFC 3339, of what was decoded: seconds or milliseconds since 1970; a text is one already."""
    if isinstance(found, str):
        return found or None
    if found is None or not 0 < found < LATEST_MS:
        return None
    if not isinstance(found, int):
        found = round(found * (1_000 if found > _MILLISECONDS else 1_000_000)) // 1_000
    elif found <= _MILLISECONDS:
        found *= 1_000
    minute, ms = divmod(found, 60_000)
    return _minute(minute) + _SECOND[ms // 1_000] + _THOUSANDTH[ms % 1_000]


@lru_cache(maxsize=64)
def _minute(minute: int) -> str:
    """Return a time up to its minute, of minutes since 1970."""
    return datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:")


def blocks_in(content: Raw) -> tuple[Block, ...]:
    """Return what a message says: a text is one block, a list one each; ValueError for any other content."""
    match opens(content):
        case '"':
            return (TextBlock(content),) if memoryview(content).nbytes > len('""') else ()
        case "[":
            return tuple([block_in(raw) for raw in decoded(_LIST, content)])
        case "n":
            return ()
        case _:
            raise ValueError("content is neither text nor a list")


def block_in(raw: Raw) -> Block:
    """Return a text block as text, any other as it stands."""
    try:
        found = decoded(_BLOCK, raw)
    except ValueError:
        found = _Text()
    plain = found.type in _TEXTS and opens(found.text) == '"'
    return TextBlock(found.text) if plain else RawBlock(Raw(bytes(raw)))


def called(uuid: str, call_id: str, name: str, arguments: Raw, response: str) -> ToolCall:
    """Make a call of OpenAI's shape; arguments that are no JSON object stand as the text that they are."""
    given = text_in(arguments).encode("utf-8", "surrogatepass")
    try:
        _OBJECT.decode(given)
        found = Raw(given)
    except msgspec.DecodeError:
        found = Raw(b'{"arguments":%b}' % arguments)
    return ToolCall(uuid, call_id, name, found, response_id=response)
