"""Reads that whole chains miss: fewer tokens than predicted (LORE304), and writes that were never read (LORE305).

A turn is predicted only if its usage leaves room for a larger read, so most turns cost a look at their counts. The
cache model is then given the few turns that wrote the entries: the latest of another chain, or the one before a turn
without usage. A finding needs a sure prediction far above the read, and no
other explanation: a cache break, a fall from the previous turn, an entry that is seconds old, another key, place,
feature or parameter. `Shared` holds the objects that all rules over chains share in one recording.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct, field, structs

from lore.cache import counts
from lore.cache.rules import DatedRules
from lore.judge.findings import finding
from lore.judge.pairs.outside import seconds_since
from lore.judge.pairs.pair import Pair, is_remark
from lore.judge.pairs.unexplained import changed_parameters
from lore.judge.prices import paid_again, price_of, sum_known
from lore.judge.requests.lint import Linter
from lore.model.cause import Place
from lore.model.codes import UNEXPLAINED, Code
from lore.model.evidence import ReadBelowForecast, SharedBlock, WritesUnread
from lore.model.evidence.runs import ReadPlateau
from lore.model.limits import PREDICTED_TURNS, TURNS_PER_PREDICTION
from lore.model.providers import place_in
from lore.model.results import Finding
from lore.model.turn import Turn
from lore.prefix.overlap import byte_size, count_shared_segments

OTHER_CHAINS = 16  # the latest other chains, which may have written what a turn reads
ESTIMATED = 1.35  # an estimated position may be too high by this factor
READ_ESTIMATED = 2.0  # the same if something was read: that may be the position that was estimated
UNTIMED = 60.0  # seconds within which a response has surely begun, if its beginning is not recorded
FEWEST_WRITES = 2  # fewer writes without a read are not reported


class ChainReads:
    """The chains of one recording, the latest last, and their reads."""

    def __init__(self) -> None:
        self.chains: OrderedDict[str, ShortReads] = OrderedDict()
        self.turns = self.predicted = 0  # turns that were examined; those that were predicted
        self._most_read: dict[str | None, dict[str, int]] = {}  # by model: the two chains that read most

    def note_read(self, turn: Turn, read: int) -> None:
        """Remember the tokens that a turn read, if they are the most of its chain."""
        most = self._most_read.setdefault(turn.model, {})
        if read > most.get(turn.chain, 0):
            most[turn.chain] = read
            if len(most) > 2:
                del most[min(most, key=most.__getitem__)]

    def most_read(self, turn: Turn) -> int:
        """Return the most tokens that a turn of another chain with the same model read; 0 if none did."""
        most = self._most_read.get(turn.model, {})
        return max((read for chain, read in most.items() if chain != turn.chain), default=0)


class Shared(Struct, frozen=True):
    """The argument of each rule's constructor."""

    rules: Callable[[], DatedRules]  # returns the dated rules in force
    linter: Linter
    tolerance: float  # the share of a prompt by which a read may fall short of its prediction
    labels: tuple[str, ...] = ()  # beginnings of a program's own text, in addition to lore's list
    advised: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])  # lint findings reported so far
    cached_chains: set[str] = field(default_factory=set[str])  # chains with a request that is cached, as far as known
    unread_texts: Counter[bytes] = field(default_factory=Counter[bytes])  # after images, in requests that read nothing
    reads: ChainReads = field(default_factory=ChainReads)


class UnreadTokens(Struct, frozen=True):
    """The requests that paid for tokens again; a finding counts them and sums the tokens."""

    first: Turn | None = None
    requests: int = 0
    tokens: int = 0
    dollars: float | None = None  # beyond the price of reading the tokens; None: unknown

    def plus(self, turn: Turn, tokens: int, rules: Callable[[], DatedRules]) -> UnreadTokens:
        """Add a request and the tokens that it paid for again; one without such tokens changes nothing."""
        if tokens <= 0:
            return self
        dollars = sum_known((self.dollars, paid_again(price_of(rules(), turn), turn.usage, tokens)))
        return UnreadTokens(self.first or turn, self.requests + 1, self.tokens + tokens, dollars)

    def finding(
        self, code: str, place: Place, evidence: ReadPlateau | SharedBlock, source: str, path: str | None = None
    ) -> Finding:  # fmt: skip
        """Return the finding at the first request; `source` says how the tokens are known (`Finding.tokens`)."""
        section = None if path is None else path.partition("[")[0] or None
        return finding(
            code, place, evidence, at=self.first, lost_tokens=self.tokens, lost_dollars=self.dollars, tokens=source,
            json_path=path, section=section,
        )  # fmt: skip


