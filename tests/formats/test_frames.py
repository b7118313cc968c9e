"""Binary streams of Bedrock."""

import base64
import zlib

from formats.calls import exchange, judged
from formats.streaming import wrapped
from helpers.each import each
from helpers.frames import frame
from lore.formats.contents import Content, framed_events, is_framed
from lore.model.codes import Problem
from lore.model.events import Usage
from model.making import dumps

URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-x/converse-stream"
USAGE = {"inputTokens": 3, "outputTokens": 5, "cacheReadInputTokens": 20, "cacheWriteInputTokens": 7}


def base64_content(data):
    return Content(dumps(base64.b64encode(data).decode()), "base64")


CONVERSED = frame({"role": "assistant"}, "messageStart") + frame({"usage": USAGE}, "metadata")


def test_converse_stream_has_its_usage():
    call = exchange(url=URL, response=base64_content(CONVERSED))
    assert call.usage == Usage(uncached_tokens=3, read_tokens=20, write_tokens=7, output_tokens=5)


def test_invoke_stream_holds_events_of_the_model():
    """Anthropic's events are base64 in such a stream, and were skipped because they are not text."""
    start = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3, "output_tokens": 1}}}
    end = {"type": "message_delta", "usage": {"output_tokens": 9}}
    call = exchange(url=URL, response=base64_content(b"".join(map(wrapped, (start, end)))))
    assert (call.response_id, call.usage) == ("msg_1", Usage(uncached_tokens=3, output_tokens=9))


@each(range(0, len(CONVERSED), 7))
def test_cut_frames_give_whole_events(end):
    assert len(list(framed_events(CONVERSED[:end]))) <= 1


def test_frame_with_false_length_ends_the_stream():
    prelude = (8).to_bytes(4, "big") + (900).to_bytes(4, "big")
    data = prelude + zlib.crc32(prelude).to_bytes(4, "big") + b"x" * 50
    assert is_framed(data)
    assert list(framed_events(data)) == []


def test_other_bytes_are_still_no_text():
    values = judged(url=URL, response=base64_content(b"\x00\xff\xfe" * 20))
    assert [value.code for value in values if isinstance(value, Problem)] == ["LORE224"]
