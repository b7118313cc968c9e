"""Segments, prompts, codes, errors, and the schemas of results."""

from __future__ import annotations

import pytest

from lore.errors import LoreError, Where
from lore.model.codes import CODES, SEVERITY
from lore.model.events import KINDS, encode
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from model.making import parsed


def test_segments_are_equal_by_content_not_by_path_or_breakpoint():
    one = Segment("messages", "messages[0].content[0]", b"x", breakpoint=b"{}")
    assert one == Segment("messages", "messages[7].content[0]", b"x")
    assert hash(one) == hash(Segment("messages", "messages[7].content[0]", b"x"))


@pytest.mark.parametrize(
    "other",
    [
        Segment("system", "p", b"x"),
        Segment("messages", "p", b"y"),
        Segment("messages", "p", b"x", kind="envelope"),
        "x",
    ],
)
def test_segments_differ_by_section_kind_and_bytes(other):
    assert Segment("messages", "p", b"x") != other


def test_a_segment_shows_its_path_and_bytes():
    assert repr(Segment("messages", "messages[0]", b"x")) == "Segment(messages[0] b'x')"


def test_a_position_counts_over_head_messages_and_tail():
    parts = [Segment("system", "s", b"1"), Segment("messages", "m", b"2"), Segment("messages", "t", b"3")]
    prompt = Prompt("anthropic", "wire", head=(parts[0],), messages=Vector([parts[1]]), tail=(parts[2],))
    assert [prompt.at(n) for n in range(4)] == [*parts, None]
    assert (list(prompt), len(prompt), prompt.stable) == (parts, 3, 2)


def test_an_empty_prompt_has_nothing():
    assert len(parsed({"messages": []})) == 0


def test_every_code_has_a_name_of_its_own_a_kind_and_a_fix():
    assert len({row.name for row in CODES.values()}) == len(CODES)
    for row in CODES.values():
        assert row.kind in SEVERITY
        assert row.fix.endswith(".")


@pytest.mark.parametrize(("code", "severity"), [("LORE100", "error"), ("LORE106", "warning"), ("LORE125", "note")])
def test_severity_follows_from_the_kind(code, severity):
    assert SEVERITY[CODES[code].kind] == severity


def test_an_encoded_event_leaves_out_what_is_default():
    assert encode(KINDS["turn_started"](turn=2)) == b'{"kind":"turn_started","turn":2}'


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (Where("f", 3, 9), "f:3, byte 9"),
        (Where("f"), "f"),
        (Where(None, 2), "<input>:2"),
        (Where("f", None, 0), "f, byte 0"),
    ],
)
def test_a_place_is_shown_as_file_line_and_byte(where, shown):
    assert str(where) == shown


def test_an_error_carries_its_hint_and_exit_code():
    error = LoreError("no", hint="do", where=Where("f"))
    assert (str(error), error.hint, error.exit_code) == ("no", "do", 2)
