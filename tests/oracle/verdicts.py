"""What must hold of each verdict, derived from requests and usage alone. A difference is a sentence with its place.

Input: a file, and the answers of `lore simulate --json` and `lore check -v --json` about it. The code is slow and
obvious, and imports nothing of lore. Rules: a request is compared with the earlier request of its file whose prompt is
its longest prefix, in transcripts with the previous one of its chain. It loses the tokens that were cached and not
read, at most those that it sent and did not read. A cause is at a place from which the read can have fallen to its
level. If everything cached was read, nothing is waste. Text that no earlier request sent is not lost, and what follows
thinking that the model drops could not be read.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from oracle.naive import common_segments
from oracle.recordings import Bill, Request, read

DROP = 1_000  # tokens: a smaller fall needs no cause
SHARE = 0.02
GRACE = 1.02  # of a lifetime: entries that are a little older may still be read
BYTES = 4.0  # of a token, if no usage counts tokens
# Tokens below which nothing is cached, by model; the smallest that any platform or date gives, so 0 is certain.
MINIMUM = {
    "opus-5": 512, "fable-5": 512, "mythos-5": 512, "sonnet-5-5": 512, "opus-4-8": 1024, "sonnet-5": 1024,
    "sonnet-4-6": 1024, "sonnet-4-5": 1024, "opus-4-1": 1024, "sonnet-4-2": 1024, "opus-4-2": 1024, "opus-4-7": 2048,
    "haiku-3-5": 2048, "opus-4-6": 4096, "opus-4-5": 4096, "haiku-4-5": 4096, "gpt-": 1024,
}  # fmt: skip
# The section of a cause that each verdict of the provider names.
PLACES = {"tools_changed": "tools", "system_changed": "system", "messages_changed": "messages"}
HEAD = ("tools", "system")
# Causes that replace text: compaction, tools, results, images, thinking, what the client removed without a record.
REPLACING = ("LORE103", "LORE116", "LORE117", "LORE118", "LORE125", "LORE159")


class Expected(NamedTuple):
    """What the oracle derives about one request."""

    request: Request
    previous: Request | None  # the request that it is compared with
    shared: int = 0  # leading segments that both have
    extends: bool = False  # these are all segments of the previous request
    is_continued: bool = False  # a later request extends this one
    may_be_other_loop: bool = False  # it read exactly what a request before the previous one left, and is shorter
    at_least: int | None = None  # tokens lost; None: usage does not show it
    at_most: int | None = None
    read_all: bool = False  # everything that was cached was read
    keeps_head: bool = False  # the read reaches so far that tools and system prompt cannot have changed
    first_breakpoint: int | None = None  # tokens before the first breakpoint, which every earlier read reached
    misses_head: bool = False  # the read ends before the system prompt does
    pause: tuple[float, float] | None = None  # seconds since the entry was used, at least and at most
    lifetime: float | None = None  # seconds that the entry of the previous request lives

    @property
    def has_expired(self) -> bool:
        """Whether the entry of the previous request was certainly older than its lifetime."""
        return self.pause is not None and self.lifetime is not None and self.pause[0] > self.lifetime * GRACE

    @property
    def read_nothing(self) -> bool:
        """Whether the same model as before read nothing."""
        previous, bill = self.previous, self.request.first_bill
        return bill is not None and bill.read == 0 and previous is not None and previous.model == self.request.model


def expected(requests: list[Request], compared: dict[int, int]) -> list[Expected]:
    """Return what must hold of each request.

    `compared` has lore's choice, by lines: it decides if several earlier requests are possible.
    """
    lefts: list[int | None] = []
    found: list[Expected] = []
    head: dict[tuple[str, str], int] = {}
    lives: dict[str, float | None] = {}
    for number, request in enumerate(requests):
        place = _previous_of(requests[:number], request, compared.get(request.lines[0]))
        lefts.append(place)
        bill = request.first_bill
        if request.compacted and bill is not None:  # the read is the size of tools and system prompt
            head[request.chain, request.model] = bill.read
        if place is None:
            found.append(Expected(request, None))
        else:
            further = lefts[place]
            before = None if further is None else requests[further]
            key = (request.chain, request.model)
            floor = head.get(key)
            if floor is not None and bill is not None:  # a shorter read shows that the head changed
                head[key] = min(floor, bill.read)
            must = _expected_of(
                request, requests[place], before, floor, lives.get(request.chain), found[place].first_breakpoint
            )
            is_continued = bool(request.chain) or any(_extends(later, request) for later in requests[number + 1 :])
            if found[place].has_expired:  # what earlier requests left is no longer in the cache
                must = must._replace(keeps_head=False, first_breakpoint=None)
            left = requests[place].bill
            earlier = [other.bill.cached for other in requests[:place] if other.chain == request.chain and other.bill]
            is_other = (
                bill is not None and left is not None and bill.read in earlier and bill.prompt_tokens < left.cached
            )
            found.append(must._replace(is_continued=is_continued, may_be_other_loop=bool(request.chain) and is_other))
        if request.chain:
            lives[request.chain] = request.lifetime or lives.get(request.chain)
    return found


def _previous_of(before: list[Request], request: Request, preferred: int | None) -> int | None:
    """Return the number of the request that it is compared with: the longest common prefix, the latest of several.

    lore's choice (`preferred`) holds if the longest is not a whole earlier prompt, if it shares as much, or if it
    extends the longest but for tools and system prompt, which alternate. Without prompts it is the previous request of
    its chain or its model (`_previous_of_model`).
    """
    places = [number for number, other in enumerate(before) if other.chain == request.chain and not other.failed]
    if request.segments is None:
        return _previous_of_model(before, places, request) if places and request.chain else None
    places = [number for number in places if before[number].dialect == request.dialect]
    best = max(places, key=lambda number: (_shared(before[number], request), number), default=None)
    other = next((number for number in places if before[number].lines[0] == preferred), None)
    if best is None or other is None:
        return best
    whole = _shared(before[best], request) == len(before[best].segments or ())
    alternates = other > best and _goes_on(before[best], before[other]) and _goes_on(before[other], request)
    return (
        best if whole and not alternates and _shared(before[other], request) < _shared(before[best], request) else other
    )


def _goes_on(left: Request, right: Request) -> bool:
    """Return whether the messages of a request extend those of another one."""
    here, there = ([part for part in one.segments or () if part.section == "messages"] for one in (left, right))
    return 0 < common_segments(here, there) == len(here)


def _previous_of_model(before: list[Request], places: list[int], request: Request) -> int:
    """Return the latest request of a chain, or the latest of the same model if another model was asked since.

    Each model has its own cache, so a loss is measured against its own last request. If that shows no loss, but the
    last request of the chain does, the change of model is the cause. A compaction leaves nothing in any cache.
    """
    last = places[-1]
    own = next((place for place in reversed(places) if before[place].model == request.model), last)
    since = [*(before[place] for place in places if place > own), request]
    if own == last or any(other.compacted for other in since):
        return last
    bill, here, there = request.bill, before[own].bill, before[last].bill
    if bill is None or here is None:
        return last
    return own if _has_fallen(here, bill) or there is None or not _has_fallen(there, bill) else last


def _has_fallen(there: Bill, bill: Bill) -> bool:
    return there.cached - bill.read > max(DROP, 0 if there.writes else SHARE * there.cached)


def _extends(request: Request, left: Request) -> bool:
    return bool(left.segments) and _shared(left, request) == len(left.segments or ())


def _shared(left: Request, right: Request) -> int:
    return common_segments(left.segments, right.segments) if left.segments and right.segments else 0


def _expected_of(
    request: Request, left: Request, before: Request | None, head: int | None, lives: float | None, first: int | None
) -> Expected:  # fmt: skip
    """Return what must hold of a request; `before` is the one that the previous request is compared with."""
    shared = _shared(left, request)
    low, high = loss(left, request)
    if low and request.segments is None and _has_shrunk(left, request):  # what was said since is new, not lost
        low = max(0, low - left.answer - request.said)
    extends, lifetime = shared == len(left.segments or ()), left.lifetime or lives
    found = Expected(request, left, shared, extends, at_least=low, at_most=high, lifetime=lifetime)
    bill = request.first_bill
    if bill is None or left.bill is None:
        return found
    same = request.model == left.model and not request.compacted
    known = before is not None and before.bill is not None and before.bill.writes and before.model == left.model
    earlier = before.bill.cached if known else None  # without billed writes a read is no breakpoint
    goes_on = earlier is not None and left.first_bill.read >= earlier > DROP and not left.compacted
    if not goes_on:  # the previous request read another beginning
        first = None
    elif first is None or left.first_bill.read < first:
        first = earlier
    reaches = first is not None and (bill.read == first or bill.read >= first + DROP)
    return found._replace(
        read_all=bill.read >= (left.bill.cached if left.bill.writes else left.bill.prompt_tokens) > 0,
        keeps_head=same and goes_on and earlier is not None and (bill.read >= earlier or reaches),
        first_breakpoint=first,
        misses_head=same and head is not None and bill.read < head - DROP,
        pause=_pause(left, request),
    )


def _has_shrunk(left: Request, right: Request) -> bool:
    here, there = right.first_bill, left.bill
    return here is not None and there is not None and here.prompt_tokens < there.prompt_tokens + left.answer


def loss(left: Request, right: Request) -> tuple[int | None, int | None]:
    """Return the least and the most tokens that were lost: cached before and not read now, of those sent now.

    If a provider bills no writes, at least the earlier read and at most the whole earlier prompt was cached. Nothing is
    lost of a prompt that is too short to be cached. (None, None) if usage does not show it.
    """
    size = right.first_bill.prompt_tokens if right.first_bill is not None else _estimate(right)
    least = max((tokens for name, tokens in MINIMUM.items() if name in right.model), key=int, default=0)
    cached = (
        right.first_bill is not None and right.first_bill.cached > 0
    )  # then it was long enough, even if the table says otherwise
    if size is not None and not cached and size < (least if right.first_bill is not None else least / 2):
        return 0, 0
    if left.bill is None or right.first_bill is None or left.runs_tools:
        return None, None
    # a request that wrote entries could read no more than what precedes its own last breakpoint
    paid = right.first_bill.write or right.first_bill.prompt_tokens - right.first_bill.read
    most = left.bill.cached if left.bill.writes else left.bill.prompt_tokens
    low, high = (max(0, min(stood - right.first_bill.read, paid)) for stood in (left.bill.cached, most))
    return low, high


def _estimate(request: Request) -> float | None:
    return None if request.segments is None else sum(part.size for part in request.segments) / BYTES


def _pause(left: Request, right: Request) -> tuple[float, float] | None:
    """Return the least and the most seconds between two requests, from the times of requests and responses."""
    begins = [at for at in (left.answered, left.at) if at is not None]
    ends = [at for at in (right.at, right.answered) if at is not None]
    return (min(ends) - max(begins), max(ends) - min(begins)) if begins and ends else None


# lore's answers


class Place(NamedTuple):
    """A turn by its chain and number."""

    chain: str
    turn: int


class Answers(NamedTuple):
    """lore's answers about one file: `simulate --json`, `check -v --json`, and the pairs of `diff-prefix --json`."""

    simulated: dict[str, Any]
    checked: dict[str, Any]
    pairs: list[dict[str, Any]]