class ShortReads:
    """Find turns of one chain that read less than predicted; reported once a chain."""

    def __init__(self, shared: Shared) -> None:
        self._rules = shared.rules
        self._tolerance = shared.tolerance
        self._reads = shared.reads
        self._short: tuple[Turn, ReadBelowForecast] | None = None  # the first of them
        self._times = 0
        self._head_breakpoints: tuple[int, ...] = ()
        self._chain = ""
        self._is_doubted = False  # a usage of the chain contradicts its body
        self._anchor: Turn | None = None  # the latest turn whose usage shows something cached
        self.latest: Turn | None = None  # the last turn that was examined
        self.is_settled = True  # its breakpoints in tools and system prompt are at their first places

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Examine the next turn, and remember it as one that later turns of any chain may read."""
        if turn.failed or turn.fidelity not in ("wire", "parsed"):
            return
        causes = () if pair is None else pair.causes
        breaks = tuple([cause.code for cause in causes if not is_remark(cause)])
        self._is_doubted = self._is_doubted or any(cause.code == Code.BILL_CONTRADICTS_BODY for cause in causes)
        if not self._is_doubted and not turn.prompt.partial and turn.usage is not None:
            read = counts.first_pass_read(turn.usage)
            if read is not None and counts.prompt_tokens(turn.usage.first_pass) - read > self._tolerated(turn):
                writers, reads = self._writers(turn, read, breaks), self._reads
                if writers and reads.predicted < PREDICTED_TURNS + reads.turns // TURNS_PER_PREDICTION:
                    reads.predicted += 1
                    self._examine(turn, writers, read)
        self._remember(turn, breaks)

    def findings(self, place: Place) -> Iterator[Finding]:
        """Yield a finding for all short reads of the chain, at the first; no other chain is compared with it then."""
        self._reads.chains.pop(self._chain, None)
        if self._short is not None:
            turn, short = self._short
            yield finding(
                Code.READ_SHORT_OF_PREDICTION, place, short, at=turn, times=self._times,
                lost_tokens=short.expected_tokens - short.read_tokens,
                tokens="recorded" if short.exact else "estimated", confidence="rule",
            )  # fmt: skip

    def _tolerated(self, turn: Turn) -> float:
        return max(counts.TOLERANCE_TOKENS, self._tolerance * counts.prompt_tokens(turn.usage))

    # the turns whose entries should have been read

    def _writers(self, turn: Turn, read: int, breaks: Sequence[str]) -> list[Turn]:
        """Return the turns whose entries this one may have missed, in the order in which they were asked."""
        if self.latest is None:
            return [] if breaks else self._writers_in_other_chains(turn, read)
        anchor = self._anchor
        if breaks or anchor is None or anchor is self.latest:
            return []  # the pair reports it
        is_short = (counts.cached(anchor.usage) or 0) - read > self._tolerated(turn)
        return [anchor, self.latest] if is_short and _can_read(anchor, turn) else []

    def _writers_in_other_chains(self, turn: Turn, read: int) -> list[Turn]:
        """Return the latest turn of another chain that shares more with this one than was read."""
        prompt, room = turn.prompt, self._tolerated(turn)
        per_token = 0.0
        for other in islice(reversed(self._reads.chains.values()), OTHER_CHAINS):
            latest = other.latest
            if latest is None or not other.is_settled or (counts.cached(latest.usage) or 0) - read <= room:
                continue
            if not _can_read(latest, turn):
                continue
            per_token = per_token or counts.bytes_per_token(turn, sum(map(byte_size, prompt)))
            shared = islice(prompt, count_shared_segments(latest.prompt, prompt))
            if sum(map(byte_size, shared)) / per_token - read > room:
                return [] if counts.runs_tools(turn) else [latest]
        return []

    # the prediction

    def _examine(self, turn: Turn, writers: Sequence[Turn], read: int) -> None:
        """Predict the turn after learning from the writers; remember it if it read far less."""
        from lore.cache.predictor import Predictor  # noqa: PLC0415 - few reads fall short

        writers = [_as_sole_writer(writer) for writer in writers]
        predictor = Predictor(self._rules())
        predictor.begin_recording()
        for writer in writers:
            if predictor.predict(writer).doubt:  # its usage is not believed
                return
        predicted = predictor.predict(turn)
        if predicted.doubt or predicted.prediction.confidence == "ceiling":
            return
        expected = predicted.prediction.read
        if not expected or not predicted.cache:
            return
        usages = [writer.usage for writer in writers if writer.usage is not None]
        is_exact = any(expected in (counts.cached(usage), usage.write_1h_tokens) for usage in usages)
        surely = expected if is_exact else expected / (READ_ESTIMATED if read else ESTIMATED)
        if surely - read <= self._tolerated(turn):
            return
        writer = writers[-1]
        evidence = ReadBelowForecast(
            expected, read, is_exact, predicted.cache, predicted.prediction.reason, writer.number,
            writer.chain if writer.chain != turn.chain else None, seconds_since(writer, turn) or 0.0, turn.model,
        )  # fmt: skip
        self._short = self._short or (turn, evidence)
        self._times += 1

    def _remember(self, turn: Turn, breaks: Sequence[str]) -> None:
        usage, prompt = turn.usage, turn.prompt
        breakpoints = tuple([place for place in prompt.breakpoints if place < len(prompt.head)])
        if self.latest is None:
            self._head_breakpoints, self._chain = breakpoints, turn.chain
        self.is_settled = self.is_settled and breakpoints == self._head_breakpoints
        if breaks or counts.cached(usage):
            self._anchor = turn
        self.latest = turn
        self._reads.turns += 1
        self._reads.chains[turn.chain] = self
        self._reads.chains.move_to_end(turn.chain)


def _can_read(previous: Turn, current: Turn) -> bool:
    """Return whether a turn may read what the previous one wrote: one model, place, key and form, and enough time."""
    before, after = previous.prompt, current.prompt
    if before.model != after.model or not before.head or not after.head or before.dialect != after.dialect:
        return False
    if not after.breakpoints and before.breakpoints and not after.auto_breakpoint:
        return False
    calls = previous.call, current.call
    if len({(call.account, call.betas, *call.answerer) for call in calls}) > 1:
        return False
    if place_in(calls[0].endpoint) != place_in(calls[1].endpoint) or changed_parameters(previous, current):
        return False
    pause = seconds_since(previous, current)
    is_timed = previous.answered_at is not None and previous.answered_at != previous.at
    return pause is not None and pause > (counts.SOON if is_timed else UNTIMED) and not counts.runs_tools(previous)


def _as_sole_writer(turn: Turn) -> Turn:
    """Return a turn as if it had written everything that it read.

    The turns that wrote it are not predicted. It was read up to a breakpoint of one of them: if that counted as one of
    this turn's, its position would be wrong, and the prediction far too high.
    """
    usage = turn.usage
    if usage is None or usage.read_tokens is None:
        return turn
    wrote = counts.cached(usage) or 0
    hour = usage.read_tokens + usage.write_1h_tokens if usage.write_1h_tokens else 0
    is_split = bool(usage.write_1h_tokens or usage.write_5m_tokens)
    usage = structs.replace(
        usage, read_tokens=0, write_tokens=wrote, write_1h_tokens=hour if is_split else None,
        write_5m_tokens=wrote - hour if is_split else None,
    )  # fmt: skip
    return structs.replace(turn, usage=usage)


class UnreadWrites:
    """Find writes of one chain that were never read, by any chain.

    The last write could not be read yet. Nothing is reported if a usage is missing, if a pause was longer than the
    entries live, or if a turn has a cause of its own.
    """

    def __init__(self, shared: Shared) -> None:
        self._reads = shared.reads
        self._is_silent = False
        self._base: int | None = None  # tokens before the chain's first write
        self._first: Turn | None = None
        self._tokens = self._writes = 0
        self._lost = 0  # of these tokens, those that no cache break counts

    def turn(self, turn: Turn, pair: Pair | None) -> None:
        """Examine the next turn, and pass its read to the other chains of the recording."""
        usage = turn.usage
        if turn.failed:
            return
        read = counts.first_pass_read(usage)
        if read:
            self._reads.note_read(turn, read)
        if self._is_silent:
            return
        if self._base is not None and (read is None or read > self._base or pair is None or pair.short is None):
            self._is_silent = True
            return
        if pair is not None and pair.previous.chain == turn.chain:
            previous, pause = pair.previous, seconds_since(pair.previous, turn)
            self._is_silent = any(cause.code == Code.BILL_CONTRADICTS_BODY for cause in pair.causes)
            wrote = 0 if previous.usage is None else previous.usage.write_tokens or 0
            lifetime = counts.lifetime(previous, None) or counts.FIVE_MINUTES
            is_explained = any(cause.code not in UNEXPLAINED and not is_remark(cause) for cause in pair.causes)
            if wrote and pause is not None and counts.SOON < pause <= lifetime and not is_explained:
                self._first = self._first or previous  # this turn could have read it
                self._tokens += wrote
                self._lost += 0 if pair.is_break else wrote
                self._writes += 1
        if usage is not None and usage.write_tokens:
            self._base = min(read or 0, read or 0 if self._base is None else self._base)

    def findings(self, place: Place) -> Iterator[Finding]:
        turn = self._first
        if self._is_silent or turn is None or self._writes < FEWEST_WRITES or self._tokens <= counts.TOLERANCE_TOKENS:
            return
        if self._reads.most_read(turn) <= (self._base or 0):
            unread = WritesUnread(self._tokens, self._writes)
            yield finding(Code.WRITES_NEVER_READ, place, unread, at=turn, lost_tokens=self._lost, tokens="recorded")
