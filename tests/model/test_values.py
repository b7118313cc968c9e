"""Segments, prompts, codes, errors, and the schemas of results."""

from __future__ import annotations

import pytest

from lore.errors import Where
from lore.model.events import KINDS, encode
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector


def test_segments_are_equal_by_content_not_by_path_or_breakpoint():
    one = Segment("messages", "messages[0].content[0]", b"x", breakpoint=b"{}")
    assert one == Segment("messages", "messages[7].content[0]", b"x")
    assert hash(one) == hash(Segment("messages", "messages[7].content[0]", b"x"))


def test_a_position_counts_over_head_messages_and_tail():
    parts = [Segment("system", "s", b"1"), Segment("messages", "m", b"2"), Segment("messages", "t", b"3")]
    prompt = Prompt("anthropic", "wire", head=(parts[0],), messages=Vector([parts[1]]), tail=(parts[2],))
    assert [prompt.segment_at(n) for n in range(4)] == [*parts, None]
    assert (list(prompt), len(prompt), prompt.stable) == (parts, 3, 2)


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
