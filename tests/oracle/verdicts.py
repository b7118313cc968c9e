"""What must hold of each verdict, by the requests and their bills alone; a difference is a sentence with its place.

In: a file, and what `lore simulate --json` and `lore check -v --json` say of it. Slow and obvious, and written apart
from lore's judge: nothing of lore is imported here. Rules (facts: verdicts.md, "What the judge must know"): a request
is compared with the one in its file whose prompt is its longest prefix, in transcripts with the one before it on its
chain; it loses what stood in the cache and was not read, never more than it asked for and did not read; a cause
stands where the level of the read can have come from; a read of all that stood is no waste.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from oracle.naive import common_segments
from oracle.recordings import Bill, Request, read

DROP = 1_000  # tokens: what falls by less needs no cause
SHARE = 0.02
GRACE = 1.02  # of a lifetime: entries that are a little older may still be read
SOON = 3.0  # seconds in which an older entry may be served
BYTES = 4.0  # a token, where no bill counts them
# Tokens below which nothing is cached, by model; the smallest that any platform or date gives, so 0 is certain.
MINIMUM = {
    "opus-5": 512, "fable-5": 512, "mythos-5": 512, "sonnet-5-5": 512, "opus-4-8": 1024, "sonnet-5": 1024,
    "sonnet-4-6": 1024, "sonnet-4-5": 1024, "opus-4-1": 1024, "sonnet-4-2": 1024, "opus-4-2": 1024, "opus-4-7": 2048,
    "haiku-3-5": 2048, "opus-4-6": 4096, "opus-4-5": 4096, "haiku-4-5": 4096, "gpt-": 1024,
}  # fmt: skip
# A cause in one of these sections is the client's, and in these places; a verdict names one of them.
PLACES = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
HEAD = ("tools", "system")


class Expected(NamedTuple):
    """What the oracle says of a request: with which one it is compared, what it lost, and what its read tells.

    `shared` segments are common with the left; `extends` says that those are all of it; `continued`: another request
    goes on from this one. `at_least` and `at_most`
    bound the loss, None where no bill says it. `whole`: all that stood was read. `kept`: the read reaches the
    breakpoint before the last one, or the first one exactly or by far, so tools and system prompt are as they were;
    `first`: the tokens at the first breakpoint that each read before this one reached; `below`: it does not reach the
    head.
    `pause` bounds the seconds that passed, `lifetime` is that of what the left wrote.
    """

    request: Request
    left: Request | None
    shared: int = 0
    extends: bool = False
    continued: bool = False
    at_least: int | None = None
    at_most: int | None = None
    whole: bool = False
    kept: bool = False
    first: int | None = None
    below: bool = False
    pause: tuple[float, float] | None = None
    lifetime: float | None = None

    @property
    def late(self) -> bool:
        """Whether what the left wrote was older than it lives."""
        return self.pause is not None and self.lifetime is not None and self.pause[0] > self.lifetime * GRACE

    @property
    def read_nothing(self) -> bool:
        """Whether the same model as before read nothing at all."""
        left, bill = self.left, self.request.met
        return left is not None and bill is not None and bill.read == 0 and left.model == self.request.model


def expected(requests: list[Request], compared: dict[int, int]) -> list[Expected]:
    """Say of each request what must hold.

    `compared` is what lore compares, by lines: where the longest prefix leaves a choice, it is lore's.
    """
    lefts: list[int | None] = []
    found: list[Expected] = []
    head: dict[tuple[str, str], int] = {}
    lives: dict[str, float | None] = {}
    for number, request in enumerate(requests):
        place = _left(requests[:number], request, compared.get(request.lines[0]))
        lefts.append(place)
        bill = request.met
        if request.compacted and bill is not None:  # where nothing was read, tools and system prompt are others, too
            head[request.chain, request.model] = bill.read
        if place is None:
            found.append(Expected(request, None))
        else:
            further = lefts[place]
            before = None if further is None else requests[further]
            floor = head.get(lane := (request.chain, request.model))
            if floor is not None and bill is not None:  # a read below it shows that it was another, or is no more
                head[lane] = min(floor, bill.read)
            must = _of(request, requests[place], before, floor, lives.get(request.chain), found[place].first)
            continued = bool(request.chain) or any(_goes_on(later, request) for later in requests[number + 1 :])
            found.append(must._replace(kept=must.kept and not found[place].late, continued=continued))
        if request.chain:
            lives[request.chain] = request.lifetime or lives.get(request.chain)
    return found


def _left(before: list[Request], request: Request, preferred: int | None) -> int | None:
    """Return which request it is compared with: that of the longest common prefix, the latest of several.

    Where no earlier prompt is whole in it, or several share as much, the preferred one may be another of its
    conversation. Where there are no prompts it is the one before on its chain, or of its model (`_of_its_cache`).
    """
    places = [number for number, other in enumerate(before) if other.chain == request.chain and not other.failed]
    if request.segments is None:
        return _of_its_cache(before, places, request) if places and request.chain else None
    places = [number for number in places if before[number].dialect == request.dialect]
    best = max(places, key=lambda number: (_shared(before[number], request), number), default=None)
    other = next((number for number in places if before[number].lines[0] == preferred), None)
    if best is None or other is None:
        return best
    whole = _shared(before[best], request) == len(before[best].segments or ())
    return best if whole and _shared(before[other], request) < _shared(before[best], request) else other


def _of_its_cache(before: list[Request], places: list[int], request: Request) -> int:
    """Return the latest of a chain, or the latest of the request's own model where another's stands between.

    Each model has a cache of its own: what is lost of that is told. Where nothing is, and more has come to the chain
    since, the change of model lost it. After a compaction the model has nothing of the chain.
    """
    last = places[-1]
    own = next((place for place in reversed(places) if before[place].model == request.model), last)
    since = [*(before[place] for place in places if place > own), request]
    if own == last or any(other.compacted for other in since):
        return last
    bill, here, there = request.bill, before[own].bill, before[last].bill
    if bill is None or here is None:
        return last
    return own if _fell(here, bill) or there is None or not _fell(there, bill) else last


def _fell(there: Bill, bill: Bill) -> bool:
    return there.stood - bill.read > max(DROP, 0 if there.writes else SHARE * there.stood)


def _goes_on(request: Request, left: Request) -> bool:
    return bool(left.segments) and _shared(left, request) == len(left.segments or ())


def _shared(left: Request, right: Request) -> int:
    return common_segments(left.segments, right.segments) if left.segments and right.segments else 0


def _of(
    request: Request, left: Request, before: Request | None, head: int | None, lives: float | None, first: int | None
) -> Expected:  # fmt: skip
    """Say what must hold of a request; `before` is what its left is compared with, `first` the left's own."""
    shared = _shared(left, request)
    low, high = loss(left, request)
    extends, lifetime = shared == len(left.segments or ()), left.lifetime or lives
    found = Expected(request, left, shared, extends, at_least=low, at_most=high, lifetime=lifetime)
    bill = request.met
    if bill is None or left.bill is None:
        return found
    same = request.model == left.model and not request.compacted
    known = before is not None and before.bill is not None and before.bill.writes and before.model == left.model
    earlier = before.bill.stood if known else None  # where writes are not billed, what was read is no position
    goes_on = earlier is not None and left.met.read >= earlier > DROP and not left.compacted
    if not goes_on:  # the left found another beginning
        first = None
    elif first is None or left.met.read < first:
        first = earlier
    reaches = first is not None and (bill.read == first or bill.read >= first + DROP)
    return found._replace(
        whole=bill.read >= (left.bill.stood if left.bill.writes else left.bill.asked) > 0,
        kept=same and goes_on and earlier is not None and (bill.read >= earlier or reaches),
        first=first,
        below=same and head is not None and bill.read < head - DROP,
        pause=_pause(left, request),
    )