def differences(path: Path, answers: Answers) -> list[str]:
    """Return where lore's answers about one file contradict what must hold, turn by turn."""
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
            wrong += [f"{path.name}:{must.request.lines[0]}: lore has no turn here"] * (not must.request.failed)
            continue
        seen += 1
        own = findings.get(_place(row), [])
        found = [*_billed(must, row), *wrong_losses(must, row, own), *_caused(must, row, own)]
        found += _paired(must, lefts.get(row["line"]))
        wrong += [f"{path.name}:{row['line']} {row['chain']}:{row['turn']}: {what}" for what in found]
    if seen != len(answers.simulated["turns"]):
        wrong.append(f"{path.name}: {len(answers.simulated['turns'])} turns, {seen} of them requests of the file")
    return wrong


def _place(row: dict[str, Any]) -> Place:
    return Place(row["chain"], row["turn"])


def _named_place(side: str) -> Place:
    chain, _, turn = side.rpartition("#")[2].rpartition(":")
    return Place(chain or "main", int(turn))


def _billed(must: Expected, row: dict[str, Any]) -> Iterator[str]:
    """Yield usage that is shown with other counts, and predictions below 0 or with probabilities that do not add up."""
    bill, shown = must.request.bill, row["billed"]
    if bill is not None and shown is not None:
        names = ("uncached_tokens", "read_tokens", "write_tokens")
        known = [(name, value) for name, value in zip(names, bill, strict=False) if shown[name] is not None]
        for name, value in known:
            if shown[name] != value:
                yield f"{name} is {value:,} and shown as {shown[name]:,}"
    predicted = [row["predicted"][name] for name in ("read_tokens", "write_tokens", "uncached_tokens")]
    if any(value is not None and value < 0 for value in predicted):
        yield f"predicts {predicted}"
    chances = [outcome["probability"] for outcome in row["predicted"].get("outcomes", [])]
    if chances and (abs(sum(chances) - 1) > 0.01 or min(chances) < 0):
        yield f"predicts outcomes with probabilities {chances}"


