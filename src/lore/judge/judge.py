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
from lore.cache.prices import MILLION, Price
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.served import cache_of, is_transcript, served_by
from lore.judge.base import TurnRule, TurnVerdict, paid_again, price_of
from lore.judge.chains.chain import ComparedChains
from lore.judge.pairs.pair import Pair, is_remark, lost_tokens
from lore.judge.pairs.verdict import Alternation
from lore.judge.requests.laws import Laws
from lore.judge.requests.lint import Linter
from lore.judge.requests.request_laws import MOST, UNDERRATED, needs_breakpoints
from lore.judge.runs.plateaus import Plateaus
from lore.judge.runs.reads import Beside, ReadShort, Unread
from lore.judge.runs.siblings import Siblings
from lore.model.cause import Cause, Place, Qualifier
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.evidence import ColdCompaction, NothingRead, ProviderSaid, TailReplaced
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.purpose import counts_tokens

if TYPE_CHECKING:
    from lore.cache.predictor import Transcripts
    from lore.cache.transcripts import Predicted

DAY = 86_400.0  # seconds
PACE = 600.0  # seconds that a chain has to last before its cost a day is reported
HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)


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
                self._siblings.add(turn)
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
        causes = tuple([_add_costs(cause, price, daily, turn.usage, lost) for cause in pair.causes])
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


def _add_costs(cause: Cause, price: Price, daily: float, usage: Usage | None, lost: int | None) -> Cause:
    """Return the cause with dollars in its evidence, if it is a replaced tail or a cold compaction.

    A tail gets its cost a day at `daily` replaced tails a day (0: unknown). A compaction that was requested
    after the cache had expired ("cold") gets its cost, and the cost if the `lost` tokens had been read ("warm").
    """
    evidence = cause.evidence
    if isinstance(evidence, TailReplaced) and daily and price.uncached is not None:
        dollars = round(evidence.tokens * (daily * float(price.uncached / MILLION)), 6)
        return replace(cause, evidence=replace(evidence, dollars_a_day=dollars))
    if not isinstance(evidence, ColdCompaction) or usage is None or usage.iterations:
        return cause
    paid = price.of(replace(usage, output_tokens=0, server_tools=()))
    again = paid_again(price, usage, lost)
    if paid is None or again is None:
        return cause
    warm = round(float(paid) - again, 6)
    return replace(cause, evidence=replace(evidence, dollars=round(float(paid), 6), warm_dollars=warm))


def drop_loss_below_minimum(pair: Pair, rules: Callable[[], DatedRules]) -> Pair:
    """Return the pair without a loss if one of the prompts is shorter than its model caches, or nothing was marked.

    Usage says how long a prompt was, and whether it was cached all the same. Without usage it is estimated from bytes,
    with a margin.
    """
    if not pair.is_break:
        return pair
    if _is_unmarked(pair):
        return replace(pair, causes=tuple([
            cause if is_remark(cause) or cause.kind == "expected"
            else replace(cause, lost=0, override="expected", qualifiers=(*cause.qualifiers, "nothing-lost"))
            for cause in pair.causes
        ]))  # fmt: skip
    least = minimum_tokens(rules(), pair.left) or 0
    if counts.cached(pair.left.usage) and counts.prompt_tokens(pair.left.usage) < least:
        return pair
    for turn, size in ((pair.left, pair.bytes.previous), (pair.right, pair.bytes.current)):
        billed = counts.prompt_tokens(turn.usage)
        tokens = billed or size / counts.BYTES_PER_TOKEN * UNDERRATED
        if not 0 < tokens < MOST or counts.cached(turn.usage) or tokens >= (minimum_tokens(rules(), turn) or 0):
            continue
        if not billed and (turn.basis is not None or turn.prompt.partial or counts.has_unseen(turn.prompt)):
            continue  # its bytes are not all of it
        causes = tuple([
            replace(cause, lost=0) if is_remark(cause) or cause.kind == "expected"
            else replace(cause, lost=0, qualifiers=(*cause.qualifiers, "under-minimum"))
            for cause in pair.causes
        ])  # fmt: skip
        return replace(pair, causes=causes, uncacheable=True)
    return pair


def _is_unmarked(pair: Pair) -> bool:
    """Return whether the cache needs breakpoints, the previous request has none, and usage shows nothing cached."""
    prompt = pair.left.prompt
    if any(counts.cached(turn.usage) != 0 for turn in (pair.left, pair.right)) or counts.bills_writes(pair.left):
        return False
    if prompt.breakpoints or prompt.auto_breakpoint or prompt.fidelity not in ("wire", "parsed"):
        return False  # a normalised body has lost its breakpoints
    return needs_breakpoints(pair.left)


SMALL = 0.01  # the share of a prompt whose loss is no more than worth a note


def excuse_small_loss(pair: Pair) -> Pair:
    """Return the pair with expected causes if usage shows that it lost less than a block, or 1 % of the prompt.

    Only usage that reports writes shows so small a loss.
    """
    usage, lead = pair.right.usage, TurnVerdict(pair.right, pair).leading
    if lead is None or usage is None or counts.first_pass_read(usage) is None or not counts.bills_writes(pair.left):
        return pair
    tokens, _ = lost_tokens(pair, lead)
    limit = max(counts.block_tokens(pair.left), SMALL * counts.prompt_tokens(usage.first_pass))
    if pair.short is None or tokens >= limit or isinstance(lead.evidence, NothingRead | ProviderSaid):
        return pair
    qualifier: Qualifier = "under-minimum" if pair.uncacheable else "little-lost"
    causes = [
        cause if cause.kind == "expected" or is_remark(cause)
        else replace(cause, override="expected", qualifiers=tuple(dict.fromkeys((*cause.qualifiers, qualifier))))
        for cause in pair.causes
    ]  # fmt: skip
    return replace(pair, causes=tuple(causes))


def drop_unread_below_minimum(pair: Pair, minimum: int | None) -> Pair:
    """Return the pair without a "nothing was read" cause if the previous prompt may be too short to be cached.

    `minimum` is the model's; if it is unknown, the highest of any provider counts.
    """
    if counts.prompt_tokens(pair.left.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    return replace(pair, causes=tuple([cause for cause in pair.causes if not isinstance(cause.evidence, NothingRead)]))
