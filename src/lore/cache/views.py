"""A turn as a cache sees it: pieces in the provider's render order, breakpoints, and what else enters the prefix.

In: turns. Out: requests. Rules: a provider's view says in which order it renders, which parameters enter the prefix
at which section, which separate caches, and where it sets breakpoints by itself. A piece is made once for as long as a
chain sends its segment again. Cost O(segments that the chain's turn before did not have).

Sources: the providers' documentation of what invalidates a cache; recordings: DeepSeek's flash model renders tools
behind the system prompt; images that come or go lose nothing on Anthropic, against its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from lore.cache.base import Breakpoint, Piece, Request
from lore.cache.kinds import NO_POSITION, kind_of
from lore.model.prompt import Prompt, Section, Segment
from lore.model.turn import Turn

Placement: TypeAlias = Literal["body", "latest", "none"]
_TTL = re.compile(rb'"ttl"\s*:\s*"(\d{1,6})([smh])"')
_UNIT = {b"s": 1.0, b"m": 60.0, b"h": 3600.0}


Count: TypeAlias = Callable[[bytes], int]  # tokens of a text, by a tokenizer that need not be the provider's


class View(NamedTuple):
    """How a provider looks at a request.

    `order` is its render order; `salts` the parameters that enter the prefix where a section begins; `apart`
    those that separate caches altogether; `placement`: as the body says, also behind the latest message, or never;
    `most` breakpoints count; `drops`: text that Anthropic drops is no content here either.
    """

    order: tuple[Section, ...] = ("tools", "system", "messages")
    salts: tuple[tuple[Section, tuple[str, ...]], ...] = ()
    apart: tuple[str, ...] = ()
    placement: Placement = "none"
    most: int = 4
    drops: bool = False


_EFFORT = ("thinking", "output_config", "reasoning_effort", "reasoning", "verbosity", "text")
ANTHROPIC = View(
    salts=(("system", ("speed",)), ("messages", ("tool_choice", "thinking", "output_config"))),
    placement="body",
    drops=True,
)
OPENAI = View(apart=("prompt_cache_key", "service_tier"), salts=(("tools", ("response_format", "text")),))
OPENAI_BREAKPOINT = View(apart=("prompt_cache_key", "service_tier", *_EFFORT), placement="latest")
PLAIN = View()
SYSTEM_FIRST = View(order=("system", "tools", "messages"))
EXPLICIT = View(placement="body")


class _Seen(NamedTuple):
    """The latest turn of a chain."""

    prompt: Prompt
    head: tuple[Piece, ...]
    pieces: list[Piece]


class Views:
    """The requests of one recording, in one view. A request's pieces change when its chain goes on."""

    def __init__(self, view: View, count: Count | None = None, model: str | None = None) -> None:
        self._view = view
        self._model = model  # asked for by every request, whatever it says; None: as it says
        self.count = count  # while nothing is billed; None: sizes are estimated from bytes
        self._chains: dict[str, _Seen] = {}

    def of(self, turn: Turn) -> Request:
        """Return a turn as a request."""
        prompt, view, seen = turn.prompt, self._view, self._chains.get(turn.chain)
        head, places = self._head(prompt, seen)
        pieces, same = _grown(seen, head, prompt, self.count)
        self._chains[turn.chain] = _Seen(prompt, head, pieces)
        breakpoints = () if view.placement == "none" else tuple(self._breakpoints(prompt, pieces, places, len(head)))
        return Request(
            turn.chain, pieces, same, breakpoints[-view.most :], model=self._model or prompt.model, at=turn.at,
            answered=turn.answered_at, space=self._space(turn), salts=_salts(prompt, view),
            cached=prompt.params.get("cachedContent", b"") or prompt.params.get("cached_content", b""),
        )  # fmt: skip

    def _head(self, prompt: Prompt, seen: _Seen | None) -> tuple[tuple[Piece, ...], list[int]]:
        """Return tools and system in render order, and where each segment of the head went."""
        rank = {section: number for number, section in enumerate(self._view.order)}
        order = sorted(range(len(prompt.head)), key=lambda at: rank[prompt.head[at].section])
        first = [Piece(prompt.dropped, "system")] if prompt.dropped and not self._view.drops else []
        places = [0] * len(order)
        for number, at in enumerate(order):
            places[at] = number + len(first)
        if seen is not None and prompt.head is seen.prompt.head and prompt.dropped == seen.prompt.dropped:
            return seen.head, places
        pieces = (*first, *(Piece(prompt.head[at].data, prompt.head[at].section) for at in order))
        return pieces if self.count is None else tuple([_counted(one, self.count) for one in pieces]), places

    def _breakpoints(
        self, prompt: Prompt, pieces: Sequence[Piece], places: list[int], size: int
    ) -> Iterator[Breakpoint]:
        """Yield the breakpoints in ascending order; each place has one."""
        found: dict[int, float | None] = {}
        for place, value in zip(prompt.breakpoints, prompt.breakpoint_values, strict=False):
            at = places[place] if place < len(places) else place - len(places) + size
            found[at] = lifetime_of(value)
        last = _last(pieces)
        explicit = b'"explicit"' in prompt.params.get("prompt_cache_options", b"")
        if last >= 0 and (prompt.auto_breakpoint or (self._view.placement == "latest" and not explicit)):
            found.setdefault(last, lifetime_of(prompt.params.get("cache_control", b"")))
        return (Breakpoint(at, found[at]) for at in sorted(found) if at < len(pieces))

    def _space(self, turn: Turn) -> bytes:
        """Return what separates caches: model, host, account, and parameters that do."""
        prompt, host = turn.prompt, turn.call.endpoint.partition("/")[0]
        own = [prompt.params.get(name, b"") for name in self._view.apart]
        return b"\x00".join(
            [(self._model or prompt.model or "").encode(), host.encode(), turn.call.account.encode(), *own]
        )


