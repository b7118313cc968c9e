"""One small session of two turns in every format, with a place for an odd value and for an odd line."""

from __future__ import annotations

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
FORMATS = {"lore": LORE, "claude-code": CLAUDE, "bodies": BODIES}


def recording(format: str, *, value: bytes = b"1", line: bytes | None = None) -> bytes:
    """Write the session of a format, with this value in a tool's input, and this line after the first turn."""
    lines = FORMATS[format].strip().replace(b"%s", value).split(b"\n")
    if line is not None:
        lines.insert(3, line)
    return b"".join(one + b"\n" for one in lines)
