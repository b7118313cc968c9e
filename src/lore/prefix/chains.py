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

Memory: the latest prompts of the chains touched last are remembered, up to `REMEMBERED` bytes. A chain
that was forgotten is not continued: what would have been its next request begins another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import NamedTuple

from lore.model.events import MAIN
from lore.model.prompt import Prompt
from lore.model.turn import Call, Exchange, Output
from lore.prefix.likeness import Identity, identity_of, is_another_run, is_models, keeps_system, resembles, same_system
from lore.prefix.purpose import (
    before_answer,
    begins_user_turn,
    begins_with_summary,
    has_tools,
    is_beside,
    is_headed,
    is_summary,
    opening,
    retells,
)
from lore.prefix.replies import Replies, latest_answer

LOOK_BACK = 64  # chains that begin alike and are compared: a thousand forks must not cost a million looks
REMEMBERED = 48 * 1024 * 1024  # bytes of prompts: a hundred of half a megabyte, ten thousand short ones
OVERHEAD = 256  # bytes that a segment costs apart from its data
ANY = 12  # a chain costs as much as so many empty segments
OPENING = 4  # segments behind the divergence in which a summary would stand
DISTINCT = 48  # bytes of an answer by which it is known: "Done." is said in many conversations
FAILED = 400  # the first status that says that a request was not answered
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


class Link(NamedTuple):
    """A request's chain and its number in it, from 1."""

    chain: str
    turn: int


class _Asked(NamedTuple):
    """A request as it is looked for: its prompt, a hash of its first message, who asks, and whether beside."""

    prompt: Prompt
    first: int
    who: Identity
    beside: bool


def _whole(output: Output) -> bytes:
    """Return an output that is whole; nothing of one that came in pieces."""
    return output if isinstance(output, bytes) else b""


