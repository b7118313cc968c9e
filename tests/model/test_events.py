"""Events as lines of a log, and places in files."""

import pytest
from msgspec import Raw

from lore.errors import Where
from lore.formats.lore_log import event_of
from lore.model.events import KINDS, Append, SessionStarted, encode
from lore.model.items import ToolCall


def test_encoded_event_omits_defaults():
    assert encode(KINDS["turn_started"](turn=2)) == b'{"kind":"turn_started","turn":2}'


def test_lone_surrogate_in_name_becomes_visible_escape():
    """A session id or response id with a lone surrogate ended a conversion with an internal error."""
    started = SessionStarted(session_id="s\ud83d", model="m")
    assert event_of(encode(started)) == SessionStarted(session_id="s\\ud83d", model="m")
    called = ToolCall("t", "c", "ls", Raw(b'{"a":"\\ud83d"}'), response_id="r\ud83d")
    written = encode(Append(item=called))
    assert b'"response_id":"r\\\\ud83d"' in written
    assert b'{"a":"\\ud83d"}' in written, "content keeps its spelling"


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (Where("f", 3, 9), "f:3, byte 9"), (Where("f"), "f"), (Where(None, 2), "<input>:2"),
        (Where("f", None, 0), "f, byte 0"),
    ],
)  # fmt: skip
def test_place_is_shown_as_file_line_and_byte(where, shown):
    assert str(where) == shown
