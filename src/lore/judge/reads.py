"""Reads that whole chains miss: less than was foreseen (LORE304), writes that nobody ever read (LORE305).

In: the turns of the chains of one recording. Out: a finding for a turn that should have read what another chain wrote,
what was written for an hour before a pause, or what stood there before a turn without a bill. Rules: nothing is
predicted unless the bill leaves room for it, so that most turns cost a look at their figures; then the model of the
cache is asked with the few turns that wrote what it should have read. A position that no bill told may be estimated
too high, so the read has to be far below it. Said only where the prediction is sure, and nothing else explains the
turn: no cache break, no fall from the turn before, no entry that is seconds old, no other key, place, feature or
parameter. What the last turn of a chain wrote could not be read yet, nor what was written for a pause longer than it
lives; where anything that the chain wrote may have been read, by whatever chain, or a bill is missing, nothing is said
of its writes; a turn whose cause was found is told there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from lore.cache import counts
from lore.cache.predictor import Predictor
from lore.cache.rules import DatedRules
from lore.cache.transcripts import Predicted
from lore.judge.attribution import changed_parameters
from lore.judge.base import finding
from lore.judge.pair import Pair, is_remark
from lore.judge.witnesses import since
from lore.model.cause import Place
from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import ReadBelowForecast, WritesUnread
from lore.model.limits import PREDICTED_TURNS, TURNS_PER_PREDICTION
from lore.model.providers import place_in
from lore.model.results import Finding
from lore.model.turn import Prompt, Turn

WITNESSES = 16  # chains besides the turn's own, the latest, that may have warmed a cache
ESTIMATED = 1.35  # an estimated position may be too high by this factor
ANOTHER = 2.0  # so much, where the bill read something: that may be the very position that was estimated
UNTIMED = 60.0  # seconds within which a response has surely begun, where its beginning is not recorded


class Beside:
    """The chains of one recording that go on, the latest last, what they read, how many predictions may still be made.

    A recording in which every conversation misses says so often enough; it must not cost more than the others.
    """

    def __init__(self) -> None:
        self.chains: OrderedDict[str, ReadShort] = OrderedDict()
        self._turns = self._asked = 0
        self._most: dict[str | None, dict[str, int]] = {}  # that the two chains of each model that read most did

    def goes_on(self, chain: str, rule: ReadShort) -> None:
        """Take a turn of a chain."""
        self._turns += 1
        self.chains[chain] = rule
        self.chains.move_to_end(chain)

    def may_ask(self) -> bool:
        """Tell whether one more turn may be predicted, and count it."""
        if self._asked >= PREDICTED_TURNS + self._turns // TURNS_PER_PREDICTION:
            return False
        self._asked += 1
        return True

    def note(self, turn: Turn, read: int) -> None:
        """Take what a turn read."""
        found = self._most.setdefault(turn.model, {})
        if read <= found.get(turn.chain, 0):
            return
        found[turn.chain] = read
        if len(found) > 2:
            del found[min(found, key=found.__getitem__)]

    def most_read(self, turn: Turn) -> int:
        """Return the most that another chain of the turn's model read."""
        return max((read for chain, read in self._most.get(turn.model, {}).items() if chain != turn.chain), default=0)


class _ShortRead(NamedTuple):
    turn: Turn
    evidence: ReadBelowForecast
    times: int = 1


