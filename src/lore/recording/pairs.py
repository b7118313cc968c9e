"""Folders of request and response files: which response answers which request, and in what order they were sent.

Requests are ordered by the times of their files, then by name; one that names the response before it (`cc_prev_req`)
follows the request which that response answers. A response answers the request of the same name; else the one that a
link leads to; else the latest request before it that has no response. Files that were copied or checked out have nearly
equal times: these order them, but are not taken for the times of sending.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from lore.formats.folders import OPENING, PackHeader
from lore.formats.http import prompt_links, session_in
from lore.model.deferred import pattern
from lore.model.jsonslice import array, raw_members
from lore.model.limits import RECORD_BYTES
from lore.recording import filesystem

PAIRS = "body-pairs"  # kind of the pack
REQUEST, RESPONSE = ".request.json", ".response.json"
BODIES_OPENING = OPENING + PAIRS.encode() + b'"'
_SHORTEST = 0.2  # seconds: no model answers sooner
_CACHE_CONTROL = pattern(rb'"cache_control"\s*:\s*\{[^{}]*\}\s*,?|,?\s*"cache_control"\s*:\s*\{[^{}]*\}')


class PairedRequest(Struct):
    """A request's file, with the values that order it and find its response."""

    name: str  # of the file
    at: float  # when the file was written
    previous: str = ""  # id of the response that it follows: the name of that file without its ending
    conversation: tuple[str, int] = ("", 0)  # its session, and a hash of the first message
    messages: int = 0  # their number
    response: str = ""  # the file that answers it, set by `_match_responses`; empty: unknown


def order_pairs(folder: str, names: Iterable[str]) -> list[PackHeader]:
    """Return the headers of a folder's files in reading order: each request, its response; at last other responses."""
    times = dict.fromkeys(names, 0.0)  # 0: the file is gone, which is reported when it is read
    for name in names:
        with suppress(OSError):
            times[name] = filesystem.status(os.path.join(folder, name)).written or 0.0
    requests = [_read_request(folder, name, times[name]) for name in names if name.endswith(REQUEST)]
    requests.sort(key=lambda request: (request.at, request.name))
    responses = {name.removesuffix(RESPONSE): name for name in names if name.endswith(RESPONSE)}
    _match_responses(requests, responses, times)
    # copies are made faster than requests are sent
    were_sent_then = len(requests) > 1 and requests[-1].at - requests[0].at >= _SHORTEST * len(requests)
    headers: list[PackHeader] = []
    for request in _order_by_links(requests):
        at = request.at if were_sent_then else None
        headers.append(PackHeader(PAIRS, request.name, at=at, has_response=bool(request.response), is_file=True))
        if request.response:
            headers.append(PackHeader(PAIRS, request.response, is_file=True))
    answering = {request.response for request in requests}
    orphans = (name for name in responses.values() if name not in answering)
    return headers + [PackHeader(PAIRS, name, lacks_request=True, is_file=True) for name in orphans]


def read_object(path: str) -> dict[str, bytes]:
    """Return the members of a file's JSON object; none if it is unreadable, which is reported when it is read again."""
    try:
        if (filesystem.status(path).size or 0) > RECORD_BYTES:
            return {}
        with filesystem.open_file(path) as file:
            return raw_members(file.read(RECORD_BYTES)) or {}
    except (OSError, ValueError):
        return {}


def _read_request(folder: str, name: str, at: float) -> PairedRequest:
    body = read_object(os.path.join(folder, name))
    messages = array(body["messages"]) if body.get("messages", b"")[:1] == b"[" else []
    first = hash(_CACHE_CONTROL.sub(b"", messages[0]) if messages else b"")
    return PairedRequest(name, at, prompt_links(body).get("cc_prev_req", ""), (session_in(body), first), len(messages))


def _match_responses(requests: list[PairedRequest], responses: dict[str, str], times: dict[str, float]) -> None:
    """Set the `response` of requests, sorted by time: by name, link or time. `responses` has file names by stem."""
    free = dict(responses)
    conversations: dict[tuple[str, int], list[PairedRequest]] = defaultdict(list)
    for request in requests:
        request.response = free.pop(request.name.removesuffix(REQUEST), "")
        conversations[request.conversation].append(request)
    for request in requests:
        response = free.get(request.previous)
        if response is None:
            continue
        # the response is to the longest shorter request of the same conversation
        shorter = [
            other for other in conversations[request.conversation]
            if not other.response and other.messages < request.messages
        ]  # fmt: skip
        timely = [other for other in shorter if other.at <= times[response]]
        before = max(timely or shorter, key=lambda other: other.messages, default=None)
        if before is not None:
            before.response = free.pop(request.previous)
    waiting, later = list[PairedRequest](), iter(requests)
    upcoming = next(later, None)
    for name in sorted(free.values(), key=lambda name: (times[name], name)):
        while upcoming is not None and upcoming.at <= times[name]:
            waiting += [] if upcoming.response else [upcoming]
            upcoming = next(later, None)
        if waiting:
            waiting.pop().response = name


def _order_by_links(requests: list[PairedRequest]) -> list[PairedRequest]:
    """Return the requests, each after the one that it follows, else in the order given; a ring of links is cut."""
    answered = {request.response.removesuffix(RESPONSE): request for request in requests if request.response}
    ordered_requests: dict[str, PairedRequest] = {}  # by the name of the file
    for request in requests:
        chain: dict[str, PairedRequest] = {}
        at: PairedRequest | None = request
        while at is not None and at.name not in ordered_requests and at.name not in chain:
            chain[at.name] = at
            at = answered.get(at.previous)
        ordered_requests.update(reversed(chain.items()))
    return list(ordered_requests.values())