def loss(left: Request, right: Request) -> tuple[int | None, int | None]:
    """Bound what was lost: read and written before, minus what is read now, of what is asked and not read.

    Where writes are not billed what stood is known to be at least what was read, at most what was asked. Nothing is
    lost of a prompt that no cache holds. Both are None where the bills do not say it.
    """
    size = right.met.asked if right.met is not None else _estimate(right)
    least = max((tokens for name, tokens in MINIMUM.items() if name in right.model), key=int, default=0)
    cached = right.met is not None and right.met.stood > 0  # then it was long enough, whatever the table says
    if size is not None and not cached and size < (least if right.met is not None else least / 2):
        return 0, 0
    if left.bill is None or right.met is None or left.runs_tools:
        return None, None
    paid = right.met.asked - right.met.read
    most = left.bill.stood if left.bill.writes else left.bill.asked
    low, high = (max(0, min(stood - right.met.read, paid)) for stood in (left.bill.stood, most))
    return low, high


def _estimate(request: Request) -> float | None:
    return None if request.segments is None else sum(part.size for part in request.segments) / BYTES


def _pause(left: Request, right: Request) -> tuple[float, float] | None:
    """Bound the seconds for which an entry was not used: until the answer before or its request, as clocks go."""
    begins = [at for at in (left.answered, left.at) if at is not None]
    ends = [at for at in (right.at, right.answered) if at is not None]
    return (min(ends) - max(begins), max(ends) - min(begins)) if begins and ends else None


