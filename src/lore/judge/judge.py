"""The judge of one recording: turns in, one verdict a turn out, and findings about whole chains.

`Judge.turn` takes four steps:
1. It passes a transcript's turn to the predictor, which follows the log before it reads the turn's usage
   (`lore.cache.transcripts`). Every command does this, so that all of them see the same evidence.
2. It compares the turn with an earlier one (`ComparedChains`): with the last one of its chain, an earlier request
   (`lore.prefix.chains`), or a conversation that was given up for it; the first turn of a chain with other chains
   (`chains.starts`). That finds the causes of a break and their cost (`pairs`).
3. It corrects the pair: losses that cost nothing, prices, values that alternate (`pairs.corrections`).
4. It passes turn and pair to the rules about whole chains and about the recording (`runs`, `requests.laws`).

`rules` lists all rules, in the order in which they are asked, and why each is right. Not safe to share between threads.
The cost of a turn is O(its new content).
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules
from lore.cache.served import cache_of, is_transcript, served_by
from lore.judge import rules as catalogue
from lore.judge.base import TurnRule, TurnVerdict
from lore.judge.chains import starts
from lore.judge.chains.chain import Compared, ComparedChain
from lore.judge.chains.memory import StateOf
from lore.judge.pairs.corrections import ChainState
from lore.judge.pairs.pair import Pair
from lore.judge.pairs.rewrites import cut_messages
from lore.judge.requests.lint import Linter
from lore.judge.runs.reads import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.chains import RequestEnds

if TYPE_CHECKING:
    from lore.cache.predictor import LazyTranscriptPredictor
    from lore.cache.transcripts import Predicted

_COPIES = 4096  # calls of a recording by which a copy of one is recognised
_ELSEWHERE = (Code.ENDPOINT_CHANGED, Code.ROUTED_ELSEWHERE)  # the request went to one of several caches


class Judge:
    """Judge the turns of one recording.

    judge = Dated().judge()
    verdicts = [judge.turn(turn) for turn in recording.turns()]
    findings = judge.finish(Place("session.jsonl"))

    `rules` returns the dated rules, and is called when they are first needed. A read may fall short of its prediction
    by `tolerance`, a share of the prompt. With `quick` no pair is made of a turn that extends the previous one and read
    all of it. `labels` are beginnings of a program's own text, in addition to lore's list.
    """

    def __init__(
        self, rules: Callable[[], DatedRules], *, tolerance: float = 0.02, quick: bool = False,
        labels: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._dated, self._quick = rules, quick
        self._chains = ComparedChains(rules)
        self._transcripts: LazyTranscriptPredictor | None = None
        self._states = defaultdict[str, ChainState](lambda: ChainState(rules))  # of the corrections, by chain
        self._shared = Shared(rules, Linter(rules, labels), tolerance, labels)
        self._chain_rules: dict[str, list[TurnRule]] = {}  # by chain
        self._recording_rules: list[TurnRule] = [row.ask(self._shared) for row in catalogue.RECORDINGS.rows]
        self.turns = 0

    @property
    def chain_count(self) -> int:
        """How many chains the recording has so far."""
        return self._chains.chain_count

    def turn(self, turn: Turn, predicted: Predicted | None = None) -> TurnVerdict:
        """Judge the next turn; `predicted` is a prediction for any cache, made before the turn's usage was read."""
        self.turns += 1
        transcripts = self._follow_transcript(turn, predicted)
        state_of = (lambda: None) if transcripts is None else transcripts.state
        pair, extends = self._chains.compare(turn, state_of, quick=self._quick)
        if predicted is None and transcripts is not None:
            predicted = transcripts.latest  # it is only made if the read fell
        state = self._states[turn.chain]
        if state.began is None and turn.basis is None:
            state.began = turn.at
        if pair is not None:
            for row in catalogue.CORRECTIONS.rows:
                pair = row.ask(pair, state)
        self._apply_rules(turn, pair)
        usage, cached = turn.usage, state.cached
        is_doubted = (predicted is not None and predicted.doubt) or counts.self_contradiction(usage)
        state.cached = None if usage is None or is_doubted else counts.position(usage)
        return TurnVerdict(turn, pair, compared=extends or pair is not None, predicted=predicted, cached=cached)

    def _follow_transcript(self, turn: Turn, predicted: Predicted | None) -> LazyTranscriptPredictor | None:
        """Pass a transcript's turn to the predictor, and return the predictor; None for a recorded request."""
        if not is_transcript(turn):
            return None
        transcripts = self._transcripts
        if transcripts is None:
            from lore.cache.predictor import LazyTranscriptPredictor  # noqa: PLC0415 - request bodies need none

            transcripts = self._transcripts = LazyTranscriptPredictor(self._dated)
        # a prediction for another cache than the one that served the turn is of no use here
        is_own = predicted is not None and predicted.state and predicted.cache == cache_of(turn, served_by(turn))
        transcripts.take(turn, predicted if is_own else None)
        return transcripts

    def _apply_rules(self, turn: Turn, pair: Pair | None) -> None:
        if turn.is_hidden:
            return
        is_recorded = turn.basis is None  # the prompt was sent like this, and not rebuilt from a log
        if turn.chain not in self._chain_rules:
            rows = [row for row in catalogue.CHAINS.rows if is_recorded or not row.recorded]
            self._chain_rules[turn.chain] = [row.ask(self._shared) for row in rows]
            for rule in self._recording_rules if is_recorded else ():
                rule.turn(turn, pair)
        for rule in self._chain_rules[turn.chain]:
            rule.turn(turn, pair)

    def forget(self, chains: Iterable[str], place: Place) -> list[Finding]:
        """Forget chains that no turn will continue; return the findings about them."""
        findings: list[Finding] = []
        for chain in chains:
            self._chains.forget(chain)
            self._states.pop(chain, None)
            findings += self._findings(chain, place)
        return findings

    def finish(self, place: Place) -> list[Finding]:
        """Return the findings about the remaining chains and about the recording, when there are no more turns."""
        findings = [finding for chain in list(self._chain_rules) for finding in self._findings(chain, place)]
        return [*findings, *(finding for rule in self._recording_rules for finding in rule.findings(place))]

    def _findings(self, chain: str, place: Place) -> list[Finding]:
        return [result for rule in self._chain_rules.pop(chain, ()) for result in rule.findings(place)]