class Chains:
    """Follow the chains of one recording; `remembered` bounds the bytes of prompts that are kept for it.

    `said` puts an output together that came in pieces; it is asked only where nothing else tells the chain.
    """

    def __init__(self, remembered: int = REMEMBERED, *, said: Callable[[Output], bytes] = _whole) -> None:
        self._last: dict[str, Prompt] = {}  # by chain, the latest touched last
        self._alike: dict[int, dict[str, None]] = {}  # by a hash of the first message; ordered: the latest last
        self._firsts: dict[str, dict[int, None]] = {}  # where a chain stands in `_alike`
        self._turns: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._about: dict[str, tuple[Identity, bool]] = {}  # who asks in a chain, and whether it is one beside
        self._answers: dict[str, str] = {}  # a chain's latest response -> the chain
        self._answered: dict[str, str] = {}  # a chain -> its latest response
        self._ends: dict[int, str] = {}  # by a hash of the latest answer that a chain's latest request holds
        self._end_of: dict[str, int] = {}
        self._room = remembered
        self._replies = Replies(said)
        self._gone: list[str] = []
        self._main: Identity | None = None
        self.given_up = ""  # the chain that the latest request left to begin its own without tools; mostly none
        self._numbers = count(2)

    def forgotten(self) -> list[str]:
        """Name the chains that were forgotten since this was asked last."""
        gone, self._gone = self._gone, []
        return gone

    def link(self, prompt: Prompt, exchange: Exchange | None = None) -> Link:
        """Take the next request."""
        call = Call() if exchange is None else exchange.call
        asked = _Asked(
            prompt, hash(_first_message(prompt)), identity_of(prompt, exchange), is_beside(prompt, call)
        )  # fmt: skip
        name, self.given_up = self._continued(asked), ""
        known = name is not None
        if name is None:
            self.given_up = self._restarted(asked)
            name = self._new(asked)
        if not known or (call.status or 0) < FAILED:  # what failed wrote nothing that the next one could go on from
            self._remember(name, asked)
            if exchange is not None and exchange.response_id:
                self._answers.pop(self._answered.get(name, ""), None)
                self._answers[exchange.response_id] = name
                self._answered[name] = exchange.response_id
            self._replies.note(name, b"" if exchange is None else exchange.output)
        self._turns[name] = self._turns.get(name, 0) + 1
        link = Link(name, self._turns[name])
        while self._room < 0 and len(self._last) > 1:
            self._forget(next(iter(self._last)))
        return link

    def _remember(self, name: str, asked: _Asked) -> None:
        """Keep a chain's latest prompt."""
        self._last.pop(name, None)
        self._last[name] = asked.prompt
        alike = self._alike.setdefault(asked.first, {})
        alike.pop(name, None)
        alike[name] = None
        firsts = self._firsts.setdefault(name, {})
        firsts.pop(asked.first, None)
        firsts[asked.first] = None
        if len(firsts) > LOOK_BACK:  # a first message that is another one every time
            self._unlist(name, next(iter(firsts)))
        self._unend(name)
        said = next(_answers(asked.prompt, backwards=True), None)
        if said is not None:
            self._ends[hash(said)] = name
            self._end_of[name] = hash(said)
        size = sum(len(one.data) for one in asked.prompt) + OVERHEAD * (len(asked.prompt) + ANY)
        self._room += self._sizes.get(name, 0) - size
        self._sizes[name] = size
        self._about[name] = asked.who, asked.beside

    def _forget(self, name: str) -> None:
        """Forget a chain, where there is no room for all."""
        self._room += self._sizes.pop(name)
        for first in list(self._firsts[name]):
            self._unlist(name, first)
        self._unend(name)
        del self._last[name], self._turns[name], self._firsts[name], self._about[name]
        self._answers.pop(self._answered.pop(name, ""), None)
        self._replies.forget(name)
        self._gone.append(name)

    def _unend(self, name: str) -> None:
        """Forget a chain's latest answer, where no other chain ends with the same."""
        end = self._end_of.pop(name, None)
        if end is not None and self._ends.get(end) == name:
            del self._ends[end]

    def _unlist(self, name: str, first: int) -> None:
        del self._firsts[name][first]
        alike = self._alike[first]
        del alike[name]
        if not alike:
            del self._alike[first]

    def _new(self, asked: _Asked) -> str:
        """Name a new chain."""
        who, main = asked.who, self._main
        if asked.beside or self._is_side(asked):
            return f"utility-{next(self._numbers)}"
        if who.agent and who.agent != MAIN:
            named = _NAME.fullmatch(who.agent) and who.agent not in self._last
            return who.agent if named else f"agent-{next(self._numbers)}"
        if main is None:
            self._main = who
            return MAIN
        before = self._last.get(MAIN)
        if who.session and who.session == main.session and before is not None and not same_system(before, asked.prompt):
            return f"agent-{next(self._numbers)}"
        return f"chain-{next(self._numbers)}"

    def _is_side(self, asked: _Asked) -> bool:
        """Tell whether a request without tools asks for something else within a session that works with them."""
        who, before = asked.who, self._last.get(MAIN)
        if before is None or not who.session or self._main is None or who.session != self._main.session:
            return False
        return has_tools(before) and not has_tools(asked.prompt) and not same_system(before, asked.prompt)

    def _continued(self, asked: _Asked) -> str | None:
        alike = [
            name for name in islice(reversed(self._alike.get(asked.first, {})), LOOK_BACK) if self._may(name, asked)
        ]
        near = [name for name in alike if self._is_near(name, asked)]
        return (
            self._named(asked, near)
            or self._by_messages(asked.prompt, near)
            or self._elsewhere(asked, alike)
            or self._summarised(asked)
            or self._shortened(asked)
            or self._replied(asked)
            or self._resembled(asked)
        )

    def _may(self, name: str, asked: _Asked) -> bool:
        """Tell whether a request could continue a chain, whatever their messages."""
        before = self._last[name]
        return (
            before.dialect == asked.prompt.dialect
            and self._about[name][1] == asked.beside
            and not _drops_tools(before, asked.prompt)
        )

    def _is_near(self, name: str, asked: _Asked) -> bool:
        who = self._about[name][0]
        return who.may_be(asked.who) and who.same_place(asked.who)

    def _named(self, asked: _Asked, near: list[str]) -> str | None:
        """Return the chain of the response that a request says it continues, where its messages agree."""
        name = self._answers.get(asked.who.previous)
        if name is None or not self._may(name, asked) or not self._about[name][0].may_be(asked.who):
            return None
        fits = asked.prompt.partial or name in near or begins_with_summary(asked.prompt)
        return name if fits or not len(self._last[name].messages) else None

    def _by_messages(self, prompt: Prompt, near: list[str]) -> str | None:
        latest: str | None = None
        longest, best = -1, None
        for name in near:
            before = self._last[name]
            shared = before.messages.common(prompt.messages)
            if shared == len(before.messages) and shared > longest:
                longest, best = shared, name
            differs = shared < min(len(prompt.messages), len(before.messages))
            if latest is None and differs and self._rewritten(before, prompt, shared):
                latest = name
        return best or latest

    @staticmethod
    def _rewritten(before: Prompt, prompt: Prompt, shared: int) -> bool:
        """Tell whether a history was rewritten, or summed up, and no other conversation begins alike."""
        near_by = any(is_summary(one) for one in islice(prompt.messages.since(shared), OPENING))
        summed = near_by or any(is_summary(one) for one in before_answer(prompt.messages.since(shared)))
        return summed or not is_another_run(before, prompt, shared)

    def _elsewhere(self, asked: _Asked, alike: list[str]) -> str | None:
        """Return the chain that is continued in another session (it was resumed) or at another endpoint.

        In another session a first message alone is none: many begin alike.
        """
        theirs = asked.prompt.messages
        for name in alike:
            before, who = self._last[name].messages, self._about[name][0]
            if before.common(theirs) != len(before) or len(before) >= len(theirs):
                continue
            known = bool(who.session) and who.may_be(asked.who)
            if known or any(one.kind == "envelope" and is_models(one) for one in before):
                return name
        return None

    def _summarised(self, asked: _Asked) -> str | None:
        """Return the conversation whose summary a request begins with."""
        if asked.beside:
            return None
        sure = begins_with_summary(asked.prompt)
        headed = None if sure else next((one for one in opening(asked.prompt) if is_headed(one)), None)
        if not sure and headed is None:
            return None
        found: list[str] = []
        for name in self._recent(asked):
            before = self._last[name]
            if len(before.messages) < len(asked.prompt.messages) or not keeps_system(before, asked.prompt):
                continue
            if sure or (headed is not None and retells(headed, before.messages)):
                found.append(name)
        kept = {one.data for one in before_answer(asked.prompt.messages) if one.kind != "envelope"}
        return max(found, key=lambda name: len(kept & {one.data for one in self._last[name].messages}), default=None)

    def _shortened(self, asked: _Asked) -> str | None:
        """Return the conversation whose latest answer stands in a request that lacks something before it."""
        if asked.beside:
            return None
        for said in _answers(asked.prompt):
            name = self._ends.get(hash(said))
            if name is None or not self._may(name, asked) or not self._is_near(name, asked):
                continue
            before, theirs = self._last[name], asked.prompt.messages
            if before.messages.common(theirs) < len(theirs) and same_system(before, asked.prompt):
                return name
        return None

    def _replied(self, asked: _Asked) -> str | None:
        """Return the conversation whose latest reply is the latest answer that a request holds.

        So a request is known whose first message lost the documents that it brought when it was asked.
        """
        keys = frozenset[int]() if asked.beside else latest_answer(asked.prompt)
        if not keys:
            return None
        alike = (name for name in self._recent(asked) if same_system(self._last[name], asked.prompt))
        return next((name for name in alike if keys & self._replies.of(name)), None)

    def _resembled(self, asked: _Asked) -> str | None:
        return next((name for name in self._recent(asked) if resembles(self._last[name], asked.prompt)), None)

    def _recent(self, asked: _Asked) -> Iterator[str]:
        names = islice(reversed(self._last), LOOK_BACK)
        return (name for name in names if self._may(name, asked) and self._is_near(name, asked))

    def _restarted(self, asked: _Asked) -> str:
        """Name the chain that a request restarts without tools; empty where it restarts none."""
        prompt = asked.prompt
        if asked.beside or has_tools(prompt):
            return ""
        for name in islice(reversed(self._alike.get(asked.first, {})), LOOK_BACK):
            before = self._last[name]
            if (
                before.dialect == prompt.dialect
                and not self._about[name][1]
                and self._is_near(name, asked)
                and _drops_tools(before, prompt)
                and same_system(before, prompt)
                and before.messages.common(prompt.messages) == len(before.messages) < len(prompt.messages)
            ):
                return name
        return ""


def _drops_tools(before: Prompt, prompt: Prompt) -> bool:
    """Tell whether a request that begins a user's turn has none of the tools that were there before."""
    return has_tools(before) and not has_tools(prompt) and begins_user_turn(prompt)


def _answers(prompt: Prompt, *, backwards: bool = False) -> Iterator[bytes]:
    """Iterate over what the model said that is long enough to be known by: the first such block of each answer."""
    size = len(prompt.messages)
    last = min(size, 2 * LOOK_BACK)
    for place in range(size - 1, size - 1 - last, -1) if backwards else range(last):
        one = prompt.messages[place]
        if one.kind != "envelope" or not is_models(one):
            continue
        for peer in islice(prompt.messages.since(place), 1, 4):
            if peer.kind == "envelope":
                break
            if len(peer.data) >= DISTINCT:
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
