"""Chains: which recorded request continues which.

In: requests in the order they were recorded. Out: the chain of each. Rules, the first that fits: a request
continues the chain of the response that it names; the one of the same session, agent and endpoint whose
messages are the longest prefix of its own (system, tools and breakpoints aside); the latest that begins with the
same first message and then says something else (another answer of the model, with little of the rest the
same, is another run of the same task); in another session or at another endpoint, one whose messages, the
model's among them, are a prefix; where it begins with a summary, the latest conversation that asks under
the same system prompt; the one whose latest answer it holds (its beginning is gone), as its latest request or, where
that is recorded, the response to it says it; the latest that it resembles.

Calls beside a conversation (`purpose.py`) and subagents are chains of their own. A request that only
repeats the beginning of a chain starts another (a fork); so does one that drops all tools as a user's turn
begins: where its system prompt is unchanged, it says which chain it left.

Cost: O(chains compared) comparisons of shared messages a request; at most 64 chains are compared.

Memory: the latest prompts of the chains touched last are remembered, up to `CHAIN_PROMPT_BYTES` bytes. A chain
that was forgotten is not continued: what would have been its next request begins another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

from lore.model.events import MAIN
from lore.model.limits import ANSWER_SEGMENTS, CHAIN_PROMPT_BYTES, CHAINS_COMPARED
from lore.model.turn import Call, Exchange, Prompt, Streamed
from lore.prefix import likeness, purpose

OVERHEAD = 256  # bytes that a segment costs apart from its data
ANY = 12  # a chain costs as much as so many empty segments
OPENING = 4  # segments behind the divergence in which a summary would stand
FAILED = 400  # the first status that says that a request was not answered
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


class ChainTurn(NamedTuple):
    """A request's chain and its number in it, from 1."""

    chain: str
    turn: int


class _Request(NamedTuple):
    """A request as it is looked for: its prompt, a hash of its first message, who asks, and whether beside."""

    prompt: Prompt
    first: int
    who: likeness.Identity
    beside: bool


@dataclass(slots=True, eq=False)
class _KnownChain:
    """The latest request of a chain, what it costs, and by what else it is found: first messages, response, answer."""

    name: str
    latest: _Request
    size: int = 0
    turns: int = 0
    firsts: dict[int, None] = field(default_factory=dict[int, None])
    response: str = ""
    answer: int | None = None

    @property
    def prompt(self) -> Prompt:
        """The prompt of its latest request."""
        return self.latest.prompt

    def may_continue(self, request: _Request) -> bool:
        """Tell whether a request could continue this chain, whatever their messages."""
        return (
            self.prompt.dialect == request.prompt.dialect
            and self.latest.beside == request.beside
            and not _drops_tools(self.prompt, request.prompt)
        )

    def is_near(self, request: _Request) -> bool:
        """Tell whether both may be of one conversation, at one endpoint."""
        return self.latest.who.may_be(request.who) and self.latest.who.same_place(request.who)


