"""The judge of one recording: turns in, one verdict a turn out, and findings about whole chains.

The loop is `Judge.turn`. For each turn it
1. follows what the log shows of the cache before the turn's usage is read (transcripts: `lore.cache.transcripts`),
2. compares the turn with an earlier one (`chains`), which finds the causes of a break and their cost (`pairs`),
3. corrects the verdict: what cost nothing, prices, values that alternate (`pairs.corrections`),
4. passes the verdict to the rules that follow whole chains and the recording (`runs`, `requests.laws`).

Which rules there are, in which order they are tried, and why, is in `rules`. Transcripts are followed in any case,
so that every command sees the same evidence. Not safe to share between threads. The cost of a turn is O(its new
content).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lore.cache import counts
from lore.cache.rules import DatedRules
from lore.cache.served import cache_of, is_transcript, served_by
from lore.judge import rules as catalogue
from lore.judge.base import TurnRule, TurnVerdict
from lore.judge.chains.recording import ComparedChains
from lore.judge.pairs.corrections import ChainState
from lore.judge.pairs.pair import Pair
from lore.judge.requests.lint import Linter
from lore.judge.runs.reads import Shared
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.purpose import counts_tokens

if TYPE_CHECKING:
    from lore.cache.predictor import LazyTranscriptPredictor
    from lore.cache.transcripts import Predicted


class Judge:
    """Judge the turns of one recording.

    judge = Dated().judge()
    verdicts = [judge.turn(turn) for turn in recording.turns()]
    findings = judge.finish(Place("session.jsonl"))
    """

    def __init__(
        self, rules: Callable[[], DatedRules], *, tolerance: float = 0.02, quick: bool = False,
        labels: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._dated = rules  # returns the dated rules; called when they are first needed
        self._quick = quick  # no pair is made of a turn that extends the previous one and read all of it
        self._chains = ComparedChains(rules)
        self._transcripts: LazyTranscriptPredictor | None = None
        self._states: dict[str, ChainState] = {}  # by chain
        self._shared = Shared(rules, Linter(rules, labels), tolerance, labels)
        self._rules: dict[str, list[TurnRule]] = {}  # by chain
        self._between: list[TurnRule] = [row.ask(self._shared) for row in catalogue.RECORDINGS]
        self.turns = 0

    @property
    def chains(self) -> int:
        return self._chains.chain_count

    def turn(self, turn: Turn, predicted: Predicted | None = None) -> TurnVerdict:
        """Judge the next turn; a prediction by any cache may be passed that was made before its usage was read."""
        self.turns += 1
        transcripts = self._follow(turn, predicted)
        state_of = (lambda: None) if transcripts is None else transcripts.state
        pair, extends = self._chains.compare(turn, state_of, quick=self._quick)
        if predicted is None and transcripts is not None:
            predicted = transcripts.latest  # it is only made if the read fell
        state = self._states.get(turn.chain)
        if state is None:
            state = self._states[turn.chain] = ChainState(self._dated)
        if state.began is None and turn.basis is None:
            state.began = turn.at
        if pair is not None:
            for row in catalogue.CORRECTIONS:
                pair = row.ask(pair, state)
        self._apply_rules(turn, pair)
        usage, cached = turn.usage, state.cached
        is_doubted = (predicted is not None and predicted.doubt) or counts.self_contradiction(usage)
        state.cached = None if usage is None or is_doubted else counts.position(usage)
        return TurnVerdict(turn, pair, compared=extends or pair is not None, predicted=predicted, cached=cached)

    def _follow(self, turn: Turn, predicted: Predicted | None) -> LazyTranscriptPredictor | None:
        """Add a transcript's turn, and return the object that predicts it on demand; None for a recorded request."""
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
        if counts_tokens(turn.call):
            return
        is_recorded = turn.basis is None  # the prompt was sent like this, and not rebuilt from a log
        if turn.chain not in self._rules:
            rows = [row for row in catalogue.CHAINS if is_recorded or not row.recorded]
            self._rules[turn.chain] = [row.ask(self._shared) for row in rows]
            for rule in self._between if is_recorded else ():
                rule.turn(turn, pair)
        for rule in self._rules[turn.chain]:
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
        """Return the findings about the remaining chains, and between chains, when there are no more turns."""
        findings = [finding for chain in list(self._rules) for finding in self._findings(chain, place)]
        return [*findings, *(finding for rule in self._between for finding in rule.findings(place))]

    def _findings(self, chain: str, place: Place) -> list[Finding]:
        findings = [result for rule in self._rules.pop(chain, ()) for result in rule.findings(place)]
        if any(result.code == Code.BREAKPOINTS_MISSING for result in findings):  # that reports the same prompt
            return [result for result in findings if result.code != Code.PROMPT_UNDER_MINIMUM]
        return findings
