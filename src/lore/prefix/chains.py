"""Which recorded request continues which: as a turn of a chain (`Chains`), as a prefix in a cache (`RequestEnds`).

Side calls (`purpose.py`) and subagents are chains of their own. A request that only repeats the beginning of a chain
begins another one (a fork). So does one that drops all tools at the beginning of a user's turn.

Cost: O(compared chains) comparisons of shared messages for each request, at most 64. Memory: the latest prompts and
replies of the chains used last, up to `CHAIN_PROMPT_BYTES` bytes. A forgotten chain is not continued.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from itertools import chain as chained
from itertools import count, islice, takewhile
from operator import itemgetter

from msgspec import Struct

from lore.model.deferred import pattern
from lore.model.events import MAIN
from lore.model.limits import ANSWER_SEGMENTS, CHAIN_PROMPT_BYTES, CHAINS_COMPARED, ENDED_REQUESTS
from lore.model.providers import place_in
from lore.model.turn import Call, Exchange, Output, Prompt, StreamedOutput, Turn
from lore.prefix import likeness, purpose
from lore.prefix.overlap import count_cached_segments, count_shared_segments, iterate_from
from lore.prefix.tools import tool_name

_SEGMENT_BYTES = 256  # that a segment costs in addition to its data
_CHAIN_SEGMENTS = 12  # a chain costs as much as this many empty segments
_OPENING_SEGMENTS = 32  # of a request, in which a summary's heading is looked for
_SUMMARY_SEGMENTS = 4  # after the first difference in which a summary would be
_FIRST_ERROR = 400  # HTTP status from which a request was not answered
_ENDS_OF_CHAIN = 8  # remembered of those that a chain's latest request passes: the next one rarely drops more
# A call that hands over to another agent (documentation of OpenAI's Agents SDK, AutoGen's swarms).
# Google's ADK tells that agent of it in a text.
_HANDOFF = pattern(rb'(?:"name"\s*:\s*"|called tool `)transfer_to_\w+["`]')
_AGENT_NAME = pattern(r"[\w.-]{1,64}", re.ASCII)


class _ChainRequest(Struct, frozen=True):
    """A request whose chain is looked for."""

    prompt: Prompt
    first_message: int  # a hash of its content
    sender: likeness.Identity  # who sent it
    is_side_call: bool  # a call that the client makes for itself, such as for a title


class _KnownChain(Struct, eq=False):
    """A chain, by its latest request."""

    name: str  # as results name it
    latest: _ChainRequest
    size: int = 0  # bytes that it costs
    turns: int = 0  # requests so far
    first_messages: dict[int, None] = {}  # hashes; the latest last, at most `CHAINS_COMPARED`
    response: str = ""  # the id of the latest response
    answer: bytes | None = None  # the last answer of the model in the latest request
    reply: Output | likeness.ReplyKeys = b""  # the response to the latest request, or its keys once they are decoded
    said: likeness.ReplyKeys = frozenset()  # keys of its texts of any length, then

    @property
    def prompt(self) -> Prompt:
        return self.latest.prompt

    def may_continue(self, request: _ChainRequest) -> bool:
        """Return whether a request could continue this chain by its dialect, kind and tools; ignore its messages."""
        return (
            self.prompt.dialect == request.prompt.dialect
            and self.latest.is_side_call == request.is_side_call
            and not _drops_tools(self.prompt, request.prompt)
        )

    def is_near(self, request: _ChainRequest) -> bool:
        """Return whether both senders may share a conversation at one endpoint; an unknown endpoint may be any."""
        sender, other = self.latest.sender, request.sender
        is_elsewhere = sender.endpoint and other.endpoint and sender.endpoint != other.endpoint
        return sender.may_share_conversation(other) and not is_elsewhere


class Chains:
    """The chains of one recording.

    `remembered` are bytes of prompts and replies that are kept. `join` puts a response together that came in pieces; it
    is called only if messages do not tell the chain, or tools changed.
    """

    def __init__(
        self, remembered: int = CHAIN_PROMPT_BYTES, *, join: Callable[[StreamedOutput], bytes] = lambda _: b""
    ) -> None:
        self._chains: dict[str, _KnownChain] = {}  # the latest used last
        self._room = remembered
        self._join = join
        self._forgotten: list[str] = []
        self._main: likeness.Identity | None = None  # the sender of the main chain
        self._agents: set[str] = set()  # names of agents that chains have, also forgotten ones
        self._numbers = count(2)
        self.given_up = ""  # the chain that the latest request left to begin its own without tools

    def take_forgotten(self) -> list[str]:
        """Return the chains that were forgotten since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def add(self, prompt: Prompt, exchange: Exchange | None = None) -> tuple[str, int]:
        """Add the next request, and return the name of its chain and its number in it, from 1.

        Names are `main`, the recorded name of an agent, or `chain-N`, `agent-N`, `utility-N` (a side call), with N
        counted for all chains together, from 2. A request that failed keeps its number; later ones are compared with it
        only if it began its chain. Sets `given_up`.
        """
        call = Call() if exchange is None else exchange.call
        second = next((at for at, segment in enumerate(prompt.messages) if at and segment.kind == "envelope"), None)
        blocks = tuple([part.data for part in islice(prompt.messages, second) if part.kind != "envelope"])
        sender = likeness.identify_sender(prompt, exchange)
        request = _ChainRequest(prompt, hash(blocks), sender, purpose.is_side_call(prompt, call))
        chain, self.given_up = self._find_chain(request), ""
        is_new = chain is None
        if chain is None:
            self.given_up = self._find_given_up(request)
            chain = _KnownChain(self._name_chain(request), request)
        if is_new or (call.status or 0) < _FIRST_ERROR:  # a failed request wrote nothing that could be continued
            self._remember(chain, request, exchange)
        chain.turns += 1
        while self._room < 0 and len(self._chains) > 1:
            oldest = next(iter(self._chains))
            self._room += self._chains.pop(oldest).size
            self._forgotten.append(oldest)
        return chain.name, chain.turns

    def _remember(self, chain: _KnownChain, request: _ChainRequest, exchange: Exchange | None) -> None:
        chain.latest = request
        self._chains.pop(chain.name, None)
        self._chains[chain.name] = chain
        chain.first_messages.pop(request.first_message, None)
        chain.first_messages[request.first_message] = None
        if len(chain.first_messages) > CHAINS_COMPARED:  # its first message differs in every request
            del chain.first_messages[next(iter(chain.first_messages))]
        chain.answer = next(_find_answers(request.prompt, backwards=True), None)
        chain.reply = b"" if exchange is None else exchange.output
        segments = len(request.prompt) + _CHAIN_SEGMENTS
        size = sum(len(segment.data) for segment in request.prompt) + _SEGMENT_BYTES * segments
        size += len(chain.reply if isinstance(chain.reply, bytes) else chain.reply.raw)
        self._room += chain.size - size
        chain.size = size
        if exchange is not None and exchange.response_id:
            chain.response = exchange.response_id

    def _reply_keys(self, chain: _KnownChain) -> likeness.ReplyKeys:
        """Return the keys of a chain's latest reply; decode it when they are first asked for."""
        if not isinstance(chain.reply, frozenset):
            raw = chain.reply if isinstance(chain.reply, bytes) else self._join(chain.reply)
            chain.reply = likeness.reply_keys(raw) if raw else frozenset()
            chain.said = likeness.reply_keys(raw, of_any_length=True) if raw else frozenset()
        return chain.reply

    def _holds_reply(self, chain: _KnownChain, prompt: Prompt) -> bool:
        """Return whether a request repeats the recorded reply: a long one anywhere, any right after the messages."""
        if likeness.latest_answer_keys(prompt) & self._reply_keys(chain):
            return True
        following = likeness.mark_answers(islice(prompt.messages.since(len(chain.prompt.messages)), ANSWER_SEGMENTS))
        answer = (segment for segment, _ in takewhile(itemgetter(1), following))
        return any(likeness.reply_keys(segment.json, of_any_length=True) & chain.said for segment in answer)

    def _name_chain(self, request: _ChainRequest) -> str:
        """Name a new chain. In a session that works with tools, a request without them is a side call."""
        sender, main = request.sender, self._main
        old = self._chains[MAIN].prompt if MAIN in self._chains else None
        is_in_session = main is not None and bool(sender.session) and sender.session == main.session
        has_other_system = is_in_session and old is not None and not likeness.has_same_system(old, request.prompt)
        lacks_tools = old is not None and purpose.has_tools(old) and not purpose.has_tools(request.prompt)
        if request.is_side_call or (has_other_system and lacks_tools):
            return f"utility-{next(self._numbers)}"
        if sender.agent and sender.agent != MAIN:
            if not _AGENT_NAME.fullmatch(sender.agent) or sender.agent in self._agents:
                return f"agent-{next(self._numbers)}"
            self._agents.add(sender.agent)
            return sender.agent
        if main is None and len(request.prompt):  # else its body is not recorded
            self._main = sender
            return MAIN
        return f"{'agent' if has_other_system else 'chain'}-{next(self._numbers)}"

    def _find_chain(self, request: _ChainRequest) -> _KnownChain | None:
        """Return the chain that a request continues: that of the first rule that finds one."""
        prompt = request.prompt
        candidates = [
            chain for chain in self._with_same_beginning(request)
            if chain.may_continue(request) and not self._is_of_other_agent(chain, prompt)
        ]  # fmt: skip
        near_chains = [chain for chain in candidates if chain.is_near(request)]
        chain = (
            self._find_by_response(request, near_chains)
            or self._find_by_messages(prompt, near_chains)
            or self._find_elsewhere(request, candidates)
        )
        if chain is not None:
            return chain
        recent = [
            chain for chain in islice(reversed(self._chains.values()), CHAINS_COMPARED)
            if chain.may_continue(request) and chain.is_near(request) and not self._is_of_other_agent(chain, prompt)
        ]  # fmt: skip
        is_turn = not request.is_side_call
        if is_turn:
            chain = self._find_by_summary(request, recent) or self._find_by_answer(request)
            keys = frozenset[int]() if chain else likeness.latest_answer_keys(prompt)
            # documents of the first message are gone, but the latest answer is the reply that the chain received
            answered = (chain for chain in recent if keys and likeness.has_same_system(chain.prompt, prompt))
            chain = chain or next((chain for chain in answered if keys & self._reply_keys(chain)), None)
        for is_successor in (likeness.continues_rewritten, likeness.has_grown_text):
            chain = chain or next((chain for chain in recent if is_successor(chain.prompt, prompt)), None)
        for old in recent if is_turn and chain is None else ():
            unwrapped = likeness.has_same_system(old.prompt, prompt) and likeness.has_lost_wrapper(old.prompt, prompt)
            if unwrapped and not self._reply_keys(old):  # the request would hold a recorded reply
                return old
        if is_turn and chain is None:  # of two conversations that end alike, neither is known to have slid
            slid = [chain for chain in recent if self._has_slid(chain, prompt)]
            chain = slid[0] if len(slid) == 1 else None
        return chain

    def _has_slid(self, chain: _KnownChain, prompt: Prompt) -> bool:
        """Return whether a request begins with the messages that ended the chain's, and the model's answer follows."""
        previous, kept = chain.prompt, _count_kept_end(chain.prompt, prompt)
        if not kept or not purpose.last_user_texts(previous):
            return False
        answers, received = likeness.answer_keys(prompt, kept), self._reply_keys(chain)
        is_answer = len(prompt.messages) > kept and likeness.is_model_message(prompt.messages[kept])
        is_other = bool(answers) and bool(received) and not answers & received
        return is_answer and not is_other and likeness.has_same_head(previous, prompt)

    def _is_of_other_agent(self, chain: _KnownChain, prompt: Prompt) -> bool:
        """Return whether a request with other tools is another agent's, although it begins with the chain's messages.

        The answer after them is another one than the chain received, or it hands over to the agent of this request.
        """
        previous = chain.prompt
        if likeness.tools_of(previous) == likeness.tools_of(prompt):
            return False
        size = len(previous.messages)
        if previous.messages.common(prompt.messages) < size:
            return False
        if not likeness.has_same_system(previous, prompt):
            new = islice(prompt.messages.since(size), ANSWER_SEGMENTS)
            if any(_HANDOFF.search(segment.data) for segment in new):
                return True
        answers, received = likeness.answer_keys(prompt, size), self._reply_keys(chain)
        return bool(answers) and bool(received) and not answers & received

    def _with_same_beginning(self, request: _ChainRequest) -> Iterator[_KnownChain]:
        """Iterate over the chains with the same first message, the latest used first."""
        first = request.first_message
        return islice(
            (chain for chain in reversed(self._chains.values()) if first in chain.first_messages), CHAINS_COMPARED
        )

    def _find_by_response(self, request: _ChainRequest, near_chains: list[_KnownChain]) -> _KnownChain | None:
        """Return the chain whose latest response a request names as the previous one, if their messages agree."""
        sender = request.sender
        candidates = reversed(self._chains.values()) if sender.previous else ()
        chain = next((chain for chain in candidates if chain.response == sender.previous), None)
        if chain is None or not chain.may_continue(request) or not chain.latest.sender.may_share_conversation(sender):
            return None
        agrees = request.prompt.partial or chain in near_chains or purpose.begins_with_summary(request.prompt)
        return chain if agrees or not len(chain.prompt.messages) else None

    @staticmethod
    def _find_by_messages(prompt: Prompt, near_chains: list[_KnownChain]) -> _KnownChain | None:
        """Return the chain whose messages are the longest prefix of a prompt's, else the latest that it rewrites."""
        rewritten: _KnownChain | None = None
        longest, best = (-1, False), None
        for chain in near_chains:
            previous = chain.prompt
            shared = previous.messages.common(prompt.messages)
            is_longest = shared == len(previous.messages) and shared >= longest[0]
            if is_longest and not _is_other_conversation(previous, prompt):
                fit = shared, likeness.has_same_head(previous, prompt)  # among equals the one with the same head
                longest, best = (fit, chain) if fit > longest else (longest, best)
            differs = shared < min(len(prompt.messages), len(previous.messages))
            if rewritten is None and differs and _is_rewritten(previous, prompt, shared):
                rewritten = chain
        return best or rewritten

    def _find_elsewhere(self, request: _ChainRequest, candidates: list[_KnownChain]) -> _KnownChain | None:
        """Return the chain that is continued in another session (it was resumed) or at another endpoint."""
        messages = request.prompt.messages
        for chain in candidates:
            previous_messages, sender = chain.prompt.messages, chain.latest.sender
            if previous_messages.common(messages) != len(previous_messages) or len(previous_messages) >= len(messages):
                continue
            is_session = bool(sender.session) and sender.may_share_conversation(request.sender)
            is_session = is_session or (sender.has_cache_key and request.sender.has_cache_key)
            # many conversations begin alike: in another session the shared messages must hold an answer of the model,
            # or the request the recorded reply, as a client may name another session (a cache key) in each request
            if is_session or any(map(likeness.is_model_message, previous_messages)):
                return chain
            if self._holds_reply(chain, request.prompt):
                return chain
        return None

    @staticmethod
    def _find_by_summary(request: _ChainRequest, recent: list[_KnownChain]) -> _KnownChain | None:
        """Return the conversation whose summary a request begins with."""
        prompt = request.prompt
        is_explicit = purpose.begins_with_summary(prompt)
        opening = list(islice(purpose.segments_before_answer(prompt.messages), _OPENING_SEGMENTS))
        headed = None if is_explicit else next(filter(purpose.has_summary_heading, opening), None)
        if not is_explicit and headed is None:
            return None
        is_sealed = any(map(purpose.is_sealed_summary, opening))
        candidates: list[_KnownChain] = []
        for chain in recent:
            previous = chain.prompt
            has_grown = len(previous.messages) < len(prompt.messages)
            session = request.sender.session
            is_session = bool(session) and chain.latest.sender.session == session
            if (has_grown and not (is_session and is_sealed)) or not likeness.has_kept_system(previous, prompt):
                continue
            is_form = is_explicit and purpose.is_template(list(previous.messages))
            if not is_form and (is_explicit or (headed is not None and purpose.retells(headed, previous.messages))):
                candidates.append(chain)
        parts = {part.data for part in purpose.segments_before_answer(prompt.messages) if part.kind != "envelope"}
        return max(
            candidates, key=lambda chain: len(parts & {part.data for part in chain.prompt.messages}), default=None
        )

    def _find_by_answer(self, request: _ChainRequest) -> _KnownChain | None:
        """Return the conversation whose latest answer is in a request that lacks something before it."""
        answers = list(_find_answers(request.prompt))
        by_answer = {chain.answer: chain for chain in self._chains.values()} if answers else {}
        for answer in answers:
            chain = by_answer.get(answer)
            if chain is None or not chain.may_continue(request) or not chain.is_near(request):
                continue
            old, messages = chain.prompt, request.prompt.messages
            if old.messages.common(messages) < len(messages) and likeness.has_kept_system(old, request.prompt):
                return chain
        return None

    def _find_given_up(self, request: _ChainRequest) -> str:
        """Return the name of the chain that a request restarts without tools; empty if it restarts none."""
        prompt = request.prompt
        if request.is_side_call or purpose.has_tools(prompt):
            return ""
        for chain in self._with_same_beginning(request):
            previous, is_turn = chain.prompt, not chain.latest.is_side_call
            is_near = previous.dialect == prompt.dialect and is_turn and chain.is_near(request)
            if not is_near or not _drops_tools(previous, prompt) or not likeness.has_same_system(previous, prompt):
                continue
            if previous.messages.common(prompt.messages) == len(previous.messages) < len(prompt.messages):
                return chain.name
        return ""


