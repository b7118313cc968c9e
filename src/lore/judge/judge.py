"""The judge of one recording: turns in, exactly one verdict a turn out, and what holds for whole chains.

In: the turns of a recording in order, with what was foreseen for each where somebody predicts; the dated rules, asked
when they are first needed. Out: verdicts; when a chain has ended, its findings. Rules: transcripts are always
followed, whoever predicts, so that every command sees the same evidence; nothing of a turn's own bill is known
to its prediction. The first turn of a chain makes no pair, but where it restarts another chain without its tools, or
was sent beside others of one fan-out before the first of them was answered: then the other one's tools and system
prompt are its left. A call that stands in the recording twice is judged once. Memory: one turn a chain and model, the
heads of at most 16 first turns, the response ids of at most 4,096 calls. Not safe to share between threads. Cost:
O(what is new) a turn.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.counts import BYTES_PER_TOKEN, TOLERANCE_TOKENS, cached, first_pass_read, has_unseen, prompt_tokens
from lore.cache.predictor import Transcripts
from lore.cache.prices import MILLION, Price
from lore.cache.rules import DatedRules, minimum_tokens
from lore.cache.served import cache_of, is_transcript, served_by
from lore.cache.transcripts import Predicted
from lore.judge.base import TURN_RULES, TurnRule, TurnVerdict, paid_again, price_of
from lore.judge.laws import Laws, UnderMinimum
from lore.judge.pair import Pair, is_remark
from lore.judge.pairs import Extension, Look, Pairs, unknown
from lore.judge.plateaus import Plateaus
from lore.judge.reads import Beside, ReadShort, Unread
from lore.judge.request_laws import MOST, UNDERRATED
from lore.judge.witnesses import started_in_parallel
from lore.model.cause import Cause, Place
from lore.model.codes import Code
from lore.model.events import Usage
from lore.model.evidence import ColdCompaction, NothingRead, TailReplaced
from lore.model.results import Finding
from lore.model.turn import Prompt, Turn
from lore.model.vector import Vector
from lore.prefix.purpose import asks_for_summary, quoted_share
from lore.prefix.request_ends import RequestEnds

DAY = 86_400.0  # seconds
PACE = 600.0  # seconds that a chain has to last before what it costs a day is said


class _Pace(NamedTuple):
    """When a chain's first turn was sent, in seconds since the epoch, and how many tails were replaced behind it."""

    first: float
    tails: int


def _weighed(cause: Cause, price: Price, daily: float, bill: Usage | None, lost: int | None) -> Cause:
    """Return a replaced tail with what it costs, a cold compaction with what it and a warm one had cost.

    `daily` is how many turns replace their tail in a day.
    """
    evidence = cause.evidence
    if isinstance(evidence, TailReplaced) and daily and price.uncached is not None:
        each = daily * float(price.uncached / MILLION)
        return replace(cause, evidence=replace(evidence, dollars_a_day=round(evidence.tokens * each, 6)))
    if not isinstance(evidence, ColdCompaction) or bill is None or bill.iterations:
        return cause
    paid = price.of(replace(bill, output_tokens=0, server_tools=()))
    again = paid_again(price, bill, lost)
    if paid is None or again is None:
        return cause
    warm = round(float(paid) - again, 6)
    return replace(cause, evidence=replace(evidence, dollars=round(float(paid), 6), warm_dollars=warm))