def _paired(must: Expected, line: int | None) -> Iterator[str]:
    """Yield if a request is compared with another one than expected.

    It may be compared with none if it extends no earlier request, or if no later one extends it, or if it may be of
    another loop of the client.
    """
    may_be_first = must.may_be_other_loop or not (must.extends and must.is_continued)
    if must.previous is None or must.request.failed or (line is None and may_be_first):
        return
    if line not in must.previous.lines:
        yield f"compared with {'nothing' if line is None else f'line {line}'}, not with line {must.previous.lines[0]}"


def wrong_losses(must: Expected, row: dict[str, Any], findings: list[dict[str, Any]]) -> Iterator[str]:
    """Yield wrong numbers of lost tokens; a fall that is too small to need a cause may be left out."""
    low, high = must.at_least, must.at_most
    if low is None or high is None or row["lost_tokens"] is None:
        return
    low = max(0, low - math.ceil(_gone(must) * (1 + SHARE)))
    shown, causes = row["lost_tokens"], [cause for cause in row["causes"] if cause["is_break"]]
    if any(cause["code"] in REPLACING for cause in causes):
        low = max(0, low - math.ceil(_fresh(must) * (1 + SHARE)))
    if any(cause["name"] == "reasoning-dropped-by-template" for lead in causes[:1] for cause in lead["also"]):
        low = 0
    if not low * (1 - SHARE) - 1 <= shown <= high * (1 + SHARE) + 1 and not (low <= DROP and not causes and not shown):
        lost = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        yield f"lost {lost} tokens, reported {shown:,}: {_named(row['causes'])}"
    if low > DROP and not causes:
        yield f"lost {low:,} tokens, reported none"
    for finding in findings:
        if finding["code"] in ("LORE114", "LORE307"):  # of the whole chain: what could have been read was never cached
            continue
        if finding["lost_tokens"] is not None and finding["lost_tokens"] > high * (1 + SHARE) + 1:
            yield f"{finding['code']} reports {finding['lost_tokens']:,} lost tokens, at most {high:,} were"


