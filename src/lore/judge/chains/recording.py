"""The chains of one recording: each turn is compared in its own chain, and some with other chains.

A turn continues the last one of its chain, an earlier request (`lore.prefix.chains`), or a conversation that was given
up for it. If its chain is new, it is compared with other chains (`starts`). A call that is recorded twice is judged
once.

Memory: a chain each (`chain`), the last request of each, the response ids of 4,096 calls.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules
from lore.judge import rules
from lore.judge.chains import starts
from lore.judge.chains.chain import Compared, ComparedChain, StateOf
from lore.judge.pairs.pair import Pair
from lore.judge.pairs.rewrites import cut_messages
from lore.model.codes import Code
from lore.model.turn import Turn
from lore.prefix.chains import RequestEnds

_COPIES = 4096  # calls of a recording by which a copy of one is recognised
_ELSEWHERE = (Code.ENDPOINT_CHANGED, Code.ROUTED_ELSEWHERE)  # the request went to one of several caches


class ComparedChains:
    """Compares the turns of one recording; `chain_count` is the number of its chains so far."""

    def __init__(self, dated: Callable[[], DatedRules]) -> None:
        self.dated = dated
        self._chains: dict[str, ComparedChain] = {}
        self.latest: dict[str, Turn] = {}  # the last recorded request of each chain
        # First requests of recorded chains, without their messages, and of a log's chains; the latest last.
        self.starts, self.log_starts = deque[Turn](maxlen=starts.SIBLINGS), deque[Turn](maxlen=starts.SIBLINGS)
        self._ends = RequestEnds()  # recorded requests that a later one may continue
        self._calls: OrderedDict[tuple[str, float, int], str] = OrderedDict()  # the latest calls, and their chains
        self.chain_count = 0

    def compare(self, turn: Turn, state_of: StateOf = lambda: None, *, quick: bool = False) -> Compared:
        """Judge the next turn against the one that it is compared with; `quick`: without measuring, if that is safe."""
        chain = self._chains.get(turn.chain)
        is_new = chain is None
        if chain is None:
            chain = self._begin(turn)
        elif quick and (extension := chain.try_compare_extension(turn, state_of)) is not None:
            return extension
        if turn.basis is not None or turn.failed:
            pair = chain.compare_next(turn, state_of)
        else:
            previous, self.latest[turn.chain] = self.latest.get(turn.chain), turn
            if self._skip_copy(chain, previous, turn):
                return Compared()
            pair = self._compare_request(chain, previous, turn, state_of)
            pair = self._compare_with_others(rules.SUMMARY_REQUESTS, turn) or pair
        if pair is None and is_new:
            pair = self._compare_with_others(rules.FIRST_TURNS, turn)
        return Compared(pair)

    def _compare_with_others(self, rows: tuple[rules.Step, ...], turn: Turn) -> Pair | None:
        """Return the verdict of the first row that finds one in another chain."""
        pairs: Iterator[Pair | None] = (row.ask(self, turn) for row in rows)
        return next((pair for pair in pairs if pair is not None), None)

    def forget(self, name: str) -> None:
        """Forget a chain that no turn will continue."""
        self._chains.pop(name, None)
        self.latest.pop(name, None)
        self._ends.forget([name])

    def _begin(self, turn: Turn) -> ComparedChain:
        """Begin a chain, with the turn of another chain that its first turn is compared with."""
        chain = self._chains[turn.chain] = ComparedChain(self.dated)
        self.chain_count += 1
        if turn.basis is not None and starts.may_be_read(turn):
            self.log_starts.append(turn)
        if turn.basis is not None or turn.failed:
            return chain
        previous = self.latest.get(turn.given_up)
        if previous is not None:
            chain.compare_next(previous)
        if turn.prompt.head:  # only tools and system prompt, which it may share with others
            self.starts.append(replace(turn, source=cut_messages(turn.prompt, 0)))
        return chain

    def _compare_request(
        self, chain: ComparedChain, previous: Turn | None, turn: Turn, state_of: StateOf
    ) -> Pair | None:  # fmt: skip
        """Return the verdict on a recorded request of a chain; `previous` is the chain's last one.

        A request may continue the last one's messages with tools and system prompt of an earlier one. Then it read what
        that one left; the messages in between were sent with the other head, so that they are billed again.
        """
        end, read, flips = self._ends.add(turn), counts.first_pass_read(turn.usage), False
        left = 0 if end is None else counts.cached(end.turn.usage) or 0
        if previous is not None and end is not None and read is not None and read >= left:
            tokens = (counts.cached if counts.bills_writes(previous) else counts.prompt_tokens)(previous.usage) or 0
            shared, size = previous.prompt.messages, len(end.turn.prompt.messages)
            is_same = size < len(shared) == shared.common(turn.prompt.messages)
            flips = tokens - read > 2 * counts.block_tokens(previous) and is_same
        pair = chain.compare_next(turn, state_of, None if flips else end)
        if flips and pair is not None:  # usage shows more than these bytes share
            causes = [cause for cause in pair.causes if cause.code != Code.VERDICT_DISAGREES]
            causes = [
                entry if entry.code in _ELSEWHERE else replace(entry, qualifiers=(*entry.qualifiers, "alternates"))
                for entry in causes
            ]
            pair = replace(pair, causes=tuple(causes))
        for row in rules.ANSWERS if pair is not None else ():
            pair = row.ask(pair)
        return pair

    def _skip_copy(self, chain: ComparedChain, previous: Turn | None, turn: Turn) -> bool:
        """Return whether a call was recorded before: the same response to a prompt of equal length; remember it.

        A mocked client gives every response the same id, so the length of the prompt, or the time, must be equal, too.
        """
        if not turn.response_id:
            return False
        answer = turn.response_id, len(turn.prompt)
        if previous is not None and (previous.response_id, len(previous.prompt)) == answer:
            return True
        if turn.at is None:
            return False
        key = turn.response_id, turn.at, len(turn.prompt)
        original = self._calls.get(key)
        if original is None:
            self._calls[key] = turn.chain
            if len(self._calls) > _COPIES:
                self._calls.popitem(last=False)
            return False
        if original != turn.chain:
            chain.compare_next(turn)  # the next request may continue it
        return True

    def compare_alone(self, previous: Turn, turn: Turn) -> Pair | None:
        """Return the verdict on two turns as if they were a chain."""
        chain = ComparedChain(self.dated)
        chain.compare_next(previous)
        return chain.compare_next(turn)

    def ends_of(self, name: str) -> list[Turn]:
        """Return a chain's latest turn, and those before compactions; empty for no chain."""
        chain = self._chains.get(name)
        return [] if chain is None else chain.ends
