"""Recordings that are damaged, or only unusual."""

from __future__ import annotations

import json

import pytest

from helpers.strategies import write
from hostile.making import BODY, GOOD, HEADER, JUDGING, READING, USER

DAMAGED = {
    "truncated in a string": GOOD + b'{"kind":"append","item":{"type":"user_message","uuid":"u2","te',
    "truncated in an escape": GOOD + b'{"kind":"cache_reset","reason":"\\u00',
    "truncated in a character": GOOD + b'{"kind":"cache_reset","reason":"\xe2\x80',
    "binary in the middle": GOOD + bytes(range(256)) + b"\n" + USER % 2,
    "NUL in the middle": GOOD + b"\x00\x00\n" + USER % 2,
    "two objects on a line": GOOD + (USER % 2).strip() + USER % 3,
    "objects and rubbish on a line": GOOD + (USER % 2).strip() + b" and more\n",
    "NaN": GOOD + b'{"kind":"turn_started","turn":NaN}\n{"kind":"opaque","record":[Infinity,-Infinity]}\n',
    "not UTF-8": GOOD + b'{"kind":"cache_reset","reason":"\xff\xfe"}\n',
    "bare control characters": GOOD + b'{"kind":"cache_reset","reason":"\x01\x1b[31m"}\n',
    "surrogates in UTF-8": GOOD + b'{"kind":"cache_reset","reason":"\xed\xa0\xbd"}\n',
}
SOUND = {
    "BOM": b"\xef\xbb\xbf" + GOOD,
    "CRLF": GOOD.replace(b"\n", b"\r\n"),
    "no final newline": GOOD.rstrip(),
    "blank lines": GOOD.replace(b"\n", b"\n\n \n"),
    "U+2028 inside": HEADER
    + '{"kind":"append","item":{"type":"user_message","uuid":"u","text":"a\u2028b\u0085"}}'.encode(),
    "lone surrogates": HEADER + b'{"kind":"append","item":{"type":"user_message","uuid":"u","text":"\\ud83d"}}\n',
    "2 MB line": HEADER
    + write({"kind": "append", "item": {"type": "user_message", "uuid": "u", "text": "x" * 2_000_000}}),
    "900 deep": HEADER + b'{"kind":"opaque","record":' + b"[" * 900 + b"]" * 900 + b"}\n",
    "integers past 2^64": HEADER + b'{"kind":"opaque","record":[18446744073709551616,-99999999999999999999999]}\n',
    "an integer of 5000 digits": HEADER + b'{"kind":"opaque","record":' + b"9" * 4000 + b"}\n",
    "duplicate keys": HEADER + b'{"kind":"cache_reset","reason":"a","reason":"b"}\n',
    "floats past their range": HEADER + b'{"kind":"opaque","record":[1e999,-1e999,1e-999]}\n',
    "an unknown kind": GOOD + b'{"kind":"brand_new","x":1}\n',
}


@pytest.mark.parametrize("name", list(DAMAGED))
def test_damage_in_a_log_is_an_error_or_a_torn_end(lore, desk, name):
    (desk / "log.jsonl").write_bytes(DAMAGED[name])
    checked = json.loads(lore("check", "log.jsonl", "--json").out)
    assert checked["summary"]["problems"] >= 1
    assert all(one["line"] and one["byte"] is not None for one in checked["problems"])


@pytest.mark.parametrize("command", READING, ids=" ".join)
@pytest.mark.parametrize("name", list(DAMAGED))
def test_damage_in_a_log_stops_no_command(lore, desk, command, name):
    (desk / "log.jsonl").write_bytes(DAMAGED[name] + b"\n" + b'{"kind":"turn_started","turn":2}\n')
    assert lore(*command, "log.jsonl").code in (0, 1)


@pytest.mark.parametrize("command", [*JUDGING, ("fold",), ("check",)], ids=" ".join)
@pytest.mark.parametrize("name", list(SOUND))
def test_what_is_only_unusual_stops_no_command(lore, desk, command, name):
    (desk / "log.jsonl").write_bytes(SOUND[name])
    assert lore(*command, "log.jsonl").code == 0


@pytest.mark.parametrize("depth", [300, 900, 2000])
def test_bodies_that_differ_in_something_deeply_nested_are_compared(lore, desk, depth):
    for name, spelled in (("a", b"1.0"), ("b", b"1.00"), ("c", b"2")):
        nested = b'{"a":' * depth + spelled + b"}" * depth
        tool = b'"tools":[{"name":"n","input_schema":%s}],' % nested
        (desk / name).write_bytes(BODY.replace(b'"system"', tool + b'"system"'))
    assert lore("diff-prefix", "a", "b", "--json", "--no-tokens").code == 0
    assert lore("diff-prefix", "a", "c", "--json", "--no-tokens").code == 0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8, 0.99])
def test_a_body_that_is_truncated_is_judged_unreadable(lore, desk, share):
    (desk / "body.json").write_bytes(BODY[: round(len(BODY) * share)])
    ended = lore("check", "body.json", "--json")
    assert ended.code in (1, 2)