class Chains:
    """Follow the chains of one recording; `remembered` bounds the bytes of prompts that are kept for it.

    `joined` puts an output together that came in pieces; it is asked only where nothing else tells the chain.
    """

    def __init__(
        self, remembered: int = CHAIN_PROMPT_BYTES, *, joined: Callable[[Streamed], bytes] = lambda _: b""
    ) -> None:
        self._chains: dict[str, _KnownChain] = {}  # the latest touched last
        self._alike: dict[int, dict[str, _KnownChain]] = {}  # by a hash of the first message; the latest last
        self._responses: dict[str, _KnownChain] = {}  # by a chain's latest response
        self._answers: dict[int, _KnownChain] = {}  # by a hash of the latest answer that a chain's latest request holds
        self._room = remembered
        self._replies = likeness.Replies(joined)
        self._gone: list[str] = []
        self._main: likeness.Identity | None = None
        self.given_up = ""  # the chain that the latest request left to begin its own without tools; mostly none
        self._numbers = count(2)

    def forgotten(self) -> list[str]:
        """Name the chains that were forgotten since this was asked last."""
        gone, self._gone = self._gone, []
        return gone

    def link(self, prompt: Prompt, exchange: Exchange | None = None) -> ChainTurn:
        """Take the next request."""
        call = Call() if exchange is None else exchange.call
        first = hash(_first_message(prompt))
        request = _Request(prompt, first, likeness.identity_of(prompt, exchange), purpose.is_beside(prompt, call))
        chain, self.given_up = self._continued(request), ""
        known = chain is not None
        if chain is None:
            self.given_up = self._restarted(request)
            chain = _KnownChain(self._new(request), request)
        if not known or (call.status or 0) < FAILED:  # what failed wrote nothing that the next one could go on from
            self._remember(chain, request, exchange)
        chain.turns += 1
        while self._room < 0 and len(self._chains) > 1:
            self._forget(next(iter(self._chains.values())))
        return ChainTurn(chain.name, chain.turns)

    def _remember(self, chain: _KnownChain, request: _Request, exchange: Exchange | None) -> None:
        """Keep a chain's latest request, and what answered it."""
        name, chain.latest = chain.name, request
        alike = self._alike.setdefault(request.first, {})
        for known in (self._chains, alike):
            known.pop(name, None)
            known[name] = chain
        chain.firsts.pop(request.first, None)
        chain.firsts[request.first] = None
        if len(chain.firsts) > CHAINS_COMPARED:  # a first message that is another one every time
            self._unlist(chain, next(iter(chain.firsts)))
        self._unanswer(chain)
        answer = next(_answers(request.prompt, backwards=True), None)
        if answer is not None:
            chain.answer = hash(answer)
            self._answers[chain.answer] = chain
        size = sum(len(segment.data) for segment in request.prompt) + OVERHEAD * (len(request.prompt) + ANY)
        self._room += chain.size - size
        chain.size = size
        if exchange is not None and exchange.response_id:
            self._responses.pop(chain.response, None)
            self._responses[exchange.response_id] = chain
            chain.response = exchange.response_id
        self._replies.note(name, b"" if exchange is None else exchange.output)

    def _forget(self, chain: _KnownChain) -> None:
        """Forget a chain, where there is no room for all."""
        self._room += chain.size
        for first in list(chain.firsts):
            self._unlist(chain, first)
        self._unanswer(chain)
        self._responses.pop(chain.response, None)
        self._replies.forget(chain.name)
        del self._chains[chain.name]
        self._gone.append(chain.name)

    def _unanswer(self, chain: _KnownChain) -> None:
        """Forget a chain's latest answer, where no other chain ends with the same."""
        answer, chain.answer = chain.answer, None
        if answer is not None and self._answers.get(answer) is chain:
            del self._answers[answer]

    def _unlist(self, chain: _KnownChain, first: int) -> None:
        del chain.firsts[first], self._alike[first][chain.name]
        if not self._alike[first]:
            del self._alike[first]

    def _new(self, request: _Request) -> str:
        """Name a new chain.

        A request without tools asks for something else, beside a session that works with them.
        """
        who, main = request.who, self._main
        before = None if MAIN not in self._chains else self._chains[MAIN].prompt
        own = main is not None and bool(who.session) and who.session == main.session
        other = own and before is not None and not likeness.same_system(before, request.prompt)
        if request.beside or (
            other and before is not None and purpose.has_tools(before) and not purpose.has_tools(request.prompt)
        ):
            return f"utility-{next(self._numbers)}"
        if who.agent and who.agent != MAIN:
            named = _NAME.fullmatch(who.agent) and who.agent not in self._chains
            return who.agent if named else f"agent-{next(self._numbers)}"
        if main is None:
            self._main = who
            return MAIN
        return f"{'agent' if other else 'chain'}-{next(self._numbers)}"

    def _continued(self, request: _Request) -> _KnownChain | None:
        alike = [chain for chain in self._begin_alike(request) if chain.may_continue(request)]
        near = [chain for chain in alike if chain.is_near(request)]
        found = self._named(request, near) or self._by_messages(request.prompt, near) or self._elsewhere(request, alike)
        if found is None and not request.beside:
            found = self._summarised(request) or self._shortened(request) or self._replied(request)
        alike = (chain for chain in self._recent(request) if likeness.resembles(chain.prompt, request.prompt))
        found = found or next(alike, None)
        return found if found is not None or request.beside else self._unwrapped(request)

    def _begin_alike(self, request: _Request) -> Iterator[_KnownChain]:
        return islice(reversed(self._alike.get(request.first, {}).values()), CHAINS_COMPARED)

    def _recent(self, request: _Request, *, alike: bool = False) -> Iterator[_KnownChain]:
        """Iterate over the chains touched last that a request may continue; `alike`: under its own system prompt."""
        for chain in islice(reversed(self._chains.values()), CHAINS_COMPARED):
            fits = chain.may_continue(request) and chain.is_near(request)
            if fits and (not alike or likeness.same_system(chain.prompt, request.prompt)):
                yield chain

    def _named(self, request: _Request, near: list[_KnownChain]) -> _KnownChain | None:
        """Return the chain of the response that a request says it continues, where its messages agree."""
        chain = self._responses.get(request.who.previous)
        if chain is None or not chain.may_continue(request) or not chain.latest.who.may_be(request.who):
            return None
        fits = request.prompt.partial or chain in near or purpose.begins_with_summary(request.prompt)
        return chain if fits or not len(chain.prompt.messages) else None

    def _by_messages(self, prompt: Prompt, near: list[_KnownChain]) -> _KnownChain | None:
        latest: _KnownChain | None = None
        longest, best = (-1, False), None
        for chain in near:
            before = chain.prompt
            shared = before.messages.common(prompt.messages)
            if shared == len(before.messages) and shared >= longest[0]:
                fits = (
                    shared,
                    likeness.same_head(before, prompt),
                )  # of several as long, one with the same tools and system
                longest, best = (fits, chain) if fits > longest else (longest, best)
            differs = shared < min(len(prompt.messages), len(before.messages))
            if latest is None and differs and self._rewritten(before, prompt, shared):
                latest = chain
        return best or latest

    @staticmethod
    def _rewritten(before: Prompt, prompt: Prompt, shared: int) -> bool:
        """Tell whether a history was rewritten, or summed up, and no other conversation begins alike."""
        near_by = any(purpose.is_summary(segment) for segment in islice(prompt.messages.since(shared), OPENING))
        summed = near_by or any(
            purpose.is_summary(block) for block in purpose.before_answer(prompt.messages.since(shared))
        )
        return summed or not likeness.is_another_run(before, prompt, shared)

    def _elsewhere(self, request: _Request, alike: list[_KnownChain]) -> _KnownChain | None:
        """Return the chain that is continued in another session (it was resumed) or at another endpoint.

        In another session a first message alone is none: many begin alike.
        """
        messages = request.prompt.messages
        for chain in alike:
            before, who = chain.prompt.messages, chain.latest.who
            if before.common(messages) != len(before) or len(before) >= len(messages):
                continue
            known = bool(who.session) and who.may_be(request.who)
            if known or any(segment.kind == "envelope" and likeness.is_models(segment) for segment in before):
                return chain
        return None

    def _summarised(self, request: _Request) -> _KnownChain | None:
        """Return the conversation whose summary a request begins with."""
        prompt = request.prompt
        sure = purpose.begins_with_summary(prompt)
        headed = None if sure else next(filter(purpose.is_headed, purpose.opening(prompt)), None)
        if not sure and headed is None:
            return None
        found: list[_KnownChain] = []
        for chain in self._recent(request):
            before = chain.prompt
            grew = len(before.messages) < len(prompt.messages)
            named = bool(request.who.session) and chain.latest.who.session == request.who.session
            sealed = named and any(map(purpose.is_sealed, purpose.opening(prompt)))
            if (grew and not sealed) or not likeness.keeps_system(before, prompt):
                continue
            if sure or (headed is not None and purpose.retells(headed, before.messages)):
                found.append(chain)
        kept = {segment.data for segment in purpose.before_answer(prompt.messages) if segment.kind != "envelope"}
        return max(
            found, key=lambda chain: len(kept & {segment.data for segment in chain.prompt.messages}), default=None
        )

    def _shortened(self, request: _Request) -> _KnownChain | None:
        """Return the conversation whose latest answer stands in a request that lacks something before it."""
        for answer in _answers(request.prompt):
            chain = self._answers.get(hash(answer))
            if chain is None or not chain.may_continue(request) or not chain.is_near(request):
                continue
            before, messages = chain.prompt, request.prompt.messages
            if before.messages.common(messages) < len(messages) and likeness.keeps_system(before, request.prompt):
                return chain
        return None

    def _replied(self, request: _Request) -> _KnownChain | None:
        """Return the conversation whose latest reply is the latest answer that a request holds.

        So a request is known whose first message lost the documents that it brought when it was asked.
        """
        keys = likeness.latest_answer(request.prompt)
        alike = self._recent(request, alike=True) if keys else ()
        return next((chain for chain in alike if keys & self._replies.of(chain.name)), None)

    def _unwrapped(self, request: _Request) -> _KnownChain | None:
        """Return the conversation whose first message lost what a program had put around it, if its reply is unknown.

        A reply that is known and stands not in the request shows another conversation.
        """
        for chain in self._recent(request, alike=True):
            if likeness.loses_wrapper(chain.prompt, request.prompt) and not self._replies.of(chain.name):
                return chain
        return None

    def _restarted(self, request: _Request) -> str:
        """Name the chain that a request restarts without tools; empty where it restarts none."""
        prompt = request.prompt
        if request.beside or purpose.has_tools(prompt):
            return ""
        for chain in self._begin_alike(request):
            before = chain.prompt
            if (
                before.dialect == prompt.dialect
                and not chain.latest.beside
                and chain.is_near(request)
                and _drops_tools(before, prompt)
                and likeness.same_system(before, prompt)
                and before.messages.common(prompt.messages) == len(before.messages) < len(prompt.messages)
            ):
                return chain.name
        return ""


def _drops_tools(before: Prompt, prompt: Prompt) -> bool:
    """Tell whether a request that begins a user's turn has none of the tools that were there before."""
    return purpose.has_tools(before) and not purpose.has_tools(prompt) and purpose.begins_user_turn(prompt)


def _answers(prompt: Prompt, *, backwards: bool = False) -> Iterator[bytes]:
    """Iterate over what the model said that is long enough to be known by: the first such block of each answer."""
    size = len(prompt.messages)
    last = min(size, ANSWER_SEGMENTS)
    for place in range(size - 1, size - 1 - last, -1) if backwards else range(last):
        segment = prompt.messages[place]
        if segment.kind != "envelope" or not likeness.is_models(segment):
            continue
        for peer in islice(prompt.messages.since(place), 1, 4):
            if peer.kind == "envelope":
                break
            if len(peer.data) >= likeness.DISTINCT:
                yield peer.data
                break


def _first_message(prompt: Prompt) -> tuple[bytes, ...]:
    """The first message's content, as bytes; its envelope ends where the next one begins."""
    found: list[bytes] = []
    for place, segment in enumerate(prompt.messages):
        if segment.kind != "envelope":
            found.append(segment.data)
        elif place:
            break
    return tuple(found)
