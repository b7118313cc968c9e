"""Run a replay: send the turns of a recording to a server, write a capture per layout, and simulate each.

One request is sent at a time, in the recorded order, with shortened gaps; each answer is on disk before the next
request. A resumed run continues after the last whole record; refused requests are not recorded. Layouts are sent one
after another, each with its own salt, so that none reads what another wrote. Cost per layout: O(bytes of the
recording), twice, and memory for one request.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from lore.cache import BYTES_PER_TOKEN, MILLION, Predictor, parse_cache
from lore.endpoints import HttpAnswer
from lore.errors import LoreError
from lore.formats import ContentError, decompress, lacks_of
from lore.model import ENGINES, LLAMA_CPP, SimulateResult, raw_members
from lore.recording import Opened, Options, Problems, is_same, show
from lore.report import describe_missing
from lore.run import CheckContext, Dated, Simulation, simulate
from lore_plugins.replay.captured import CaptureFile, capture_file, digest_of, line_of
from lore_plugins.replay.lines import SLOTS, notes_of
from lore_plugins.replay.plan import PlannedRequest, PromptLayout, ReplayPlan, parse_layouts
from lore_plugins.replay.results import Replayed, ReplayedLayout, ReplayEstimate
from lore_plugins.replay.sending import Sending
from lore_plugins.replay.server import Probed, Server, ServerRefusedError

if TYPE_CHECKING:
    from lore_plugins.replay.command import ReplayOptions

NO_DIFFERENCE = 0.005  # of two layouts' shares: a smaller one may be chance
_PART = re.compile(r"(\d+(?:\.\d+)?)(x|ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


class Pace(NamedTuple):
    """How recorded gaps are shortened."""

    factor: float = 1.0
    most: float | None = 1.0  # seconds; None: unlimited

    def shorten(self, gap: float) -> float:
        """Return the seconds to wait for a recorded gap."""
        shortened = max(0.0, gap) / self.factor
        return shortened if self.most is None else min(shortened, self.most)


def parse_pace(text: str) -> Pace:
    """Parse `10x`, `2s`, `500ms`, `0`, or `10x,2s`; raise LoreError for anything else."""
    factor, most = 1.0, None
    for part in text.split(","):
        match = _PART.fullmatch(part.strip().lower())
        if match is None or (match[2] == "x" and float(match[1]) == 0):
            hint = "10x (ten times as fast), 2s (no gap longer than two seconds), 0 (no gap), or 10x,2s"
            raise LoreError(f"--pace {text!r} is invalid", hint=hint)
        if match[2] == "x":
            factor = float(match[1])
        else:
            most = float(match[1]) * _UNITS[match[2]]
    return Pace(factor, most)


class ReplayRun:
    """A replay: first summarised, then estimated or sent; `tell` receives progress."""

    def __init__(
        self, options: ReplayOptions, opening: Options, dated: Dated, server: Server, tell: Callable[[str], None]
    ) -> None:
        self._options, self._opening, self._dated, self._server, self._tell = options, opening, dated, server, tell
        recording = opening.open(options.recording)
        layouts = parse_layouts(options.layouts, options.dialect, recording)
        self._model = options.model
        self._pace = parse_pace(options.pace or ("1s" if server.near else "5s"))
        self.probed, self.notes = Probed(), list[str]()
        if not all(layout.recorded for layout in layouts):
            lacks = lacks_of(recording.reader.name)
            self.notes += [describe_missing([recording.reader.name], lacks)] if lacks else []
        self.plans = [
            ReplayPlan(options.recording, opening, layout, self._sending(), options.turns) for layout in layouts
        ]
        first_layouts: dict[str, str] = {}
        for plan in self.plans:
            plan.summarise()
            equal_layout = first_layouts.setdefault(plan.digest, plan.layout.name)
            if equal_layout != plan.layout.name:
                plan.result = replace(plan.result, same_as=equal_layout)
        self._outputs = _outputs(options.output, layouts)

    def _sending(self, salt: str = "") -> Sending:
        cache = (self._options.cache or "").partition(":")[0] or self.probed.cache or self._server.provider
        return Sending("", self._options.max_tokens, self._model, salt, cache)

    def estimate(self) -> ReplayEstimate:
        """Estimate the tokens and dollars of all requests, without contacting the server."""
        requests, tokens, predicted, uncached = 0, 0, Decimal(0), Decimal(0)
        is_priced = True
        for plan in self.plans:
            if plan.result.same_as is not None:
                continue
            requests += plan.result.planned
            lines = (line_of(request, self._url(request), None) for request in plan.requests())
            first = next(lines, b"")
            recording = Options(counter=self._opening.counter).open(
                self._options.recording, Problems(), opened=Opened(first, chain((first,), lines))
            )
            counter = self._opening.counter
            count = None if counter is None else counter.count
            predictor = Predictor(self._dated.rules(), self._options.cache, count=count)
            for played in Simulation(predictor, dated=self._dated).recording(recording):
                size, price, cost = played.result.predicted, played.paid.price, played.result.cost
                total = sum((size.read_tokens or 0, size.write_tokens or 0, size.uncached_tokens or 0))
                total = total or round(sum(len(part.data) for part in played.verdict.turn.prompt) / BYTES_PER_TOKEN)
                tokens += total
                if price is None or price.uncached is None or cost is None or cost.predicted is None:
                    is_priced = False
                    continue
                predicted += Decimal(str(cost.predicted))
                uncached += price.uncached * total / MILLION
        money = (float(predicted), float(uncached)) if is_priced and tokens else (None, None)
        return ReplayEstimate(requests=requests, prompt_tokens=tokens, dollars=money[0], dollars_uncached=money[1])

    def run(self, *, dry: bool = False, estimate: ReplayEstimate | None = None) -> Replayed:
        """Send the requests that were not sent yet, unless `dry`, and return the result with all captures simulated."""
        stopped: str | None = None
        interrupted = False
        if not dry:
            self._require_free_outputs()
            try:
                self._probe_server()
                for plan in self.plans:
                    if plan.result.same_as is None:
                        plan.capture = self._outputs[plan.layout.name]
                        self._send(plan)
            except ServerRefusedError as error:
                stopped = str(error)
            except KeyboardInterrupt:
                interrupted = True
        layouts = [self._layout_result(plan) for plan in self.plans]
        return Replayed(
            recording=show(self._options.recording), server=self._server.label, engine=self._engine or None,
            version=self.probed.version or None, cache=self._options.cache, layouts=layouts,
            reads_most=best_layout(layouts), estimate=estimate, stopped=stopped, interrupted=interrupted,
            notes=[*self.notes, *notes_of(layouts, self._engine, self.probed.slots)],
        )  # fmt: skip

    def _require_free_outputs(self) -> None:
        """Raise LoreError for a capture that exists, before anything is sent."""
        for path in self._outputs.values():
            if is_same(path, self._options.recording):
                raise LoreError(f"{show(path)} is the recording itself", hint="name another --output")
            if os.path.lexists(path) and not (self._options.resume or self._options.force):
                hint = "continue it with --resume, overwrite it with --force, or name another --output"
                raise LoreError(f"{show(path)} exists", hint=hint)

    @property
    def _engine(self) -> str:
        """The engine that serves the turns: that of --cache, else the probed one, "" if unknown."""
        cache = (self._options.cache or "").partition(":")[0] or self.probed.cache
        return cache if cache in ENGINES else ""

    def _probe_server(self) -> None:
        """Find out the server's engine, and use its only model if it lacks a recorded one."""
        self.probed = self._server.probe()
        models, recorded_models = self.probed.models, {model for plan in self.plans for model in plan.models}
        if self._model is None and len(models) == 1 and not recorded_models <= set(models):
            self.notes.append(f"the server's only model, {models[0]}, replaces the recorded one")
            self._model = models[0]

    def _send(self, plan: ReplayPlan) -> None:
        """Send the requests of a layout that its capture does not hold yet."""
        with capture_file(plan.capture, resume=self._options.resume, force=self._options.force) as file:
            before, planned = len(file.digests), plan.result.planned
            plan.resumed = before
            if before > planned:
                raise _other_capture_error(file, planned)
            several = len({plan.digest for plan in self.plans}) > 1  # a salt separates their caches
            plan.sending = self._sending((file.salt or secrets.token_hex(4)) if several else "")
            last: tuple[float, float] | None = None  # the previous request: its recorded time, and when it was sent now
            for number, request in enumerate(plan.requests()):
                if number < before:
                    if file.digests[number] != digest_of(request.payload.body):
                        raise _other_capture_error(file, number)
                    continue
                if last is not None and request.at is not None:
                    time.sleep(max(0.0, last[1] + self._pace.shorten(request.at - last[0]) - time.time()))
                answer = self._server.send(request.payload, request.dialect, request.betas)
                file.append(request, self._url(request), _unpack_answer(answer, self._server), self._engine)
                at = request.at if request.at is not None else last[0] if last is not None else None
                last = None if at is None else (at, answer.sent_at)
                self._tell(f"{number + 1:,} of {planned:,} requests, layout {plan.layout.name}")

    def _url(self, request: PlannedRequest) -> str:
        return self._server.url(request.payload.path).partition("?")[0]

    def _layout_result(self, plan: ReplayPlan) -> ReplayedLayout:
        """Return the result of a layout, with its capture simulated."""
        simulation = self._simulate(plan.capture) if plan.capture else None
        read = prompt = None
        if simulation is not None and simulation.turns:
            billed = simulation.totals.billed
            is_reported = any(turn.billed and turn.billed.read_tokens is not None for turn in simulation.turns)
            read = billed.read_tokens if is_reported else None
            prompt = (billed.read_tokens or 0) + (billed.write_tokens or 0) + (billed.uncached_tokens or 0) or None
        return replace(
            plan.result, capture=show(plan.capture) if plan.capture else "", resumed=plan.resumed,
            requests=0 if simulation is None else len(simulation.turns),
            unsent={} if self._options.redact else plan.result.unsent, prompt_tokens=prompt, read_tokens=read,
            read_share=None if read is None or not prompt else round(read / prompt, 4),
            computed_tokens=None if read is None or not prompt else prompt - read, simulated=simulation,
        )  # fmt: skip

    def _simulate(self, capture: str) -> SimulateResult | None:
        cache = set_slots(self._options.cache or self._engine, self.probed.slots)
        caches = (cache,) if self._options.cache or ":" in cache else ()
        options = Options(counter=self._opening.counter)
        context = CheckContext(options=options, dated=self._dated, redact=self._options.redact)
        try:
            return next(simulate([capture], context, caches=caches), None)
        except LoreError:  # nothing was written yet
            return None


