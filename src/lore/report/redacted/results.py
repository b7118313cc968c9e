"""Sessions that were found, plays of caches and of compactions, without content.

Rules: those of `redacted.py`. Causes were made without content. What lore says in its own words stays, but for names of
models that are not public, of tools and of hosts, which become hashes and lengths; so do folders of projects and ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import UnsetType
from msgspec.structs import replace

from lore.model.codes import Code
from lore.model.ledger import Ledger, LedgerRow
from lore.model.results.found import FoundSession, FoundSessions
from lore.model.results.measured import PROCESS, MeasuredResult
from lore.model.results.overview import ComparedSide, Comparison, Overview, SpendingCause
from lore.model.results.replay import Replayed
from lore.model.results.simulate import DryRun, GroupResult, ReliabilityResult, Simulated, SimulatedTurn
from lore.model.running import Running
from lore.report.redacted.findings import (
    digest,
    is_own,
    redacted_chain,
    redacted_model,
    redacted_problem,
    redacted_verdict,
    short_hash,
)
from lore.report.sentences.spending import cause_in_words

_CLIENT = re.compile(r"[a-z][a-z-]{0,30}( \d[\d.]{0,20})?")  # its name, and the number of a release
_OF_TOOLS = "no price is known for the provider's tools"


def redacted_simulated(result: Simulated) -> Simulated:
    """Return a play of a cache without content."""
    models = {turn.model for turn in result.turns if turn.model is not None}
    return replace(
        result, turns=list(map(redacted_turn, result.turns)), groups=list(map(_group, result.groups)),
        reliability=list(map(_reliability, result.reliability)), notes=list(_notes(result.notes, models)),
        problems=list(map(redacted_problem, result.problems)), measured=_measured(result.measured),
    )  # fmt: skip


def _measured(result: MeasuredResult | UnsetType) -> MeasuredResult | UnsetType:
    if not isinstance(result, MeasuredResult):
        return result
    return replace(
        result, rows=[replace(row, chain=redacted_chain(row.chain)) for row in result.rows],
        logs=[replace(log, server=_server(log.server)) for log in result.logs],
    )  # fmt: skip


def _server(name: str) -> str:
    return name if not name or name.startswith(PROCESS) else digest(name)


def redacted_replayed(result: Replayed) -> Replayed:
    """Return a replay without content: its own words name no more than parameters of requests."""
    layouts = [
        replace(layout, simulated=None if layout.simulated is None else redacted_simulated(layout.simulated))
        for layout in result.layouts
    ]
    return replace(result, layouts=layouts)


def redacted_turn(turn: SimulatedTurn) -> SimulatedTurn:
    """Return a turn without content; its causes were made without."""
    return replace(
        turn, chain=redacted_chain(turn.chain) or turn.chain, model=_model(turn.model),
        verdict=None if turn.verdict is None else redacted_verdict(turn.verdict),
    )  # fmt: skip


def _group(group: GroupResult) -> GroupResult:
    return replace(group, name=_NAMES[group.by](group.name)) if group.by in _NAMES else group


def _reliability(row: ReliabilityResult) -> ReliabilityResult:
    return replace(row, name=_NAMES[row.by](row.name)) if row.by in _NAMES else row


_NAMES = {"model": redacted_model, "project": digest, "gateway": digest}


def _notes(notes: Iterable[str], models: set[str]) -> Iterator[str]:
    """Yield notes with the names of public models, of no tools."""
    odd = [(model, redacted_model(model)) for model in models if redacted_model(model) != model]
    for note in notes:
        if note.startswith(_OF_TOOLS):
            yield f"{_OF_TOOLS}: {digest(note)}"
            continue
        shown = note
        for model, hidden in odd:
            shown = shown.replace(model, hidden)
        yield shown


def redacted_cause(cause: SpendingCause) -> SpendingCause:
    """Return what a cause cost, before it is worded, without what it names but models."""
    name = redacted_model if cause.code == Code.MODEL_CHANGED else digest
    return replace(cause, names=list(map(name, cause.names)))


def redacted_overview(result: Overview) -> Overview:
    """Return what was spent without names that logs give: of projects, of what a cause names."""
    causes, unexplained, before = (
        [cause_in_words(redacted_cause(cause)) for cause in found]
        for found in (result.causes, result.unexplained, result.before_causes)
    )
    groups = [
        replace(group, name=_NAMES[result.by](group.name)) if result.by in _NAMES else group for group in result.groups
    ]
    biggest = result.biggest
    if biggest is not None and biggest.project is not None:
        biggest = replace(biggest, project=digest(biggest.project))
    return replace(
        result, causes=causes, unexplained=unexplained, before_causes=before, groups=groups, biggest=biggest,
        failed=list(map(digest, result.failed)),
    )  # fmt: skip


def redacted_comparison(result: Comparison) -> Comparison:
    """Return two sides without names that logs give, of models that are not public, of clients that look like none.

    Sides are called as they were typed; causes hold no names.
    """
    return replace(
        result, left=_compared_side(result.left), right=_compared_side(result.right),
        failed=list(map(digest, result.failed)), notes=list(map(digest, result.notes)),
    )  # fmt: skip


def _compared_side(side: ComparedSide) -> ComparedSide:
    clients = [name if _CLIENT.fullmatch(name) else digest(name) for name in side.clients]
    return replace(side, clients=clients, models=list(map(redacted_model, side.models)))


def redacted_ledger(ledger: Ledger) -> Ledger:
    """Return a ledger without names that logs give: of projects, sessions, hosts, responses, of what a cause names."""
    message = ledger.message if ledger.message is None or is_own(ledger.message) else digest(ledger.message)
    return replace(
        ledger, project=None if ledger.project is None else digest(ledger.project), message=message,
        session=short_hash(ledger.session) if ledger.session else "", rows=tuple(map(_ledger_row, ledger.rows)),
    )  # fmt: skip


def _ledger_row(row: LedgerRow) -> LedgerRow:
    loss = row.loss
    if loss is not None:
        name = redacted_model if loss.code == Code.MODEL_CHANGED else digest
        loss = replace(loss, names=tuple(map(name, loss.names)))
    return replace(
        row, chain=redacted_chain(row.chain) or row.chain, model=_model(row.model), loss=loss,
        client=row.client if _CLIENT.fullmatch(row.client) else digest(row.client), gateway=digest(row.gateway),
        response_id=short_hash(row.response_id) if row.response_id else "",
    )  # fmt: skip


def redacted_dry_run(result: DryRun) -> DryRun:
    """Return a policy that was tried on a recording without content."""
    return replace(result, problems=list(map(redacted_problem, result.problems)))


def redacted_running(running: Running) -> Running:
    """Return a running session without the names that its last break, its model and its log give."""
    last = running.last_break
    return running._replace(
        model=_model(running.model), session=short_hash(running.session) if running.session else "",
        response=short_hash(running.response) if running.response else "",
        last_break=None if last is None else last._replace(says=last.plain),
    )  # fmt: skip


def redacted_sessions(result: FoundSessions) -> FoundSessions:
    """Return what agents keep without the projects and ids that logs name; where the logs lie stays."""
    return replace(result, sessions=list(map(_session, result.sessions)), failed=list(map(digest, result.failed)))


def _session(row: FoundSession) -> FoundSession:
    message = row.message if row.message is None or is_own(row.message) else digest(row.message)
    return replace(
        row, project=None if row.project is None else digest(row.project), model=_model(row.model), message=message,
        session_id=None if row.session_id is None else short_hash(row.session_id),
    )  # fmt: skip


def _model(name: str | None) -> str | None:
    return None if name is None else redacted_model(name)
