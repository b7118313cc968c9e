"""The fixtures of captures, and what a reader makes of bytes."""

import json
from pathlib import Path

from lore.model.codes import Problem
from lore.model.turn import Exchange
from lore.testing import everything

CAPTURES = Path(__file__).resolve().parents[2] / "fixtures" / "captures"


def fixture(name: str) -> bytes:
    """The bytes of a capture."""
    return (CAPTURES / name).read_bytes()


def exchanges(reader, data: bytes) -> list[Exchange]:
    """The exchanges that a reader finds."""
    return [item.value for item in everything(reader(), data) if isinstance(item.value, Exchange)]


def codes(reader, data: bytes) -> list[str]:
    """The codes of the problems that a reader finds."""
    return [item.value.code for item in everything(reader(), data) if isinstance(item.value, Problem)]


def pack(kind: str, *members: tuple[dict, bytes]) -> bytes:
    """A pack of these members."""
    packed = b""
    for more, data in members:
        head = {"lore_pack": kind, "name": "x", "size": len(data), **more}
        packed += json.dumps(head, separators=(",", ":")).encode() + b"\n" + data + b"\n"
    return packed