def _outputs(output: str | None, layouts: Sequence[PromptLayout]) -> dict[str, str]:
    """Return the capture of each layout by its name, which is part of the file name if there are several."""
    name = output or time.strftime("replay-%Y-%m-%dT%H-%M-%SZ.jsonl", time.gmtime())
    if len(layouts) == 1:
        return {layouts[0].name: name}
    stem, end = os.path.splitext(name)
    return {layout.name: f"{stem}.{layout.name.replace(':', '-')}{end}" for layout in layouts}


def _other_capture_error(file: CaptureFile, number: int) -> LoreError:
    text = f"{file.label} is of another replay: request {number + 1:,} differs"
    return LoreError(text, hint="resume with the same recording and options, or name another --output")


def _unpack_answer(answer: HttpAnswer, server: Server) -> HttpAnswer:
    """Return an answer with an unpacked body; raise ServerRefusedError if it is not a JSON object."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-encoding", "retry-after")}
    try:
        body = decompress(answer.body, answer.headers.get("content-encoding", ""))
    except ContentError as error:
        raise ServerRefusedError(f"{server.label}: its answer cannot be read: {error}") from None
    if raw_members(body.strip()) is None:
        raise ServerRefusedError(f"{server.label} answers {answer.status} without a JSON object")
    return answer._replace(body=body.strip(), headers=headers)


def set_slots(cache: str, slots: int | None) -> str:
    """Return a cache model with the number of slots that its server reports; unchanged for the default of four."""
    name, options = parse_cache(cache)
    if name != LLAMA_CPP or slots in (None, SLOTS) or "slots" in dict(options):
        return cache
    return f"{cache}{',' if options else ':'}slots={slots}"


def best_layout(layouts: list[ReplayedLayout]) -> str | None:
    """Return the layout with the largest read share; None if none leads, or not all that report it were sent whole."""
    shares = sorted([(layout.read_share, layout.name) for layout in layouts if layout.read_share is not None])
    counts = {(layout.requests, layout.planned) for layout in layouts if layout.read_share is not None}
    is_whole = all(sent == planned for sent, planned in counts) and len(counts) == 1
    return shares[-1][1] if len(shares) > 1 and is_whole and shares[-1][0] - shares[-2][0] >= NO_DIFFERENCE else None