def _fresh(must: Expected) -> int:
    """Return at most how many tokens were not sent before; of transcripts, which hold no prompt, that may be all."""
    left, right, bill = must.previous and must.previous.segments, must.request.segments, must.request.first_bill
    return sys.maxsize if left is None or right is None or bill is None else _missing_tokens(left, right, bill)


def _gone(must: Expected) -> int:
    """Return how many tokens of the previous prompt are not sent again; 0 for transcripts."""
    left, right, bill = (
        must.previous and must.previous.segments,
        must.request.segments,
        must.previous and must.previous.bill,
    )
    return 0 if left is None or right is None or bill is None else _missing_tokens(right, left, bill)


def _missing_tokens(left: Any, right: Any, bill: Any) -> int:
    """Return the tokens of segments of `right`, billed with `bill`, whose content `left` does not have."""
    new = Counter(part.content for part in right) - Counter(part.content for part in left)
    size = sum(part.size for part in right)
    return math.ceil(sum(part.size for part in right if part.content in new) / size * bill.prompt_tokens)


def _caused(must: Expected, row: dict[str, Any], findings: list[dict[str, Any]]) -> Iterator[str]:
    """Yield leading causes that the level of the read, the clock or the provider's verdict rules out."""
    lead = next((cause for cause in row["causes"] if cause["is_break"]), None)
    every = [cause for cause in (*row["causes"], *findings) if cause.get("is_break", True)]
    wasted = [cause for cause in every if cause["kind"] == "waste"]
    if must.read_all and wasted:
        yield f"everything cached was read, reported as waste: {_named(wasted)}"
    yield from _weighed(row)
    if lead is None:
        return
    place = None if must.request.compacted else PLACES.get(must.request.verdict)
    # Records of the log and verdicts of the provider are true whatever the level of the read.
    guessed = lead["evidence"]["type"] not in ("provider-said", "recorded") and lead["section"] != place
    if must.keeps_head and lead["section"] in HEAD and guessed:
        yield f"the read reaches the breakpoint before the last, but {_named([lead])} is in {lead['section']}"
    if must.misses_head and lead["section"] == "messages" and lead["kind"] != "expected" and guessed:
        yield f"the read ends before the messages, but {_named([lead])} is in messages"
    if place is not None and lead["section"] in PLACES.values() and not can_lead(lead, place):
        yield f"the provider reports {must.request.verdict}, but {_named([lead])} in {lead['section']} leads"
    bill = must.request.first_bill
    is_small = bill is not None and (lead["lost_tokens"] or 0) < max(128, 0.01 * bill.prompt_tokens)
    by_app = lead["name"] == "hook-text-moved" and lead["evidence"]["preview"]  # the client's own text
    is_excused = is_small or by_app or lead["name"] == "cache-expired"  # that could not be read, whatever changed
    if place is not None and lead["kind"] == "expected" and not must.request.compacted and not is_excused:
        yield f"the provider reports {must.request.verdict}, but {_named([lead])} is reported as expected"
    yield from _expired(must, lead)