class ReadShort:
    """Follow the turns of one chain; `beside` is its recording's."""

    def __init__(self, rules: Callable[[], DatedRules], tolerance: float, beside: Beside) -> None:
        self._rules = rules
        self._tolerance = tolerance
        self._beside = beside
        self._held: _ShortRead | None = None
        self._head_breakpoints: tuple[int, ...] = ()
        self._chain = ""
        self._doubted = False
        self._hour: Turn | None = None  # the turn that wrote for an hour last
        self._anchor: Turn | None = None  # the latest turn with a bill that shows something cached
        self.latest: Turn | None = None
        self.settled = True  # its breakpoints in tools and system prompt stand where they first stood

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn."""
        if turn.failed or turn.fidelity not in ("wire", "parsed"):
            return
        breaks = () if pair is None else tuple([cause.code for cause in pair.causes if not is_remark(cause)])
        self._doubted = self._doubted or (
            pair is not None and any(cause.code == Code.BILL_CONTRADICTS_BODY for cause in pair.causes)
        )
        if not self._doubted and not turn.prompt.partial and turn.usage is not None:
            read = counts.first_pass_read(turn.usage)
            if read is not None and counts.prompt_tokens(turn.usage.first_pass) - read > self._tolerated(turn):
                before = self._before(turn, read, breaks)  # something could have been read besides
                if before and self._beside.may_ask():
                    self._judge(turn, before, read)
        self._go_on(turn, breaks)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say what was found."""
        self._beside.chains.pop(self._chain, None)
        held = self._held
        if held is not None:
            short = held.evidence
            yield finding(
                Code.READ_SHORT_OF_PREDICTION, place, short, at=held.turn, times=held.times,
                lost_tokens=short.expected_tokens - short.read_tokens,
                tokens="recorded" if short.exact else "estimated", confidence="rule",
            )  # fmt: skip

    # which turns are predicted

    def _before(self, turn: Turn, read: int, breaks: Sequence[str]) -> list[Turn]:
        """Return the turns that wrote what this one may have missed, in the order in which they were asked."""
        if self.latest is None:
            return [] if breaks else self._elsewhere(turn, read)
        anchor = self._hour if tuple(breaks) == (Code.CACHE_EXPIRED,) else None if breaks else self._anchor
        if anchor is None or (anchor is self.latest and not breaks):
            return []  # the pair says it itself
        kept = counts.cached(anchor.usage)
        if breaks and anchor.usage is not None:  # what it wrote for an hour
            kept = (anchor.usage.read_tokens or 0) + (anchor.usage.write_1h_tokens or 0)
        if (kept or 0) - read <= self._tolerated(turn) or not _comparable(anchor, turn):
            return []
        return [anchor] if anchor is self.latest else [anchor, self.latest]

    def _elsewhere(self, turn: Turn, read: int) -> list[Turn]:
        """Return the latest turn of another chain that shares more with this one than was read."""
        prompt, room = turn.prompt, self._tolerated(turn)
        per_token = 0.0
        for other in islice(reversed(self._beside.chains.values()), WITNESSES):
            latest = other.latest
            if latest is None or not other.settled or (counts.cached(latest.usage) or 0) - read <= room:
                continue
            if not _comparable(latest, turn):
                continue
            per_token = per_token or counts.bytes_per_token(turn, sum(len(each.data) for each in prompt))
            if _shared(latest.prompt, prompt) / per_token - read > room:
                return [] if counts.runs_tools(prompt) else [latest]
        return []

    def _tolerated(self, turn: Turn) -> float:
        return max(counts.TOLERANCE_TOKENS, self._tolerance * counts.prompt_tokens(turn.usage))

    # what is said of them

    def _judge(self, turn: Turn, before: Sequence[Turn], read: int) -> None:
        before = [_whole(earlier) for earlier in before]
        foreseen = self._foreseen([*before, turn])
        if foreseen is None or foreseen.prediction.confidence == "ceiling":
            return
        expected = foreseen.prediction.read
        if not expected or not foreseen.cache:
            return
        usages = [earlier.usage for earlier in before if earlier.usage is not None]
        exact = any(
            expected in (counts.cached(usage), usage.write_1h_tokens) for usage in usages
        )  # a position that a bill told
        surely = expected if exact else expected / (ANOTHER if read else ESTIMATED)
        if surely - read <= self._tolerated(turn):
            return
        wrote = before[-1]
        evidence = ReadBelowForecast(
            expected, read, exact, foreseen.cache, foreseen.prediction.reason, wrote.number,
            wrote.chain if wrote.chain != turn.chain else None, since(wrote, turn) or 0.0, turn.model,
        )  # fmt: skip
        made = _ShortRead(turn, evidence)
        self._held = made if self._held is None else self._held._replace(times=self._held.times + 1)

    def _foreseen(self, turns: Sequence[Turn]) -> Predicted | None:
        """Predict the last turn after the others, which are learned from; None where a bill is not believed."""
        predictor = Predictor(self._rules())
        predictor.begin_recording()
        predicted: Predicted | None = None
        for turn in turns:
            predicted = predictor.predict(turn)
            if predicted.odd:
                return None
        return predicted

    def _go_on(self, turn: Turn, breaks: Sequence[str]) -> None:
        usage, prompt = turn.usage, turn.prompt
        size = len(prompt.head)
        breakpoints = tuple([breakpoint for breakpoint in prompt.breakpoints if breakpoint < size])
        if self.latest is None:
            self._head_breakpoints, self._chain = breakpoints, turn.chain
        self.settled = self.settled and breakpoints == self._head_breakpoints
        if breaks and breaks != (Code.CACHE_EXPIRED,):
            self._hour = None
        if usage is not None and usage.write_1h_tokens:
            self._hour = turn
        if breaks or counts.cached(usage):
            self._anchor = turn
        self.latest = turn
        self._beside.goes_on(turn.chain, self)


