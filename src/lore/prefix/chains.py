"""Chains: which recorded request continues which.

In: prompts in the order they were recorded. Out: the chain of each. Rules, the first that fits: a request
continues the one whose messages are the longest prefix of its own (system, tools and marks aside); the
latest that begins with the same first message and then says something else (another answer of the model,
with little of the rest the same, is another run of the same task); the latest that it resembles:
most of its messages stand at their places, or its only message is nearly the same. A request that only
repeats the beginning of a chain starts another (a fork); so does one that drops all tools; one for hardly
any output is a utility call, of a chain of its own.

Cost: O(chains compared) comparisons of shared messages a request; at most 64 chains are compared.

Memory: the latest prompts of the chains touched last are remembered, up to `REMEMBERED` bytes. A chain
that was forgotten is not continued: what would have been its next request begins another.
"""

from __future__ import annotations

from itertools import count, islice
from typing import NamedTuple

from lore.model.events import MAIN
from lore.model.exchange import Exchange
from lore.model.jsonslice import table
from lore.model.prompt import Prompt, Segment
from lore.prefix.overlap import common_bytes, same_content

LOOK_BACK = 64  # chains that begin alike and are compared: a thousand forks must not cost a million looks
REMEMBERED = 48 * 1024 * 1024  # bytes of prompts: a hundred of half a megabyte, ten thousand short ones
OVERHEAD = 256  # bytes that a segment costs apart from its data
ANY = 12  # a chain costs as much as so many empty segments
SIMILAR = 0.8
UTILITY_TOKENS = 16  # quota probes and topic checks ask for 1 to 8 tokens


class Link(NamedTuple):
    """A request's chain and its number in it, from 1."""

    chain: str
    turn: int


class Chains:
    """Follow the chains of one recording; `remembered` bounds the bytes of prompts that are kept for it."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._last: dict[str, Prompt] = {}  # by chain, the latest touched last
        self._alike: dict[int, dict[str, None]] = {}  # by a hash of the first message; ordered: the latest last
        self._firsts: dict[str, dict[int, None]] = {}  # where a chain stands in `_alike`
        self._turns: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._room = remembered
        self._gone: list[str] = []
        self._main = False
        self._numbers = count(2)

    def forgotten(self) -> list[str]:
        """Name the chains that were forgotten since this was asked last."""
        gone, self._gone = self._gone, []
        return gone

    def link(self, prompt: Prompt, exchange: Exchange | None = None) -> Link:
        """Take the next request."""
        first = hash(_first_message(prompt))
        name = self._continued(prompt, first)
        if name is None:
            name = self._new(utility=_is_utility(prompt))
        self._remember(name, prompt, first)
        self._turns[name] = self._turns.get(name, 0) + 1
        return Link(name, self._turns[name])

    def _remember(self, name: str, prompt: Prompt, first: int) -> None:
        """Keep a chain's latest prompt; forget those that were touched longest ago where there is no room."""
        self._last.pop(name, None)
        self._last[name] = prompt
        alike = self._alike.setdefault(first, {})
        alike.pop(name, None)
        alike[name] = None
        firsts = self._firsts.setdefault(name, {})
        firsts.pop(first, None)
        firsts[first] = None
        if len(firsts) > LOOK_BACK:  # a first message that is another one every time
            self._unlist(name, next(iter(firsts)))
        size = sum(len(one.data) for one in prompt) + OVERHEAD * (len(prompt) + ANY)
        self._room += self._sizes.get(name, 0) - size
        self._sizes[name] = size
        while self._room < 0 and len(self._last) > 1:
            self._forget(next(iter(self._last)))

    def _forget(self, name: str) -> None:
        self._room += self._sizes.pop(name)
        for first in list(self._firsts[name]):
            self._unlist(name, first)
        del self._last[name], self._turns[name], self._firsts[name]
        self._gone.append(name)

    def _unlist(self, name: str, first: int) -> None:
        del self._firsts[name][first]
        alike = self._alike[first]
        del alike[name]
        if not alike:
            del self._alike[first]

    def _new(self, *, utility: bool) -> str:
        if not self._main and not utility:
            self._main = True
            return MAIN
        return f"{'utility' if utility else 'chain'}-{next(self._numbers)}"

    def _continued(self, prompt: Prompt, first: int) -> str | None:
        latest: str | None = None
        longest, best = -1, None
        for name in islice(reversed(self._alike.get(first, {})), LOOK_BACK):
            before = self._last[name]
            if not _may_follow(before, prompt):
                continue
            shared = before.messages.common(prompt.messages)
            if shared == len(before.messages) and shared > longest:
                longest, best = shared, name
            differs = shared < min(len(prompt.messages), len(before.messages))
            if latest is None and differs and not _is_another_run(before, prompt, shared):
                latest = name
        if best is not None or latest is not None:
            return best or latest
        recent = islice(reversed(self._last.items()), LOOK_BACK)
        return next(
            (name for name, before in recent if _may_follow(before, prompt) and _resembles(before, prompt)), None
        )