class Judge:
    """Judge the turns of one recording.

    `rules` gives the rules in force, `tolerance` the share of a prompt by which a billed read may fall short of its
    prediction, `labels` what opens a program's own text besides what lore knows. With `quick` a pair without a cause is
    not made: for those who ask nothing of it.
    """

    def __init__(
        self, rules: Callable[[], DatedRules], *, tolerance: float = 0.02, quick: bool = False,
        labels: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._chained = Chained()
        self._rules: dict[str, list[TurnRule]] = {}  # of the chains that go on
        self._tolerance, self._labels = tolerance, labels
        self._beside, self._heads = Beside(), dict[int, int]()  # what chains of a recording know of one another
        self._transcripts: Transcripts | None = None  # of transcripts alone
        self._quick = quick
        self._dated = rules
        self._paces: dict[str, _Pace] = {}

    @property
    def chains(self) -> int:
        """How many chains there were so far."""
        return self._chained.seen

    @property
    def turns(self) -> int:
        """How many turns there were so far."""
        return self._chained.turns

    def turn(self, turn: Turn, foreseen: Predicted | None = None) -> TurnVerdict:
        """Judge the next turn; `foreseen` is a prediction made before its bill was read, by whatever cache."""
        transcripts, look = None, unknown
        if is_transcript(turn):
            transcripts = self._transcripts = self._transcripts or Transcripts(self._dated)
            # a prediction for another cache than the one that served the turn says nothing here
            own = foreseen is not None and foreseen.state and foreseen.cache == cache_of(turn, served_by(turn))
            transcripts.take(turn, foreseen if own else None)
            look = transcripts.state
        extension = self._chained.extended(turn, look) if self._quick else None
        pair = self._chained.advance(turn, look) if extension is None else extension.pair
        if foreseen is None and transcripts is not None:
            foreseen = transcripts.latest
        verdict = TurnVerdict(turn, pair, compared=extension is not None or pair is not None, foreseen=foreseen)
        if verdict.pair is not None:
            pair = cacheable(verdict.pair, self._dated)
            if first_pass_read(turn.usage) == 0 and is_transcript(turn):
                pair = _above_minimum(pair, minimum_tokens(self._dated(), pair.left))
            verdict = verdict._replace(pair=pair)
        verdict = self._priced(verdict)
        if turn.basis is None:  # what is rebuilt from a log is not what was sent
            if turn.chain not in self._rules:
                rules, beside = self._dated, self._beside
                self._rules[turn.chain] = [
                    Laws(rules, self._labels), ReadShort(rules, self._tolerance, beside), Unread(beside),
                    Plateaus(rules), UnderMinimum(rules, self._heads), *(make() for make in TURN_RULES.values()),
                ]  # fmt: skip
            for rule in self._rules[turn.chain]:
                rule.turn(turn, verdict.pair)
        return verdict

    def _priced(self, verdict: TurnVerdict) -> TurnVerdict:
        """Add the prices of a turn that lost tokens, and what a replaced tail costs a day; rules are read only then."""
        turn, pair = verdict.turn, verdict.pair
        lasted, tails = 0.0, 0
        if turn.basis is None and turn.at is not None:
            pace = self._paces.get(turn.chain, _Pace(turn.at, 0))
            if pair is not None and any(cause.code == Code.TAIL_REPLACED for cause in pair.causes):
                pace = pace._replace(tails=pace.tails + 1)
                lasted, tails = turn.at - pace.first, pace.tails
            self._paces[turn.chain] = pace
        if pair is None:
            return verdict
        daily = tails / lasted * DAY if lasted >= PACE else 0.0
        price = price_of(self._dated(), turn) if daily or (turn.usage is not None and verdict.lost_tokens) else None
        if price is None:
            return verdict
        causes = [_weighed(cause, price, daily, turn.usage, verdict.lost_tokens) for cause in pair.causes]
        return verdict._replace(pair=replace(pair, causes=tuple(causes), price=price))

    def forget(self, chains: Iterable[str], place: Place) -> list[Finding]:
        """Let go of chains that no turn will continue; return what was found in them as a whole."""
        found: list[Finding] = []
        for chain in chains:
            self._chained.forget([chain])
            self._paces.pop(chain, None)
            found += self._ended(chain, place)
        return found

    def finish(self, place: Place) -> list[Finding]:
        """Return what was found in the chains that are left, when there are no more turns."""
        return [finding for chain in list(self._rules) for finding in self._ended(chain, place)]

    def _ended(self, chain: str, place: Place) -> list[Finding]:
        """Return what was found in a chain that goes on no more."""
        found = [result for rule in self._rules.pop(chain, ()) for result in rule.findings(place)]
        if any(result.code == Code.BREAKPOINTS_MISSING for result in found):  # that says where breakpoints stand, too
            return [result for result in found if result.code != Code.PROMPT_UNDER_MINIMUM]
        return found


def cacheable(pair: Pair, rules: Callable[[], DatedRules]) -> Pair:
    """Return a pair that lost nothing where a prompt of it is shorter than what its model caches, else the pair.

    A bill says how long a prompt was, and that it was cached all the same; else bytes do, with room for the estimate.
    """
    if not pair.is_break:
        return pair
    there, sides = cached(pair.left.usage), ((pair.left, pair.bytes.previous), (pair.right, pair.bytes.current))
    if there and prompt_tokens(pair.left.usage) < (minimum_tokens(rules(), pair.left) or 0):
        return pair
    for turn, size in sides:
        tokens = prompt_tokens(turn.usage) or size / BYTES_PER_TOKEN * UNDERRATED
        if 0 < tokens < MOST and not cached(turn.usage) and tokens < (minimum_tokens(rules(), turn) or 0):
            whole = turn.basis is None and not turn.prompt.partial and not has_unseen(turn.prompt)
            if not whole and not prompt_tokens(turn.usage):
                continue
            causes = [
                cause if is_remark(cause) or cause.kind == "expected"
                else replace(cause, qualifiers=(*cause.qualifiers, "under-minimum"))
                for cause in pair.causes
            ]  # fmt: skip
            return replace(pair, causes=tuple(causes), lost=(0,) * len(pair.lost), uncacheable=True)
    return pair


HIGHEST_MINIMUM = 6144  # tokens: of some models on Vertex; no provider documents a higher one (2026-10)


def _above_minimum(pair: Pair, minimum: int | None) -> Pair:
    """Return a pair without the cause that nothing was read where so short a prompt may not be cached at all."""
    if prompt_tokens(pair.left.usage) >= (HIGHEST_MINIMUM if minimum is None else minimum):
        return pair
    left = [number for number, cause in enumerate(pair.causes) if not isinstance(cause.evidence, NothingRead)]
    return replace(pair, causes=tuple([pair.causes[number] for number in left]),
                   lost=tuple([pair.lost[number] for number in left]))  # fmt: skip


HELD = 0.5  # of a conversation's texts that stand in a request for its summary
COPIES = 4096  # calls of a recording by which a copy of it is recognised
SIBLINGS = 16  # turns at the start of chains, searched for a fan-out (one prompt sent in parallel)


class Chained:
    """Pair the turns of all chains of one recording; `seen` counts the chains, `turns` the turns."""

    def __init__(self) -> None:
        self._chains: dict[str, Pairs] = {}
        self._latest: dict[str, Turn] = {}  # of chains of recorded requests: what a restart gives up
        self._starts: deque[Turn] = deque(maxlen=SIBLINGS)
        self._ends = RequestEnds()  # of recorded requests: what a later one may go on from
        self._known: OrderedDict[tuple[str, float, int], str] = OrderedDict()  # the latest calls, and their chains
        self.seen = self.turns = 0

    def advance(self, turn: Turn, look: Look = unknown) -> Pair | None:
        """Take the next turn; None where it has nothing to be compared with."""
        self.turns += 1
        pairs = self._chains.get(turn.chain)
        if pairs is None:
            pairs = self._begun(turn)
        if turn.basis is not None or turn.failed:
            return pairs.advance(turn, look)
        before, self._latest[turn.chain] = self._latest.get(turn.chain), turn
        answered = turn.response_id, len(turn.prompt)  # a mocked client gives every response one id
        if before is not None and turn.response_id and (before.response_id, len(before.prompt)) == answered:
            return None  # one request, recorded twice
        original = self._original(turn)
        if original is not None:
            if original != turn.chain:
                pairs.advance(turn)  # what comes next may go on from it
            return None
        pair = pairs.advance(turn, look, self._ends.add(turn))
        cold = self._cold(turn)
        return pair if cold is None else cold

    def _original(self, turn: Turn) -> str | None:
        """Return the chain of the call that this one is a copy of: the same response to as long a prompt, then.

        A server that gives every response one id is told apart by the time.
        """
        if not turn.response_id or turn.at is None:
            return None
        key = turn.response_id, turn.at, len(turn.prompt)
        if key in self._known:
            return self._known[key]
        self._known[key] = turn.chain
        if len(self._known) > COPIES:
            self._known.popitem(last=False)
        return None

    def extended(self, turn: Turn, look: Look = unknown) -> Extension | None:
        """Take the next turn if it surely extends the last one of its chain; None where that is not sure."""
        pairs = self._chains.get(turn.chain)
        return None if pairs is None else pairs.extended(turn, look)

    def forget(self, names: Iterable[str]) -> None:
        """Let go of chains that no turn will continue."""
        for name in names:
            self._chains.pop(name, None)
            self._latest.pop(name, None)
            self._ends.forget([name])

    def _begun(self, turn: Turn) -> Pairs:
        """Begin a chain: with the turn that it is compared with, where there is one in another chain."""
        pairs = self._chains[turn.chain] = Pairs()
        self.seen += 1
        if turn.basis is not None or turn.failed:
            return pairs
        left = self._latest.get(turn.given_up) or self._sibling(turn)
        if left is not None:
            pairs.advance(left)
        if turn.answered_at is not None and turn.prompt.head:
            self._starts.append(_head_of(turn))
        return pairs

    def _cold(self, turn: Turn) -> Pair | None:
        """Return a request for a summary beside a conversation whose cache it reads in part or not at all, or None."""
        bill = turn.usage
        if bill is None or bill.read_tokens is None:
            return None
        if len(self._latest) < 2 or not asks_for_summary(turn.prompt, turn.call):
            return None
        others = [other for chain, other in self._latest.items() if chain != turn.chain and _may_read(other, turn)]
        held = max(others[-SIBLINGS:], key=lambda other: quoted_share(other.prompt, turn.prompt), default=None)
        if held is None or quoted_share(held.prompt, turn.prompt) <= HELD:
            return None
        pairs = Pairs()
        pairs.advance(held)
        pair = pairs.advance(turn)
        return pair if pair is not None and pair.causes[:1] and pair.causes[0].code == Code.COLD_COMPACTION else None

    def _sibling(self, turn: Turn) -> Turn | None:
        """Return the first turn of a chain that wrote the head of this one too late for it to be read."""
        bill, prompt = turn.usage, turn.prompt
        if bill is None or bill.read_tokens is None or not bill.write_tokens:
            return None
        for start in self._starts:
            other = start.usage
            if other is None or not other.write_tokens or started_in_parallel(start, turn) is None:
                continue
            if start.prompt.head == prompt.head and start.prompt.model == prompt.model:
                return start if bill.read_tokens <= (other.read_tokens or 0) else None
        return None


def _may_read(left: Turn, right: Turn) -> bool:
    """Tell whether a request could read what another one left in the cache, did it begin alike."""
    calls = [(turn.call.endpoint, turn.call.account, turn.call.answered_by) for turn in (left, right)]
    alike = left.model == right.model and calls[0] == calls[1]
    return alike and (cached(left.usage) or 0) > TOLERANCE_TOKENS and not asks_for_summary(left.prompt, left.call)


def _head_of(turn: Turn) -> Turn:
    """Return a turn of its tools and system prompt alone: what it shares with its siblings."""
    whole = turn.prompt
    breakpoints = [breakpoint for breakpoint in whole.breakpoints if breakpoint < len(whole.head)]
    head: Prompt = replace(
        whole, messages=Vector(), tail=(), breakpoints=tuple(breakpoints),
        breakpoint_values=whole.breakpoint_values[: len(breakpoints)],
    )  # fmt: skip
    return replace(turn, source=head)