def _shared(left: Prompt, right: Prompt) -> int:
    """Return the bytes at the beginning that two prompts share, in whole segments."""
    before, after = left.head, right.head
    shorter = min(len(before), len(after))
    same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), shorter)
    if same == len(before) == len(after):
        same += left.messages.common(right.messages)
    return sum(len(segment.data) for segment in islice(right, same))


def _comparable(left: Turn, right: Turn) -> bool:
    """Tell whether the right may read what the left left: one model, place, key and form, and time enough between."""
    before, after = left.prompt, right.prompt
    if before.model != after.model or not before.head or not after.head or before.dialect != after.dialect:
        return False
    if not after.breakpoints and before.breakpoints and not after.auto_breakpoint:
        return False
    if left.call.account != right.call.account or left.call.betas != right.call.betas:
        return False
    if (left.call.answered_by, left.call.deployment) != (right.call.answered_by, right.call.deployment):
        return False
    if place_in(left.call.endpoint) != place_in(right.call.endpoint) or changed_parameters(left, right):
        return False
    pause = since(left, right)
    late = counts.SOON if left.answered_at is not None and left.answered_at != left.at else UNTIMED
    return pause is not None and pause > late and not counts.runs_tools(before)


def _whole(turn: Turn) -> Turn:
    """Return a turn as if it had written all that it read.

    The turns that did are not predicted. What was read ended at a breakpoint of one of them: taken for one of this
    turn's, it would be a wrong position, and the prediction far too high.
    """
    usage = turn.usage
    if usage is None or usage.read_tokens is None:
        return turn
    wrote = counts.cached(usage) or 0
    hour = usage.read_tokens + usage.write_1h_tokens if usage.write_1h_tokens else 0
    split = bool(usage.write_1h_tokens or usage.write_5m_tokens)
    bill = structs.replace(
        usage, read_tokens=0, write_tokens=wrote, write_1h_tokens=hour if split else None,
        write_5m_tokens=wrote - hour if split else None,
    )  # fmt: skip
    return structs.replace(turn, usage=bill)


FEWEST = 2  # writes that went unread


class Unread:
    """Follow the bills of one chain; `beside` is its recording's."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._silent = False
        self._base: int | None = None  # the lowest position behind which this chain wrote
        self._first: Turn | None = None
        self._tokens = self._writes = 0

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Take the next turn."""
        usage = turn.usage
        if turn.failed:
            return
        read = counts.first_pass_read(usage)
        if read:
            self._beside.note(turn, read)
        if self._silent:
            return
        if self._base is not None and (read is None or read > self._base or pair is None or pair.short is None):
            self._silent = True
            return
        if pair is not None and pair.left.chain == turn.chain:
            self._follows(turn, pair)
        if usage is not None and usage.write_tokens:
            self._base = min(read or 0, read or 0 if self._base is None else self._base)

    def _follows(self, turn: Turn, pair: Pair) -> None:
        left = pair.left
        if any(cause.code == Code.BILL_CONTRADICTS_BODY for cause in pair.causes):
            self._silent = True
            return
        wrote = 0 if left.usage is None else left.usage.write_tokens or 0
        pause = since(left, turn)
        lives = counts.lifetime(left, None) or counts.FIVE_MINUTES
        if not wrote or pause is None or not counts.SOON < pause <= lives:
            return
        if any(cause.code not in UNEXPLAINED and not is_remark(cause) for cause in pair.causes):
            return
        self._first = self._first or left
        self._tokens += wrote
        self._writes += 1

    def findings(self, place: Place) -> Iterator[Finding]:
        """Say what was paid for nothing."""
        turn = self._first
        if self._silent or turn is None or self._writes < FEWEST or self._tokens <= counts.TOLERANCE_TOKENS:
            return
        if self._beside.most_read(turn) <= (self._base or 0):
            unread = WritesUnread(self._tokens, self._writes)
            yield finding(Code.WRITES_NEVER_READ, place, unread, at=turn, lost_tokens=self._tokens, tokens="recorded")