# what lore says


class Place(NamedTuple):
    """A turn as lore names it."""

    chain: str
    turn: int


class Answers(NamedTuple):
    """What lore says of one file: `simulate --json`, `check -v --json`, and the pairs of `diff-prefix --json`."""

    simulated: dict[str, Any]
    checked: dict[str, Any]
    pairs: list[dict[str, Any]]


def differences(path: Path, answers: Answers) -> list[str]:
    """Compare lore's answers about one file with what must hold, turn by turn."""
    rows = {row["line"]: row for row in answers.simulated["turns"]}
    places = {_place(row): row["line"] for row in answers.simulated["turns"]}
    lefts = {places[_place(pair)]: places[_named_place(pair["left"]["name"])] for pair in answers.pairs}
    musts = expected(read(path), lefts)
    findings: dict[Place, list[dict[str, Any]]] = {}
    for finding in answers.checked["findings"]:
        if finding["turn"] is not None and finding["code"][:5] in ("LORE1", "LORE3"):
            findings.setdefault(_place(finding), []).append(finding)
    wrong: list[str] = []
    seen = 0
    for must in musts:
        row = next((rows[line] for line in must.request.lines if line in rows), None)
        if row is None:
            wrong += [f"{path.name}:{must.request.lines[0]}: no turn of lore's stands here"] * (not must.request.failed)
            continue
        seen += 1
        own = findings.get(_place(row), [])
        found = [*_billed(must, row), *_lost(must, row, own), *_caused(must, row, own)]
        found += _paired(must, lefts.get(row["line"]))
        wrong += [f"{path.name}:{row['line']} {row['chain']}:{row['turn']}: {what}" for what in found]
    if seen != len(answers.simulated["turns"]):
        wrong.append(f"{path.name}: {len(answers.simulated['turns'])} turns, of which {seen} are requests of the file")
    return wrong


def _place(said: dict[str, Any]) -> Place:
    return Place(said["chain"], said["turn"])


def _named_place(side: str) -> Place:
    chain, _, turn = side.rpartition("#")[2].rpartition(":")
    return Place(chain, int(turn))


def _billed(must: Expected, row: dict[str, Any]) -> Iterator[str]:
    """A bill is read as it is written; a prediction is no less than nothing, and the chances of its outcomes add up.

    How much is asked is not known before the bill: a prompt that shrank may be predicted to be longer.
    """
    bill, shown = must.request.bill, row["billed"]
    if bill is not None and shown is not None:
        names = ("uncached_tokens", "read_tokens", "write_tokens")
        known = [(name, value) for name, value in zip(names, bill, strict=False) if shown[name] is not None]
        for name, value in known:
            if shown[name] != value:
                yield f"{name} is {value:,} and is shown as {shown[name]:,}"
    predicted = [row["predicted"][name] for name in ("read_tokens", "write_tokens", "uncached_tokens")]
    if any(value is not None and value < 0 for value in predicted):
        yield f"predicts {predicted}"
    chances = [outcome["probability"] for outcome in row["predicted"].get("outcomes", [])]
    if chances and (abs(sum(chances) - 1) > 0.01 or min(chances) < 0):
        yield f"predicts outcomes whose chances are {chances}"


