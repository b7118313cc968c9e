"""Mutations: bytes to other bytes that a reader may well meet, and some that it should never meet."""

import json
import random
from collections.abc import Callable
from typing import Any

LONGEST = 64 * 1024  # an input that grows past this is cut: many small inputs find more than few big ones

TOKENS: tuple[bytes, ...] = (
    b"\n", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\xbd", b"\xe2\x80\xa8", b"\xc2\x85",
    b'"', b"\\", b"\\u", b"\\ud83d", b"\\ude00", b"\\ud83d\\ude00", b"\\u0000", b"\x1b[31m", b"\x7f",
    b"{", b"}", b"[", b"]", b",", b":", b"{}", b"[]", b'""', b"null", b"true", b"NaN", b"Infinity", b"-Infinity",
    b"-0", b"1e999", b"1e-999", b"18446744073709551616", b"-9223372036854775809", b"9" * 400, b"9" * 5000, b"0.1e1",
    b"[" * 300 + b"]" * 300, b'{"a":' * 300 + b"1" + b"}" * 300, b"[" * 5000, b'{"a":' * 20_000,
    b'"cache_control":{"type":"ephemeral"},', b'"cache_control":null,', b'"text":"twice",', b'"content":[],',
    b"    ", b"\t", b'{"type":"text","text":"x"}', b'{"type":"tool_result"}',
)  # fmt: skip

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, 2**64, -(2**70), 1e308, 0.5, "", " ", "x", "\ud83d", "\udc00x", "\u2028",
    "\x00", "main", "null", "claude-opus-4-8", [], [[]], [None], ["x"], [{}], {}, {"": ""}, {"type": "text"},
    {"type": "text", "text": 5}, {"type": "tool_use"}, {"role": "tool"}, {"cache_control": {}}, "a" * 3000,
)  # fmt: skip

Mutation = Callable[[bytes, bytes, random.Random], bytes]


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Change an input one to six times; `other` is where splices come from."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        data = chance.choice(MUTATIONS)(data, other, chance)[:LONGEST]
    return data


def _range(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + int(chance.expovariate(1 / 40)))


def _flip(data: bytes, _: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]


def _cut(data: bytes, _: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))]


def _delete(data: bytes, _: bytes, chance: random.Random) -> bytes:
    start, end = _range(data, chance)
    return data[:start] + data[end:]


def _duplicate(data: bytes, _: bytes, chance: random.Random) -> bytes:
    start, end = _range(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 2, 9)) + data[end:]


def _insert(data: bytes, _: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + chance.choice(TOKENS) + data[at:]


def _replace(data: bytes, _: bytes, chance: random.Random) -> bytes:
    start, end = _range(data, chance)
    return data[:start] + chance.choice(TOKENS) + data[end:]


def _splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randint(0, len(data))] + other[chance.randint(0, len(other)) :]


def _lines(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Move, repeat, drop, join or borrow whole lines."""
    lines = data.split(b"\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines[at], lines[to] = lines[to], lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            del lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case 4:
            lines.insert(to, chance.choice(other.split(b"\n")))
        case _:
            lines[at:] = lines[at:][::-1]
    return b"\n".join(lines)


def _retype(data: bytes, _: bytes, chance: random.Random) -> bytes:
    """Replace one value of one line by a value of any type."""
    return _with_json(data, chance, lambda box, key: box.__setitem__(key, chance.choice(VALUES)))


def _drop(data: bytes, _: bytes, chance: random.Random) -> bytes:
    return _with_json(data, chance, lambda box, key: box.__delitem__(key))


def _borrow(data: bytes, _: bytes, chance: random.Random) -> bytes:
    """Replace one value by that of another place in the same line."""

    def swap(box: Any, key: Any) -> None:
        places = _places(box)
        if places:
            inner, name = chance.choice(places)
            box[key] = inner[name]

    return _with_json(data, chance, swap)


def _with_json(data: bytes, chance: random.Random, change: Callable[[Any, Any], object]) -> bytes:
    lines = data.split(b"\n")
    at = chance.randrange(len(lines))
    for start, end in ((at, at + 1), (0, len(lines))):
        try:
            value = json.loads(b"\n".join(lines[start:end]))
        except (ValueError, RecursionError):
            continue
        places = _places(value)
        if not places:
            continue
        change(*chance.choice(places))
        lines[start:end] = [json.dumps(value, ensure_ascii=chance.random() < 0.5).encode("utf-8", "backslashreplace")]
        break
    return b"\n".join(lines)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """List every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        box = waiting.pop()
        keys = list(box) if isinstance(box, dict) else range(len(box)) if isinstance(box, list) else ()
        for key in keys:
            found.append((box, key))
            waiting.append(box[key])
    return found


MUTATIONS: tuple[Mutation, ...] = (
    _flip, _cut, _delete, _duplicate, _insert, _replace, _splice, _lines, _lines, _retype, _retype, _retype, _drop,
    _borrow,
)  # fmt: skip
