"""The judge of one recording: turns in, one verdict a turn out, and findings about whole chains.

The loop is `Judge.turn`. For each turn it
1. asks what the log shows of the cache before the turn's usage is read (transcripts: `lore.cache.transcripts`),
2. picks the earlier turn that it is compared with (`chains`),
3. finds the causes: in both requests as a whole, their bytes and the log (`verdict`, `lore.prefix.causes`), and of a
   read that fell by the table in `attribution`, in which each rule has its count and source,
4. removes what costs nothing because the prompt is too short to be cached, and adds prices,
5. passes the verdict to the rules that follow whole chains (`laws`, `reads`, `plateaus`), and the first request of a
   chain to one that compares chains (`siblings`).

Transcripts are followed whoever predicts, so that every command sees the same evidence. Not safe to share between
threads. The cost of a turn is O(its new content).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lore.cache import counts
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.served import cache_of, is_transcript, served_by
from lore.judge.base import TurnRule, TurnVerdict, price_of
from lore.judge.chains.recording import ComparedChains
from lore.judge.pairs.corrections import (
    Alternation,
    add_costs,
    drop_loss_below_minimum,
    drop_unread_below_minimum,
    excuse_small_loss,
)
from lore.judge.pairs.pair import Pair
from lore.judge.requests.laws import Laws
from lore.judge.requests.lint import Linter
from lore.judge.runs.plateaus import Plateaus
from lore.judge.runs.reads import Beside, ReadShort, Unread
from lore.judge.runs.siblings import Siblings
from lore.model.cause import Place
from lore.model.codes import Code
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.purpose import counts_tokens

if TYPE_CHECKING:
    from lore.cache.predictor import Transcripts
    from lore.cache.transcripts import Predicted

DAY = 86_400.0  # seconds
PACE = 600.0  # seconds that a chain has to last before its cost a day is reported


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
        self._tolerance = tolerance  # the share of a prompt by which a read may fall short of its prediction
        self._quick = quick  # no pair is made of a turn that extends the previous one and read all of it
        self._labels = labels  # beginnings of a program's own text, in addition to lore's list
        self._chains = ComparedChains(rules)
        self._transcripts: Transcripts | None = None
        self._rules: dict[str, list[TurnRule]] = {}  # by chain
        self._beside = Beside()  # what the rules of chains share, as the next two
        self._linter = Linter(rules, labels)
        self._advised: set[tuple[object, ...]] = set()  # what lint says of a request, once a recording
        self._siblings = Siblings(rules)
        self._alternations: dict[str, Alternation] = {}  # by chain
        self._cached: dict[str, int | None] = {}  # by chain: tokens that its latest request left in the cache
        self._paces: dict[str, tuple[float, int]] = {}  # by chain: when it began, and the tails replaced since then
        self.turns = 0

    @property
    def chains(self) -> int:
        """How many chains there were so far."""
        return self._chains.seen

    def turn(self, turn: Turn, foreseen: Predicted | None = None) -> TurnVerdict:
        """Judge the next turn; a prediction by any cache may be passed that was made before its usage was read."""
        self.turns += 1
        transcripts = self._follow(turn, foreseen)
        state_of = (lambda: None) if transcripts is None else transcripts.state
        pair, extends = self._chains.compare(turn, state_of, quick=self._quick)
        if foreseen is None and transcripts is not None:
            foreseen = transcripts.latest  # it is only made if the read fell
        if turn.basis is None and turn.at is not None:
            self._paces.setdefault(turn.chain, (turn.at, 0))
        if pair is not None:
            pair = drop_loss_below_minimum(pair, self._dated)
            if counts.first_pass_read(turn.usage) == 0 and is_transcript(turn):
                pair = drop_unread_below_minimum(pair, minimum_tokens(self._dated(), pair.left))
            pair = self._priced(turn, excuse_small_loss(pair))
            pair = self._alternations.setdefault(turn.chain, Alternation()).mark(pair)
        self._apply_rules(turn, pair)
        usage, cached, odd = turn.usage, self._cached.get(turn.chain), foreseen is not None and foreseen.odd
        is_doubted = odd or counts.self_contradiction(usage)
        self._cached[turn.chain] = None if usage is None or is_doubted else counts.position(usage)
        return TurnVerdict(turn, pair, compared=extends or pair is not None, foreseen=foreseen, cached=cached)

    def _follow(self, turn: Turn, foreseen: Predicted | None) -> Transcripts | None:
        """Add a transcript's turn, and return the object that predicts it on demand; None for a recorded request."""
        if not is_transcript(turn):
            return None
        transcripts = self._transcripts
        if transcripts is None:
            from lore.cache.predictor import Transcripts  # noqa: PLC0415 - request bodies need none

            transcripts = self._transcripts = Transcripts(self._dated)
        # a prediction for another cache than the one that served the turn says nothing here
        is_own = foreseen is not None and foreseen.state and foreseen.cache == cache_of(turn, served_by(turn))
        transcripts.take(turn, foreseen if is_own else None)
        return transcripts

    def _apply_rules(self, turn: Turn, pair: Pair | None) -> None:
        if counts_tokens(turn.call):
            return
        if turn.chain not in self._rules:
            rules, beside = self._dated, self._beside
            self._rules[turn.chain] = [Plateaus(rules)]
            if turn.basis is None:  # the prompt was sent like this, and not rebuilt from a log
                self._siblings.add(turn, is_charged=pair is not None and pair.is_break)
                self._rules[turn.chain] += [
                    Laws(rules, self._labels, self._linter, self._advised),
                    ReadShort(rules, self._tolerance, beside), Unread(beside),
                ]  # fmt: skip
        for rule in self._rules[turn.chain]:
            rule.turn(turn, pair)

    def _priced(self, turn: Turn, pair: Pair) -> Pair:
        """Return the pair with prices if tokens were lost, and with the daily cost of a replaced tail."""
        daily = self._tails_a_day(turn, pair)
        lost = TurnVerdict(turn, pair).lost_tokens
        price = price_of(self._dated(), turn) if daily or (turn.usage is not None and lost) else None
        if price is None:
            return pair
        causes = tuple([add_costs(cause, price, daily, turn.usage, lost) for cause in pair.causes])
        return replace(pair, causes=causes, price=price)

    def _tails_a_day(self, turn: Turn, pair: Pair) -> float:
        """Return how many tails the chain replaces a day; 0 if it is too short to tell."""
        pace = self._paces.get(turn.chain)
        if pace is None or turn.at is None or all(cause.code != Code.TAIL_REPLACED for cause in pair.causes):
            return 0.0
        began, tails = pace[0], pace[1] + 1
        self._paces[turn.chain] = began, tails
        lasted = turn.at - began
        return tails / lasted * DAY if lasted >= PACE else 0.0

    def forget(self, chains: Iterable[str], place: Place) -> list[Finding]:
        """Forget chains that no turn will continue; return the findings about them."""
        found: list[Finding] = []
        for chain in chains:
            self._chains.forget(chain)
            self._paces.pop(chain, None)
            self._alternations.pop(chain, None)
            self._cached.pop(chain, None)
            found += self._findings(chain, place)
        return found

    def finish(self, place: Place) -> list[Finding]:
        """Return the findings about the remaining chains, and between chains, when there are no more turns."""
        found = [finding for chain in list(self._rules) for finding in self._findings(chain, place)]
        return [*found, *self._siblings.findings(place)]

    def _findings(self, chain: str, place: Place) -> list[Finding]:
        found = [result for rule in self._rules.pop(chain, ()) for result in rule.findings(place)]
        if any(result.code == Code.BREAKPOINTS_MISSING for result in found):  # that reports the same prompt
            return [result for result in found if result.code != Code.PROMPT_UNDER_MINIMUM]
        return found
