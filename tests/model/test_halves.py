"""Text with halves of characters, which msgspec refuses: sliced by hiding them, as by a look at each byte."""

from __future__ import annotations

import json
from random import Random

import pytest

from helpers.work import calls
from lore.model import jsonslice
from lore.model.canonical import decode

PIECES = (
    r"\ud83d", r"\uD83D", r"\ude00", r"\ud83d\ude00", r"\uD83d\uDE00", r"\\ud83d", r"\\\\", r"\ue83d", r"\uE001",
    r"\uf8ff", r"\u1000", r"\u2028", r"\u005c", "a", "é", "\ue83d", "\uf000", "ud8", r"\"", " ", "d83d",
)  # fmt: skip


def text(chance: Random) -> str:
    return '"' + "".join(chance.choice(PIECES) for _ in range(chance.randrange(5))) + '"'


@pytest.mark.parametrize("seed", range(60))
def test_members_and_elements_are_those_that_a_look_at_each_byte_finds(seed):
    chance = Random(seed)
    for _ in range(40):
        values = [chance.choice([text(chance), f"[{text(chance)}]", f"{{{text(chance)}: 1}}", "1"]) for _ in range(4)]
        table = ("{" + ", ".join(f"{text(chance)}: {value}" for value in values) + "}").encode("utf-8")
        array = ("[" + " , ".join(values) + "]").encode("utf-8")
        assert jsonslice.sliced(table) == {m.key: table[m.value : m.end] for m in jsonslice.members(table)}
        assert list(jsonslice.sliced(table)) == list(json.loads(table))
        assert jsonslice.array(array) == [array[start:end] for start, end in jsonslice.element_ranges(array)]
        assert decode(table) == json.loads(table)


def test_emoji_that_are_escaped_are_no_halves():
    """12 MB of them cost 63 times a parser: they were taken for halves and looked for ones at each step."""
    emoji = b'"' + rb"\ud83d\ude00" * 5_000 + b'"'
    assert jsonslice.sliced(emoji) == {}
    assert calls(lambda: jsonslice.sliced(emoji)) < 10
    assert calls(lambda: decode(emoji)) < 10


@pytest.mark.parametrize("text", [b"{", b'{"a":}', b"[1,]", b'"\\x"', b"{}{}", b"nul", b'{"a":"\\uzzzz"}'])
def test_what_is_no_json_for_another_reason_is_not_looked_at_twice(text, monkeypatch):
    monkeypatch.setattr(jsonslice, "validated", pytest.fail)
    assert jsonslice.table(text) is None
    assert not jsonslice.is_json(text)
