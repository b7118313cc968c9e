"""`lore replay`: the turns of a recording, sent to a server that the user names, beside what was predicted of it.

In: a recording, a server, layouts. Out: a capture a layout, and what `lore simulate` says of each: nothing is judged
here. Rules: one request at a time, in the order in which they were asked, gaps as recorded but shortened; each answer
is on disk before the next request goes out; a run goes on behind the last record that is whole, and a request that was
refused stands in none. Layouts are sent one after another, each under a salt of its own, so that none reads what
another wrote. Cost: O(bytes) of the recording a layout, twice, and memory of one request.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

from lore.cache import BYTES_PER_TOKEN, MILLION, DatedRules, Predictor, configured
from lore.endpoints import HttpAnswer
from lore.errors import LoreError
from lore.formats import ContentError, lacks_of, unpacked
from lore.model import ENGINES, LLAMA_CPP, SimulatedTurn, SimulateResult, table
from lore.recording import Opened, Options, Problems, is_same, show
from lore.report import not_in_logs
from lore.run import PACKAGED, Dated, SimulateRequest, Simulation, simulate_recordings
from lore_plugins.replay.captured import Captured, CaptureFile, capture_file, digest_of, line_of, salt_in, taken
from lore_plugins.replay.lines import SLOTS, notes_of
from lore_plugins.replay.plan import Layout, Looked, Planned, ReplayPlan
from lore_plugins.replay.results import LayoutComparison, Replayed, ReplayedLayout, ReplayEstimate
from lore_plugins.replay.sending import Sending
from lore_plugins.replay.server import Probed, Server, ServerRefusedError

NO_DIFFERENCE = 0.005  # of the shares that two layouts read: less is chance
_PART = re.compile(r"(\d+(?:\.\d+)?)(x|ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Pace(NamedTuple):
    """How gaps are shortened: so many times, and none longer than `most` seconds (None: any)."""

    factor: float = 1.0
    most: float | None = 1.0

    def of(self, gap: float) -> float:
        """Return the seconds to wait for a gap that was recorded."""
        shortened = max(0.0, gap) / self.factor
        return shortened if self.most is None else min(shortened, self.most)


def pace_of(text: str) -> Pace:
    """Read `10x`, `2s`, `500ms`, `0`, or both by a comma; raises LoreError for anything else."""
    factor, most = 1.0, None
    for part in text.split(","):
        found = _PART.fullmatch(part.strip().lower())
        if found is None or (found[2] == "x" and float(found[1]) == 0):
            hint = "10x (ten times as fast), 2s (no gap longer than two seconds), 0 (no gap), or 10x,2s"
            raise LoreError(f"--pace {text!r} is no pace", hint=hint)
        if found[2] == "x":
            factor = float(found[1])
        else:
            most = float(found[1]) * _UNITS[found[2]]
    return Pace(factor, most)


class ReplayRequest(NamedTuple):
    """What to replay, and how: `outputs` has a capture for each layout. `cache` overrides who serves the turns.

    `tell` is told what happens.
    """

    path: str
    layouts: tuple[Layout, ...]
    outputs: dict[str, str]
    options: Options
    rules: DatedRules
    dated: Dated = PACKAGED
    cache: str | None = None
    model: str | None = None
    max_tokens: int = 1
    pace: Pace = Pace()
    most: int | None = None
    resume: bool = False
    force: bool = False
    redact: bool = False
    tell: Callable[[str], None] = lambda _: None


class _Sent(NamedTuple):
    """A layout, what its plan comes to, what was sent of it."""

    plan: ReplayPlan
    looked: Looked
    capture: str
    same_as: str | None
    resumed: int = 0


class ReplayRun:
    """A replay: look at it first, then send it."""

    def __init__(self, request: ReplayRequest, server: Server) -> None:
        self._request, self._server = request, server
        self.probed, self.notes = Probed(), list[str]()
        if not all(layout.recorded for layout in request.layouts):
            name = request.options.open(request.path).reader.name
            lacks = lacks_of(name)
            self.notes += [not_in_logs([name], lacks)] if lacks else []
        self._plans = [self._plan(layout, "") for layout in request.layouts]
        self.looked: list[Looked] = [plan.look() for plan in self._plans]

    def _plan(self, layout: Layout, salt: str) -> ReplayPlan:
        request = self._request
        cache = (request.cache or "").partition(":")[0] or self.probed.cache or self._server.provider
        sending = Sending("", request.max_tokens, request.model, salt, cache)
        return ReplayPlan(request.path, request.options, layout, sending, request.most)

    def _distinct(self) -> Iterator[tuple[ReplayPlan, Looked, str | None]]:
        """Yield plans, each with the layout before it that sends the same bytes."""
        seen: dict[str, str] = {}
        for plan, looked in zip(self._plans, self.looked, strict=True):
            same = seen.setdefault(looked.digest, plan.layout.name)
            yield plan, looked, None if same == plan.layout.name else same

    def estimate(self) -> ReplayEstimate:
        """Predict what all requests come to, in tokens and money, without a word to the server."""
        requests, tokens, predicted, uncached = 0, 0, Decimal(0), Decimal(0)
        known = True
        for plan, looked, same in self._distinct():
            if same is not None:  # the same bytes are sent once
                continue
            requests += looked.requests
            lines = (line_of(self._record(planned, None)) for planned in plan.requests())
            first = next(lines, b"")
            recording = Options(counter=self._request.options.counter).open(
                self._request.path, Problems(), opened=Opened(first, chain((first,), lines))
            )
            count = self._request.options.counter
            predictor = Predictor(
                self._request.rules, self._request.cache, count=None if count is None else count.count
            )
            for played in Simulation(predictor, dated=self._request.dated).recording(recording):
                size, price, cost = played.result.predicted, played.paid.price, played.result.cost
                total = sum((size.read_tokens or 0, size.write_tokens or 0, size.uncached_tokens or 0))
                total = total or round(sum(len(part.data) for part in played.verdict.turn.prompt) / BYTES_PER_TOKEN)
                tokens += total
                if price is None or price.uncached is None or cost is None or cost.predicted is None:
                    known = False
                    continue
                predicted += Decimal(str(cost.predicted))
                uncached += price.uncached * total / MILLION
        money = (float(predicted), float(uncached)) if known and tokens else (None, None)
        return ReplayEstimate(requests=requests, prompt_tokens=tokens, dollars=money[0], dollars_uncached=money[1])

    def run(self, *, dry: bool = False, estimate: ReplayEstimate | None = None) -> Replayed:
        """Send what was not sent yet, and judge the captures. A second Ctrl-C is not waited for."""
        stopped: str | None = None
        interrupted, done = False, list[_Sent]()
        if not dry:
            self._refuse_taken()
            try:
                self._know_server()
                for plan, looked, same in list(self._distinct()):
                    capture = "" if same is not None else self._request.outputs[plan.layout.name]
                    done.append(_Sent(plan, looked, capture, same))
                    if same is None:
                        self._send(done)
            except ServerRefusedError as error:
                stopped = str(error)
            except KeyboardInterrupt:
                interrupted = True
        left = list(self._distinct())[len(done) :]
        done += [_Sent(plan, looked, "", same) for plan, looked, same in left]
        layouts = [self._layout(sent) for sent in done]
        comparison = compared(layouts)
        return Replayed(
            recording=show(self._request.path), server=self._server.shown, engine=self._engine or None,
            version=self.probed.version or None, cache=self._request.cache, layouts=layouts,
            reads_most=comparison.best if comparison is not None and comparison.lead >= NO_DIFFERENCE else None,
            comparison=comparison, estimate=estimate, stopped=stopped, interrupted=interrupted,
            notes=[*self.notes, *notes_of(layouts, self._engine, self.probed.slots)],
        )  # fmt: skip

    def _refuse_taken(self) -> None:
        """Raise LoreError for a capture that exists, before anything is sent."""
        for layout in self._request.layouts:
            path = self._request.outputs[layout.name]
            if is_same(path, self._request.path):
                raise LoreError(f"{show(path)} is what is being replayed", hint="name another --output")
            if os.path.lexists(path) and not (self._request.resume or self._request.force):
                raise taken(show(path))

    @property
    def _engine(self) -> str:
        """The engine that serves the turns, as the user says, else as the server says; empty where nobody knows."""
        cache = (self._request.cache or "").partition(":")[0] or self.probed.cache
        return cache if cache in ENGINES else ""

    def _know_server(self) -> None:
        """Ask the server what it is, and for which model, where the recording's own is none of its models."""
        request, server = self._request, self._server
        self.probed = server.probe()
        models, asked = self.probed.models, {model for looked in self.looked for model in looked.models}
        if request.model is None and len(models) == 1 and not asked <= set(models):
            self.notes.append(f"the server has one model: {models[0]} is asked instead of what was recorded")
            self._request = request._replace(model=models[0])
        several = len({looked.digest for looked in self.looked}) > 1
        self._plans = [
            self._plan(layout, self._salt(request.outputs[layout.name]) if several else "")
            for layout in request.layouts
        ]

    def _salt(self, capture: str) -> str:
        """Return 8 hex digits that keep a layout's cache apart from all others'; those of a capture that goes on."""
        return (salt_in(capture) if self._request.resume else "") or secrets.token_hex(4)

    def _send(self, done: list[_Sent]) -> None:
        """Send a layout; what was sent of it stands in the last of `done`, whatever happens."""
        sent, request = done[-1], self._request
        with ExitStack() as stack:
            file = stack.enter_context(capture_file(sent.capture, resume=request.resume, force=request.force))
            before = len(file.sent)
            done[-1] = sent._replace(resumed=before)
            if before > sent.looked.requests:
                self._other(file, sent.looked.requests)
            last: tuple[float, float] | None = None  # when the request before was asked, and when it went out
            for number, planned in enumerate(sent.plan.requests()):
                if number < before:
                    if file.sent[number] != digest_of(planned.sent.body):
                        self._other(file, number)
                    continue
                if last is not None and planned.at is not None:
                    time.sleep(max(0.0, last[1] + request.pace.of(planned.at - last[0]) - time.time()))
                answer = self._server.send(planned.sent, planned.dialect, planned.betas)
                file.append(self._record(planned, _readable(answer, self._server)))
                at = planned.at if planned.at is not None else last[0] if last is not None else None
                last = None if at is None else (at, answer.sent)
                request.tell(f"{number + 1:,} of {sent.looked.requests:,} requests, layout {sent.plan.layout.name}")

    def _other(self, file: CaptureFile, number: int) -> None:
        text = f"{file.shown} is of another replay: request {number + 1:,} differs"
        raise LoreError(text, hint="resume with the same recording and options, or name another --output")

    def _record(self, planned: Planned, answer: HttpAnswer | None) -> Captured:
        headers = {"content-type": "application/json"}
        if planned.betas:
            headers["anthropic-beta"] = ",".join(planned.betas)
        url = self._server.url(planned.sent.path).partition("?")[0]
        if answer is None:
            at = planned.at or 0.0
            return Captured(url, headers, planned.sent.body, at, 0, {}, b"", at, at, planned.turn, planned.chain)
        return Captured(
            url, headers, planned.sent.body, answer.sent, answer.status, answer.headers, answer.body, answer.began,
            answer.ended, planned.turn, planned.chain, self._engine, planned.salt,
        )  # fmt: skip

    def _layout(self, sent: _Sent) -> ReplayedLayout:
        """Return a layout with what `lore simulate` says of its capture."""
        plan, looked = sent.plan, sent.looked
        found = self._simulated(sent.capture) if sent.capture else None
        read = prompt = None
        if found is not None and found.turns:
            billed = found.totals.billed
            read = (
                billed.read_tokens
                if any(turn.billed and turn.billed.read_tokens is not None for turn in found.turns)
                else None
            )
            prompt = (billed.read_tokens or 0) + (billed.write_tokens or 0) + (billed.uncached_tokens or 0) or None
        return ReplayedLayout(
            name=plan.layout.name, dialect=looked.first,
            tail=None if plan.layout.recorded else plan.layout.tail or self._request.options.rules.tail,
            capture=show(sent.capture) if sent.capture else "", planned=looked.requests,
            requests=0 if found is None else len(found.turns), resumed=sent.resumed, skipped=looked.skipped,
            left_out=looked.left_out, unsent={} if self._request.redact else looked.unsent,
            assembled=not plan.layout.recorded, moved_turns=looked.moved.turns, moved_bytes=looked.moved.bytes,
            same_as=sent.same_as, prompt_tokens=prompt, read_tokens=read,
            read_share=None if read is None or not prompt else round(read / prompt, 4),
            computed_tokens=None if read is None or not prompt else prompt - read, simulated=found,
        )  # fmt: skip

    def _simulated(self, capture: str) -> SimulateResult | None:
        request = self._request
        cache = served_as(request.cache or self._engine, self.probed.slots)
        caches = (cache,) if request.cache or ":" in cache else ()
        asked = SimulateRequest([capture], caches, dated=request.dated, redact=request.redact)
        try:
            return next(simulate_recordings(asked, Options(counter=request.options.counter), request.rules), None)
        except LoreError:  # nothing was written yet
            return None