def _is_other_conversation(previous: Prompt, prompt: Prompt) -> bool:
    """Return whether equal messages begin another conversation: none is an answer, and another agent has this head.

    System and tools both differ, or one of them has nothing in common: as of a loop beside the main one.
    """
    if len(previous.messages) != len(prompt.messages) or any(map(likeness.is_model_message, prompt.messages)):
        return False
    tools = likeness.tools_of(previous), likeness.tools_of(prompt)
    if tools[0] != tools[1] and not likeness.has_same_system(previous, prompt):
        return True
    is_other_set = min(map(len, tools)) > 1 and {*map(tool_name, tools[0])}.isdisjoint(map(tool_name, tools[1]))
    return is_other_set or likeness.has_other_system(previous, prompt)


def _is_rewritten(previous: Prompt, prompt: Prompt, shared: int) -> bool:
    """Return whether a history was rewritten or summarised, rather than another conversation begins alike."""
    changed = islice(prompt.messages.since(shared), _SUMMARY_SEGMENTS)
    if any(map(purpose.is_summary, chained(changed, purpose.segments_before_answer(prompt.messages.since(shared))))):
        return not purpose.is_template(list(previous.messages.since(shared)))
    return not likeness.is_another_run(previous, prompt, shared)


def _drops_tools(previous: Prompt, prompt: Prompt) -> bool:
    """Return whether a request begins a user's turn without any of the previous tools."""
    return purpose.has_tools(previous) and not purpose.has_tools(prompt) and purpose.begins_user_turn(prompt)


