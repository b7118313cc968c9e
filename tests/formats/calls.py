"""Small recorded calls, for the tests of readers of captures."""

import json

from lore.formats.contents import Content, content_of
from lore.formats.http import Http, exchanges_of
from lore.model.codes import Problem
from model.making import dumps

URL = "https://api.anthropic.com/v1/messages"
ASKED = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"input_tokens": 3, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 7, "output_tokens": 5}
SAID = {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "yes"}], "usage": USAGE}


def text(value) -> Content:
    """A content kept as text."""
    return content_of(dumps(value if isinstance(value, str) else json.dumps(value)))


def judged(**fields):
    """What one call gives: exchanges and problems."""
    return exchanges_of(Http(**{"url": URL, "method": "POST", "request": text(ASKED), **fields}))


def exchange(**fields):
    """The one exchange of a call."""
    values = judged(**fields)
    assert not [value for value in values if isinstance(value, Problem)]
    assert len(values) == 1
    return values[0]


def pair(body=ASKED, response=SAID, **more):
    """A request and its response as most recorders keep them."""
    request = {"method": "POST", "url": URL, "headers": {}, "body": body}
    return {"request": request, "response": {"status": 200, "headers": {}, "body": response}, **more}


def har(*bodies, response=SAID):
    """A HAR of these bodies."""
    entries = [
        {
            "startedDateTime": f"2026-03-02T09:00:0{number}Z",
            "request": {"method": "POST", "url": URL, "headers": [], "postData": {"text": json.dumps(body)}},
            "response": {
                "status": 200,
                "headers": [],
                "content": {"mimeType": "application/json", "text": json.dumps(response)},
            },
            "timings": {"send": 1, "wait": 499, "receive": 9},
        }
        for number, body in enumerate(bodies)
    ]
    for entry in entries:
        entry["request"]["postData"]["mimeType"] = "application/json"
    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x"}, "entries": entries}}, indent=1).encode()