def _paired(must: Expected, line: int | None) -> Iterator[str]:
    """A request is compared with the one that it shares most with.

    It is compared with nothing only where it extends no other, or where nothing goes on from it, beside a conversation.
    """
    if must.left is None or must.request.failed or (line is None and not (must.extends and must.continued)):
        return
    if line not in must.left.lines:
        yield f"is compared with {'nothing' if line is None else f'line {line}'}, not with line {must.left.lines[0]}"


def _lost(must: Expected, row: dict[str, Any], findings: list[dict[str, Any]]) -> Iterator[str]:
    """Compare the tokens that were lost; a fall of so little that it needs no cause may be passed over."""
    low, high = must.at_least, must.at_most
    if low is None or high is None or row["lost_tokens"] is None:
        return
    shown, causes = row["lost_tokens"], [cause for cause in row["causes"] if cause["is_break"]]
    if not low * (1 - SHARE) - 1 <= shown <= high * (1 + SHARE) + 1 and not (low <= DROP and not causes and not shown):
        said = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        yield f"lost {said} tokens and is said to have lost {shown:,}: {_named(row['causes'])}"
    if low > DROP and not causes:
        yield f"lost {low:,} tokens and is called fine"
    for finding in findings:
        if finding["lost_tokens"] is not None and finding["lost_tokens"] > high * (1 + SHARE) + 1:
            yield f"{finding['code']} is said to have cost {finding['lost_tokens']:,} tokens of {high:,}"


def _caused(must: Expected, row: dict[str, Any], findings: list[dict[str, Any]]) -> Iterator[str]:
    """The level of the read, the clock and the provider's verdict limit what may lead."""
    lead = next((cause for cause in row["causes"] if cause["is_break"]), None)
    every = [cause for cause in (*row["causes"], *findings) if cause.get("is_break", True)]
    wasted = [cause for cause in every if cause["kind"] == "waste"]
    if must.whole and wasted:
        yield f"all that stood was read, and it is called waste: {_named(wasted)}"
    if lead is None:
        return
    place = None if must.request.compacted else PLACES.get(must.request.verdict)
    # What the log records or the provider says did happen, whatever else was missed.
    guessed = lead["evidence"]["type"] not in ("provider-said", "recorded") and lead["section"] != place
    if must.kept and lead["section"] in HEAD and guessed:
        yield f"the read reaches the breakpoint before the last, and {_named([lead])} is in {lead['section']}"
    if must.below and lead["section"] == "messages" and lead["kind"] != "expected" and guessed:
        yield f"the read does not reach the head, and {_named([lead])} is in messages"
    if place is not None and lead["section"] in PLACES.values() and not fits(lead, place):
        yield f"the provider says {must.request.verdict}, and {_named([lead])} in {lead['section']} leads"
    if place is not None and lead["kind"] == "expected" and not must.request.compacted:
        yield f"the provider says {must.request.verdict}, and {_named([lead])} is called expected"
    yield from _expired(must, lead)


def fits(lead: dict[str, Any], place: str) -> bool:
    """Tell whether a cause may lead beside a verdict: an update or a restart rewrites tools and system prompt alike."""
    both = lead["name"] in ("client-updated", "client-restarted", "session-changed")
    return lead["section"] == place or (both and place in HEAD)


def _expired(must: Expected, lead: dict[str, Any]) -> Iterator[str]:
    pause, lives = must.pause, must.lifetime
    if pause is None or lives is None:
        return
    if lead["code"] == "LORE128" and pause[1] <= lives:
        yield f"{_named([lead])}, though only {pause[1]:.0f} of {lives:.0f} s passed"
    if must.late and must.read_nothing and must.request.verdict not in PLACES and lead["kind"] == "waste":
        yield f"{pause[0]:.0f} s passed of the {lives:.0f} that a cache lives, and {_named([lead])} is called waste"


def _named(causes: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{cause['code']} {cause['name']}" for cause in causes) or "no cause"
