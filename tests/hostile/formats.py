"""One small session of two turns in every format, with a place for an odd value and for an odd line."""

LORE = rb"""
{"kind":"session_started","session_id":"s","model":"claude-x","params":{"max_tokens":9}}
{"kind":"append","item":{"type":"user_message","uuid":"u1","text":"hi"}}
{"kind":"turn_started","turn":1}
{"kind":"append","item":{"type":"tool_call","uuid":"t1","call_id":"c1","name":"n","input":{"odd":%s},"output":"out"}}
{"kind":"turn_started","turn":2}
"""
CLAUDE = rb"""
{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}
{"type":"assistant","uuid":"2","parentUuid":"1","sessionId":"s","message":{"id":"m1","model":"claude-x","content":"yes"}}
{"type":"user","uuid":"3","parentUuid":"2","sessionId":"s","message":{"role":"user","content":"go on"}}
{"type":"assistant","uuid":"4","parentUuid":"3","sessionId":"s","message":{"id":"m2","model":"claude-x","content":[{"type":"tool_use","id":"c1","name":"n","input":{"odd":%s}}]}}
{"type":"user","uuid":"5","parentUuid":"4","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"out"}]}}
{"type":"assistant","uuid":"6","parentUuid":"5","sessionId":"s","message":{"id":"m3","model":"claude-x","content":"done"}}
"""  # noqa: E501
BODIES = rb"""
{"model":"claude-x","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"}]}
{"model":"claude-x","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]}
{"model":"claude-x","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"n","input":{"odd":%s}}]}]}
{"model":"claude-x","max_tokens":9,"system":"s","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"},{"role":"user","content":"more"}]}
"""  # noqa: E501
ASSEMBLED = rb"""
{"turn":1,"chain":"main","dialect":"anthropic","keep_segments":0,"keep_bytes":0,"append":[{"section":"messages","path":"messages[0]","kind":"envelope","data":"\"role\":\"user\""}],"tail_segments":0,"tail_bytes":0,"reset":null}
{"turn":2,"chain":"main","dialect":"anthropic","keep_segments":1,"keep_bytes":13,"append":[{"section":"messages","path":"messages[0].content[0]","kind":"block","data":"\"hi\""}],"tail_segments":0,"tail_bytes":0,"reset":null}
{"turn":3,"chain":"main","dialect":"anthropic","keep_segments":2,"keep_bytes":17,"append":[{"section":"messages","path":"messages[0].content[1]","kind":"block","data":"1","breakpoint":%s}],"tail_segments":0,"tail_bytes":0,"reset":null,"params":{"odd":%s}}
{"turn":4,"chain":"main","dialect":"anthropic","keep_segments":0,"keep_bytes":0,"append":[{"section":"messages","path":"messages[0]","kind":"envelope","data":"\"role\":\"user\""},{"section":"messages","path":"messages[0].content[0]","kind":"block","data":"2"}],"tail_segments":1,"tail_bytes":1,"reset":"rewind"}
"""  # noqa: E501
_ASKED = rb'{"request":{"method":"POST","url":"https://api.anthropic.com/v1/messages","headers":{},"body":'
PROXY = b"".join(b"\n" + _ASKED + line + b'},"response":null}' for line in BODIES.strip().split(b"\n"))
NO_SESSIONS = ("assembled",)
FORMATS = {"lore": LORE, "claude-code": CLAUDE, "bodies": BODIES, "assembled": ASSEMBLED, "proxy": PROXY}


def recording(format: str, *, value: bytes = b"1", line: bytes | None = None) -> bytes:
    """Write the session of a format, with this value in a tool's input, and this line after the first turn."""
    lines = FORMATS[format].strip().replace(b"%s", value).split(b"\n")
    if line is not None:
        lines.insert(3, line)
    return b"".join(one + b"\n" for one in lines)