def _find_answers(prompt: Prompt, *, backwards: bool = False) -> Iterator[bytes]:
    """Yield the first block of each answer of the model that is long enough to identify it."""
    size = len(prompt.messages)
    last = min(size, ANSWER_SEGMENTS)
    for place in range(size - 1, size - 1 - last, -1) if backwards else range(last):
        segment = prompt.messages[place]
        if not likeness.is_model_message(segment):
            continue
        for block in islice(prompt.messages.since(place), 1, 4):
            if block.kind == "envelope":
                break
            if len(block.data) >= likeness.DISTINCT:
                yield block.data
                break


# Which earlier request a prompt continues


class RequestEnd(Struct, eq=False):
    """Up to where a cache may hold a request's prompt (see `RequestEnds`)."""

    turn: Turn  # the latest request that ends there
    key: int  # the running hash of its segments
    size: int  # the number of these segments
    used: Turn  # the latest request that begins with them: a cache's lifetime counts from there


class _ChainEnd(Struct, eq=False):
    """A chain's latest request."""

    turn: Turn
    hashes: list[int]  # the running hash after each of its segments
    ends: list[RequestEnd] = []  # of requests that it passes


class RequestEnds:
    """Finds the earlier request, of any chain, with which a prompt shares more than with its own chain's last request.

    The end of a request is its last breakpoint, or without one its last segment before the tail: up to there a cache
    may hold it. A prompt passes the end of a request if it begins with all of its segments up to that end, and both
    have the same `cache_scope`. Of the ends that a prompt passes, the longest counts.

    Cost: O(segments that a request does not share with its chain's last one). Memory: the latest `ENDED_REQUESTS`
    requests, and a running hash for each segment of each chain's latest prompt.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[int, RequestEnd] = OrderedDict()
        self._chains: dict[str, _ChainEnd] = {}

    def add(self, turn: Turn) -> RequestEnd | None:
        """Add the next request, and return the longest end that its prompt passes (see the class).

        The end is returned as it was before this request: `used` is not this turn. None for the first request of a
        chain, and if the prompt passes no end with more segments than it shares with its chain's last request.
        """
        prompt, chain, scope = turn.prompt, self._chains.get(turn.chain), cache_scope(turn)
        shared = 0
        if chain is not None and cache_scope(chain.turn) == scope:
            previous = chain.turn.prompt
            shared = min(count_shared_segments(previous, prompt), previous.stable, prompt.stable)
        hashes = [] if chain is None else chain.hashes
        ends = [] if chain is None else [end for end in chain.ends if end.size <= shared]
        del hashes[shared:]
        running = hashes[-1] if hashes else hash(scope)
        continued: RequestEnd | None = None  # the furthest end of another request among the new segments
        for size, segment in enumerate(iterate_from(prompt, shared, tail=False), shared + 1):
            running = hash((running, segment))
            hashes.append(running)
            end = self._ends.get(running)
            if end is not None and end.size == size and count_shared_segments(end.turn.prompt, prompt) >= size:
                continued = end
        earlier = None if continued is None else copy(continued)  # as it was before this request used it
        ends += [] if continued is None else [continued]
        limit = count_cached_segments(prompt)
        if limit:
            key = hashes[limit - 1]
            end = self._ends.pop(key, None) or RequestEnd(turn, key, limit, turn)
            end.turn = turn  # of an equal request: chains that pass its end note when it was used
            self._ends[key] = end
            ends = [*(other for other in ends if other is not end), end]
            if len(self._ends) > ENDED_REQUESTS:
                self._ends.popitem(last=False)
        ends = ends[-_ENDS_OF_CHAIN:]
        for end in ends:
            end.used = turn
        self._chains[turn.chain] = _ChainEnd(turn, hashes, ends)
        return None if chain is None else earlier

    def forget(self, chains: Iterable[str]) -> None:
        """Forget the latest prompts of these chains, to free memory; the ends of their requests stay."""
        for chain in chains:
            self._chains.pop(chain, None)


def cache_scope(turn: Turn) -> tuple[str | None, ...]:
    """Return the fields that select a cache: model asked for, dialect, endpoint, account, provider, deployment, region.

    Of the endpoint, query, model and the word for streaming are left out. A missing value is an empty text, for
    the model None, and so the same for all.
    """
    call, prompt = turn.call, turn.prompt
    return prompt.model, prompt.dialect, place_in(call.endpoint), call.account, *call.answerer


def _count_kept_end(previous: Prompt, current: Prompt) -> int:
    """Return how many segments end one prompt's messages and begin the other's: whole messages, the longest such part.

    0 if there are none, or if nothing was removed before them. Costs O(segments), also if all are equal
    (Knuth-Morris-Pratt).
    """
    old = list(previous.messages)
    new = [segment.data for segment in islice(current.messages, max(0, len(old) - 1))]
    shorter = [0]  # for each number of segments that begin `new`: the longest other beginning that ends them

    def extend(kept: int, data: bytes) -> int:
        while kept and (kept == len(new) or new[kept] != data):
            kept = shorter[kept]
        return kept + 1 if new and new[kept] == data else 0

    for number, data in enumerate(new):
        shorter.append(extend(shorter[number], data) if number else 0)
    kept = 0
    for segment in old[1:]:
        kept = extend(kept, segment.data)
    while kept and old[-kept].kind != "envelope":
        kept = shorter[kept]
    return kept
