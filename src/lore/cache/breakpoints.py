"""Caches that keep an entry at each breakpoint: Anthropic's, Bedrock's, Qwen's, OpenAI's since GPT-5.6.

In: requests, what was billed for them, and a look-up of dated rules. Out: predictions. Rules: a request writes one
entry at each breakpoint behind what it read; it reads the entry furthest back in its text that still lives, no further
before a breakpoint than positions are looked back; a read renews what it passed. Entries belong to prefixes, so every
chain that comes to the same prefix finds them. An entry can be read once the response that wrote it began; within
three seconds of it an older one may be served, and an entry may outlive its time: outcomes of their own, as likely as
was counted (`data/`, habits).

Source: facts in the documentation of the providers, refined by billed recordings (see the rows of `data/`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from lore.cache.base import UNKNOWN, Breakpoint, Confidence, Look, Outcome, Prediction, Request, alternatives
from lore.cache.counts import FIVE_MINUTES, GRACE, ONE_HOUR
from lore.cache.lookback import positions
from lore.cache.tree import SLACK, PrefixTree, Ruler, TreePath
from lore.model.events import Usage
from lore.model.limits import CACHE_ENTRIES

BEGINS = 1.0  # seconds after a request that its response begins at the earliest, where nothing says when it did
NEARLY = 1.35  # an estimate may be too low by this factor
EXPIRED = "expired"
EXPIRIES = ("habit:expiry", "habit:expiry-1h")  # of entries of five minutes, of an hour
_SUFFIX = 64  # tokens that a provider adds behind the last piece, at most


class CacheEntry(NamedTuple):
    """What was written: readable from `ready`, until `expires`, both in seconds since the epoch; None: not known."""

    ready: float | None
    expires: float | None
    lifetime: float


class _PendingBill(NamedTuple):
    """A request that waits for its bill."""

    request: Request
    path: TreePath
    hit: int


class Breakpoints:
    """A cache with entries at breakpoints; the rules that `look` finds tell the providers apart."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._tree = PrefixTree()
        self._ruler = Ruler()
        self._entries: dict[int, CacheEntry] = {}
        self._latest: deque[int] = deque()  # nodes with entries, the latest last
        self._suffix: dict[str | None, int] = {}
        self._pending: _PendingBill | None = None
        self._hours: frozenset[str | None] = frozenset()  # models whose bills have written for an hour
        self._began: float | None = None  # when the latest response did, of any chain

    def predict(self, request: Request) -> Prediction:
        """Say what would be read and written, and keep what is written."""
        places = {breakpoint.place: breakpoint for breakpoint in request.breakpoints}
        standing = [places[place] for place in sorted(places) if 0 <= place < len(request.pieces)]
        request = request._replace(breakpoints=tuple(standing))
        path = self._tree.path(request)
        self._ruler.lay(request.chain, path, request.pieces, request.model)
        breakpoints = self._usable(request)
        if not request.pieces:
            self._pending = None
            return UNKNOWN
        hit, reason = self._hit(request, path, breakpoints)
        self._pending = _PendingBill(request, path, hit)
        found = self._outcomes(request, path, breakpoints, hit, reason)
        prediction = self._predicted(request, breakpoints, hit, found)
        self._keep(request, path, breakpoints, hit)
        self._began = request.answered or request.at or self._began
        return prediction

    def _usable(self, request: Request) -> tuple[Breakpoint, ...]:
        """Return the breakpoints behind enough tokens; a shorter prefix is not cached, and nothing is said.

        An estimate that is near the minimum counts as enough: a bill will tell.
        """
        least = self._look("minimum_tokens", request.model, request.at) or 0
        known, position = self._ruler.known, self._ruler.position
        return tuple([
            breakpoint for breakpoint in request.breakpoints
            if position(breakpoint.place) * (1.0 if known(breakpoint.place) is not None else NEARLY) >= least
        ])  # fmt: skip

    # reading

    def _hit(self, request: Request, path: TreePath, breakpoints: Sequence[Breakpoint]) -> tuple[int, str]:
        """Return the place of the piece behind which the longest readable entry stands, -1 for none, and why."""
        if not breakpoints:
            return -1, "no breakpoint behind enough tokens" if request.breakpoints else "no breakpoint"
        old = ""
        for place in self._places(request, path, breakpoints):
            entry = self._entries.get(path.nodes[place])
            why = "" if entry is None else _unreadable(entry, request.at)
            if entry is not None and not why:
                at = any(place == breakpoint.place for breakpoint in breakpoints)
                return place, "entry at a breakpoint" if at else "entry before a breakpoint"
            old = old or why
        if old:
            return -1, old
        stored = any(node in self._entries for node in path.nodes)
        return -1, "the entry stands further back than is looked" if stored else "nothing stored"

    def _places(self, request: Request, path: TreePath, breakpoints: Sequence[Breakpoint]) -> Iterator[int]:
        """Yield the places where an entry is looked for, in that order."""
        compared = self._look("compared_breakpoints", request.model, request.at)
        if compared is not None:
            yield from _among(path.nodes, self._latest, int(compared), breakpoints[-1].place)
            return
        back = int(self._look("lookback", request.model, request.at) or 0)
        runs = bool(self._look("lookback_runs", request.model, request.at))
        for breakpoint in reversed(breakpoints):  # its own place, then up to so many positions before it
            places = range(breakpoint.place, -1, -1)
            counted = zip(places, positions((request.pieces[at].kind for at in places), runs=runs), strict=True)
            yield from (at for at, _ in takewhile(lambda counting: counting[1] <= back + 1, counted))

    # figures

    def _outcomes(
        self, request: Request, path: TreePath, breakpoints: Sequence[Breakpoint], hit: int, reason: str
    ) -> tuple[Outcome, ...]:
        """Return what may be read: by the rules of the clock (`hit`), or otherwise as often as was counted.

        An entry may outlive its lifetime; directly after it was written an older one may be served.
        """
        soon = self._look("ready_after", request.model, request.at) or 0.0
        read = self._ruler.position(hit)
        for place in self._places(request, path, breakpoints) if breakpoints else ():
            entry, tokens = self._entries.get(path.nodes[place]), self._ruler.position(place)
            if entry is None or place == hit:
                continue
            why = _unreadable(entry, request.at)
            if place > hit and why == EXPIRED:
                chance = self._look(EXPIRIES[entry.lifetime >= ONE_HOUR], request.model, request.at)
                if chance is not None:
                    return alternatives(
                        Outcome(tokens, 1.0, "an entry that outlived its time"), Outcome(read, chance, reason)
                    )
            elif place < hit and not why:
                written = self._entries[path.nodes[hit]].ready
                is_new = written is not None and request.at is not None and request.at - written < soon
                chance = self._look("habit:older-entry", request.model, request.at) if is_new else None
                if chance is not None:
                    older = Outcome(tokens, chance, "an entry before the newest")
                    return alternatives(Outcome(read, 1.0, reason), older)
                break
        return (Outcome(read, 1.0, reason),)

    def _predicted(
        self, request: Request, breakpoints: Sequence[Breakpoint], hit: int, found: tuple[Outcome, ...]
    ) -> Prediction:
        position = self._ruler.position
        read, _, reason = found[0]
        behind = [(position(place), lifetime or 0) for place, lifetime in breakpoints if position(place) > read]
        written = max([tokens for tokens, _ in behind], default=read)
        hour = max([tokens for tokens, lifetime in behind if lifetime >= ONE_HOUR], default=read) - read
        total = max(written, position(len(request.pieces) - 1) + self._suffix.get(request.model, 0))
        several = found if len(found) > 1 else ()
        return Prediction(read, written - read, total - written, self._confidence(request, hit), reason, hour, several)

    def _confidence(self, request: Request, hit: int) -> Confidence:
        if request.at is None or self._look("minimum_tokens", request.model, request.at) is None:
            return "ceiling"
        soon = self._look("ready_after", request.model, request.at) or 0.0
        return "ceiling" if hit >= 0 and self._began is not None and request.at - self._began < soon else "rule"

    # writing

    def _keep(self, request: Request, path: TreePath, breakpoints: Sequence[Breakpoint], hit: int) -> None:
        """Renew what was passed, and write an entry at each breakpoint behind it."""
        for breakpoint in breakpoints:
            node = path.nodes[breakpoint.place]
            before = self._entries.get(node)
            if breakpoint.place <= hit and before is not None:
                self._renew(node, before, request)
            elif breakpoint.place > hit:
                self._put(node, self._entry(request, breakpoint))
        if hit >= 0:
            node = path.nodes[hit]
            self._renew(node, self._entries[node], request)

    def _entry(self, request: Request, breakpoint: Breakpoint) -> CacheEntry:
        """Return what is written at a breakpoint."""
        lifetime = breakpoint.lifetime or self._look("lifetime", request.model, request.at) or FIVE_MINUTES
        expires = None if request.at is None else _began(request) + lifetime * self._grace(request)
        ready = request.at + BEGINS if request.answered is None and request.at is not None else request.answered
        return CacheEntry(ready, expires, lifetime)

    def _grace(self, request: Request) -> float:
        """Return by what a lifetime is multiplied: entries were seen to live a little longer."""
        return self._look("lifetime_grace", request.model, request.at) or GRACE

    def _renew(self, node: int, entry: CacheEntry, request: Request) -> None:
        if request.at is not None and entry.expires is not None:
            expires = max(entry.expires, _began(request) + entry.lifetime * self._grace(request))
            self._put(node, entry._replace(expires=expires))

    def _put(self, node: int, entry: CacheEntry) -> None:
        self._entries[node] = entry
        self._latest.append(node)
        if len(self._latest) > CACHE_ENTRIES:
            self._latest.popleft()

    # bills

    def learn(self, usage: Usage | None) -> str:
        """Take a bill; return how it contradicts the request, empty where it does not."""
        pending, self._pending = self._pending, None
        if pending is None or usage is None:
            return ""
        read, write = usage.read_tokens, usage.write_tokens
        if read is None or write is None or min(read, write) < 0:
            return ""
        if read + write == 0:
            end = len(pending.request.pieces) - 1
            return self._ruler.learn(end, usage.uncached_tokens) if usage.uncached_tokens else ""
        recorded = _recorded(pending.request)
        if not recorded:
            return f"{read + write:,} tokens were cached although the body has no breakpoint"
        last = recorded[-1].place
        self._hours = self._hours | {pending.request.model} if usage.write_1h_tokens else self._hours
        short = usage.write_5m_tokens or 0
        if short and self._is_unasked(pending.request, recorded, read):
            return f"{short:,} tokens were written for five minutes, and no breakpoint asks for them"
        why = self._ruler.learn(last, read + write) if write or pending.hit in (-1, last) else ""
        if why:
            return why
        for latest in pending.request.breakpoints[-1:]:  # the bill shows that there was enough before it
            node = pending.path.nodes[latest.place]
            if latest.place >= last and node not in self._entries:
                self._put(node, self._entry(pending.request, latest))
        self._learn_breakpoints(pending, usage, read)
        uncached, end, model = usage.uncached_tokens, len(pending.request.pieces) - 1, pending.request.model
        if uncached is not None and last == end:
            self._suffix[model] = min(uncached, _SUFFIX)
        elif uncached is not None:
            self._ruler.learn(end, read + write + uncached - self._suffix.get(model, 0))
        return ""

    def _is_unasked(self, request: Request, recorded: Sequence[Breakpoint], read: int) -> bool:
        """Tell whether all breakpoints ask for an hour, and hours were billed before or the read holds all of them."""
        if any((breakpoint.lifetime or 0) < ONE_HOUR for breakpoint in recorded):
            return False
        return request.model in self._hours or 0 < self._ruler.position(recorded[-1].place) <= read

    def _learn_breakpoints(self, pending: _PendingBill, usage: Usage, read: int) -> None:
        """Learn where the last breakpoint of an hour stands, and where the read ended; what was read is stored."""
        recorded = _recorded(pending.request)
        hours = [breakpoint.place for breakpoint in recorded if (breakpoint.lifetime or 0) >= ONE_HOUR]
        if usage.write_1h_tokens and usage.write_5m_tokens and hours:
            self._ruler.learn(hours[-1], read + usage.write_1h_tokens)
        if not read:
            return
        same = pending.request.recorded is None  # else what was read is not what is read now
        if same and pending.hit >= 0 and self._ruler.known(pending.hit) is None and self._fits(pending.hit, read):
            self._ruler.learn(pending.hit, read)
            return
        if all(self._ruler.known(breakpoint.place) != read for breakpoint in recorded):
            # what nothing recorded explains was read at the only breakpoint of no known position that it fits
            unknown = [breakpoint.place for breakpoint in recorded[:-1] if self._ruler.known(breakpoint.place) is None]
            fitting = [place for place in unknown if self._fits(place, read)]
            if len(fitting) == 1:
                self._ruler.learn(fitting[0], read)
        now = {breakpoint.place: breakpoint for breakpoint in pending.request.breakpoints}
        for breakpoint in recorded:
            node = pending.path.nodes[breakpoint.place]
            if self._ruler.known(breakpoint.place) == read and node not in self._entries:
                self._put(node, self._entry(pending.request, now.get(breakpoint.place, breakpoint)))

    def _fits(self, place: int, tokens: int) -> bool:
        """Tell whether a position can be this one: what the body does not show (tools, a preamble) comes on top."""
        estimate = self._ruler.position(place)
        return estimate / 2 <= tokens <= 2 * estimate + SLACK


def _recorded(request: Request) -> tuple[Breakpoint, ...]:
    """Return the breakpoints that a request's bill is about."""
    return request.breakpoints if request.recorded is None else request.recorded


def _began(request: Request) -> float:
    """Return where the clock of an entry starts: with the response, as recordings show, else with the request."""
    return max(request.at or 0.0, request.answered or 0.0)


def _unreadable(entry: CacheEntry, at: float | None) -> str:
    """Say why an entry cannot be read at a time; empty where it can, or no time is known."""
    if at is None:
        return ""
    if entry.ready is not None and at < entry.ready:
        return "not readable yet: the response that writes it had not begun"
    return EXPIRED if entry.expires is not None and at > entry.expires else ""


def _among(nodes: Sequence[int], latest: Iterable[int], most: int, end: int) -> list[int]:
    """Return the places, up to `end`, at which one of the latest entries stands; the last place first.

    Along a path nodes ascend: what leads to a node was made before it.
    """
    kept = list(dict.fromkeys(reversed(list(latest))))[:most]
    return sorted({at for node in kept if (at := bisect_left(nodes, node)) <= end and nodes[at] == node}, reverse=True)