def _may_follow(before: Prompt, prompt: Prompt) -> bool:
    return (
        before.dialect == prompt.dialect
        and _is_utility(before) == _is_utility(prompt)
        and (_has_tools(prompt) or not _has_tools(before))
    )


def _is_another_run(before: Prompt, prompt: Prompt, shared: int) -> bool:
    """Tell whether two requests part at an answer of the model, and little of what follows is the same.

    The same task that was run again gets another answer; a history that was rewritten keeps the rest.
    """
    place, envelope = shared, before.messages[shared]
    while envelope.kind != "envelope" and place > 0:
        place -= 1
        envelope = before.messages[place]
    if not any(sign in envelope.data for sign in _MODELS):
        return False
    rest = zip(before.messages.since(shared), prompt.messages.since(shared), strict=False)
    pairs = [(one, peer) for one, peer in rest if one.kind != "envelope"]
    left = sum(one.kind != "envelope" for one in before.messages.since(shared))
    return 2 * sum(one == peer for one, peer in pairs) < left


_MODELS = (b'"assistant"', b'"model"', b'"function_call"', b'"reasoning"')  # how an envelope says that the model spoke


def _resembles(before: Prompt, prompt: Prompt) -> bool:
    """Tell whether a request is the next one of a conversation whose first message was rewritten."""
    if len(prompt.messages) <= len(before.messages):
        return False
    pairs = [(one, peer) for one, peer in zip(before.messages, prompt.messages, strict=False) if one.kind != "envelope"]
    if not pairs:
        return False
    if len(pairs) > 1:
        return 2 * sum(one == peer for one, peer in pairs) >= len(pairs)
    return _nearly_same(*pairs[0])


def _nearly_same(one: Segment, peer: Segment) -> bool:
    """Tell whether two texts differ in one place that is less than a fifth of the longer one."""
    if same_content(one, peer):
        return True
    mine, theirs = one.data, peer.data
    front = common_bytes(mine, theirs)
    room = min(len(mine), len(theirs)) - front
    back = common_bytes(mine[::-1][:room], theirs[::-1][:room])
    return SIMILAR * max(len(mine), len(theirs)) <= front + back


_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")


def _is_utility(prompt: Prompt) -> bool:
    params = prompt.params
    nested = [table(params.get(name, b"null")) or {} for name in ("generationConfig", "inferenceConfig")]
    for raw in [one.get(name, b"") for one in (params, *nested) for name in _LIMITS]:
        if raw.isdigit() and len(raw) < 9 and int(raw) <= UTILITY_TOKENS:
            return True
    return False


def _has_tools(prompt: Prompt) -> bool:
    return bool(prompt.head) and prompt.head[0].section == "tools"


def _first_message(prompt: Prompt) -> tuple[bytes, ...]:
    """The first message's content, as bytes; its envelope ends where the next one begins."""
    found: list[bytes] = []
    for place, segment in enumerate(prompt.messages):
        if segment.kind != "envelope":
            found.append(segment.data)
        elif place:
            break
    return tuple(found)
