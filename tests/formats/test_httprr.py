"""Traces of httprr: each call as it was sent, after a line with its lengths."""

import json

from formats.calls import ASKED, SAID, USAGE
from formats.captures import codes, exchanges
from helpers.each import each
from helpers.recognising import recognise
from lore.formats.captures.httprr import Httprr
from lore.testing import ReaderContract

START = b"httprr trace v1\n"


def trace(*answers, path="/v1/messages"):
    data = START
    for answer in answers:
        body = json.dumps(ASKED).encode()
        request = f"POST https://api.anthropic.com{path} HTTP/1.1\r\nX-Api-Key: k\r\n\r\n".encode() + body
        data += b"%d %d\n%b%b" % (len(request), len(answer), request, answer)
    return data


PLAIN = b"HTTP/2.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(SAID).encode()
PARTS = (
    b"%x\r\n%b\r\n" % (len(part), part) for part in (json.dumps(SAID).encode()[:40], json.dumps(SAID).encode()[40:])
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(PARTS) + b"0\r\n\r\n"


class TestContract(ReaderContract):
    reader = Httprr
    samples = (trace(PLAIN, CHUNKED), trace(PLAIN)[:-9], START)


@each([PLAIN, CHUNKED])
def test_call_has_its_body_and_usage(answer):
    data = trace(answer, PLAIN)
    assert recognise(data) is Httprr
    first, second = exchanges(Httprr, data)
    assert json.loads(first.body) == ASKED
    assert first.usage.output_tokens == second.usage.output_tokens == USAGE["output_tokens"]


def test_other_calls_and_cut_traces_are_told_apart():
    assert exchanges(Httprr, trace(PLAIN, path="/v1/embeddings")) == []
    assert codes(Httprr, trace(PLAIN, PLAIN)[:-400]) == ["LORE202"]
    assert codes(Httprr, trace(PLAIN) + b"\n" + trace(PLAIN)[len(START) :] + b"x") == ["LORE201"]
