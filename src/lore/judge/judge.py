"""The judge of one recording: turns in, one verdict a turn out, and findings about whole chains.

`Judge.turn` takes four steps:
1. It passes a transcript's turn to the predictor, which follows the log before it reads the turn's usage
   (`lore.cache.transcripts`). Every command does this, so that all of them see the same evidence.
2. It compares the turn with an earlier one (`chains`), which finds the causes of a break and their cost (`pairs`).
3. It corrects the pair: losses that cost nothing, prices, values that alternate (`pairs.corrections`).
4. It passes turn and pair to the rules about whole chains and about the recording (`runs`, `requests.laws`).

`rules` lists all rules, in the order in which they are asked, and why each is right. Not safe to share between threads.
The cost of a turn is O(its new content).
"""

from __future__ import annotations

from collections import defaultdict
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
        self._recording_rules: list[TurnRule] = [row.ask(self._shared) for row in catalogue.RECORDINGS]
        self.turns = 0

    @property
    def chain_count(self) -> int:

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
            for row in catalogue.CORRECTIONS:
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
        if counts_tokens(turn.call):
            return
        is_recorded = turn.basis is None  # the prompt was sent like this, and not rebuilt from a log
        if turn.chain not in self._chain_rules:
            rows = [row for row in catalogue.CHAINS if is_recorded or not row.recorded]
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
        findings = [result for rule in self._chain_rules.pop(chain, ()) for result in rule.findings(place)]
        if any(result.code == Code.BREAKPOINTS_MISSING for result in findings):  # that reports the same prompt
            return [result for result in findings if result.code != Code.PROMPT_UNDER_MINIMUM]
        return findings