def _salts(prompt: Prompt, view: View) -> tuple[tuple[Section, bytes], ...]:
    return tuple([
        (section, b"\x00".join([prompt.params.get(name, b"") for name in names])) for section, names in view.salts
    ])  # fmt: skip


def _counted(piece: Piece, count: Count) -> Piece:
    return piece if piece.kind == "image" else piece._replace(counted=count(piece.data))


def _grown(
    seen: _Seen | None, head: tuple[Piece, ...], prompt: Prompt, count: Count | None
) -> tuple[list[Piece], int]:  # fmt: skip
    """Return the pieces of a prompt, and how many of them its chain sent before; what it made of them is kept."""
    pieces: list[Piece] = [] if seen is None else seen.pieces
    if seen is None or (seen.head is not head and seen.head != head):
        same = 0 if seen is None else _leading(seen.head, head)
        del pieces[same:]
        pieces.extend(head[same:])
        start = 0
    else:
        start = seen.prompt.messages.common(prompt.messages)
        same = len(head) + start
        del pieces[same:]
    envelope = _envelope(prompt, start)
    for segment in (*prompt.messages.since(start), *prompt.tail):
        kind = kind_of(segment, envelope)
        envelope = segment.data if kind == "envelope" else envelope
        piece = Piece(segment.data if kind else content_of(segment.data), segment.section, kind)
        pieces.append(piece if count is None else _counted(piece, count))
    return pieces, same


_BEFORE = (b'{"type":"text","text":"', b'{"type": "text", "text": "')
_TEXT = (b'{"text":"', b'{"text": "')
_BEHIND = (b'","type":"text"}', b'", "type": "text"}')


def content_of(data: bytes) -> bytes:
    """Return the text of a block that holds nothing else: a provider reads it like a message's own text."""
    for start in _BEFORE:
        if data.startswith(start) and data.endswith(b'"}'):
            return data[len(start) - 1 : -1]
    for start in _TEXT:
        for end in _BEHIND:
            if data.startswith(start) and data.endswith(end):
                return data[len(start) - 1 : len(data) - len(end) + 1]
    return data


def _leading(mine: Sequence[Piece], theirs: Sequence[Piece]) -> int:
    pairs = zip(mine, theirs, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(mine), len(theirs)))


def _envelope(prompt: Prompt, start: int) -> bytes:
    """Return the envelope of the message that a segment of the history stands in."""
    for place in range(start - 1, -1, -1):
        segment: Segment = prompt.messages[place]
        if segment.kind == "envelope":
            return segment.data
    return b""


def _last(pieces: Sequence[Piece]) -> int:
    """Return the place of the last piece that takes a breakpoint, -1 for none."""
    return next((at for at in range(len(pieces) - 1, -1, -1) if pieces[at].kind not in NO_POSITION), -1)


def automatic(request: Request) -> tuple[Breakpoint, ...]:
    """Return breakpoints where a careful client sets them: at the end of each section, as long-lived as before."""
    pieces, lives = request.pieces, {breakpoint.place: breakpoint.lifetime for breakpoint in request.breakpoints}
    ends = [at for at in range(len(pieces) - 1) if pieces[at].section != pieces[at + 1].section]
    last = _last(pieces)
    return tuple([Breakpoint(at, lives.get(at)) for at in sorted({*ends, last}) if at >= 0])


def lifetime_of(breakpoint: bytes) -> float | None:
    """Return the seconds that a breakpoint asks for; None where it leaves them to the provider."""
    found = _TTL.search(breakpoint)
    return None if found is None else int(found[1]) * _UNIT[found[2]]
