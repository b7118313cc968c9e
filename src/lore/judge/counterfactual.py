"""What turns would have paid without a cause: the same prompts and bills, the one cause taken away.

In: turns in order, each with what it paid and what broke its prefix. Out: what each would have read and written. Rules:
what else broke the prefix of the same turn for sure (beside the cause, or in its `also`) still breaks it, a change of
later bytes from its place on; a weak cause breaks nothing beside another; the provider's verdict is no cause beside one
that it fits; a turn reads no more than it asked, and no more than stood there. What then stands in the cache goes on to
the next turns, so that nothing is saved twice. Pure; cost O(turns).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from lore.cache.base import Prediction
from lore.cache.bills import BILLS_WRITES, bills_writes, cached, prompt_tokens
from lore.judge.attribution import fits
from lore.judge.base import TurnVerdict
from lore.judge.pair import Pair, is_remark, lost_tokens
from lore.model.cause import Cause, Strength
from lore.model.codes import UNEXPLAINED, CauseKind, Code
from lore.model.events import Billed, Counts

BY_VERDICT = Code.CLIENT_CAUSE_UNKNOWN  # the provider's word that something changed, not what: a witness, no fix
_TAIL = Code.TAIL_WITHOUT_BREAKPOINT  # names its own text in `also`: one fault


class Break(NamedTuple):
    """One cause of a turn's loss, and the tokens that it alone loses. `leads`: the loss is counted under it."""

    code: str
    kind: CauseKind
    strength: Strength
    section: str | None
    loses: int
    leads: bool = False


class Played(NamedTuple):
    """A turn as it was paid: `paid` by its bill, else by its prediction; None where neither says.

    `stood` is what may have stood in the cache before it, None where that is not known; `left` what it left there.
    `exact`: both are by what was read and written; where writes are not billed, all that was asked may stand.
    """

    chain: str
    paid: Billed | None
    stood: int | None
    breaks: tuple[Break, ...]
    exact: bool = True

    @property
    def left(self) -> int | None:
        """What may stand in the cache behind it."""
        return None if self.paid is None else cached(self.paid) if self.exact else prompt_tokens(self.paid)


class Otherwise(NamedTuple):
    """A turn that would have paid something else: its number among the turns, and its bill then."""

    number: int
    paid: Billed


def played(verdict: TurnVerdict, prediction: Prediction, stood: int | None) -> Played:
    """Return what a turn paid and what broke its prefix; `stood` is what the turn before it in its chain left."""
    turn, pair = verdict.turn, verdict.pair
    usage = turn.usage
    billed = usage is not None and usage.read_tokens is not None and usage.uncached_tokens is not None
    exact = bills_writes(turn) if billed else turn.dialect in BILLS_WRITES
    if pair is not None and billed and pair.left.usage is not None:
        stood = cached(pair.left.usage) if exact else prompt_tokens(pair.left.usage)
    read, uncached = prediction.read, prediction.uncached
    if not billed:
        known = read is not None and uncached is not None
        usage = Billed(uncached, read, prediction.write, 0, None, prediction.write_1h) if known else None
    return Played(turn.chain, usage, stood, () if pair is None else tuple(_breaks(pair)), exact)


def _breaks(pair: Pair) -> Iterator[Break]:
    """Yield every cause that broke the prefix of a pair, or would have without the others."""
    leading = TurnVerdict(pair.right, pair).leading
    most = pair.lost_bytes
    parted = pair.bytes.left - pair.left_tail_bytes - pair.bytes.common  # bytes behind where the two part
    behind = max(0, round(parted / pair.bytes_per_token))
    for number, cause in enumerate(pair.causes):
        if is_remark(cause):
            continue
        whole = lost_tokens(pair, number)[0]
        share = pair.lost[number] / most if pair.lost[number] and most else 1.0
        yield _break(cause, round(whole * share), leads=number == leading)
        for other in () if cause.code == _TAIL else cause.also:
            if not is_remark(other) and other.code != cause.code:
                yield _break(other, whole if other.strength != "certain" else min(whole, behind))


def _break(cause: Cause, loses: int, *, leads: bool = False) -> Break:
    return Break(cause.code, cause.kind, cause.strength, cause.section, loses, leads)


def remaining(breaks: Iterable[Break], without: Callable[[Break], bool]) -> int | None:
    """Return the tokens that are lost all the same without some causes; None where none of them is there."""
    every = list(breaks)
    gone = [cause for cause in every if without(cause) and cause.code not in UNEXPLAINED]
    if not gone:
        return None
    left = [cause for cause in every if cause not in gone and (cause.leads or cause.strength != "weak")]
    sure = [cause for cause in gone if cause.strength != "weak"]
    return max((
        cause.loses for cause in left
        if cause.code != BY_VERDICT or not any(fits(other.code, other.section, cause.section) for other in sure)
    ), default=0)  # fmt: skip


def otherwise(turns: Iterable[Played], without: Callable[[Break], bool]) -> Iterator[Otherwise]:
    """Yield the turns that would have paid something else without some causes."""
    more: dict[str, int] = {}  # by chain: tokens that stand in the cache beyond what stood there
    for number, turn in enumerate(turns):
        paid = turn.paid
        if paid is None:
            more.pop(turn.chain, None)
            continue
        back = _back(turn, paid, more.get(turn.chain, 0), without)
        other = reading(paid, back)
        stays = (cached(other) or 0) - (cached(paid) or 0) if turn.exact else 0
        more[turn.chain] = max(0, stays)
        if back:
            yield Otherwise(number, other)


def _back(turn: Played, paid: Billed, more: int, without: Callable[[Break], bool]) -> int:
    """Return how many tokens a turn would have read beyond what it read."""
    met = paid.met
    read = met.read_tokens or 0
    lost = max((cause.loses for cause in turn.breaks), default=0)
    left = remaining(turn.breaks, without)
    if left is None:
        found = 0 if lost else more  # what broke the prefix before breaks it still
    else:
        found = max(0, lost - left) + (0 if left else more)
    if turn.stood is not None:
        found = min(found, max(0, turn.stood + more - read))
    marked = turn.exact and cached(met)  # then what stands behind the last breakpoint is never read
    return min(found, met.write_tokens or 0 if marked else max(0, prompt_tokens(met) - read))


def reading(paid: Billed, back: int) -> Billed:
    """Return a bill of which so many tokens more were read by the pass that met what stood in the cache."""
    met = paid.met
    if not back or met is paid:
        return _reading(paid, back) if back else paid
    passes = [_reading(iteration, back) if iteration is met else iteration for iteration in paid.iterations]
    return replace(paid, iterations=tuple(passes))


_CountsT = TypeVar("_CountsT", bound=Counts)


def _reading(paid: _CountsT, back: int) -> _CountsT:
    """Return counts of which so many tokens more were read: not written (for an hour first), else not uncached."""
    write = paid.write_tokens or 0
    hour, short = paid.write_1h_tokens or 0, paid.write_5m_tokens or 0
    less = min(back, write)
    of_hour = min(less, hour)
    of_short = min(less - of_hour, short)
    return replace(
        paid, read_tokens=(paid.read_tokens or 0) + back,
        write_tokens=None if paid.write_tokens is None else write - less,
        write_1h_tokens=None if paid.write_1h_tokens is None else hour - of_hour,
        write_5m_tokens=None if paid.write_5m_tokens is None else short - of_short,
        uncached_tokens=max(0, (paid.uncached_tokens or 0) - (back - less)),
    )  # fmt: skip
