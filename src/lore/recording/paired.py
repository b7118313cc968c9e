"""Which files of a folder belong together, and in what order they were sent.

In: the names in a folder, and what the files say. Out: headers of a pack, each request before its response.
Rules: requests are ordered by the time of their files, then by name; one that names the response before it
(`cc_prev_req`) stands behind the request which that response answers. A response answers the request of the
same name; else the one that a link leads to; else the last request of that time which none answers yet.
Files that were copied or checked out have the time of that, and all nearly the same: it orders them, and is
not taken for the time at which they were sent.
"""

from __future__ import annotations

import hashlib
import heapq
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from lore.formats.http import links, session_in
from lore.formats.lines import LONGEST
from lore.formats.litellm import is_completion
from lore.formats.packs import Header
from lore.formats.times import seconds
from lore.model.jsonslice import array, table

REQUEST, RESPONSE = ".request.json", ".response.json"
SHORTEST = 0.2  # seconds: no model answers sooner
_CACHE_CONTROL = re.compile(rb'"cache_control"\s*:\s*\{[^{}]*\}\s*,?|,?\s*"cache_control"\s*:\s*\{[^{}]*\}')


def pairs(names: Iterable[str]) -> list[str]:
    """Return the names of requests and responses; none where there is no request."""
    found = sorted(name for name in names if name.endswith((REQUEST, RESPONSE)))
    return found if any(name.endswith(REQUEST) for name in found) else []


def completions(folder: str, names: Iterable[str]) -> list[str]:
    """Return the names of a folder's JSON files, if the first of several is a completion."""
    found = sorted(name for name in names if name.endswith(".json"))
    if len(found) < 2:
        return []
    return found if is_completion(_table(os.path.join(folder, found[0]))) else []


def _table(path: str) -> dict[str, bytes]:
    """Return the members of a file's JSON object; none where it cannot be read (whoever reads it says why)."""
    try:
        if os.stat(path).st_size > LONGEST:
            return {}
        with open(path, "rb") as file:
            return table(file.read(LONGEST)) or {}
    except (OSError, ValueError):
        return {}


class Request(Struct):
    """What orders a request: its file, its time, the response that it follows, what it shares with others."""

    name: str
    at: float
    previous: str = ""
    session: str = ""
    first: bytes = b""
    messages: int = 0
    response: str = ""


class Filed(NamedTuple):
    """Files in the order in which they are read."""

    headers: list[Header]

    def __iter__(self) -> Iterator[Header]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.headers)

    @classmethod
    def of_completions(cls, folder: str, names: list[str]) -> Filed:
        """Order completion files by the time that each holds, then by name."""
        stamps = ((_table(os.path.join(folder, name)).get("timestamp", b"null"), name) for name in names)
        timed = [(seconds(stamp) or 0.0, name) for stamp, name in stamps]
        return cls([Header("completions", name, place=True) for _, name in sorted(timed)])

    @classmethod
    def of_pairs(cls, folder: str, names: list[str]) -> Filed:
        """Order requests, each with the response that answers it; responses without one come last."""
        times = {name: _modified(os.path.join(folder, name)) for name in names}
        requests = [_request(folder, name, times[name]) for name in names if name.endswith(REQUEST)]
        requests.sort(key=lambda one: (one.at, one.name))
        responses = {name.removesuffix(RESPONSE): name for name in names if name.endswith(RESPONSE)}
        _answer(requests, responses, times)
        true = _is_live(requests)
        headers: list[Header] = []
        for one in _linked(requests):
            at = one.at if true else None
            headers.append(Header("body-pairs", one.name, at=at, awaits=bool(one.response), place=True))
            if one.response:
                headers.append(Header("body-pairs", one.response, place=True))
        taken = {one.response for one in requests}
        left = [name for name in responses.values() if name not in taken]
        return cls(headers + [Header("body-pairs", name, orphan=True, place=True) for name in left])


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _request(folder: str, name: str, at: float) -> Request:
    body = _table(os.path.join(folder, name))
    linked = links(body)
    messages = array(body["messages"]) if body.get("messages", b"")[:1] == b"[" else []
    first = hashlib.blake2b(_CACHE_CONTROL.sub(b"", messages[0]) if messages else b"", digest_size=16).digest()
    return Request(name, at, linked.get("cc_prev_req", ""), session_in(body), first, len(messages))


def _answer(requests: list[Request], responses: dict[str, str], times: dict[str, float]) -> None:
    """Find the request of each response: by its name, by a link, by the time."""
    free = dict(responses)
    for one in requests:
        one.response = free.pop(one.name.removesuffix(REQUEST), "")
    alike: dict[tuple[str, bytes], list[Request]] = defaultdict(list)
    for one in requests:
        alike[one.session, one.first].append(one)
    for one in requests:
        named = free.get(one.previous)
        before = None if named is None else _before(one, alike[one.session, one.first], times[named])
        if before is not None:
            before.response = free.pop(one.previous)
    waiting, later = list[Request](), iter(requests)
    upcoming = next(later, None)
    for name in sorted(free.values(), key=lambda name: (times[name], name)):
        while upcoming is not None and upcoming.at <= times[name]:
            waiting += [] if upcoming.response else [upcoming]
            upcoming = next(later, None)
        if waiting:
            waiting.pop().response = name


def _before(follower: Request, alike: list[Request], answered: float) -> Request | None:
    """Return the request that this one follows: of the same conversation, with the most messages but fewer."""
    shorter = [one for one in alike if not one.response and one.messages < follower.messages]
    timely = [one for one in shorter if one.at <= answered]
    return max(timely or shorter, key=lambda one: one.messages, default=None)


def _is_live(requests: list[Request]) -> bool:
    """Tell whether the files' times can be those at which requests were sent: copies are made faster."""
    if len(requests) < 2:
        return False
    return requests[-1].at - requests[0].at >= SHORTEST * len(requests)


def _linked(requests: list[Request]) -> list[Request]:
    """Put each request behind the one that it follows, and else keep the order; a ring of links is cut."""
    answered = {one.response.removesuffix(RESPONSE): place for place, one in enumerate(requests) if one.response}
    follows = [answered.get(one.previous) if one.previous else None for one in requests]
    after: dict[int, list[int]] = {}
    ready: list[int] = []
    for place, before in enumerate(follows):
        if before is None or before == place:
            ready.append(place)
        else:
            after.setdefault(before, []).append(place)
    order: list[int] = []
    done: set[int] = set()
    heapq.heapify(ready)
    rest = iter(range(len(requests)))
    while len(order) < len(requests):
        place = heapq.heappop(ready) if ready else next(one for one in rest if one not in done)
        if place in done:
            continue
        done.add(place)
        order.append(place)
        for one in after.pop(place, []):
            heapq.heappush(ready, one)
    return [requests[place] for place in order]