def _weighed(row: dict[str, Any]) -> Iterator[str]:
    """Yield weak causes reported as waste, and verdicts that do not name the causes they contradict."""
    for cause in row["causes"]:
        if cause["kind"] == "waste" and cause["strength"] == "weak":
            yield f"{_named([cause])} is weak, but reported as waste"
        facts = [one["evidence"] for one in (cause, *cause["also"]) if one["evidence"] is not None]
        named = {code for fact in facts if fact["type"] == "provider-said" for code in fact["contradicts"]}
        if named != {one["code"] for one in cause["also"] if one["contradicted"]}:
            yield f"the verdict contradicts {sorted(named)}, but other causes are marked as contradicted"


def can_lead(lead: dict[str, Any], place: str) -> bool:
    """Return whether a cause may lead although a verdict names `place`: updates rewrite tools and system prompt."""
    both = lead["name"] in ("client-updated", "client-restarted", "session-changed")
    return lead["section"] == place or (both and place in HEAD)


def _expired(must: Expected, lead: dict[str, Any]) -> Iterator[str]:
    pause, lives = must.pause, must.lifetime
    if pause is None or lives is None:
        return
    if lead["code"] == "LORE128" and pause[1] <= lives:
        yield f"{_named([lead])}, though only {pause[1]:.0f} of {lives:.0f} s passed"
    if must.has_expired and must.read_nothing and must.request.verdict not in PLACES and lead["kind"] == "waste":
        yield f"{pause[0]:.0f} s passed, the cache lives {lives:.0f} s, but {_named([lead])} is reported as waste"


def _named(causes: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{cause['code']} {cause['name']}" for cause in causes) or "no cause"
