"""Files of any name, and turns of them."""

from __future__ import annotations

import os
import sys

import pytest

from hostile.making import GOOD, assert_refused

NAMES = ("a#1", "a#b:2", "with space.jsonl", "#", "#5", "caf\u00e9.jsonl", "a\nb.jsonl", "-x.jsonl",
         "[red]x.jsonl",          "%s{0}.jsonl", "\u202e.jsonl", "'\"`$(id)`.jsonl")  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="such names cannot exist there")
@pytest.mark.parametrize("name", NAMES)
def test_turn_of_file_with_any_name_is_found(lore, desk, name):
    (desk / name).write_bytes(GOOD)
    assert lore("assemble", "--", f"{name}#1").code == 0
    assert_refused(lore("assemble", "--", f"{name}#2"))


@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text exist on Linux")
def test_file_name_that_is_not_text_is_judged(lore, desk):
    name = os.fsdecode(b"bad\xff.jsonl")
    (desk / name).write_bytes(GOOD)
    ended = lore("check", ".", "--json")
    assert ended.code == 0
    assert_refused(lore("assemble", f"{name}#9"))
