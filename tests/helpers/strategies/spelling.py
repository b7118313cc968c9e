"""One value in many spellings: awkward pools, and an encoder that writes what real writers write."""

import json
import re
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec import Raw

# Strings that broke real readers: surrogates cut in half, separators that `splitlines` takes for line ends,
# escapes inside escapes, credentials, terminal escapes, text that looks like JSON.
AWKWARD: tuple[str, ...] = (
    "plain",
    "",
    " ",
    "two\nlines\r\n",
    'tab\tquote"back\\slash/',
    "\u2028 and \u2029 and \u0085",
    "caf\u00e9 \u00fc\u00df",
    "\U0001f469\u200d\U0001f4bb",
    "cut \ud83d",
    "\udc69 begins low",
    "\ud83d\ude00 as two halves",
    "\x00\x01\x1f\x7f",
    "\x1b[31mred\x1b[0m",
    "\ufeffbom",
    '{"type":"text","cache_control":{}}',
    "\\ud83d is text here",
    "\\u0000",
    "{}[],:",
    "]]>&amp;<!--",
    "Today is 2026-01-02.",
    "%s {0} ${HOME} `id`",
    "x" * 300,
    "null",
    "data: sk-ant-api03-not-a-key",
)


class Spelled(NamedTuple):
    """A number that may be written in several ways."""

    forms: tuple[str, ...]


NUMBERS: tuple[Any, ...] = (
    0,
    -1,
    18446744073709551616,
    -18446744073709551617,
    123456789012345678901234567890,
    Spelled(("1.0", "1.00", "1e0", "10E-1")),
    Spelled(("1e16", "1E16", "1.0e+16", "10000000000000000.0")),
    Spelled(("3e-5", "0.00003", "3.0E-05")),
    Spelled(("-0.0", "-0e0")),
)


class Style(NamedTuple):
    """How a writer spells: key order, white space, escapes, which form of a float."""

    reverse: bool = False
    spaced: bool = False
    escapes: str = "few"
    floats: int = 0


PLAIN = Style()
_TAGS = dict.fromkeys(("kind", "type", "role", "status", "op"), PLAIN)  # no writer escapes the letters of a tag


def write(value: Any, style: Style = PLAIN) -> bytes:
    """Write a value as JSON; lone surrogates are always escapes, so that the result is UTF-8."""
    match value:
        case Spelled(forms):
            return forms[style.floats % len(forms)].encode()
        case Raw():
            return bytes(value)
        case str():
            return _string(value, style.escapes)
        case dict():
            members = list(value.items())
            parts = [
                _string(key, "few") + (b": " if style.spaced else b":") + write(member, _TAGS.get(key, style))
                for key, member in (reversed(members) if style.reverse else members)
            ]
            return b"{" + (b", " if style.spaced else b",").join(parts) + b"}"
        case list() | tuple():
            return b"[" + (b" ,\t" if style.spaced else b",").join(write(member, style) for member in value) + b"]"
        case _:
            return json.dumps(value).encode()


def _string(text: str, escapes: str) -> bytes:
    if escapes == "few":
        return encode_basestring(text).encode("utf-8", "backslashreplace")
    if escapes == "ascii":
        return encode_basestring_ascii(text).encode()
    return b'"' + b"".join(b"\\u%04x" % unit for unit in _units(text)) + b'"'


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[n] << 8 | data[n + 1] for n in range(0, len(data), 2)]


def camel(value: Any) -> Any:
    """Spell the keys of a record, and of the item in it, in camelCase."""
    if not isinstance(value, dict):
        return value
    humped = {re.sub(r"_([a-z0-9])", lambda m: m[1].upper(), key): member for key, member in value.items()}
    return {key: camel(member) if key == "item" else member for key, member in humped.items()}


texts = st.sampled_from(AWKWARD)
clean_texts = st.sampled_from([one for one in AWKWARD if one == one.encode("utf-8", "ignore").decode()])
numbers = st.sampled_from(NUMBERS)
styles = st.builds(
    Style, st.booleans(), st.booleans(), st.sampled_from(["few", "ascii", "all"]), st.integers(min_value=0, max_value=3)
)
values = st.one_of(
    texts,
    numbers,
    st.none(),
    st.booleans(),
    st.just([]),
    st.builds(lambda a, b: {"a": a, "\u00fc": [b, {}], "": a}, texts, numbers),
)
blocks = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, texts),
    st.builds(lambda t, s: {"type": "thinking", "text": t, "signature": s}, texts, st.sampled_from(["", "c2ln"])),
    st.just({"type": "image", "media_type": "image/png", "data": "aGk="}),
    st.builds(lambda v: {"type": "raw", "json": {"type": "text", "text": "raw", "citations": [v]}}, values),
)