def _readable(answer: HttpAnswer, server: Server) -> HttpAnswer:
    """Return an answer whose body is text; raises RefusedError for one that is no JSON object."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-encoding", "retry-after")}
    try:
        body = unpacked(answer.body, answer.headers.get("content-encoding", ""))
    except ContentError as error:
        raise ServerRefusedError(f"{server.shown}: its answer cannot be read: {error}") from None
    if table(body.strip()) is None:
        raise ServerRefusedError(f"{server.shown} answers {answer.status} with what is no JSON object")
    return answer._replace(body=body.strip(), headers=headers)


def served_as(cache: str, slots: int | None) -> str:
    """Return a cache with the slots that its server says it has; four are what a server has if none are chosen."""
    name, options = configured(cache)
    if name != LLAMA_CPP or slots in (None, SLOTS) or "slots" in dict(options):
        return cache
    return f"{cache}{',' if options else ':'}slots={slots}"


def compared(layouts: list[ReplayedLayout]) -> LayoutComparison | None:
    """Compare the two layouts that read the largest shares; None where no two were sent whole and say it."""
    known = [layout for layout in layouts if layout.read_share is not None and layout.requests == layout.planned]
    if len(known) < 2 or len({layout.requests for layout in known}) > 1:
        return None
    first, second, *_ = sorted(known, key=lambda layout: -(layout.read_share or 0.0))
    turns = [layout.simulated.turns for layout in (first, second) if layout.simulated]  # each in an order of its own
    rows = [[_read_of(turn) for turn in sorted(side, key=lambda turn: (turn.chain, turn.turn))] for side in turns]
    every = range(len(rows[0]))
    leads = [_share(rows[0], left) - _share(rows[1], left) for left in every if len(every) > 1]
    lead = _share(rows[0]) - _share(rows[1])
    return LayoutComparison(
        best=first.name, next=second.name, lead=round(lead, 4), lead_least=round(min(leads, default=lead), 4),
        lead_most=round(max(leads, default=lead), 4),
        computes_least=min(known, key=lambda layout: layout.computed_tokens or 0).name,
    )  # fmt: skip


def _read_of(turn: SimulatedTurn) -> tuple[int, int]:
    """Return what a request read, and how large it was."""
    billed = turn.billed
    read = 0 if billed is None else billed.read_tokens or 0
    return read, read if billed is None else read + (billed.write_tokens or 0) + (billed.uncached_tokens or 0)


def _share(rows: list[tuple[int, int]], left_out: int = -1) -> float:
    kept = [row for at, row in enumerate(rows) if at != left_out]
    return sum(read for read, _ in kept) / max(1, sum(size for _, size in kept))