class ComparedChains:
    """Compares the turns of one recording; `chain_count` is the number of its chains so far.

    A call that is recorded twice is judged once. Memory: a chain each, the last request of each, and the response ids
    of 4,096 calls.
    """

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
        elif turn.is_hidden:
            return Compared()
        else:
            previous, self.latest[turn.chain] = self.latest.get(turn.chain), turn
            original = self._chain_of_original(previous, turn)
            if original is not None:
                if original != turn.chain:
                    chain.compare_next(turn)  # the next request may continue it
                return Compared()
            pair = self._compare_request(chain, previous, turn, state_of)
            pair = self._compare_with_others(catalogue.SUMMARY_REQUESTS, turn) or pair
        if pair is None and is_new:
            pair = self._compare_with_others(catalogue.FIRST_TURNS, turn)
        return Compared(pair)

    def _compare_with_others(self, stage: catalogue.Stage[catalogue.Step], turn: Turn) -> Pair | None:
        """Return the verdict of the first row that finds one in another chain."""
        pairs: Iterator[Pair | None] = (row.ask(self, turn) for row in stage.rows)
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
        """Return the verdict on a recorded request of a chain; `previous` is the chain's last one."""
        end = self._ends.add(turn)
        alternates = previous is not None and end is not None and _has_head_of_earlier(previous, end.turn, turn)
        pair = chain.compare_next(turn, state_of, None if alternates else end)
        if alternates and pair is not None:  # usage shows more than these bytes share
            causes = [
                cause if cause.code in _ELSEWHERE else replace(cause, qualifiers=(*cause.qualifiers, "alternates"))
                for cause in pair.causes if cause.code != Code.VERDICT_DISAGREES
            ]  # fmt: skip
            pair = replace(pair, causes=tuple(causes))
        for row in catalogue.ANSWERS.rows if pair is not None else ():
            pair = row.ask(pair)
        return pair

    def _chain_of_original(self, previous: Turn | None, turn: Turn) -> str | None:
        """Return the chain in which the same call was recorded before, None if in none; remember the call.

        It has the same response and a prompt of equal length. A mocked client gives every response the same id, so the
        call has to be the previous one, or sent at the same time.
        """
        if not turn.response_id:
            return None
        answer = turn.response_id, len(turn.prompt)
        if previous is not None and (previous.response_id, len(previous.prompt)) == answer:
            return turn.chain
        if turn.at is None:
            return None
        key = turn.response_id, turn.at, len(turn.prompt)
        original = self._calls.get(key)
        if original is None:
            self._calls[key] = turn.chain
            if len(self._calls) > _COPIES:
                self._calls.popitem(last=False)
        return original

    def compare_alone(self, previous: Turn, turn: Turn) -> Pair | None:
        """Return the verdict on two turns as if they were a chain."""
        chain = ComparedChain(self.dated)
        chain.compare_next(previous)
        return chain.compare_next(turn)

    def ends_of(self, name: str) -> list[Turn]:
        """Return a chain's latest turn, and those before compactions; empty for no chain."""
        chain = self._chains.get(name)
        return [] if chain is None else chain.ends


def _has_head_of_earlier(previous: Turn, earlier: Turn, turn: Turn) -> bool:
    """Return whether a request continues the previous one's messages with tools and system prompt of an earlier one.

    Then it read what that one left; the messages in between were sent with the other head, so that they are billed
    again.
    """
    read = counts.first_pass_read(turn.usage)
    if read is None or read < (counts.cached(earlier.usage) or 0):
        return False
    tokens = (counts.cached if counts.bills_writes(previous) else counts.prompt_tokens)(previous.usage) or 0
    if tokens - read <= 2 * counts.block_tokens(previous):
        return False
    messages = previous.prompt.messages
    return len(earlier.prompt.messages) < len(messages) == messages.common(turn.prompt.messages)
