"""Files made to be expensive: to recognise, to parse, or to read line by line."""

from collections.abc import Callable

import yaml

from lore.formats.registry import reader_of

BUDGET = 20  # times the parser's work
_HAR = b'{"log":{"version":"1.2","creator":{},"entries":['
_CALL = b'{"request":{"url":"https://api.anthropic.com/v1/messages","postData":{"text":"{}"}},"response":{},"x":'
_SAMPLES = b'{"version":2,"status":"success","eval":{},"samples":['
_BODY = b'{"model":"claude-x","max_tokens":5,"messages":[{"role":"user","content":'
_TEXT = b'{"kind":"append","item":{"type":"user_message","uuid":"u","text":"x"},'
_LOG = b'{"kind":"session_started","session_id":"s","model":"claude-x"}\n{"kind":"turn_started","turn":1}\n'
_CLAUDE = (
    b'{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}\n'
    b'{"type":"user","uuid":"2","parentUuid":"1","sessionId":"s","message":{"role":"user","content":[%s]}}\n'
)
_RECORD = b'{"request":' + _BODY + b'"hi"}]},"response":['
_PROXY = b'{"request":{"url":"https://api.anthropic.com/v1/messages","headers":{},"body":{}},"response":null}\n'
_SPAN = b'{"name":"chat","attributes":{"gen_ai.operation.name":"chat","gen_ai.input.messages":"[]"}}\n'
# lines too short for a record: each costs as much as a record
SHORT = {
    "{}": b"{}\n",
    "{": b"{\n",
    "a number": b"1\n",
    "an empty list": b"[]\n",
    "an empty text": b'""\n',
    "a small object": b'{"a":1}\n',
    "two objects": b"{}{}\n",
    "half a character": b'{"a":"\\ud83d"}\n',
    "NUL": b"\0\n",
    "no UTF-8": b"\xff\n",
}
_YAML = b"interactions:\n- request:\n    method: POST\n    uri: https://api.anthropic.com/v1/messages\n    headers:\n"


def files(size: int) -> dict[str, bytes]:
    """Return files of about `size` bytes, by name."""
    half = size // 2
    keys = b"".join(b"      k%d: [v]\n" % number for number in range(size // 16))
    short = {name: _LOG + line * (size // len(line)) for name, line in SHORT.items()}
    return {
        "brackets in HAR": _HAR + b"[" * half + b"]" * half + b"]}}",
        "brackets without an end in HAR": _HAR + b"[" * size,
        "brackets before the list of HAR": b'{"log":{"x":"entries","c":'
        + b"[" * half
        + b"]" * half
        + b',"entries":[]}}',
        "closing brackets in HAR": _HAR + b"}" * size,
        "objects in objects in HAR": _HAR + b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6) + b"]}}",
        "a member without an end in HAR": _HAR + _CALL + b'{"a":1,' + b'"b":[1,2],' * (size // 10),
        "a text without an end in HAR": _HAR + _CALL + b'"' + b"x" * size,
        "numbers for entries of HAR": _HAR + b"1," * half + b"1]}}",
        "brackets in a request": _BODY + b"[" * half + b"]" * half + b"}]}",
        "brackets in a log": _LOG + b'{"kind":"append","item":' + b"[" * half + b"]" * half + b"}\n",
        "empty lines in a log": _LOG + b"\n" * size,
        "spaces in a log": _LOG + b" " * size + b"\n",
        "one key again and again in a log": _LOG + b'{"kind":"append"' + b',"kind":"append"' * (size // 16) + b"}\n",
        "one key in a log that has half a character": _LOG
        + _TEXT
        + b'"x":"\\ud83d"'
        + b',"k":1' * (size // 6)
        + b"}\n",
        "nothing for entries of HAR": _HAR + b"{}," * (size // 3) + b"{}]}}",
        "small objects for entries of HAR": _HAR + b'{"a":1},' * (size // 8) + b"{}]}}",
        "small calls for entries of HAR": _HAR
        + b'{"request":{"url":"/v1/messages"},"response":{}},' * (size // 49)
        + b"{}]}}",
        "texts for entries of HAR": _HAR + b'"",' * (size // 3) + b'""]}}',
        "nothing for samples of Inspect": _SAMPLES + b"{}," * (size // 3) + b"{}]}",
        "levels in a log": _LOG
        + b'{"kind":"append","item":'
        + b'{"a":' * (size // 6)
        + b"1"
        + b"}" * (size // 6)
        + b"}\n",
        "half characters in a log": _LOG + _TEXT + b'"x":"' + b"\\ud83d" * (size // 6) + b'"}\n',
        "escaped emoji in a request": _BODY + b'"' + b"\\ud83d\\ude00" * (size // 12) + b'"}]}',
        "half a character in a list of a request": _BODY + b'["\\ud83d"' + b',{"a":[]}' * (size // 9) + b"]}]}",
        "a key of half a character in a request": _BODY + b'{"\\ud83d":[' + b'{"a":[]},' * (size // 9) + b"1]}}]}",
        "empty lists in a log": _LOG + _TEXT + b'"x":[' + b"[]," * (size // 3) + b"[]]}\n",
        "nests of three in a nest in a log": _LOG
        + _TEXT
        + b'"x":'
        + b"[" * 900
        + b"[[[]]]," * (size // 7)
        + b"1"
        + b"]" * 900
        + b"}\n",
        "numbers for blocks in Claude Code": _CLAUDE % (b"1," * half + b"1"),
        "lists for blocks in Claude Code": _CLAUDE % (b"[]," * (size // 3) + b"[]"),
        "objects for events of a response": _BODY[:-11] + b"[]}\n" + _RECORD + b"{}," * (size // 3) + b"{}]}\n",
        "requests without a body in a log of a proxy": _PROXY + b'{"request":{},"response":{}}\n' * (size // 29),
        "spans without a call": _SPAN + b'{"attributes":{}}\n' * (size // 18),
        "malformed events in a log": _LOG + b'{"kind":"append"}\n' * (size // 18),
        "lines of blanks in a log": _LOG + b" \r\n" * (size // 3),
        "a body of braces, line by line": b"{\n" * half,
        **{f"lines of {name} in a log": data for name, data in short.items()},
        "keys in YAML": _YAML + keys,
    }


def reading(data: bytes) -> Callable[[], object]:
    """Return a function that recognises a file and reads it."""

    def read() -> None:
        reader = reader_of(data[: 256 * 1024])
        if reader is not None:
            list(reader.read([data]))

    return read


def parsing(data: bytes) -> Callable[[], object]:
    """Return a function that parses YAML with the C library."""
    return lambda: yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
