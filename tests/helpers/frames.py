"""Binary streams as AWS frames them."""

import json
import zlib


def frame(event: object, kind: str = "chunk") -> bytes:
    """One event: lengths, a checksum of them, headers, the payload, a checksum of all."""
    payload, headers = json.dumps(event).encode(), b""
    for name, text in ((":message-type", "event"), (":event-type", kind), (":content-type", "application/json")):
        headers += bytes([len(name)]) + name.encode() + b"\x07" + len(text).to_bytes(2, "big") + text.encode()
    begin = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
    begin += zlib.crc32(begin).to_bytes(4, "big")
    data = begin + headers + payload
    return data + zlib.crc32(data).to_bytes(4, "big")
