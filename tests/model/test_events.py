"""Events as lines of a log."""

from __future__ import annotations

from msgspec import Raw

from lore.formats.lore_log import event_of
from lore.model.events import Append, SessionStarted, encode
from lore.model.items import ToolCall


def test_lone_surrogate_in_a_name_becomes_a_visible_escape():
    """A session id or a response's id that held one ended a conversion as a bug in lore."""
    started = SessionStarted(session_id="s\ud83d", model="m")
    assert event_of(encode(started)) == SessionStarted(session_id="s\\ud83d", model="m")
    called = ToolCall("t", "c", "ls", Raw(b'{"a":"\\ud83d"}'), response_id="r\ud83d")
    written = encode(Append(item=called))
    assert b'"response_id":"r\\\\ud83d"' in written
    assert b'{"a":"\\ud83d"}' in written, "content keeps its spelling"
