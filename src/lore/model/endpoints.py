"""What an endpoint says besides its host: the model, where a path names it, and which cache it stands for.

In: host and path, as readers found them. Rules: Gemini and Vertex (`/models/X:generateContent`), Bedrock
(`/model/X/converse`) and Azure (`/deployments/X/…`) name the model in the path and not in the body; how an answer
is delivered (whole or as a stream) is another path and the same cache. Sources: the providers' API references.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_MODEL = re.compile(
    r"/model/(?P<bedrock>.+)/(?:converse|invoke)(?=-|$)|/models/(?P<gemini>[^/:]+)(?=:\w+$)"
    r"|/deployments/(?P<azure>[^/:]+)(?=/)"
)
_DELIVERY = ((":streamGenerateContent", ":generateContent"), (":streamRawPredict", ":rawPredict"),
             ("/converse-stream", "/converse"), ("/invoke-with-response-stream", "/invoke"))  # fmt: skip


def model_in(endpoint: str) -> str | None:
    """Return the model that a path names; of an ARN its last part. None where it names none."""
    match = _MODEL.search(endpoint)
    return None if match is None else unquote(match[match.lastgroup or 0]).rpartition("/")[2] or None


def place_in(endpoint: str) -> str:
    """Return an endpoint without its model and without how it delivers: what decides which cache is asked."""
    match = _MODEL.search(endpoint)
    if match is not None:
        start, end = match.span(match.lastgroup or 0)
        endpoint = endpoint[:start] + endpoint[end:]
    for stream, whole in _DELIVERY:
        if endpoint.endswith(stream):
            return endpoint.removesuffix(stream) + whole
    return endpoint
