"""Captures that were made to hurt: a problem, never a crash, never more than 200 MB."""

import base64
import json

import pytest

from formats.calls import ASKED, SAID, har, pair
from helpers.matrix import some
from hostile import child
from hostile.wrong import places, replaced

WRONG = (None, True, 0, -1, 1e300, "", "x", [], [[]], {}, {"a": 1}, [None], "\ud83d", [{"name": [], "value": {}}])
PACKED = pair(
    {"kind": "binary", "data": base64.b64encode(json.dumps(ASKED).encode()).decode()},
    {"kind": "sse", "chunks": ["data: {}"]},
)
DOCUMENTS = {
    "har": json.loads(har(ASKED)),
    "claude-tap": {"packets": [pair()]},
    "cassette": {"entries": [PACKED, pair()]},
    "vcr": {"interactions": [pair({"string": json.dumps(ASKED)}, {"base64_string": ""})]},
    "proxy-list": [pair(), pair(response={}) | {"response": {"events": [{"data": SAID}]}}],
}


@pytest.mark.parametrize("format", DOCUMENTS)
def test_wrong_type_anywhere_is_no_crash(format):
    from lore.formats.registry import READERS
    from lore.testing import everything

    document = DOCUMENTS[format]
    for path in ((), *places(document)):
        for new in WRONG:
            data = json.dumps(replaced(document, path, new)).encode()
            for read in everything(READERS[format](), data):
                assert read.line >= 1


def big_text():
    return b'"' + "\U0001f600".encode() + b"a" * 20_000_000 + b'"'


EMOJI = "\U0001f600".encode()
MESSAGE = b'{"role":"user","content":"x"}'
POSTED = b'{"log":{"entries":[{"request":{"method":"POST","url":"https://a.test/v1/messages",'
SENT = b'{"request":{"model":"m","max_tokens":9,"messages":[' + MESSAGE + b'],"usage":{}'
TEXT = b'{\\"model\\":\\"m\\",\\"messages\\":['  # inside a JSON string
SAMPLES = b'{"version":2,"status":"success","eval":{},"samples":['


def times(one, number, begin, end):
    """Many of one thing between a beginning and an end."""
    return begin + b",".join([one] * number) + end


HUGE = {
    "an emoji before 20 MB": lambda: POSTED + b'"postData":{"text":' + big_text() + b"}}}]}}",
    "60 MB of one interaction": lambda: b"interactions:\n- request:\n    body: '" + b"x\n\n " * 15_000_000 + b"'\n",
    "many small values": lambda: b"interactions:\n- [" + b"{}," * 5_000_000 + b"]\n",
    "brackets": lambda: b'{"entries":[{"request":' + b"[" * 40_000_000,
    "one line of many values": lambda: times(b'{"b":1}', 7_000_000, b'{"a":[', b"]}"),
    "a text of 16 MB with an emoji": lambda: (
        b'{"request":"' + TEXT + b'{\\"role\\":\\"user\\",\\"content\\":\\"' + EMOJI + b"a" * 16_000_000 + b'\\"}]}"}\n'
    ),
    "45,000 messages": lambda: times(MESSAGE, 45_000, b'{"request":{"model":"m","messages":[', b']},"usage":{}}\n'),
    "two million messages": lambda: times(b"{}", 2_000_000, POSTED + b'"postData":{"text":"' + TEXT, b']}"}}}]}}'),
    "a million headers": lambda: times(b'{"name":"a"}', 1_000_000, POSTED + b'"headers":[', b"]}}]}}"),
    "a million attributes": lambda: times(
        b'"gen_ai.a":1', 1_000_000, b'{"name":"chat","attributes":{"gen_ai.request.model":"m",', b"}}\n"
    ),
    "an event of 15 MB": lambda: SENT + b'},"response":"data: {\\"usage\\":\\"' + b"a" * 15_000_000 + b'\\"}"}\n',
    "a scalar with an emoji": lambda: b'interactions:\n- request:\n    body: "' + EMOJI + b"a" * 10_000_000 + b'"\n',
    "a million events": lambda: times(b'{"event":1}', 1_300_000, SAMPLES + b'{"events":[', b"]}]}"),
    "a sample of 39 MB": lambda: SAMPLES + b'{"events":[],"a":"' + b"x" * 39_000_000 + b'"}]}',
}


ALWAYS = [  # of each reader one
    "an emoji before 20 MB", "60 MB of one interaction", "one line of many values", "45,000 messages",
    "a million attributes", "a sample of 39 MB",
]  # fmt: skip


@pytest.mark.parametrize("what", some(dict.fromkeys([*ALWAYS, *HUGE]), len(ALWAYS)))
def test_huge_capture_takes_at_most_200_mb(what, desk):
    (desk / "huge").write_bytes(HUGE[what]())
    ended = child.lore("check", "huge")
    assert ended.code in (0, 1, 2, 3), ended
    assert ended.peak < (90 if what == "45,000 messages" else 200) * child.MEGABYTE  # 200 for 135,000
